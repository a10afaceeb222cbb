"""Opens sessions: `connect`; `sql`, in the session of the process; and `resume`, for a suspended job."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from qoop.catalog.errors import ConfigError
from qoop.query.config import configure
from qoop.query.job import Job
from qoop.query.options import ConnectOptions
from qoop.query.result import Result
from qoop.session.session import Session

if TYPE_CHECKING:
    from qoop.query.statements.parameters import Parameters


def connect(*data: str | os.PathLike[str], threads: int | None = None, **options: Unpack[ConnectOptions]) -> Session:
    """Open a session on this machine, or on the nodes of a Ray cluster.

    data: registered at the start, each as for `Session.register_path`: folders of tables, DuckDB files, and
        Parquet, CSV or JSON files. ":memory:" stands for none, as in DuckDB.
    threads: another name for slots, as DuckDB has it.
    options: those of :class:`~qoop.query.options.ConnectOptions`, where each is explained; None: not set.
        Each can also be set in the environment or a file, see :mod:`qoop.query.config`.

    Raises ConfigError for an invalid option, TypeError for one that does not exist, and SourceError for data
    that cannot be read.
    """
    if threads is not None:
        if options.get("slots") is not None:
            raise ConfigError("slots and threads are one option: name one of them")
        options["slots"] = threads
    for path in data:
        if not isinstance(path, str | os.PathLike):
            raise ConfigError(f"data is paths of folders and files, not {path!r}: write connect(slots={path!r})")
    session = Session(configure(**options))
    try:
        for path in data:
            if path != ":memory:":
                session.register_path(path)
    except BaseException:
        session.close()
        raise
    return session


class _OfProcess:
    """The session of `sql`, once there is one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: Session | None = None

    def opened(self) -> Session:
        """The session, which opens if there is none yet."""
        with self.lock:
            if self.session is None:
                self.session = connect()
            return self.session

    def forget(self) -> None:
        """A child process opens a new session when it needs one; that of the parent does not change."""
        self.lock, self.session = threading.Lock(), None


_of_process = _OfProcess()
os.register_at_fork(after_in_child=_of_process.forget)


def sql(text: str, parameters: Parameters = ()) -> Result:
    """Run a text in the session of the process and wait for the answer, as `Session.sql` does. That session opens when
    it is first used, and closes when the process ends.

    Its options come from the environment and qoop.toml; SET changes those that can change. A program that needs other
    options calls `connect`.

    >>> sql("SELECT 6 * 7 AS answer").fetchall()
    [(42,)]
    """
    return _of_process.opened().sql(text, parameters)


def resume(
    path: str | os.PathLike[str],
    slots: int | None = None,
    memory: int | str | None = None,
    checkpoints: str | os.PathLike[str] | None = None,
    replan: bool | None = None,
    data: Sequence[str | os.PathLike[str]] = (),
    ray: str | None = None,
    trust: bool = False,
) -> Job:
    """Continue a suspended job on this machine, or on the nodes of a Ray cluster, in a new session that ends when the
    result is taken.

    slots, memory, checkpoints, replan, ray: as for :func:`qoop.connect`. data: folders or DuckDB files of the tables,
        if they are not where they were. trust: see :meth:`qoop.session.session.Session.resume`.

    Raises ConfigError if there is no bundle at `path`, SourceError or TableChanged if a table is gone or has changed.
    """
    session = connect(slots=slots, memory=memory, checkpoints=checkpoints, replan=replan, ray=ray)
    try:
        job = session.resume(path, data, trust)
    except BaseException:
        session.close()
        raise
    job.close_after(session.close)
    return job
