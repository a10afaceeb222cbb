"""The check of an answer: DuckDB answers on the same files, and this module compares both answers.

Two answers agree when column names and types are equal, the rows are the same multiset, and they come in the order
that the text requires. Three things need care:

* **Floats.** Sums of floats depend on the order of summation, so floats agree within `TOLERANCE`. Rows are matched
  within groups of rows that are equal in all other columns; no rounding is involved.
* **Ties at a cut.** With ``ORDER BY k LIMIT n`` several rows may tie for the last place, and any of them is right.
  Then the answer must have every row that no cut could leave out. Its other rows must tie with the last (or with
  OFFSET, the first) row in the answer without the limit.
* **Order.** Answers agree in order when their key columns agree row by row, except among rows whose preceding
  float keys agree only within the tolerance.

All of it works on whole columns; 100,000 rows take well under a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from qoop.catalog import arrow_output
from qoop.catalog.errors import ConfigError, SourceError
from qoop.catalog.sources.files import sql_name, sql_string
from qoop.tpcds.ordering import Ordering, ordering

TOLERANCE = 1e-9
"""The most by which two DOUBLE values may differ, relative to the larger of them (FLOAT: 1e-5)."""
_CANCELLED = 1e-12  # and in any case by this much of the column's largest value: sums that cancel to almost nothing
_SINGLE = 1e-5
_SHOWN = 5  # rows in a message

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of two answers: `kind` in a word (columns, types, rows, order), `message` for people."""

    kind: str
    message: str

    def __str__(self) -> str:
        return self.message


def compare(
    ours: pa.Table,
    theirs: pa.Table,
    *,
    order: Ordering | None = None,
    unlimited: Callable[[], pa.Table] | None = None,
) -> Difference | None:
    """The reason why `ours` is not the right answer, given that `theirs` is; None if it is.

    order: what the text says about order; without it any order is right.
    unlimited: gives the answer to ``order.unlimited``; called only if the text cuts its answer and the
        rows differ, or orders it by keys that are not in it.
    """
    order = order or Ordering()
    difference = _compare_schemas(ours.schema, theirs.schema)
    if difference is not None:
        return difference
    difference = _compare_rows(ours, theirs)
    if order.unlimited is None or unlimited is None or ours.num_rows != theirs.num_rows:
        return difference or _compare_order(ours, theirs, order.keys)
    if (difference is not None and order.cut) or not order.complete:
        return _compare_with_whole(ours, unlimited(), order)
    return difference or _compare_order(ours, theirs, order.keys)


def is_empty_answer(table: pa.Table) -> bool:
    """True if an answer proves little: no rows, or one row of only NULL or 0."""
    if table.num_rows > 1:
        return False
    values = [value for row in table.to_pylist() for value in row.values()] if table.num_rows else []
    return all(value is None or (not isinstance(value, (str, bytes, bool)) and value == 0) for value in values)


class Oracle:
    """DuckDB on the files of a folder, in this process.

    directory: holds ``<table>.parquet`` or ``<table>/*.parquet``; each becomes a view.
    threads: of DuckDB; memory: its limit in DuckDB's notation, such as "2GB".

    Raises SourceError if the folder holds no table.
    """

    def __init__(self, directory: str | Path, threads: int | None = None, memory: str | None = None) -> None:
        self._connection = duckdb.connect()
        try:
            if threads is not None:
                self._connection.execute(f"SET threads = {int(threads)}")
            if memory is not None:
                self._connection.execute("SET memory_limit = $1", [memory])
            self.read_again(directory)
        except duckdb.Error as error:
            self._connection.close()
            raise ConfigError(f"DuckDB cannot be set up on {directory}: {error}") from error

    def read_again(self, directory: str | Path) -> None:
        """Read the files that a folder holds now. Raises SourceError, duckdb.Error."""
        for view in views(directory).values():
            self._connection.execute(view)

    def answer(self, text: str) -> pa.Table:
        """DuckDB's answer, fetched whole. Raises duckdb.Error if it has none."""
        return arrow_output.table(self._connection, text)

    def attach(self, file: Path, name: str) -> None:
        """Open a database file, or make it, under a name. Raises duckdb.Error."""
        self._connection.execute(f"ATTACH {sql_string(str(file))} AS {sql_name(name)}")

    def keep(self, name: str, text: str, database: str) -> None:
        """Have the rows of a text in a table, unless they are there already. Raises duckdb.Error."""
        table = f"{sql_name(database)}.main.{sql_name(f'kept {name}')}"
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {table} AS {text}")
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {sql_name(name)} AS FROM {table}")

    def judge(self, text: str, ours: pa.Table, theirs: pa.Table | None = None) -> Difference | None:
        """The reason why `ours` is no answer to `text`; None: it is one. theirs: DuckDB's; computed if it is None."""
        theirs = self.answer(text) if theirs is None else theirs
        order = ordering(text, theirs.column_names)
        return compare(ours, theirs, order=order, unlimited=lambda: self.answer(order.unlimited or ""))

    def limit(self, memory: str | None = None, threads: int | None = None) -> None:
        """Set the limits, also while another thread asks (the number of threads waits for the end of its query).

        Raises duckdb.Error if DuckDB refuses: it holds more memory than that and cannot let go of it.
        """
        with self._connection.cursor() as cursor:
            if memory is not None:
                cursor.execute("SET memory_limit = $1", [memory])
            if threads is not None:
                cursor.execute(f"SET threads = {int(threads)}")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Another client of the same instance."""
        return self._connection.cursor()

    def interrupt(self) -> None:
        """Break off what another thread asks; there it raises duckdb.InterruptException."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the database; a second time does nothing."""
        self._connection.close()

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- schemas -------------------------------------------------------------------------------------------------


