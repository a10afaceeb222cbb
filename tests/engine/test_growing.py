"""Outputs while they are made: what they hold of memory."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from qoop.catalog.arrow_output import stream
from qoop.engine.storage.growing import Growing, fitted
from qoop.engine.storage.partition import POOL


@pytest.mark.parametrize(
    "columns",
    [
        "7 AS a, 'text' AS b, NULL AS c, true AS d, 1.5 AS e",
        "[1, NULL] AS a, {'x': [DATE '2020-01-01']} AS b, MAP {'k': 1} AS c, union_value(n := 1) AS d",
        "uuid() AS a, 1::HUGEINT AS b, '101'::BIT AS c, INTERVAL 3 days AS d, '{}'::JSON AS e, '\\xAA'::BLOB AS f",
        "'x'::ENUM ('x', 'y') AS a, ['y'::ENUM ('x', 'y')] AS b",
    ],
)
def test_few_rows_take_the_memory_of_few_rows(tmp_path: Path, columns: str) -> None:
    with duckdb.connect(config={"arrow_lossless_conversion": True}) as kernel:
        [batch] = stream(kernel, f"SELECT {columns} FROM range(3)", 1 << 17)
        output = Growing(batch.schema, 1, tmp_path, lambda came, total: True)
        output.add([(0, batch)])
        before = POOL.bytes_allocated()
        [table] = output.finish().tables
        assert 0 < POOL.bytes_allocated() - before < 10_000  # DuckDB's own memory is no part of this
        table.validate(full=True)
        assert table.equals(pa.table(batch), check_metadata=True)


def test_many_rows_are_not_copied() -> None:
    batch = pa.record_batch({"a": pa.array(range(5_000))})
    large = pa.record_batch({"a": ["x" * 2_000_000]})
    assert fitted(batch) is batch and fitted(large) is large
