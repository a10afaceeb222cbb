"""The walks of the documentation: the functions that each step names are called, and in that order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from house_walks import Recording, Step, code_of, steps
from waits import until

import qoop
from qoop.adaptive.replanning.decision import Decision, DecisionInput, Stay, switch_to
from qoop.adaptive.replanning.greedy import Greedy
from qoop.engine.history import Decided, Started
from qoop.engine.kernel import Kernel
from qoop.engine.task import TaskSpec

PAGE = Path(__file__).parents[2] / "docs" / "life-of-a-query.md"
SMALL = "SELECT k % 10 AS g, sum(v) AS total FROM facts WHERE v > 2 GROUP BY g ORDER BY g"
LONG = "SELECT a.k % 1000 AS g, sum(a.v * b.v) AS s FROM facts a JOIN facts b ON a.k = b.k GROUP BY g ORDER BY g"


def facts(folder: Path, rows: int) -> Path:
    """A table in a file, so that other sessions know it again."""
    path = folder / "facts.parquet"
    with duckdb.connect() as made:
        made.sql(f"SELECT range AS k, range * 13 % 1009 AS v FROM range({rows})").write_parquet(str(path))
    return path


def a_query(folder: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    with recording.on(), qoop.connect(slots=2, memory="1GB") as session:
        session.register("facts", facts(folder, 100_000))
        recording.calls.clear()
        assert len(session.sql(SMALL).fetchall()) == 10


def a_resize(folder: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy is made to switch, whatever the gain: that is another matter."""
    monkeypatch.setattr(Greedy, "decide", another_than(Greedy.decide))
    with recording.on(), qoop.connect(slots=4, memory="2GB") as session:
        session.register("facts", facts(folder, 5_000_000))
        assert len(session.alternatives(LONG).kept) > 1
        run, may_end = Kernel.run, threading.Event()

        def held(self: Kernel, spec: TaskSpec, read: Any, between: Callable[[], None], *more: Any) -> object:
            while not may_end.wait(0.005):
                between()
            return run(self, spec, read, between, *more)

        monkeypatch.setattr(Kernel, "run", held)
        job = session.submit(LONG)
        until(lambda: switches(job) == 1 and isinstance(job.history()[-1], Started))
        recording.calls.clear()
        session.resize(slots=1)  # with tasks under way, to be stopped
        until(lambda: switches(job) > 1)
        may_end.set()
        assert len(job.result().fetchall()) == 1000


def switches(job: qoop.Job) -> int:
    return sum(isinstance(one, Decided) and one.switched for one in job.history())


def another_than(decide: Callable[[Greedy, DecisionInput], Decision]) -> Callable[[Greedy, DecisionInput], Decision]:
    """Calls `decide`, and switches whatever it says."""

    def switch(self: Greedy, question: DecisionInput) -> Decision:
        decide(self, question)
        others = [place for place in range(len(question.options)) if place != question.running]
        return switch_to(question, others[0]) if others else Stay("there is no other plan", question.remaining)

    return switch


def a_checkpoint(folder: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    path, answers = facts(folder, 100_000), []
    with recording.on():
        for _ in range(2):
            with qoop.connect(slots=2, memory="1GB", checkpoints=folder / "kept") as session:
                session.register("facts", path)
                answers.append(session.sql(SMALL).fetchall())
    assert len(answers[0]) == 10 and answers[0] == answers[1]


WALKS: dict[str, Callable[[Path, Recording, pytest.MonkeyPatch], None]] = {
    "From text to answer": a_query,
    "From resize to switch": a_resize,
    "From signature to file": a_checkpoint,
}


@pytest.mark.parametrize("heading", WALKS)
def test_the_functions_of_a_walk_are_called_in_its_order(
    heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = steps(PAGE, heading)
    assert [step.number for step in walk] == list(range(1, len(walk) + 1)) and len(walk) > 9
    assert [step.number for step in walk if not step.functions] == []
    recording = Recording.of(walk)
    WALKS[heading](tmp_path, recording, monkeypatch)
    assert recording.missing(walk) == set()
    assert recording.out_of_order(walk) is None


def test_another_order_would_be_seen() -> None:
    walk = (Step(1, ("one",)), Step(2, ("two", "one")))
    assert Recording({}, [(1.0, "one"), (2.0, "two")]).out_of_order(walk) is None
    assert "step 2" in str(Recording({}, [(1.0, "two"), (2.0, "one")]).out_of_order(walk))
    assert Recording({}, [(1.0, "one")]).missing(walk) == {"two"}


def test_functions_are_told_from_what_is_none() -> None:
    assert code_of("qoop.session.session.Session.sql") and code_of("qoop.query.job.Job.plan")
    assert not code_of("qoop.session.session") and not code_of("qoop.session.session.Session")
