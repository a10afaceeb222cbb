"""The latest row before each outer row, as a join with it: DuckDB's rows, and an error where the choice is open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from planner_world import World, counted
from run_plan import run_plan

from qoop.engine.history import Switched
from qoop.planner.algebra.outline import outline
from qoop.planner.algebra.relation import Opaque, Window, walk
from qoop.planner.arrange.arrange import arranged
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import DEFAULT
from qoop.planner.plan import TableInput
from qoop.session.opening import connect

SCRIPT = """
CREATE TABLE t AS SELECT i AS id, nullif(i % 7, 5)::INTEGER AS k, nullif(i * 13 % 60, 11)::INTEGER AS at
FROM range(120) r(i);
CREATE TABLE u AS SELECT nullif(i % 6, 4)::INTEGER AS k, nullif(i // 6 * 7 % 45, 3)::INTEGER AS at,
CASE WHEN i % 9 > 0 THEN (i * 3 % 40)::INTEGER END AS v, i / 8 AS x FROM range(270) r(i);
CREATE TABLE w AS SELECT k, u.at + j AS at, j AS n, CASE WHEN j < 2 THEN v END AS v, x FROM u, range(3) r(j)
WHERE u.at % 2 = 0;
"""
WAYS = {
    "scalar": "SELECT id, ({row}) AS x FROM t",
    "inner lateral": "SELECT id, x FROM t, LATERAL ({row}) l(x)",
    "left lateral": "SELECT id, x + 1 FROM t LEFT JOIN LATERAL ({row}) l(x) ON true",
    "compared": "SELECT id FROM t WHERE id % 40 > ({row})",
}
ROWS = {
    "value": "SELECT v FROM u WHERE u.k = t.k AND u.at {op} t.at ORDER BY u.at {way} LIMIT 1",
    "expression": "SELECT v * 2 + k FROM u WHERE t.k = u.k + 0 AND t.at + 1 {mirrored} u.at AND v > 3 "
    "ORDER BY u.at {way} NULLS LAST LIMIT 1",
    "tie": "SELECT n FROM w WHERE w.k = t.k AND w.at {op} t.at ORDER BY w.at {way}, n DESC LIMIT 1",
    "ties of NULL": "SELECT x FROM w WHERE w.k = t.k AND w.at {op} t.at ORDER BY w.at {way}, v NULLS LAST, n LIMIT 1",
    "no equal key": "SELECT k FROM u WHERE u.at::BIGINT {op} t.at AND u.k = 2 ORDER BY u.at::BIGINT {way} LIMIT 1",
    "place": "SELECT u.at FROM u WHERE u.k = t.k AND u.at {op} t.at ORDER BY 1 {way} LIMIT 1",
    "of a join": "SELECT u.v FROM u JOIN w ON w.k = u.k AND w.n = 0 AND w.at = u.at WHERE u.k = t.k AND u.at {op} t.at "
    "ORDER BY u.at {way} LIMIT 1",
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    yield World(SCRIPT)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row", ROWS)
def test_rows_are_those_of_duckdb(world: World, way: str, row: str) -> None:
    op = [*MIRRORED][([*WAYS].index(way) + [*ROWS].index(row)) % len(MIRRORED)]
    direction = "DESC" if op in ("<", "<=") else "ASC"
    query = WAYS[way].format(row=ROWS[row].format(op=op, way=direction, mirrored=MIRRORED[op]))
    _, relation = world.placed(query)
    assert any(isinstance(node, Window) for node in walk(relation)), outline(relation)
    expected = counted(world.duckdb(query))
    assert expected and counted(answer(world, query)) == expected


def test_an_open_choice_is_an_error(world: World) -> None:
    row = "SELECT {value} FROM w WHERE w.k = t.k AND w.at <= t.at ORDER BY w.at DESC LIMIT 1"
    same = f"SELECT id, ({row.format(value='w.k')}) FROM t"
    assert counted(answer(world, same)) == counted(world.duckdb(same))
    with pytest.raises(duckdb.Error, match=r"agree in all items of its ORDER BY"):
        answer(world, f"SELECT id, ({row.format(value='n')}) FROM t")


@pytest.mark.parametrize(
    "subquery",
    [
        "SELECT v FROM u WHERE u.k = t.k AND u.at <= t.at ORDER BY u.at LIMIT 1",
        "SELECT v FROM u WHERE u.k = t.k AND u.at <= t.at ORDER BY u.v DESC LIMIT 1",
        "SELECT v FROM u WHERE u.k = t.k AND u.at <= t.at ORDER BY u.at DESC LIMIT 1 OFFSET 1",
        "SELECT v FROM u WHERE u.k = t.k AND u.at <= t.at LIMIT 1",
        "SELECT v FROM u WHERE u.k = t.k AND u.at <= t.at AND u.v > t.at ORDER BY u.at DESC LIMIT 1",
        "SELECT max(v) FROM u WHERE u.k = t.k AND u.at <= t.at GROUP BY u.at ORDER BY u.at DESC LIMIT 1",
        "SELECT x FROM u WHERE u.k = t.k AND u.x <= t.at ORDER BY u.x DESC LIMIT 1",
    ],
    ids=["other way", "other order", "offset", "no order", "two bounds", "groups", "bound of doubles"],
)
def test_other_first_rows_run_whole(world: World, subquery: str) -> None:
    _, relation = world.placed(f"SELECT id, ({subquery}) FROM t")
    assert any(isinstance(node, Opaque) for node in walk(relation))


def test_a_query_whose_choice_is_open_changes_to_the_plan_of_duckdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qoop.query.planning.SHORT_SECONDS", 0.0)  # a query that is long by its footers
    (tmp_path / "data").mkdir()
    with duckdb.connect() as connection:
        for name, more in (("t", ""), ("u", ""), ("w", "UNION ALL SELECT 7, 10, 0, 99")):
            rows = f"SELECT i % 8 AS k, i // 8 * 2 AS at, i AS id, i % 7 AS v FROM range(12000) r(i) {more}"
            connection.execute(f"COPY ({rows}) TO '{tmp_path}/data/{name}.parquet'")
    query = (
        "SELECT count(*) AS n, sum(t.id) AS s FROM t, LATERAL (SELECT u.v FROM w u WHERE u.k = t.k AND u.at <= t.at "
        "ORDER BY u.at DESC LIMIT 1) l WHERE l.v > -5"
    )
    with connect(
        str(tmp_path / "data"), slots=2, memory="1GB", checkpoints=str(tmp_path / "kept"), staged=False
    ) as session:
        planned = session.planning.plan(query)
        job = session.submit(query)
        assert job.result().fetchall() == [(12000, sum(range(12000)))]
        reasons = [one.why for one in job.history() if isinstance(one, Switched)]
    assert not planned.plan.root.whole and planned.last_resort is not None
    read = {item.table for item in planned.last_resort.root.inputs if isinstance(item, TableInput)}
    assert read == {"t", "u", "w"}, "an alias has the name of a table"
    assert len(reasons) == 2 and "agree in all items" in reasons[1]


def answer(world: World, query: str) -> pa.Table:
    plan = world.plan(query, rewrite=lambda one: arranged(one, Cardinality(world.stats), DEFAULT))
    return run_plan(plan, world.tables)
