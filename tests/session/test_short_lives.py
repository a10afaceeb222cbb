"""Processes that end soon: a place learns how long they last, and plans are made of tasks that end in that time."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import replace
from math import inf
from pathlib import Path

import duckdb
import pytest
from waits import until

import qoop
from qoop.__main__ import main
from qoop.planner.finish import Done
from qoop.planner.plan import Estimate, Plan, Resources, Stage, StageInput
from qoop.planner.planner import Planning
from qoop.planner.search.candidate import Candidate
from qoop.planner.variants import LONE
from qoop.query.job import Planned
from qoop.query.output_losses import SHARED_TAKES, OutputLosses
from qoop.query.plan_search import PlanSearch
from qoop.query.planning import QueryPlanning
from qoop.query.quick_plans import best_of
from qoop.session.earlier_runs import EarlierRuns, RunLosses
from qoop.session.lives import RunLives

RANKED = """
SELECT count(*) AS n, sum(hash(k, r, m) % 1000)::BIGINT AS s FROM (
  SELECT k, row_number() OVER (PARTITION BY k ORDER BY v, w) AS r, sum(v) OVER (PARTITION BY k ORDER BY v, w) AS m
  FROM rows
) WHERE r % 3 = 1
"""
"""A window over all rows: by the usual plan on one slot, one task has all the work."""
WAITING = """
import sys, threading, qoop
with qoop.connect(sys.argv[1], slots=1, memory="500MB", checkpoints=sys.argv[2], staged=True) as session:
    session.register_function("wait", lambda n: threading.Event().wait(60), ["BIGINT"], "BIGINT")
    session.run_until_done("SELECT wait(k) FROM rows LIMIT 1", notices="none")
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rows = "SELECT i % 50000 AS k, hash(i) % 1000 AS v, i AS w FROM range(2_000_000) AS r(i)"
    duckdb.sql(rows).write_parquet(str(folder / "rows.parquet"), row_group_size=250_000)
    return folder


def expected(data: Path) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW rows AS FROM '{data / 'rows.parquet'}'")
        [row] = connection.execute(RANKED).fetchall()
    assert row[0] > 0
    return [row]


def outputs(data: Path, place: Path, capsys: pytest.CaptureFixture[str], *more: str) -> int:
    """The number of outputs of the plan by which the query begins there; it is stopped at once."""
    options = ["--slots", "1", "--memory", "500MB", "--grace", "0.01", "--notices", "none", *more]
    assert main(["run", RANKED, str(data), "--until-done", "--checkpoints", str(place), *options]) == 75
    [number] = re.findall(r"of (\d+) outputs? kept", capsys.readouterr().err)
    return int(number)


