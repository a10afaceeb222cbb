"""The moments at which a simulated machine and its scheduler hear of each other."""

from __future__ import annotations

import math
from zlib import crc32

from qoop.catalog.value import value
from qoop.engine.task import MachineId


@value
class Heartbeats:
    """The time that words take between a scheduler and its nodes.

    seconds: between two reports of a node, each at moments of its own; 0: it reports at once. launching: seconds from
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
