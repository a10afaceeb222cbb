"""Simulated machines: the moments of their reports, and their size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from zlib import crc32

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value
from qoop.engine.task import MachineId
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


def resized(
    machines: Mapping[MachineId, Resources], slots: int | None, memory: int | None
) -> tuple[MachineId, Resources]:
    """The only machine, and its capacity with these slots and memory; None: as they are."""
    if len(machines) != 1:
        raise ConfigError(f"there are {len(machines)} machines: resize one of them")
    ((machine, capacity),) = machines.items()
    cpu = capacity.cpu if slots is None else slots
    return machine, replace(capacity, cpu=cpu, memory=capacity.memory if memory is None else memory)
