"""Nodes as machines: the way to each, the processes that are starting on new ones, and which nodes come and go."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import duckdb

from qoop.catalog.errors import ConfigError
from qoop.catalog.functions.function import UserFunction
from qoop.catalog.table import Table
from qoop.catalog.value import value
from qoop.engine.backends.ray.channel import Channel
from qoop.engine.backends.ray.nodes import Node
from qoop.engine.backends.ray.orders import Order
from qoop.engine.backends.ray.peers import Place
from qoop.engine.backends.ray.worker import Introduced
from qoop.engine.node_queues.shared import Member
from qoop.engine.task import CheckpointKey, JobId, MachineId, TaskSpec
from qoop.planner.plan import Resources

_REST = 2.0  # seconds for which a node is left alone that was lost: Ray may not have heard of it yet
_CLOSE = 15.0  # seconds that nodes are given to end, or to answer
_START = 120.0  # seconds that a node's actor may take to begin
_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Machine:
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

    def new_tables(self, spec: TaskSpec) -> list[Table]:
        """The tables that a task reads, and that the node does not know yet; from now on it does."""
        read_tables = {(item.table, item.version): spec.tables[item.table] for item in spec.stage.table_inputs}
        new = [table for name, table in read_tables.items() if name not in self.tables]
        self.tables.update(read_tables)
        return new

    def new_functions(self, spec: TaskSpec) -> tuple[UserFunction, ...]:
        """The functions that a task calls, and that the node does not know yet; from now on it does."""
        new = tuple(one for one in spec.functions if one.key not in self.functions)
        self.functions.update(one.key for one in new)
        return new


@value
class _Recruit:
    """A process that has not said yet that it is there."""

    node: Node
    channel: Channel
    deadline: float


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


class Recruits:
    """The nodes on which a process is starting; for one thread at a time.

    post: begins the process of a node. key, tls: of the connections to them. shared: sessions divide their slots.
    """

    def __init__(self, ray: Any, post: Callable[[Node], Channel], key: bytes, tls: bool, shared: bool) -> None:
        self._ray = ray
        self._post = post
        self._key, self._tls = key, tls
        self._shared = shared
        self._coming: dict[str, _Recruit] = {}  # by node

    def __bool__(self) -> bool:
        return bool(self._coming)

    def call_up(self, nodes: Iterable[Node]) -> None:
        """Have processes started on these nodes, unless that is under way."""
        for node in nodes:
            if node.id not in self._coming:
                self._coming[node.id] = _Recruit(node, self._post(node), time.monotonic() + _START)

    def arrived(self, timeout: float) -> list[Machine]:
        """The machines whose process comes up within the timeout; those that fail are forgotten. Raises ConfigError
        for one of another version of DuckDB."""
        answers = {recruit.channel.introduced: recruit for recruit in self._coming.values()}
        if not answers:
            return []
        ready, _ = self._ray.wait(list(answers), num_returns=len(answers), timeout=timeout)
        late = [answer for answer, recruit in answers.items() if time.monotonic() > recruit.deadline]
        return [one for answer in {*ready, *late} if (one := self._met(answers[answer])) is not None]

    def _met(self, recruit: _Recruit) -> Machine | None:
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
        slots = 0 if self._shared else node.slots
        return Machine(node.machine, node, recruit.channel, introduction.place, introduction.capacity, slots)

    def abandon(self) -> None:
        """Leave these processes to themselves."""
        with _leaving(self._ray):
            for recruit in self._coming.values():
                recruit.channel.abandon()


@value
class Changes:
    """joined: machines that may be used now. leaving: by machine, nodes that will be taken away."""

    joined: tuple[Machine, ...]
    leaving: Mapping[MachineId, Node]


class Membership:
    """Compares the nodes of the cluster with those in use, and has processes start on new ones."""

    def __init__(self, recruits: Recruits) -> None:
        self._recruits = recruits
        self._announced: dict[MachineId, float] = {}  # notices
        self._lost: dict[str, float] = {}  # when the process on which node was

    def lose(self, machine: Machine) -> None:
        """The process on a node is gone."""
        self._lost[machine.node.id] = time.monotonic()
        self._announced.pop(machine.name, None)

    def compare(self, found: Mapping[str, Node], known: Collection[str]) -> Changes:
        """The changes since the last call. found: the nodes of the cluster. known: ids of those in use."""
        now = time.monotonic()
        self._lost = {id_: at for id_, at in self._lost.items() if now < at + _REST}
        new = [node for id_, node in found.items() if id_ not in known and id_ not in self._lost]
        self._recruits.call_up(node for node in new if node.leaves_at is None)
        return Changes(self._joined(), dict(self._leaving(found.values())))

    def _joined(self) -> tuple[Machine, ...]:
        try:
            return tuple(self._recruits.arrived(0.0))
        except ConfigError as error:
            _logger.warning("a Ray node cannot be used: %s", error)
            return ()

    def _leaving(self, nodes: Iterable[Node]) -> Iterator[tuple[MachineId, Node]]:
        for node in nodes:
            if node.leaves_at is not None and self._announced.get(node.machine) != node.leaves_at:
                self._announced[node.machine] = node.leaves_at
                yield node.machine, node


def pinned(ray: Any, by_machine: Mapping[Machine, Sequence[CheckpointKey]], job: JobId | None) -> set[CheckpointKey]:
    """Have machines keep outputs for a job; those that they still hold."""
    replies = [machine.channel.hold(job, keys) for machine, keys in by_machine.items()]
    found: set[CheckpointKey] = set()
    for reply in replies:
        with contextlib.suppress(ray.exceptions.RayError):
            found.update(committed.key for committed in ray.get(reply, timeout=_CLOSE))
    return found


def end_all(ray: Any, machines: Iterable[Machine]) -> None:
    """End the processes on machines, which are given a while for it."""
    with _leaving(ray):
        ending = {machine: machine.channel.close() for machine in machines}
        if ending:
            ray.wait(list(ending.values()), num_returns=len(ending), timeout=_CLOSE)
        for machine, closed in ending.items():
            machine.channel.end(closed)


@contextlib.contextmanager
def _leaving(ray: Any) -> Iterator[None]:
    try:
        yield
    except ray.exceptions.RayError as error:  # they end by themselves, for their owner is gone
        _logger.warning("the processes on Ray nodes could not be ended: %s", error)
