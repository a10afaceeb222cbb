"""CSV and JSON files as a source.

What DuckDB detects about such files (dialect, columns, types, formats of dates) is detected once, over all of
the content, and written into every scan: reading a split must never come to another conclusion.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import groupby

import duckdb
import pyarrow as pa

from qoop.catalog.access import Places
from qoop.catalog.errors import SourceError
from qoop.catalog.sources.file_stamp import File, Stamp, check_content, content_digest, content_file
from qoop.catalog.sources.files import (
    hive_columns,
    hive_digest,
    hive_keys,
    hive_options,
    no_rows,
    sql_name,
    sql_path,
    sql_string,
)
from qoop.catalog.sources.probe import describe, reason
from qoop.catalog.table import Columns, Footer, Range, Split
from qoop.catalog.value import value

# Up to this many bytes all rows decide about types; beyond it DuckDB's own sample does, as it costs seconds.
_SNIFF_BYTES = 1 << 28

_PACKED = (".gz", ".zst")
_SPECIAL = ("quote", "escape", "comment")


@value
class TextFile:
    """One file, its rows, and how to read it: function and options of DuckDB, and the types it is read with."""

    file: File
    rows: int
    function: str
    options: str
    columns: Columns


@value
class TextSource:
    """CSV or JSON files that together are one table; a file is the smallest piece."""

    files: tuple[TextFile, ...]
    partitions: Columns = ()

    compactions = ()
    compactable = False
    shared = True

    @cached_property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def digest(self) -> str:
        """Digest of content, way of reading and hive values, in the order of the files."""
        return repr([self._identity(item) for item in self.files])

    def _identity(self, item: TextFile) -> tuple[object, ...]:
        return item.file.digest, item.function, item.options, hive_digest(self.partitions, item.file.path)

    def identities(self) -> Mapping[str, str]:
        """The same by path."""
        return {item.file.path: repr(self._identity(item)) for item in self.files}

    def only(self, paths: Collection[str]) -> TextSource:
        """Its files at these paths."""
        return replace(self, files=tuple(item for item in self.files if item.file.path in paths))

    @cached_property
    def stamps(self) -> Mapping[str, Stamp]:
        """Those of its files, by path."""
        return {item.file.path: item.file.stamp for item in self.files}

    def file_rows(self) -> Mapping[str, int]:
        """The rows of each file, by path."""
        return {item.file.path: item.rows for item in self.files}

    def pieces(self) -> tuple[Range, ...]:
        """One range per file that has rows."""
        return tuple(Range(item.file.path, 0, item.rows, whole=True) for item in self.files if item.rows)

    def check(self, split: Split | None) -> None:
        """Compare the content of the files (of the split) with that registered. Files of equal stamps are not read."""
        for item in self._of(split):
            check_content(item.file, "content", content_digest)

    def scan(self, columns: Columns, split: Split | None) -> str | pa.Table:
        """One SELECT per way of reading."""
        parts = [
            _select(list(group), columns, self.partitions)
            for _, group in groupby(self._of(split), key=lambda item: (item.options, item.columns))
        ]
        return "\nUNION ALL ".join(parts) if parts else no_rows(columns)

    def sample(self, columns: Columns, one_in: int) -> str | pa.Table:
        """Rows at random: text has no row numbers, and reading it in order would take all threads but one."""
        scan = self.scan(columns, None)
        return f"SELECT * FROM ({scan}) USING SAMPLE {100 / one_in:.6f}% (bernoulli, 0)"

    def extremes(self, names: Sequence[str]) -> Mapping[str, tuple[object, object]]:
        """None are known without a scan."""
        return {}

    def footers(self) -> Sequence[Footer]:
        """It has none."""
        return ()

    def places(self) -> Places:
        """The places that must be opened to read it."""
        return Places([item.file.path for item in self.files])

    def attach(self) -> None:
        """Nothing to attach."""
        return

    def _of(self, split: Split | None) -> Iterable[TextFile]:
        if split is None:
            return self.files
        paths = {item.file for item in split.ranges}
        return [item for item in self.files if item.file.path in paths]


def open_csv(cursor: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> tuple[Columns, TextSource]:
    """Columns and source of CSV files. Raises SourceError, or what DuckDB raises.

    Detection over all rows takes DuckDB one thread and 10 s for 130 MB. So it detects over its sample, and all threads
    check that the other rows fit. If some do not, detection runs over all rows.
    """
    with contextlib.suppress(SourceError, duckdb.Error):  # Unlike, or an error that a full detection explains better
        if _few_bytes(paths) and not any(path.endswith(_PACKED) for path in paths):
            return _open(cursor, paths, "read_csv", _csv_reader, "", _count_checked)
    return _open(cursor, paths, "read_csv", _csv_reader, _sampling(paths), _count_lines)


def open_json(cursor: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> tuple[Columns, TextSource]:
    """Columns and source of JSON files: lines, or one array. Raises SourceError, or what DuckDB raises."""
    columns, source = _open(cursor, paths, "read_json", _json_reader, _sampling(paths))
    _check_keys(cursor, columns, source, paths)
    _check_dates(cursor, columns, source)
    return columns, source


@value
class TextFormat:
    """The format of one file.

    columns: with the types that they are read with; detected: with those that were found. formats: of dates and
    timestamps, by type, where they were found. marks: for quotes, escapes and comments. heads: lines before the rows,
    where each other line is a row unless it holds one of the marks.
    """

    columns: Columns
    options: str
    detected: Columns = ()
    formats: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    heads: int | None = None


_Count = Callable[[duckdb.DuckDBPyConnection, TextFile, TextFormat, Columns], int]
_Reader = Callable[[duckdb.DuckDBPyConnection, str, Columns, str], TextFormat]


def _count(cursor: duckdb.DuckDBPyConnection, file: TextFile, layout: TextFormat, partitions: Columns) -> int:
    """The number of rows."""
    [(rows,)] = cursor.execute(f"SELECT count(*) FROM ({_select([file], file.columns[:1], partitions)})").fetchall()
    return int(rows)


def _count_lines(cursor: duckdb.DuckDBPyConnection, file: TextFile, layout: TextFormat, partitions: Columns) -> int:
    """The number of rows, by the ends of lines where these tell it."""
    from qoop.catalog.sources.lines import plain_lines  # for CSV alone

    if layout.heads is not None and not file.file.path.endswith(_PACKED):
        lines = plain_lines(file.file.path, [mark.encode() for mark in layout.marks])
        if lines is not None:
            return max(0, lines - layout.heads)
    return _count(cursor, file, layout, partitions)


def _count_checked(cursor: duckdb.DuckDBPyConnection, file: TextFile, layout: TextFormat, partitions: Columns) -> int:
    """The number of rows. Raises Unlike if some of them are not like those that were looked at."""
    from qoop.catalog.sources.csv_sample import (  # for CSV alone
        SAMPLE,
        Unlike,
        empty_in_sample,
        has_other_marks,
        unlike,
    )

    texts = tuple((name, "VARCHAR") for name, _ in file.columns)
    scan = _select([replace(file, columns=texts)], texts, partitions)
    items = ", ".join(["count(*)", *unlike(layout.detected, layout.formats)])
    [(rows, *others)] = cursor.execute(f"SELECT {items} FROM ({scan})").fetchall()
    if rows <= SAMPLE:
        return int(rows)
    items = ", ".join(["count(*)", *empty_in_sample(layout.detected)])
    [counts] = cursor.execute(f"SELECT {items} FROM ({scan} LIMIT {SAMPLE})").fetchall()
    if any(others) or not all(counts) or has_other_marks(file.file.path, "".join(layout.marks)):
        raise Unlike(f"{file.file.path} has rows that do not fit the types of its first {SAMPLE:,}")
    return int(rows)


def _open(
    cursor: duckdb.DuckDBPyConnection,
    paths: Sequence[str],
    function: str,
    reader: _Reader,
    sampling: str,
    count: _Count = _count,
) -> tuple[Columns, TextSource]:
    files = [content_file(path, "content", content_digest) for path in paths]
    columns = describe(cursor, f"SELECT * FROM {_detected(function, paths, sampling)}")
    partitions = hive_columns(columns, paths)
    own = tuple(column for column in columns if column not in partitions)
    opened = []
    for file in files:
        layout = reader(cursor, file.path, own, sampling)
        empty = TextFile(file, 0, function, layout.options, layout.columns)
        opened.append(replace(empty, rows=count(cursor, empty, layout, partitions)))
    return columns, TextSource(tuple(opened), partitions)


def _detected(function: str, paths: Sequence[str], sampling: str) -> str:
    """The call that reads files with the columns that DuckDB finds in them."""
    return f"{function}([{', '.join(map(sql_path, paths))}], union_by_name = true{sampling})"


def _sampling(paths: Sequence[str]) -> str:
    return ", sample_size = -1" if _few_bytes(paths) else ""


def _few_bytes(paths: Sequence[str]) -> bool:
    return sum(os.path.getsize(path) for path in paths) <= _SNIFF_BYTES


def _csv_reader(cursor: duckdb.DuckDBPyConnection, path: str, columns: Columns, sampling: str) -> TextFormat:
    found = cursor.execute(
        "SELECT delimiter, quote, escape, newlinedelimiter, comment, skiprows, hasheader, columns, dateformat, "
        f"timestampformat FROM sniff_csv({sql_path(path)}{sampling})"
    ).fetchall()
    if not found:
        raise SourceError(f"the CSV dialect of {path} cannot be detected")
    *marks, skip, header, sniffed, dates, timestamps = found[0]
    found_types = tuple((item["name"], item["type"]) for item in sniffed)
    types = dict(columns)
    read_as = _types_to_read(found_types, types, path)
    detected = tuple(column for column in found_types if column[0] in types)
    names = ("delim", "quote", "escape", "new_line", "comment")
    options = [
        f"{name} = {sql_string('' if mark == '(empty)' else mark)}" for name, mark in zip(names, marks, strict=True)
    ]
    options += [f"skip = {skip}", f"header = {'true' if header else 'false'}"]
    options += [f"dateformat = {sql_string(dates)}"] if dates else []
    options += [f"timestampformat = {sql_string(timestamps)}"] if timestamps else []
    formats = {type_: found for type_, found in (("DATE", dates), ("TIMESTAMP", timestamps)) if found}
    special = tuple(mark for name, mark in zip(names, marks, strict=True) if name in _SPECIAL and mark != "(empty)")
    heads = int(header) if marks[3] == "\\n" and not skip else None
    return TextFormat(read_as, ", ".join(["auto_detect = false", *options]), detected, formats, special, heads)


def _types_to_read(sniffed: Sequence[tuple[str, str]], types: dict[str, str], path: str) -> Columns:
    """A file's own columns with the table's types; dates among timestamps are read in their own format, then cast.
    Values of a column that is a key of the file's folders as well are not read, so they may be any texts."""
    keys = {key.lower() for key, _ in hive_keys(path)}
    names = [name for name, _ in sniffed]
    if set(types) != {name for name in names if name in types or name.lower() not in keys}:
        raise SourceError(f"{path} has the columns {', '.join(names)}, but its table has {', '.join(types)}")

    def read_as(name: str, own: str) -> str:
        type_ = types.get(name, "VARCHAR")
        return own if own == "DATE" and type_.startswith("TIMESTAMP") else type_

    return tuple((name, read_as(name, own)) for name, own in sniffed)


