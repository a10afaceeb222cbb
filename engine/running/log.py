"""The clock of a run, and what it writes while it takes a message: records of its history, and commands."""

from __future__ import annotations

from qoop.engine.events import Command
from qoop.engine.history import Record


class RunLog:
    """Written by a run and its parts, so that records and commands keep the order in which they were made.

    now: seconds of the clock of the last message. at: seconds since the first message.
    """

    def __init__(self) -> None:
        self.history: list[Record] = []
        self.now = self.at = 0.0
        self._began: float | None = None
        self._commands: list[Command] = []

    @property
    def began(self) -> float:
        """The time of the first message, at which the seconds of the history begin."""
        return self._began if self._began is not None else self.now

    def tick(self, now: float) -> None:
        """A message arrives."""
        self.now = now
        if self._began is None:
            self._began = now
        self.at = now - self._began

    def note(self, record: Record) -> None:
        """Add a record to the history."""
        self.history.append(record)

    def command(self, command: Command) -> None:
        """Add a command to those of this message."""
        self._commands.append(command)

    def flush(self) -> list[Command]:
        """Return and forget the commands."""
        commands, self._commands = self._commands, []
        return commands
