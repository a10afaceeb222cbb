"""The ways in which a session talks to a node: to its own process there, or to the agent of all sessions."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from qoop.engine.backends.ray.agent import agent_on
from qoop.engine.backends.ray.connection import SessionEnd
from qoop.engine.backends.ray.nodes import Node, load
from qoop.engine.backends.ray.orders import Order
from qoop.engine.backends.ray.worker import NodeConfig, NodeWorker
from qoop.engine.events import Event
from qoop.engine.node_queues.shared import Member
from qoop.engine.task import CheckpointKey, JobId

_FETCH = 60.0  # seconds that what a node has said may take to come
_logger = logging.getLogger(__name__)


class Channel(Protocol):
    """Some calls return references of Ray's to their answers."""

    introduced: Any
    """Refers to what the node is, once it is ready."""

    def meet(self, address: str, key: bytes, tls: bool) -> None:
        """Open the connection to it. Raises OSError if it does not answer."""
        ...

    def obey(self, orders: Sequence[Order]) -> None:
        """Give it orders; if it is gone, `hear` says so."""
        ...

    def live(self) -> None:
        """Let it know that the session lives."""
        ...

    def hold(self, job: JobId | None, keys: Sequence[CheckpointKey]) -> Any:
        """Have it keep outputs for a job; those that it has."""
        ...

    def hear(self, timeout: float) -> Sequence[Event]:
        """The events there, as they come; none if there are none within the timeout. Raises OSError if it is gone."""
        ...

    def close(self) -> Any:
        """Have it end in order."""
        ...

    def end(self, closed: Any) -> None:
        """Make sure that it ends. closed: the answer of `close`, which was waited for."""
        ...

    def abandon(self) -> None:
        """The session has nothing to do with it any more, whatever became of it."""
        ...


class _ByConnection:
    """Talks by a connection. Ray brings and fetches what that only names."""

    _ray: Any
    _connection: SessionEnd | None = None

    def meet(self, address: str, key: bytes, tls: bool) -> None:
        """See `Channel`."""
        self._connection = SessionEnd(address, key, tls, self._bring, self._fetch)

    def _bring(self, number: int, orders: Sequence[Order]) -> None:
        raise NotImplementedError

    def _requested(self, number: int) -> Any:
        raise NotImplementedError

    def _fetch(self, number: int) -> Sequence[Event]:
        try:
            found: Sequence[Event] = self._ray.get(self._requested(number), timeout=_FETCH)
        except self._ray.exceptions.RayError as error:
            raise ConnectionResetError(f"what a node tells cannot be fetched: {error}") from error
        return found

    def obey(self, orders: Sequence[Order]) -> None:
        """See `Channel`."""
        assert self._connection is not None
        with contextlib.suppress(OSError):
            self._connection.send(orders)

    def hear(self, timeout: float) -> Sequence[Event]:
        """See `Channel`."""
        assert self._connection is not None
        return self._connection.receive(timeout) or ()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()


class OwnProcess(_ByConnection):
    """A process of this session alone."""

    def __init__(self, node: Node, config: NodeConfig) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray = load()
        kind = self._ray.remote(num_cpus=0)(NodeWorker)
        placed = NodeAffinitySchedulingStrategy(node.id, soft=False)
        self._actor = kind.options(scheduling_strategy=placed).remote(config)
        self.introduced = self._actor.introduce.remote()

    def _bring(self, number: int, orders: Sequence[Order]) -> None:
        self._actor.bring.remote(number, orders)

    def _requested(self, number: int) -> Any:
        return self._actor.fetch.remote(number)

    def live(self) -> None:
        """Ray ends it with the session."""

    def hold(self, job: JobId | None, keys: Sequence[CheckpointKey]) -> Any:
        """See `Channel`."""
        return self._actor.hold.remote(job, keys)

    def close(self) -> Any:
        """See `Channel`."""
        return self._actor.close.remote()

    def end(self, closed: Any) -> None:
        """See `Channel`."""
        self._hang_up()
        self._ray.kill(self._actor)

    def abandon(self) -> None:
        """It has no other use."""
        self._hang_up()
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor)


class SharedAgent(_ByConnection):
    """The agent that all sessions have on the node. A session that comes again has another name there, for its leaving
    may be heard of late."""

    def __init__(self, node: Node, config: NodeConfig, member: Member) -> None:
        self._ray = load()
        self._name = f"{member.name}-{secrets.token_hex(2)}"
        self._actor = agent_on(self._ray, node.id, node.slots, node.memory)
        joining = self._actor.join.options(concurrency_group="moving")
        self.introduced = joining.remote(replace(member, name=self._name), config)

    def _bring(self, number: int, orders: Sequence[Order]) -> None:
        self._actor.bring.remote(self._name, number, orders)

    def _requested(self, number: int) -> Any:
        return self._actor.fetch.remote(self._name, number)

    def live(self) -> None:
        """See `Channel`."""
        self._actor.live.remote(self._name)

    def hold(self, job: JobId | None, keys: Sequence[CheckpointKey]) -> Any:
        """See `Channel`."""
        return self._actor.hold.remote(self._name, job, keys)

    def close(self) -> Any:
        """See `Channel`."""
        return self._actor.leave.options(concurrency_group="moving").remote(self._name)

    def end(self, closed: Any) -> None:
        """The agent ends by itself, some time after the last session."""
        self._hang_up()
        try:
            self._ray.get(closed, timeout=0)
        except self._ray.exceptions.RayError as error:
            _logger.info("the agent of a node did not answer as this session left: %s", error)

    def abandon(self) -> None:
        """Others may use it."""
        self._hang_up()
        with contextlib.suppress(self._ray.exceptions.RayError):
            self.close()
