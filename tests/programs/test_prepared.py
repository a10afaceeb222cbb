"""Queries over rows of Arrow that are planned once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qoop.catalog.opening import open_duckdb
from qoop.programs import prepared


def test_a_connection_keeps_few_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "_MOST", 3)
    rows, columns = pa.table({"a": [1, 2]}), (("a", "BIGINT"),)
    with open_duckdb(files=False, threads=1) as connection:
        answers = prepared.Prepared(connection)
        for number in (*range(8), 0, 7):
            query = f"SELECT sum(a) + {number} AS s FROM ({{}})".format
            found = answers.answer(rows, columns, query)
            assert found["s"].to_pylist() == [3 + number]
            [(count,)] = connection.sql("SELECT count(*) FROM duckdb_prepared_statements()").fetchall()
            assert 1 <= count <= 3
