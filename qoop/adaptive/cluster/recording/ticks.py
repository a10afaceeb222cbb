"""A tick of the cluster's loop: what goes in besides messages and events, and what comes out besides commands.

The loop is a function of its input: the clock's time, the backend's events, the messages, and the backend's replies.
The same input gives the same output, which a rerun checks (:mod:`qoop.adaptive.retrace.rerun`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from qoop.catalog.errors import QoopError
from qoop.catalog.value import value
from qoop.engine.events import Committed
from qoop.engine.history import Decided
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId
from qoop.planner.plan import Resources


@value
class Opened:
    """The cluster began at this time, with these machines. scheduler: the `repr` of its policy, from which it can be
    made again (:mod:`qoop.adaptive.schedulers.described`). extra_slots, tenants, most_jobs: see
    `Cluster`. wall: seconds since 1970, where the clock was a real one. queueing: the `repr` of how tasks wait at
    machines; empty: none does."""

    at: float
    machines: Mapping[MachineId, Resources]
    wait_for_capacity: float
    scheduler: str
    extra_slots: bool = False
    tenants: Mapping[str, float] = field(default_factory=dict)
    most_jobs: float = math.inf
    wall: float | None = None
    queueing: str = ""


@value
class Tick:
    """A tick in which something went in or came out. number: counts those."""

    number: int
    at: float


@value
class OutputsFound:
    """The outputs that the backend has of a job that has just come, or of plans that have become known, or why it
    cannot tell."""

    job: JobId
    outputs: tuple[Committed, ...]
    error: QoopError | None = None


@value
class ResizeRefused:
    """The backend refuses a size. message: the reason."""

    message: str


@value
class Resizing:
    """The backend is resized, or a later size is announced to it; its next events are the reply."""

    slots: int | None
    memory: int | None
    at: float


@value
class Starting:
    """An attempt is started. Which outputs it reads follows from the plan."""

    attempt: AttemptId
    key: CheckpointKey
    machine: MachineId
    resources: Resources


@value
class PlannerRequested:
    """A request to the planner about a job; `PlannerReplied` follows in a later turn."""

    job: JobId


@value
class PlanDecided:
    """A decision about the plan of a job, and why."""

    job: JobId
    record: Decided


@value
class ProgramStepped:
    """The steps of a program that follow from a message to it, each as its `repr`."""

    program: str
    steps: tuple[str, ...]


@value
class JobEnded:
    """Nothing of the job is left running."""

    job: JobId
    state: str
    error: QoopError | None
