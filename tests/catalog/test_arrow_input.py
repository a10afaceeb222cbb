"""Arrow rows go to DuckDB without pandas; frames go on being frames."""

from __future__ import annotations

import subprocess
import sys

import duckdb
import pyarrow as pa
import pytest

import qoop
from qoop.catalog.arrow_input import Input, register, relation

ROWS = "import sys, duckdb; rows = duckdb.sql('SELECT * FROM range(3) t(i)').to_arrow_table()"


def lines(script: str) -> list[str]:
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    "use",
    [
        "arrow_input.register(connection, 'r', rows); print(connection.sql('SELECT sum(i) FROM r').fetchall()[0][0])",
        "print(arrow_input.relation(connection, rows).aggregate('sum(i)').fetchall()[0][0])",
    ],
)
def test_rows_of_arrow_do_without_pandas_and_frames_are_still_known(use: str) -> None:
    script = f"""
{ROWS}
from qoop.catalog import arrow_input
connection = duckdb.connect()
{use}
print('pandas' in sys.modules)
import pandas
connection.register('f', pandas.DataFrame({{'i': [4, 5]}}))
print(connection.execute('SELECT sum(i) FROM f').fetchone()[0])
"""
    assert lines(script) == ["3", "False", "9"]


def test_a_query_of_several_stages_does_without_pandas() -> None:
    script = f"""
{ROWS}
import qoop
with qoop.connect(slots=2) as session:
    session.register('r', rows)
    print(session.sql('SELECT i, (SELECT max(i) FROM r) FROM r ORDER BY i').fetchall())
print('pandas' in sys.modules)
"""
    assert lines(script) == ["[(0, 2), (1, 2), (2, 2)]", "False"]


def test_rows_are_partitioned_without_pandas() -> None:
    script = """
import sys, duckdb
from qoop.engine.storage.partition import cut
numbered = duckdb.sql('SELECT i, (2 - i)::utinyint AS n FROM range(3) t(i)').to_arrow_table().to_batches()[0]
print([(number, part.to_pydict()['i']) for number, part in cut(numbered, 3)])
print('pandas' in sys.modules)
"""
    assert lines(script) == ["[(0, [2]), (1, [1]), (2, [0])]", "False"]


@pytest.mark.parametrize(
    "value",
    [
        "{'a': {'b': i}}", "{'a': {'b': [i, NULL], 'c': 'x' || i}, 'd': i}", "{'a': {'b': {'c': MAP {'k': i}}}}",
        "{'a': {'b': array_value(i, i)}}", "union_value(n := i)", "{'u': union_value(n := i)}",
        "array_value({'a': {'b': i}}, NULL)", "[(i % 3)::VARCHAR::ENUM ('0', '1', '2'), NULL]",
        "{'a': [{'b': (i % 3)::VARCHAR::ENUM ('0', '1', '2')}]}", "(i % 3)::VARCHAR::ENUM ('0', '1', '2')",
        "[{'a': {'b': i}}]", "{'a': [i]}", "array_value(i, i)", "[[i]]",
    ],
)  # fmt: skip
def test_slices_of_nested_rows_are_read_as_they_are(value: str) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE rows AS SELECT CASE WHEN i % 5 > 0 THEN i END AS i FROM range(40) r(i)")
    query = f"SELECT i, {value} AS v FROM rows"
    whole = connection.sql(query).to_arrow_table()
    batch = whole.to_batches()[0]
    slices = pa.Table.from_batches([batch.slice(23, 6), batch.slice(0, 4), batch.slice(7, 9)])
    text = [(row,) for (row,) in connection.sql(f"SELECT (i, {value})::VARCHAR FROM rows").fetchall()]
    expected = [*text[23:29], *text[:4], *text[7:16]]
    register(connection, "slices", slices)
    assert connection.sql("SELECT (i, v)::VARCHAR FROM slices").fetchall() == expected
    assert relation(connection, slices).project("(i, v)::VARCHAR").fetchall() == expected


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("where", ["flag = true", "NOT flag", "flag > false", f"key = '{'01' * 16}'", "text = '{}'"])
def test_extension_types_are_compared_as_duckdb_compares_them(staged: bool, where: str) -> None:
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, None], pa.int8()))
    keys = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes([one] * 16) for one in range(3)], pa.binary(16)))
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", "{}", None]))
    query = f"SELECT id FROM rows_ WHERE {where} ORDER BY id"
    with qoop.connect(slots=1, staged=staged) as session, duckdb.connect() as own:
        rows = pa.table({"id": [1, 2, 3], "flag": flags, "key": keys, "text": texts})
        session.register("rows_", rows)
        columns = "id, flag::BOOLEAN AS flag, key::UUID AS key, text::JSON AS text"
        own.register("given", rows)
        own.execute(f"CREATE TABLE rows_ AS SELECT {columns} FROM given")
        expected = own.execute(query).fetchall()
        assert expected
        assert session.sql(query).fetchall() == expected


@pytest.mark.parametrize(
    "query",
    ["FROM r", "SELECT count(*) FROM r", "SELECT b FROM r WHERE a > 1 ORDER BY a", "SELECT 1 FROM r WHERE b IS NULL",
     "SELECT one.a, other.b FROM r AS one JOIN r AS other USING (a) ORDER BY a", "SELECT b, a FROM r WHERE b = 'x'"],
)  # fmt: skip
def test_a_statement_over_rows_that_change_is_planned_once(query: str) -> None:
    rows = [pa.table({"a": a, "b": b}) for a, b in (([1, 2, 3], ["x", None, "y"]), ([4, None], ["z", "x"]))]
    with duckdb.connect() as connection, duckdb.connect() as other:
        known = Input(connection, "r", rows[0].schema)
        connection.execute(f"PREPARE once AS {query}")
        for several in rows:
            with known.having(several):
                found = connection.execute("EXECUTE once").fetchall()
            other.execute("CREATE OR REPLACE TABLE r AS FROM several")
            assert found == other.execute(query).fetchall()
        assert connection.execute("EXECUTE once").fetchall() in ([], [(0,)])
