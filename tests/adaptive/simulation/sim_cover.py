"""The transitions of the core that a set of schedules has taken, of all that there are.

::

    job       state × what it is told           a report, a change of machines, a message, a deadline
    job       state -> state                    TRANSITIONS of engine/state.py
    attempt   state × report
    task      state -> state                    idle: not needed and not there; spare: there and not needed (any more);
                                                stopping: an attempt was told to stop
    stage     parts present: none, some, all       -> the same
    record    every kind of record that a history can have
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from qoop.engine.history import Record
from qoop.engine.state import TRANSITIONS

Cell = tuple[str, str, str]

LIVE = ("RUNNING", "SWITCHING", "to be SUCCEEDED", "to be FAILED", "to be CANCELLED")
REPORTS = ("TaskSucceeded", "TaskFailed", "TaskStopped")
TO_ALL = ("MachineJoined", "MachineLost", "SlotsChanged", "CapacityNotice", "CheckpointLost")
MESSAGES = (
    "CancelRequested", "PauseRequested", "SuspendRequested", "ReconsiderRequested", "PinRequested", "PlannerReplied",
    "CloseRequested",
)  # fmt: skip
OWN = ("CheckpointSaved", "ShareChanged")
ENDS = ("succeeded", "failed", "broke", "out of memory", "revoked", "unreadable", "stopped", "machine lost")

_TASK = {
    "idle": ("waits", "ready"),
    "waits": ("ready", "idle"),
    "ready": ("runs", "waits", "idle"),
    "runs": ("kept", "ready", "waits", "stopping"),
    "stopping": ("idle", "waits", "ready", "kept", "spare"),
    "kept": ("idle", "spare", "waits", "ready", "stopping"),
    "spare": ("idle", "kept", "waits", "ready", "stopping"),
}
"""The states that can follow. Only a ready task is granted. A running task is needed, or is told to stop at once. An
output is made again only once it is lost or released, or rests on a non-deterministic stage that is made again. If it
was found with another job, an attempt of this one at it may not have stopped yet when it is lost."""

SELDOM: tuple[Cell, ...] = (("task", "kept", "-> stopping"), ("task", "spare", "-> stopping"))
"""Taken by one in thousands of drawn schedules; some of tests/scripts take them always."""


def all_cells() -> Iterator[Cell]:
    """Every transition there is."""
    for state in LIVE:
        yield from (("job", state, told) for told in (*REPORTS, *TO_ALL, *MESSAGES, *OWN))
    yield from (("job", state, told) for state in LIVE[:2] for told in ("Timeout", "NoCapacity"))
    yield from (("job", "gone", told) for told in (*REPORTS, *MESSAGES[:6], "ReleaseRequested", "CheckpointSaved"))
    yield from (("job", str(one), f"-> {other}") for one, others in TRANSITIONS.items() for other in sorted(others))
    yield from (("attempt", "runs", end) for end in ENDS if end != "stopped")  # nobody told it to
    yield from (("attempt", state, end) for state in ("stopping", "void") for end in ENDS)
    yield from (("attempt", "gone", end) for end in ENDS[:5] + ENDS[6:7])
    yield from (("task", one, f"-> {other}") for one, others in _TASK.items() for other in others)
    parts = ("none", "some", "all")
    yield from (("stage", one, f"-> {other}") for one in parts for other in parts if one != other)
    yield from (("record", kind, "") for kind in _records())


def _records() -> list[str]:
    return [kind.__forward_arg__ for kind in get_args(Record)]


class Cover:
    """Counts of transitions taken."""

    def __init__(self) -> None:
        self.hits: Counter[Cell] = Counter()

    def __call__(self, table: str, state: str, what: str) -> None:
        self.hits[table, state, what] += 1

    def never(self) -> list[Cell]:
        """The transitions that were not taken, of those that enough schedules take."""
        return [cell for cell in all_cells() if cell not in self.hits and cell not in SELDOM]

    def lines(self) -> Iterator[str]:
        """The counts, a state a line, and what was never taken."""
        cells = list(dict.fromkeys((*all_cells(), *sorted(self.hits))))
        for table, state in dict.fromkeys(cell[:2] for cell in cells):
            row = [f"{cell[2] or ''} {self.hits[cell]:,}".strip() for cell in cells if cell[:2] == (table, state)]
            yield f"{table} {state}: {', '.join(row)}"
        known = set(all_cells())
        yield f"{len(known & self.hits.keys())} of {len(known)} transitions were taken"
        yield from (f"never: {' '.join(cell)}" for cell in self.never())
        yield from (f"not in the tables: {' '.join(cell)}" for cell in sorted(set(self.hits) - known))
