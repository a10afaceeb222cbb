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

import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from qoop.catalog.errors import CheckpointError, ConfigError, ExecutionError, QoopError
from qoop.catalog.sources.memory import ArrowSource
from qoop.catalog.table import Table
from qoop.catalog.value import changed, value
from qoop.engine.backends.base import happened
from qoop.engine.backends.local_inputs import Read
from qoop.engine.backends.ray.channel import Channel, OwnProcess, SharedAgent
from qoop.engine.backends.ray.connection import new_key
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
from qoop.engine.backends.ray.peers import AT_ONCE, Peers, PeerServer, PeerTable, Place, new_secret
from qoop.engine.backends.ray.tls import uses_tls
from qoop.engine.backends.ray.worker import Introduced, NodeConfig
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
from qoop.engine.storage.checkpoint import Retention, Store
from qoop.engine.storage.manifest import Saved
from qoop.engine.storage.scratch import Scratch
from qoop.engine.task import AttemptId, CheckpointKey, JobId, MachineId, TaskSpec
from qoop.planner.plan import Resources

_PAUSE = 0.5  # seconds between readings of the cluster's nodes
_SHARE = 0.2  # seconds between talks about the share
_SILENCE = 1.0  # seconds after which it is looked whether a node that says nothing is still there
_REST = 2.0  # seconds for which a node is left alone that was lost: Ray may not have heard of it yet
_AGAIN = 5.0  # seconds for which agents that end as this session comes are called up again
_START = 120.0  # seconds that a node's actor may take to begin
_CLOSE = 15.0  # seconds that nodes are given to end
_HOST_STORE = 64 << 20  # bytes of outputs that the session's own process may hold in memory

_NOTHING = Retention()
_NO_JOB: JobId = ""  # releases what was only looked up
_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Machine:
    """A node with the way to it. whole: what it has for all sessions; slots: of these, this one's. orders: what it is
    to be sent at the end of the turn. tables, functions: that it knows."""

    name: MachineId
    node: Node
    channel: Channel
    place: Place
    whole: Resources
    slots: int
    orders: list[Order] = field(default_factory=list)
    tables: set[tuple[str, str]] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)

    @property
    def capacity(self) -> Resources:
        """The resources that this session may use: the same part of the memory as of the slots."""
        return Resources(self.slots, int(self.whole.memory * self.slots / self.whole.cpu))


@value
class _Recruit:
    """A process that has not said yet that it is there."""

    node: Node
    channel: Channel
    deadline: float


@dataclass(slots=True)
class _Output:
    """A committed output, the jobs that need it and which machine holds it (None: files alone do)."""

    committed: Committed
    machine: _Machine | None
    jobs: set[JobId]
    saved: bool = False


