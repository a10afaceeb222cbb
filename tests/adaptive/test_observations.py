"""Observations of stages that a session remembers, and plans by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.adaptive.replanning.observations import SessionObservations, misestimate, outputs
from qoop.engine.events import Committed
from qoop.engine.storage.manifest import CheckpointDirectory
from qoop.engine.task import CheckpointKey, checkpoint_key
from qoop.planner.estimate.observed import Observation
from qoop.planner.plan import Estimate, Plan, Stage, StageInput, TableInput
from qoop.planner.variants import Variant
from qoop.session.session import Session

COLUMNS = (("a", "INTEGER"),)
READ = (TableInput("t", "t", "v1", ("a",), True),)
FIRST = Stage("s1", "", READ, COLUMNS, 2, "sig1", slots=2, estimate=Estimate(10.0), meaning="rows1")
ROOT = Stage("s2", "", (StageInput("s1", "s1", "all"),), COLUMNS, 1, "sig2", estimate=Estimate(5.0), meaning="rows2")
PLAN = Plan((FIRST, ROOT), COLUMNS)


def fact(stage: Stage, part: int, rows: int, cpu: float = 0.0, peak: int = 0) -> Committed:
    return Committed(checkpoint_key(stage, part), (rows, 1), (8 * rows, 8), 0.5, cpu, peak)


def test_a_stage_counts_once_all_its_parts_are_there() -> None:
    half = [fact(FIRST, 0, 100)]
    assert outputs(PLAN, half) == {}
    both = [*half, *half, fact(FIRST, 1, 50, cpu=0.3, peak=7000)]
    assert outputs(PLAN, both) == {"s1": Observation(152, 1216, 0.5 * 2 + 0.3, 7000)}


def test_outputs_of_another_plan_with_an_equal_stage_count() -> None:
    other = Plan((Stage("x9", "", READ, COLUMNS, 2, "sig1", slots=2),), COLUMNS)
    assert outputs(other, [fact(FIRST, 0, 1), fact(FIRST, 1, 1)]).keys() == {"x9"}


def test_the_misestimate_is_the_worst_factor() -> None:
    assert misestimate(PLAN, {"s1": Observation(30_000), "s2": Observation(5)}) == 30.0
    assert misestimate(PLAN, {"s1": Observation(900)}) == 1.0  # few either way
    assert misestimate(PLAN, {}) == 1.0


def test_seconds_are_not_remembered() -> None:
    seen = SessionObservations()
    seen.add(PLAN, {"s1": Observation(9000, seconds=3.0)})
    assert {one.seconds for one in seen.over({"t": "v1"}).by_signature.values()} == {None}


def test_only_what_is_over_the_query_s_tables_is_given() -> None:
    seen = SessionObservations()
    seen.add(PLAN, {"s1": Observation(9000), "s2": Observation(5)})
    found = seen.over({"t": "v1", "u": "v1"})
    assert found.by_signature["sig1"] == Observation(9000, reads=frozenset({"table t v1"}))
    assert found.by_signature["rows1"].rows == 9000
    assert "rows2" not in found.by_signature  # it was as expected: no news to the search
    assert found.tables == {frozenset({("t", "v1")})}
    assert seen.over({"t": "v2"}).by_signature == {} == seen.over({"u": "v1"}).by_signature


def test_the_oldest_are_forgotten_first() -> None:
    seen = SessionObservations(most=10)
    for number in range(50):
        stage = Stage("s1", "", READ, COLUMNS, 1, f"sig{number}", meaning=f"rows{number}")
        seen.add(Plan((stage,), COLUMNS), {"s1": Observation(9000)})
        assert len(seen) <= 10
    kept = {f"{kind}{number}" for number in range(45, 50) for kind in ("sig", "rows")}
    assert seen.over({"t": "v1"}).by_signature.keys() == kept


def test_non_deterministic_stages_are_not_remembered() -> None:
    seen = SessionObservations()
    non_deterministic = Stage("s1", "", READ, COLUMNS, 1, "sig", shareable=False)
    seen.add(Plan((non_deterministic,), COLUMNS), {"s1": Observation(9000)})
    assert len(seen) == 0


# In a session

MISJUDGED = "SELECT count(*) FROM t WHERE a * 7 % 1000 = b * 7 % 1000 AND a % 3 + b % 3 <> 7 GROUP BY a"


@pytest.fixture
def session() -> Iterator[Session]:
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register("t", pa.table({"a": list(range(20_000)), "b": list(range(20_000))}))
        yield session


def test_later_plans_know_what_was_seen(session: Session) -> None:
    def rows() -> float:
        return session.prepare(MISJUDGED).planning().plan(Variant(), session.available).root.estimate.rows

    before = rows()
    assert len(session.sql(MISJUDGED).fetchall()) == 20_000
    session.explain("SELECT 1")  # what has ended is looked at when the next text is planned
    assert before < 20_000 / 4
    assert rows() == 20_000


def test_a_plan_that_was_far_off_is_made_again(session: Session) -> None:
    session.sql(MISJUDGED)
    hits = session.plan_cache.hits
    text = session.explain(MISJUDGED)
    assert session.plan_cache.hits == hits
    assert "20k rows" in text
    session.sql(MISJUDGED)
    session.explain(MISJUDGED)
    assert session.plan_cache.hits == hits + 2  # now it is right, and stays


def test_a_table_that_has_changed_is_another(session: Session) -> None:
    session.sql(MISJUDGED)
    session.register("t", pa.table({"a": [1, 2], "b": [1, 2]}))
    assert "20k rows" not in session.explain(MISJUDGED)
    assert session.sql(MISJUDGED).fetchall() == [(1,), (1,)]


def test_checkpoints_of_another_process_tell_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": list(range(20_000)), "b": list(range(20_000))}), path)

    def opened() -> Session:
        session = qoop.connect(slots=2, memory="500MB", checkpoints=tmp_path / "checkpoints")
        session.register("t", path)
        return session

    with opened() as one:
        assert one.learn(MISJUDGED) == 0
        one.sql(MISJUDGED)
    with opened() as other:
        assert "20k rows" not in other.explain(MISJUDGED)
        assert other.learn(MISJUDGED) > 0
        assert "20k rows" in other.explain(MISJUDGED)
        available = CheckpointDirectory(tmp_path / "checkpoints", 12_000)
        rows = pa.table({"a": pa.array(range(1250), pa.int64())})  # of 10 KB: all else has to go
        saved = available.save(Committed(CheckpointKey("sig", "layout", 0), (1250,), (rows.nbytes,), 1.0), [rows])
        assert saved is not None, "what was looked at is not needed any more"
        available.close()