def test_a_short_life_has_short_tasks_and_the_next_one_goes_on_with_them(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "place"
    cut = outputs(data, place, capsys, "--for", "0.4")
    assert cut > 1
    said: list[str] = []
    with qoop.connect(data, slots=2, memory="1GB", checkpoints=place, staged=True) as session:
        life = session.run_until_done(RANKED, say=said.append, notices="none")
    assert life.result is not None and life.result.fetchall() == expected(data)


def test_a_query_that_was_killed_goes_on_in_tasks_that_fit_a_life(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that no `run_until_done` runs. A process that starts again with such a plan plans nothing."""
    monkeypatch.setattr(Planning, "duckdb_seconds", lambda *_: 1000.0)
    monkeypatch.setattr("qoop.query.planning.SHORT_SECONDS", 0.0)
    monkeypatch.setattr(EarlierRuns, "expected_life", lambda *_: life)

    def planned(text: str = RANKED) -> Planned:
        with qoop.connect(data, slots=1, memory="500MB", staged=False, checkpoints=tmp_path) as session:
            return session.planning.plan(text)

    life = inf
    usual = planned()
    life = 0.4
    short = planned()
    assert tasks(short.plan) > tasks(usual.plan) and short.last_resort is not None and short.adaptive is None
    assert planned("SELECT max(w + random()) FROM rows").adaptive is not None, "no other run can use its outputs"
    monkeypatch.setattr(PlanSearch, "prepare", None)  # to plan again would fail
    life = 0.3
    assert planned().plan == short.plan
    with qoop.connect(data, slots=1, memory="500MB", staged=False, checkpoints=tmp_path) as session:
        job = session.submit(RANKED, resume=True)
        assert job.result().fetchall() == expected(data) and job.plans == (short.plan,)


@pytest.mark.parametrize("killed", [False, True])
def test_a_query_that_begins_by_one_task_leaves_a_plan_for_the_next_process(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """Also a process that is killed while it compares plans."""
    monkeypatch.setattr(Planning, "duckdb_seconds", lambda *_: 1000.0)
    monkeypatch.setattr("qoop.query.planning.SHORT_SECONDS", 0.0)
    monkeypatch.setattr(OutputLosses, "tolerance", lambda *_: 0.0)
    monkeypatch.setattr(EarlierRuns, "expected_life", lambda *_: life)

    def planned() -> Planned:
        with qoop.connect(data, slots=1, memory="500MB", staged=False, checkpoints=tmp_path) as session:
            return session.planning.plan(RANKED)

    life = inf
    if killed:
        with monkeypatch.context() as patched, pytest.raises(SystemExit):
            patched.setattr(PlanSearch, "_estimated", lambda *_: sys.exit())
            planned()
    else:
        assert planned().plan.root.whole
    monkeypatch.setattr(PlanSearch, "prepare", None)  # to plan again would fail
    monkeypatch.setattr(QueryPlanning, "_takes_much_of", lambda *_: True)
    life = 100.0
    assert not planned().plan.root.whole


def tasks(plan: Plan) -> int:
    return sum(stage.width for stage in plan.stages)


def killed(data: Path, place: Path) -> float:
    """Run a query that waits, and kill its process once it has recorded that it lives; the seconds that it lasted."""
    begun, written = time.monotonic(), time.time()
    process = subprocess.Popen([sys.executable, "-c", WAITING, str(data), str(place)])
    try:
        until(
            lambda: any(one.stat().st_mtime > written for one in place.glob("until-done/*.lock") if one.stat().st_size)
        )
    finally:
        process.kill()
        process.wait()
    return time.monotonic() - begun


def test_a_place_learns_from_killed_processes_how_long_they_last(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    assert RunLives(place, None, RANKED).expected == inf, "nothing is known"
    lasted = killed(data, place)
    killed(data, place)
    other = RunLives(place, None, RANKED)
    assert other.take()
    try:
        assert 0.0 < other.expected < lasted, "the first one counts when the second begins"
        assert len(RunLosses(place).lives()) == 1, "once"
    finally:
        other.end(answered=False)
    assert RunLives(place, None, RANKED).expected == other.expected, "a process that says that it ends is no death"


class Clock:
    """The clock of lives, set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("qoop.session.lives.time", self)

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1e9 + self.now


def lived(place: Path, clock: Clock, seconds: float, started: float) -> float:
    """A life that runs tasks from some second on, and adds no output. Returns the seconds that were expected of it."""
    life = RunLives(place, None, "SELECT 1")
    assert life.take()
    clock.now += started
    life.plan(Plan((), ()), print)
    clock.now += seconds - started
    life.beat()
    life.end(answered=False, stopped=True)
    return life.expected


def test_lives_that_add_no_output_halve_the_time_that_is_planned_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    expected_lives = [lived(tmp_path, clock, 8.0, started=1.0) for _ in range(5)]
    assert expected_lives == [inf, 4.0, 2.0, 2.0, 2.0], "down to a quarter of the shortest life"
    life = RunLives(tmp_path, None, "SELECT 1")
    assert life.take() and life.is_shorter(60.0) and life.is_shorter(20.0)
    assert not life.is_shorter(20.0) and not life.is_shorter(15.0), "the plan is for such lives"
    life.end(answered=False)
    (tmp_path / "0123.json").touch()  # an output
    before, life = life.record.fruitless, RunLives(tmp_path, None, "SELECT 1")
    assert life.take() and life.record.fruitless == before - 1 > 0, "the next ones take as long"


def test_a_life_that_planned_for_most_of_its_time_says_nothing_of_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    assert [lived(tmp_path, clock, 8.0, started=5.0) for _ in range(3)] == [inf, 8.0, 8.0]


def test_a_query_within_a_life_is_planned_for_that_life(tmp_path: Path) -> None:
    with qoop.connect(slots=1, checkpoints=tmp_path) as session, session.planning.in_life(2.0, shorter=False):
        earlier = session.planning._earlier
        with earlier.in_life(earlier.expected_life("SELECT 1"), shorter=False):
            assert earlier.expected_life("SELECT 1") == 2.0, "a life within it is the same one"


def candidate(*stages: tuple[int, float], shareable: bool = True) -> Candidate:
    """Stages with the number of their tasks and the seconds of each; the root follows them. shareable: the last one."""
    columns = (("x", "INTEGER"),)
    made = [
        Stage(f"s{n}", "", (), columns, width, f"s{n}", estimate=Estimate(task_seconds=seconds))
        for n, (width, seconds) in enumerate(stages)
    ]
    made[-1] = replace(made[-1], shareable=shareable)
    inputs = tuple(StageInput(one.id, one.id, "all") for one in made)
    root = Stage("root", "", inputs, columns, 1, "root", estimate=Estimate(task_seconds=0.01))
    return Candidate(Plan((*made, root), columns), "")


def test_the_plan_that_ends_first_depends_on_the_length_of_a_life() -> None:
    slot, nothing = Resources(1), [Done(), Done()]
    whole, cut = candidate((1, 20.0)), candidate((100, 0.23))

    def first(life: float | None) -> int:
        return OutputLosses(True, life).first_to_end([whole, cut], slot, nothing)

    assert [first(life) for life in (None, 600.0, 60.0, 5.0)] == [0, 0, 1, 1]
    losses, nearly_done = OutputLosses(True, 60.0), [Done({"s0": 1}), Done({"s0": 1})]
    assert losses.first_to_end([whole, cut], slot, nearly_done) == 0, "what is done counts"
    assert losses.ends(whole, slot, Done()) and not OutputLosses(True, 30.0).ends(whole, slot, Done())
    assert OutputLosses(True, 30.0).ends(whole, slot, Done({"s0": 1}))


def test_a_plan_goes_on_unless_another_ends_much_earlier() -> None:
    """The next processes may have other sizes, by which other plans are a little better."""
    slot, begun = Resources(1), Done({"s0": 2})
    one, other = candidate((20, 1.0)), candidate((25, 0.7))
    losses = OutputLosses(True, 10.0)
    assert losses.first_to_end([one, other], slot, [Done(), Done()]) == 1
    assert losses.first_to_end([one, other], slot, [begun, Done()]) == 0
    assert losses.first_to_end([one, candidate((25, 0.1))], slot, [begun, Done()]) == 1


def test_a_plan_with_outputs_goes_on_with_longer_tasks_than_one_without() -> None:
    """To plan again takes as long, and seldom finds a plan that ends so much earlier that the outputs are left."""
    slot, losses = Resources(1), OutputLosses(True, 30.0)
    begun = candidate((2, 1.0), (1, 18.0))
    assert losses.ends(begun, slot, Done({"s0": 1})) and not losses.ends(begun, slot, Done())
    assert not losses.ends(candidate((2, 1.0), (1, 24.0)), slot, Done({"s0": 1}))


def test_a_task_longer_than_a_life_is_worse_than_any_number_of_shorter_ones() -> None:
    slot, nothing = Resources(1), [Done(), Done()]
    assert OutputLosses(True, 1.0).first_to_end([candidate((1, 1.1)), candidate((60, 0.2))], slot, nothing) == 1


def test_where_outputs_survive_a_process_short_tasks_may_take_a_little_longer() -> None:
    slots, usual, short = Resources(2), candidate((1, 6.0)), candidate((12, 1.02))
    assert short.longest_task(slots) < 0.2 * usual.longest_task(slots)

    def first(*candidates: Candidate, survive: bool = True) -> Candidate:
        return best_of(candidates, slots, doubted=False, free=OutputLosses(survive).free).candidate

    assert first(usual, short) is short and first(usual, short, survive=False) is usual
    assert first(usual, slower := candidate((12, 1.1))) is usual, "at most 3 % more"
    assert first(slower, short) is short


def test_a_long_plan_of_one_task_counts_as_longer() -> None:
    slots, short = Resources(2), candidate((20, 0.25))
    lone = replace(candidate((1, 2.2)), variant=LONE[0])

    def best(losses: OutputLosses, theirs: float) -> Candidate:
        candidates = losses.wary([lone, short], losses.tolerance(theirs, False))
        return min(candidates, key=lambda one: one.finish.seconds(slots))

    assert best(OutputLosses(True), 60.0) is short, "it loses as much as DuckDB's with its process"
    assert best(OutputLosses(True), 1.0) is lone and best(OutputLosses(False), 60.0) is lone
    assert best(OutputLosses(True, between=1e6), 1e6) is not short, "losses are rare"


def test_a_task_of_several_slots_is_expected_to_take_longer_than_a_life() -> None:
    """Estimates of such tasks are the least certain."""
    plan = candidate((1, 2.0)).plan
    shared = replace(
        candidate((1, 2.0)), plan=replace(plan, stages=(replace(plan.stages[0], slots=2), *plan.stages[1:]))
    )
    slots, losses = Resources(2), OutputLosses(True, 1.5)
    assert shared.finish.on(slots)[0].seconds[0] < 1.5 < SHARED_TAKES * shared.finish.on(slots)[0].seconds[0]
    assert losses.first_to_end([shared, candidate((30, 0.2))], slots, [Done(), Done()]) == 1


def test_tasks_whose_outputs_serve_no_other_process_are_lost_together() -> None:
    """As where sums of floats are compared: to cut them gains nothing, and each task has its cost."""
    slot, nothing = Resources(1), [Done(), Done()]
    whole, cut = candidate((1, 20.0), shareable=False), candidate((100, 0.21), shareable=False)
    losses = OutputLosses(True, 30.0)
    assert losses.first_to_end([whole, cut], slot, nothing) == 0
    assert not losses.ends(cut, slot, Done()) and OutputLosses(True, 60.0).ends(cut, slot, Done())
    assert losses.first_to_end([candidate((1, 20.0)), candidate((100, 0.21))], slot, nothing) == 1
    begun = candidate((2, 1.0), (1, 20.0), shareable=False)
    assert not losses.ends(begun, slot, Done()) and losses.ends(begun, slot, Done({"s0": 1})), "no plan divides them"


def test_tasks_that_took_longer_than_estimated_make_a_life_shorter() -> None:
    from qoop.engine.task import checkpoint_key

    plan = candidate((4, 1.0))
    [key, *_] = [checkpoint_key(plan.plan.stages[0], part) for part in range(4)]
    losses = OutputLosses(True, 60.0)
    assert losses.slowed([plan], Resources(1), {key: 3.0}).life == pytest.approx(20.0, rel=0.01)
    assert losses.slowed([plan], Resources(1), {key: 0.1}).life == 60.0
    assert losses.slowed([plan], Resources(1), {key: 300.0}).life == 15.0, "slices take longer because they are slices"
    assert losses.slowed([plan], Resources(1), {}) == losses