class Share(Protocol):
    """Divides the slots of machines with other sessions."""

    @property
    def member(self) -> Member:
        """This session, at the agents of nodes."""
        ...

    def tick(self, slots: Mapping[MachineId, int], used: Mapping[MachineId, int]) -> Mapping[MachineId, int] | None:
        """The slots that this session may have, given those that its attempts take; None: not known."""
        ...

    def leave(self) -> None:
        """This one takes no more part."""
        ...


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
        self._machines: dict[MachineId, _Machine] = {}
        self._attempts: dict[AttemptId, tuple[_Machine, TaskSpec]] = {}  # where
        self._outputs: dict[CheckpointKey, _Output] = {}
        self._doubtful: set[CheckpointKey] = set()  # a node that held them is gone; their other copies are looked up
        self._put_off: list[tuple[_Machine, TaskSpec]] = []  # attempts that read such, until that is known
        self._announced: dict[MachineId, float] = {}  # notices
        self._lost: dict[str, float] = {}  # when the process on which node was
        self._coming: dict[str, _Recruit] = {}  # by node; of one thread at a time
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failure: Exception | None = None  # of one of these threads
        self._scratch = Scratch(spill_dir)
        self.store = Store(_HOST_STORE, self._scratch.path, retention, self._events.put)
        self._server = PeerServer(host(), self.store, self._secret, self._tls)
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
            self._run(self._keep_alive, name="qoop-ray-lives")
        deadline = time.monotonic() + _AGAIN
        self._meet(found.values())
        while not self._machines and self._member is not None and time.monotonic() < deadline:
            time.sleep(_SHARE)  # agents may just have ended, as others left
            self._meet(found.values())
        if not self._machines:
            raise ExecutionError("no node of the Ray cluster could be used; see its logs")
        if self._share is not None:
            self._take_share()
            self._run(self._keep_share, name="qoop-ray-share")
        self._run(self._watch, name="qoop-ray-nodes")

    def _meet(self, nodes: Iterable[Node]) -> None:
        """Call the nodes up, and wait for them."""
        self._call_up(nodes)
        while self._coming:
            for machine in self._arrived(_PAUSE):
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

    def _begin(self, machine: _Machine, spec: TaskSpec, queued: bool = False) -> None:
        job, away = spec.attempt.task.job, dict[Place, list[CheckpointKey]]()
        for key in dict.fromkeys(key for item in spec.inputs for key in item.keys):
            output = self._outputs.get(key)
            if output is not None:
                output.jobs.add(job)
                if output.machine is None or output.machine is not machine:
                    place = self._server.place if output.machine is None else output.machine.place
                    away.setdefault(place, []).append(key)
        tables = tuple(self._abroad(table) for table in self._new_tables(machine, spec))
        places = tuple((place, tuple(keys)) for place, keys in away.items())
        functions = tuple(one for one in spec.functions if one.key not in machine.functions)
        machine.functions.update(one.key for one in functions)
        calls = tuple(one.key for one in spec.functions)
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
        if self._failure is not None:
            raise ExecutionError(f"the Ray cluster cannot be followed any more: {self._failure}") from self._failure
        return found

    def wake(self) -> None:
        """Make a blocked `wait` return."""
        self._events.put(None)

    def present(self, keys: Sequence[CheckpointKey], job: JobId | None = None) -> Sequence[Committed]:
        """Those of the keys that a node holds, or the directory of checkpoints; kept for the job, if one is named."""
        self._send()
        with self._lock:
            found = {key: output.committed for key in keys if (output := self._outputs.get(key)) is not None}
            retained = [key for key in found if not self._outputs[key].jobs and self._outputs[key].machine is not None]
        gone = set(retained) - self._retained(retained, job)
        with self._lock:
            for key in gone:
                found.pop(key)
                self._outputs.pop(key, None)
            for key in found:
                if job is not None:
                    self._outputs[key].jobs.add(job)
        missing = [key for key in keys if key not in found]
        return [*found.values(), *self.store.present(missing, job)]

    def release(self, job: JobId, keys: Sequence[CheckpointKey]) -> None:
        """The job no longer needs these outputs; the nodes drop what no other does."""
        with self._lock:
            for machine in self._machines.values():
                machine.orders.append(Drop(job, tuple(keys)))
            for key in keys:
                output = self._outputs.get(key)
                if output is not None:
                    output.jobs.discard(job)
                    if not output.jobs and not (self._retention.retain and output.machine is not None):
                        del self._outputs[key]
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
                self._outputs.setdefault(saved.committed.key, _Output(saved.committed, None, set())).jobs.add(job)
        return keys

    def verify(self, keys: Sequence[CheckpointKey]) -> None:
        """Read outputs that are held in files, so that those that cannot be read are forgotten now."""
        self.store.verify(keys)

    def close(self) -> None:
        """Stop all attempts, end the actors, join all threads. The last session leaves Ray, if a session joined it."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._events.put(None)
        with self._lock:
            machines, self._machines = list(self._machines.values()), {}
        self._end(machines)
        for thread in self._threads:
            thread.join()
        if self._share is not None:
            self._share.leave()
        self._end(self._coming.values())
        self._peers.close()
        self._shut_server()
        self.store.close()
        self._scratch.close()
        self._attachment.leave()

    def _end(self, actors: Iterable[_Machine | _Recruit]) -> None:
        """End actors; those that are at work are given a while for it."""
        try:
            ending = {one: one.channel.close() for one in actors if isinstance(one, _Machine)}
            if ending:
                self._ray.wait(list(ending.values()), num_returns=len(ending), timeout=_CLOSE)
            for one in actors:
                if isinstance(one, _Machine):
                    one.channel.end(ending[one])
                else:
                    one.channel.abandon()
        except self._ray.exceptions.RayError as error:  # they end by themselves, for their owner is gone
            _logger.warning("the processes on Ray nodes could not be ended: %s", error)

    def _shut_server(self) -> None:
        """It waits for those that read, of which one may be on a machine that has vanished."""
        ending = threading.Thread(target=self._server.shutdown, name="qoop-ray-server", daemon=True)
        ending.start()
        ending.join(_CLOSE)

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

    def _new_tables(self, machine: _Machine, spec: TaskSpec) -> list[Table]:
        read_tables = {(item.table, item.version): spec.tables[item.table] for item in spec.stage.table_inputs}
        new = [table for name, table in read_tables.items() if name not in machine.tables]
        machine.tables.update(read_tables)
        return new

    def _abroad(self, table: Table) -> Table:
        """The table as other processes can read it."""
        if isinstance(table.source, ArrowSource):
            self._server.offer(table.source)
            return replace(table, source=PeerTable.of(table.source, self._server.place), _splits={})
        return replace(table, _splits={})

    def _retained(self, keys: Sequence[CheckpointKey], job: JobId | None) -> set[CheckpointKey]:
        """Those of the keys that are still where they were, though no job needed them."""
        by_machine: dict[_Machine, list[CheckpointKey]] = {}
        with self._lock:
            for key in keys:
                machine = self._outputs[key].machine
                if machine is not None:
                    by_machine.setdefault(machine, []).append(key)
        replies = [machine.channel.hold(job, those) for machine, those in by_machine.items()]
        found: set[CheckpointKey] = set()
        for answer in replies:
            with contextlib.suppress(self._ray.exceptions.RayError):
                found.update(committed.key for committed in self._ray.get(answer, timeout=_CLOSE))
        return found

    # Sharing them

    def _keep_share(self) -> None:
        while not self._closed.wait(_SHARE):
            self._take_share()

    def _keep_alive(self) -> None:
        """Have agents hear of this session, whatever else it waits for."""
        while not self._closed.wait(_SILENCE):
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

    def _run(self, work: Any, *arguments: object, name: str) -> None:
        thread = threading.Thread(target=self._watched, args=(work, *arguments), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watched(self, work: Any, *arguments: object) -> None:
        """Do the work of a thread; what it raises is raised by `wait`."""
        try:
            work(*arguments)
        except Exception as error:
            if not self._closed.is_set():
                self._failure = error
                self._events.put(None)

    def _call_up(self, nodes: Iterable[Node]) -> None:
        """Have actors started on these nodes, unless that is under way."""
        for node in nodes:
            if node.id not in self._coming:
                self._coming[node.id] = _Recruit(node, self._post(node), time.monotonic() + _START)

    def _arrived(self, timeout: float) -> list[_Machine]:
        """The actors that come up within the timeout; those that fail are forgotten."""
        answers = {recruit.channel.introduced: recruit for recruit in self._coming.values()}
        if not answers:
            return []
        ready, _ = self._ray.wait(list(answers), num_returns=len(answers), timeout=timeout)
        late = [answer for answer, recruit in answers.items() if time.monotonic() > recruit.deadline]
        return [one for answer in {*ready, *late} if (one := self._met(answers[answer])) is not None]

    def _met(self, recruit: _Recruit) -> _Machine | None:
        node = recruit.node
        del self._coming[node.id]
        try:
            introduction: Introduced = self._ray.get(recruit.channel.introduced, timeout=0)
        except self._ray.exceptions.RayError as error:
            recruit.channel.abandon()
            _logger.warning("the Ray node %s (%s) cannot be used: %s", node.machine, node.host, error)
            return None
        if introduction.duckdb != duckdb.__version__:  # they may not agree on which rows are in which partition
            recruit.channel.abandon()
            raise ConfigError(f"{node.host} has DuckDB {introduction.duckdb}, and this process {duckdb.__version__}")
        try:
            recruit.channel.meet(introduction.connection, self._key, self._tls)
        except OSError as error:
            recruit.channel.abandon()
            _logger.warning("the Ray node %s (%s) cannot be reached: %s", node.machine, node.host, error)
            return None
        slots = 0 if self._share else node.slots
        return _Machine(node.machine, node, recruit.channel, introduction.place, introduction.capacity, slots)

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

    def _admit(self, machine: _Machine) -> None:
        with self._lock:
            self._machines[machine.name] = machine
        self._run(self._listen, machine, name=f"qoop-{machine.name}")

    def _watch(self) -> None:
        """Look which nodes there are, again and again."""
        away = False
        while not self._closed.wait(_PAUSE):
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
        for id_, machine in known.items():
            if id_ not in found:
                self._lose(machine)
        now = time.monotonic()
        self._lost = {id_: at for id_, at in self._lost.items() if now < at + _REST}
        new = {id_: node for id_, node in found.items() if id_ not in known and id_ not in self._lost}
        self._call_up(node for node in new.values() if node.leaves_at is None)
        self._let_in()
        self._announce(found.values())

    def _let_in(self) -> None:
        try:
            for machine in self._arrived(0.0):
                self._admit(machine)
                self._events.put(MachineJoined(machine.name, machine.capacity))
        except ConfigError as error:
            _logger.warning("a Ray node cannot be used: %s", error)

    def _announce(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.leaves_at is not None and self._announced.get(node.machine) != node.leaves_at:
                self._announced[node.machine] = node.leaves_at
                self._events.put(CapacityNotice(node.machine, Resources(), self._clock.now() + seconds_left(node)))

    def _listen(self, machine: _Machine) -> None:
        """Take the events of a node until it is gone; the connection to one that has vanished may just be silent."""
        while not self._closed.is_set() and self._machines.get(machine.name) is machine:
            try:
                found = machine.channel.hear(_SILENCE)
            except OSError:
                if not self._closed.is_set():
                    self._lose(machine)
                return
            for event in found:
                self._take(machine, event)

    def _take(self, machine: _Machine, event: Event) -> None:
        if isinstance(event, TaskSucceeded):
            event = self._brought(machine, event)
        with self._lock:
            match event:
                case Begun(attempt) if attempt in self._attempts:
                    where, spec = self._attempts[attempt]
                    self._attempts[attempt] = where, replace(spec, ticket=None)
                case TaskSucceeded(attempt, committed):
                    self._attempts.pop(attempt, None)
                    self._hold(machine, attempt.task.job, committed)
                case TaskFailed(attempt) | TaskStopped(attempt):
                    self._attempts.pop(attempt, None)
                case CheckpointLost(key):
                    self._outputs.pop(key, None)
                case CheckpointSaved(_, key, kept=True) if key in self._outputs:
                    self._outputs[key].saved = True
        self._events.put(event)

    def _brought(self, machine: _Machine, event: TaskSucceeded) -> TaskSucceeded | TaskFailed:
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

    def _hold(self, machine: _Machine, job: JobId, committed: Committed) -> None:
        """The first place of an output is its place: a non-deterministic stage may put out other rows again."""
        output = self._outputs.get(committed.key)
        if output is None:
            self._outputs[committed.key] = _Output(committed, machine, {job})
            return
        output.jobs.add(job)
        if output.machine is not machine:
            machine.orders.append(Drop(job, (committed.key,)))

    def _lose(self, machine: _Machine) -> None:
        """A node, or its actor, is gone with all that only it held.

        What is in the directory of checkpoints is looked up without the lock, for that may be far away. The driver
        hears of the loss once it is known what that is.
        """
        with self._lock:
            if self._machines.get(machine.name) is not machine:
                return
            del self._machines[machine.name]
            self._lost[machine.node.id] = time.monotonic()
            self._announced.pop(machine.name, None)
            self._attempts = {name: place for name, place in self._attempts.items() if place[0] is not machine}
            there = [key for key, output in self._outputs.items() if output.machine is machine]
            self._doubtful.update(there)
        self._peers.forget(machine.place)
        machine.channel.abandon()
        found = self._in_files(there)
        with self._lock:
            self._doubtful.difference_update(there)
            lost = self._moved(machine, there, found)
            self._events.put(MachineLost(machine.name))
            for key in lost:
                self._events.put(CheckpointLost(key))
            waiting, self._put_off = self._put_off, []
            for where, spec in waiting:
                if spec.attempt in self._attempts:
                    self.start(where.name, spec, queued=True)

    def _in_files(self, keys: Sequence[CheckpointKey]) -> set[CheckpointKey]:
        """Those of the keys that are in the directory of checkpoints."""
        try:
            return {committed.key for committed in self.store.present(keys)}
        except CheckpointError as error:
            _logger.warning("what a Ray node held is made again, for the checkpoints cannot be looked up: %s", error)
            return set()

    def _moved(
        self, machine: _Machine, keys: Sequence[CheckpointKey], found: Collection[CheckpointKey]
    ) -> list[CheckpointKey]:
        """Have outputs that were on a machine read from files, where they are found; the keys of the others, which are
        forgotten. What has been released meanwhile, or is elsewhere, is left as it is."""
        lost = []
        for key in keys:
            output = self._outputs.get(key)
            if output is None:
                if key in found:
                    self.store.release(_NO_JOB, [key])
            elif output.machine is machine and key in found:
                output.machine = None
                for job in output.jobs:
                    self.store.hold(job, [key])
            elif output.machine is machine:
                del self._outputs[key]
                lost.append(key)
        return lost
