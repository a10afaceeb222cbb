"""A trace has the messages to programs above jobs, and their steps follow from these again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import qoop
from qoop.adaptive.cluster.recording.messages import ProgramMessage
from qoop.adaptive.program import Begin
from qoop.adaptive.program_log import Programs
from qoop.adaptive.retrace.reading import Recording, read_trace
from qoop.adaptive.retrace.rerun import rerun
from qoop.catalog.errors import PlanError
from qoop.programs.kinds import program_kinds
from qoop.programs.views.freshness import Allotted, Freshness, RefreshEnded, TablesCompared

STEP = "SELECT avg(x) AS m, sum((x - m) ** 2) AS loss FROM points, former GROUP BY m"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a session with an answer that grows to its goal and then to its end, one that is stopped, and an iteration."""
    path = Path(tmp_path_factory.mktemp("trace")) / "session.jsonl"
    rows = pa.table({"k": [row % 4 for row in range(400_000)], "v": [row * 7919 % 100 for row in range(400_000)]})
    with qoop.connect(slots=2, memory="1GB", trace=path) as session:
        session.register("t", rows)
        session.register("points", pa.table({"x": [1.0, 2.0, 6.0]}))
        session.set("exact_within", 0)
        answer = session.approximate("SELECT k, sum(v) AS s FROM t GROUP BY k", error=0.05, seed=1)
        assert answer.last().share < 1.0
        answer.result()
        session.approximate("SELECT k, avg(v) AS s FROM t GROUP BY k", error=0.0).stop()
        session.iterate(STEP, pa.table({"m": [0.0]})).last()
    return path


def told(recording: Recording, program: str) -> list[str]:
    messages = [message for tick in recording.ticks for message in tick.messages]
    return [one.message for one in messages if isinstance(one, ProgramMessage) and one.program == program]


def test_a_trace_has_what_programs_are_told_and_their_steps_follow_again(trace: Path) -> None:
    recording = read_trace(trace)
    assert told(recording, "program1")[0] == "Begin()" and "Finish()" in told(recording, "program1")
    assert told(recording, "program2") == ["Begin()", "Stop()"]
    assert any(message.startswith("StepEnded(number=1, loss=") for message in told(recording, "program3"))
    steps = [line for tick in recording.ticks for line in tick.outputs if line["out"] == "ProgramStepped"]
    assert steps[0]["steps"] == ["Read(number=0, rest=False)"] and sum("End()" in one["steps"] for one in steps) == 3
    assert str(rerun(recording, program_kinds=program_kinds)).endswith("all the same")


def test_a_program_that_steps_otherwise_is_a_difference(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qoop.programs.rounds import Rounds

    monkeypatch.setattr(Rounds, "after", lambda self, message: (self, ()))
    assert "Read(number=0, rest=False)" in str(rerun(read_trace(trace), program_kinds=program_kinds))


def test_each_message_of_a_view_is_read_again() -> None:
    assert len({kind.__name__ for kind in program_kinds()}) == len(program_kinds())
    state = Freshness(10.0)
    known = Programs(program_kinds())
    for message in (Begin(), Allotted(0.5, 4), TablesCompared(108.5, 99.0), RefreshEnded(109.0, 0.5, sampled=True)):
        began = repr(state) if message == Begin() else ""
        state, orders = state.after(message)
        assert known.take("view", repr(message), began) == tuple(map(repr, orders))
    assert state.sampled and state.share == Allotted(0.5, 4)


def test_a_text_that_is_no_message_is_refused() -> None:
    with pytest.raises(
        PlanError,
        match=r"nor a message to one \(Abandoned, Allotted, Begin, Compared, Due, .*, Race, Racer, RefreshEnded, .*\)",
    ):
        Programs(program_kinds()).take("p", "__import__('os')", "Rounds(rounds=3, error=0.05)")
    assert Programs(program_kinds()).take("p", "Begin()", "") == ()