def _compare_schemas(ours: pa.Schema, theirs: pa.Schema) -> Difference | None:
    if ours.names != theirs.names:
        return Difference("columns", f"the columns are {_listed(ours.names)}, but should be {_listed(theirs.names)}")
    wrong = [
        f"{mine.name} is {mine.type}, but should be {other.type}"
        for mine, other in zip(ours, theirs, strict=True)
        if mine.type != other.type
    ]
    return Difference("types", "; ".join(wrong)) if wrong else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


# --- rows as multisets ---------------------------------------------------------------------------------------


def _compare_rows(ours: pa.Table, theirs: pa.Table) -> Difference | None:
    extra, missing = _unmatched(ours, theirs)
    if not len(extra) and not len(missing):
        return None
    counts = f"{ours.num_rows} rows against {theirs.num_rows}; {len(missing)} missing, {len(extra)} that should not be"
    return Difference("rows", counts + _shown("missing", theirs, missing) + _shown("too much", ours, extra))


def _unmatched(left: pa.Table, right: pa.Table) -> tuple[Ints, Ints]:
    """Row numbers of both sides that are left when equal rows are paired off one to one."""
    pairs = [_encode(a, b) for a, b in zip(left.columns, right.columns, strict=True)]
    groups = _combine([pair.codes for pair in pairs], left.num_rows + right.num_rows)
    numbers = [pair.numbers for pair in pairs if pair.numbers is not None]
    margins = [pair.margins for pair in pairs if pair.margins is not None]
    sides = (np.arange(left.num_rows), np.arange(left.num_rows, left.num_rows + right.num_rows))
    values = np.column_stack(numbers) if numbers else np.zeros((len(groups), 0))
    rest = _pair_by_rank(groups, values, np.array(margins), *sides)
    if numbers and len(rest[0]) and len(rest[1]):
        rest = _pair_by_search(groups, values, np.array(margins), *rest)
    return np.sort(rest[0]), np.sort(rest[1] - left.num_rows)


@dataclass(frozen=True, slots=True)
class _Encoded:
    """One column of both tables, one after the other: codes that are equal where values are equal; floats also
    as numbers (0 where NULL, NaN or infinite, which the code tells), with (relative, absolute) tolerance."""

    codes: Ints
    numbers: Floats | None = None
    margins: tuple[float, float] | None = None


def _encode(left: pa.ChunkedArray, right: pa.ChunkedArray) -> _Encoded:
    if pa.types.is_nested(left.type):  # no kernel of Arrow's compares lists and structs
        return _Encoded(_factorise(np.array(_texts(left, right), dtype=object)))
    both = pa.chunked_array([*left.chunks, *right.chunks], type=left.type)
    if pa.types.is_floating(left.type):
        return _encode_floats(both)
    if pa.types.is_dictionary(both.type):
        both = both.cast(both.type.value_type)
    array = both.combine_chunks().dictionary_encode()
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return _Encoded(array.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64))


def _texts(left: pa.ChunkedArray, right: pa.ChunkedArray) -> list[str]:
    """The values of both as texts, which are equal where the values are."""
    try:
        return [repr(value) for side in (left, right) for value in side.to_pylist()]
    except OverflowError:  # a date beyond those of Python
        with duckdb.connect() as texts:
            sides = (texts.from_arrow(pa.table({"v": side})) for side in (left, right))
            return [str(text) for side in sides for (text,) in side.select("CAST(v AS VARCHAR)").fetchall()]


