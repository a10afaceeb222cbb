"""The error tree of qoop: every error a user can meet derives from :class:`QoopError`.

::

    QoopError
    ├── CatalogError            a table cannot be registered, read or found
    │   ├── UnknownTable        no such table (names the nearest matches)
    │   ├── SourceError         file missing, corrupt, unreadable or of an unknown format
    │   ├── TableChanged        the table's version differs from the one that was planned
    │   └── UnknownFunction     no function of Python has that name, or a different one has it
    ├── QueryError              the text is at fault
    │   ├── ParseError          not SQL
    │   ├── BindError           unknown or ambiguous name, wrong types; underlines the span
    │   └── Forbidden           the session is locked and does not allow the text
    ├── PlanError               the input or the output of the planner is inconsistent
    ├── ExecutionError          a task failed for good: stage, fragment and DuckDB's message
    │   ├── OutOfMemory         a task needs more memory than any machine has
    │   ├── ProcessEnded        the child process of a task crashed or was killed
    │   ├── DiskFull            checkpoint or spill space is exhausted or not writable
    │   ├── CheckpointError     a checkpoint is missing, truncated or fails its checksum
    │   ├── GuardMismatch       two plans put out different rows under one signature
    │   ├── FunctionFailed      a function of Python raised, or returned a wrong result
    │   ├── Revoked             the slot or machine of a task was withdrawn (the task is tried again)
    │   └── NoCapacity          no slot became free within the waiting limit
    ├── Cancelled               the job was cancelled by its owner
    │   └── Suspended           the job was suspended, and can be resumed elsewhere
    ├── Timeout                 the job did not end within its time limit
    ├── ConfigError             an argument, environment variable or option is not valid
    │   └── FunctionError       the registration of a function of Python is not valid
    ├── Refused                 a server refuses a request of this user, or at this time
    │   ├── NotKnown            no user has that token or password
    │   ├── TooMuch             a request or an answer is larger than the user's limits allow
    │   └── Busy                the limit of running queries is reached, or the server ends
    │       └── TooOften        the limit of requests per minute is exceeded
    └── SessionClosed           the session was closed, or belongs to the parent of this process
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class QoopError(Exception):
    """Root of all errors raised by qoop.

    stage, part, sql: the stage, part and fragment of the task that failed, if one did.
    """

    stage: str | None = None
    part: int | None = None
    sql: str | None = None

    def _render_traceback_(self) -> list[str]:
        """The error for a notebook, which calls this method: the line of the cell, and the message."""
        import traceback
        from itertools import takewhile

        ours = __file__.rsplit("catalog", 1)[0]
        frames = [frame for frame in traceback.extract_tb(self.__traceback__) if "IPython" not in frame.filename]
        callers = list(takewhile(lambda frame: not frame.filename.startswith(ours), frames))
        message = "\n".join([f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())])
        return [*traceback.format_list(callers[:1]), message]


class CatalogError(QoopError):
    """A table cannot be registered, read or found."""


class UnknownTable(CatalogError):
    """No table of that name is registered."""


class SourceError(CatalogError):
    """The data behind a table is missing, corrupt, unreadable or of an unknown format."""


class TableChanged(CatalogError):
    """The data behind a table changed after the query was planned."""


class UnknownFunction(CatalogError):
    """No function of Python is registered under that name, or a different one is."""


class QueryError(QoopError):
    """The text of the query is at fault."""


class ParseError(QueryError):
    """The text is not SQL."""


class BindError(QueryError):
    """A name is unknown or ambiguous, or types do not fit."""


class Forbidden(QueryError):
    """The session is locked and does not allow the text."""


class PlanError(QoopError):
    """The input or the output of the planner is inconsistent."""

    def _render_traceback_(self) -> list[str]:
        """The full traceback, since the fault is in qoop."""
        import traceback

        return traceback.format_exception(self)


class ExecutionError(QoopError):
    """A task failed for good."""


class OutOfMemory(ExecutionError):
    """A task needs more memory than any machine has.

    single: bytes of the one value that DuckDB could not allocate with almost nothing in use; 0 if there is none.
    """

    single: float = 0.0


class ProcessEnded(ExecutionError):
    """The child process of a task has ended before the task. was_killed: by the system, which needs its memory, or by
    its user."""

    was_killed = False


class DiskFull(ExecutionError):
    """The space for checkpoints or spilled data is exhausted or cannot be written."""


class CheckpointError(ExecutionError):
    """A checkpoint is missing, truncated or fails its checksum."""


class FunctionFailed(ExecutionError):
    """A function of Python raised (see the cause), or returned a wrong result."""

    def __reduce__(self) -> tuple[Callable[..., FunctionFailed], tuple[object, ...]]:
        return _failed_elsewhere, (str(self), _sendable(self.__cause__), self.stage, self.part, self.sql)


def _failed_elsewhere(
    message: str, cause: BaseException | None, stage: str | None, part: int | None, sql: str | None
) -> FunctionFailed:
    """The error of another process, with its cause, which pickle would drop."""
    error = FunctionFailed(message)
    error.__cause__, error.stage, error.part, error.sql = cause, stage, part, sql
    return error


def _sendable(cause: BaseException | None) -> BaseException | None:
    """The cause, or its text if another process may not have its class."""
    plain = (str, bytes, int, float, type(None))
    if type(cause).__module__ == "builtins" and all(isinstance(one, plain) for one in getattr(cause, "args", ())):
        return cause
    return RuntimeError(f"{type(cause).__name__}: {cause}")


class Revoked(ExecutionError):
    """The resources of a task were withdrawn. The task is not at fault: it is tried again."""


class Overloaded(ExecutionError):
    """More jobs are running and waiting than a session may have."""


class NoCapacity(ExecutionError):
    """No slot became free within the waiting limit of jobs."""


class GuardMismatch(ExecutionError):
    """Two plans put out different rows under one signature, so both outputs are refused.

    file: describes how to reproduce it; None if it could not be written.
    """

    file: Path | None = None


class Cancelled(QoopError):
    """The job was cancelled by its owner."""


class Suspended(Cancelled):
    """The job was suspended; it can be resumed from the folder it was written to."""


class Timeout(QoopError):
    """The job did not end within its time limit."""


class ConfigError(QoopError):
    """An argument, environment variable or option is not valid."""


class FunctionError(ConfigError):
    """The registration of a function of Python is not valid."""


class Refused(QoopError):
    """A server refuses a request of this user, or at this time."""


class NotKnown(Refused):
    """No user of the server has that token or password."""


class TooMuch(Refused):
    """A request or an answer is larger than the limits of the user allow."""


class Busy(Refused):
    """The limit of running queries is reached, of the user or of all, or the server ends."""


class TooOften(Busy):
    """The limit of requests per minute is exceeded, of a user or of its tenant. wait: seconds until the next is
    allowed."""

    wait: float = 1.0


class SessionClosed(QoopError):
    """The session was closed, or belongs to the parent of this process."""
