"""Every row of the table of an attempt's states, by the reports and commands that take it; all else is refused."""

from __future__ import annotations

import re

import pytest

from qoop.catalog.errors import PlanError
from qoop.engine.events import Regrant, Stop
from qoop.engine.frontier import StageNode
from qoop.engine.running import attempts
from qoop.engine.running.attempts import ATTEMPT_TRANSITIONS, Attempt, AttemptEvent, Attempts, AttemptState
from qoop.engine.running.log import RunLog
from qoop.engine.task import AttemptId, TaskId
from qoop.planner.plan import Resources, Stage

S, E = AttemptState, AttemptEvent
PAIRS = [(state, event) for state in S for event in E]
WAY = {S.GRANTED: [], S.QUEUED: [E.QUEUE], S.RUNNING: [E.BEGIN], S.STOPPING: [E.STOP], S.VOID: [E.VOID]}
ROW = re.compile(
    r"^ {4}(?P<state>[A-Z]+ )? *(?P<event>QUEUE|BEGIN|REGRANT|STOP|VOID) +(?P<becomes>[A-Z]+)(?P<effect>.{0,22})"
)


class Living:
    """One elastic attempt, and what its events leave in the log."""

    def __init__(self) -> None:
        self.log = RunLog()
        self.log.tick(1.0)
        self.attempts = Attempts(self.log)
        node = StageNode(Stage("a", "", (), (("x", "INTEGER"),), width=1, signature="a"), ())
        id = AttemptId(TaskId("j", "a", 0), self.attempts.next_number())
        one = Attempt(id, node.keys[0], node, "m", Resources(1, 1), granted=1.0, started=1.0, virtual_start=1.0, most=4)
        self.attempt = one
        self.attempts.add(one)

    def take(self, event: AttemptEvent) -> list[str]:
        """The names of the commands and records that follow."""
        self.log.tick(self.log.now + 1)
        before = len(self.log.history)
        commands = self._commands(event) + self.log.flush()
        return [type(one).__name__ for one in [*commands, *self.log.history[before:]]]

    def _commands(self, event: AttemptEvent) -> list[Regrant | Stop]:
        match event:
            case E.QUEUE:
                self.attempts.queue(self.attempt.id)
            case E.BEGIN:
                self.attempts.begin(self.attempt.id)
            case E.REGRANT:
                return [*self.attempts.regrant(self.attempt.id, Resources(2, 1))]
            case E.STOP:
                self.attempts.stop(self.attempt, "why")
            case E.VOID:
                self.attempts.void(self.attempt, "why")
        return []


def in_state(state: AttemptState) -> Living:
    living = Living()
    for event in WAY[state]:
        living.take(event)
    assert living.attempt.state is state
    return living


def documented() -> dict[tuple[AttemptState, AttemptEvent], tuple[AttemptState, list[str]]]:
    """The rows of the module's table."""
    rows, state = {}, None
    for line in (attempts.__doc__ or "").splitlines():
        found = ROW.match(line)
        if found:
            state = S[found["state"].strip()] if found["state"] else state
            assert state is not None
            rows[state, E[found["event"]]] = S[found["becomes"]], re.findall(r"[A-Z][a-z]+", found["effect"])
    return rows


def test_the_table_of_the_module_is_the_table_of_the_code() -> None:
    assert {pair: becomes for pair, (becomes, _) in documented().items()} == ATTEMPT_TRANSITIONS


@pytest.mark.parametrize(("state", "event"), PAIRS)
def test_each_pair_takes_its_row_or_is_refused(state: AttemptState, event: AttemptEvent) -> None:
    living = in_state(state)
    row = documented().get((state, event))
    if row is None:
        before = living.attempt.reported
        with pytest.raises(PlanError, match=f"is {state} and cannot take {event}"):
            living.attempt.move(event)
        assert (living.attempt.state, living.attempt.reported) == (state, before)
        return
    becomes, effects = row
    reports_late = state in (S.STOPPING, S.VOID) and event is E.BEGIN  # recorded only after a report of waiting
    assert living.take(event) == ([] if reports_late else effects)
    assert living.attempt.state is becomes


@pytest.mark.parametrize("state", [S.STOPPING, S.VOID])
def test_reports_that_come_after_the_stop_move_what_is_reported_alone(state: AttemptState) -> None:
    living = in_state(state)
    assert living.take(E.QUEUE) == ["Waiting"] and living.attempt.queued
    assert living.take(E.BEGIN) == ["Began"] and not living.attempt.queued
    assert living.take(E.QUEUE) == [] and not living.attempt.queued
    assert living.attempt.state is state


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if pair not in ATTEMPT_TRANSITIONS])
def test_commands_that_have_no_row_leave_no_trace(state: AttemptState, event: AttemptEvent) -> None:
    living = in_state(state)
    assert living.take(event) == [] and living.attempt.state is state


def test_the_clock_of_an_attempt_that_waited_starts_when_it_begins() -> None:
    living = in_state(S.QUEUED)
    assert living.attempt.spent(9.0) == 0.0
    living.take(E.BEGIN)
    assert living.attempt.started == living.log.now > living.attempt.granted
    assert living.attempt.spent(living.log.now + 5.0) == 5.0


def test_an_extra_slot_is_no_state() -> None:
    living = in_state(S.RUNNING)
    living.attempt.extra = True
    assert living.take(E.REGRANT) == ["Regrant"] and living.attempts.elastic() == []
    living.attempts.promote(living.attempt.id)
    assert not living.attempt.extra and living.attempt.state is S.RUNNING
