"""The queries of all users on one session: admission, limits, and the end of all queries."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.granting.tenant_limits import TENANT, USER
from qoop.adaptive.cluster.granting.tenant_limits import Owner as LimitOwner
from qoop.catalog.errors import Busy, Cancelled, ConfigError, QoopError, SessionClosed
from qoop.engine.backends.local import LocalBackend
from qoop.engine.replay import JobReplay
from qoop.interfaces.server.audit import AuditLog, Entry
from qoop.interfaces.server.limits import Limits, Rates, TextQuota
from qoop.interfaces.server.metrics import Counts
from qoop.interfaces.server.queries import Earlier, UserQuery
from qoop.interfaces.server.turns import Owner, Turns
from qoop.interfaces.server.users import User, Users

if TYPE_CHECKING:
    from qoop.interfaces.server.slow_log import SlowLog
    from qoop.interfaces.server.spans import Spans
    from qoop.planner.plan import Plan
    from qoop.planner.sql.bind import TypedName
    from qoop.query.job import Job, Planned
    from qoop.query.statements.parameters import Parameters
    from qoop.query.statements.settings import Settings
    from qoop.session.session import Session

_log = logging.getLogger(__name__)

_TO_CANCEL = 10.0
"""Seconds that cancelled queries may take to end; kernels need 0.2, and their threads a machine that is not full."""
_OF_ONE_QUERY = ("longest_query", "rows", "result_bytes")
"""Limits of each query, of which the lesser holds."""
_POLL_SECONDS = 0.02  # seconds between two looks whether the last query has ended


class Service:
    """Takes the queries of all protocols. queries: that may run at a time, of all users. spans: are told of each.

    Raises ConfigError for a session that is not locked.
    """

    def __init__(
        self,
        session: Session,
        users: Users,
        audit: AuditLog,
        queries: int = 100,
        spans: Spans | None = None,
        slow: SlowLog | None = None,
    ) -> None:
        if not session.config.locked:
            raise ConfigError("a server needs a locked session: connect(locked=True)")
        self.session, self.users, self.queries = session, users, queries
        if isinstance(session.backend, LocalBackend) and sys.platform == "linux":
            cluster = session.cluster
            session.backend.let_short_go_first(cluster.is_long, cluster.is_short)  # before there are processes
            session.isolate(session.backend.processes, cluster.has_short)
        self._audit, self._counts, self._spans = audit, Counts(), spans
        self._slow, self._turns = slow, Turns()
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], UserQuery] = {}
        self._closing = False
        self._rates = Rates()
        self.quota = TextQuota()
        self._unread: dict[tuple[str, str], tuple[UserQuery, float]] = {}  # and since when
        self._limit(users)

    def reload(self, users: Users) -> None:
        """Take over the users of a file that has changed. Running queries keep their limits, except those of slots and
        memory."""
        before = self.users.tenants.keys(), self.users.names
        self._limit(users)
        for tenant in before[0] - users.tenants.keys():
            self.session.cluster.limit(LimitOwner(TENANT, tenant))
        for user in before[1] - users.names:
            self.session.cluster.limit(LimitOwner(USER, user))
        self.users.replace(users)

    def _limit(self, users: Users) -> None:
        """Set the limits of slots and memory. Raises ConfigError for isolation where there are no child processes."""
        known = [user for name in users.names if (user := users.of_name(name)) is not None]
        owners = (*((one.name, one.limits) for one in known), *users.tenants.items())
        if self.session.isolation is None and (names := sorted(name for name, one in owners if one.isolated)):
            raise ConfigError(f"isolation of {', '.join(names)} needs child processes: Linux, and no Ray")
        for tenant, limits in users.tenants.items():
            self.session.cluster.limit(LimitOwner(TENANT, tenant), limits.slots, limits.memory)
        for user in known:
            self._limit_user(user)

    def _limit_user(self, user: User) -> None:
        self.session.cluster.limit(LimitOwner(USER, user.name), user.limits.slots, user.limits.memory)

    @property
    def closing(self) -> bool:
        """True once no more queries are admitted."""
        return self._closing

    def admit(
        self,
        user: User,
        text: str,
        by: str,
        parameters: Parameters = (),
        id: str | None = None,
        earlier: Earlier | None = None,
    ) -> UserQuery:
        """Let a query in; its reader then asks for `parts`, and says when it is at their `end`.

        id: that of no other query of the user that runs. earlier: its run by a server that has ended and had let it
        in. Raises Busy, and NotKnown for a user that was removed.
        """
        user = self.users.current(user)
        if user.issued:  # the file has no entry of it, so the server has not met it before
            self._limit_user(user)
        limited = replace(user, limits=self.limits(user))
        query = UserQuery(self.session, limited, text, by, self._ended, parameters, id, earlier)
        try:
            with self._lock:
                if earlier is None:
                    self._check_limits(user)
                if (user.name, query.id) in self._running:
                    raise Busy("this very query runs already")
                self._turns.enter(query.turn, self._owners(user, earlier is not None))
                self._running[user.name, query.id] = query
        except Busy as error:
            self._tell(query, "refused", error)
            raise
        return query

    def begin(self, user: User, text: str, by: str) -> UserQuery:
        """Let a query in and start it, for a reader that asks for it by its id a moment later (`begun`).

        Raises as `admit` and `UserQuery.begin` do.
        """
        query = self.admit(user, text, by)
        try:
            query.begin()
        except Exception as error:
            query.end(error)
            raise
        with self._lock:
            self._unread[user.name, query.id] = query, time.monotonic()
        return query

    def described(self, user: User, text: str, by: str) -> tuple[tuple[TypedName, ...], Settings] | None:
        """The columns of a statement that is not run, and the settings it has them under; None for one that is no
        query, or whose columns its rows say. Raises as `admit` and `begin` do."""
        planned = self._planned(user, text, by)
        return None if planned is None else (planned.plan.columns, planned.bound.settings)

    def planned(self, user: User, text: str, by: str) -> Plan | None:
        """The plan of a query that is not run; None for what `described` has no columns of. Raises as that does."""
        planned = self._planned(user, text, by)
        return None if planned is None else planned.plan

    def _planned(self, user: User, text: str, by: str) -> Planned | None:
        query = self.admit(user, text, by)
        try:
            planned = query.described()
        except Exception as error:
            query.end(error)
            raise
        query.end()
        return planned

    def begun(self, user: User, id: str, text: str) -> UserQuery | None:
        """A query of a user that has begun, for its only reader; None if there is none of that id and text."""
        with self._lock:
            found, _ = self._unread.get((user.name, id), (None, 0.0))
            if found is None or found.text != text:
                return None
            del self._unread[user.name, id]
            return found

    def end_unread(self, seconds: float) -> None:
        """Cancel queries that began so long ago and whose rows no client has requested."""
        with self._lock:
            now = time.monotonic()
            late = [key for key, (_, since) in self._unread.items() if now - since >= seconds]
            queries = [self._unread.pop(key)[0] for key in late]
        for query in queries:
            query.cancel(why := f"no client has requested the rows within {seconds:g} s")
            query.end(Cancelled(why))

    def limits(self, user: User) -> Limits:
        """The limits of one query of a user: its own and its tenant's, whichever is less, or isolates."""
        own, tenant = user.limits, self.users.of_tenant(user.tenant)
        lesser = {name: min(getattr(own, name), getattr(tenant, name)) for name in _OF_ONE_QUERY}
        return replace(own, **lesser, isolated=own.isolated or tenant.isolated)

    def of(self, user: User) -> list[UserQuery]:
        """The queries of a user that run now, the oldest first."""
        with self._lock:
            return [query for query in self._running.values() if query.user.name == user.name]

    def cancel(self, user: User, id: str) -> bool:
        """Cancel a query of a user. False if the user has none of that id, even if another has."""
        found = [query for query in self.of(user) if query.id == id]
        for query in found:
            query.cancel()
        return bool(found)

    def metrics(self) -> str:
        """The counts, and what holds now, in Prometheus' format."""
        with self._lock:
            running = list(self._running.values())
        return self._counts.text(self._gauges(running))

    def refused(self, user: str, text: str, by: str, error: QoopError) -> None:
        """Note a statement that was not let in."""
        self._tell(UserQuery(self.session, User(user, ""), text, by, self._ended), "refused", error)

    def noted(
        self, user: User, text: str, by: str, since: float, rows: int = 0, error: QoopError | None = None
    ) -> None:
        """Note a statement that was answered without a query, such as one about the catalog. since: when it was asked,
        by `time.monotonic`."""
        query = UserQuery(self.session, user, text, by, self._ended)
        query.since, query.rows = since, rows
        self._tell(query, "done" if error is None else "failed", error)

    def admit_no_more(self) -> None:
        """Refuse queries from now on."""
        with self._lock:
            self._closing = True

    def close(self, grace: float) -> None:
        """Admit no more; wait for those that run, at most `grace` seconds, then cancel them and wait for their end."""
        self.admit_no_more()
        self._wait(grace)
        self.end_unread(0.0)
        with self._lock:
            left = list(self._running.values())
        for query in left:
            query.cancel("the server ends", SessionClosed)
        self._wait(_TO_CANCEL)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._running and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)

    def _check_limits(self, user: User) -> None:
        if self._closing:
            raise Busy("the server ends, and takes no more queries")
        if len(self._running) >= self.queries:
            raise Busy(f"{self.queries} queries run, which is as many as may")
        self._turns.check(self._owners(user))
        self._rates.take(user.name, user.limits.rate)
        self._rates.take(f"the tenant {user.tenant}", self.users.of_tenant(user.tenant).rate)

    def _owners(self, user: User, again: bool = False) -> tuple[Owner, Owner]:
        """The user and its tenant, with their limits. again: all queries that were let in before may wait."""
        tenant = self.users.of_tenant(user.tenant)
        names = ((user.name, user.limits), (f"the tenant {user.tenant}", tenant))
        owners = (Owner(name, one.queries, math.inf if again else one.queue) for name, one in names)
        return next(owners), next(owners)

    def _ended(self, query: UserQuery, outcome: str, error: Exception | None) -> None:
        try:
            if query.job is not None:
                self._count(query.job, query.seconds)
            self._tell(query, outcome, error)
        finally:
            with self._lock:
                self._running.pop((query.user.name, query.id), None)
                self._turns.leave(query.turn)

    def _count(self, job: Job, seconds: float) -> None:
        replay = JobReplay.of(job.history())
        used = sum(end.used for _, end in replay.succeeded())
        self._counts.of_job(max(0, len(job.plans) - 1), used, replay.waited(seconds))

    def _tell(self, query: UserQuery, outcome: str, error: Exception | None) -> None:
        seconds, kind = query.seconds, type(error).__name__ if error is not None else ""
        self._counts.ended(outcome, kind, query.user.tenant, query.rows, query.size, seconds)
        if self._slow is not None and outcome != "refused":
            self._slow.ended(query, outcome)
        failure = f"{kind}: {error}" if error is not None else ""
        if self._spans is not None:
            self._spans.tell(query, outcome, error)
        self._audit.write(
            Entry(query.id, query.user.name, query.by, query.text, outcome, query.rows, seconds, error=failure)
        )

    def _gauges(self, running: list[UserQuery]) -> Mapping[str, tuple[str, float]]:
        session = self.session
        used = [query.job.status().used for query in running if query.job is not None and not query.job.wait(0)]
        return {
            "queries_running": ("Queries that have not ended", len(running)),
            "queries_waiting": ("Of these, those without a slot", sum(query.waits for query in running)),
            "queries_queued": (
                "Of these, those that wait for their turn",
                sum(not one.turn.is_set() for one in running),
            ),
            "users": ("Users in the file of users", len(self.users)),
            "slots": ("Slots that tasks may have", session.available.cpu),
            "slots_used": ("Slots that tasks have", sum(one.cpu for one in used)),
            "memory_bytes": ("Memory that tasks may have", session.available.memory),
            "memory_used_bytes": ("Memory that tasks have", sum(one.memory for one in used)),
            "tables": ("Tables that are registered", len(session.tables())),
            **_spilled(session),
        }


def as_ours(error: Exception, what: str) -> QoopError:
    """An error as users hear of it: one that is not ours is in the log, with all that led to it."""
    if isinstance(error, QoopError):
        return error
    _log.error("%s has failed", what, exc_info=error)
    return QoopError("the server has failed; its log says more")


def _spilled(session: Session) -> Mapping[str, tuple[str, float]]:
    """Nothing where the machines are others: each knows only its own disk."""
    if not isinstance(session.backend, LocalBackend):
        return {}
    return {"spilled_bytes": ("Bytes on disk for want of memory", session.backend.spilled)}