def _json_reader(cursor: duckdb.DuckDBPyConnection, path: str, columns: Columns, sampling: str) -> TextFormat:
    return TextFormat(columns, "format = 'auto', records = 'auto'")


def _check_keys(cursor: duckdb.DuckDBPyConnection, columns: Columns, source: TextSource, paths: Sequence[str]) -> None:
    """Refuse keys that differ in case alone: DuckDB calls the second one `A_1`, and finds no such key by its name."""
    names = [name.lower() for name, _ in columns]
    renamed = []
    for place, column in enumerate(columns):
        first, _, number = column[0].lower().rpartition("_")
        if number.isdigit() and first in names[:place]:
            renamed.append(column)
    if renamed:
        items = ", ".join(f"count({sql_name(name)})" for name, _ in renamed)
        scans = source.scan(tuple(renamed), None), f"FROM {_detected('read_json', paths, _sampling(paths))}"
        by_name, as_found = (cursor.execute(f"SELECT {items} FROM ({scan})").fetchall() for scan in scans)
        if by_name != as_found:
            raise SourceError(
                f"{', '.join(paths)} has keys that differ in case alone, which are the columns "
                f"{', '.join(name for name, _ in renamed)}: FROM read_json('…', union_by_name = true) reads them"
            )


def _check_dates(cursor: duckdb.DuckDBPyConnection, columns: Columns, source: TextSource) -> None:
    """Refuse dates in forms that DuckDB detects but does not take as an option: better now than in mid-query."""
    dates = tuple(
        column for column in columns if column[1].startswith(("DATE", "TIME")) and column not in source.partitions
    )
    for item in source.files if dates else ():
        items = ", ".join(f"max({sql_name(name)})" for name, _ in dates)
        try:
            cursor.execute(f"SELECT {items} FROM ({_select([item], dates, source.partitions)})").fetchall()
        except duckdb.Error as error:
            raise SourceError(f"{item.file.path} holds dates that are not in ISO form: {reason(error)}") from error


def _select(files: Sequence[TextFile], columns: Columns, partitions: Columns) -> str:
    first = files[0]
    read_as = dict(first.columns)
    names = ", ".join(
        sql_name(name)
        if read_as.get(name, type_) == type_
        else f"CAST({sql_name(name)} AS {type_}) AS {sql_name(name)}"
        for name, type_ in columns
    )
    types = ", ".join(f"{sql_string(name)}: {sql_string(type_)}" for name, type_ in first.columns)
    listed = ", ".join(sql_path(item.file.path) for item in files)
    options = f"{first.options}, columns = {{{types}}}, {hive_options(partitions, first.file.path)}"
    return f"SELECT {names} FROM {first.function}([{listed}], {options})"
