"""Records of runs until done: a query that survives its processes has one in the folder of checkpoints.

::

    DIR/until-done/<text>.json    its text, how many processes have run it, the outputs of its plan
    DIR/until-done/<text>.lock    the process that runs it holds this lock; the system releases it at its end

The names of the outputs say how far a run is, even if its process was killed: those with a manifest are on disk.
A living process writes to its lock file how long it has lived; the next one reads there how long it lasted, and records
it for all texts (:class:`~qoop.session.earlier_runs.RunLosses`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from io import FileIO
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from qoop.catalog.forks import forget_private, keep_private
from qoop.catalog.signed_json import NotSealed, opened, sealed
from qoop.catalog.sources.created import written_at
from qoop.catalog.stores.private import lock_now, make_folder, open_private, write_all
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.value import value
from qoop.engine.storage.manifest import checkpoint_name, manifests
from qoop.engine.task import CheckpointKey, checkpoint_keys, joined_key
from qoop.planner.plan import Plan
from qoop.query.earlier_work import SHORTER
from qoop.query.output_losses import MOST_UNDERESTIMATED
from qoop.query.statements.normal_text import normal_text
from qoop.session.earlier_runs import UNTIL_DONE, EarlierRuns, RunLosses, is_locked

_FORMAT = "qoop-until-done"


@value
class LifeRecord:
    """begun: seconds since 1970 at the start of the first process. lives: the processes that have run it.

    process: the number of the last one. outputs: the names of all outputs of the plan, each with that of the index of
    its slices. written: the file that the answer is about to be moved to; empty: there is no answer yet. inode: of that
    file; 0: of a table.
    made: the number of outputs in the folder when the last life began. fruitless: lives that ran tasks for most of
    their time and have added none, less those since then that have. planned: the seconds of a life that the plan was
    made for. started: seconds until the last life ran tasks.
    """

    text: str
    begun: float
    lives: int = 0
    outputs: tuple[str, ...] = ()
    written: str = ""
    inode: int = 0
    made: int = 0
    fruitless: int = 0
    process: int = 0
    planned: float = inf
    started: float = 0.0


class RunLives:
    """The record of one query in a folder. The process that has its lock is the only one that writes it."""

    def __init__(self, checkpoints: Path, key: bytes | None, text: str) -> None:
        self._checkpoints = checkpoints
        self._path = checkpoints / UNTIL_DONE / f"{normal_text(text).digest}.json"
        self._key = key
        self._losses = RunLosses(checkpoints)
        self._begun, self._recorded = time.monotonic(), 0.0
        self._lock: FileIO | None = None
        self.record = _read(self._path, key) or LifeRecord(text, time.time())
        self._written, self._since = (self.record.written, self.record.inode), _modified(self._path)

    def take(self) -> bool:
        """Begin a life. False if another living process runs the query. Raises OSError if nothing can be written."""
        make_folder(self._path.parent)
        lock = open_private(self._path.with_suffix(".lock"), "a")
        if not lock_now(lock.fileno()):
            lock.close()
            return False
        keep_private(lock.fileno())
        self._lock = lock
        lasted = self._count_last_life(lock)
        made = sum(name.endswith(".json") for name in os.listdir(self._checkpoints))
        before, process = self.record, os.getpid()
        worked = lasted > 2.0 * before.started
        fruitless = max(0, before.fruitless - 1) if made > before.made else before.fruitless + worked
        before = replace(before, written="", inode=0, process=process, started=0.0)
        self._write(replace(before, lives=before.lives + 1, made=made, fruitless=fruitless))
        return True

    @property
    def expected(self) -> float:
        """The seconds that this process may last: the median of those before it. It halves with each life that added
        no output, whose tasks took longer than estimated, and doubles with each that did. It is at least a part of the
        shortest life. Infinite: not known."""
        lasted = self._losses.lives()
        if not lasted:
            return inf
        return max(min(lasted) / MOST_UNDERESTIMATED, median(lasted) * 0.5**self.record.fruitless)

    def is_shorter(self, life: float) -> bool:
        """True if the plan was made for much longer lives than this. From now on it is one for these."""
        shorter = life < SHORTER * self.record.planned
        if shorter:
            with contextlib.suppress(OSError):  # the next life makes a plan again
                self._write(replace(self.record, planned=life))
        return shorter

    def beat(self) -> None:
        """Record that this process still lives: a line whenever it has lived a tenth longer."""
        seconds = time.monotonic() - self._begun
        if self._lock is not None and seconds >= 1.1 * self._recorded:
            self._recorded = seconds
            with contextlib.suppress(OSError):  # the disk is full: its life counts as shorter
                write_all(self._lock, f"{seconds:.1f}\n".encode())

    def _count_last_life(self, lock: FileIO) -> float:
        """Add the life of the process before, if it was killed or stopped; its seconds, 0 if they are not known."""
        lasted = 0.0
        with contextlib.suppress(ValueError):
            *_, last, _ = self._path.with_suffix(".lock").read_text("ascii").split("\n")
            lasted = float(last)
            self._losses.add_life(lasted)
        os.ftruncate(lock.fileno(), 0)
        return lasted

    def plan(self, plan: Plan, say: Callable[[str], object]) -> None:
        """The query runs by this plan from now on. say: is called with a line if that cannot be recorded."""
        keys = checkpoint_keys(*plan.stages)
        started = self.record.started or time.monotonic() - self._begun
        try:
            self._write(replace(self.record, outputs=tuple(map(_names, keys)), started=started))
        except OSError as error:
            say(f"{self._path.parent} cannot be written ({error.strerror}): `qoop runs` may show an earlier plan")

    def writes(self, path: Path, draft: Path | None = None) -> None:
        """The answer is about to be moved to that path. draft: its file; None: it is a table. Without a record of it
        the next life makes it again."""
        with contextlib.suppress(OSError):
            inode = draft.stat().st_ino if draft is not None else 0
            self._write(replace(self.record, written=str(path.absolute()), inode=inode))

    def has_written(self, path: Path) -> bool:
        """True if an earlier process wrote the answer to that path, and was killed before it could say so."""
        with contextlib.suppress(OSError):
            written, inode = self._written
            same = path.stat().st_ino == inode if inode else written_at(path) >= self._since
            return written == str(path.absolute()) and same
        return False

    def end(self, answered: bool, stopped: bool = False) -> None:
        """Release the lock. answered: the record is not needed any more. stopped: the end of the process was announced,
        so the next one may not last longer."""
        if self._lock is None:
            return
        if not stopped:
            with contextlib.suppress(OSError):  # its life says nothing of the next one
                os.ftruncate(self._lock.fileno(), 0)
        if answered:
            with contextlib.suppress(OSError):  # the folder is gone, and the record with it
                self._path.unlink(missing_ok=True)
                self._path.with_suffix(".lock").unlink(missing_ok=True)
        forget_private(self._lock.fileno())
        self._lock.close()
        self._lock = None

    def _write(self, record: LifeRecord) -> None:
        self.record = record
        if self._lock is not None:
            write_whole(self._path, sealed({"format": _FORMAT, **asdict(record)}, self._key))


@value
class UnfinishedRun:
    """A run that has not ended. made, outputs: of its plan; None: not known, as of queries
    that no `run_until_done` runs. bytes: of those made. age: seconds since its last record. process: its last one; 0:
    not known.
    """

    text: str
    living: bool
    lives: int
    made: int | None
    outputs: int | None
    bytes: int
    age: float
    process: int = 0


def unfinished_runs(checkpoints: Path, key: bytes | None) -> list[UnfinishedRun]:
    """The runs of a folder that have not ended, the newest first."""
    sizes = {checkpoint_name(one.committed.key): one.end for one in manifests(checkpoints, key)}
    lives = {path.stem: (path, record) for path, record in _records(checkpoints, key)}
    found = [_listed(path, record, sizes) for path, record in lives.values()]
    for path, text, living in EarlierRuns(checkpoints, key).listed():
        if normal_text(text).digest not in lives:
            found.append(UnfinishedRun(text, living, 1, None, None, 0, _age(path)))
    return sorted(found, key=lambda run: run.age)


def forget_old(checkpoints: Path, key: bytes | None, seconds: float) -> int:
    """Remove the records of runs that no process runs, and whose last one is older; how many they were."""
    old = [path for path, record in _records(checkpoints, key) if not _is_living(path)]
    old += [path for path, _, living in EarlierRuns(checkpoints, key).listed() if not living]
    old = [path for path in old if _age(path) > seconds]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _listed(path: Path, record: LifeRecord, sizes: dict[str, int]) -> UnfinishedRun:
    made = [sizes[name] for names in record.outputs for name in names.split() if name in sizes]
    living = _is_living(path)
    return UnfinishedRun(
        record.text, living, record.lives, len(made), len(record.outputs), sum(made), _age(path), record.process
    )


def _names(key: CheckpointKey) -> str:
    """The names under which an output may exist: as one, or as the index of its slices."""
    return f"{checkpoint_name(key)} {checkpoint_name(joined_key(key))}"


def _is_living(path: Path) -> bool:
    with contextlib.suppress(OSError), path.with_suffix(".lock").open("rb") as lock:
        return is_locked(lock)
    return False


def _age(path: Path) -> float:
    return max(0.0, time.time() - _modified(path))


def _modified(path: Path) -> float:
    """Seconds since 1970 of the last change; the present if there is no file."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return time.time()


def _records(checkpoints: Path, key: bytes | None) -> Iterator[tuple[Path, LifeRecord]]:
    for path in sorted((checkpoints / UNTIL_DONE).glob("*.json")):
        record = _read(path, key)
        if record is not None:
            yield path, record


def _read(path: Path, key: bytes | None) -> LifeRecord | None:
    """None: there is no record, or not with this key."""
    try:
        return _record(opened(path.read_bytes(), key))
    except (OSError, ValueError, KeyError, TypeError, NotSealed):
        return None


def _record(body: dict[str, Any]) -> LifeRecord:
    if body["format"] != _FORMAT:
        raise ValueError("another format")
    outputs: Sequence[str] = body["outputs"]
    return LifeRecord(
        str(body["text"]), float(body["begun"]), int(body["lives"]), tuple(map(str, outputs)), str(body["written"]),
        int(body["inode"]), int(body["made"]), int(body["fruitless"]), int(body["process"]), float(body["planned"]),
        float(body.get("started", 0.0)),
    )  # fmt: skip
