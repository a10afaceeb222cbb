"""The error tree of qoop: every error a user can meet derives from :class:`QoopError`.

::

    QoopError
    ├── CatalogError            a table cannot be registered, read or found
    │   ├── UnknownTable        no such table (names the nearest matches)
    │   ├── SourceError         file missing, corrupt, unreadable or of an unknown format
    │   ├── TableChanged        the table's version differs from the one that was planned
    │   └── UnknownFunction     no function of Python has that name, or the one that was meant is another one
    ├── QueryError              the text is at fault
    │   ├── ParseError          not SQL
    │   ├── BindError           unknown or ambiguous name, wrong types; underlines the span
    │   └── Forbidden           the session is locked, and the text asks for more than that allows
    ├── PlanError               the planner was given, or made, something inconsistent
    ├── ExecutionError          a task failed for good: stage, fragment and DuckDB's message
    │   ├── OutOfMemory         a task needs more memory than any machine has
    │   ├── DiskFull            checkpoint or spill space is exhausted or not writable
    │   ├── CheckpointError     a checkpoint is missing, truncated or fails its checksum
    │   ├── GuardMismatch       two plans put out different rows under one signature
    │   ├── FunctionFailed      a function of Python raised, or returned what it must not
    │   ├── Revoked             the slot or machine a task had was taken away (it is tried again)
    │   └── NoCapacity          there was no slot for as long as jobs may wait for one
    ├── Cancelled               the job was cancelled by its owner
    │   └── Suspended           the job was suspended, to go on elsewhere
    ├── Timeout                 the job did not end within its time limit
    ├── ConfigError             an argument, environment variable or option is not valid
    │   └── FunctionError       what is said of a function of Python that is to be registered
    ├── Refused                 a server does not do that for this user, or not now
    │   ├── NotKnown            no user has that token or password
    │   ├── TooMuch             a request or an answer is larger than the user's limits allow
    │   └── Busy                as many queries run as may, or the server ends
    │       └── TooOften        more requests came within a minute than may
    └── SessionClosed           the session was closed, or is that of the process that this one was forked from
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class QoopError(Exception):
    """Root of all errors raised by qoop.

    stage, part, sql: the stage, the part of it and the fragment that failed, where it was a task that did.
    """

    stage: str | None = None
    part: int | None = None
    sql: str | None = None

    def _render_traceback_(self) -> list[str]:
        """The error as a notebook shows it, which asks for it by this name: the line of the cell, and the message."""
        import traceback
        from itertools import takewhile

        ours = __file__.rsplit("catalog", 1)[0]
        frames = [frame for frame in traceback.extract_tb(self.__traceback__) if "IPython" not in frame.filename]
        callers = list(takewhile(lambda frame: not frame.filename.startswith(ours), frames))
        said = "\n".join([f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())])
        return [*traceback.format_list(callers[:1]), said]


class CatalogError(QoopError):
    """A table cannot be registered, read or found."""


class UnknownTable(CatalogError):
    """No table of that name is registered."""


class SourceError(CatalogError):
    """The data behind a table is missing, corrupt, unreadable or of an unknown format."""


class TableChanged(CatalogError):
    """The data behind a table changed after the query was planned."""


class UnknownFunction(CatalogError):
    """No function of Python is registered under that name, or not the one that was meant."""


class QueryError(QoopError):
    """The text of the query is at fault."""


class ParseError(QueryError):
    """The text is not SQL."""


class BindError(QueryError):
    """A name is unknown or ambiguous, or types do not fit."""


class Forbidden(QueryError):
    """The session is locked, and the text asks for more than that allows."""


class PlanError(QoopError):
    """The planner was given, or made, something inconsistent."""

    def _render_traceback_(self) -> list[str]:
        """All of it: the fault is ours."""
        import traceback

        return traceback.format_exception(self)


class ExecutionError(QoopError):
    """A task failed for good."""


class OutOfMemory(ExecutionError):
    """A task needs more memory than any machine can give it.

    single: bytes of the one value that DuckDB could not allocate with almost nothing in use; 0 if there is none.
    """

    single: float = 0.0


class DiskFull(ExecutionError):
    """The space for checkpoints or spilled data is exhausted or cannot be written."""


class CheckpointError(ExecutionError):
    """A checkpoint is missing, truncated or fails its checksum."""


class FunctionFailed(ExecutionError):
    """A function of Python raised, which is the cause, or returned what it must not."""

    def __reduce__(self) -> tuple[Callable[..., FunctionFailed], tuple[object, ...]]:
        return _failed_elsewhere, (str(self), _sendable(self.__cause__), self.stage, self.part, self.sql)


def _failed_elsewhere(
    message: str, cause: BaseException | None, stage: str | None, part: int | None, sql: str | None
) -> FunctionFailed:
    """The error as it was in another process, with its cause, which would be left behind."""
    error = FunctionFailed(message)
    error.__cause__, error.stage, error.part, error.sql = cause, stage, part, sql
    return error


def _sendable(cause: BaseException | None) -> BaseException | None:
    """The cause, or the text of it where another process may not know what it is made of."""
    plain = (str, bytes, int, float, type(None))
    if type(cause).__module__ == "builtins" and all(isinstance(one, plain) for one in getattr(cause, "args", ())):
        return cause
    return RuntimeError(f"{type(cause).__name__}: {cause}")


class Revoked(ExecutionError):
    """The resources of a task were taken away. The task is not at fault: it is tried again."""


class Overloaded(ExecutionError):
    """More jobs are running and waiting than a session may have."""


class NoCapacity(ExecutionError):
    """There was no slot for as long as jobs may wait for one."""


class GuardMismatch(ExecutionError):
    """Two plans put out different rows under one signature, so neither can be believed.

    file: says how to reproduce it; None if it could not be written.
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
    """A function of Python cannot be registered as it was described."""


class Refused(QoopError):
    """A server does not do that for this user, or not now."""


class NotKnown(Refused):
    """No user of the server has that token or password."""


class TooMuch(Refused):
    """A request or an answer is larger than the limits of the user allow."""


class Busy(Refused):
    """As many queries run as may, of the user or of all, or the server ends."""


class TooOften(Busy):
    """More requests of a user, or of its tenant, came within a minute than may. wait: seconds until one may come."""

    wait: float = 1.0


class SessionClosed(QoopError):
    """The session was closed, or is that of the process that this one was forked from."""
