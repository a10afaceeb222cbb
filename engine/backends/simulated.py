"""Machines that run nothing: scripted durations and failures under a virtual clock.

For tests of the core, and the ground on which simulations stand (law 3). Time stands still until `wait`
finds nothing to report; then it moves to the next thing that happens. What happens at one moment happens in the
order in which it was planned, so the same script and calls give the same reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from qoop.catalog.errors import CheckpointError, Revoked
from qoop.engine.backends.agenda import Agenda
from qoop.engine.backends.devices import Device, Devices
from qoop.engine.backends.efforts import Efforts
from qoop.engine.backends.outcomes import Happening, MachineShared, MachineSlowed, Outcome, as_estimated
from qoop.engine.backends.simulated_nodes import MachineModel, SimulatedAttempt, resized
from qoop.engine.backends.simulated_outputs import SimulatedOutputs
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
from qoop.engine.exchanges.terms import Exchanged
from qoop.engine.exchanges.transfers import Transfers
from qoop.engine.node_queues.node import QueueingNode
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.ticket import JobLeft
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskSpec
from qoop.planner.packing import duration_ratio, shrunk_to_fit
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    import pyarrow as pa

_IDEAL = MachineModel()


class SimulatedBackend:
    """A backend whose attempts come to what `script` says of them.

    model: how machines behave. queueing: how granted tasks wait at them; None: they do not, so what was granted begins.
    alone: no other thread will wake it: `wait` returns with nothing if nothing will ever happen.
    `left_of` is called at each report of a machine where tasks wait: what jobs have left.
    `started`: all attempts so far. `task_events`: their number and that of the reports about them.
    `start`, `stop`, `wait` are for one thread; `wake`, `happen` and `appoint` for any.
    """

    def __init__(
        self,
        machines: Mapping[MachineId, Resources],
        clock: VirtualClock,
        script: Callable[[TaskSpec], Outcome] = as_estimated,
        model: MachineModel = _IDEAL,
        alone: bool = False,
        queueing: NodeQueueing | None = None,
    ) -> None:
        self.clock = clock
        self.left_of: Callable[[JobId], JobLeft | None] = lambda _: None
        self._heartbeats = model.heartbeats
        self._queueing = queueing
        self._nodes = {name: QueueingNode(capacity, queueing) for name, capacity in machines.items() if queueing}
        self._beating: set[MachineId] = set()
        self.started: list[TaskSpec] = []
        self.task_events = 0
        self._machines = dict(machines)
        self._script = script
        self._kernels = model.kernels or Kernels()
        self._agenda = Agenda(clock, alone)
        self._efforts = Efforts(self._agenda, clock, model.crowding)
        self._devices: Devices[SimulatedAttempt] = Devices(self._agenda, clock)
        self._outputs = SimulatedOutputs()
        self._running: dict[AttemptId, SimulatedAttempt] = {}
        self._worker_pools: dict[MachineId, WorkerPool[SimulatedAttempt]] = {}
        self._with_worker_pools = model.kernels is not None
        if self._with_worker_pools:
            read = self._kernels.read
            self._worker_pools = {
                machine: WorkerPool(int(capacity.cpu), read) for machine, capacity in machines.items()
            }
        self._revoked: set[AttemptId] = set()
        self._closed = False
        self._exchanges = model.exchanges
        self._transfers: Transfers | None = None
        if model.exchanges is not None:
            self._transfers = Transfers(model.exchanges, clock.now, self._agenda.after)
            for name, capacity in machines.items():
                self._transfers.have(name, capacity.network)

    # --- the backend's methods ------------------------------------------------------------------------------

    def machines(self) -> Mapping[MachineId, Resources]:
        return dict(self._machines)

    def start(self, machine: MachineId, spec: TaskSpec) -> None:
        self.started.append(spec)
        self.task_events += 1
        missing = self._outputs.missing(spec)
        if missing is not None:
            outcome = Outcome(0.0, CheckpointError(f"{spec.attempt} reads {missing}, which is not there"))
        else:
            outcome = self._script(spec)
        self._running[spec.attempt] = running = SimulatedAttempt(machine, spec, outcome, self.clock.now())
        if spec.extra:
            self._staff(machine)
        if self._queueing is None and not self._heartbeats.launching:
            self._begin(running)
        else:
            self._agenda.plan(self.clock.now() + self._heartbeats.launching, partial(self._arrive, running))

    def stop(self, attempt: AttemptId) -> None:
        waits = any(attempt in node.queue for node in self._nodes.values()) if self._nodes else False
        seconds = 0.0 if waits else self._kernels.stopping
        at = self.clock.now() + self._heartbeats.launching + seconds
        self._agenda.plan(at, lambda: self._end_stopped(attempt))

    def regrant(self, attempt: AttemptId, resources: Resources) -> None:
        self._agenda.plan(self.clock.now(), lambda: self._change_grant(attempt, resources))

    def promote(self, attempt: AttemptId) -> None:
        running = self._running.get(attempt)
        if running is not None:
            running.spec = replace(running.spec, extra=False)
            self._staff(running.machine)

    def resize(self, slots: int | None, memory: int | None) -> None:
        """Of a single machine; where there are several, let it `happen`."""
        self.happen(SlotsChanged(*resized(self._machines, slots, memory)), at=self.clock.now())

    def announce(self, slots: int | None, memory: int | None, at: float) -> None:
        self.happen(CapacityNotice(*resized(self._machines, slots, memory), at), at=self.clock.now())

    def wait(self, timeout: float | None) -> Sequence[Event]:
        return self._agenda.wait(timeout)

    def wake(self) -> None:
        self._agenda.wake()

    def present(self, keys: Sequence[CheckpointKey], job: JobId | None = None) -> Sequence[Committed]:
        return self._outputs.present(keys, job)

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        self._outputs.release(job, keys)

    def read(self, key: CheckpointKey, partition: int | None = None) -> pa.Table:
        raise CheckpointError(f"{key} is a simulated output: it has no rows to read")

    def close(self) -> None:
        self._running.clear()
        self._efforts.clear()
        self._outputs.clear()
        self._closed = True

    def happen(self, event: Happening, at: float) -> None:
        """Let a change of machines, or a lost checkpoint, happen at this time."""
        self._agenda.plan(at, lambda: self._change(event))
        self.wake()

    def appoint(self, action: Callable[[], object], at: float) -> None:
        """Have the thread that waits at this time do something; what that returns is ignored."""
        self._agenda.plan(at, lambda: (action(), ())[1])
        self.wake()

    @property
    def idle(self) -> bool:
        """True if nothing will happen any more, unless another thread plans it."""
        return self._agenda.idle

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
        return tuple(self._outputs)

    def _report(self, machine: MachineId, event: Event) -> Sequence[Event]:
        self.task_events += 1
        return self._reported(machine, event)

    def _reported(self, machine: MachineId, event: Event) -> Sequence[Event]:
        """Have the scheduler hear of something at the next report of a machine."""
        if not self._heartbeats.seconds:
            return (event,)
        self._agenda.plan(self._heartbeats.next(machine, self.clock.now()), lambda: (event,))
        return ()

    def _arrive(self, running: SimulatedAttempt) -> Sequence[Event]:
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
            return self._reported(running.machine, Queued(spec.attempt))
        return begun

    def _begin_all(self, machine: MachineId, attempts: Sequence[AttemptId]) -> Sequence[Event]:
        """Attempts that waited at a machine begin."""
        events: list[Event] = []
        for attempt in attempts:
            running = self._running[attempt]
            waited, running.queued = running.waited, False
            if waited or running.spec.waits:
                events += self._reported(machine, Begun(attempt))
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
            self._agenda.plan(self._heartbeats.next(machine, self.clock.now()), partial(self._beats, machine))

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

    def _begin(self, running: SimulatedAttempt) -> None:
        """The attempt has its slot: a worker takes it up, or will."""
        worker_pool = self._worker_pools.get(running.machine)
        worker = worker_pool.take(running) if worker_pool is not None else None
        if worker_pool is None or worker is not None:
            self._take_up(running, worker)
        else:
            running.queued = True
            self._agenda.plan(self.clock.now(), partial(self._tell_queued, running))

    def _take_up(self, running: SimulatedAttempt, worker: Worker | None) -> None:
        """The attempt begins its work, with a worker."""
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

    def _ask(self, running: SimulatedAttempt, ahead: bool) -> None:
        """Have what an attempt reads brought in from other machines."""
        if self._transfers is not None:
            pieces = self._outputs.pieces(running.spec, running.machine, () if self._stored_only else self._machines)
            self._transfers.begin(running.machine, running.spec, pieces, ahead)

    @property
    def _stored_only(self) -> bool:
        return self._exchanges is not None and self._exchanges.store.only

    def _compute_if_there(self, running: SimulatedAttempt, seconds: float) -> None:
        if self._running.get(running.spec.attempt) is running:
            self._compute(running, seconds)

    def _compute(self, running: SimulatedAttempt, seconds: float) -> Sequence[Event]:
        """Begin the work, as what it reads is there; then it moves what did not fit its memory."""
        running.read = self.clock.now()
        threads = max(1.0, running.spec.resources.cpu)
        running.effort = self._efforts.begin(running.machine, threads, seconds, partial(self._spill, running))
        return ()

    def _spill(self, running: SimulatedAttempt) -> Sequence[Event]:
        running.computed = self.clock.now()
        if running.outcome.spilled <= 0:
            return self._finish(running)
        return self._move(running, "disk", running.outcome.spilled, partial(self._finish, running))

    def _move(
        self, running: SimulatedAttempt, device: Device, amount: float, then: Callable[[], Sequence[Event]]
    ) -> Sequence[Event]:
        """Have the attempt move bytes by a device of its machine, which others use, too; then something follows."""
        machine = running.machine
        return self._devices.move(running, machine, self._machines.get(machine, Resources()), device, amount, then)

    def _leave(self, running: SimulatedAttempt) -> None:
        """The attempt has gone: others may be faster now, and its worker takes up another."""
        if self._transfers is not None:
            self._transfers.leave(running.spec.attempt)
        if running.effort is not None:
            self._efforts.rest(running.effort)
        self._devices.leave(running)
        if running.spec.extra:
            self._staff(running.machine)
        worker_pool = self._worker_pools.get(running.machine)
        if worker_pool is not None and running.worker is None:
            worker_pool.withdraw(running)
        elif worker_pool is not None and running.worker is not None:
            self._find_work(running.machine, worker_pool, running.worker)
        node = self._nodes.get(running.machine)
        if node is None:
            return
        node.release(running.spec.attempt)
        if len(node.queue):  # once the end of this one is reported
            self._agenda.plan(self.clock.now(), partial(self._next_at, running.machine))

    def _find_work(self, machine: MachineId, worker_pool: WorkerPool[SimulatedAttempt], worker: Worker) -> None:
        if self._worker_pools.get(machine) is not worker_pool:  # the machine is lost
            return
        following = worker_pool.idle(worker)
        if following is not None:
            self._take_up(following, worker)
            self._agenda.plan(self.clock.now(), partial(self._tell_begun, following))

    def _tell_queued(self, running: SimulatedAttempt) -> Sequence[Event]:
        """Unless a worker has taken it up since, or it is gone."""
        return (Queued(running.spec.attempt),) if running.queued and running.worker is None else ()

    def _tell_begun(self, running: SimulatedAttempt) -> Sequence[Event]:
        return (Begun(running.spec.attempt),) if running.spec.attempt in self._running else ()

    def _finish(self, running: SimulatedAttempt) -> Sequence[Event]:
        spec, outcome = running.spec, running.outcome
        del self._running[spec.attempt]
        self._leave(running)
        if outcome.error is not None:
            return self._report(running.machine, TaskFailed(spec.attempt, outcome.error, outcome.retryable))
        now = self.clock.now()
        committed, size = outcome.committed(spec, now - running.taken)
        self._outputs.commit(committed, spec.attempt.task.job, running.machine, size)
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
                self._efforts.slow(machine, factor)
                return []
            case MachineShared(machine, threads):
                self._efforts.share(machine, threads)
                return []
            case MachineJoined(machine, capacity):
                self._have(machine, capacity)
            case MachineLost(machine):
                self._lose(machine)
            case SlotsChanged(machine, capacity):
                self._have(machine, capacity)
                self._evict(machine, capacity)
            case CheckpointLost(key):
                self._outputs.drop(key)
        return [event]

    def _lose(self, machine: MachineId) -> None:
        self._machines.pop(machine, None)
        if self._transfers is not None:
            self._transfers.lose(machine)
        self._worker_pools.pop(machine, None)  # one that joins under its name is another
        self._nodes.pop(machine, None)
        for attempt in [attempt for attempt, one in self._running.items() if one.machine == machine]:
            del self._running[attempt]
        self._efforts.lose(machine)
        self._devices.lose(machine)

    def _have(self, machine: MachineId, capacity: Resources) -> None:
        """A machine of that size, with a worker for each slot; new kernels are opened while tasks run."""
        before, self._machines[machine] = self._machines.get(machine, capacity), capacity
        if self._transfers is not None:
            self._transfers.have(machine, capacity.network)
        if self._queueing is not None:
            self._nodes.setdefault(machine, QueueingNode(capacity, self._queueing)).capacity = capacity
            self._agenda.plan(self.clock.now(), partial(self._next_at, machine))
        self._devices.resize(machine, capacity)
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
            self._efforts.begin(
                machine, 1.0, self._kernels.opening, partial(self._opened, machine, worker_pool, worker)
            )

    def _opened(self, machine: MachineId, worker_pool: WorkerPool[SimulatedAttempt], worker: Worker) -> Sequence[Event]:
        self._find_work(machine, worker_pool, worker)
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
                self._agenda.plan(self.clock.now() + self._kernels.stopping, partial(self._end_revoked, attempt))
            elif resources != spec.resources:
                self.regrant(attempt, resources)

    def _waits(self, running: SimulatedAttempt) -> bool:
        """True if it has no slot yet, but waits for one."""
        node = self._nodes.get(running.machine)
        return node is not None and running.spec.attempt in node.queue

    def _change_grant(self, attempt: AttemptId, resources: Resources) -> Sequence[Event]:
        """Let an elastic attempt go on with other resources."""
        running = self._running.get(attempt)
        if running is None or attempt in self._revoked or not running.spec.most:
            return ()
        before, running.spec = running.spec.resources, replace(running.spec, resources=resources)
        if running.effort is not None:
            self._efforts.resize(running.effort, resources.cpu, duration_ratio(before.cpu, resources.cpu))
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
