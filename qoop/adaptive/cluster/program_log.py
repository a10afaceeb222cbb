"""The programs above the jobs of one cluster, as its trace has them: each message to one, and the steps that follow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from qoop.adaptive.cluster.messages import ProgramTold
from qoop.adaptive.cluster.ticks import ProgramStepped
from qoop.adaptive.program_log import ProgramKinds, Programs, Tell, telling


class ProgramLog:
    """Passes messages to programs on to the cluster's loop, and works out their steps. post: sends the loop a message.

    kinds: see `ClusterOptions`.
    """

    def __init__(self, kinds: ProgramKinds, post: Callable[[ProgramTold], None]) -> None:
        self._kinds = kinds
        self._post = post
        self._numbers = count(1)
        self._programs: Programs | None = None

    def opened(self) -> Tell:
        """Takes each message to one program."""
        name = f"program{next(self._numbers)}"
        return telling(lambda message, began: self._post(ProgramTold(name, message, began)))

    def take(self, message: ProgramTold) -> ProgramStepped:
        """The steps that follow from a message."""
        if self._programs is None:
            self._programs = Programs(self._kinds())
        return ProgramStepped(message.program, self._programs.take(message.program, message.message, message.began))
