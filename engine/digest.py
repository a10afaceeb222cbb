"""Digests of outputs: a few numbers that do not depend on the order of rows or on how they are cut.

A 64-bit hash of every row over the columns that are not floating is summed modulo 2^128, so that the digest of
a whole is the sum of those of its parts (an additive multiset hash: Clarke et al., Asiacrypt 2003, here against
accidents and not against adversaries). Floating sums depend on the order of summation, so floating columns are
compared by their own sums with a tolerance. Columns are taken in order of name.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_input
from qoop.catalog.opening import open_duckdb
from qoop.catalog.value import value

FUNCTION = "duckdb-hash in order"
"""Of a row, its columns in their order; equal in DuckDB 1.5.5 and 2.0.0."""

_MODULUS = 1 << 128
_TOLERANCE = 1e-9  # of the sum of magnitudes: rounding of 10**6 values in another order is below 1e-10


@value
class Floating:
    """One floating column: sum and sum of magnitudes of what is finite, and how many values are not."""

    column: str
    total: float
    magnitude: float
    nulls: int
    nans: int
    above: int
    below: int

    def __add__(self, other: Floating) -> Floating:
        return Floating(
            self.column, self.total + other.total, self.magnitude + other.magnitude, self.nulls + other.nulls,
            self.nans + other.nans, self.above + other.above, self.below + other.below,
        )  # fmt: skip

    def agrees(self, other: Floating) -> bool:
        """True if the two may be sums of the same values, whatever the columns are called."""
        counts = (self.nulls, self.nans, self.above, self.below)
        if counts != (other.nulls, other.nans, other.above, other.below):
            return False
        slack = _TOLERANCE * max(self.magnitude, other.magnitude)
        return all(
            (abs(one - two) <= slack if math.isfinite(slack) else math.isfinite(one) == math.isfinite(two))
            for one, two in ((self.total, other.total), (self.magnitude, other.magnitude))
        )


@value
class Digest:
    """rows: how many. exact: sum of the rows' hashes modulo 2**128. floats: the floating columns in their order."""

    rows: int
    exact: int
    floats: tuple[Floating, ...] = ()

    def __add__(self, other: Digest) -> Digest:
        floats = tuple(one + two for one, two in zip(self.floats, other.floats, strict=True))
        return Digest(self.rows + other.rows, (self.exact + other.exact) % _MODULUS, floats)

    def agrees(self, other: Digest) -> bool:
        """True if the two may be digests of the same rows."""
        if (self.rows, self.exact, len(self.floats)) != (other.rows, other.exact, len(other.floats)):
            return False
        return all(one.agrees(two) for one, two in zip(self.floats, other.floats, strict=True))

    def __str__(self) -> str:
        sums = "".join(f", {item.column} sums up to {item.total!r}" for item in self.floats)
        return f"{self.rows} rows, {self.exact:032x}{sums}"


class Digester:
    """Makes digests. Thread-safe; DuckDB is opened by the first call (15 ms)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    def of(self, partitions: Sequence[pa.Table]) -> Digest:
        """The digest of all rows of these tables, which have the same columns."""
        table = pa.concat_tables(partitions)
        if not table.num_columns:
            return Digest(table.num_rows, 0)
        exact, floats = _columns(table.schema)
        with self._lock:
            rows = arrow_input.relation(self._open(), table)  # not registered: that takes as long again
            return _quick(rows, exact, floats) or _thorough(rows, exact, floats)

    def close(self) -> None:
        """Close DuckDB."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = open_duckdb(files=False, threads=1, arrow_lossless_conversion=True)
        return self._connection


