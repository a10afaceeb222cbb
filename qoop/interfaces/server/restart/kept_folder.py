"""The folder of queries that go on without their client. Several servers may share it, also one after the other.

Each query has a folder of its own::

    ID/query.json      whose it is, its text, how it stands; written whole, or not at all
    ID/lock            locked by the server that runs it; the system releases the lock when that process ends
    ID/answer.arrow    its rows as they come, a stream of Arrow in the lossless form
    ID/bundle/         its work, where it was suspended (:mod:`qoop.query.bundle`)

``servers.lock`` is locked by all servers together, and they have the key in ``server.key``. A server that is alone
removes what killed ones left half made.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qoop.catalog.errors import ConfigError
from qoop.catalog.forks import forget_private, keep_private
from qoop.catalog.stores.private import lock_now, make_folder
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.value import value

FORMAT, VERSION = "qoop-kept-query", 1
CHECKPOINTS = "checkpoints"
"""The folder of checkpoints within that of answers, for a session that has no other."""
KEY = "server.key"
"""The file of the key of the servers on a folder of answers (`Users.share_key`)."""
_FILE, _LOCK, _ANSWER, _BUNDLE, _DRAFT = "query.json", "lock", "answer.arrow", "bundle", "bundle.draft"
_SERVERS = "servers.lock"
_OURS = re.compile("[0-9a-f]{16}")
"""The names of folders of queries."""
_SUBMITTED = "asked"
"""The key of `Kept.submitted` in files of this version."""

RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"


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


class KeptFolder:
    """The folder as one server uses it. Made if need be; only its owner may read it.

    Raises ConfigError for a folder that cannot be used, and for a file in it that is none of this version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locks: dict[str, int] = {}
        """The open lock files of the queries that this server runs."""
        self._read: dict[str, tuple[tuple[int, int], Kept]] = {}
        """Files that were read: their moment and number, and what they record."""
        try:
            make_folder(path)
            path.chmod(0o700)
            self._servers = _opened(path / _SERVERS)
        except OSError as error:
            raise ConfigError(f"cannot keep answers in {path}: {error.strerror}") from error
        self.is_alone = lock_now(self._servers)
        if self.is_alone:
            self._clear()
        fcntl.flock(self._servers, fcntl.LOCK_SH)
        try:
            self.all()
        except ConfigError:
            self.close()
            raise

    def close(self) -> None:
        """Release everything."""
        for id in list(self._locks):
            self.release(id)
        _close(self._servers)

    def add(self, kept: Kept) -> None:
        """Make the folder of a query that this server runs."""
        (self.path / kept.id).mkdir(mode=0o700)
        self.lock(kept.id)
        self.put(kept)

    def put(self, kept: Kept) -> None:
        """Record how a query stands."""
        facts = {"format": FORMAT, "version": VERSION, **asdict(kept)}
        facts[_SUBMITTED] = facts.pop("submitted")
        write_whole(self.path / kept.id / _FILE, json.dumps(facts))

    def acquire(self, id: str) -> Kept | None:
        """A query that is to run and that no server runs; from now on this one does. None: it is not like that."""
        if not self.lock(id):
            return None
        kept = self.find(id)
        if kept is None or kept.state != RUNNING:
            self.release(id)
            return None
        return kept

    def lock(self, id: str) -> bool:
        """Lock a query until `release` or `remove`. False: a server has locked it, or it was removed."""
        try:
            file = _opened(self.path / id / _LOCK)
        except FileNotFoundError:
            return False
        if not lock_now(file):
            _close(file)
            return False
        self._locks[id] = file
        return True

    def release(self, id: str) -> None:
        """This server no longer runs a query."""
        if (lock := self._locks.pop(id, None)) is not None:
            _close(lock)

    def find(self, id: str) -> Kept | None:
        """A query as it stands; None if there is none of that id. Raises ConfigError."""
        path = self.path / id / _FILE
        if not _OURS.fullmatch(id):
            return None
        try:
            facts = path.stat()
            stamp = facts.st_mtime_ns, facts.st_ino
            before, known = self._read.get(id, (None, None))
            if known is None or before != stamp:
                known = _kept(json.loads(path.read_text(encoding="utf-8")), id)
                self._read[id] = stamp, known
        except FileNotFoundError:
            self._read.pop(id, None)
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{path} is not a query of a server of this version: {error}") from error
        return known

    def all(self) -> list[Kept]:
        """All queries, the oldest first. Raises ConfigError."""
        names = os.listdir(self.path)
        for name in self._read.keys() - set(names):
            self._read.pop(name, None)
        found = (self._ended(name) or self.find(name) for name in names)
        return sorted((one for one in found if one is not None), key=lambda one: one.submitted)

    def _ended(self, id: str) -> Kept | None:
        """A query that was read when it had ended: its file does not change any more."""
        _, known = self._read.get(id, (None, None))
        return known if known is not None and known.state != RUNNING else None

    def has(self, id: str) -> bool:
        """False for a query that was removed, by any server."""
        return (self.path / id / _FILE).exists()

    def forget(self, id: str) -> None:
        """Remove the record of a query: whatever is killed after this, the query is gone."""
        self._read.pop(id, None)
        (self.path / id / _FILE).unlink(missing_ok=True)

    def remove(self, id: str) -> None:
        """Remove a query that no other server runs."""
        self.forget(id)
        shutil.rmtree(self.path / id, ignore_errors=True)
        self.release(id)

    def answer(self, id: str) -> Path:
        """The file of an answer."""
        return self.path / id / _ANSWER

    def bundle(self, id: str) -> Path:
        """The folder of the bundle of a suspended query."""
        return self.path / id / _BUNDLE

    def draft(self, id: str) -> Path:
        """The folder to write a bundle in, until `adopt_draft`: a query may go on from an earlier one meanwhile."""
        shutil.rmtree(path := self.path / id / _DRAFT, ignore_errors=True)
        return path

    def adopt_draft(self, id: str) -> None:
        """The bundle in `draft` is whole, and takes the place of an earlier one."""
        shutil.rmtree(self.bundle(id), ignore_errors=True)
        (self.path / id / _DRAFT).rename(self.bundle(id))

    def _clear(self) -> None:
        """Remove what a server that was killed had begun to make, or to remove."""
        for path in self.path.iterdir():
            if _OURS.fullmatch(path.name) and path.is_dir() and not self.has(path.name):
                self.remove(path.name)


def _opened(path: Path) -> int:
    """An open file for locks, in a folder that exists. Not that of forked children. A shared mount locks no folders."""
    found = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    keep_private(found)
    return found


def _close(file: int) -> None:
    forget_private(file)
    os.close(file)


def _kept(record: Mapping[str, Any], id: str) -> Kept:
    if (record.get("format"), record.get("version")) != (FORMAT, VERSION) or record.get("id") != id:
        raise ValueError(f"it says {record.get('format')} {record.get('version')} of {record.get('id')}")
    facts = {name: record[name] for name in record if name not in ("format", "version")}
    for name in ("columns", "settings"):
        facts[name] = tuple((str(one), str(other)) for one, other in record[name])
    return Kept(submitted=facts.pop(_SUBMITTED), **facts)
