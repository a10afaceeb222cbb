"""The texts of users that are bound and run in child processes, where they take no more than their share.

    text ──is_light──> bound, planned and run in this process
         └─> describe, in a child ──> plan of one stage ──> a task, in a child (`qoop.engine.processes`)

DuckDB folds constants while it binds, whatever its limits, and holds the lock of the binder meanwhile. So a text that
may be large there is bound in a process with its own limit of memory, under no lock, and can be stopped at any time.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import duckdb

from qoop.adaptive.cluster.granting.short_tenants import Rank, ShortTenants
from qoop.catalog.by_text import LONG
from qoop.catalog.errors import BindError, OutOfMemory, ProcessEnded
from qoop.catalog.priority import URGENT
from qoop.catalog.value import value
from qoop.engine.processes.pool import ProcessPool
from qoop.engine.processes.process import ChildProcess, Limits
from qoop.planner.light import is_light
from qoop.query.isolation import isolated_texts
from qoop.query.isolation.fair_turns import FairTurns
from qoop.query.statements.statement import Explain, Query, Statement

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import BinderContents, TypedName

_AT_A_TIME = 2
"""Texts that are bound at a time in each lane."""
_QUICK_SECONDS, _QUICK_MEMORY = 0.25, 64 << 20
"""The limits of the quick lane. A text that needs more is bound again in the other lane, where it waits for its turn:
so a short text never waits for one that takes all of its time. Texts that needed more before go there at once.
Other texts of a tenant that sent such a text use a second quick lane, and processes of a lower priority. The texts of
tenants of which nothing is known yet use a third one: ten tenants that came at once with texts that bind for long held
both turns against the short texts of others for 1 to 3 s."""
_CROWDED = 8  # times as long by the clock, where others use the processor
_PART, _LEAST = 8, 128 << 20
"""The part of the session's memory that a text of the other lane may take, and the bytes that it may always take."""
_REMEMBERED = 1000


@value
class Caller:
    """The caller for which texts are bound. check: is called often, in the thread of a text, and raises what gives that
    up. tenant: of the texts. isolated: not even light ones are bound in this process."""

    check: Callable[[], object] = lambda: None
    tenant: str = ""
    isolated: bool = False


_SESSION = Caller()
"""The caller where a session plans a text for itself."""
_caller: ContextVar[Caller] = ContextVar("caller", default=_SESSION)


