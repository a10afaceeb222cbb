"""The machine "local": slots in this process.

One worker thread a slot. Kernels are opened when they are needed, the first one ahead, in the background, and
kept (`warm_kernels`). An attempt that is granted several slots runs in one worker, whose kernel gets that many
threads; the driver keeps the sum of grants within the capacity, so the other workers are idle then.

Memory, of which anonymous memory of the process is meant: half goes to the kernels (DuckDB's `memory_limit`,
divided among attempts by the driver), and a quarter of what is left besides Python and its libraries (0.11 GB) to
outputs held in memory, beyond which they are spilled. DuckDB's own plan, which keeps none on the way, has more of it
while it runs alone (`ALONE_SHARE`). The rest is for what neither counts: batches that are made and cut, and what DuckDB
takes beyond its limit. What is free goes back to the system where little is left (`release_memory`).

`resize` takes slots and memory away at once. Of the attempts that are under way, those begun last go first: they
lose least. An elastic one goes on with what is left; any other keeps what it was granted as long as it runs. When
memory falls, outputs are spilled in the background, and kernels are replaced once they are idle: one that has worked
holds some 50 MB for ever.

An attempt that was granted before there was a slot for it (`Grant.waits`) waits here, in the order of its queue
(:mod:`qoop.engine.node_queues`), and begins when what runs has left it the resources: no message is needed.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog.errors import ConfigError, DiskFull
from qoop.catalog.priority import not_behind
from qoop.engine.backends.attempt_runner import CROWDED, AttemptRunner, Elsewhere, LocalInputs, Watcher
from qoop.engine.backends.base import happened
from qoop.engine.backends.interpreter import begin_short_turns, end_short_turns
from qoop.engine.backends.local_attempt import INSIST, LocalAttempt, failed, insist, interrupt, revoked
from qoop.engine.backends.release_memory import GROWTH, MemoryReleaser
from qoop.engine.backends.warm_kernels import WarmKernels
from qoop.engine.events import (
    Begun,
    CapacityNotice,
    Committed,
    Event,
    Queued,
    SlotsChanged,
    TaskRegranted,
    TaskStopped,
)
from qoop.engine.failures import Stopped
from qoop.engine.native.copies import NativeCopies
from qoop.engine.storage.checkpoint import Store, verify
from qoop.engine.storage.manifest import Saved
from qoop.engine.storage.retention import Retention
from qoop.engine.storage.scratch import Scratch
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskSpec
from qoop.planner.packing import shrunk_to_fit
from qoop.planner.plan import ISOLATED, STORE_PER_KERNEL, WHOLE_PER_TASKS, Resources

if TYPE_CHECKING:
    from qoop.engine.backends.local_attempt import Ahead
    from qoop.engine.node_queues.node import QueueingNode
    from qoop.engine.node_queues.policy import NodeQueueing
    from qoop.engine.node_queues.ticket import Ticket
    from qoop.engine.processes.pool import ProcessPool

MACHINE: MachineId = "local"
KERNEL_SHARE = 0.5
ALONE_SHARE = KERNEL_SHARE * WHOLE_PER_TASKS  # for DuckDB's own plan while it runs alone, less the outputs held
STORE_SHARE = KERNEL_SHARE * STORE_PER_KERNEL
_PROCESS = 110_000_000  # bytes that Python, its libraries and a plan take
_FOR_OTHERS, _PER_LIMIT = 350_000_000, 1.3
"""Bytes that a task alone leaves in a server: to the process, to short tasks and to texts that are bound. DuckDB 1.5.5
takes 1.3 to 1.4 times its limit for a sort. With 0.9 of the memory, sorts of two users took 1.24 GB in a server of
1 GB."""
_MOST_SPARE = 2  # kernels on top of the slots that stay, once they were needed
_MOST_WORKERS = 8
"""Workers that stay as long. To start one takes two handovers of the interpreter's lock: next to ten bombs, with two of
them, a quarter of all attempts began in a new thread."""

_NOTHING = Retention()


class LocalBackend:
    """Runs attempts in threads of this process (see :class:`~qoop.engine.backends.base.Backend`).

    slots: the threads that may work. memory: bytes for everything. spill_dir: where a temporary directory is made.
    retention: what outlives a job, or the process. machine: its name. elsewhere: knows the outputs of other machines.
    queueing: how attempts wait here for others to end; None: none does. watcher: hears when resources come free.
    Raises DiskFull if one of the directories cannot be written.
    """

    def __init__(
        self,
        slots: int,
        memory: int,
        spill_dir: Path | None = None,
        retention: Retention = _NOTHING,
        machine: MachineId = MACHINE,
        elsewhere: Elsewhere | None = None,
        queueing: NodeQueueing | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        if slots < 1 or memory < 1:
            raise ConfigError(f"a machine needs slots and memory, not {slots} slots and {memory} bytes")
        self._machine = machine
        self._watcher = watcher
        self._memory = memory
        self._capacity = _capacity(slots, memory)
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._scratch = Scratch(spill_dir)
        try:
            self.store = Store(_for_outputs(memory), self._scratch.path, retention, self._events.put)
        except BaseException:
            self._scratch.close()
            raise
        self._inputs = LocalInputs(self.store, elsewhere)
        self._memory_releaser = MemoryReleaser(memory)
        folder = self._scratch.path / "processes"
        self.copies = NativeCopies(spill_dir, memory if retention.retain and elsewhere is None else 0)
        self._kernels = WarmKernels(self._scratch.path, slots, self.copies)
        self._runner = AttemptRunner(
            self.store, self._inputs, self._memory_releaser, self._kernels, self._events.put, folder
        )
        self.used_by_children, self.isolate = self._runner.used_by_children, self._runner.isolate
        self._work: deque[LocalAttempt] = deque()
        self._changed = threading.Condition()  # guards `_work` and what decides whether a worker leaves
        self._attempts: dict[AttemptId, LocalAttempt] = {}
        self._node = None if queueing is None else _queueing_node(self._capacity, queueing)
        self._waiting: dict[AttemptId, LocalAttempt] = {}  # for others to end
        self._helpers: list[threading.Thread] = []  # that insist on a stop, or spill
        self._closed = False
        self._workers: list[threading.Thread] = []
        self._numbers = count()
        self._present = 0  # workers, but those that leave
        self._behind: set[int] = set()  # threads of workers that leave after their attempts, since others go first
        self._ready = 0  # workers that wait for an attempt
        self._shares_memory = False  # with short tasks, which do not wait for long ones
        self._spare = 0  # of these, on top of the slots, that wait for the next attempts which are
        begin_short_turns()
        self._help(self._kernels.open_ahead, name="qoop-kernel")
        self._staff(slots)

    def machines(self) -> Mapping[MachineId, Resources]:
        """The one machine; its memory is what kernels may use."""
        return {self._machine: self._capacity}

    @property
    def configured(self) -> Resources:
        """Slots, and memory for all purposes."""
        return replace(self._capacity, memory=self._memory)

    @property
    def spilled(self) -> int:
        """Bytes on disk for want of memory: outputs of tasks, and what DuckDB sorts, joins and groups."""
        return self.store.spilled + self._scratch.bytes

    @property
    def processes(self) -> ProcessPool:
        """The child processes of tasks."""
        return self._runner.processes

    def let_short_go_first(
        self, is_long: Callable[[JobId], bool] = lambda job: False, is_short: Callable[[JobId], bool] = lambda job: True
    ) -> None:
        """Have attempts that work for longer than short ones do go behind others on the CPUs from now on, and those of
        a job that is long at once; in child processes all have a niceness, but those of a job that is short."""
        self._shares_memory = True
        self._runner.let_short_go_first(self._replace_worker, is_long, is_short)

    def start(self, machine: MachineId, spec: TaskSpec, queued: bool = False, ahead: Ahead | None = None) -> None:
        """Begin an attempt; what it reads is kept for the job until it is released. queued: it was reported that it is.
        ahead: of what it reads, what was fetched already."""
        if machine != self._machine:
            raise ConfigError(f"there is no machine {machine}, only {self._machine}")
        if self._capacity.cpu < 1:  # there is no worker to take it up
            self._events.put(revoked(spec))
            return
        self.store.hold(spec.attempt.task.job, [key for item in spec.inputs for key in item.keys])
        if self._node is not None and spec.ticket is not None and spec.waits:
            self._wait(self._node, LocalAttempt(spec, queued=True), spec.ticket)
            return
        attempt = self._attempts[spec.attempt] = LocalAttempt(spec, queued=queued, ahead=ahead)
        with self._changed:
            if self._node is not None:
                self._node.hold(spec.attempt, spec.resources)
            self._work.append(attempt)
            if not queued and len(self._work) > self._ready:
                attempt.queued = True
                self._events.put(Queued(spec.attempt))
            self._changed.notify()
        if spec.extra:
            self._spare = max(self._spare, min(_MOST_WORKERS, self._on_top()))  # their kernels stay warm
            self._staff(self._slots)

    def _wait(self, node: QueueingNode, attempt: LocalAttempt, ticket: Ticket) -> None:
        """Let an attempt wait until others have left it what it was granted."""
        with self._changed:
            self._waiting[ticket.attempt] = attempt
            now = time.monotonic()  # each machine has its own clock
            begun = node.arrive(replace(ticket, since=now), now)
            node.queue.hear(ticket.job, ticket.left)
            attempt.ahead = self.fetch_ahead(attempt.spec)
            self._begin(begun)

    def fetch_ahead(self, spec: TaskSpec) -> Ahead | None:
        """Fetch what an attempt that waits reads from other machines, in the background; None: there is nothing."""
        if (ahead := self._inputs.ahead(spec)) is not None:
            self._help(ahead.fetch, name="qoop-ahead")
        return ahead

    def report(self, event: Event) -> None:
        """Have `wait` return an event that happened in front of this backend."""
        self._events.put(event)

    def hold_at_most(self, memory: int) -> None:
        """Hold outputs as a machine with that much memory would; what is more is spilled in the background."""
        before, self.store.budget = self.store.budget, _for_outputs(memory)
        if self.store.budget < before:
            self._help(self._shrink, name="qoop-shrink")

    def _begin_waiting(self, node: QueueingNode) -> None:
        """Begin what waits and fits by now. Under the lock."""
        self._begin(node.begin(time.monotonic()))

    def _begin(self, begun: Iterable[AttemptId]) -> None:
        """Attempts that waited have what they need. Under the lock."""
        for id in begun:
            attempt = self._attempts[id] = self._waiting.pop(id)
            self._work.append(attempt)
            self._changed.notify()

    def allow(self, resources: Resources) -> None:
        """Of what it has, attempts that wait may take so much, with those that run; the rest is for others."""
        if self._node is not None:
            with self._changed:
                self._node.capacity = resources
                self._begin_waiting(self._node)

    def stop(self, attempt: AttemptId) -> None:
        """Interrupt an attempt, until it ends; one that waits has ended at once."""
        if self._node is not None and self._withdrawn(self._node, attempt):
            self._events.put(TaskStopped(attempt))
            return
        found = self._attempts.get(attempt)
        if found is None or found.stop.is_set():
            return
        found.stop.set()
        interrupt(found)  # now: where memory is short, it takes seconds for a thread to begin
        self._help(insist, found, name="qoop-stop")

    def _withdrawn(self, node: QueueingNode, attempt: AttemptId) -> bool:
        """True if the attempt waited, which it does no more."""
        with self._changed:
            if self._waiting.pop(attempt, None) is None:
                return False
            node.release(attempt)
            return True

    def regrant(self, attempt: AttemptId, resources: Resources) -> None:
        """Let an elastic attempt go on with other resources, in the background."""
        if (found := self._attempts.get(attempt)) is not None and found.spec.most and not found.stop.is_set():
            found.resources = resources
            self._help(self._change, found, False, name="qoop-regrant")

    def promote(self, attempt: AttemptId) -> None:
        """It counts among those that the slots are for."""
        if (found := self._attempts.get(attempt)) is not None:
            found.extra = False
            self._staff(self._slots)

    def resize(self, slots: int | None, memory: int | None) -> None:
        """Have that many slots and bytes of memory from now on (see the module's text)."""
        slots, memory = self._size(slots, memory)
        self._capacity = _capacity(slots, memory)
        self._events.put(SlotsChanged(self._machine, self._capacity))
        self.allow(self._capacity)  # first: nothing that waits is to begin in what is taken away
        self._revoke()
        falls = memory < self._memory
        self._memory = self._memory_releaser.memory = memory
        self.store.budget = _for_outputs(memory)
        self._staff(slots)
        if falls:
            self._help(self._shrink, name="qoop-shrink")
            self._help(self._renew_kernels, name="qoop-kernel")

    def announce(self, slots: int | None, memory: int | None, at: float) -> None:
        """Report that this will be so from then on."""
        self._events.put(CapacityNotice(self._machine, _capacity(*self._size(slots, memory)), at))

    def wait(self, timeout: float | None) -> Sequence[Event]:
        """Block until something happened; return all that happened so far."""
        return happened(self._events, timeout)

    def wake(self) -> None:
        """Make a blocked `wait` return."""
        self._events.put(None)

    def present(self, keys: Sequence[CheckpointKey], job: JobId | None = None) -> Sequence[Committed]:
        """Those of the keys that are in memory or in files; kept for the job, if one is named."""
        return self.store.present(keys, job)

    def adopt(self, found: Iterable[Saved], job: JobId) -> list[CheckpointKey]:
        """Hold checkpoints that lie in files of another process, until the job releases them."""
        return self.store.adopt(found, job)

    def verify(self, keys: Sequence[CheckpointKey]) -> None:
        """Read outputs that are held in files, so that those that cannot be read are forgotten now."""
        verify(self.store, keys)

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """The job no longer needs these outputs."""
        held = self.store.used
        self.store.release(job, keys)
        self._memory_releaser.release(CROWDED, GROWTH, max(0, held - self.store.used))

    def read(self, key: CheckpointKey, partition: int | None = None) -> pa.Table:
        """The rows of an output (the root's are the result). Raises CheckpointError."""
        return self.store.read(key, partition)

    def close(self) -> None:
        """Stop all attempts, join all threads, write what is durable, remove temporary files.

        Raises DiskFull, after all that, if a durable output could not be written and this was not yet reported.
        """
        if self._closed:
            return
        self._closed = True
        for attempt in [*self._waiting, *self._attempts]:
            self.stop(attempt)
        self._spare = 0
        self._staff(0)
        for thread in (*self._workers, *self._helpers):
            thread.join()
        self._runner.close()
        self.copies.close()
        self._memory_releaser.close()
        end_short_turns()
        try:
            self.store.close()
        finally:
            self._scratch.close()

    def _size(self, slots: int | None, memory: int | None) -> tuple[int, int]:
        slots = int(self._capacity.cpu) if slots is None else slots
        memory = self._memory if memory is None else memory
        if slots < 0 or memory < 1:
            raise ConfigError(f"a machine cannot have {slots} slots and {memory} bytes")
        return slots, memory

    def _staff(self, slots: int) -> None:
        """Have one worker for each slot, and each attempt on top of them. Surplus workers leave when they are idle."""
        self._workers = [worker for worker in self._workers if worker.is_alive()]
        with self._changed:
            self._slots = slots
            missing = max(0, slots + self._on_top() - self._present)
            self._present += missing
            self._changed.notify_all()
        self._kernels.limit(slots + min(_MOST_SPARE, self._spare))
        for number in (next(self._numbers) for _ in range(missing)):
            worker = threading.Thread(target=self._worker, name=f"qoop-slot-{number}", daemon=True)
            self._workers.append(worker)
            not_behind(worker.start)

    def _replace_worker(self, thread: int) -> None:
        """Have another worker for one that has gone behind, which leaves after its attempt."""
        with self._changed:
            self._behind.add(thread)
            self._present -= 1
        self._staff(self._slots)

    def _on_top(self) -> int:
        """The number of attempts on slots that there are not."""
        return sum(attempt.extra for attempt in list(self._attempts.values()))

    def _help(self, work: Callable[..., None], *arguments: object, name: str) -> None:
        """Do something in a background thread; `close` waits for it. At the end of the interpreter, where Python lets
        no thread begin (from 3.12 on), it is done at once."""
        thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            work(*arguments)
            return
        self._helpers = [other for other in self._helpers if other.is_alive()]
        self._helpers.append(thread)

    def _revoke(self) -> None:
        """Make the attempts that do not fit smaller, or stop them; those begun first stay first, having done most."""
        alive = [one for one in list(self._attempts.values()) if not one.stop.is_set() and not one.extra]
        kept = shrunk_to_fit([(attempt.resources, bool(attempt.spec.most)) for attempt in alive], self._capacity)
        for attempt, resources in zip(alive, kept, strict=True):
            if resources is None or attempt.outgrows(resources):
                self._evict(attempt)
            elif resources != attempt.resources:
                attempt.resources = resources
                self._help(self._change, attempt, True, name="qoop-regrant")

    def _evict(self, attempt: LocalAttempt) -> None:
        attempt.revoked = True
        self.stop(attempt.spec.attempt)

    def _change(self, attempt: LocalAttempt, must: bool) -> None:
        """Have the kernel of an attempt go on with the resources it is to have, and tell. must: else it is stopped."""
        try:
            while not attempt.regrant(resources := attempt.resources):
                if attempt.stop.is_set() or attempt.ended.wait(INSIST):
                    return
        except Exception:  # what it holds does not fit, or nothing may be changed
            if must:
                self._evict(attempt)
                return
            resources = attempt.resources = replace(resources, memory=attempt.had.memory)
        attempt.had = resources
        if self._node is not None:
            with self._changed:
                self._node.hold(attempt.spec.attempt, resources)
                self._begin_waiting(self._node)
        if self._watcher is not None:
            self._watcher.changed(attempt.spec.attempt, resources)
        self._events.put(TaskRegranted(attempt.spec.attempt, resources))

    def _shrink(self) -> None:
        """Spill what no longer may be in memory. If that fails, so will the next output, and tell."""
        with contextlib.suppress(DiskFull, Stopped):
            self.store.trim(self._check_open)
        self._memory_releaser.release(CROWDED)

    def _check_open(self) -> None:
        if self._closed:
            raise Stopped

    def _renew_kernels(self) -> None:
        self._kernels.replace()
        self._kernels.open_ahead()

    def _worker(self) -> None:
        with self._changed:
            self._ready += 1
        while (attempt := self._next()) is not None:
            self._take_up(attempt)
            del attempt
            if (thread := threading.get_native_id()) in self._behind:
                with self._changed:
                    self._behind.remove(thread)
                    self._ready -= 1
                return

    def _next(self) -> LocalAttempt | None:
        """Wait for an attempt; None if this worker is to leave."""
        with self._changed:
            while not self._work:
                if self._present > self._slots + max(self._spare, self._on_top()):
                    self._present -= 1
                    self._ready -= 1
                    return None
                self._changed.wait()
            self._ready -= 1
            return self._work.popleft()

    def _take_up(self, attempt: LocalAttempt) -> None:
        waited = time.perf_counter() - attempt.came
        if attempt.queued:
            self._events.put(Begun(attempt.spec.attempt))
        try:
            with self._memory_releaser.watched():
                events = self._runner.run(attempt, self._with_spare(attempt.spec), waited)
        except BaseException as error:
            events = failed(attempt.spec, error)
        self._attempts.pop(attempt.spec.attempt, None)
        attempt.ended.set()
        with self._changed:
            self._ready += 1  # before it is reported, or what comes next in its place would count as queued
            if self._node is not None:
                self._node.release(attempt.spec.attempt)
                self._begin_waiting(self._node)
        if self._watcher is not None:
            self._watcher.ended(attempt.spec.attempt)
        for event in events:
            self._events.put(event)

    def _with_spare(self, spec: TaskSpec) -> TaskSpec:
        """DuckDB's own plan with the memory that outputs leave free, where no other task has any."""
        most = ALONE_SHARE * self._memory
        if self._shares_memory and spec.stage.opaque != ISOLATED:  # a process that has too much is ended
            most = min(most, (self._memory - _FOR_OTHERS) / _PER_LIMIT)
        spare = most - KERNEL_SHARE * self._memory - self.store.used
        if not spec.stage.whole or spec.resources.memory < self._capacity.memory or spare <= 0:
            return spec
        return replace(spec, resources=replace(spec.resources, memory=spec.resources.memory + spare))


def _queueing_node(capacity: Resources, queueing: NodeQueueing) -> QueueingNode:
    from qoop.engine.node_queues.node import QueueingNode  # at most machines nothing waits

    return QueueingNode(capacity, queueing)


def _capacity(slots: int, memory: int) -> Resources:
    return Resources(cpu=slots, memory=int(memory * KERNEL_SHARE))


def _for_outputs(memory: int) -> int:
    """Bytes of outputs that may be held: fewer where little is left besides the process itself."""
    return int(max(memory / 16, (memory - _PROCESS) * STORE_SHARE))
