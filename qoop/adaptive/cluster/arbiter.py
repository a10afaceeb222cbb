"""Several sessions share the nodes of one Ray cluster: an actor that all of them know by name divides the slots.

Between sessions it runs the scheduler that divides slots between the jobs of one: `MaxMin`, by the same weights of
tenants; what a session wants for the jobs of several tenants counts for each of these. What one has no use for goes to
the others, evenly if none has. Every session reports demand and use several times a second and receives an allocation,
which changes the slots of its machines, and so the shares of its jobs. Nothing is taken from running attempts: a
session with fewer slots begins nothing in them, and another gets them once they are free. A session that reports no
more has died; its slots are free.

The actor also reserves the resources of the nodes in Ray's accounts, as long as there are sessions.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from qoop.adaptive.schedulers.base import Request
from qoop.adaptive.schedulers.max_min import MaxMin
from qoop.engine.backends.ray.nodes import ControlAway, load
from qoop.engine.backends.ray.nodes import living as living_nodes
from qoop.engine.backends.ray.reservation import Reservation
from qoop.engine.events import Demand
from qoop.engine.node_queues.shared import Member
from qoop.engine.task import MachineId, TaskId
from qoop.planner.packing import Available
from qoop.planner.plan import Resources

NAME = "qoop-arbiter"
NAMESPACE = "qoop"
LEASE = 5.0
"""Seconds without a word after which a session counts as dead."""

_RENEW_SECONDS = 0.5
"""Seconds between looks at which nodes there are to hold."""

Slots = Mapping[MachineId, int]
Wants = Mapping[str, tuple[float, float]]
"""By tenant its weight, and the slots that a session has a use for, for jobs of that tenant."""

_Part = tuple[str, str]
"""A session and a tenant."""

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Session:
    arrival: int
    wants: Wants
    heard: float
    used: Slots = field(default_factory=dict)
    allotted: Slots = field(default_factory=dict)


class Arbiter:
    """Divides the slots of machines between sessions. now: seconds of any clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sessions: dict[str, _Session] = {}
        self._arrivals = count()

    def tick(self, session: str, wants: Wants, slots: Slots, used: Slots) -> Slots:
        """The resources that a session may have of each machine from now on.

        wants: what it has a use for; slots are shared between tenants by their weights, then between the sessions of
        each. slots: of the machines there are. used: what its attempts take now.
        """
        now = self._now()
        self.living()
        mine = self._sessions.setdefault(session, _Session(next(self._arrivals), wants, now))
        mine.wants, mine.used, mine.heard = wants, used, now
        target = self._targets(slots)[session]
        mine.allotted = {name: max(0, min(target[name], slots[name] - self._taken(name, mine))) for name in slots}
        return mine.allotted

    def leave(self, session: str) -> int:
        """A session has ended; how many there are still."""
        self._sessions.pop(session, None)
        return len(self._sessions)

    def living(self) -> set[str]:
        """The sessions that were heard of not long ago; the others are forgotten."""
        now = self._now()
        self._sessions = {name: one for name, one in self._sessions.items() if now - one.heard < LEASE}
        return set(self._sessions)

    def sessions(self) -> list[dict[str, Any]]:
        """All that is known of the sessions, as `qoop cluster` shows it."""
        now = self._now()
        self.living()
        return [
            {
                "name": name, "tenant": ", ".join(filter(None, one.wants)),
                "wants": sum(slots for _, slots in one.wants.values()), "used": dict(one.used),
                "given": dict(one.allotted), "silent": round(now - one.heard, 2),
            }
            for name, one in self._sessions.items()
        ]  # fmt: skip

    def _taken(self, machine: MachineId, but: _Session) -> int:
        others = (one for one in self._sessions.values() if one is not but)
        return sum(max(one.used.get(machine, 0), one.allotted.get(machine, 0)) for one in others)

    def _targets(self, slots: Slots) -> dict[str, Counter[MachineId]]:
        """The slots that each session should have, by machine: if possible where it has some already."""
        counts = self._counts(sum(slots.values()))
        free, targets = Counter(dict(slots)), {name: Counter[MachineId]() for name in self._sessions}
        for keeps in (True, False):
            for name, target in targets.items():
                for machine in slots:
                    here = self._sessions[name].allotted.get(machine, 0) if keeps else free[machine]
                    taken = max(0, min(here, free[machine], counts[name]))
                    target[machine] += taken
                    free[machine] -= taken
                    counts[name] -= taken
        return targets

    def _counts(self, total: int) -> Counter[str]:
        """The number of slots for each session, by the scheduler: first of those in demand, then of the rest."""
        counts = Counter[_Part]()
        for in_demand in (True, False):
            while (found := self._next(counts, total, in_demand)) is not None:
                counts[found] += 1
        sums = Counter[str]()
        for (session, _), slots in counts.items():
            sums[session] += slots
        return sums

    def _next(self, counts: Mapping[_Part, int], total: int, in_demand: bool) -> _Part | None:
        parts = [(name, tenant) for name, one in self._sessions.items() for tenant in one.wants]
        requests = []
        for place, (name, tenant) in enumerate(parts):
            session, has = self._sessions[name], counts[name, tenant]
            weight, wants = session.wants[tenant]
            demands = (_one_slot(str(place)),) if not in_demand or has < wants else ()
            about = session.arrival, 1.0, Resources(has), demands
            requests.append(Request(str(place), *about, tenant=tenant, tenant_weight=weight))
        available = Available(Resources(total), Resources(total - sum(counts.values())))
        grant = MaxMin().next_grant(requests, {"all": available}) if requests else None
        return None if grant is None else parts[int(grant.job)]


