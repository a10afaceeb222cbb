"""Queries that go on without their client, and their answers until these are fetched, across the end of servers.

A query that is to run and that no server runs goes on in one that finds it: from its bundle where there is one, else
from the outputs in the session's folder of checkpoints. Those are in the folder of answers
(:mod:`qoop.interfaces.server.restart.kept_folder`), too, unless the session has another::

    checkpoints/       outputs of tasks and plans, of all queries
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError, DiskFull, QoopError, Suspended
from qoop.interfaces.server.queries import ENDED, Earlier, UserQuery, only_statement
from qoop.interfaces.server.restart.kept_folder import CANCELLED, DONE, FAILED, RUNNING, Kept, KeptFolder
from qoop.interfaces.server.service import as_ours
from qoop.query.result import Result
from qoop.query.statements.normal_text import is_steady
from qoop.query.statements.parameters import Parameters
from qoop.session.texts import with_parameters

if TYPE_CHECKING:
    from qoop.interfaces.server.service import Service
    from qoop.interfaces.server.users import User

_log = logging.getLogger(__name__)

_KEEP = 3600.0
"""Seconds for which an answer is kept that its client has not fetched."""
_MOST = 100
"""Answers of a user that are kept; the oldest go first."""
_POLL_SECONDS = 0.5
"""Seconds between two looks for queries of servers that have ended, and for queries that another server removed."""


class KeptQueries:
    """The queries of a service that go on without their client.

    folder: made if need be; only its owner may read it. lasting: it outlives the server, so what runs at its end is
    suspended, and other servers may share it. Raises ConfigError for a folder that cannot be used.
    """

    def __init__(self, service: Service, folder: Path, lasting: bool = False) -> None:
        self._folder = KeptFolder(folder)
        self._service, self._lasting = service, lasting
        self._threads = ThreadPoolExecutor(service.queries, "qoop-kept")
        self._lock = threading.Lock()
        self._running: dict[str, UserQuery] = {}
        self._ending = False
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._poll, name="qoop-kept-watch", daemon=True)

    @property
    def is_shared(self) -> bool:
        """True if another server used the folder when this one began."""
        return not self._folder.is_alone

    def ask(self, user: User, text: str, parameters: Parameters = ()) -> Kept:
        """Begin a query. Raises what `Service.admit` does, and QueryError, ParseError, Forbidden for its text."""
        text = with_parameters(text, parameters)
        only_statement(text, self._service.session.isolation)
        self._forget_old(user)
        query = self._service.admit(user, text, "http")
        kept = Kept(query.id, user.name, text, time.time())
        try:
            self._folder.add(kept)
        except OSError as failed:
            error = DiskFull(f"cannot keep the query: {failed}")
            query.end(error)
            self._folder.remove(kept.id)
            raise error from failed
        self._begin(kept, query)
        return kept

    def resume(self) -> int:
        """Go on with what no server runs, now and from now on; return how many queries that are now."""
        resumed = self._resume()
        if self._lasting:
            self._watch.start()
        return resumed

    def find(self, user: User, id: str) -> Kept | None:
        """A query of a user; None if the user has none of that id, even if another has."""
        kept = self._folder.find(id)
        return kept if kept is not None and kept.user == user.name else None

    def of(self, user: User) -> list[Kept]:
        """All of a user, the oldest first."""
        return [one for one in self._folder.all() if one.user == user.name]

    def running(self, id: str) -> UserQuery | None:
        """A query as it runs here; None if it has ended, or another server runs it."""
        return self._running.get(id)

    def drop(self, kept: Kept) -> None:
        """Cancel a query, or forget its answer. Another server that runs it notices soon."""
        with self._lock:  # its thread does not record its end meanwhile
            self._folder.forget(kept.id)
            query = self._running.get(kept.id)
        if query is not None:
            query.cancel()  # its thread removes the folder
        elif self._folder.lock(kept.id):  # no other server runs it
            self._folder.remove(kept.id)

    def parts(self, kept: Kept) -> Iterator[Result]:
        """The rows of an answer, at least one part. Raises DiskFull if it cannot be read."""
        import pyarrow as pa

        try:
            with pa.OSFile(str(self._folder.answer(kept.id))) as file, pa.ipc.open_stream(file) as batches:
                empty = True
                for batch in batches:
                    empty = False
                    yield Result(pa.Table.from_batches([batch]), kept.columns, kept.settings)
                if empty:
                    yield Result(batches.schema.empty_table(), kept.columns, kept.settings)
        except (OSError, pa.ArrowInvalid) as error:
            raise DiskFull(f"the answer of {kept.id} cannot be read: {error}") from error

    def suspend(self) -> int:
        """Before the service is closed: suspend what runs, if that outlives it. Returns how many queries that are."""
        self._stop_watch()
        with self._lock:
            self._ending, running = True, dict(self._running)
        suspended = 0
        for id, query in running.items() if self._lasting else ():
            try:
                if query.job is not None:
                    query.job.suspend(self._folder.draft(id), copies=False)
                    self._folder.adopt_draft(id)
                    suspended += 1
            except ConfigError:
                pass  # it has just ended, or has no plan yet; DuckDB's tables may not go
            except (DiskFull, OSError) as error:  # its client may have removed it meanwhile; the others are suspended
                _log.warning("%s begins again in the next server: %s", id, error)
        return suspended

    def close(self) -> None:
        """After the service was closed."""
        self._stop_watch()
        self._threads.shutdown()
        self._folder.close()

    def _stop_watch(self) -> None:
        self._over.set()
        if self._watch.is_alive():
            self._watch.join()

    def _poll(self) -> None:
        while not self._over.wait(_POLL_SECONDS):
            try:
                for id in [id for id in list(self._running) if not self._folder.has(id)]:
                    self._cancel(id)
                if resumed := self._resume():
                    _log.info("goes on with %d queries of a server that has ended", resumed)
            except (OSError, QoopError):
                _log.exception("cannot read the folder of answers")

    def _cancel(self, id: str) -> None:
        with self._lock:
            query = self._running.get(id)
        if query is not None:
            query.cancel("the query was cancelled by another server")

    def _resume(self) -> int:
        resumed = 0
        for kept in self._folder.all():
            if kept.state == RUNNING and kept.id not in self._running and not self._ending:
                acquired = self._folder.acquire(kept.id)
                if acquired is not None:
                    self._go_on(acquired)
                    resumed += 1
        return resumed

    def _go_on(self, kept: Kept) -> None:
        user, bundle = self._service.users.of_name(kept.user), self._folder.bundle(kept.id)
        if user is None:
            self._folder.put(replace(kept, state=FAILED, error="NotKnown", message="the user is not known any more"))
            self._folder.release(kept.id)
            return
        earlier = Earlier(bundle if bundle.is_dir() else None, kept.at)
        try:
            query = self._service.admit(user, kept.sql, "http", id=kept.id, earlier=earlier)
        except QoopError:
            self._folder.release(kept.id)
            raise
        self._begin(kept, query)

    def _begin(self, kept: Kept, query: UserQuery) -> None:
        with self._lock:
            self._running[kept.id] = query
        self._threads.submit(self._run, kept, query)

    def _run(self, kept: Kept, query: UserQuery) -> None:
        error: Exception | None = None
        try:
            kept = self._write(self._started(kept, query), query)
        except Exception as failed:
            error = failed
        try:
            query.end(error)
        finally:
            self._ended(replace(kept, rows=query.rows, seconds=query.seconds), error)

    def _started(self, kept: Kept, query: UserQuery) -> Kept:
        """Start a query, and record what ``now()`` is in it: the outputs of a text that reads it depend on it."""
        job = query.begin()
        if job is None or kept.at is not None or is_steady(kept.sql):
            return kept
        kept = replace(kept, at=job.at)
        with self._lock:
            if self._folder.has(kept.id):
                self._folder.put(kept)
        return kept

    def _write(self, kept: Kept, query: UserQuery) -> Kept:
        """Write the rows as they come. Returns what is known of them."""
        import pyarrow as pa

        writer, path = None, self._folder.answer(kept.id)
        try:
            with pa.OSFile(str(path), "wb") as file, contextlib.ExitStack() as stack:
                for part in query.parts():
                    rows = part.lossless()
                    if writer is None:
                        writer = stack.enter_context(pa.ipc.new_stream(file, rows.schema))
                        columns = tuple(zip(part.columns, part.types, strict=True))
                        kept = replace(kept, columns=columns, settings=tuple(part.settings))
                    writer.write_table(rows)
        except OSError as error:
            raise DiskFull(f"cannot write the answer of {kept.id}: {error}") from error
        return kept

    def _ended(self, kept: Kept, error: Exception | None) -> None:
        bundle = self._folder.bundle(kept.id)
        try:
            with self._lock:
                self._running.pop(kept.id, None)
                there = self._folder.has(kept.id)
                if there and not (self._ending and isinstance(error, ENDED)):  # else the next server goes on with it
                    self._folder.put(replace(kept, state=DONE) if error is None else _failed(kept, error))
                    shutil.rmtree(bundle, ignore_errors=True)
            if not there:
                self._folder.remove(kept.id)
        finally:
            self._folder.release(kept.id)

    def _forget_old(self, user: User) -> None:
        """Remove the answers that are too old, or too many, for one more."""
        ended = [one for one in self.of(user) if one.state != RUNNING]
        for place, kept in enumerate(reversed(ended)):
            if place >= _MOST - 1 or time.time() - kept.submitted - kept.seconds > _KEEP:
                self.drop(kept)


def _failed(kept: Kept, error: Exception) -> Kept:
    cancelled = isinstance(error, ENDED) and not isinstance(error, Suspended)
    text = str(as_ours(error, f"the answer of {kept.id}"))
    return replace(kept, state=CANCELLED if cancelled else FAILED, error=type(error).__name__, message=text)
