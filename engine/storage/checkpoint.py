"""Committed outputs of tasks, in tiers: memory first, then files.

Outputs are kept as Arrow tables and shared with their readers without a copy. Beyond a budget of bytes the
least recently used are spilled to files without names in a temporary directory, in the format of `segments`, and
mapped from there. An output counts from its first batch on; one that takes a quarter of the budget while it is
made goes to such a file as it comes (`growing`).

What no job needs any more may stay, within the same budget, to serve another query; it is the first to go. Where a
checkpoint directory is given, durable outputs are also written there by a thread behind the running tasks
(`manifest`), or, to a store that several machines share, by some (`shared_store`). `put` waits where too much has not
been written yet (`write_behind`).

Outputs of one signature that meet are compared (`guard`).
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from qoop.catalog.errors import CheckpointError, DiskFull, GuardMismatch, QoopError
from qoop.catalog.forks import CreatorProcess
from qoop.catalog.stores.objects import is_remote, open_objects
from qoop.catalog.value import value
from qoop.engine.digest import Digest, Digester
from qoop.engine.events import CheckpointSaved, Committed
from qoop.engine.history import not_saved, size
from qoop.engine.storage.growing import Growing
from qoop.engine.storage.guard import Ledger, Origin, Side, mismatch
from qoop.engine.storage.manifest import CheckpointDirectory, Checkpoints, Saved, Unsaved, refuse_if_open
from qoop.engine.storage.segments import Damaged, read_segment, spilled
from qoop.engine.storage.write_behind import WriteBehind
from qoop.engine.task import CheckpointKey, JobId
from qoop.planner.plan import Signature

_GROWING = 4  # of the budget, the part that an output may take while it is made
_WARNED = 1000  # jobs that are remembered, so that each gets one warning


@dataclass(eq=False)
class _Entry:
    """One output. In memory (`tables`), spilled (`mapped`), in a file (`saved`), or both. `busy`: it is being written.

    origin: what made it; None if it must not be shared, or if it was found.
    unpinned: its file may be removed, for no job needed it. maker: the job whose task made it; empty if it was found.
    """

    committed: Committed
    tables: tuple[pa.Table, ...] | None
    mapped: tuple[pa.Table, ...] | None = None
    saved: Saved | None = None
    durable: bool = False
    busy: bool = False
    origin: Origin | None = None
    unpinned: bool = False
    jobs: set[JobId] = field(default_factory=set)
    maker: JobId = ""

    @property
    def bytes(self) -> int:
        return sum(self.committed.bytes)

    @property
    def is_far(self) -> bool:
        """It is nowhere but where durable outputs go, which may be another machine."""
        return self.tables is None and self.mapped is None and self.durable


@value
class Retention:
    """The rules for what a store keeps beyond need.

    directory: where durable outputs go, a folder of this machine or the URL of a store that machines share; None:
        nothing outlives the process. budget: bytes that it may take.
    retain: keep shared outputs that no job needs while there is space, for other queries.
    quarantine: where mismatches are written; None: in the temporary directory.
    always: make the digest of every shared output at once, not just where two meet.
    key: what lies in the directory must bear its seal; None: a checksum.
    pack: in a store that machines share, keep many outputs in one file where that saves requests.
    usual_budget: the budget is the usual one. strict: outputs that cannot be written are an error, not a warning.
    """

    directory: Path | str | None = None
    budget: int | None = None
    retain: bool = False
    quarantine: Path | None = None
    always: bool = False
    key: bytes | None = field(default=None, repr=False)
    pack: bool = True
    usual_budget: bool = False
    strict: bool = False

    @property
    def no_space(self) -> str:
        """The reason that an output found no space, as a clause with advice; empty where there is no budget."""
        if self.budget is None:
            return ""
        usual = " by default" if self.usual_budget else ""
        return (
            f"checkpoint_budget is {size(self.budget)}{usual}, and running queries need what is there: "
            "set it, or QOOP_CHECKPOINT_BUDGET, to more"
        )


@value
class _Outcome:
    """The fate of an output that was to be written. saved: where it is. why: it is not, as a clause with advice.
    failure: the error that ends the jobs that made it."""

    saved: Saved | None = None
    why: str = ""
    failure: QoopError | None = None


KEEP_NOTHING = Retention()


def open_checkpoints(retention: Retention) -> Checkpoints | None:
    """The place that durable outputs go to; None, with a warning, if it is a folder that cannot be written. Raises
    ConfigError if it is no place, or one whose content cannot be believed; DiskFull in place of the warning where
    outputs must be written."""
    if retention.directory is None:
        return None
    place, key = str(retention.directory), retention.key
    if not is_remote(place):
        if key is None:
            refuse_if_open(Path(place))
        try:
            return CheckpointDirectory(Path(place), retention.budget, key)
        except DiskFull as error:
            if retention.strict:
                raise
            _warn(error)
            return None
    from qoop.catalog.stores.node_cache import node_cache
    from qoop.engine.storage.shared_store import SharedCheckpoints  # few need it

    return SharedCheckpoints(open_objects(place), node_cache(), retention.budget, key=key, pack=retention.pack)


def _warn(error: QoopError) -> None:
    warnings.warn(f"outputs do not outlive this process: {error}", RuntimeWarning, stacklevel=3)


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
        self._entries: OrderedDict[CheckpointKey, _Entry] = OrderedDict()  # least recently used first
        self._by_signature: dict[Signature, dict[str, set[CheckpointKey]]] = {}
        self._distrusted: set[Signature] = set()
        self._used = 0
        threads = self._directory.writers if self._directory is not None else 0
        together = self._directory is not None and self._directory.far and retention.pack
        self._behind: WriteBehind[_Entry] = WriteBehind(
            self._lock, threads, self._write, (lambda entry: entry.committed.key.content) if together else None
        )
        self._degraded = False
        self._warned: deque[JobId] = deque(maxlen=_WARNED)

    @property
    def used(self) -> int:
        """Bytes held in memory."""
        return self._used

    @property
    def spilled(self) -> int:
        """Bytes of outputs that lie on disk for want of memory."""
        with self._lock:
            return sum(entry.bytes for entry in self._entries.values() if entry.mapped is not None)

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
    ) -> Committed:
        """Commit an output on behalf of a job. If the key is already present, what is there stays.

        between: called while this waits or writes; may raise to give up, and nothing is committed then.
        origin: what made it, if it may serve others and must therefore hold what others of its signature do.
        mapped: the partitions lie in a file already, and take no memory.
        Raises DiskFull if neither memory nor disk has space for it, or if an earlier durable output of the job
        could not be written; GuardMismatch if it differs from what it must equal.
        """
        durable = durable and self._directory is not None
        if self._retention.always and origin is not None:
            committed = replace(committed, digest=self._digester.of(partitions))
            self._note(committed, origin)
        entry = _Entry(
            committed, None, tuple(partitions), durable=durable, busy=durable, origin=origin, jobs={job}, maker=job
        )
        if not mapped:
            entry.tables, entry.mapped = entry.mapped, None
        if durable:
            self._behind.reserve(entry, self.budget // 2, between)
        with self._lock:
            present = self._entries.get(committed.key)
            if present is None:
                self._insert(entry)
                self._used += entry.bytes if entry.tables is not None else 0
            else:
                present.jobs.add(job)
                self._behind.withdraw(entry)
        if present is not None:
            if origin is not None and present.origin is not None and not self._retention.always:
                self._compare([present], [entry])
            return present.committed
        try:
            self._compare_layouts(entry)
            self.trim(between)
        except BaseException:
            with self._lock:
                self._behind.withdraw(entry)
                entry.busy = False
                self._drop(committed.key, entry)
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
            self._entries.move_to_end(key)
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
        with self._lock:
            found = [entry for key in keys if (entry := self._entries.get(key)) is not None]
            found = [entry for entry in found if entry.committed.key.signature not in self._distrusted]
            if job is not None:
                for entry in found:
                    entry.jobs.add(job)
            return [entry.committed for entry in found]

    def verify(self, keys: Sequence[CheckpointKey]) -> None:
        """Read outputs that are held in files, so that those that cannot be read are forgotten now."""
        reader = "verify"
        for fact in self.present(keys, reader):
            with contextlib.suppress(CheckpointError):
                self.read(fact.key, None)
        self.release(reader, keys)

    def hold(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """Keep these outputs until the job releases them; keys that are not present, or not known yet, are ignored."""
        with self._lock:
            for key in keys:
                if key in self._entries:
                    self._entries[key].jobs.add(job)

    def adopt(self, found: Iterable[Saved], job: JobId) -> list[CheckpointKey]:
        """Hold checkpoints that lie in files of another process, until the job releases them."""
        found = list(found)
        self._find([saved.committed.key for saved in found])
        with self._lock:
            keys = []
            for saved in found:
                entry = self._entries.get(saved.committed.key)
                if entry is None:
                    entry = _Entry(saved.committed, None, saved=saved)
                    self._insert(entry)
                entry.jobs.add(job)
                keys.append(saved.committed.key)
            return keys

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """The job needs these no more. What no job needs leaves memory, unless it is retained, and the disk unless
        it is durable."""
        idle: list[CheckpointKey] = []
        with self._lock:
            for key in keys:
                entry = self._entries.get(key)
                if entry is None or (entry.jobs and job not in entry.jobs):
                    continue
                entry.jobs.discard(job)  # none has it if it was read without being held
                if not entry.jobs and not (entry.durable and entry.busy):
                    idle += [key] if entry.durable else []
                    self._idle(key, entry)
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
            for key, entry in list(self._entries.items()):
                self._drop(key, entry)
            self._entries.clear()
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
            found = directory.find_all(missing) if missing else []
        except CheckpointError as error:
            if directory.far:  # it may be there again when a job tries once more
                raise
            if (fatal := self._degrade(error)) is not None:
                raise fatal from None
            return
        with self._lock:
            for saved in found:
                if saved.committed.key not in self._entries:
                    self._insert(_Entry(saved.committed, None, saved=saved, durable=True))

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

    def _rows(self, entry: _Entry, partition: int | None) -> pa.Table:
        tables, saved = entry.tables or entry.mapped, entry.saved
        numbers = range(len(entry.committed.rows)) if partition is None else (partition,)
        if tables is not None:
            found = [tables[number] for number in numbers]
        elif saved is not None:
            found = [self._load(entry, saved, number) for number in numbers]
        else:
            raise CheckpointError(f"checkpoint {entry.committed.key} is not present any more")
        return found[0] if len(found) == 1 else pa.concat_tables(found)

    def _load(self, entry: _Entry, saved: Saved, number: int) -> pa.Table:
        try:
            if entry.durable and self._directory is not None:
                return self._directory.read(saved, number, self._spill)
            return read_segment(saved.path, saved.segments[number], self._spill)
        except CheckpointError as error:
            with self._lock:
                if not isinstance(error, Damaged):
                    self._drop(saved.committed.key, entry)  # others, or a later try, may well read it
                elif self._entries.get(saved.committed.key) is entry:
                    self._forget(saved.committed.key, entry)
            raise

    def _insert(self, entry: _Entry) -> None:
        key = entry.committed.key
        self._entries[key] = entry
        self._by_signature.setdefault(key.signature, {}).setdefault(key.layout, set()).add(key)

    def _delete(self, key: CheckpointKey) -> None:
        del self._entries[key]
        layouts = self._by_signature[key.signature]
        layouts[key.layout].discard(key)
        if not layouts[key.layout]:
            del layouts[key.layout]
        if not layouts:
            del self._by_signature[key.signature]

    def _forget(self, key: CheckpointKey, entry: _Entry) -> None:
        """It cannot be used: it goes, and its file with it."""
        if entry.tables is not None:
            self._leave_memory(entry)
        self._delete(key)
        if entry.saved is not None and entry.durable and self._directory is not None:
            self._directory.remove(entry.saved)

    def _drop(self, key: CheckpointKey, entry: _Entry) -> None:
        if self._entries.get(key) is not entry:
            return
        if entry.tables is not None:
            self._leave_memory(entry)
        self._delete(key)

    def _idle(self, key: CheckpointKey, entry: _Entry) -> None:
        """No job needs it. It stays if it may serve another, and is in memory: a durable one is found again."""
        keep = self._retention.retain and entry.origin is not None and key.signature not in self._distrusted
        if not keep or entry.tables is None:
            self._drop(key, entry)
        elif entry.durable:
            entry.durable, entry.saved, entry.unpinned = False, None, True  # the file may be removed from now on

    def _leave_memory(self, entry: _Entry) -> None:
        entry.tables = None
        self._used -= entry.bytes

    # The guard

    def _note(self, committed: Committed, origin: Origin) -> None:
        with self._lock:
            sides = self._ledger.add(committed, origin)
            keys = [output.key for side in sides or () for output in side.outputs]
            entries = [self._entries[key] for key in keys if key in self._entries]
        if sides is not None:
            raise self._distrust(sides[0], sides[1], entries)

    def _compare_layouts(self, entry: _Entry) -> None:
        """Compare with another layout of the same stage, if this output made its own complete and that one is."""
        key, width = entry.committed.key, entry.committed.width
        if entry.origin is None or not entry.committed.finished or self._retention.always:
            return
        with self._lock:
            layouts = self._by_signature.get(key.signature, {})
            if len(layouts) < 2 or len(layouts.get(key.layout, ())) < width:
                return
            whole = {name: [self._entries[one] for one in keys] for name, keys in layouts.items()}
        mine = whole.pop(key.layout)
        for others in whole.values():
            if len(others) == others[0].committed.width and others[0].committed.finished:
                self._compare(others, mine)
                return

    def _compare(self, one: Sequence[_Entry], other: Sequence[_Entry]) -> None:
        try:
            sides = [self._side(entries) for entries in (one, other)]
        except CheckpointError:
            return  # one of them is gone, or unreadable; the job that needs it will find out
        if not sides[0].digest.agrees(sides[1].digest):
            raise self._distrust(sides[0], sides[1], [*one, *other])

    def _side(self, entries: Sequence[_Entry]) -> Side:
        total: Digest | None = None
        for entry in entries:
            digest = entry.committed.digest
            if digest is None:
                digest = self._digester.of([self._rows(entry, None)])
                entry.committed = replace(entry.committed, digest=digest)
            total = digest if total is None else total + digest
        assert total is not None
        return Side(tuple(entry.committed for entry in entries), total, entries[0].origin)

    def _distrust(self, one: Side, other: Side, entries: Iterable[_Entry]) -> GuardMismatch:
        folder = self._retention.quarantine or self._spill / "quarantine"
        error, directory = mismatch(one, other, folder), self._directory
        with self._lock:
            self._distrusted.add(one.outputs[0].key.signature)
            for entry in entries:
                key = entry.committed.key
                if directory is not None:
                    try:
                        for saved in directory.find_all([key]):
                            directory.set_aside(saved, folder)
                    except CheckpointError as problem:
                        error.add_note(f"checkpoint {key} may still be there: {problem}")
                if self._entries.get(key) is entry:
                    self._forget(key, entry)
        return error

    # Write-behind

    def _write(self, waited: Sequence[tuple[_Entry, float]]) -> None:
        """Write outputs of one stage, each of which was queued some time ago; in a thread of `WriteBehind`."""
        began = time.monotonic()
        outcomes = self._save([one for one, _ in waited])
        each = (time.monotonic() - began) / len(waited)
        for (entry, since), outcome in zip(waited, outcomes, strict=True):
            self._written(entry, outcome, since, each)

    def _written(self, entry: _Entry, outcome: _Outcome, since: float, seconds: float) -> None:
        """One of them was written, or not. seconds: its part of the time that took."""
        saved, failure = outcome.saved, outcome.failure or self._warn_not_saved(entry, outcome.why)
        with self._lock:
            self._behind.done(entry, failure)
            entry.busy, entry.durable, entry.saved = False, saved is not None, saved
            key, jobs = entry.committed.key, tuple(sorted(entry.jobs))
            trusted = self._entries.get(key) is entry
            if trusted and not jobs:
                self._idle(key, entry)
        if self._directory is not None:
            if saved is not None and not trusted:
                self._directory.remove(saved)  # while it was written it turned out that it must not be used
            elif not jobs:
                self._directory.unpin([key])
        behind, kept = time.monotonic() - since, saved is not None and trusted
        self._on_saved(CheckpointSaved(jobs, key, entry.bytes, behind, kept, seconds, outcome.why))

    def _warn_not_saved(self, entry: _Entry, why: str) -> QoopError | None:
        """Warn once for each job of an output that is not written. Returns an error where warnings are errors.

        A job may have ended, and have released the output, before it is written.
        """
        with self._lock:
            jobs = [job for job in sorted(entry.jobs or {entry.maker}) if why and job not in self._warned]
            self._warned.extend(jobs)
        if not jobs or self._retention.strict:
            return None
        sentence = f"{', '.join(jobs)}: {not_saved(entry.bytes, why)}"
        try:
            warnings.warn(sentence, RuntimeWarning, stacklevel=2)
        except RuntimeWarning:
            return DiskFull(sentence)
        return None

    def _save(self, entries: Sequence[_Entry]) -> list[_Outcome]:
        """Write outputs; the fate of each."""
        assert self._directory is not None
        try:
            saved = self._directory.save_all([self._unsaved(entry) for entry in entries])
        except DiskFull as error:  # they are in memory, or will be spilled
            return [_Outcome(why=f"{error}: free space there, or name another folder")] * len(entries)
        except Exception as error:  # whatever it is, the writer must live on and report it
            names = ", ".join(str(entry.committed.key) for entry in entries)
            failure = CheckpointError(f"checkpoint {names} cannot be written: {error!r}")
            return [_Outcome(failure=failure)] * len(entries)
        return [self._outcome(entry, one) for entry, one in zip(entries, saved, strict=True)]

    def _outcome(self, entry: _Entry, saved: Saved | None) -> _Outcome:
        if saved is None:
            return _Outcome(why=self._retention.no_space)
        different = self._differs(entry, saved)
        return _Outcome(saved) if different is None else _Outcome(failure=different)

    def _unsaved(self, entry: _Entry) -> Unsaved:
        tables = entry.tables or entry.mapped or ()
        if entry.committed.digest is None:
            entry.committed = replace(entry.committed, digest=self._digester.of(tables))
        return Unsaved(entry.committed, tables, needed=bool(entry.jobs))

    def _differs(self, entry: _Entry, saved: Saved) -> GuardMismatch | None:
        """The mismatch, if the output of another process, which is present in place of this one, is not the same."""
        if saved.committed is entry.committed:
            return None
        try:
            self._compare([_Entry(saved.committed, None, saved=saved, durable=True)], [entry])
        except GuardMismatch as error:
            return error
        return None

    def _degrade(self, error: QoopError) -> QoopError | None:
        """Say once that outputs are not durable. Returns the error where it is to be one."""
        if self._retention.strict:
            return error
        on_saved, self._degraded = self._degraded, True
        try:
            if not on_saved:
                _warn(error)
        except RuntimeWarning:
            return error
        return None

    # Spilling

    def _trim_idle(self) -> None:
        """Forget what no job needs until the budget is kept."""
        if self._used > self.budget:
            for key, entry in [(key, entry) for key, entry in self._entries.items() if not entry.jobs]:
                if self._used > self.budget and not entry.busy:
                    self._drop(key, entry)

    def trim(self, between: Callable[[], None] = lambda: None) -> None:
        """Spill until the budget is kept, or all that is left is being written already.

        between: as for `put`. Raises DiskFull.
        """
        while True:
            with self._lock:
                self._trim_idle()
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
        mapped: tuple[pa.Table, ...] | None = None
        try:
            mapped = spilled(self._spill, tables, between)
        except OSError as error:
            raise DiskFull(f"cannot spill to {self._spill}: {error.strerror or error}") from error
        finally:
            with self._lock:
                entry.busy = False
                if mapped is not None and self._entries.get(key) is entry:
                    entry.mapped = mapped
                    self._leave_memory(entry)

    def _admit(self, came: int, total: int, between: Callable[[], None]) -> bool:
        """True if bytes that just came may stay in memory. total: all bytes of their output, which is being made."""
        with self._lock:
            self._used += came
            if total > self.budget // _GROWING:
                return False
        if came > 0:
            self.trim(between)
        return self._used <= self.budget