def _columns(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """Names of the columns to hash and of those to sum. Lists and structs that hold floats are neither.

    In their order, not in that of their names: results of one signature may be called otherwise (`AS`).
    """
    exact = [field.name for field in schema if not _holds_floats(field.type)]
    return exact, [field.name for field in schema if pa.types.is_floating(field.type)]


def _holds_floats(type_: pa.DataType) -> bool:
    if pa.types.is_floating(type_):
        return True
    return any(_holds_floats(type_.field(number).type) for number in range(type_.num_fields))


def _quick(rows: duckdb.DuckDBPyRelation, exact: Sequence[str], floats: Sequence[str]) -> Digest | None:
    """The digest if all floats are finite, as they mostly are: that takes half the time. None if some are not."""
    try:
        count, hashed, *sums = _ask(rows, exact, floats, _finite_sums)
    except duckdb.OutOfRangeException:
        return None
    if not all(map(math.isfinite, sums)):
        return None
    found = []
    for place, name in enumerate(floats):
        total, magnitude, filled = sums[3 * place : 3 * place + 3]
        found.append(Floating(name, float(total), float(magnitude), int(count - filled), 0, 0, 0))
    return Digest(int(count), int(hashed) % _MODULUS, tuple(found))


def _thorough(rows: duckdb.DuckDBPyRelation, exact: Sequence[str], floats: Sequence[str]) -> Digest:
    count, hashed, *sums = _ask(rows, exact, floats, _any_sums)
    found = []
    for place, name in enumerate(floats):
        total, magnitude, *counts = sums[6 * place : 6 * place + 6]
        found.append(Floating(name, float(total), float(magnitude), *map(int, counts)))
    return Digest(int(count), int(hashed) % _MODULUS, tuple(found))


def _ask(
    rows: duckdb.DuckDBPyRelation,
    exact: Sequence[str],
    floats: Sequence[str],
    sums: Callable[[str], list[str]],
) -> list[float]:
    """The number of rows, the sum of their hashes, and these sums of every floating column; NULL is 0."""
    hashed = f"sum(hash({', '.join(map(_quoted, exact))}))" if exact else "0"
    float_sums = [part for name in floats for part in sums(f"CAST({_quoted(name)} AS DOUBLE)")]
    [row] = rows.aggregate(", ".join(["count(*)", hashed, *float_sums])).fetchall()  # DuckDB 2 knows no fetchone() here
    return [value or 0 for value in row]


def _finite_sums(value: str) -> list[str]:
    return [f"sum({value})", f"sum(abs({value}))", f"count({value})"]


def _any_sums(value: str) -> list[str]:
    finite = f"FILTER (isfinite({value}))"
    return [
        f"sum({value}) {finite}", f"sum(abs({value})) {finite}", f"count(*) - count({value})",
        f"count(*) FILTER (isnan({value}))", f"count(*) FILTER ({value} = 'inf'::DOUBLE)",
        f"count(*) FILTER ({value} = '-inf'::DOUBLE)",
    ]  # fmt: skip


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def digest_from_json(text: Mapping[str, object]) -> Digest:
    """Raises ValueError, KeyError or TypeError if it is not what `digest_to_json` wrote."""
    floats, function = text["floats"], text["function"]
    if not isinstance(floats, list) or function != FUNCTION:
        raise ValueError(f"a digest by {function}")
    return Digest(int(str(text["rows"])), int(str(text["exact"]), 16), tuple(map(_floating, floats)))


def _floating(item: Mapping[str, object]) -> Floating:
    found = Floating(**item)  # type: ignore[arg-type]  # checked here
    numbers = (found.total, found.magnitude, found.nulls, found.nans, found.above, found.below)
    if not isinstance(found.column, str) or not all(isinstance(number, int | float) for number in numbers):
        raise TypeError(f"{item} are no sums of a column")
    return found


def digest_to_json(digest: Digest) -> dict[str, object]:
    """As JSON holds it: the sum of hashes in hexadecimal, since few readers know integers of 128 bits."""
    return {
        "rows": digest.rows,
        "exact": f"{digest.exact:032x}",
        "floats": [asdict(item) for item in digest.floats],
        "function": FUNCTION,
    }
