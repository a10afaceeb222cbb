"""Simulated machines: how they behave, the moments of their reports, their size, and an attempt on one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from zlib import crc32

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.engine.backends.efforts import Effort
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.backends.worker_pool import Kernels, Worker
from qoop.engine.exchanges.terms import Exchanges
from qoop.engine.task import MachineId, TaskAccount, TaskSpec
from qoop.planner.plan import Resources


@value
class Heartbeats:
    """The time that words take between a scheduler and its nodes.

    seconds: between two reports of a node, each at its own moments; 0: it reports at once. launching: seconds from
    a grant until the task is at its node.

    >>> beats = Heartbeats(3.0)
    >>> beats.next("m1", 10.0) > 10.0, beats.next("m1", 10.0) <= 13.0
    (True, True)
    """

    seconds: float = 0.0
    launching: float = 0.0

    def next(self, machine: MachineId, now: float) -> float:
        """The moment at which a node reports what happens now."""
        if not self.seconds:
            return now
        phase = crc32(machine.encode()) / 2**32
        beats = math.floor(now / self.seconds - phase) + 1
        at = (beats + phase) * self.seconds
        return at if at > now else at + self.seconds


AT_ONCE = Heartbeats()
"""Words take no time."""


@value
class MachineModel:
    """The way in which simulated machines behave.

    kernels: what it costs to open, to warm and to interrupt one; None: nothing, and no attempt waits for one.
    crowding: the factor by which everything slows down on a machine where that many threads work; None: they do not
        disturb each other.
    heartbeats: how long messages take between the scheduler and its machines. exchanges: how attempts read from other
        machines; None: what arrives (`Outcome`) shares the machine's link.
    """

    kernels: Kernels | None = None
    crowding: Callable[[float], float] | None = None
    heartbeats: Heartbeats = AT_ONCE
    exchanges: Exchanges | None = None


@dataclass(eq=False, slots=True)
class SimulatedAttempt:
    """An attempt on its way.

    effort: None while it waits for a worker, or moves bytes. waited: in the queue of its machine.
    worker: None where there are no crews.
    taken, read, computed: when a worker took it up, and when it had read and computed.
    """

    machine: MachineId
    spec: TaskSpec
    outcome: Outcome
    began: float
    effort: Effort | None = None
    worker: Worker | None = None
    queued: bool = False
    waited: bool = False
    taken: float = 0.0
    read: float = 0.0
    computed: float = 0.0

    def account(self, now: float) -> TaskAccount:
        """Its seconds, if it has come to its end now."""
        wrote = now - self.computed
        return TaskAccount(self.taken - self.began, self.read - self.taken, self.computed - self.read, wrote)


def resized(
    machines: Mapping[MachineId, Resources], slots: int | None, memory: int | None
) -> tuple[MachineId, Resources]:
    """The only machine, and its capacity with these slots and memory; None: as they are."""
    if len(machines) != 1:
        raise ConfigError(f"there are {len(machines)} machines: resize one of them")
    ((machine, capacity),) = machines.items()
    cpu = capacity.cpu if slots is None else slots
    return machine, replace(capacity, cpu=cpu, memory=capacity.memory if memory is None else memory)
