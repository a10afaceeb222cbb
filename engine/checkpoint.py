"""Committed outputs of tasks, in tiers: memory first, then files.

Outputs are kept as Arrow tables and shared with their readers without a copy. Beyond a budget of bytes the
least recently used are spilled to a temporary directory, in the file format of `segments`, and read back
through a memory map. Where a checkpoint directory is given, durable outputs are also written there by one
thread behind the running tasks (`manifest`); at most 256 MB wait for it, then `put` waits.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from qoop.catalog.errors import CheckpointError, DiskFull, QoopError
from qoop.engine.events import Committed
from qoop.engine.manifest import CheckpointDirectory, Saved
from qoop.engine.segments import read_segment, write_segments
from qoop.engine.task import CheckpointKey, JobId

_WAITING_BYTES = 256 << 20
_PAUSE = 0.05  # seconds between looks at whether a waiting `put` was stopped


@dataclass(eq=False)
class _Entry:
    """One output. In memory (`tables`), in a file (`saved`), or both. `busy`: it is being written."""

    committed: Committed
    tables: tuple[pa.Table, ...] | None
    saved: Saved | None = None
    durable: bool = False
    busy: bool = False
    jobs: set[JobId] = field(default_factory=set)
    verified: set[int] = field(default_factory=set)

    @property
    def bytes(self) -> int:
        return sum(self.committed.bytes)


class Store:
    """The outputs that a process holds. Thread-safe.

    budget: bytes that may be held in memory; if it is lowered, `trim` or the next `put` spills what is beyond it.
    spill: an existing directory for the rest.
    directory: where durable outputs go; None: nothing outlives the process.
    """

    def __init__(self, budget: int, spill: Path, directory: Path | None = None) -> None:
        self.budget = budget
        self._spill = spill
        self._directory = CheckpointDirectory(directory) if directory is not None else None
        self._lock = threading.Condition()
        self._entries: OrderedDict[CheckpointKey, _Entry] = OrderedDict()  # least recently used first
        self._used = 0
        self._queue: deque[_Entry] = deque()
        self._waiting = 0
        self._writer: threading.Thread | None = None
        self._closing = False
        self._failure: QoopError | None = None

    @property
    def used(self) -> int:
        """Bytes held in memory."""
        return self._used

    def put(
        self,
        committed: Committed,
        job: JobId,
        partitions: Sequence[pa.Table],
        durable: bool = False,
        between: Callable[[], None] = lambda: None,
    ) -> Committed:
        """Commit an output on behalf of a job. If the key is already held, what is there stays.

        between: called while this waits or writes; may raise to give up, and nothing is committed then.
        Raises DiskFull if there is no room in memory and none on disk, or if an earlier durable output could
        not be written.
        """
        durable = durable and self._directory is not None
        if durable:
            self._wait_for_writer(sum(committed.bytes), between)
        with self._lock:
            present = self._entries.get(committed.key)
            if present is not None:
                present.jobs.add(job)
                return present.committed
            entry = _Entry(committed, tuple(partitions), durable=durable, busy=durable, jobs={job})
            self._entries[committed.key] = entry
            self._used += entry.bytes
        try:
            self.trim(between)
        except BaseException:
            with self._lock:
                self._drop(committed.key, entry)
            raise
        if durable:
            self._enqueue(entry)
        return committed

    def read(self, key: CheckpointKey, partition: int | None) -> pa.Table:
        """The rows of one partition, or of all. Raises CheckpointError if they cannot be read; the output is
        then forgotten."""
        with self._lock:
            entry = self._find(key)
            if entry is None:
                raise CheckpointError(f"checkpoint {key} is not held")
            self._entries.move_to_end(key)
            tables, saved = entry.tables, entry.saved
        numbers = range(len(entry.committed.rows)) if partition is None else (partition,)
        if tables is not None:
            found = [tables[number] for number in numbers]
        elif saved is not None:
            found = [self._load(entry, saved, number) for number in numbers]
        return found[0] if len(found) == 1 else pa.concat_tables(found)

    def held(self, keys: Sequence[CheckpointKey]) -> list[Committed]:
        """The facts of those of the keys that are held."""
        with self._lock:
            return [entry.committed for key in keys if (entry := self._find(key)) is not None]

    def hold(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """Keep these outputs until the job releases them; keys that are not held are ignored."""
        with self._lock:
            for key in keys:
                entry = self._find(key)
                if entry is not None:
                    entry.jobs.add(job)

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """The job needs these no more. What no job needs leaves memory, and the disk unless it is durable."""
        with self._lock:
            for key in keys:
                entry = self._entries.get(key)
                if entry is not None and job in entry.jobs:
                    entry.jobs.discard(job)
                    if not entry.jobs and not (entry.durable and entry.busy):
                        self._drop(key, entry)

    def flush(self) -> None:
        """Wait until all durable outputs are written. Raises DiskFull if one could not be."""
        with self._lock:
            while self._waiting:
                self._lock.wait()
        self._raise_failure()

    def close(self) -> None:
        """Write what waits, end the writer, forget everything; durable files stay. Raises DiskFull if an
        output could not be written and nobody was told yet."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        if self._writer is not None:
            self._writer.join()
        with self._lock:
            for key, entry in list(self._entries.items()):
                self._drop(key, entry)
            self._entries.clear()
        if self._directory is not None:
            self._directory.close()
            self._directory = None
        self._raise_failure()

    def _find(self, key: CheckpointKey) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is None and self._directory is not None:
            saved = self._directory.find(key)
            if saved is not None:
                entry = self._entries[key] = _Entry(saved.committed, None, saved, durable=True)
        return entry

    def _load(self, entry: _Entry, saved: Saved, number: int) -> pa.Table:
        try:
            table = read_segment(saved.path, saved.segments[number], verify=number not in entry.verified)
        except CheckpointError:
            with self._lock:
                if self._entries.get(saved.committed.key) is entry:
                    self._forget(saved.committed.key, entry)
            raise
        entry.verified.add(number)
        return table

    def _forget(self, key: CheckpointKey, entry: _Entry) -> None:
        del self._entries[key]
        if entry.durable and self._directory is not None and entry.saved is not None:
            self._directory.remove(entry.saved)
        elif entry.saved is not None:
            entry.saved.path.unlink(missing_ok=True)

    def _drop(self, key: CheckpointKey, entry: _Entry) -> None:
        if self._entries.get(key) is not entry:
            return
        if entry.tables is not None:
            self._leave_memory(entry)
        if entry.saved is not None and not entry.durable:
            entry.saved.path.unlink(missing_ok=True)
        del self._entries[key]

    def _leave_memory(self, entry: _Entry) -> None:
        entry.tables = None
        self._used -= entry.bytes

    # Write-behind

    def _wait_for_writer(self, bytes_: int, between: Callable[[], None]) -> None:
        """Wait until that much may be queued; one output of any size may, if it is alone."""
        self._raise_failure()
        limit = min(_WAITING_BYTES, self.budget // 2)
        with self._lock:
            while self._waiting and self._waiting + bytes_ > limit:
                self._lock.wait(_PAUSE)
                between()

    def _enqueue(self, entry: _Entry) -> None:
        with self._lock:
            self._queue.append(entry)
            self._waiting += entry.bytes or 1
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_behind, name="qoop-writer", daemon=True)
                self._writer.start()
            self._lock.notify_all()

    def _write_behind(self) -> None:
        while (entry := self._next_to_write()) is not None:
            saved, failure = self._save(entry)
            with self._lock:
                self._failure = failure or self._failure
                entry.busy, entry.durable, entry.saved = False, saved is not None, saved
                entry.verified.update(range(len(entry.committed.rows)))
                self._waiting -= entry.bytes or 1
                if not entry.jobs:
                    self._drop(entry.committed.key, entry)
                self._lock.notify_all()

    def _next_to_write(self) -> _Entry | None:
        with self._lock:
            while not self._queue and not self._closing:
                self._lock.wait()
            return self._queue.popleft() if self._queue else None

    def _save(self, entry: _Entry) -> tuple[Saved | None, QoopError | None]:
        assert self._directory is not None and entry.tables is not None
        try:
            return self._directory.save(entry.committed, entry.tables), None
        except DiskFull as error:
            return None, error
        except Exception as error:  # whatever it is, the writer must live on and somebody must be told
            return None, CheckpointError(f"checkpoint {entry.committed.key} cannot be written: {error!r}")

    def _raise_failure(self) -> None:
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # Spilling

    def trim(self, between: Callable[[], None] = lambda: None) -> None:
        """Spill until the budget is kept, or all that is left is being written already.

        between: as for `put`. Raises DiskFull.
        """
        while True:
            with self._lock:
                if self._used <= self.budget:
                    return
                found = next(((k, e) for k, e in self._entries.items() if e.tables is not None and not e.busy), None)
                if found is None:
                    return
                key, entry = found
                if entry.saved is not None:
                    self._leave_memory(entry)
                    continue
                entry.busy = True
                tables = entry.tables
            self._spill_entry(key, entry, tables or (), between)

    def _spill_entry(
        self, key: CheckpointKey, entry: _Entry, tables: tuple[pa.Table, ...], between: Callable[[], None]
    ) -> None:
        path = self._spill / f"{secrets.token_hex(8)}.arrow"
        saved: Saved | None = None
        try:
            with path.open("xb", buffering=0) as stream:
                saved = Saved(entry.committed, path, write_segments(stream, tables, between))
        except OSError as error:
            raise DiskFull(f"cannot spill to {self._spill}: {error.strerror or error}") from error
        finally:
            with self._lock:
                entry.busy = False
                wanted = self._entries.get(key) is entry
                if saved is not None and wanted:
                    entry.saved = saved
                    entry.verified.update(range(len(tables)))  # written and summed by this process
                    self._leave_memory(entry)
                else:
                    with contextlib.suppress(OSError):
                        path.unlink(missing_ok=True)
