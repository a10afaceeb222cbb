"""The check that the history of a job that has ended tells one story."""

from __future__ import annotations

from qoop.engine.history import (
    Began,
    Ended,
    Failed,
    Lost,
    Redone,
    Released,
    Started,
    Stopped,
    Stopping,
    Succeeded,
    Switched,
    Waiting,
)
from qoop.engine.run import Run
from qoop.engine.task import AttemptId, CheckpointKey


def check_history(run: Run) -> None:
    """Raise AssertionError unless it holds: every attempt starts once and ends once, times do not go back, what is lost
    or made again was there, switches are numbered, and the last word is the end."""
    if not run.plans:
        return
    alive: dict[AttemptId, CheckpointKey] = {}
    begun: set[AttemptId] = set()
    stopping: set[AttemptId] = set()
    waiting: set[AttemptId] = set()
    waited: set[AttemptId] = set()
    switches, at = 0, 0.0

    for place, record in enumerate(run.history):
        assert record.at >= at, f"{record} comes after {at:.3f}"
        at = record.at
        match record:
            case Started(_, attempt, key):
                assert attempt not in begun, f"{attempt} started twice"
                begun.add(attempt)
                alive[attempt] = key
            case Waiting(_, attempt, key):
                assert alive.get(attempt) == key and attempt not in waited, f"{attempt} waits: {record}"
                waiting.add(attempt)
                waited.add(attempt)
            case Began(_, attempt, key):
                assert alive.get(attempt) == key and attempt in waiting, f"{attempt} began: {record}"
                waiting.remove(attempt)
            case Succeeded(_, attempt, committed, used):
                assert attempt in begun, f"{attempt} never started"
                assert not used or alive.get(attempt) == committed.key, f"{attempt} was of use, but had ended"
                alive.pop(attempt, None)
            case Failed(_, attempt) | Stopped(_, attempt):
                assert alive.pop(attempt, None) is not None, f"{attempt} ends, but did not run: {record}"
            case Stopping(_, attempt):
                assert attempt in alive and attempt not in stopping, f"{attempt} stops: {record}"
                stopping.add(attempt)
            case Switched(_, number):
                switches += 1
                assert number == switches, f"switch {switches} has number {number}"
            case Ended():
                assert place == len(run.history) - 1, f"something follows the end: {run.history[place + 1 :]}"
            case Lost() | Redone() | Released():
                pass
    assert isinstance(run.history[-1], Ended), "it has no end"
    assert not alive, f"{list(alive)} have no end"
    assert switches == len(run.plans), f"{switches} switches, but {len(run.plans)} plans"
