"""Committed outputs of tasks, in tiers: memory first, then files.

Outputs are kept as Arrow tables and shared with their readers without a copy. Beyond a budget of bytes the
least recently used are spilled to files without names in a temporary directory, in the format of `segments`, and
mapped from there. An output counts from its first batch on; one that takes a quarter of the budget while it is
made goes to such a file as it comes (`growing`).

What no job needs any more may stay, in a quarter of the same budget, to serve another query; it is the first to go.
Where a checkpoint directory is given, durable outputs are also written there by a thread behind the running tasks
(`manifest`), or, to a store that several machines share, by some (`shared_store`). `put` waits where too much has not
been written yet (`write_behind`).

Outputs of one signature that meet are compared (`guard`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from qoop.catalog.errors import CheckpointError, DiskFull, GuardMismatch, QoopError
from qoop.catalog.forks import CreatorProcess
from qoop.engine.digest import Digest, Digester
from qoop.engine.events import CheckpointSaved, Committed
from qoop.engine.storage.entries import Entries, Entry, joined_in, side_of
from qoop.engine.storage.growing import Growing
from qoop.engine.storage.guard import Ledger, Origin, Side, is_guarded, mismatch, set_aside
from qoop.engine.storage.manifest import Saved, Unsaved
from qoop.engine.storage.retention import KEEP_NOTHING, LossWarnings, Retention, open_checkpoints
from qoop.engine.storage.segments import Damaged, copied, joined, read_segment, spilled
from qoop.engine.storage.write_behind import Outcome, WriteBehind
from qoop.engine.task import CheckpointKey, JobId
from qoop.planner.plan import Signature

_GROWING = 4  # of the budget, the part that an output may take while it is made
_RETAINED = 4  # of the budget, the part that outputs take at most which no job needs


class Store:
    """The outputs that a process holds. Thread-safe.

    budget: bytes that may be held in memory; if it is lowered, `trim` or the next `put` spills what is beyond it.
    spill: an existing directory for the rest.
    on_saved: hears of every durable output that was written, or found no space.
    """

    def __init__(
        self,
        budget: int,
        spill: Path,
        retention: Retention = KEEP_NOTHING,
        on_saved: Callable[[CheckpointSaved], object] = lambda _: None,
    ) -> None:
        self.budget = budget
        self._creator_process = CreatorProcess()
        self._spill = spill
        self._retention = retention
        self._directory = open_checkpoints(retention)
        self._on_saved = on_saved
        self._digester = Digester()
        self._ledger = Ledger()
        self._lock = threading.Condition()
        self._entries = Entries()
        self._distrusted: set[Signature] = set()
        threads = self._directory.writers if self._directory is not None else 0
        together = self._directory is not None and self._directory.far and retention.pack
        self._behind: WriteBehind[Entry] = WriteBehind(
            self._lock, threads, self._write, (lambda entry: entry.committed.key.content) if together else None
        )
        self._warnings = LossWarnings(retention.strict)

    @property
    def used(self) -> int:
        """Bytes held in memory."""
        return self._entries.used

    @property
    def spilled(self) -> int:
        """Bytes of outputs that lie on disk for want of memory."""
        with self._lock:
            return sum(entry.bytes for entry in self._entries.values() if entry.mapped is not None)

    @property
    def retained_most(self) -> int:
        """Bytes that outputs take at most which no job needs."""
        return self.budget // _RETAINED

    def begin(self, schema: pa.Schema, parts: int, between: Callable[[], None] = lambda: None) -> Growing:
        """An output that is about to be made, for `put` once it is finished.

        between: as for `put`. What it is given may be written, and others spilled for it, which raises DiskFull.
        """
        return Growing(schema, parts, self._spill, lambda came, total: self._admit(came, total, between), between)

    def put(
        self,
        committed: Committed,
        job: JobId,
        partitions: Sequence[pa.Table],
        durable: bool = False,
        between: Callable[[], None] = lambda: None,
        origin: Origin | None = None,
        mapped: bool = False,
        slices: Sequence[Committed] = (),
    ) -> Committed:
        """Commit an output on behalf of a job. If the key is already present, what is there stays.

        between: called while this waits or writes; may raise to give up, and nothing is committed then.
        origin: what made it, if it may serve others and must therefore hold what others of its signature do.
        mapped: the partitions lie in a file already, and take no memory. slices: durable outputs of the job that it
        consists of, in place of partitions.
        Raises DiskFull if neither memory nor disk has space for it, or if an earlier durable output of the job
        could not be written; GuardMismatch if it differs from what it must equal.
        """
        if slices and self._directory is not None and self._directory.far:  # to look for an index takes requests
            partitions = [joined([self.read(one.key, n) for one in slices]) for n, _ in enumerate(committed.rows)]
            slices, mapped = (), False
        durable = durable and self._directory is not None and not slices
        if self._retention.always and is_guarded(origin) and not slices:
            committed = replace(committed, digest=self._digester.of(partitions))
            self._note(committed, origin)
        entry = Entry(
            committed, None, tuple(partitions), durable=durable, busy=durable, origin=origin, jobs={job}, maker=job
        )
        if slices:
            entry.mapped, entry.slices = None, tuple(one.key for one in slices)
            index, tables = entry.index
            self.put(index, job, tables, True, between)
            self.release(job, [index.key])
        elif not mapped:
            entry.tables, entry.mapped = entry.mapped, None
        if durable:
            self._behind.reserve(entry, self.budget // 2, between)
        with self._lock:
            present = self._entries.get(committed.key)
            if present is None:
                self._entries.insert(entry)
            else:
                present.jobs.add(job)
                present.slices = entry.slices or present.slices
                self._behind.withdraw(entry)
        if present is not None:
            if is_guarded(origin) and is_guarded(present.origin) and not self._retention.always:
                self._compare([present], [entry])
            return present.committed
        try:
            self._compare_layouts(entry)
            self.trim(between)
        except BaseException:
            with self._lock:
                self._behind.withdraw(entry)
                entry.busy = False
                self._entries.drop(entry)
            raise
        if durable:
            self._behind.enqueue(entry)
        return committed

    def read(self, key: CheckpointKey, partition: int | None) -> pa.Table:
        """The rows of one partition, or of all. Raises CheckpointError if they cannot be read; the output is
        then forgotten."""
        self._creator_process.check()
        self._find([key])
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                raise CheckpointError(f"checkpoint {key} is not present")
            self._entries.touch(key)
        return self._rows(entry, partition)

    def has(self, key: CheckpointKey) -> bool:
        """True if the output is at hand: in memory, or in a file that is known. Looks nowhere else."""
        return key in self._entries

    def fetch(self, requested: Sequence[tuple[CheckpointKey, int | None]]) -> None:
        """These partitions (None: all of an output) will be read now: have them here, if they lie in a store."""
        directory = self._directory
        if directory is None or not directory.far:
            return
        self._find([key for key, _ in requested])
        with self._lock:
            found = [(self._entries.get(key), partition) for key, partition in requested]
        directory.fetch([(entry.saved, number) for entry, number in found if entry and entry.saved and entry.is_far])

    def present(self, keys: Sequence[CheckpointKey], job: JobId | None = None) -> list[Committed]:
        """The facts of those of the keys that are present; they are kept for the job, if one is named."""
        self._find(keys)
        if job is not None:
            self._take_up(keys)
        requested = set(keys)
        with self._lock:
            found = [one for one in self._entries.known(keys) if one.committed.key.signature not in self._distrusted]
            if job is not None:
                for entry in found:
                    entry.jobs.add(job)
            return [entry.committed for entry in found if entry.committed.key in requested]

    def hold(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """Keep these outputs until the job releases them; keys that are not present, or not known yet, are ignored."""
        with self._lock:
            for entry in self._entries.known(keys):
                entry.jobs.add(job)

    def adopt(self, found: Iterable[Saved], job: JobId) -> list[CheckpointKey]:
        """Hold checkpoints that lie in files of another process, until the job releases them."""
        found = list(found)
        self._find([saved.committed.key for saved in found])
        with self._lock:
            keys = []
            for saved in found:
                entry = self._entries.get(saved.committed.key)
                if entry is None:
                    entry = Entry(saved.committed, None, saved=saved)
                    self._entries.insert(entry)
                entry.jobs.add(job)
                keys.append(saved.committed.key)
            return keys

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """The job needs these no more. What no job needs leaves memory, unless it is retained, and the disk unless
        it is durable."""
        idle: list[CheckpointKey] = []
        with self._lock:
            for entry in self._entries.known(keys):
                if entry.jobs and job not in entry.jobs:
                    continue
                entry.jobs.discard(job)  # none has it if it was read without being held
                is_unwritten = entry.durable and entry.saved is None
                if not entry.jobs and not is_unwritten:
                    idle += [entry.committed.key] if entry.durable else []
                    self._idle(entry)
            self._trim_idle()
        if self._directory is not None:
            self._directory.unpin(idle)

    def flush(self) -> None:
        """Wait until all durable outputs are written. Raises DiskFull if one could not be."""
        self._behind.flush()
        self._behind.raise_failure()

    def close(self) -> None:
        """Write what waits, end the writer, forget everything; durable files stay. Raises DiskFull if an
        output could not be written and this was not yet reported."""
        self._behind.close()
        with self._lock:
            for entry in self._entries.values():
                self._entries.drop(entry)
        self._digester.close()
        if self._directory is not None:
            self._directory.close()
            self._directory = None
        self._behind.raise_failure()

    # Present outputs

    def _find(self, keys: Sequence[CheckpointKey]) -> None:
        """Know of those of the keys that lie where durable outputs go."""
        directory = self._directory
        if directory is None:
            return
        with self._lock:
            missing = [key for key in keys if key not in self._entries]
        try:
            found = list(map(Entry.found, directory.find_all(missing))) if missing else []
            known = {one.committed.key for one in found}
            if len(found) < len(missing) and not directory.far:
                found += joined_in(directory, [key for key in missing if key not in known])
        except CheckpointError as error:
            if directory.far:  # it may be there again when a job tries once more
                raise
            if (fatal := self._warnings.not_durable(error)) is not None:
                raise fatal from None
            return
        with self._lock:
            for entry in found:
                if entry.committed.key not in self._entries:
                    self._entries.insert(entry)

    def _take_up(self, keys: Sequence[CheckpointKey]) -> None:
        """A job wants these again, which were only kept in memory until now: their files stay, if they still exist."""
        with self._lock:
            unpinned = [key for key in keys if (entry := self._entries.get(key)) is not None and entry.unpinned]
        if not unpinned or self._directory is None:
            return
        try:
            found = self._directory.find_all(unpinned)
        except CheckpointError:
            return  # the rows are in memory; what a job rests on is only not sure to outlive the process
        useless = []
        with self._lock:
            for saved in found:
                entry = self._entries.get(saved.committed.key)
                if entry is not None and entry.unpinned and entry.saved is None and not entry.busy:
                    entry.saved, entry.durable, entry.unpinned = saved, True, False
                else:
                    useless.append(saved.committed.key)
        self._directory.unpin(useless)

    def _rows(self, entry: Entry, partition: int | None) -> pa.Table:
        tables, saved = entry.tables or entry.mapped, entry.saved
        numbers = range(len(entry.committed.rows)) if partition is None else (partition,)
        if tables is not None:
            found = [tables[number] for number in numbers]
        elif saved is not None:
            found = [self._load(entry, saved, number) for number in numbers]
        elif entry.slices:
            found = [self.read(key, number) for number in numbers for key in entry.slices]
        else:
            raise CheckpointError(f"checkpoint {entry.committed.key} is not present any more")
        return joined(found)

    def _load(self, entry: Entry, saved: Saved, number: int) -> pa.Table:
        try:
            if entry.durable and self._directory is not None:
                return self._directory.read(saved, number, self._spill)
            return read_segment(saved.path, saved.segments[number], self._spill)
        except CheckpointError as error:
            with self._lock:
                if not isinstance(error, Damaged):
                    self._entries.drop(entry)  # others, or a later try, may well read it
                else:
                    self._forget(entry)
            raise

    def _forget(self, entry: Entry) -> None:
        """It cannot be used: it goes, and its file with it."""
        if self._entries.drop(entry) and entry.saved is not None and entry.durable and self._directory is not None:
            self._directory.remove(entry.saved)

    def _idle(self, entry: Entry) -> None:
        """No job needs it. It stays if it may serve another, and is in memory: a durable one is found again."""
        shared = entry.origin is not None and entry.committed.key.signature not in self._distrusted
        if not (self._retention.retain and shared) or entry.tables is None or entry.bytes > self.retained_most:
            self._entries.drop(entry)
            return
        if entry.durable:
            entry.durable, entry.saved, entry.unpinned = False, None, True  # the file may be removed from now on
        self._entries.retire(entry)

    # The guard

    def _note(self, committed: Committed, origin: Origin) -> None:
        with self._lock:
            sides = self._ledger.add(committed, origin)
            keys = [output.key for side in sides or () for output in side.outputs]
            entries = [entry for key in keys if (entry := self._entries.get(key)) is not None]
        if sides is not None:
            raise self._distrust(sides[0], sides[1], entries)

    def _compare_layouts(self, entry: Entry) -> None:
        """Compare with another layout of the same stage, if this output made its own complete and that one is."""
        if entry.origin is None or not entry.committed.finished or self._retention.always:
            return
        with self._lock:
            found = self._entries.other_layout(entry)
        if found is not None:
            mine, others = found
            self._compare(others, mine)

    def _compare(self, one: Sequence[Entry], other: Sequence[Entry]) -> None:
        try:
            sides = [side_of(entries, self._digested) for entries in (one, other)]
        except CheckpointError:
            return  # one of them is gone, or unreadable; the job that needs it will find out
        if not sides[0].digest.agrees(sides[1].digest):
            raise self._distrust(sides[0], sides[1], [*one, *other])

    def _digested(self, entry: Entry) -> Digest:
        return entry.digested(lambda: self._digester.of([self._rows(entry, None)]))

    def _distrust(self, one: Side, other: Side, entries: Iterable[Entry]) -> GuardMismatch:
        folder = self._retention.quarantine or self._spill / "quarantine"
        error, directory = mismatch(one, other, folder), self._directory
        with self._lock:
            self._distrusted.add(one.outputs[0].key.signature)
            for entry in entries:
                if directory is not None:
                    set_aside(error, directory, entry.committed.key, folder)
                self._forget(entry)
        return error

    # Write-behind

    def _write(self, waited: Sequence[tuple[Entry, float]]) -> None:
        """Write outputs of one stage, each of which was queued some time ago; in a thread of `WriteBehind`."""
        began = time.monotonic()
        outcomes = self._save([one for one, _ in waited])
        each = (time.monotonic() - began) / len(waited)
        for (entry, since), outcome in zip(waited, outcomes, strict=True):
            self._written(entry, outcome, since, each)

    def _written(self, entry: Entry, outcome: Outcome, since: float, seconds: float) -> None:
        """One of them was written, or not. seconds: its part of the time that took."""
        saved, failure = outcome.saved, outcome.failure or self._loss(entry, outcome.why)
        with self._lock:
            self._behind.done(entry, failure)
            entry.busy, entry.durable, entry.saved = False, saved is not None, saved
            key, jobs = entry.committed.key, tuple(sorted(entry.jobs))
            trusted = self._entries.get(key) is entry
            if trusted and not jobs:
                self._idle(entry)
        if self._directory is not None:
            if saved is not None and not trusted:
                self._directory.remove(saved)  # while it was written it turned out that it must not be used
            elif not jobs:
                self._directory.unpin([key])
        behind, kept = time.monotonic() - since, saved is not None and trusted
        self._on_saved(CheckpointSaved(jobs, key, entry.bytes, behind, kept, seconds, outcome.why))

    def _loss(self, entry: Entry, why: str) -> QoopError | None:
        """Warn of an output that is not written; its job may have ended, and have released it, before. Returns an
        error where warnings are errors."""
        with self._lock:
            jobs = frozenset(entry.jobs or {entry.maker})
        return self._warnings.not_saved(jobs, entry.bytes, why)

    def _save(self, entries: Sequence[Entry]) -> list[Outcome]:
        """Write outputs; the fate of each."""
        assert self._directory is not None
        try:
            saved = self._directory.save_all([self._unsaved(entry) for entry in entries])
        except DiskFull as error:  # they are in memory, or will be spilled
            return [Outcome(why=f"{error}: free space there, or name another folder")] * len(entries)
        except Exception as error:  # whatever it is, the writer must live on and report it
            names = ", ".join(str(entry.committed.key) for entry in entries)
            failure = CheckpointError(f"checkpoint {names} cannot be written: {error!r}")
            return [Outcome(failure=failure)] * len(entries)
        return [self._outcome(entry, one) for entry, one in zip(entries, saved, strict=True)]

    def _outcome(self, entry: Entry, saved: Saved | None) -> Outcome:
        if saved is None:
            return Outcome(why=self._retention.no_space)
        different = self._differs(entry, saved)
        return Outcome(saved) if different is None else Outcome(failure=different)

    def _unsaved(self, entry: Entry) -> Unsaved:
        return Unsaved(entry.committed, entry.tables or entry.mapped or (), needed=bool(entry.jobs))

    def _differs(self, entry: Entry, saved: Saved) -> GuardMismatch | None:
        """The mismatch, if the output of another process, which is present in place of this one, is not the same."""
        if saved.committed is entry.committed or not is_guarded(entry.origin):
            return None
        try:
            self._compare([Entry(saved.committed, None, saved=saved, durable=True)], [entry])
        except GuardMismatch as error:
            return error
        return None

    # Spilling

    def _trim_idle(self) -> None:
        """Forget what no job needs beyond its part, and more until the budget is kept."""
        self._entries.drop_retired(self.retained_most)
        if self._entries.used > self.budget:
            for entry in self._entries.values():
                if self._entries.used > self.budget and not entry.jobs and not entry.busy:
                    self._entries.drop(entry)

    def trim(self, between: Callable[[], None] = lambda: None) -> None:
        """Spill until the budget is kept, or all that is left is being written already.

        between: as for `put`. Raises DiskFull.
        """
        while True:
            with self._lock:
                self._trim_idle()
                if self._entries.used <= self.budget:
                    return
                entry = self._entries.first_to_spill()
                if entry is None:
                    return
                saved, tables = entry.saved, entry.tables or ()
                if saved is not None and self._directory is not None and self._directory.far:
                    self._entries.leave_memory(entry)
                    continue
                entry.busy = True
            self._spill_entry(entry, saved, tables, between)

    def _spill_entry(
        self, entry: Entry, saved: Saved | None, tables: tuple[pa.Table, ...], between: Callable[[], None]
    ) -> None:
        mapped: tuple[pa.Table, ...] | None = None
        try:
            mapped = self._moved(saved, tables, between)
        finally:
            with self._lock:
                entry.busy = False
                is_in_file = mapped is not None or saved is not None
                if is_in_file and self._entries.get(entry.committed.key) is entry:
                    entry.mapped = mapped
                    self._entries.leave_memory(entry)

    def _moved(
        self, saved: Saved | None, tables: tuple[pa.Table, ...], between: Callable[[], None]
    ) -> tuple[pa.Table, ...] | None:
        """The rows of an output in a file of this process. None: there is no space, and its durable file has them.

        A copy of that file takes less than to write the rows again, or to read each partition from there.
        """
        if saved is not None:
            try:
                return copied(saved.path, saved.segments, self._spill)
            except DiskFull:
                return None
            except CheckpointError:
                pass  # the file was changed; the rows are still in memory
        try:
            return spilled(self._spill, tables, between)
        except OSError as error:
            raise DiskFull(f"cannot spill to {self._spill}: {error.strerror or error}") from error

    def _admit(self, came: int, total: int, between: Callable[[], None]) -> bool:
        """True if bytes that just came may stay in memory. total: all bytes of their output, which is being made."""
        with self._lock:
            self._entries.used += came
            if total > self.budget // _GROWING:
                return False
        if came > 0:
            self.trim(between)
        return self._entries.used <= self.budget


def verify(store: Store, keys: Sequence[CheckpointKey]) -> None:
    """Read outputs that are held in files, so that those that cannot be read are forgotten now."""
    reader = "verify"
    for fact in store.present(keys, reader):
        with contextlib.suppress(CheckpointError):
            store.read(fact.key, None)
    store.release(reader, keys)
