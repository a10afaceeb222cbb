"""Machines that run nothing: scripted durations and failures under a virtual clock.

For tests of the core, and the ground on which simulations stand (law 3). Time stands still until `wait`
finds nothing to report; then it moves to the next thing that happens. What happens at one moment happens in the
order in which it was planned, so the same script and calls give the same reports.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Literal

from qoop.catalog.errors import CheckpointError, ConfigError, QoopError, Revoked
from qoop.catalog.value import value
from qoop.engine.backends.shared_rate import SharedRate
from qoop.engine.backends.simulated_nodes import Heartbeats
from qoop.engine.backends.worker_pool import Kernels, Worker, WorkerPool
from qoop.engine.clock import VirtualClock
from qoop.engine.events import (
    Begun,
    CapacityNotice,
    CheckpointLost,
    Committed,
    Event,
    MachineJoined,
    MachineLost,
    Queued,
    SlotsChanged,
    TaskFailed,
    TaskRegranted,
    TaskStopped,
    TaskSucceeded,
)
from qoop.engine.exchanges.terms import Exchanged, Exchanges
from qoop.engine.exchanges.transfers import Piece, Transfers
from qoop.engine.functions.measured import FunctionCalls
from qoop.engine.node_queues.node import QueueingNode
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.ticket import JobLeft
from qoop.engine.task import AttemptId, CheckpointKey, Content, JobId, MachineId, TaskAccount, TaskSpec
from qoop.planner.packing import duration_ratio, on_threads, shrunk_to_fit
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    import pyarrow as pa


Sizes = int | tuple[int, ...]
"""Bytes of the partitions of an output: of each, or of one after the other."""

AT_ONCE = Heartbeats()
"""Words take no time."""


@value
class Outcome:
    """The outcome of an attempt after `seconds` (infinite: it runs until it is stopped).

    arriving, spilled: bytes that come in over its machine's link before the work, and that go to its disk and back
    after it. The attempts on a machine share these; where they have no rate, moving takes no time.
    rows, bytes: in each partition of its output; None: 8 bytes a row. It is committed with one number for all of them:
    there may be thousands, and nobody reads a simulated one; bytes of partitions that differ are a tuple.
    cpu_seconds: of its thread, 0: not told. called: what it tells of functions of Python.
    """

    seconds: float
    error: QoopError | None = None
    retryable: bool = True
    rows: int = 1
    bytes: Sizes | None = None
    arriving: float = 0.0
    spilled: float = 0.0
    cpu_seconds: float = 0.0
    called: tuple[FunctionCalls, ...] = ()


@value
class MachineSlowed:
    """From now on all work on the machine takes `factor` times as long; 1: as usual. No cluster is told."""

    machine: MachineId
    factor: float


@value
class MachineShared:
    """From now on that many threads of others work on the machine, too. No cluster hears of it."""

    machine: MachineId
    threads: float


Happening = Event | MachineSlowed | MachineShared


@dataclass(eq=False, slots=True)
class _Effort:
    """Something that keeps threads of a machine at work. work: seconds that it has left from `since` on, were its
    machine as fast as usual and it alone there. end: what follows.

    slowness: how many times that it takes. plan: counts how often its end was planned; only the last one holds.
    """

    machine: MachineId
    threads: float
    work: float
    end: Callable[[], Sequence[Event]]
    since: float
    slowness: float
    plan: int = 0

    def advance(self, now: float) -> None:
        """Take off what has been done by now."""
        self.work -= (now - self.since) / self.slowness
        self.since = now


Device = Literal["disk", "network"]


@dataclass(eq=False, slots=True)
class _Running:
    """An attempt on its way. effort: None while it waits for a worker, or moves bytes, and then by which device, and
    what follows. waited: in the queue of its machine. worker: None where there are no crews. taken, read, computed:
    when somebody took it up, and when it had read and computed."""

    machine: MachineId
    spec: TaskSpec
    outcome: Outcome
    began: float
    effort: _Effort | None = None
    worker: Worker | None = None
    moving: Device | None = None
    then: Callable[[], Sequence[Event]] = tuple
    queued: bool = False
    waited: bool = False
    taken: float = 0.0
    read: float = 0.0
    computed: float = 0.0

    def account(self, now: float) -> TaskAccount:
        """Its seconds, if it has come to its end now."""
        wrote = now - self.computed
        return TaskAccount(self.taken - self.began, self.read - self.taken, self.computed - self.read, wrote)


def as_estimated(spec: TaskSpec) -> Outcome:
    """The default script: every task takes as long as its stage's estimate says, on all its threads."""
    return Outcome(on_threads(spec.stage.estimate.task_seconds, spec.resources.cpu))


