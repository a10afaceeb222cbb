"""The actor on a node: it holds a :class:`~qoop.engine.backends.local.LocalBackend` of the node's size.

Orders come, and events leave, by a connection to the session (`connection`); Ray carries what is rare.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog.functions.function import UserFunction
from qoop.catalog.table import Table
from qoop.catalog.value import changed, value
from qoop.engine.backends.local import LocalBackend
from qoop.engine.backends.ray.connection import NodeEnd
from qoop.engine.backends.ray.nodes import be_as_urgent_as_the_node, host
from qoop.engine.backends.ray.orders import Allow, Begin, Change, Drop, End, Order, Promote, stage_of
from qoop.engine.backends.ray.peers import AT_ONCE, PeerInputs, PeerServer, Place
from qoop.engine.events import Committed, Event, TaskFailed
from qoop.engine.failures import to_failure
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.node_queues.shared import NEXT_TO_OTHERS
from qoop.engine.stage_sql import check_stage
from qoop.engine.storage.retention import Retention
from qoop.engine.task import CheckpointKey, JobId, MachineId
from qoop.planner.plan import Resources

if TYPE_CHECKING:
    from qoop.engine.backends.ray.slot_gate import GateClient

_LISTEN = 5.0  # seconds that a node waits for what happens, after which it looks whether anybody listens


@value
class NodeConfig:
    """The settings that a node gets from its session. memory: bytes for everything, as for a local one. secret: of
    readers of outputs; key: of the session. queueing: how tasks wait there. exchange: how they read from other
    nodes."""

    machine: MachineId
    slots: int
    memory: int
    spill: Path | None
    retention: Retention
    secret: str = field(repr=False)
    key: bytes = field(repr=False)
    tls: bool
    queueing: NodeQueueing | None = None
    exchange: str = AT_ONCE


@value
class Introduced:
    """A node is ready: what its machine has, where it serves rows, where it waits for its session, and what
    it runs."""

    capacity: Resources
    place: Place
    connection: str
    process: int
    duckdb: str


class NodeWorker:
    """The slots and the store of one node for one session. client: to slots that other sessions use too; more kernels
    than there are slots are open then, for tasks that begin next to others."""

    def __init__(self, config: NodeConfig, client: GateClient | None = None) -> None:
        be_as_urgent_as_the_node()
        self._config = config
        self._client = client
        self._inputs = PeerInputs(config.tls, config.exchange)
        self._tables: dict[tuple[str, str], Table] = {}
        self._functions: dict[str, UserFunction] = {}
        slots, queueing = (config.slots, config.queueing) if client is None else (config.slots + NEXT_TO_OTHERS, None)
        self._backend = LocalBackend(
            slots, config.memory, config.spill, config.retention, config.machine, self._inputs, queueing, client
        )
        if client is not None:
            client.machine, client.backend = config.machine, self._backend
        self._inputs.store = self._backend.store
        self._server = PeerServer(host(), self._backend.store, config.secret, config.tls)
        self._connection = NodeEnd(host(), config.key, config.tls, self.obey, self._happened)

    def introduce(self) -> Introduced:
        """Say what this is. Where tasks may begin next to others, there is as much memory for each of these."""
        whole = self._backend.machines()[self._config.machine]
        memory = int(whole.memory * self._config.slots / whole.cpu)
        capacity = changed(whole, cpu=self._config.slots, memory=memory)
        return Introduced(capacity, self._server.place, self._connection.address, os.getpid(), duckdb.__version__)

    def obey(self, orders: Sequence[Order]) -> None:
        """Obey the orders; returns at once."""
        for order in orders:
            match order:
                case Begin():
                    self._begin(order)
                case End(attempt):
                    (self._client or self._backend).stop(attempt)
                case Change(attempt, resources):
                    self._backend.regrant(attempt, resources)
                case Promote(attempt):
                    self._backend.promote(attempt)
                case Allow(resources):
                    self._backend.allow(resources)
                case Drop(job, keys):
                    self._inputs.forget(keys)
                    self._backend.release(job, keys)

    def _begin(self, order: Begin) -> None:
        spec = order.spec
        try:
            spec = changed(spec, stage=(stage := stage_of(order.stage)))
            if stage.opaque is None:  # a text of the user's may read files
                check_stage(stage)
            self._tables.update({(table.name, table.version): table for table in order.tables})
            tables = {item.table: self._tables[item.table, item.version] for item in stage.table_inputs}
            self._functions.update({one.key: one for one in order.functions})
            functions = tuple(self._functions[key] for key in order.calls)
            for place, keys in order.places:
                self._inputs.learn(place, keys)
            spec = changed(spec, tables=tables, functions=functions)
            if self._client is not None:
                self._client.start(spec, order.queued)
            else:
                self._backend.start(self._config.machine, spec, order.queued)
        except Exception as error:
            self._backend.report(TaskFailed(spec.attempt, *to_failure(error, spec)))

    def bring(self, number: int, orders: Sequence[Order]) -> None:
        """Orders that the connection only names."""
        self._connection.bring(number, orders)

    def fetch(self, number: int) -> Sequence[Event]:
        """Events that the connection only names."""
        found: Sequence[Event] = self._connection.fetch(number)
        return found

    def hold_at_most(self, memory: int) -> None:
        """Hold outputs as a machine with that much memory would."""
        self._backend.hold_at_most(memory)

    def hold(self, job: JobId, keys: Sequence[CheckpointKey]) -> Sequence[Committed]:
        """Those of the outputs that are here; kept for the job until it drops them."""
        return self._backend.store.present(keys, job)

    def pulling(self) -> tuple[int, int]:
        """The answers of other nodes that come in now, and the questions that wait for their turn."""
        return self._inputs.pulling()

    def _happened(self) -> Sequence[Event]:
        return self._backend.wait(_LISTEN)

    def close(self) -> None:
        """Stop everything and remove temporary files. Raises DiskFull as the local backend does."""
        self._connection.hang_up()
        self._backend.wake()
        self._connection.close()
        self._server.shutdown()
        self._inputs.close()
        self._backend.close()
