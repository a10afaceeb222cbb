"""Puts down in a trace what goes into a turn of the loop and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.recording.messages import ProgramMessage
from qoop.adaptive.cluster.recording.ticks import ProgramStepped, Tick

if TYPE_CHECKING:
    from qoop.adaptive.cluster.recording.trace import Trace
    from qoop.adaptive.program_log import MessageLog, ProgramKinds, Programs


class Recorder:
    """Writes a trace by turns: of one in which nothing happens there is no line. trace: None: there is none to write.

    now: the time of the turn, in seconds of the cluster's clock.
    """

    def __init__(self, trace: Trace | None, now: float) -> None:
        self._trace = trace
        self.now = now
        self._ticks = 0
        self._noted = True  # something of this turn

    def open(self, opened: object) -> None:
        """Put down what the cluster begins with."""
        if self._trace is not None:
            self._trace.record(self.now, opened)
            self._trace.flush()

    def begin(self, now: float) -> None:
        """A turn begins."""
        self.now, self._noted = now, False

    def end(self) -> None:
        """The turn is over: what was put down can be read."""
        if self._trace is not None and self._noted:
            self._trace.flush()

    def note(self, what: object) -> None:
        """Put down what went into this turn or came out of it."""
        if self._trace is not None:
            self.note_tick()
            self._trace.record(self.now, what)

    def note_tick(self) -> None:
        """Put down that something went into this turn, came out of it, or was found out in it."""
        if self._trace is not None and not self._noted:
            self._noted = True
            self._ticks += 1
            self._trace.record(self.now, Tick(self._ticks, self.now))


class ProgramLog:
    """Passes messages to programs on to the cluster's loop, and works out their steps. post: sends the loop a message.

    kinds: see `ClusterOptions`.
    """

    def __init__(self, kinds: ProgramKinds, post: Callable[[ProgramMessage], None]) -> None:
        self._kinds = kinds
        self._post = post
        self._numbers = count(1)
        self._programs: Programs | None = None

    def opened(self) -> MessageLog:
        """Takes each message to one program."""
        name = f"program{next(self._numbers)}"
        from qoop.adaptive.program_log import message_log  # few sessions are traced

        return message_log(lambda message, began: self._post(ProgramMessage(name, message, began)))

    def take(self, message: ProgramMessage) -> ProgramStepped:
        """The steps that follow from a message."""
        if self._programs is None:
            from qoop.adaptive.program_log import Programs  # few traces have programs

            self._programs = Programs(self._kinds())
        return ProgramStepped(message.program, self._programs.take(message.program, message.message, message.began))