class SimulatedBackend:
    """A backend whose attempts come to what `script` says of them.

    kernels: what it costs to open, to warm and to interrupt one; None: nothing, and nobody waits for any.
    alone: no other thread will wake it: `wait` returns with nothing if nothing will ever happen.
    crowding: the factor by which everything slows down on a machine where that many threads work; None: they do not
        disturb each other.
    heartbeats: how long words take between the scheduler and its machines. queueing: how tasks wait at these; None:
        what was granted begins. exchanges: how attempts read from other machines; None: what arrives (`Outcome`) shares
        the machine's link. `left_of` is asked at each report of a machine where tasks wait: what jobs have left.
    `started`: all attempts so far. `task_events`: their number and that of the reports about them.
    `start`, `stop`, `wait` are for one thread; `wake`, `happen` and `appoint` for any.
    """

    def __init__(
        self,
        machines: Mapping[MachineId, Resources],
        clock: VirtualClock,
        script: Callable[[TaskSpec], Outcome] = as_estimated,
        kernels: Kernels | None = None,
        alone: bool = False,
        crowding: Callable[[float], float] | None = None,
        heartbeats: Heartbeats = AT_ONCE,
        queueing: NodeQueueing | None = None,
        exchanges: Exchanges | None = None,
    ) -> None:
        self.clock = clock
        self.left_of: Callable[[JobId], JobLeft | None] = lambda _: None
        self._heartbeats = heartbeats
        self._queueing = queueing
        self._nodes = {name: QueueingNode(capacity, queueing) for name, capacity in machines.items() if queueing}
        self._beating: set[MachineId] = set()
        self.started: list[TaskSpec] = []
        self.task_events = 0
        self._machines = dict(machines)
        self._script = script
        self._kernels = kernels or Kernels()
        self._alone = alone
        self._crowding = crowding
        self._running: dict[AttemptId, _Running] = {}
        self._efforts: dict[_Effort, None] = {}  # in the order in which they began
        self._worker_pools: dict[MachineId, WorkerPool[_Running]] = {}
        self._with_worker_pools = kernels is not None
        if self._with_worker_pools:
            read = self._kernels.read
            self._worker_pools = {
                machine: WorkerPool(int(capacity.cpu), read) for machine, capacity in machines.items()
            }
        self._slowness: dict[MachineId, float] = {}
        self._others: dict[MachineId, float] = {}  # threads of others
        self._devices: dict[tuple[MachineId, Device], SharedRate[_Running]] = {}
        self._revoked: set[AttemptId] = set()
        self._agenda: list[tuple[float, int, Callable[[], Sequence[Event]]]] = []
        self._order = count()
        self._lock = threading.RLock()  # taken alone, it costs a third of what the condition costs
        self._changed = threading.Condition(self._lock)
        self._woken = False
        self._closed = False
        self._committed: dict[CheckpointKey, tuple[Committed, set[JobId]]] = {}
        self._parts: dict[Content, int] = {}  # how many outputs of a stage are committed
        self._exchanges = exchanges
        self._made: dict[CheckpointKey, tuple[MachineId, Sizes]] = {}  # where an output lies
        self._transfers: Transfers | None = None
        if exchanges is not None:
            self._transfers = Transfers(exchanges, clock.now, self._after)
            for name, capacity in machines.items():
                self._transfers.have(name, capacity.network)

    # --- the backend's methods ------------------------------------------------------------------------------

    def machines(self) -> Mapping[MachineId, Resources]:
        return dict(self._machines)

    def start(self, machine: MachineId, spec: TaskSpec) -> None:
        self.started.append(spec)
        self.task_events += 1
        missing = self._missing(spec)
        if missing is not None:
            outcome = Outcome(0.0, CheckpointError(f"{spec.attempt} reads {missing}, which is not there"))
        else:
            outcome = self._script(spec)
        self._running[spec.attempt] = running = _Running(machine, spec, outcome, self.clock.now())
        if spec.extra:
            self._staff(machine)
        if self._queueing is None and not self._heartbeats.launching:
            self._begin(running)
        else:
            self._plan(self.clock.now() + self._heartbeats.launching, partial(self._arrive, running))

    def stop(self, attempt: AttemptId) -> None:
        waits = any(attempt in node.queue for node in self._nodes.values()) if self._nodes else False
        seconds = 0.0 if waits else self._kernels.stopping
        at = self.clock.now() + self._heartbeats.launching + seconds
        self._plan(at, lambda: self._end_stopped(attempt))

    def regrant(self, attempt: AttemptId, resources: Resources) -> None:
        self._plan(self.clock.now(), lambda: self._change_grant(attempt, resources))

    def promote(self, attempt: AttemptId) -> None:
        running = self._running.get(attempt)
        if running is not None:
            running.spec = replace(running.spec, extra=False)
            self._staff(running.machine)

    def resize(self, slots: int | None, memory: int | None) -> None:
        """Of a single machine; where there are several, let it `happen`."""
        self.happen(SlotsChanged(*self._sized(slots, memory)), at=self.clock.now())

    def announce(self, slots: int | None, memory: int | None, at: float) -> None:
        self.happen(CapacityNotice(*self._sized(slots, memory), at), at=self.clock.now())

    def wait(self, timeout: float | None) -> Sequence[Event]:
        limit = math.inf if timeout is None else self.clock.now() + timeout
        while True:
            with self._lock:
                if self._woken:
                    self._woken = False
                    return self._due(self.clock.now())
                if not self._agenda and limit == math.inf:
                    if self._alone:
                        return []
                    self._changed.wait()
                    continue
                moment = min(self._agenda[0][0] if self._agenda else math.inf, limit)
            self.clock.advance_to(moment)
            events = self._due(moment)
            if events or moment >= limit:
                return events

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify()

    def present(self, keys: Sequence[CheckpointKey], job: JobId | None = None) -> Sequence[Committed]:
        found = [self._committed[key] for key in keys if key in self._committed]
        if job is not None:
            for _, jobs in found:
                jobs.add(job)
        return [committed for committed, _ in found]

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        for key in keys:
            known = self._committed.get(key)
            if known is not None:
                known[1].discard(job)
                if not known[1]:
                    self._drop(key)

    def read(self, key: CheckpointKey, partition: int | None = None) -> pa.Table:
        raise CheckpointError(f"{key} is a simulated output: it has no rows to read")

    def close(self) -> None:
        self._running.clear()
        self._efforts.clear()
        self._committed.clear()
        self._closed = True

    # --- the script's side ----------------------------------------------------------------------------------

    def happen(self, event: Happening, at: float) -> None:
        """Let a change of machines, or a lost checkpoint, happen at this time."""
        self._plan(at, lambda: self._change(event))
        self.wake()

    def appoint(self, action: Callable[[], object], at: float) -> None:
        """Have the thread that waits at this time do something; what that returns is ignored."""
        self._plan(at, lambda: (action(), ())[1])
        self.wake()

    @property
    def idle(self) -> bool:
        """True if nothing will happen any more, unless somebody has it happen."""
        with self._lock:
            return not self._agenda and not self._woken

    @property
    def exchanged(self) -> Exchanged:
        """All that went over links so far; nothing where there are no `exchanges`."""
        return self._transfers.exchanged if self._transfers is not None else Exchanged()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def running(self) -> tuple[AttemptId, ...]:
        """Attempts that have not reported."""
        return tuple(self._running)

    @property
    def committed(self) -> tuple[CheckpointKey, ...]:
        """Outputs that some job holds."""
        return tuple(self._committed)

    # --- within ---------------------------------------------------------------------------------------------

    def _plan(self, at: float, action: Callable[[], Sequence[Event]]) -> None:
        with self._lock:
            heappush(self._agenda, (at, next(self._order), action))

    def _after(self, at: float, action: Callable[[], None]) -> None:
        def happen() -> Sequence[Event]:
            action()
            return ()

        self._plan(at, happen)

    def _due(self, now: float) -> list[Event]:
        events: list[Event] = []
        while self._agenda and self._agenda[0][0] <= now:
            with self._lock:
                _, _, action = heappop(self._agenda)  # by this thread alone
            events += action()
        return events

    def _report(self, machine: MachineId, event: Event) -> Sequence[Event]:
        self.task_events += 1
        return self._told(machine, event)

    def _told(self, machine: MachineId, event: Event) -> Sequence[Event]:
        """Have the scheduler hear of something at the next report of a machine."""
        if not self._heartbeats.seconds:
            return (event,)
        self._plan(self._heartbeats.next(machine, self.clock.now()), lambda: (event,))
        return ()

    def _arrive(self, running: _Running) -> Sequence[Event]:
        """The attempt is at its machine, where it begins or waits, unless it was called back on the way."""
        spec, node = running.spec, self._nodes.get(running.machine)
        if self._running.get(spec.attempt) is not running:
            return ()
        if node is None or spec.ticket is None:
            self._begin(running)
            return ()
        now = self.clock.now()
        running.queued = True
        begun = self._begin_all(running.machine, node.arrive(replace(spec.ticket, since=now), now))
        if spec.attempt in node.queue:
            running.waited = True
            self._ask(running, ahead=True)
            self._beat(running.machine)
            return self._told(running.machine, Queued(spec.attempt))
        return begun

    def _begin_all(self, machine: MachineId, attempts: Sequence[AttemptId]) -> Sequence[Event]:
        """Attempts that waited at a machine begin."""
        events: list[Event] = []
        for attempt in attempts:
            running = self._running[attempt]
            waited, running.queued = running.waited, False
            if waited or running.spec.waits:
                events += self._told(machine, Begun(attempt))
            self._begin(running)
        return events

    def _next_at(self, machine: MachineId) -> Sequence[Event]:
        """Begin what waits at a machine and fits now."""
        node = self._nodes.get(machine)
        if node is None or not len(node.queue):
            return ()
        if not self._heartbeats.seconds:
            self._hear(node)
        return self._begin_all(machine, node.begin(self.clock.now()))

    def _beat(self, machine: MachineId) -> None:
        """Tell a machine, with its reports, what the jobs have left whose tasks wait there."""
        if machine not in self._beating and self._heartbeats.seconds:
            self._beating.add(machine)
            self._plan(self._heartbeats.next(machine, self.clock.now()), partial(self._beats, machine))

    def _beats(self, machine: MachineId) -> Sequence[Event]:
        self._beating.discard(machine)
        node = self._nodes.get(machine)
        if node is not None and node.busy and len(node.queue):
            self._hear(node)
            self._beat(machine)
        return ()

    def _hear(self, node: QueueingNode) -> None:
        for job in {ticket.job for ticket in node.queue}:
            left = self.left_of(job)
            if left is not None:
                node.queue.hear(job, left)

    def _begin(self, running: _Running) -> None:
        """The attempt has its slot: a worker takes it up, or will."""
        worker_pool = self._worker_pools.get(running.machine)
        worker = worker_pool.take(running) if worker_pool is not None else None
        if worker_pool is None or worker is not None:
            self._take_up(running, worker)
        else:
            running.queued = True
            self._plan(self.clock.now(), partial(self._tell_queued, running))

    def _drop(self, key: CheckpointKey) -> None:
        if self._committed.pop(key, None) is not None:
            self._parts[key.content] -= 1
            self._made.pop(key, None)

    def _missing(self, spec: TaskSpec) -> CheckpointKey | None:
        """An output that the attempt reads and that is not there."""
        for item in spec.inputs:
            if self._parts.get(item.keys[0].content, 0) < len(item.keys):
                return next(key for key in item.keys if key not in self._committed)
            if len(item.keys) == 1 and item.keys[0] not in self._committed:
                return item.keys[0]
        return None

    def _sized(self, slots: int | None, memory: int | None) -> tuple[MachineId, Resources]:
        if len(self._machines) != 1:
            raise ConfigError(f"there are {len(self._machines)} machines: resize one of them")
        ((machine, capacity),) = self._machines.items()
        cpu = capacity.cpu if slots is None else slots
        return machine, replace(capacity, cpu=cpu, memory=capacity.memory if memory is None else memory)

    def _take_up(self, running: _Running, worker: Worker | None) -> None:
        """The attempt begins its work, once there is somebody to do it."""
        running.taken = self.clock.now()
        spec, seconds = running.spec, running.outcome.seconds
        if worker is not None:
            seconds += self._kernels.reading * worker.first(item.table for item in spec.stage.table_inputs)
        running.worker = worker
        if self._transfers is None:
            if running.outcome.arriving > 0:
                self._move(running, "network", running.outcome.arriving, partial(self._compute, running, seconds))
            else:
                self._compute(running, seconds)
            return
        if self._transfers.known(spec.attempt):
            self._transfers.granted(spec.attempt)
        else:
            self._ask(running, ahead=False)
        if self._transfers.await_(spec.attempt, lambda: self._compute_if_there(running, seconds)):
            self._compute(running, seconds)

    def _ask(self, running: _Running, ahead: bool) -> None:
        """Have what an attempt reads brought in from other machines."""
        if self._transfers is not None:
            self._transfers.begin(running.machine, running.spec, self._pieces(running), ahead)

    def _pieces(self, running: _Running) -> list[Piece]:
        """All that its machine has not made of what it reads: a piece a machine, and outputs that are read whole."""
        parted: dict[MachineId | None, float] = {}
        pieces: list[Piece] = []
        for item in running.spec.inputs:
            for key in item.keys:
                made, size = self._made.get(key, (running.machine, 0))
                if made == running.machine and not self._stored_only:
                    continue
                sender = made if made in self._machines and not self._stored_only else None
                if item.partition is not None:
                    here = size[item.partition] if isinstance(size, tuple) else size
                    parted[sender] = parted.get(sender, 0.0) + here
                elif whole := sum(self._committed[key][0].bytes):
                    pieces.append(Piece(sender, whole, key))
        names = sorted(parted, key=lambda name: (name is None, name or ""))
        return [Piece(name, parted[name]) for name in names if parted[name]] + pieces

    @property
    def _stored_only(self) -> bool:
        return self._exchanges is not None and self._exchanges.store.only

    def _compute_if_there(self, running: _Running, seconds: float) -> None:
        if self._running.get(running.spec.attempt) is running:
            self._compute(running, seconds)

    def _compute(self, running: _Running, seconds: float) -> Sequence[Event]:
        """Begin the work, as what it reads is there; then it moves what did not fit its memory."""
        running.read = self.clock.now()
        threads = max(1.0, running.spec.resources.cpu)
        running.effort = self._work_at(running.machine, threads, seconds, partial(self._spill, running))
        return ()

    def _spill(self, running: _Running) -> Sequence[Event]:
        running.computed = self.clock.now()
        if running.outcome.spilled <= 0:
            return self._finish(running)
        return self._move(running, "disk", running.outcome.spilled, partial(self._finish, running))

    def _move(
        self, running: _Running, device: Device, amount: float, then: Callable[[], Sequence[Event]]
    ) -> Sequence[Event]:
        """Have the attempt move bytes by a device of its machine, which others use, too; then something follows."""
        rate = _rate(self._machines.get(running.machine, Resources()), device)
        if rate <= 0:
            return then()
        running.moving, running.then = device, then
        key = running.machine, device
        shared = self._devices.setdefault(key, SharedRate(rate))
        shared.join(running, amount, self.clock.now())
        self._plan_moved(key)
        return ()

    def _plan_moved(self, key: tuple[MachineId, Device]) -> None:
        """Look at a device when the next one is done there; a look that was planned before finds nothing."""
        at = self._devices[key].ends()
        if at < math.inf:
            self._plan(max(at, self.clock.now()), partial(self._moved, key))

    def _moved(self, key: tuple[MachineId, Device]) -> Sequence[Event]:
        shared = self._devices.get(key)
        done = shared.ended(self.clock.now()) if shared is not None else []
        events: list[Event] = []
        for running in done:
            running.moving = None
            events += running.then()
        if done:
            self._plan_moved(key)
        return events

    def _leave(self, running: _Running) -> None:
        """The attempt has gone: others may be faster now, and its worker takes up another."""
        if self._transfers is not None:
            self._transfers.leave(running.spec.attempt)
        if running.effort is not None:
            self._rest(running.effort)
        if running.moving is not None:
            key = running.machine, running.moving
            self._devices[key].leave(running, self.clock.now())
            self._plan_moved(key)
        if running.spec.extra:
            self._staff(running.machine)
        worker_pool = self._worker_pools.get(running.machine)
        if worker_pool is not None and running.worker is None:
            worker_pool.withdraw(running)
        elif worker_pool is not None and running.worker is not None:
            self._look_for_work(running.machine, worker_pool, running.worker)
        node = self._nodes.get(running.machine)
        if node is None:
            return
        node.release(running.spec.attempt)
        if len(node.queue):  # once the end of this one is reported
            self._plan(self.clock.now(), partial(self._next_at, running.machine))

    def _look_for_work(self, machine: MachineId, worker_pool: WorkerPool[_Running], worker: Worker) -> None:
        if self._worker_pools.get(machine) is not worker_pool:  # the machine is lost
            return
        following = worker_pool.idle(worker)
        if following is not None:
            self._take_up(following, worker)
            self._plan(self.clock.now(), partial(self._tell_begun, following))

    def _tell_queued(self, running: _Running) -> Sequence[Event]:
        """Unless somebody has taken it up since, or it is gone."""
        return (Queued(running.spec.attempt),) if running.queued and running.worker is None else ()

    def _tell_begun(self, running: _Running) -> Sequence[Event]:
        return (Begun(running.spec.attempt),) if running.spec.attempt in self._running else ()

    def _work_at(
        self, machine: MachineId, threads: float, seconds: float, end: Callable[[], Sequence[Event]]
    ) -> _Effort:
        slowness = self._slowness.get(machine, 1.0)
        effort = _Effort(machine, threads, seconds, end, self.clock.now(), slowness)
        self._efforts[effort] = None
        self._plan_end(effort)
        self._crowd(machine)
        return effort

    def _rest(self, effort: _Effort) -> None:
        """It is over, whether done or not."""
        if effort in self._efforts:
            del self._efforts[effort]
            self._crowd(effort.machine)

    def _plan_end(self, effort: _Effort) -> None:
        effort.plan += 1
        seconds = effort.work * effort.slowness
        if seconds < math.inf:
            self._plan(effort.since + seconds, partial(self._ended, effort, effort.plan))

    def _ended(self, effort: _Effort, plan: int) -> Sequence[Event]:
        if effort.plan != plan or effort not in self._efforts:
            return []
        self._rest(effort)
        return effort.end()

    def _slow(self, machine: MachineId, factor: float) -> None:
        self._slowness[machine] = factor
        self._retime(machine)

    def _share(self, machine: MachineId, threads: float) -> None:
        self._others[machine] = threads
        self._crowd(machine)

    def _crowd(self, machine: MachineId) -> None:
        """Somebody has come or gone, which others may feel."""
        if self._crowding is not None:
            self._retime(machine)

    def _retime(self, machine: MachineId) -> None:
        """Plan the ends of all efforts again on a machine that has become faster or slower."""
        here = [effort for effort in self._efforts if effort.machine == machine]
        now, threads = self.clock.now(), sum(effort.threads for effort in here)
        for effort in here:
            factor = self._factor(effort.machine, threads)
            if effort.slowness != factor:
                effort.advance(now)
                effort.slowness = factor
                self._plan_end(effort)

    def _factor(self, machine: MachineId, threads: float) -> float:
        slowness = self._slowness.get(machine, 1.0)
        if self._crowding is None:
            return slowness
        return slowness * self._crowding(threads + self._others.get(machine, 0.0))

    def _finish(self, running: _Running) -> Sequence[Event]:
        spec, outcome = running.spec, running.outcome
        del self._running[spec.attempt]
        self._leave(running)
        if outcome.error is not None:
            return self._report(running.machine, TaskFailed(spec.attempt, outcome.error, outcome.retryable))
        parts = spec.stage.layout.parts
        size = 8 * outcome.rows if outcome.bytes is None else outcome.bytes
        sizes = size if isinstance(size, tuple) else (size * parts,)
        now = self.clock.now()
        seconds = now - running.taken
        width = spec.stage.width * spec.shared
        committed = Committed(
            spec.key, (outcome.rows * parts,), sizes, seconds, outcome.cpu_seconds, width=width,
            called=outcome.called,
        )  # fmt: skip
        known = self._committed.get(spec.key)
        if known is None:
            self._committed[spec.key] = committed, {spec.attempt.task.job}
            self._parts[spec.key.content] = self._parts.get(spec.key.content, 0) + 1
            self._made[spec.key] = running.machine, size
        else:
            known[1].add(spec.attempt.task.job)
        account = running.account(now)
        return self._report(running.machine, TaskSucceeded(spec.attempt, committed, account))

    def _end_stopped(self, attempt: AttemptId) -> Sequence[Event]:
        found = self._running.pop(attempt, None)
        if found is None:
            return ()
        self._leave(found)
        return self._report(found.machine, TaskStopped(attempt))

    def _change(self, event: Happening) -> Sequence[Event]:
        match event:
            case MachineSlowed(machine, factor):
                self._slow(machine, factor)
                return []
            case MachineShared(machine, threads):
                self._share(machine, threads)
                return []
            case MachineJoined(machine, capacity):
                self._have(machine, capacity)
            case MachineLost(machine):
                self._lose(machine)
            case SlotsChanged(machine, capacity):
                self._have(machine, capacity)
                self._evict(machine, capacity)
            case CheckpointLost(key):
                self._drop(key)
        return [event]

    def _lose(self, machine: MachineId) -> None:
        self._machines.pop(machine, None)
        if self._transfers is not None:
            self._transfers.lose(machine)
        for known in (
            self._slowness,
            self._others,
            self._worker_pools,
            self._nodes,
        ):  # who joins under its name is another one
            known.pop(machine, None)
        for attempt in [attempt for attempt, one in self._running.items() if one.machine == machine]:
            del self._running[attempt]
        for effort in [effort for effort in self._efforts if effort.machine == machine]:
            del self._efforts[effort]
        for key in [key for key in self._devices if key[0] == machine]:
            del self._devices[key]

    def _have(self, machine: MachineId, capacity: Resources) -> None:
        """A machine of that size, with a worker for each slot; new kernels are opened while tasks run."""
        before, self._machines[machine] = self._machines.get(machine, capacity), capacity
        if self._transfers is not None:
            self._transfers.have(machine, capacity.network)
        if self._queueing is not None:
            self._nodes.setdefault(machine, QueueingNode(capacity, self._queueing)).capacity = capacity
            self._plan(self.clock.now(), partial(self._next_at, machine))
        for key in [key for key in self._devices if key[0] == machine]:
            self._devices[key].change(_rate(capacity, key[1]), self.clock.now())
            self._plan_moved(key)
        if self._with_worker_pools:
            self._worker_pools.setdefault(machine, WorkerPool(0))
            self._staff(machine, fresh=capacity.memory < before.memory)

    def _staff(self, machine: MachineId, fresh: bool = False) -> None:
        """Have a worker for each slot, and for each attempt on top of these; new kernels are opened while tasks run."""
        worker_pool = self._worker_pools.get(machine)
        if worker_pool is None:
            return
        extra = sum(one.machine == machine and one.spec.extra for one in self._running.values())
        for worker in worker_pool.staff(int(self._machines[machine].cpu) + extra, fresh):
            self._work_at(machine, 1.0, self._kernels.opening, partial(self._opened, machine, worker_pool, worker))

    def _opened(self, machine: MachineId, worker_pool: WorkerPool[_Running], worker: Worker) -> Sequence[Event]:
        self._look_for_work(machine, worker_pool, worker)
        return ()

    def _evict(self, machine: MachineId, capacity: Resources) -> None:
        """Revoke attempts that no longer fit; those begun first are the last to go."""
        here = [
            attempt
            for attempt, running in self._running.items()
            if running.machine == machine
            and attempt not in self._revoked
            and not running.spec.extra
            and not self._waits(running)
        ]
        specs = [self._running[attempt].spec for attempt in here]
        kept = shrunk_to_fit([(spec.resources, bool(spec.most)) for spec in specs], capacity)
        for attempt, spec, resources in zip(here, specs, kept, strict=True):
            if resources is None:
                self._revoked.add(attempt)
                self._plan(self.clock.now() + self._kernels.stopping, partial(self._end_revoked, attempt))
            elif resources != spec.resources:
                self.regrant(attempt, resources)

    def _waits(self, running: _Running) -> bool:
        """True if it has no slot yet, but waits for one."""
        node = self._nodes.get(running.machine)
        return node is not None and running.spec.attempt in node.queue

    def _change_grant(self, attempt: AttemptId, resources: Resources) -> Sequence[Event]:
        """Let an elastic attempt go on with other resources."""
        running = self._running.get(attempt)
        if running is None or attempt in self._revoked or not running.spec.most:
            return ()
        before, running.spec = running.spec.resources, replace(running.spec, resources=resources)
        effort = running.effort
        if effort is not None:
            effort.advance(self.clock.now())
            effort.work *= duration_ratio(before.cpu, resources.cpu)
            effort.threads = resources.cpu
            self._plan_end(effort)
            self._crowd(running.machine)
        if running.machine in self._nodes and not running.queued:
            self._nodes[running.machine].hold(attempt, resources)
        return self._report(running.machine, TaskRegranted(attempt, resources))

    def _end_revoked(self, attempt: AttemptId) -> Sequence[Event]:
        self._revoked.discard(attempt)
        found = self._running.pop(attempt, None)
        if found is None:
            return ()
        self._leave(found)
        failed = TaskFailed(attempt, Revoked(f"{found.machine} lost the slot"), retryable=True)
        return self._report(found.machine, failed)


def _rate(machine: Resources, device: Device) -> float:
    """Bytes in the second of a device of a machine; 0: no limit."""
    return machine.disk if device == "disk" else machine.network
