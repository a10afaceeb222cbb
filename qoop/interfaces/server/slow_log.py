"""The log of slow queries: a line of JSON for each query that took longer than a threshold.

A line has the digest of the text in place of the text, and the plan without its constants, so that it may go to a
place where data may not.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from qoop.interfaces.server.logs import LineLog

if TYPE_CHECKING:
    from pathlib import Path

    from qoop.interfaces.server.queries import UserQuery

USUAL_THRESHOLD = 1.0
"""Seconds."""


class SlowLog:
    """The log, with its threshold in seconds."""

    def __init__(self, lines: LineLog, threshold: float = USUAL_THRESHOLD) -> None:
        self._lines, self._threshold = lines, threshold

    @classmethod
    def at(cls, path: Path, threshold: float = USUAL_THRESHOLD) -> SlowLog:
        """A log at the end of a file that only its owner reads; "-": on stdout. Raises ConfigError."""
        return cls(LineLog.at(path, "the log of slow queries"), threshold)

    def ended(self, query: UserQuery, outcome: str) -> None:
        """A query has ended; it is written if it was slow."""
        if (seconds := query.seconds) >= self._threshold:
            self._lines.write(json.dumps(_facts(query, outcome, seconds)))

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def text_digest(text: str) -> str:
    """The digest of a text of SQL, without regard to its white space.

    >>> text_digest("SELECT  1") == text_digest("SELECT 1 ")
    True
    """
    return hashlib.blake2b(" ".join(text.split()).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _facts(query: UserQuery, outcome: str, seconds: float) -> dict[str, object]:
    job = query.job
    facts: dict[str, object] = {"at": datetime.now(UTC).isoformat(), "query": query.id, "user": query.user.name}
    facts |= {"tenant": query.user.tenant, "by": query.by, "digest": text_digest(query.text), "outcome": outcome}
    facts |= {"seconds": round(seconds, 6), "queue_seconds": round(query.queue_seconds, 6)}
    facts |= {"rows": query.rows, "bytes": query.size}
    facts["switches"] = 0 if job is None else max(0, len(job.plans) - 1)
    facts["plan"] = [] if job is None else [str(stage) for stage in job.stage_reports()]
    return facts
