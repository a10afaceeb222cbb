"""Queries that may come out differently when run again (law 12); nobody takes such rows for their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.engine.task import CheckpointKey, checkpoint_key, own_non_deterministic
from qoop.planner.algebra.expr import VOLATILE
from qoop.planner.plan import Plan
from qoop.planner.search.alternatives import pool
from qoop.planner.search.candidate import local_grid
from qoop.planner.search.reuse import finished_stages
from qoop.planner.variants import Variant
from qoop.session.session import Session

TABLE = """SELECT (i % 4)::INT a, i::INT b, i c, i::DOUBLE f, (i / 7)::DECIMAL(9,2) d, 'x' || i x,
           TIMESTAMP '2000-01-01' ts, to_days(i::INT) v FROM range(200) AS r(i)"""

NON_DETERMINISTIC = {
    "random": "SELECT a FROM (SELECT a, random() r FROM t) WHERE r < 0.5",
    "random in a grouping": "SELECT count(*) FROM t WHERE random() < 0.5",
    "random in an aggregate": "SELECT sum(random()) FROM t",
    "random in a function": "SELECT a FROM t WHERE hash(a, random()) > 5",
    "uuid in functions": "SELECT max(upper(uuid()::VARCHAR)) FROM t",
    "gen_random_uuid in an aggregate": "SELECT max(gen_random_uuid()) FROM t",
    "order by random": "SELECT a FROM t ORDER BY random() LIMIT 2",
    "uuid": "SELECT a, uuid() u FROM t",
    "sample": "SELECT * FROM t USING SAMPLE 3 ROWS",
    "tablesample": "SELECT * FROM t TABLESAMPLE 10%",
    "reckoned from now": "SELECT age(ts) AS d FROM t",
    "ago": "SELECT b FROM t WHERE ts < ago(INTERVAL 1 DAY)",
    "limit": "SELECT a FROM t LIMIT 3",
    "offset": "SELECT b FROM t OFFSET 2",
    "limit over a union": "SELECT x FROM t UNION ALL SELECT x FROM t LIMIT 1",
    "limit by some columns": "SELECT a, b FROM t ORDER BY a LIMIT 3",
    "distinct on": "SELECT DISTINCT ON (a) a, b FROM t",
    "row_number over ties": "SELECT b, row_number() OVER (ORDER BY a) n FROM t",
    "ntile over ties": "SELECT b, ntile(3) OVER (ORDER BY a) n FROM t",
    "lag over ties": "SELECT lag(b) OVER (ORDER BY a) n FROM t",
    "first_value over ties": "SELECT first_value(b) OVER (PARTITION BY a) n FROM t",
    "rows over ties": "SELECT sum(b) OVER (ORDER BY a ROWS 2 PRECEDING) n FROM t",
    "first": "SELECT first(b) FROM t",
    "any_value": "SELECT a, any_value(b) v FROM t GROUP BY a",
    "list": "SELECT list(b) FROM t",
    "string_agg": "SELECT a, string_agg(x, ',') v FROM t GROUP BY a",
    "string_agg by another column": "SELECT string_agg(x, ',' ORDER BY a) v FROM t",
    "arg_min": "SELECT arg_min(b, a) FROM t",
    "max_by": "SELECT max_by(x, a) FROM t",
    "mode": "SELECT mode(b) FROM t",
    "approx_quantile": "SELECT approx_quantile(b, 0.5) FROM t",
    "approx_top_k": "SELECT approx_top_k(b, 2) FROM t",
    "reservoir_quantile": "SELECT reservoir_quantile(b, 0.5) FROM t",
    "equal values that look different": "SELECT max(v) FROM t",
    "groups of such": "SELECT v, count(*) n FROM t GROUP BY v",
    "a float sum compared": "SELECT a FROM t GROUP BY a HAVING sum(f) > 3",
    "a float sum rounded": "SELECT a, round(sum(f), 2) s FROM t GROUP BY a",
    "a float sum grouped by": "SELECT s, count(*) n FROM (SELECT a, sum(f) s FROM t GROUP BY a) GROUP BY s",
    "ranked by a float sum": "SELECT a, rank() OVER (ORDER BY sum(f)) r FROM t GROUP BY a",
    "the first by a float sum": "SELECT a FROM t GROUP BY a ORDER BY sum(f), a LIMIT 1",
    "compared with a float average": "SELECT b FROM t WHERE b > (SELECT avg(f) FROM t)",
    "a variance compared": "SELECT a FROM t GROUP BY a HAVING stddev(b) > 3",
}

SURE = {
    "the present moment": "SELECT now() AS n, b FROM t WHERE ts < now()",
    "limit by all columns": "SELECT a FROM t ORDER BY a LIMIT 3",
    "limit by a key": "SELECT a, sum(b) s FROM t GROUP BY a ORDER BY a LIMIT 3",
    "limit of one row": "SELECT count(*) FROM t LIMIT 1",
    "ranks": "SELECT b, rank() OVER (ORDER BY a) n FROM t",
    "row_number over rows that are equal": "SELECT row_number() OVER (ORDER BY a) n FROM t",
    "row_number by a key": "SELECT a, s, row_number() OVER (ORDER BY a) n FROM (SELECT a, sum(b) s FROM t GROUP BY a)",
    "running sums": "SELECT b, sum(b) OVER (ORDER BY a) n FROM t",
    "an ordered string_agg": "SELECT string_agg(x, ',' ORDER BY x) v FROM t",
    "median": "SELECT median(b), quantile_disc(b, 0.25), mad(b) FROM t",
    "an approximate count": "SELECT approx_count_distinct(b) FROM t",  # the largest of each register, in any order
    "a scalar subquery": "SELECT b FROM t WHERE b = (SELECT b FROM t WHERE c = 3)",
    "a decimal sum compared": "SELECT a FROM t GROUP BY a HAVING sum(d) > 3 AND avg(d) > 1",
    "a float sum": "SELECT a, sum(f) / 2 s, stddev(b) FROM t GROUP BY a ORDER BY s",
    "a float sum that is there": "SELECT a, sum(f) s FROM t GROUP BY a HAVING sum(f) IS NOT NULL",
    "floats compared": "SELECT b FROM t WHERE f > 3 GROUP BY b HAVING max(f) > 4 AND median(f) > 4",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("islands")
    duckdb.sql(TABLE).write_parquet(str(folder / "t.parquet"))
    return folder


@pytest.fixture(scope="module")
def session(data: Path) -> Iterator[Session]:
    with qoop.connect(slots=2) as opened:
        opened.register_folder(data)
        yield opened


def usual(session: Session, text: str) -> Plan:
    return session.prepare(text).planning().plan(Variant(), session.available)


@pytest.mark.parametrize("what", NON_DETERMINISTIC)
def test_a_non_deterministic_stage_has_a_key_of_its_own_in_every_job_and_is_not_held_for_others(
    session: Session, what: str
) -> None:
    plan = usual(session, NON_DETERMINISTIC[what])
    assert not plan.root.shareable
    assert all(item.stage.shareable for item in finished_stages(plan, [stage.id for stage in plan.stages]))
    keys = [non_deterministic(own_non_deterministic(plan, job)) for job in ("one", "two")]
    assert keys[0] and keys[0].isdisjoint(keys[1])


def non_deterministic(plan: Plan) -> set[CheckpointKey]:
    return {checkpoint_key(stage, 0) for stage in plan.stages if not stage.shareable}


@pytest.mark.parametrize("what", SURE)
def test_what_always_comes_out_the_same_is_deterministic(session: Session, what: str) -> None:
    assert all(stage.shareable for stage in usual(session, SURE[what]).stages)


FLOAT_SUMS = "WITH q AS (SELECT a, sum(f) AS s FROM t GROUP BY a) "
MEETING = {
    "the largest": "SELECT a FROM q WHERE s = (SELECT max(s) FROM q)",
    "no less than the largest": "SELECT a FROM q WHERE s >= (SELECT max(s) FROM q)",
    "joined by the sum": "SELECT x.a FROM q AS x JOIN q AS y ON x.s = y.s",
    "in the sums": "SELECT a FROM q WHERE s IN (SELECT s FROM q WHERE a > 1)",
    "intersected": "SELECT s FROM q INTERSECT SELECT s FROM q WHERE a > 1",
}


@pytest.mark.parametrize("what", MEETING)
def test_a_float_sum_that_meets_itself_is_a_non_deterministic_stage_in_every_plan(session: Session, what: str) -> None:
    """Were one reader's sums from another run, the answer could be empty."""
    for member in pool(
        session.prepare(FLOAT_SUMS + MEETING[what]).planning(), local_grid(session.available)
    ).candidates:
        grouped = [
            stage for stage in member.plan.stages if "sum(" in stage.sql.lower() and "group" in stage.sql.lower()
        ]
        assert grouped and not any(stage.shareable for stage in grouped)


def test_a_float_sum_that_is_compared_with_something_else_serves_others(session: Session) -> None:
    text = FLOAT_SUMS + "SELECT x.a FROM q AS x, q AS y WHERE x.a = y.a AND x.s > 2 * y.a"
    plan = usual(session, text)
    assert not plan.root.shareable and any(stage.shareable for stage in plan.stages)


def test_volatile_functions_are_known_by_name() -> None:
    text = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    harmless = {"error", "stats"}  # neither gives another value the second time
    assert {name for (name,) in duckdb.sql(text).fetchall()} <= VOLATILE | harmless


def test_random_rows_are_drawn_again_for_each_job_and_each_process(data: Path, tmp_path: Path) -> None:
    text = "SELECT sum(r) AS s FROM (SELECT random() AS r FROM t)"
    drawn = []
    for _ in range(2):
        with qoop.connect(slots=2, checkpoints=tmp_path / "kept", reuse=True) as session:
            session.register_folder(data)
            drawn += [session.sql(text).fetchall() for _ in range(2)]
    assert len(set(map(str, drawn))) == 4
