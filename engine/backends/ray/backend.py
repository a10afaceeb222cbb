"""The nodes of a Ray cluster as machines.

On every node lives one actor, which holds what `LocalBackend` holds on one machine: a thread with a warm kernel for
each slot, and a store of outputs. Ray starts and places it (node affinity) and says which nodes there are; it is never
given a graph of tasks (law 5). Orders and events go by a connection of our own (`connection`). What a node has put out
stays there, and is read by other nodes and by the session from it (`peers`); durable outputs are also written behind to
the directory of checkpoints, which all nodes share. Parts of the answer are brought to the session's process before
they count as made. When a node is lost, what is in that directory is read from there, and the rest is redone.

One actor a node, not one a slot, since the slots of a node then share their store, and broadcast inputs are fetched
once. A task that does nothing takes 1.1 ms so, in this process 0.6 ms (2 slots).

Where granted tasks wait at nodes and sessions share them, one process a node serves all sessions (`agent`).

Threads here: one a node waits for its events; one looks at the cluster's nodes, one at what other sessions leave, and
one tells agents that this session lives.
`wait` takes from a queue.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from qoop.catalog.errors import CheckpointError, ConfigError, ExecutionError, QoopError
from qoop.catalog.value import changed
from qoop.engine.backends.attempt_runner import Read
from qoop.engine.backends.base import happened
from qoop.engine.backends.ray.channel import Channel, OwnProcess, SharedAgent
from qoop.engine.backends.ray.connection import new_key
from qoop.engine.backends.ray.home import Home
from qoop.engine.backends.ray.machines import Machine, Membership, Recruits, Share, end_all, pinned
from qoop.engine.backends.ray.nodes import Attachment, ControlAway, Node, host, living, load, seconds_left
from qoop.engine.backends.ray.orders import (
    NO_STAGE,
    Allow,
    Begin,
    Change,
    Drop,
    End,
    Order,
    Promote,
    stage_text,
)
from qoop.engine.backends.ray.outputs import Outputs
from qoop.engine.backends.ray.peers import AT_ONCE, Peers, new_secret
from qoop.engine.backends.ray.threads import Threads
from qoop.engine.backends.ray.tls import uses_tls
from qoop.engine.backends.ray.worker import NodeConfig
from qoop.engine.clock import WallClock
from qoop.engine.events import (
    Begun,
    CapacityNotice,
    CheckpointLost,
    CheckpointSaved,
    Committed,
    Event,
    MachineJoined,
    MachineLost,
    Queued,
    SlotsChanged,
    TaskFailed,
    TaskStopped,
    TaskSucceeded,
)
from qoop.engine.failures import to_failure
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.shared import Member
from qoop.engine.storage.checkpoint import verify
from qoop.engine.storage.manifest import Saved
from qoop.engine.storage.retention import Retention
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskSpec
from qoop.planner.plan import Resources

_PAUSE = 0.5  # seconds between readings of the cluster's nodes
_SHARE = 0.2  # seconds between talks about the share
_SILENCE = 1.0  # seconds after which it is looked whether a node that says nothing is still there
_AGAIN = 5.0  # seconds for which agents that end as this session comes are called up again
_NOTHING = Retention()
_NO_JOB: JobId = ""  # releases what was only looked up
_logger = logging.getLogger(__name__)


class RayBackend:
    """Runs attempts on the nodes of a Ray cluster (see :class:`~qoop.engine.backends.base.Backend`).

    address: see :func:`~qoop.engine.backends.ray.nodes.attach`. retention: as for a local one; all nodes must
    have its directory. spill_dir: where each node makes a temporary directory. share: with other
    sessions, which also keeps Ray from giving the resources to others; None: this one has the nodes to itself.
    tls: between its processes; None: see :mod:`qoop.engine.backends.ray.tls`. queueing: how granted tasks wait at the
    nodes; None: none does. exchange: how tasks read from other nodes (`peers`).
    Raises ConfigError for want of Ray, or of a cluster with at least one node that has a CPU.
    """

    def __init__(
        self,
        address: str = "auto",
        retention: Retention = _NOTHING,
        spill_dir: Path | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        share: Share | None = None,
        tls: bool | None = None,
        queueing: NodeQueueing | None = None,
        exchange: str = AT_ONCE,
    ) -> None:
        self._ray = load()
        self._attachment = Attachment(address, runtime_env)
        self._retention, self._spill = retention, spill_dir
        self._clock = WallClock()
        self._share = share
        self._queueing, self._exchange = queueing, exchange
        self._secret, self._key = new_secret(), new_key()
        self._tls = uses_tls(tls, host())
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._lock = threading.RLock()  # guards what follows
        self._machines: dict[MachineId, Machine] = {}
        self._attempts: dict[AttemptId, tuple[Machine, TaskSpec]] = {}  # where
        self._outputs = Outputs()
        self._doubtful: set[CheckpointKey] = set()  # a node that held them is gone; their other copies are looked up
        self._put_off: list[tuple[Machine, TaskSpec]] = []  # attempts that read such, until that is known
        self._recruits = Recruits(self._ray, self._post, self._key, self._tls, share is not None)
        self._membership = Membership(self._recruits)
        self._threads = Threads(self.wake)
        self._home = Home(spill_dir, retention, self._events.put, self._secret, self._tls)
        self.store = self._home.store
        self._peers = Peers(self._tls)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        found = living()
        if not found:
            raise ConfigError("no node of the Ray cluster has a CPU to give")
        if self._member is not None:
            self._threads.run("qoop-ray-lives", self._keep_alive)
        deadline = time.monotonic() + _AGAIN
        self._meet(found.values())
        while not self._machines and self._member is not None and time.monotonic() < deadline:
            time.sleep(_SHARE)  # agents may just have ended, as others left
            self._meet(found.values())
        if not self._machines:
            raise ExecutionError("no node of the Ray cluster could be used; see its logs")
        if self._share is not None:
            self._take_share()
            self._threads.run("qoop-ray-share", self._keep_share)
        self._threads.run("qoop-ray-nodes", self._watch)

    def _meet(self, nodes: Iterable[Node]) -> None:
        """Call the nodes up, and wait for them."""
        self._recruits.call_up(nodes)
        while self._recruits:
            for machine in self._recruits.arrived(_PAUSE):
                self._admit(machine)

    # What the driver calls

    def machines(self) -> Mapping[MachineId, Resources]:
        """The nodes; the memory of each is what its kernels may use."""
        with self._lock:
            return {name: machine.capacity for name, machine in self._machines.items()}

    def start(self, machine: MachineId, spec: TaskSpec, queued: bool = False) -> None:
        """Have the node begin an attempt; sent when `wait` is called next. queued: it was reported that it is."""
        with self._lock:
            found = self._machines.get(machine)
            if found is None:  # it was lost, which the driver is about to hear
                return
            self._attempts[spec.attempt] = found, spec
            if self._doubtful and any(key in self._doubtful for item in spec.inputs for key in item.keys):
                self._put_off.append((found, spec))
                if not queued:
                    self._events.put(Queued(spec.attempt))
            else:
                self._begin(found, spec, queued)

    def _begin(self, machine: Machine, spec: TaskSpec, queued: bool = False) -> None:
        keys = list(dict.fromkeys(key for item in spec.inputs for key in item.keys))
        self._outputs.pin(keys, spec.attempt.task.job)
        away = self._outputs.places(keys, machine, self._home.place)
        places = tuple((place, tuple(those)) for place, those in away.items())
        tables = tuple(map(self._home.offered, machine.new_tables(spec)))
        functions, calls = machine.new_functions(spec), tuple(one.key for one in spec.functions)
        sent = changed(spec, stage=NO_STAGE, tables={}, functions=())
        machine.orders.append(Begin(sent, stage_text(spec.stage), tables, places, functions, calls, queued))

    def stop(self, attempt: AttemptId) -> None:
        """Interrupt an attempt."""
        with self._lock:
            found = self._attempts.get(attempt)
            if found is None:
                return
            waiting = [one for one in self._put_off if one[1].attempt != attempt]
            if len(waiting) == len(self._put_off):
                found[0].orders.append(End(attempt))
                return
            self._put_off = waiting
            del self._attempts[attempt]
            self._events.put(TaskStopped(attempt))

    def regrant(self, attempt: AttemptId, resources: Resources) -> None:
        """Let an elastic attempt go on with other resources."""
        self._pass_on(attempt, Change(attempt, resources))

    def promote(self, attempt: AttemptId) -> None:
        """Have its node count it among those that have a slot."""
        self._pass_on(attempt, Promote(attempt))

    def _pass_on(self, attempt: AttemptId, order: Order) -> None:
        """Tell the node of an attempt, if that has not ended."""
        with self._lock:
            found = self._attempts.get(attempt)
            if found is not None:
                found[0].orders.append(order)

    def resize(self, slots: int | None, memory: int | None) -> None:
        """Raises ConfigError."""
        raise ConfigError("the nodes of a Ray cluster have what they have: add nodes to it, or take some away")

    def announce(self, slots: int | None, memory: int | None, at: float) -> None:
        """Raises ConfigError."""
        self.resize(slots, memory)

    def wait(self, timeout: float | None) -> Sequence[Event]:
        """Tell the nodes what they are to do, then block until something happened; return all that did.

        Raises ExecutionError if the nodes are not looked after any more: this process has left the cluster."""
        self._send()
        found = happened(self._events, timeout)
        if (failure := self._threads.failure) is not None:
            raise ExecutionError(f"the Ray cluster cannot be followed any more: {failure}") from failure
        return found

    def wake(self) -> None:
        """Make a blocked `wait` return."""
        self._events.put(None)

    def present(self, keys: Sequence[CheckpointKey], job: JobId | None = None) -> Sequence[Committed]:
        """Those of the keys that a node holds, or the directory of checkpoints; kept for the job, if one is named."""
        self._send()
        with self._lock:
            found = self._outputs.facts(keys)
            retained = self._outputs.retained(found)
        gone = {key for those in retained.values() for key in those} - pinned(self._ray, retained, job)
        with self._lock:
            self._outputs.forget(gone)
            found = self._outputs.facts(key for key in found if key not in gone)
            if job is not None:
                self._outputs.pin(found, job)
        missing = [key for key in keys if key not in found]
        return [*found.values(), *self.store.present(missing, job)]

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """The job no longer needs these outputs; the nodes drop what no other does."""
        with self._lock:
            for machine in self._machines.values():
                machine.orders.append(Drop(job, tuple(keys)))
            self._outputs.unpin(keys, job, self._retention.retain)
        self.store.release(job, keys)  # last: a look-up meanwhile sees that the job has no need of them

    def read(self, key: CheckpointKey, partition: int | None = None) -> pa.Table:
        """The rows of an output, from where it is. Raises CheckpointError."""
        with self._lock:
            output = self._outputs.get(key)
        if output is not None and output.machine is not None and not self.store.has(key):
            read: Read = (key, partition)
            try:
                return pa.concat_tables(self._peers.read(output.machine.place, [read])[0])
            except CheckpointError:
                if not output.saved:
                    raise
        return self.store.read(key, partition)

    def adopt(self, found: Iterable[Saved], job: JobId) -> list[CheckpointKey]:
        """Hold checkpoints that lie in files of another process, until the job releases them; the nodes read them from
        this process."""
        adopted = list(found)
        keys = self.store.adopt(adopted, job)
        with self._lock:
            for saved in adopted:
                self._outputs.adopt(saved.committed, job)
        return keys

    def verify(self, keys: Sequence[CheckpointKey]) -> None:
        """Read outputs that are held in files, so that those that cannot be read are forgotten now."""
        verify(self.store, keys)

    def close(self) -> None:
        """Stop all attempts, end the actors, join all threads. The last session leaves Ray, if a session joined it."""
        if self._threads.closed.is_set():
            return
        self._threads.closed.set()
        self._events.put(None)
        with self._lock:
            machines, self._machines = list(self._machines.values()), {}
        end_all(self._ray, machines)
        self._threads.join()
        if self._share is not None:
            self._share.leave()
        self._recruits.abandon()
        self._peers.close()
        self._home.close()
        self._attachment.leave()

    # Orders

    def _send(self) -> None:
        """Without the lock: a node that has vanished may take nothing any more, and is given up meanwhile."""
        sent = []
        with self._lock:
            for machine in self._machines.values():
                if machine.orders:
                    sent.append((machine.channel, machine.orders))
                    machine.orders = []
        for channel, orders in sent:
            channel.obey(orders)

    # Sharing them

    def _keep_share(self) -> None:
        while not self._threads.closed.wait(_SHARE):
            self._take_share()

    def _keep_alive(self) -> None:
        """Have agents hear of this session, whatever else it waits for."""
        while not self._threads.closed.wait(_SILENCE):
            with self._lock:
                for machine in self._machines.values():
                    machine.channel.live()

    def _take_share(self) -> None:
        """Report the use of slots, and take the slots that the arbiter grants."""
        assert self._share is not None
        with self._lock:
            slots = {name: int(machine.whole.cpu) for name, machine in self._machines.items()}
            used: Counter[MachineId] = Counter()
            for machine, spec in self._attempts.values():
                if not spec.waits:
                    used[machine.name] += int(spec.resources.cpu)
        for name, count in (self._share.tick(slots, used) or {}).items():
            self._give(name, count)

    def _give(self, name: MachineId, slots: int) -> None:
        with self._lock:
            machine = self._machines.get(name)
            if self._member is not None:
                slots = max(1, slots)  # its tasks take turns with those of others at the node
            if machine is None or machine.slots == slots:
                return
            machine.slots = slots
            if self._queueing is not None and self._member is None:
                machine.orders.append(Allow(machine.capacity))
            changed = SlotsChanged(name, machine.capacity, "sessions share it")
        self._events.put(changed)

    # Nodes that come and go

    def _post(self, node: Node) -> Channel:
        """Begin a process on a node, or find the agent there. Resources are reserved for all sessions at once
        (`reservation`)."""
        rules = (self._spill, self._retention, self._secret, self._key, self._tls, self._queueing, self._exchange)
        config = NodeConfig(node.machine, node.slots, node.memory, *rules)
        member = self._member
        return OwnProcess(node, config) if member is None else SharedAgent(node, config, member)

    @property
    def _member(self) -> Member | None:
        """The member that shares the agents of nodes; None: it has its own processes."""
        return self._share.member if self._share is not None and self._queueing is not None else None

    def _admit(self, machine: Machine) -> None:
        with self._lock:
            self._machines[machine.name] = machine
        self._threads.run(f"qoop-{machine.name}", self._listen, machine)

    def _watch(self) -> None:
        """Look which nodes there are, again and again."""
        away = False
        while not self._threads.closed.wait(_PAUSE):
            try:
                self._check_nodes()
            except (ControlAway, self._ray.exceptions.RpcError) as error:  # the actors are still there
                if not away:
                    _logger.warning("the control service of the Ray cluster does not answer: %s", error)
                away = True
            else:
                if away:
                    _logger.info("the control service of the Ray cluster answers again")
                away = False

    def _check_nodes(self) -> None:
        found = living()
        with self._lock:
            known = {machine.node.id: machine for machine in self._machines.values()}
        for id_ in known.keys() - found.keys():
            self._lose(known[id_])
        changes = self._membership.compare(found, known.keys())
        for machine in changes.joined:
            self._admit(machine)
            self._events.put(MachineJoined(machine.name, machine.capacity))
        for name, node in changes.leaving.items():
            self._events.put(CapacityNotice(name, Resources(), self._clock.now() + seconds_left(node)))

    def _listen(self, machine: Machine) -> None:
        """Take the events of a node until it is gone; the connection to one that has vanished may just be silent."""
        while not self._threads.closed.is_set() and self._machines.get(machine.name) is machine:
            try:
                found = machine.channel.hear(_SILENCE)
            except OSError:
                if not self._threads.closed.is_set():
                    self._lose(machine)
                return
            for event in found:
                self._take(machine, event)

    def _take(self, machine: Machine, event: Event) -> None:
        if isinstance(event, TaskSucceeded):
            event = self._brought(machine, event)
        with self._lock:
            match event:
                case Begun(attempt) if attempt in self._attempts:
                    where, spec = self._attempts[attempt]
                    self._attempts[attempt] = where, replace(spec, ticket=None)
                case TaskSucceeded(attempt, committed):
                    self._attempts.pop(attempt, None)
                    if not self._outputs.put(machine, attempt.task.job, committed):
                        machine.orders.append(Drop(attempt.task.job, (committed.key,)))
                case TaskFailed(attempt) | TaskStopped(attempt):
                    self._attempts.pop(attempt, None)
                case CheckpointLost(key):
                    self._outputs.forget([key])
                case CheckpointSaved(_, key, kept=True):
                    self._outputs.mark_saved(key)
        self._events.put(event)

    def _brought(self, machine: Machine, event: TaskSucceeded) -> TaskSucceeded | TaskFailed:
        """The report of an output, once it is here too if it is part of the answer: between the end of a job and the
        reading of its answer no node may take it away."""
        with self._lock:
            found = self._attempts.get(event.attempt)
        if found is None or not found[1].answer:
            return event
        committed, job = event.committed, event.attempt.task.job
        try:
            [partitions] = self._peers.read(machine.place, [(committed.key, None)])
            return replace(event, committed=self.store.put(committed, job, partitions))
        except QoopError as error:
            with self._lock:
                machine.orders.append(Drop(job, (committed.key,)))
            return TaskFailed(event.attempt, *to_failure(error, found[1]))

    def _lose(self, machine: Machine) -> None:
        """A node, or its actor, is gone with all that only it held.

        What is in the directory of checkpoints is looked up without the lock, for that may be far away. The driver
        hears of the loss once it is known what that is.
        """
        with self._lock:
            if self._machines.get(machine.name) is not machine:
                return
            del self._machines[machine.name]
            self._membership.lose(machine)
            self._attempts = {name: place for name, place in self._attempts.items() if place[0] is not machine}
            there = self._outputs.on(machine)
            self._doubtful.update(there)
        self._peers.forget(machine.place)
        machine.channel.abandon()
        found = self._home.in_files(there)
        with self._lock:
            self._doubtful.difference_update(there)
            moved = self._outputs.moved(machine, there, found)
            self.store.release(_NO_JOB, moved.released)
            for key, jobs in moved.to_files.items():
                for job in jobs:
                    self.store.hold(job, [key])
            self._events.put(MachineLost(machine.name))
            for key in moved.lost:
                self._events.put(CheckpointLost(key))
            waiting, self._put_off = self._put_off, []
            for where, spec in waiting:
                if spec.attempt in self._attempts:
                    self.start(where.name, spec, queued=True)
