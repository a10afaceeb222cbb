"""Tables: a name, a schema and a version over a source that can be read in splits.

A :class:`Table` is immutable and pinned to the rows of its source at registration. `check` fails when the source has
other rows, so a plan can never mix two states of one table. Changed files make another Table, of another version; see
:meth:`qoop.catalog.catalog.Catalog.refresh`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, TypeGuard, TypeVar, runtime_checkable

from qoop.catalog.access import Access, Places
from qoop.catalog.errors import CatalogError
from qoop.catalog.stores.objects import without_options
from qoop.catalog.value import value

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


Columns = tuple[tuple[str, str], ...]

Item = TypeVar("Item")


@value
class Range:
    """Rows `first` … `first + rows - 1` of one file; `file` is empty where a table is not made of files.

    whole: the range is all of the file.
    """

    file: str
    first: int
    rows: int
    whole: bool = False

    def __str__(self) -> str:
        name = without_options(self.file).rsplit("/", 1)[-1]
        return name if self.whole and name else f"{name}[{self.first}:{self.first + self.rows}]"


@value
class Split:
    """The rows that one task reads: ranges in the order of the table, none if there are not enough for all."""

    ranges: tuple[Range, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(item.rows for item in self.ranges)

    def __str__(self) -> str:
        return " + ".join(map(str, self.ranges)) or "no rows"


def joined(ranges: Sequence[Range]) -> list[Range]:
    """The same rows in as few ranges as possible: neighbours become one.

    >>> joined([Range("f", 0, 5), Range("f", 5, 5), Range("f", 20, 5)])
    [Range(file='f', first=0, rows=10, whole=False), Range(file='f', first=20, rows=5, whole=False)]
    """
    result: list[Range] = []
    for item in ranges:
        last = result[-1] if result else None
        if last is not None and (last.file, last.first + last.rows) == (item.file, item.first):
            result[-1] = Range(item.file, last.first, last.rows + item.rows)
        else:
            result.append(item)
    return result


def spread(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most that number of the items, evenly spread, the first and the last among them.

    >>> spread("abcdefg", 3)
    ['a', 'd', 'g']
    """
    if len(items) <= most:
        return items
    return [items[place * (len(items) - 1) // (most - 1)] for place in range(most)]


@value
class Footer:
    """The footer of a Parquet file. path: of a file on this machine; None: of one that is read over a network."""

    metadata: pq.FileMetaData
    path: str | None


class Source(Protocol):
    """The source of a table's rows. Immutable; it has the digest of its rows at registration."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def shared(self) -> bool:
        """True if another process that opens the same source sees the same version."""
        ...

    def digest(self) -> str:
        """A digest of the rows at registration: another text whenever the rows may differ."""
        ...

    def pieces(self) -> tuple[Range, ...]:
        """The smallest ranges worth reading apart, in the order of the table, none of them empty."""
        ...

    def check(self, split: Split | None) -> None:
        """Raise TableChanged or SourceError unless the rows are those of the registration."""
        ...

    def scan(self, columns: Columns, split: Split | None) -> str | pa.Table:
        """DuckDB SQL, or an Arrow table, that yields these columns of these rows."""
        ...

    def sample(self, columns: Columns, one_in: int) -> str | pa.Table:
        """Like `scan`, of about one row in `one_in`, spread over the whole table, the same ones every time."""
        ...

    def extremes(self, names: Sequence[str]) -> Mapping[str, tuple[object, object]]:
        """Smallest and largest value of those of the columns for which they are known without a scan."""
        ...

    def footers(self) -> Sequence[Footer]:
        """Footers of files spread over the table, which describe its columns; none if it has no such files."""
        ...

    def places(self) -> Places:
        """The places that must be opened to read it."""
        ...

    def attach(self) -> tuple[str, str] | None:
        """(alias, path) of the DuckDB file that the SQL of `scan` expects to be attached, if any."""
        ...


MOST_COMPACTIONS = 64
"""Compactions that a table lists, the last ones; each is of some eight files."""


@value
class Compaction:
    """Files that were written again as others: the rows are the same. gone, came: their paths."""

    gone: tuple[str, ...]
    came: tuple[str, ...]

    def mapped(self, path: Callable[[str], str]) -> Compaction:
        """The same with other paths."""
        return Compaction(tuple(map(path, self.gone)), tuple(map(path, self.came)))


@runtime_checkable
class FilesSource(Protocol):
    """A source whose rows are those of files, one after the other."""

    def identities(self) -> Mapping[str, str]:
        """By path, a text that identifies the rows of each file: it changes whenever they may differ."""
        ...

    def only(self, paths: Collection[str]) -> Source:
        """Its files at these paths."""
        ...

    def file_rows(self) -> Mapping[str, int]:
        """The rows of each file, by path."""
        ...

    @property
    def compactable(self) -> bool:
        """True if its files may be written again as others, which its log says."""
        ...

    @property
    def compactions(self) -> Sequence[Compaction]:
        """The last compactions of its files, in their order, as far as its log tells them apart from changes."""
        ...


_OF_FILES: dict[type, bool] = {}


def has_files(source: Source) -> TypeGuard[FilesSource]:
    """True for a source of files. `isinstance` would look up all that the protocol has, each time."""
    kind = type(source)
    if kind not in _OF_FILES:
        _OF_FILES[kind] = isinstance(source, FilesSource)
    return _OF_FILES[kind]


@value
class Origin:
    """The place of a table's data: a path, a glob, a folder or a place in a bucket, and the endings of files in it.

    version: of the log of a lake, as requested; None: the latest.
    """

    place: str
    endings: tuple[str, ...]
    version: int | None = None


@value
class Table:
    """A registered table, pinned to the rows it had then.

    columns: (name, DuckDB type text) in order.
    version: digest of the files (or the content) and the schema; equal versions mean equal rows.
    rows: number of rows.
    origin: the place to read the table again from; None for rows in memory, which never change.
    """

    name: str
    columns: Columns
    version: str
    source: Source
    rows: int
    origin: Origin | None = field(default=None, compare=False)
    _splits: dict[int, tuple[Split, ...]] = field(default_factory=dict, compare=False, repr=False)

    def max_parts(self) -> int:
        """Number of non-empty splits that can be made; at least 1."""
        return max(1, len(self.source.pieces()))

    def split(self, parts: int) -> tuple[Split, ...]:
        """Cut into exactly `parts` runs of whole pieces whose largest is as small as it can be.

        The same for every process that holds this version. Splits beyond `max_parts` are empty.
        """
        if parts < 1:
            raise CatalogError(f"table {self.name} cannot be read in {parts} parts")
        if parts not in self._splits:
            self._splits[parts] = tuple(Split(run) for run in balanced_runs(self.source.pieces(), parts))
        return self._splits[parts]

    def check(self, split: Split | None = None) -> None:
        """Make sure the source (or just the files of one split) still holds this version.

        Costs a stat per file while nothing was touched. Rows that were read before are those of this version if
        this passes. Raises TableChanged or SourceError.
        """
        self.source.check(split)

    def scan(self, columns: Sequence[str], split: Split | None = None) -> str | pa.Table:
        """The columns, to be read by DuckDB: as SQL text, or as an Arrow table (slices, no copy).

        Without columns (COUNT(*)) one cheap column is read, so that the number of rows is kept.
        """
        types = self._types
        missing = [name for name in columns if name not in types]
        if missing:
            raise CatalogError(f"table {self.name} has no column {', '.join(missing)}; it has {', '.join(types)}")
        names = tuple(columns) or (self._cheapest_column(),)
        return self.source.scan(tuple((name, types[name]) for name in names), split)

    def attach(self) -> tuple[str, str] | None:
        """(alias, path) for tables of a DuckDB file that must be attached READ_ONLY first; else None."""
        return self.source.attach()

    @cached_property
    def _types(self) -> Mapping[str, str]:
        return dict(self.columns)

    @cached_property
    def files(self) -> Access:
        """The files that a reader of the table must be able to open."""
        return self.source.places().files()

    @cached_property
    def folders(self) -> Access:
        """The folders of these files."""
        return self.source.places().folders()

    def _cheapest_column(self) -> str:
        return min(self.columns, key=lambda column: width_of(column[1]))[0]


_WIDTHS = {
    "BOOLEAN": 1, "TINYINT": 1, "UTINYINT": 1, "SMALLINT": 2, "USMALLINT": 2, "INTEGER": 4, "UINTEGER": 4,
    "DATE": 4, "FLOAT": 4, "HUGEINT": 16, "UHUGEINT": 16, "UUID": 16, "INTERVAL": 16,
    "VARCHAR": 20, "BLOB": 32, "BIT": 16, "JSON": 64,
}  # fmt: skip


def width_of(type_: str) -> float:
    """Assumed bytes of a value of a DuckDB type, until they are measured."""
    if type_.startswith("DECIMAL("):
        precision = int(type_[8:].split(",")[0])
        return 2.0 if precision <= 4 else 4.0 if precision <= 9 else 8.0 if precision <= 18 else 16.0
    if type_.endswith("]") or type_.startswith(("STRUCT", "MAP", "UNION", "VARIANT")):
        return 64.0
    return float(_WIDTHS.get(type_, 8))


def table_version(source: Source, columns: Columns) -> str:
    """The version of a table: a digest of its rows and its schema."""
    return digest_of(source.digest(), columns)


def digest_of(rows: str, columns: Columns) -> str:
    """Digest of a text that identifies the rows, with their names and types."""
    return blake2b(repr((rows, columns)).encode(), digest_size=16).hexdigest()


def balanced_runs(pieces: Sequence[Range], parts: int) -> list[tuple[Range, ...]]:
    """Cut a sequence into `parts` runs, minimising the rows of the largest, empty ones only for want of pieces.

    The linear partition problem, by binary search on the largest run.
    """
    sizes = [max(1, piece.rows) for piece in pieces]
    low, high = max(sizes, default=0), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        if _runs_needed(sizes, middle) <= parts:
            high = middle
        else:
            low = middle + 1
    ends = _fill(sizes, parts, low)
    return [tuple(pieces[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def _runs_needed(sizes: Sequence[int], most: int) -> int:
    runs, used = 1, 0
    for size in sizes:
        if used + size > most:
            runs, used = runs + 1, 0
        used += size
    return runs


def _fill(sizes: Sequence[int], parts: int, most: int) -> list[int]:
    """Ends of the runs: each takes as many pieces as fit in `most`, but leaves one for every later run."""
    total = [0, *accumulate(sizes)]
    ends: list[int] = []
    start = 0
    for left in range(parts, 0, -1):
        end = _next_end(total, start, left, most)
        ends.append(end)
        start = end
    return ends


def _next_end(total: Sequence[int], start: int, left: int, most: int) -> int:
    last = len(total) - 1
    if left == 1 or start == last:
        return last
    end = start + 1
    while end < last - (left - 1) and total[end + 1] - total[start] <= most:
        end += 1
    return end
