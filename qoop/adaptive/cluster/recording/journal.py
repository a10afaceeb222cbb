"""A log of what happens to jobs, in the standard module `logging`: the loggers "qoop.job" and "qoop.session".

The records of a job's history are logged, each at the level of its kind; they become text only if a handler listens
at that level. INFO: a query begins, changes plan, ends. DEBUG: its tasks, shares and decisions. WARNING: what
should not be and was mended: outputs that were lost or would not
outlive the process, tasks that failed and are tried again, memory that was too little, answers that differ.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import islice

from qoop.catalog.errors import GuardMismatch, Revoked
from qoop.engine.history import (
    CapacityReported,
    Decided,
    Ended,
    Failed,
    Lost,
    MemoryExhausted,
    MemoryRaised,
    Record,
    Redone,
    Switched,
)
from qoop.engine.notices import Continued, DeadlineReported, NotContinued, NotSaved, Slept
from qoop.engine.task import JobId

_log = logging.getLogger("qoop.job")


class Journal:
    """Logs the records that were added to histories since the last call. Used by one thread."""

    def __init__(self) -> None:
        self._logged: dict[JobId, int] = {}

    def begin(self, job: JobId, text: str) -> None:
        """A job has come."""
        _log.info("%s: %s", job, text)

    def log_all(self, histories: Iterable[tuple[JobId, Sequence[Record]]]) -> None:
        """Log what is new of each job."""
        for job, history in histories:
            self.log(job, history)

    def log(self, job: JobId, history: Sequence[Record]) -> None:
        """Log what is new of one job."""
        since, self._logged[job] = self._logged.get(job, 0), len(history)
        for record in islice(history, since, None):
            level = level_of(record)
            if _log.isEnabledFor(level):
                _log.log(level, "%s %s", job, record)

    def end(self, job: JobId, history: Sequence[Record]) -> None:
        """Log what is new of a job that has ended."""
        self.log(job, history)
        del self._logged[job]


def level_of(record: Record) -> int:
    """The level at which a record is logged."""
    match record:
        case DeadlineReported(late=late):
            return logging.WARNING if late > 0 else logging.INFO
        case Lost() | Redone() | MemoryRaised() | MemoryExhausted() | NotSaved():
            return logging.WARNING
        case Failed(error=error, retryable=retryable):
            return logging.WARNING if retryable and not isinstance(error, Revoked) else logging.DEBUG
        case Ended(error=error):
            return logging.WARNING if isinstance(error, GuardMismatch) else logging.INFO
        case Decided(switched=switched):
            return logging.INFO if switched else logging.DEBUG
        case Switched() | Continued() | NotContinued() | Slept():
            return logging.INFO
        case CapacityReported(at=at):
            return logging.INFO if at else logging.DEBUG
    return logging.DEBUG