@contextmanager
def bound_for(caller: Caller) -> Iterator[None]:
    """Texts within the block are bound for this caller."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


class TextIsolation:
    """Binds the texts of one session that are not light in child processes. Thread-safe.

    pool: of the processes. memory: of the session. locked: see `qoop.connect`. has_short: see `Cluster.has_short`.
    """

    def __init__(
        self, pool: ProcessPool, memory: int, locked: bool, has_short: Callable[[str], bool] = lambda tenant: False
    ) -> None:
        pool.preload(isolated_texts.__name__)
        self._pool, self._has_short = pool, has_short
        self._memory = max(_LEAST, memory // _PART)
        self._locked = locked
        self._quick, self._unknown = FairTurns(_AT_A_TIME), FairTurns(_AT_A_TIME)
        self._doubtful, self._slow = FairTurns(1), FairTurns(_AT_A_TIME)
        self._tenants = ShortTenants()
        self._not_quick: OrderedDict[bytes, None] = OrderedDict()  # digests of texts that go to the slow lane at once
        self._described = _Described(None)
        self._verdicts = _Verdicts({}, ())
        self._queries: OrderedDict[bytes, None] = OrderedDict()  # digests of long texts that are one query each

    def warm(self) -> None:
        """Have processes that wait for texts, so that the first one waits for none."""
        self._pool.warm()

    def is_needed(self, text: str, tables: Mapping[str, Table], views: Sequence[str]) -> bool:
        """True for a text that is not to be bound in this process. tables, views: of the session."""
        if _caller.get().isolated:
            return True
        known = self._verdicts
        if known.tables is not tables or known.views != tuple(views) or len(known.by_text) >= _REMEMBERED:
            known = self._verdicts = _Verdicts(tables, tuple(views))
        found = known.by_text.get(text)
        if found is None:
            found = not is_light(text, known.names)
            if len(text) <= LONG:
                known.by_text[text] = found
        return found

    def is_long(self, text: str) -> bool:
        """True for a text that is not even parsed in this process."""
        return len(text) > LONG

    def statements(self, text: str) -> tuple[Statement, ...]:
        """The statements of a long text: queries and EXPLAIN. Raises as `statements`, and QueryError for others."""
        found = self._called(text, lambda process, limits: process.call(isolated_texts.read, (text,), limits))
        for kind, query in found:
            if kind == "query":
                self._queries[_digest(query)] = None
        while len(self._queries) > _REMEMBERED:
            self._queries.popitem(last=False)
        return tuple(Query(query) if kind == "query" else Explain(query, kind) for kind, query in found)

    def is_query(self, text: str) -> bool:
        """True for a long text that was read before, and is a query."""
        return self.is_long(text) and _digest(text) in self._queries

    def describe(self, text: str, contents: BinderContents) -> tuple[TypedName, ...]:
        """Names and types of the result of a text. contents: of the session's binder.

        Raises as `Binder.describe`, OutOfMemory for a text whose binding needs more than its share, and what the check
        of the caller does.
        """

        def described(process: ChildProcess, limits: Limits) -> list[tuple[str, str]]:
            new = None if process.known == contents else isolated_texts.CODEC.write(contents)
            found: list[tuple[str, str]] = process.call(isolated_texts.describe, (new, self._locked, text), limits)
            process.known = contents
            return found

        known = self._described
        if known.contents != contents or len(known.by_text) >= _REMEMBERED:
            known = self._described = _Described(contents)
        found = known.by_text.get(text)
        if found is None:
            found = tuple((str(name), str(type_)) for name, type_ in self._called(text, described))
            if len(text) <= LONG:
                known.by_text[text] = found
        return found

    def _called(self, text: str, call: Callable[[ChildProcess, Limits], Any]) -> Any:
        """The result of a call for one text. If its process is killed, another does it: binding changes nothing. A text
        that costs two processes is refused."""
        try:
            try:
                return self._in_lane(text, call)
            except ProcessEnded as error:
                if not error.was_killed:
                    raise
            return self._in_lane(text, call)
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise OutOfMemory(f"to bind the text takes more than {self._memory / 1e6:,.0f} MB: {error}") from None
        except duckdb.Error as error:
            raise BindError(str(error)) from None

    def _in_lane(self, text: str, call: Callable[[ChildProcess, Limits], Any]) -> Any:
        """The result of a call: in the quick lane, or else in the other."""
        if (key := _digest(text)) not in self._not_quick:
            try:
                return self._quickly(call)
            except (_NotQuick, *_OUT_OF_MEMORY):
                self._note_not_quick(key)
        caller = _caller.get()
        with self._slow.turn(caller.tenant, caller.check), self._pool.process(urgent=False) as process:
            return call(process, Limits(self._memory, caller.check, urgent=0.0, gives_way=True))

    def _quickly(self, call: Callable[[ChildProcess, Limits], Any]) -> Any:
        """The result, within the limits of the quick lane. Raises _NotQuick, OutOfMemory, …"""
        caller = _caller.get()
        lane, urgent, rank = self._quick, URGENT, self._tenants.rank(caller.tenant)
        if rank is Rank.UNKNOWN and self._has_short(caller.tenant):
            rank = Rank.SHORT
        match rank:
            case Rank.UNKNOWN:
                lane = self._unknown
            case Rank.NOT_SHORT:
                lane, urgent = self._doubtful, 0.0
        with lane.turn(caller.tenant, caller.check), self._pool.process(rank is Rank.SHORT) as process:
            found = call(process, Limits(_QUICK_MEMORY, _Quick(process, caller.check), urgent, gives_way=True))
        self._tenants.note(caller.tenant, True)
        return found

    def _note_not_quick(self, key: bytes) -> None:
        self._tenants.note(_caller.get().tenant, False)
        self._not_quick[key] = None
        while len(self._not_quick) > _REMEMBERED:
            self._not_quick.popitem(last=False)


_OUT_OF_MEMORY = (OutOfMemory, duckdb.OutOfMemoryException, MemoryError)


class _NotQuick(Exception):
    """The text takes too long for the quick lane."""


class _Quick:
    """A check that raises _NotQuick once a process has worked for too long. It counts the processor's time, so that a
    short text stays short where others use the processor, but at most some times as long by the clock."""

    def __init__(self, process: ChildProcess, check: Callable[[], object]) -> None:
        self._process, self._check = process, check
        self._begun: tuple[float, float] | None = None

    def __call__(self) -> None:
        self._check()
        if not self._process.id:
            return
        now = self._process.cpu_seconds(), time.monotonic()
        self._begun = self._begun or now
        if now[0] - self._begun[0] > _QUICK_SECONDS or now[1] - self._begun[1] > _CROWDED * _QUICK_SECONDS:
            raise _NotQuick


class _Verdicts:
    """The heavy texts and the light ones, while the tables and views are the same."""

    def __init__(self, tables: Mapping[str, Table], views: tuple[str, ...]) -> None:
        self.tables, self.views = tables, views
        self.names = frozenset(name.lower() for name in (*tables, *views))
        self.by_text: dict[str, bool] = {}


class _Described:
    """The columns of texts, while the binder knows the same."""

    def __init__(self, contents: BinderContents | None) -> None:
        self.contents = contents
        self.by_text: dict[str, tuple[TypedName, ...]] = {}


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()
