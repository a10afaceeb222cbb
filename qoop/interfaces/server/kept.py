"""Queries that go on without their client, and their answers until these are fetched, across the end of the server.

Each has a folder of its own::

    ID/query.json      whose it is, its text, how it stands; written whole, or not at all
    ID/answer.arrow    its rows as they come, a stream of Arrow in the lossless form
    ID/bundle/         what it has done, where it was suspended (:mod:`qoop.query.bundle`)

What ``query.json`` says is running when a server begins goes on: from the bundle where there is one, else from the
outputs in the session's folder of checkpoints. That folder is here, too, unless the session has another::

    checkpoints/       outputs of tasks and plans, of all queries
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import Cancelled, ConfigError, DiskFull, Suspended
from qoop.catalog.forks import forget_private, keep_private
from qoop.catalog.stores.private import make_folder
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.value import value
from qoop.interfaces.server.queries import Earlier, UserQuery, only_statement
from qoop.interfaces.server.service import as_ours
from qoop.query.plan_keys import is_steady
from qoop.query.result import Result
from qoop.query.statements.parameters import Parameters
from qoop.session.texts import with_parameters

if TYPE_CHECKING:
    from qoop.interfaces.server.service import Service
    from qoop.interfaces.server.users import User

FORMAT, VERSION = "qoop-kept-query", 1
CHECKPOINTS = "checkpoints"
"""The folder of checkpoints within that of answers, for a session that has no other."""
_FILE, _ANSWER, _BUNDLE = "query.json", "answer.arrow", "bundle"
_OURS = re.compile("[0-9a-f]{16}")
"""The names of folders of queries."""
_KEEP = 3600.0
"""Seconds for which an answer is kept that its client has not fetched."""
_SUBMITTED = "asked"
"""The key of `Kept.submitted` in files of this version."""
_MOST = 100
"""Answers of a user that are kept; the oldest go first."""

QUEUED, RUNNING, DONE, FAILED, CANCELLED = "queued", "running", "done", "failed", "cancelled"


@value
class Kept:
    """A query as its file records it. state: running, done, failed or cancelled. submitted: seconds since 1970.

    error, message: the class and the text of what it failed with. columns: names and types of DuckDB of its answer;
    settings: those that its values are written with. at: the value of ``now()`` in it, if its text depends on the
    moment and it has begun.
    """

    id: str
    user: str
    sql: str
    submitted: float
    state: str = RUNNING
    rows: int = 0
    seconds: float = 0.0
    error: str = ""
    message: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    at: str | None = None


class KeptQueries:
    """The queries of a service that go on without their client.

    folder: made if need be; only its owner may read it, and one server at a time uses it. lasting: it outlives the
    server, so what runs at its end is suspended. Raises ConfigError for a folder that cannot be used.
    """

    def __init__(self, service: Service, folder: Path, lasting: bool = False) -> None:
        try:
            make_folder(folder)
            folder.chmod(0o700)
        except OSError as error:
            raise ConfigError(f"cannot keep answers in {folder}: {error.strerror}") from error
        self._service, self._folder, self._lasting = service, folder, lasting
        self._threads = ThreadPoolExecutor(service.queries, "qoop-kept")
        self._lock = threading.Lock()
        self._held = _held(folder)
        try:
            self._kept = {one.id: one for one in _read_all(folder)}
        except ConfigError:
            self._unlock()
            raise
        _clear(folder)
        self._running: dict[str, UserQuery] = {}
        self._ending = False

    def ask(self, user: User, text: str, parameters: Parameters = ()) -> Kept:
        """Begin a query. Raises what `Service.admit` does, and QueryError, ParseError, Forbidden for its text."""
        text = with_parameters(text, parameters)
        only_statement(text, self._service.session.isolation)
        self._forget_old(user)
        query = self._service.admit(user, text, "http")
        kept = Kept(query.id, user.name, text, time.time())
        (self._folder / kept.id).mkdir(mode=0o700)
        self._put(kept)
        self._begin(kept, query)
        return kept

    def resume(self) -> int:
        """Go on with what ran when the last server ended; return how many queries that are."""
        left = [one for one in self._kept.values() if one.state == RUNNING]
        for kept in left:
            user, bundle = self._service.users.of_name(kept.user), self._folder / kept.id / _BUNDLE
            if user is None:
                self._put(replace(kept, state=FAILED, error="NotKnown", message="the user is not known any more"))
                continue
            earlier = Earlier(bundle if bundle.is_dir() else None, kept.at)
            self._begin(kept, self._service.admit(user, kept.sql, "http", id=kept.id, earlier=earlier))
        return len(left)

    def find(self, user: User, id: str) -> Kept | None:
        """A query of a user; None if the user has none of that id, even if another has."""
        kept = self._kept.get(id)
        return kept if kept is not None and kept.user == user.name else None

    def of(self, user: User) -> list[Kept]:
        """All of a user, the oldest first."""
        return sorted(
            (one for one in list(self._kept.values()) if one.user == user.name), key=lambda one: one.submitted
        )

    def running(self, id: str) -> UserQuery | None:
        """A query as it runs; None if it has ended."""
        return self._running.get(id)

    def drop(self, kept: Kept) -> None:
        """Cancel a query, or forget its answer."""
        with self._lock:
            self._kept.pop(kept.id, None)
            query = self._running.get(kept.id)
        if query is not None:
            query.cancel()  # its thread removes the folder
        else:
            _remove(self._folder / kept.id)

    def parts(self, kept: Kept) -> Iterator[Result]:
        """The rows of an answer, at least one part. Raises DiskFull if it cannot be read."""
        import pyarrow as pa

        try:
            with pa.OSFile(str(self._folder / kept.id / _ANSWER)) as file, pa.ipc.open_stream(file) as batches:
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
        with self._lock:
            self._ending, running = True, dict(self._running)
        suspended = 0
        for id, query in running.items() if self._lasting else ():
            with contextlib.suppress(ConfigError):  # it has just ended, or has no plan yet; DuckDB's tables may not go
                if query.job is not None:
                    query.job.suspend(self._folder / id / _BUNDLE, copies=False)
                    suspended += 1
        return suspended

    def close(self) -> None:
        """After the service was closed."""
        self._threads.shutdown()
        self._unlock()

    def _unlock(self) -> None:
        forget_private(self._held)
        os.close(self._held)

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
            there = kept.id in self._kept
        if there:
            self._put(kept)
        return kept

    def _write(self, kept: Kept, query: UserQuery) -> Kept:
        """Write the rows as they come. Returns what is known of them."""
        import pyarrow as pa

        writer, path = None, self._folder / kept.id / _ANSWER
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
        with self._lock:
            self._running.pop(kept.id, None)
            there = kept.id in self._kept
        folder = self._folder / kept.id
        if not there:
            _remove(folder)
        elif self._ending and isinstance(error, Cancelled):  # the next server goes on with it
            return
        else:
            self._put(replace(kept, state=DONE) if error is None else _failed(kept, error))
            shutil.rmtree(folder / _BUNDLE, ignore_errors=True)

    def _put(self, kept: Kept) -> None:
        facts = {"format": FORMAT, "version": VERSION, **asdict(kept)}
        facts[_SUBMITTED] = facts.pop("submitted")
        write_whole(self._folder / kept.id / _FILE, json.dumps(facts))
        with self._lock:
            self._kept[kept.id] = kept

    def _forget_old(self, user: User) -> None:
        """Remove the answers that are too old, or too many, for one more."""
        ended = [one for one in self.of(user) if one.state != RUNNING]
        for place, kept in enumerate(reversed(ended)):
            if place >= _MOST - 1 or time.time() - kept.submitted - kept.seconds > _KEEP:
                self.drop(kept)


def _held(folder: Path) -> int:
    """The open folder, with a lock that lasts as long as this process: two servers would both go on with what ran."""
    found = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(found)
        raise ConfigError(f"another server keeps its answers in {folder}") from error
    keep_private(found)
    return found


def _failed(kept: Kept, error: Exception) -> Kept:
    cancelled = isinstance(error, Cancelled) and not isinstance(error, Suspended)
    text = str(as_ours(error, f"the answer of {kept.id}"))
    return replace(kept, state=CANCELLED if cancelled else FAILED, error=type(error).__name__, message=text)


def _remove(folder: Path) -> None:
    """Remove the folder of a query. What tells of it goes first: whatever is killed here, the query is gone."""
    (folder / _FILE).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Remove what a server that was killed had begun to make, or to remove."""
    for path in folder.iterdir():
        if _OURS.fullmatch(path.name) and path.is_dir() and not (path / _FILE).exists():
            _remove(path)


def _read_all(folder: Path) -> Iterator[Kept]:
    for path in folder.glob(f"*/{_FILE}"):
        try:
            yield _read(json.loads(path.read_text(encoding="utf-8")), path.parent.name)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{path} is not a query of a server of this version: {error}") from error


def _read(record: Mapping[str, Any], id: str) -> Kept:
    if (record.get("format"), record.get("version")) != (FORMAT, VERSION) or record.get("id") != id:
        raise ValueError(f"it says {record.get('format')} {record.get('version')} of {record.get('id')}")
    facts = {name: record[name] for name in record if name not in ("format", "version")}
    for name in ("columns", "settings"):
        facts[name] = tuple((str(one), str(other)) for one, other in record[name])
    return Kept(submitted=facts.pop(_SUBMITTED), **facts)