def _encode_floats(column: pa.ChunkedArray) -> _Encoded:
    nulls = column.is_null().to_numpy()
    values = np.where(nulls, 0.0, column.to_numpy().astype(np.float64))
    codes = np.select([nulls, np.isnan(values), values == np.inf, values == -np.inf], [1, 2, 3, 4], default=0).astype(
        np.int64
    )
    numbers = np.where(codes == 0, values, 0.0)
    largest = float(np.abs(numbers).max(initial=0.0))
    relative = TOLERANCE if column.type == pa.float64() else _SINGLE
    return _Encoded(codes, numbers, (relative, _CANCELLED * largest))


def _factorise(values: npt.NDArray[Any]) -> Ints:
    import pandas  # 0.5 s to import

    return np.asarray(pandas.factorize(values)[0], dtype=np.int64)


def _combine(columns: Sequence[Ints], size: int) -> Ints:
    """One code a row, equal where all columns' codes are equal."""
    combined = np.zeros(size, dtype=np.int64)
    for codes in columns:
        if size:
            combined = _factorise(combined * (int(codes.max()) + 2) + codes + 1)
    return combined


def _pair_by_rank(groups: Ints, values: Floats, margins: Floats, left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Pair the i-th row of each group on one side with the i-th on the other, floats in ascending order; exact
    without floats, and with them right but for rare crossings of near-equal values, left to `_pair_by_search`."""
    left, right = (_sorted_by_group(groups, values, side) for side in (left, right))
    keys = (_ranked(groups, left), _ranked(groups, right))
    _, at_left, at_right = np.intersect1d(*keys, assume_unique=True, return_indices=True)
    good = _close(values[left[at_left]], values[right[at_right]], margins).all(axis=1)
    return np.delete(left, at_left[good]), np.delete(right, at_right[good])


def _sorted_by_group(groups: Ints, values: Floats, rows: Ints) -> Ints:
    return rows[np.lexsort((*values[rows].T[::-1], groups[rows]))]


def _ranked(groups: Ints, rows: Ints) -> Ints:
    """Group and position within the group as one number; rows are sorted by group."""
    own = groups[rows]
    starts = np.flatnonzero(np.r_[True, own[1:] != own[:-1]]) if len(own) else np.zeros(0, dtype=np.int64)
    sizes = np.diff(np.r_[starts, len(own)])
    return own * (len(groups) + 1) + np.arange(len(own)) - np.repeat(starts, sizes)


def _pair_by_search(groups: Ints, values: Floats, margins: Floats, left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Pair what is left row by row: candidates are close in the first float; the first fully close one is taken."""
    right = _sorted_by_group(groups, values, right)
    taken = np.zeros(len(right), dtype=np.bool_)
    alone = []
    for row in left:
        low, high = _candidates(groups, values, margins, right, row)
        close = _close(values[right[low:high]], values[row], margins).all(axis=1) & ~taken[low:high]
        if close.any():
            taken[low + int(close.argmax())] = True
        else:
            alone.append(row)
    return np.array(alone, dtype=np.int64), right[~taken]


def _candidates(groups: Ints, values: Floats, margins: Floats, rows: Ints, row: int) -> tuple[int, int]:
    own = groups[rows]
    start, end = np.searchsorted(own, groups[row], "left"), np.searchsorted(own, groups[row], "right")
    value = values[row, 0]
    margin = 2 * (margins[0, 0] * abs(value) + margins[0, 1])
    first = values[rows[start:end], 0]
    return int(start + np.searchsorted(first, value - margin)), int(
        start + np.searchsorted(first, value + margin, "right")
    )


def _close(left: Floats, right: Floats, margins: Floats) -> Bools:
    if not len(margins):
        return np.ones_like(left, dtype=np.bool_)
    allowed = np.maximum(margins[:, 0] * np.maximum(np.abs(left), np.abs(right)), margins[:, 1])
    return np.asarray(np.abs(left - right) <= allowed)


# --- answers that are a window of an ordered whole -----------------------------------------------------------


def _compare_with_whole(ours: pa.Table, whole: pa.Table, order: Ordering) -> Difference | None:
    """Is `ours` one of the answers that cutting the ordered rows of `whole` allows, in one of the right orders?

    Each row of ours must be among the rows that tie with the row at its place in the whole.
    """
    ties = _tie_groups(whole, order.unlimited_keys)
    place = np.arange(len(ties))
    window = place[order.offset : order.offset + ours.num_rows]
    partial = np.intersect1d(ties[window], ties[np.setdiff1d(place, window)])
    is_partial = np.isin(ties, partial)
    named = whole.select(range(ours.num_columns)).append_column("rows that tie", pa.array(ties))
    placed = ours.append_column("rows that tie", pa.array(ties[window]))
    sure = named.take(window[~is_partial[window]])
    extra, _ = _unmatched(placed, pa.concat_tables([sure, named.take(np.flatnonzero(is_partial))]))
    _, missing = _unmatched(placed, sure)
    if not len(extra) and not len(missing):
        return None
    message = "rows are wrong, or not in their place (the last number counts the ORDER BY keys up to the row)"
    return Difference("rows", message + _shown("missing", sure, missing) + _shown("too much", placed, extra))


def _tie_groups(ordered: pa.Table, keys: Sequence[int]) -> Ints:
    """Number the runs of rows that tie in the key columns; without keys all rows tie."""
    changes = np.zeros(ordered.num_rows, dtype=np.bool_)
    for key in keys:
        changes[1:] |= _changes(_encode(ordered.column(key), ordered.column(key).slice(0, 0)))
    return np.cumsum(changes)


def _changes(column: _Encoded) -> Bools:
    """True at each value that differs from the one before it."""
    changed: Bools = column.codes[1:] != column.codes[:-1]
    if column.numbers is not None:
        numbers = column.numbers[:, None]
        changed |= ~_close(numbers[1:], numbers[:-1], np.array([column.margins]))[:, 0]
    return changed


# --- order ---------------------------------------------------------------------------------------------------


def _compare_order(ours: pa.Table, theirs: pa.Table, keys: Sequence[int]) -> Difference | None:
    """Both have the same rows, so both are ordered alike exactly if the key columns agree row by row."""
    size = ours.num_rows
    excused = np.zeros(size, dtype=np.bool_)
    runs = np.zeros(size, dtype=np.bool_)
    for key in keys:
        column = _encode(ours.column(key), theirs.column(key))
        wrong = ~_agrees(column, size) & ~excused
        if wrong.any():
            return _wrong_order(ours, theirs, keys, int(wrong.argmax()))
        runs[1:] |= _changes(_Encoded(column.codes[size:], _part(column.numbers, size), column.margins))
        if column.numbers is not None:
            excused |= _inexact_runs(column.numbers, runs)
    return None


def _part(numbers: Floats | None, size: int) -> Floats | None:
    return None if numbers is None else numbers[size:]


def _agrees(column: _Encoded, size: int) -> Bools:
    same: Bools = column.codes[:size] == column.codes[size:]
    if column.numbers is not None:
        numbers = column.numbers[:, None]
        same &= _close(numbers[:size], numbers[size:], np.array([column.margins]))[:, 0]
    return same


def _inexact_runs(numbers: Floats, starts: Bools) -> Bools:
    """Rows of runs in which floats are near-equal but not equal: what follows may be in any order there."""
    size = len(starts)
    runs = np.cumsum(starts)
    first = np.flatnonzero(np.r_[True, np.diff(runs) > 0]) if size else np.zeros(0, dtype=np.int64)
    reference = numbers[:size][first][runs]
    inexact = (numbers[:size] != reference) | (numbers[size:] != reference)
    return np.isin(runs, runs[inexact])


def _wrong_order(ours: pa.Table, theirs: pa.Table, keys: Sequence[int], row: int) -> Difference:
    names = ", ".join(theirs.column_names[key] for key in keys)
    rows = np.array([row], dtype=np.int64)
    message = f"row {row} is out of order ({names})" + _shown("should be", theirs, rows) + _shown("is", ours, rows)
    return Difference("order", message)


def _shown(title: str, table: pa.Table, rows: Ints) -> str:
    if not len(rows):
        return ""
    more = [f"  … {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
    picked = table.take(rows[:_SHOWN])
    columns = [_texts(column, column.slice(0, 0)) for column in picked.columns]
    lines = [f"  ({', '.join(row)})" for row in zip(*columns, strict=True)]
    return "\n".join([f"\n{title}:", *lines, *more])


# --- the files -----------------------------------------------------------------------------------------------


def views(directory: str | Path) -> dict[str, str]:
    """The statements that make DuckDB read the tables of a folder, by their names. Raises SourceError."""
    found = tables_of(Path(directory)).items()
    return {
        name: f"CREATE OR REPLACE VIEW {_quoted(name)} AS FROM read_parquet({_literals(files)})"
        for name, files in found
    }


def tables_of(directory: Path) -> dict[str, list[str]]:
    """The Parquet files of each table in a folder. Raises SourceError if there is no table."""
    found = {path.stem: [str(path)] for path in sorted(directory.glob("*.parquet")) if path.is_file()}
    for folder in sorted(directory.glob("[!.]*/")):
        files = sorted(str(path) for path in folder.glob("*.parquet"))
        if files:
            found[folder.name] = files
    if not found:
        raise SourceError(f"there is no table in {directory}: no <table>.parquet and no <table>/*.parquet")
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literals(files: Sequence[str]) -> str:
    return "[" + ", ".join("'" + file.replace("'", "''") + "'" for file in files) + "]"
