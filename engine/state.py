"""The states of a job and the limits of a run.

::

    state       may become                          when
    SWITCHING   RUNNING                             `switch` has compared the plan with the checkpoints; after `pause`,
                                                    `resume`
                SUCCEEDED, FAILED, CANCELLED
    RUNNING     SWITCHING                           `pause`, or a switch: nothing new starts, attempts go on
                SUCCEEDED                           all parts of the root are present and no attempt is alive
                FAILED                              a task failed for good, or `fail` was called
                CANCELLED                           `cancel` was called
    SUCCEEDED, FAILED, CANCELLED: final             nothing of the job is left on any machine

A job begins SWITCHING: a start is the first switch (law 4). An outcome is reached when it is decided *and* the
last attempt has reported; in between the state stays and `ending` is true. Late and duplicate reports are
legal at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import inf
from typing import Protocol

from qoop.catalog.value import value
from qoop.planner.plan import Plan, Resources, StageId


class State(StrEnum):
    """State of a job; see the module's table."""

    SWITCHING = "SWITCHING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def final(self) -> bool:
        return self in _FINAL


_FINAL = (State.SUCCEEDED, State.FAILED, State.CANCELLED)
TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.SWITCHING: frozenset({*_FINAL, State.RUNNING}),
    State.RUNNING: frozenset({*_FINAL, State.SWITCHING}),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}


@value
class Limits:
    """The limits that a run sets itself.

    max_attempts: failures of one task that may be retried, after which the job fails, are one fewer than this. Running
        out of memory is not counted: it ends by itself, since each time asks for more.
    max_revocations: how often one task may lose its slot, its machine, what it reads or what it has put out, after
        which the job fails. No fault of the task, so there are many; but where nothing stays long enough for it, that
        must be said some time.
    min_memory: least bytes that a task asks for, whatever its estimate. most_memory: the most that one may have, even
        where a machine has more.
    keep_checkpoints: False: an output is released as soon as no unfinished task of the plan needs it, which
        saves memory. True: at the end of the job, so that it may serve another plan.
    leave_exhausted: True: a stage for which all the memory there is was too little does not fail the job: nothing
        of it starts any more, and `Run.stuck` is the error, until a switch to a plan without it, or `fail`.
    near: True: of equal ready tasks one is begun whose input lies on the machine (`data_locality`).
    locked: True: tasks run where DuckDB opens no file but those of their tables (`kernel`).
    all_saved: True: a durable output that cannot be written fails the job.
    profiled: True: DuckDB's profiles of the tasks are taken, which cost a short query up to a tenth of its time.
    goes_on: True: outputs of non-deterministic stages of the first plan serve other processes, before and after this
        one (:mod:`qoop.engine.running.going_on`).
    slice_seconds: durable tasks that should take longer are cut into slices that are saved one by one
        (:mod:`qoop.engine.backends.sliced`).
    """

    max_attempts: int = 4
    max_revocations: int = 50
    min_memory: float = 32 * 2**20
    most_memory: float = inf
    keep_checkpoints: bool = False
    leave_exhausted: bool = False
    near: bool = False
    locked: bool = False
    profiled: bool = False
    all_saved: bool = False
    goes_on: bool = False
    slice_seconds: float = inf


USUAL_LIMITS = Limits()


class Saving(Protocol):
    """Says which outputs of a durable job are written where they outlive the process; must be a pure function."""

    def stages(self, plan: Plan, share: Resources) -> frozenset[StageId]:
        """The stages of the plan whose outputs are, if it runs on this share."""
        ...
