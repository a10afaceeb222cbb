"""The agent of a node: one process that runs the tasks of all sessions of a cluster there.

The first session that finds none on a node has Ray begin it, under a name that the others know; it ends `EMPTY`
seconds after the last session. Slots and the queue in front of them are common (`slot_gate`). Stores, secrets, kernels
and what these may open are those of each session: kernels of one session may read files that another must not. A
session that is not heard of for `LEASE` seconds has died; what it had here is dropped.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import duckdb

from qoop.catalog.errors import ConfigError
from qoop.engine.backends.local import KERNEL_SHARE
from qoop.engine.backends.ray.nodes import load
from qoop.engine.backends.ray.orders import Order
from qoop.engine.backends.ray.slot_gate import SlotGate
from qoop.engine.backends.ray.worker import Introduced, NodeConfig, NodeWorker
from qoop.engine.events import Committed, Event
from qoop.engine.node_queues.shared import Member
from qoop.engine.task import CheckpointKey, JobId
from qoop.planner.plan import Resources

LEASE = 10.0
"""Seconds without a word after which a session counts as dead."""

MOST = 32
"""Sessions that one agent can serve."""

EMPTY = 2.0
"""Seconds that an agent waits for a session, when it has none."""

FIRST = 60.0
"""Seconds that it waits for the first one."""

_PREFIX, _NAMESPACE = "qoop-agent-", "qoop"
_PAUSE = 0.5  # seconds between checks for sessions that died
_GROUPS = {"moving": 4}  # threads for calls that take a while
_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Guest:
    """A session at this node."""

    worker: NodeWorker
    heard: float = field(default_factory=time.monotonic)


class NodeAgent:
    """The actor. slots, memory: of the node, for all sessions."""

    def __init__(self, slots: int, memory: int) -> None:
        self._memory = memory
        self._gate = SlotGate(Resources(slots, int(memory * KERNEL_SHARE)))
        self._guests: dict[str, _Guest] = {}
        self._lock = threading.Lock()
        self._empty_since = time.monotonic() + FIRST - EMPTY  # its session may hear of that late
        threading.Thread(target=self._check, name="qoop-agent-leases", daemon=True).start()

    def join(self, member: Member, config: NodeConfig) -> Introduced:
        """A session's tasks may come. Raises ConfigError if this agent serves enough already."""
        if config.queueing is None:
            raise ConfigError("sessions share the agent of a node only if their tasks may wait there")
        with self._lock:
            if len(self._guests) >= MOST:
                raise ConfigError(f"an agent serves {MOST} sessions, and {len(self._guests)} are here")
            client = self._gate.open(member, config.queueing)
            try:
                worker = NodeWorker(config, client)
            except BaseException:
                self._gate.shut(member.name)
                raise
            self._guests[member.name] = _Guest(worker)
            self._divide()
        return worker.introduce()

    def live(self, name: str) -> None:
        """A session lives."""
        self._guest(name).heard = time.monotonic()

    def bring(self, name: str, number: int, orders: Sequence[Order]) -> None:
        """Orders that the connection of the session only names."""
        self._guest(name).worker.bring(number, orders)

    def fetch(self, name: str, number: int) -> Sequence[Event]:
        """Events that the connection of the session only names."""
        return self._guest(name).worker.fetch(number)

    def hold(self, name: str, job: JobId, keys: Sequence[CheckpointKey]) -> Sequence[Committed]:
        """Those of the outputs that are here; kept for the session's job until it drops them."""
        return self._guest(name).worker.hold(job, keys)

    def leave(self, name: str) -> None:
        """A session has ended. Raises DiskFull as closing a local backend does."""
        guest = self._dismiss(name)
        if guest is not None:
            guest.worker.close()

    def slots(self) -> dict[str, float]:
        """The slots that each session has now."""
        return self._gate.slots()

    def waiting(self) -> dict[str, int]:
        """The tasks of each session that wait now."""
        return self._gate.waiting()

    def pulling(self) -> dict[str, tuple[int, int]]:
        """By session the answers of other nodes that come in now, and the questions that wait for their turn."""
        return {name: guest.worker.pulling() for name, guest in list(self._guests.items())}

    def process(self) -> int:
        """The number of the process that this is."""
        return os.getpid()

    def _guest(self, name: str) -> _Guest:
        guest = self._guests.get(name)
        if guest is None:
            raise ConfigError(f"the session {name} is not at this node: it was not heard of for {LEASE:g} s")
        return guest

    def _dismiss(self, name: str) -> _Guest | None:
        with self._lock:
            guest = self._guests.pop(name, None)
            if guest is not None:
                self._gate.shut(name)
                self._divide()
            if not self._guests:
                self._empty_since = time.monotonic()
            return guest

    def _divide(self) -> None:
        """Each session may hold the same part of the outputs that the node has memory for."""
        for guest in self._guests.values():
            guest.worker.hold_at_most(self._memory // len(self._guests))

    def _check(self) -> None:
        """Drop the sessions that died, and end when there is none."""
        while True:
            time.sleep(_PAUSE)  # the process ends with the actor
            now = time.monotonic()
            for name in [name for name, guest in list(self._guests.items()) if now - guest.heard > LEASE]:
                threading.Thread(target=self._drop, args=(name,), name="qoop-agent-drop", daemon=True).start()
            with self._lock:  # a session that comes just now finds no agent, and has another agent begun
                if not self._guests and now - self._empty_since > EMPTY:
                    _end_this()

    def _drop(self, name: str) -> None:
        """Put away all that a session had. Its tasks may take long to stop: others are looked after meanwhile."""
        _logger.warning("the session %s was not heard of for %g s, and is dropped", name, LEASE)
        try:
            self.leave(name)
        except Exception as error:
            _logger.warning("what the session %s had could not be put away: %s", name, error)


def _end_this() -> None:
    """End the process of this actor. Ray does it, or it would report an actor that died to all users."""
    ray = load()
    with contextlib.suppress(ray.exceptions.RayError, RuntimeError):
        ray.kill(ray.get_runtime_context().current_actor)
        time.sleep(LEASE)  # it does not come back, as a rule
    os._exit(0)


def agent_on(ray: Any, node: str, slots: int, memory: int) -> Any:
    """The agent of a node, which is begun if there is none. Sessions with other code have others."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    kind = ray.remote(num_cpus=0, max_restarts=0, concurrency_groups=_GROUPS)(NodeAgent)
    named = {"name": _name(ray, node), "namespace": _NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    return kind.options(**named, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
        slots, memory
    )


def _name(ray: Any, node: str) -> str:
    code = f"{version('qoop')} {duckdb.__version__} {ray.get_runtime_context().get_runtime_env_string()}"
    return f"{_PREFIX}{node}-{hashlib.blake2b(code.encode(), digest_size=6).hexdigest()}"


def agents(ray: Any) -> list[tuple[str, Any]]:
    """All agents of the cluster, with the ids of their nodes."""
    names = [one["name"] for one in ray.util.list_named_actors(all_namespaces=True) if one["namespace"] == _NAMESPACE]
    found = []
    for name in (name for name in names if name.startswith(_PREFIX)):
        with contextlib.suppress(ValueError):  # it has just ended
            found.append((name.removeprefix(_PREFIX).rpartition("-")[0], ray.get_actor(name, _NAMESPACE)))
    return found
