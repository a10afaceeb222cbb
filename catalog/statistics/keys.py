"""Keys: columns, and pairs of columns, whose values are unique. Never guessed: every key was counted exactly.

Samples only say where counting is worth the time: of columns, a duplicate anywhere in the sample rules them out;
of pairs, a duplicate among neighbouring rows, where the duplicates of a pair mostly are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_input
from qoop.catalog.sources.files import sql_name
from qoop.catalog.statistics.scalars import INTEGERS, is_text, select
from qoop.catalog.statistics.stats import ColumnStats
from qoop.catalog.table import Columns, Table

# Above this no key is looked for: an exact count of that many distinct values takes seconds.
KEY_ROWS = 40_000_000
_ROWS_A_PASS = 8_000_000
_NEARBY_ROWS = 100_000
_PAIRED_COLUMNS = 5


def find_keys(
    cursor: duckdb.DuckDBPyConnection,
    table: Table,
    stats: Mapping[str, ColumnStats],
    new: Collection[str],
    unique: Sequence[str],
    known: frozenset[frozenset[str]],
) -> frozenset[frozenset[str]]:
    """Sets of one or two columns that are unique together, as all rows show; of those with a column in `new`.

    unique: those of the new columns that have no duplicate in the sample.
    Pairs are looked for only where no single column is a key, among few candidates.
    """
    if not 0 < table.rows <= KEY_ROWS:
        return frozenset()
    likely = [name for name in unique if stats[name].distinct > 0.6 * table.rows]  # HyperLogLog errs by some 13 %
    found = {frozenset((name,)) for name in likely if _is_unique(cursor, table, (name,))}
    if not any(len(key) == 1 for key in known | found):
        pairs = _likely_pairs(table, stats, new)
        pairs = _without_duplicates_nearby(cursor, table, pairs)
        found |= {frozenset(pair) for pair in pairs if _is_unique(cursor, table, pair)}
    return frozenset(found)


def _likely_pairs(table: Table, stats: Mapping[str, ColumnStats], new: Collection[str]) -> list[tuple[str, str]]:
    types = dict(table.columns)
    able = [
        name for name in stats
        if stats[name].nulls == 0 and (types[name] in (*INTEGERS, "DATE") or is_text(types[name]))
    ]  # fmt: skip
    able = sorted(able, key=lambda name: -stats[name].distinct)[:_PAIRED_COLUMNS]
    return [
        pair for pair in combinations(able, 2)
        if (pair[0] in new or pair[1] in new) and stats[pair[0]].distinct * stats[pair[1]].distinct >= table.rows
    ]  # fmt: skip


def _without_duplicates_nearby(
    cursor: duckdb.DuckDBPyConnection, table: Table, pairs: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Those pairs that are unique in a run of neighbouring rows, where duplicates mostly are."""
    if not pairs:
        return []
    columns = _typed(table, sorted({name for pair in pairs for name in pair}))
    start = table.split(max(1, table.rows // _NEARBY_ROWS))[0]
    names = ", ".join(sql_name(name) for name, _ in columns)
    block = select(cursor, names, table.source.scan(columns, start), f"LIMIT {_NEARBY_ROWS}").to_arrow_table()
    return [pair for pair in pairs if _distinct_rows(cursor, block, pair) == block.num_rows]


def _is_unique(cursor: duckdb.DuckDBPyConnection, table: Table, names: Sequence[str]) -> bool:
    """Count distinct values exactly, some millions of rows at a time to bound the memory it takes."""
    rows = table.source.scan(_typed(table, names), None)
    passes = -(-table.rows // _ROWS_A_PASS)
    uncounted = table.rows
    for number in range(passes):
        where = f"hash({sql_name(names[0])}) % {passes} = {number}" if passes > 1 else "true"
        [(here,)] = select(cursor, "count(*)", rows, f"WHERE {where}").fetchall() if passes > 1 else [(table.rows,)]
        if _distinct_rows(cursor, rows, names, where) != here:
            return False
        uncounted -= here
    return uncounted == 0


def _distinct_rows(
    cursor: duckdb.DuckDBPyConnection, rows: str | pa.Table, names: Sequence[str], where: str = "true"
) -> int:
    """Number of distinct rows of these columns that have no NULL."""
    quoted = [sql_name(name) for name in names]
    full = " AND ".join(f"{name} IS NOT NULL" for name in quoted)
    if not isinstance(rows, str):
        arrow_input.register(cursor, "source", rows)
        rows = "SELECT * FROM source"
    found = cursor.execute(
        f"SELECT count(*) FROM (SELECT DISTINCT {', '.join(quoted)} FROM ({rows}) WHERE {full} AND {where})"
    ).fetchall()
    return int(found[0][0])


def _typed(table: Table, names: Sequence[str]) -> Columns:
    types = dict(table.columns)
    return tuple((name, types[name]) for name in names)
