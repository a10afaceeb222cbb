"""Tables with the columns that the tests of ibis ask for; their rows are our own."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SMALL = {
    "array_types": """
        SELECT * FROM (VALUES
            ([1, 2, 3], ['a', 'b', 'c'], [1.0, 2.0, 3.0]::DOUBLE[], 'a', 1.0::DOUBLE, [[], [1, 2, 3], NULL]),
            ([4, 5], ['d', 'e'], [4.0, 5.0], 'a', 2.0, []),
            ([6, NULL], ['f', NULL], [6.0, NULL], 'a', 3.0, [NULL, [], NULL]),
            ([NULL, 1, NULL], [NULL, 'a', NULL], [], 'b', 4.0, [[1], [2], [], [3, 4, 5]]),
            ([2, NULL, 3], ['b', NULL, 'c'], NULL, 'b', 5.0, NULL),
            ([4, NULL, NULL, 5], ['d', NULL, NULL, 'e'], [4.0, NULL, NULL, 5.0], 'c', 6.0, [[1, 2, 3]])
        ) AS t(x, y, z, grouper, scalar_column, multi_dim)""",
    "struct": """
        SELECT abc::STRUCT(a DOUBLE, b VARCHAR, c BIGINT) AS abc FROM (VALUES
            ({'a': 1.0, 'b': 'banana', 'c': 2}), ({'a': 2.0, 'b': 'apple', 'c': 3}),
            ({'a': 3.0, 'b': 'orange', 'c': 4}), ({'a': NULL, 'b': 'banana', 'c': 2}),
            ({'a': 2.0, 'b': NULL, 'c': 3}), (NULL), ({'a': 3.0, 'b': 'orange', 'c': NULL})) AS t(abc)""",
    "json_t": """
        SELECT * FROM (VALUES
            (1, '{"a": [1,2,3,4], "b": 1}'), (2, '{"a":null,"b":2}'), (3, '{"a":"foo", "c":null}'), (4, 'null'),
            (5, '[42,47,55]'), (6, '[]'), (7, '"a"'), (8, '""'), (9, '"b"'), (10, NULL), (11, 'true'), (12, 'false'),
            (13, '42'), (14, '37.37')) AS t(rowid, js)""",
    "win": "SELECT * FROM (VALUES ('a', 0, 3), ('a', 1, 2), ('a', 2, 0), ('a', 3, 1), ('a', 4, 1)) AS t(g, x, y)",
    "map": """
        SELECT * FROM (VALUES
            (1, MAP(['a', 'b', 'c'], [1::BIGINT, 2, 3])), (2, MAP(['d', 'e', 'f'], [4, 5, 6]))) AS t(idx, kv)""",
    "topk": "SELECT x::BIGINT AS x FROM (VALUES (1), (1), (NULL)) AS t(x)",
}  # fmt: skip
"""Small tables by their queries."""

_DRAWN = 2000


def write_large(folder: Path) -> None:
    """Write ``folder/name.parquet`` for each of the large tables, unless they are there."""
    from ibis.backends.conftest import TEST_TABLES

    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    for name, schema in TEST_TABLES.items():
        if not (folder / f"{name}.parquet").exists():
            wanted = schema.to_pyarrow()
            table = _days() if name == "functional_alltypes" else _drawn(wanted, random)
            pq.write_table(table.select(wanted.names).cast(wanted), folder / f"{name}.parquet")


def _days() -> pa.Table:
    """Ten rows for each day of two years, with values that repeat every ten rows."""
    return pa.Table.from_pylist([row for day in range(730) for row in _of_day(day)])


def _of_day(day: int) -> Iterator[dict[str, object]]:
    date = datetime.datetime(2009, 1, 1) + datetime.timedelta(day)
    for n in range(10):
        of_month = (date.day - 1) * 10 + n
        since = datetime.timedelta(minutes=of_month, milliseconds=100 * (of_month * (of_month - 1) // 2))
        yield {
            "id": day * 10 + n, "bool_col": n % 2 == 0, "tinyint_col": n, "smallint_col": n, "int_col": n,
            "bigint_col": n * 10, "float_col": n * 1.1, "double_col": n * 10.1, "string_col": str(n),
            "date_string_col": date.strftime("%m/%d/%y"), "timestamp_col": date + since,
            "year": date.year, "month": date.month,
        }  # fmt: skip


def _drawn(schema: pa.Schema, random: np.random.Generator) -> pa.Table:
    return pa.table({field.name: _column(field, random) for field in schema})


def _column(field: pa.Field, random: np.random.Generator) -> pa.Array:
    if pa.types.is_string(field.type):
        words = [f"{field.name}{chr(97 + number)}" for number in range(12)]
        return pa.array(random.choice(words, _DRAWN))
    if pa.types.is_floating(field.type):
        return pa.array(random.integers(0, 1000, _DRAWN) / 8)
    first = 1871 if field.name.startswith("year") else 0
    return pa.array(first + random.integers(0, 140, _DRAWN))
