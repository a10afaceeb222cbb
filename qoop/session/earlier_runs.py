"""Unfinished runs, visible to all processes that share a folder of checkpoints.

::

    DIR/runs/<text>-<run>.json     the query of a job that runs there, or did: its text, tables, settings and versions
    DIR/runs/lasted                how long queries and processes lasted there, and how many were killed (`RunLosses`)

A job writes its file at its start and removes it when it has its answer. Its process locks the file, and the system
releases the lock when the process ends. So a file without a lock is of a run that was killed, or failed; the process
of a run that fails renames it to end in ".failed.json". The process touches the file while the job runs, so its time
is the end of a run that was killed, but for a moment. Outputs are found by their content alone; if a job finds none,
the file of an unfinished run of the same text gives the reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from io import FileIO
from math import inf
from pathlib import Path
from typing import IO, Any

import duckdb

from qoop.catalog.forks import forget_private, keep_private
from qoop.catalog.signed_json import NotSealed, opened, sealed
from qoop.catalog.stores.private import make_folder, open_private, write_all
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.value import value
from qoop.engine.backends.while_working import WhileWorking
from qoop.engine.storage import manifest
from qoop.query.drawing.terminal import shortened
from qoop.query.job import Planned
from qoop.query.output_losses import BETWEEN_LOSSES
from qoop.query.plan_keys import planner_version
from qoop.query.statements.normal_text import is_steady, normal_text

FORMAT, VERSION = "qoop-run", 2

UNTIL_DONE = "until-done"
"""The folder of the records of runs until done (:mod:`qoop.session.lives`)."""

_FAILED = ".failed.json"
_MOST = 1000
"""Files at most; beyond, the oldest are removed."""
_READ = 20
"""Unfinished runs of other texts that are compared."""
_LONGEST = 1 << 16
"""Bytes of the file of one of them, and of the text that it is compared with: lexing a longer one takes
longer than many queries."""
_SIMILAR = 0.8
"""The least part of the words of two texts that both have, if one is to be an edited form of the other."""
_SHOWN = 60
"""Characters of a text in a message."""

_RUNS = "runs"
_LOST, _LIVED = "lost", "lived "
_LIVES = 8
"""The last lives of a place that say how long the next one may last."""
_OFTEN, _SELDOM, _PART = 0.1, 5.0, 0.05
"""Seconds between two touches of the files of runs that are under way: that part of the age of the last one, and no
less or more than these."""
_LEAST = 1.0
"""Seconds of queries that a line of the record of losses is written for."""
_MOST_SECONDS = 86_400.0
"""Seconds that such a line counts for at most."""
_WINDOW, _LARGE = 1 << 14, 1 << 16
"""The last bytes of that record count. The others are removed from some size on."""


@value
class QueryFacts:
    """The facts that the outputs of a query depend on. tables, settings, functions: versions and values by name.

    private: the tables that live in the memory of one process. versions: of the programs that make and write outputs.
    """

    text: str
    tables: Mapping[str, str]
    private: tuple[str, ...]
    settings: Mapping[str, str]
    functions: Mapping[str, str]
    versions: Mapping[str, str]

    @classmethod
    def of(cls, planned: Planned) -> QueryFacts:
        """The query that was planned."""
        bound, tables = planned.bound, planned.tables
        return cls(
            bound.text,
            {name: table.version for name, table in tables.items()},
            tuple(sorted(name for name, table in tables.items() if not table.source.shared)),
            dict(bound.settings),
            {name: function.version for name, function in bound.functions.items()},
            {"DuckDB": duckdb.__version__, "qoop": planner_version(), "format": str(manifest.VERSION)},
        )


def difference(before: QueryFacts, now: QueryFacts) -> str:
    """The reason why a run of a query can use nothing of an unfinished one of the same text, as a clause.

    >>> one = QueryFacts("FROM t", {"t": "1"}, (), {"timezone": "UTC"}, {}, {"DuckDB": "1.5.5"})
    >>> difference(one, QueryFacts("FROM t", {"t": "2"}, (), {"timezone": "CET"}, {}, {"DuckDB": "1.5.5"}))
    "since the unfinished run of this text t has changed; timezone was 'UTC' and is 'CET'"
    >>> difference(one, one)
    'the unfinished run of this text left no output that this plan reads'
    """
    private = [name for name in now.private if name in before.tables]
    changed = [f"{name} has changed" for name in _changed(before.tables, now.tables) if name not in private]
    clauses = [
        *(f"{name} is in the memory of another process" for name in private),
        *changed,
        *(f"the function {name} has changed" for name in _changed(before.functions, now.functions)),
        *(
            f"{name} was {_shown(before.settings, name)} and is {_shown(now.settings, name)}"
            for name in _changed(before.settings, now.settings)
        ),
        *_other_versions(before.versions, now.versions),
    ]
    if clauses:
        return f"since the unfinished run of this text {'; '.join(clauses)}"
    if not is_steady(now.text):
        return "the text depends on the moment, on chance or on the session"
    return "the unfinished run of this text left no output that this plan reads"


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names whose values differ, or that only one has."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _shown(settings: Mapping[str, str], name: str) -> str:
    return repr(settings[name]) if name in settings else "as usual"


def _other_versions(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    if before.get("DuckDB") != now.get("DuckDB"):
        yield f"DuckDB was {before.get('DuckDB')} and is {now.get('DuckDB')}"
    elif before != now:
        yield "qoop was another version, or in another time zone"


class RunLosses:
    """The record of how often queries are lost with their processes. Thread-safe.

    The file has lines with the seconds that queries ran to their end, and a line "lost" for each that was killed. Lines
    "lived" have the seconds of processes that ended before their query. The last lines count, so a place may change. It
    bears no seal: it decides how plans are cut and which outputs are worth writing, and never what an answer contains.
    A folder that cannot be written gets no lines.
    """

    def __init__(self, checkpoints: Path) -> None:
        self._path = checkpoints / _RUNS / "lasted"
        self._lock = threading.Lock()
        self._seconds = 0.0  # of queries, without a line

    def add_seconds(self, seconds: float) -> None:
        """A query has ended after these seconds, and its process lives."""
        with self._lock:
            self._seconds += seconds
            if self._seconds >= _LEAST:
                self._append(f"{self._seconds:.1f}\n")
                self._seconds = 0.0

    def add_lost(self) -> None:
        """A query was lost with its process."""
        with self._lock:
            self._append(f"{_LOST}\n")

    def add_life(self, seconds: float) -> None:
        """A process was killed, or stopped a query until done, after these seconds."""
        with self._lock, contextlib.suppress(OSError):
            make_folder(self._path.parent)
            self._append(f"{_LIVED}{seconds:.1f}\n")

    def lives(self) -> list[float]:
        """The seconds of the last such processes."""
        found = (_seconds(line.removeprefix(_LIVED)) for line in self._lines() if line.startswith(_LIVED))
        return [seconds for seconds in found if seconds][-_LIVES:]

    def seconds_between(self, unnoted: int) -> float:
        """The seconds that queries run between two losses: at a new folder `BETWEEN_LOSSES`, as if one loss had
        followed these. unnoted: losses without a line so far."""
        lines = list(self._lines())
        lost = lines.count(_LOST) + unnoted
        return (BETWEEN_LOSSES + sum(map(_seconds, lines))) / (1 + lost)

    def _append(self, line: str) -> None:
        with contextlib.suppress(OSError):
            with open_private(self._path, "a") as file:
                write_all(file, line.encode())
                large = file.tell() > _LARGE
            if large:
                write_whole(self._path, "".join(f"{one}\n" for one in self._lines()))

    def _lines(self) -> Iterator[str]:
        """The last whole lines."""
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - _WINDOW)
            file.seek(start)
            lines = file.read().decode(errors="replace").split("\n")
            yield from lines[1 if start else 0 : -1]


def _seconds(line: str) -> float:
    """0 for another line."""
    with contextlib.suppress(ValueError):
        return min(_MOST_SECONDS, float(line)) if float(line) > 0.0 else 0.0
    return 0.0


class StartedRun:
    """A run that is under way. why: the reason, as a clause, that it cannot use the outputs of an unfinished run; empty
    if there is no such run. continues: an unfinished run of the same text was of the same owner. alone: no other run of
    the text is under way. begun: by the monotonic clock. meanwhile: closed at its end."""

    def __init__(
        self,
        losses: RunLosses,
        why: str = "",
        continues: bool = False,
        alone: bool = False,
        path: Path | None = None,
        file: FileIO | None = None,
    ) -> None:
        self.why, self.continues, self.alone = why, continues, alone
        self.begun = time.monotonic()
        self.meanwhile = contextlib.ExitStack()
        self._losses = losses
        self._path = path
        self._file = file

    def touch(self) -> None:
        """Say that the process lives."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a file system without times
                os.utime(self._file.fileno())

    def end(self, answered: bool) -> None:
        """Remove or release the file at the end of the run. answered: it has its answer, so its file is not needed."""
        self.meanwhile.close()
        if self._file is None or self._path is None:
            return
        self._losses.add_seconds(time.monotonic() - self.begun)
        with contextlib.suppress(OSError):  # the folder is gone, and the file with it
            if answered:
                self._path.unlink(missing_ok=True)
            else:
                self._path.rename(self._path.with_suffix(_FAILED))
        forget_private(self._file.fileno())
        self._file.close()


