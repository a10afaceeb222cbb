"""One query of a user on the server's session: from its text to its last row, within the user's limits."""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.errors import (
    Cancelled,
    CatalogError,
    ConfigError,
    Forbidden,
    QoopError,
    QueryError,
    SessionClosed,
    Suspended,
    Timeout,
    TooMuch,
)
from qoop.catalog.sizes import size
from qoop.catalog.value import value
from qoop.engine.replay import JobReplay
from qoop.query.isolation.text_isolation import Caller, bound_for
from qoop.query.statements.parameters import Parameters
from qoop.query.statements.pivots import is_open
from qoop.query.statements.statement import Explain, Query, ShowFunctions, ShowTables, Statement, statements
from qoop.session.texts import with_parameters

if TYPE_CHECKING:
    from qoop.interfaces.server.users import User
    from qoop.query.isolation.text_isolation import TextIsolation
    from qoop.query.job import Job, Planned
    from qoop.query.result import Result
    from qoop.session.session import Session

_log = logging.getLogger(__name__)

ENDED = (Cancelled, SessionClosed)
"""The errors of a query that was cancelled, or ended with its server; a client may send the latter again."""


@value
class Earlier:
    """A run of the query by a server that has ended; the next run uses its outputs.

    bundle: the folder where it was suspended. at: the value of ``now()`` in it; None: the text does not depend on it.
    """

    bundle: Path | None = None
    at: str | None = None


