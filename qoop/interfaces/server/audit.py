"""The audit log: a line of JSON for each statement, once it has ended or was refused."""

from __future__ import annotations

import json
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

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
    """The stream that the lines go to; may be used by several threads."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    @classmethod
    def at(cls, path: Path | None) -> AuditLog:
        """A log at the end of a file that only its owner reads; None: on stderr. Raises ConfigError."""
        if path is None:
            return cls(sys.stderr)
        try:
            return cls(os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w", encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot write the audit log {path}: {error.strerror}") from error

    def write(self, entry: Entry) -> None:
        """Write one line. Raises OSError: a statement that cannot be logged must not seem to be."""
        line = entry.line(datetime.now(UTC)) + "\n"
        with self._lock:
            self._stream.write(line)
            self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        if self._stream is not sys.stderr:
            self._stream.close()