class RayArbiter:
    """The actor: an arbiter that reserves the resources of all nodes in Ray's accounts while there are sessions.

    Ray then gives it to none of its other users: all of it if one of the sessions wants that, else next to nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arbiter = Arbiter()
        self._reserving: set[str] = set()  # sessions that want the whole of the nodes
        self._holding = threading.Lock()  # one thread at a time changes what is used
        self._reservation = Reservation()
        threading.Thread(target=self._keep_resources, name="qoop-ray-resources", daemon=True).start()

    def tick(self, session: str, reserves: bool, wants: Wants, slots: Slots, used: Slots) -> Slots:
        """As `Arbiter.tick`. reserves: Ray grants no other resources on the nodes."""
        with self._lock:
            if reserves:
                self._reserving.add(session)
            return self._arbiter.tick(session, wants, slots, used)

    def leave(self, session: str) -> int:
        """As `Arbiter.leave`."""
        with self._lock:
            left = self._arbiter.leave(session)
        self._hold_resources()
        return left

    def sessions(self) -> list[dict[str, Any]]:
        """As `Arbiter.sessions`."""
        with self._lock:
            return self._arbiter.sessions()

    def _keep_resources(self) -> None:
        errors, away = load().exceptions.RayError, False
        while True:
            time.sleep(_RENEW_SECONDS)  # the process ends with the actor
            try:
                self._hold_resources()
                away = False
            except (ControlAway, errors) as error:
                if not away:
                    _logger.warning("the resources of the Ray nodes cannot be looked after just now: %s", error)
                away = True

    def _hold_resources(self) -> None:
        with self._holding:
            with self._lock:
                sessions = self._arbiter.living()
                self._reserving &= sessions
                whole = bool(self._reserving)
            self._reservation.keep(living_nodes().values() if sessions else (), whole)


def _one_slot(session: str) -> Demand:
    return Demand(session, TaskId(session, "", 0), Resources(1))


class RayShare:
    """A session's part of a Ray cluster, for its backend. wants: by tenant the slots that its jobs have a use for now.

    tenant: the owner of the session. weights: of tenants; those of others are 1.
    reserves: Ray grants the resources of the nodes to no other user meanwhile.
    """

    def __init__(self, tenant: str = "", weights: Mapping[str, float] | None = None, reserves: bool = True) -> None:
        self._tenant = tenant
        self.wants: Callable[[], Mapping[str, float]] = dict
        self._reserves = reserves
        self._weights = dict(weights or {})
        self._name = os.urandom(8).hex()
        self._actor: Any = None

    @property
    def member(self) -> Member:
        """The session at the agents of nodes."""
        return Member(self._name, self._tenant, self._weights.get(self._tenant, 1.0))

    def wants_now(self) -> Wants:
        """The slots that the session has a use for. Its tenant is always listed, for a part of the idle slots."""
        wants = {self._tenant: 0.0} | dict(self.wants())
        return {tenant: (self._weights.get(tenant, 1.0), slots) for tenant, slots in wants.items()}

    def tick(self, slots: Slots, used: Slots) -> Slots | None:
        """The resources that the session may have of each machine; None if no arbiter answers just now."""
        import ray

        try:
            if self._actor is None:
                self._actor = _arbiter(ray)
            reply = self._actor.tick.remote(self._name, self._reserves, self.wants_now(), slots, used)
            allotted: Slots = ray.get(reply, timeout=LEASE)
            return allotted
        except (ray.exceptions.RayError, ValueError):  # it is gone with its node; the next one knows nothing yet
            self._actor = None
            return None

    def leave(self) -> None:
        """The session ends; so does the arbiter with the last."""
        import ray

        if self._actor is None:
            return
        try:
            if ray.get(self._actor.leave.remote(self._name), timeout=LEASE) == 0:
                ray.kill(self._actor)
        except ray.exceptions.RayError:
            return  # the arbiter drops sessions that are silent


def _arbiter(ray: Any) -> Any:
    options = {"name": NAME, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True, "num_cpus": 0}
    return ray.remote(RayArbiter).options(**options, max_restarts=-1).remote()
