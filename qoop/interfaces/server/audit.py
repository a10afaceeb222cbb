"""The audit log: a line of JSON for each statement, once it has ended or was refused."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from qoop.catalog.value import value
from qoop.interfaces.server.logs import LineLog

_LONGEST = 100_000  # characters of a statement that are written


@value
class Entry:
    """The facts that are written of a statement. by: http, flight or postgres. outcome: done, failed, cancelled,
    refused, suspended, or described: its columns were told, and it was not run."""

    query: str
    user: str
    by: str
    statement: str
    outcome: str
    rows: int = 0
    seconds: float = 0.0
    error: str = ""

    def line(self, at: datetime) -> str:
        """The line of the log, without its end.

        >>> Entry("q1", "ana", "http", "FROM t", "done", 3).line(datetime(2030, 1, 1, tzinfo=UTC))
        '{"at": "2030-01-01T00:00:00+00:00", "query": "q1", "user": "ana", "by": "http", "statement": "FROM t", \
"outcome": "done", "rows": 3, "seconds": 0.0}'
        """
        facts = {"at": at.isoformat(), "query": self.query, "user": self.user, "by": self.by}
        facts |= {"statement": self.statement[:_LONGEST], "outcome": self.outcome}
        counted = {"rows": self.rows, "seconds": round(self.seconds, 6)}
        return json.dumps(facts | counted | ({"error": self.error} if self.error else {}))


class AuditLog:
    """The log that the lines go to. Thread-safe."""

    def __init__(self, stream: TextIO) -> None:
        self._lines = LineLog(stream)

    @classmethod
    def at(cls, path: Path | None) -> AuditLog:
        """A log at the end of a file that only its owner reads; "-": on stdout; None: on stderr. Raises ConfigError."""
        log = cls(sys.stderr)
        if path is not None:
            log._lines = LineLog.at(path, "the audit log")
        return log

    def write(self, entry: Entry) -> None:
        """Write one line. Raises OSError: a statement that cannot be logged must not seem to be. On a pipe that nothing
        reads lines are lost, and counted (`LineLog`): the server goes on."""
        self._lines.write(entry.line(datetime.now(UTC)))

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
