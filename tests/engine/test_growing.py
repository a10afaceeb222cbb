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


@pytest.mark.parametrize("fits", [True, False], ids=["in memory", "in a file"])
def test_the_memory_of_each_partition_is_known_when_its_rows_have_come(tmp_path: Path, fits: bool) -> None:
    text = "SELECT {0} AS a, 1.5::DECIMAL(5, 1) AS b, true AS c, repeat('x', 20) AS d, [1, 2] AS e FROM range({0})"
    with duckdb.connect() as kernel:
        batches = [batch for n in (2048, 8, 64) for batch in stream(kernel, text.format(n), 1 << 17)]
    output = Growing(batches[0].schema, 3, tmp_path, lambda came, total: fits)
    output.add([(0, batches[0]), (2, batches[1])])
    output.add([(2, batches[2])])
    made = output.finish()
    assert made.mapped is not fits and made.sizes == made.bytes
    assert made.bytes == (batches[0].nbytes, 0, batches[1].nbytes + batches[2].nbytes)