@value
class UnfinishedRun:
    """A run that was killed or failed. query: None: its file does not bear the seal. lasted: seconds. owner: see
    `EarlierRuns.begin`."""

    path: Path
    query: QueryFacts | None
    lasted: float = 0.0
    owner: tuple[str, ...] = ()


class EarlierRuns:
    """The unfinished runs of a folder of checkpoints. key: files must bear its seal; None: a checksum. Thread-safe."""

    def __init__(self, checkpoints: Path, key: bytes | None) -> None:
        self._folder = checkpoints / _RUNS
        self._lives = checkpoints / UNTIL_DONE
        self._key = key
        self._losses = RunLosses(checkpoints)
        self._running: set[StartedRun] = set()
        self._lock = threading.Lock()
        self._touching = WhileWorking(self._touch, "qoop-alive", first=_OFTEN)

    def begin(self, planned: Planned, owner: tuple[str, ...] = ()) -> StartedRun:
        """Record the start of a run, in place of an unfinished one of the same text. If the folder cannot be written,
        there is no record; the store of checkpoints reports that error.

        owner: tenant and user, where users share a session."""
        run = self._begun(planned, owner)
        run.meanwhile.enter_context(self._touching.watched())
        with self._lock:
            self._running.add(run)
        run.meanwhile.callback(self._forget, run)
        return run

    def close(self) -> None:
        """Touch no file any more."""
        self._touching.close()

    def _touch(self) -> float:
        """Touch the files of all runs."""
        with self._lock:
            for run in self._running:
                run.touch()
            last = max((run.begun for run in self._running), default=0.0)
        return min(_SELDOM, max(_OFTEN, _PART * (time.monotonic() - last)))

    def _forget(self, run: StartedRun) -> None:
        with self._lock:
            self._running.discard(run)

    def _begun(self, planned: Planned, owner: tuple[str, ...]) -> StartedRun:
        now = QueryFacts.of(planned)
        digest = normal_text(now.text).digest
        try:
            make_folder(self._folder)
            names = self._names()
            before = list(self._unfinished(name for name in names if name.startswith(digest)))
            why = self._why(now, before, names)
            path = self._folder / f"{digest}-{secrets.token_hex(8)}.json"
            continues = any(one.query is not None and one.owner == owner for one in before)
            alone = sum(name.startswith(digest) for name in names) == len(before)
            return StartedRun(self._losses, why, continues, alone, path, self._write(path, now, owner))
        except OSError:
            return StartedRun(self._losses)

    def seconds_between_losses(self) -> float:
        """The seconds that queries run here between two that are lost with their process, as far as is known."""
        with contextlib.suppress(OSError):  # no run has begun
            killed = [name for name in self._newest(self._names())[:_READ] if not name.endswith(_FAILED)]
            return self._losses.seconds_between(sum(1 for _ in self._unfinished(killed)))
        return self._losses.seconds_between(0)

    def expected_life(self, text: str) -> float:
        """The seconds that a process may live, if a run of the text was killed: the median of the last lives here.
        Infinite: none was killed."""
        digest = normal_text(text).digest
        with contextlib.suppress(OSError):  # no run has begun
            own = [name for name in self._names() if name.startswith(digest) and not name.endswith(_FAILED)]
            killed = [one.lasted for one in self._unfinished(own)]
            lasted = sorted([*self._losses.lives(), *killed])
            return lasted[len(lasted) // 2] if killed else inf
        return inf

    def is_unfinished(self, text: str) -> bool:
        """True if a run of the text has not ended, whether it is under way or not, or is to survive its process."""
        digest = normal_text(text).digest
        if self._counts_lives(digest):
            return True
        with contextlib.suppress(OSError):  # no run has begun
            return any(name.startswith(digest) for name in os.listdir(self._folder))
        return False

    def listed(self) -> Iterator[tuple[Path, str, bool]]:
        """All runs that have not ended: file, text, and whether a process runs it."""
        for path in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, NotSealed), path.open("rb") as file:
                text = _query(opened(file.read(), self._key)).text
                yield path, text, is_locked(file)

    def _counts_lives(self, digest: str) -> bool:
        """True if the text has a record of its lives, which counts each of them once."""
        return (self._lives / f"{digest}.json").exists()

    def _names(self) -> list[str]:
        return [name for name in os.listdir(self._folder) if name.endswith(".json")]

    def _write(self, path: Path, now: QueryFacts, owner: tuple[str, ...]) -> FileIO:
        file = open_private(path, "x")
        try:
            keep_private(file.fileno())
            fcntl.flock(file, fcntl.LOCK_EX)
            fields = {name: getattr(now, name) for name in QueryFacts.__dataclass_fields__}
            body = {"format": FORMAT, "version": VERSION, "begun": time.time(), "owner": owner, **fields}
            write_all(file, sealed(body, self._key).encode())
        except BaseException:
            forget_private(file.fileno())
            file.close()
            raise
        return file

    def _why(self, now: QueryFacts, own: Iterable[UnfinishedRun], names: list[str]) -> str:
        """The reason why no output can be used, as a clause. own: those of the same text, whose files are removed."""
        found = ""
        for run in own:
            found = "what the unfinished run left is not sealed with this key" if run.query is None else ""
            found = found or difference(run.query or now, now)
            run.path.unlink(missing_ok=True)
            if not run.path.name.endswith(_FAILED):
                self._losses.add_lost()
                if run.query is not None and not self._counts_lives(run.path.name.partition("-")[0]):
                    self._losses.add_life(run.lasted)
        if len(names) > _MOST:
            self._trim(names)
        return found or self._edited(now, names)

    def _edited(self, now: QueryFacts, names: Iterable[str]) -> str:
        """The reason, if an unfinished run had much the same text."""
        if len(now.text) > _LONGEST:
            return ""
        words = normal_text(now.text).words
        for run in self._unfinished(name for name in self._newest(names)[:_READ] if self._is_short(name)):
            if (before := run.query) is None or not now.tables.keys() & before.tables.keys():
                continue
            others = normal_text(before.text).words
            if len(words & others) >= _SIMILAR * len(words | others):
                return f"the unfinished run had another text: {shortened(' '.join(before.text.split()), _SHOWN)}"
        return ""

    def _unfinished(self, names: Iterable[str]) -> Iterator[UnfinishedRun]:
        """The runs that are not under way."""
        for name in names:
            path = self._folder / name
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # BlockingIOError: it runs
                try:
                    body = opened(file.read(), self._key)
                except NotSealed:
                    yield UnfinishedRun(path, None)
                    continue
                lasted = os.fstat(file.fileno()).st_mtime - float(body["begun"])
                seconds = min(_MOST_SECONDS, max(_OFTEN, lasted))
                yield UnfinishedRun(path, _query(body), seconds, tuple(map(str, body.get("owner", ()))))

    def _is_short(self, name: str) -> bool:
        try:
            return (self._folder / name).stat().st_size <= _LONGEST
        except OSError:  # its run has ended
            return False

    def _trim(self, names: Iterable[str]) -> None:
        for run in self._unfinished(self._newest(names)[_MOST:]):
            run.path.unlink(missing_ok=True)

    def _newest(self, names: Iterable[str]) -> list[str]:
        def written(name: str) -> float:
            with contextlib.suppress(OSError):
                return (self._folder / name).stat().st_mtime
            return 0.0

        return sorted(names, key=written, reverse=True)


def is_locked(file: IO[bytes]) -> bool:
    """True if a process holds the lock of the file."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _query(body: Mapping[str, Any]) -> QueryFacts:
    """Raises ValueError, KeyError or TypeError for invalid data."""
    if (body["format"], body["version"]) != (FORMAT, VERSION):
        raise ValueError("another format")
    tables, settings, functions, versions = (
        {str(name): str(one) for name, one in body[part].items()}
        for part in ("tables", "settings", "functions", "versions")
    )
    return QueryFacts(str(body["text"]), tables, tuple(map(str, body["private"])), settings, functions, versions)