class UserQuery:
    """A query that was admitted. One thread asks for its rows, others may cancel it.

    user: its limits hold for this query. by: the protocol of the request. id: known to its user only, by default a new
    one. ended: called once, with the outcome and the error. earlier: the run that this one continues.
    """

    def __init__(
        self,
        session: Session,
        user: User,
        text: str,
        by: str,
        ended: Callable[[UserQuery, str, Exception | None], None],
        parameters: Parameters = (),
        id: str | None = None,
        earlier: Earlier | None = None,
    ) -> None:
        self.id = id or secrets.token_hex(8)
        self._earlier = earlier
        self.user, self.text, self.by = user, text, by
        self.rows, self.size, self.since = 0, 0, time.monotonic()
        self.turn, self._turn_at = threading.Event(), math.inf
        self.job: Job | None = None
        self._session, self._parameters, self._ended = session, parameters, ended
        self._lock = threading.Lock()
        self._stopped: tuple[type[QoopError], str] | None = None
        self._over = self._exhausted = self._described = False

    @property
    def seconds(self) -> float:
        """Seconds since it was asked."""
        return time.monotonic() - self.since

    @property
    def queue_seconds(self) -> float:
        """Seconds for which it waited: for its turn, and then for its first task."""
        waited = min(self._turn_at, time.monotonic()) - self.since
        if self.job is None:
            return waited
        return waited + JobReplay.of(self.job.history()).waited(self.job.status().elapsed)

    @property
    def waits(self) -> bool:
        """True if it has no slot now: it waits for its turn, is planned, waits for a slot, or hands out its rows."""
        return self.job is None or (not self.job.wait(0) and self.job.status().used.cpu == 0)

    def parts(self) -> Iterator[Result]:
        """The parts of the answer, each as soon as it is there. Raises what `Job.result` does, TooMuch, Forbidden."""
        try:
            for part in self._answer():
                self._count(part)
                yield part
                self.check()
        except Cancelled:
            self.check()  # says why
            raise
        self._exhausted = True

    def cancel(self, why: str = "the query was cancelled", kind: type[QoopError] = Cancelled) -> None:
        """Stop it, from any thread; it ends once its reader sees that. kind: of the error that its reader has."""
        with self._lock:
            self._stopped = self._stopped or (kind, why)
            job = self.job
        self.turn.set()  # a query that waits for its turn ends
        if job is not None:
            job.cancel()

    def end(self, error: Exception | None = None) -> None:
        """Its reader is done with it, or had this error; further calls do nothing."""
        with self._lock:
            if self._over:
                return
            self._over = True
        if self.job is not None and not self._exhausted:
            self.job.forget()
        self._ended(self, self._outcome(error), error)

    def _outcome(self, error: Exception | None) -> str:
        if isinstance(error, Suspended):
            return "suspended"
        if error is None and self._described:
            return "described"
        if isinstance(error, ENDED) or (error is None and not self._exhausted):
            return "cancelled"
        return "failed" if error is not None else "done"

    def begin(self) -> Job | None:
        """Start it before its rows are asked for. None: it waits for that, as it is no query, or needs another first.

        Raises what `Session.submit` does.
        """
        self._wait_for_turn()
        with self._checked():
            statement = self._statement()
            if isinstance(statement, Query) and not self._is_open(statement):
                self._begun(self._job(statement.text))
        return self.job

    def described(self) -> Planned | None:
        """Its plan, which is not run; None for what is no query, or a PIVOT whose rows say which columns it has.

        Raises what `Session.submit` does.
        """
        self._described = True
        self._wait_for_turn()
        with self._checked():
            statement = self._statement()
            if not isinstance(statement, Query) or self._is_open(statement):
                return None
            return self._session.planning.plan(statement.text)

    def _count(self, part: Result) -> None:
        self.check()
        if self.rows + len(part) > self.user.limits.rows:
            raise TooMuch(
                f"the answer has more than the {self.user.limits.rows:,.0f} rows that {self.user.name} may have"
            )
        if self.size + part.nbytes > self.user.limits.result_bytes:
            most = size(self.user.limits.result_bytes)
            raise TooMuch(f"the answer has more than the {most} that {self.user.name} may have")
        self.rows += len(part)
        self.size += part.nbytes

    def _wait_for_turn(self) -> None:
        """Wait in the queue of the user and the tenant. Raises Cancelled, Timeout."""
        limit = self.user.limits.longest_query
        self.turn.wait(None if math.isinf(limit) else max(0.0, limit - self.seconds))
        self.check()
        if not self.turn.is_set():
            raise Timeout(f"the query has waited for its turn for more than {limit:g} s")
        self._turn_at = min(self._turn_at, time.monotonic())

    def _answer(self) -> Iterator[Result]:
        job = self.job
        if job is None:
            self._wait_for_turn()
            with self._checked():
                statement = self._statement()
                if not isinstance(statement, Query):
                    answer = self._session.execute(statement)
                else:
                    job = self._job(statement.text)
                    self._begun(job)
        if job is None:
            yield answer
        else:
            yield from job.parts()

    def _statement(self) -> Statement:
        return only_statement(with_parameters(self.text, self._parameters), self._session.isolation)

    def _is_open(self, query: Query) -> bool:
        """True for a PIVOT whose values have to be queried first; a long text has none."""
        isolation = self._session.isolation
        return not (isolation is not None and isolation.is_query(query.text)) and is_open(query.text)

    def _checked(self) -> AbstractContextManager[None]:
        """Within it texts are bound on behalf of this query."""
        return bound_for(Caller(self._check_time, self.user.tenant, self.user.limits.isolated))

    def _check_time(self) -> float:
        """The seconds that it may still take. Raises Timeout, and Cancelled."""
        self.check()
        left = self.user.limits.longest_query - self.seconds
        if left <= 0:
            raise Timeout(f"the query has taken more than {self.user.limits.longest_query:g} s before it began")
        return left

    def _job(self, text: str) -> Job:
        left, tenant, user = self._check_time(), self.user.tenant, self.user.name
        limit = None if math.isinf(left) else left
        if self._earlier is not None and self._earlier.bundle is not None:
            try:
                return self._session.resume(self._earlier.bundle, timeout=limit, tenant=tenant, user=user)
            except (ConfigError, CatalogError) as error:  # such as other data: the query is run again, as after a kill
                _log.info("%s does not go on from its bundle: %s", self.id, error)
        match self._earlier:
            case Earlier(at=str(at)):
                planned = self._session.planning.plan(text, at)
                return self._session.start(planned, Terms(tenant=tenant, user=user), timeout=limit, resume=True)
        resume = None if self._earlier is None else True
        return self._session.submit(text, timeout=limit, resume=resume, tenant=tenant, user=user, watch=self._begun)

    def _begun(self, job: Job) -> None:
        """A job of the query has begun: that of its answer, or one that finds the values of a PIVOT first."""
        with self._lock:
            self.job = job
        self.check()

    def check(self) -> None:
        """Raise Cancelled if it was cancelled, and SessionClosed if the server ends."""
        if self._stopped is not None:
            if self.job is not None:
                self.job.cancel()
            kind, why = self._stopped
            raise kind(why)


def only_statement(text: str, isolation: TextIsolation | None) -> Statement:
    """The statement of a text, if a server answers it. isolation: reads long texts. Raises ParseError, QueryError,
    Forbidden.

    The session is that of all users: none may change what others see.
    """
    is_long = isolation is not None and isolation.is_long(text)
    found = isolation.statements(text) if isolation is not None and is_long else statements(text)
    if len(found) != 1:
        raise QueryError(f"a server answers one statement at a time, not {len(found)}")
    [statement] = found
    match statement:
        case Explain(text=text) if not is_long and is_open(text):
            raise Forbidden("a server does not EXPLAIN a PIVOT without values: it would find them beyond its limits")
        case Query() | ShowTables() | ShowFunctions() | Explain(what="plan" | "alternatives"):
            return statement
        case Explain(what=what):
            raise Forbidden(f"a server does not EXPLAIN {what.upper()}: it would run the query beyond its limits")
    raise Forbidden(
        "a server answers queries, EXPLAIN and SHOW: its session is that of all users, so SET, CREATE, DROP and COPY "
        "are not for one of them"
    )
