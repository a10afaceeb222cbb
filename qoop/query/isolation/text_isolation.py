"""The texts of users that are bound and run in child processes, where they take no more than their share.

    text ──is_light──> bound, planned and run in this process
         └─> describe, in a child ──> plan of one stage ──> a task, in a child (`qoop.engine.processes`)

DuckDB folds constants while it binds, whatever its limits, and holds the lock of the binder meanwhile. So a text that
may be large there is bound in a process with its own limit of memory, under no lock, and can be stopped at any time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog.by_text import LONG
from qoop.catalog.errors import BindError, OutOfMemory
from qoop.engine.processes.pool import ProcessPool
from qoop.engine.processes.process import ChildProcess, Limits
from qoop.planner.light import is_light
from qoop.query.isolation import isolated_texts
from qoop.query.statements.statement import Explain, Query, Statement

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.sql.bind import BinderContents, TypedName

_AT_A_TIME = 2
_PART = 4
"""Texts that are bound at a time, and the part of the session's memory that each may take,"""
_LEAST = 128 << 20
"""but no less than this."""
_INTERVAL = 0.05  # seconds between two checks of a text that waits for its turn
_REMEMBERED = 1000

_check: ContextVar[Callable[[], object]] = ContextVar("check", default=lambda: None)


@contextmanager
def checked_by(check: Callable[[], object]) -> Iterator[None]:
    """Texts that are bound within the block are given up where `check` raises; it is called often, in their thread."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


class TextIsolation:
    """Binds the texts of one session that are not light in child processes. Thread-safe.

    pool: of the processes. memory: of the session. locked: see `qoop.connect`.
    """

    def __init__(self, pool: ProcessPool, memory: int, locked: bool) -> None:
        pool.preload(isolated_texts.__name__)
        self._pool = pool
        self._memory = max(_LEAST, memory // _PART)
        self._locked = locked
        self._turns = threading.BoundedSemaphore(_AT_A_TIME)
        self._verdicts = _Verdicts({}, ())
        self._queries: OrderedDict[bytes, None] = OrderedDict()  # digests of long texts that are one query each

    def warm(self) -> None:
        """Have processes that wait for texts, so that the first one waits for none."""
        self._pool.warm()

    def is_needed(self, text: str, tables: Mapping[str, Table], views: Sequence[str]) -> bool:
        """True for a text that is not to be bound in this process. tables, views: of the session."""
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
        with self._turn() as (process, limits):
            found = process.call(isolated_texts.read, (text,), limits)
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
        with self._turn() as (process, limits):
            new = None if process.known == contents else isolated_texts.CODEC.write(contents)
            found = process.call(isolated_texts.describe, (new, self._locked, text), limits)
            process.known = contents
        return tuple((str(name), str(type_)) for name, type_ in found)

    @contextmanager
    def _turn(self) -> Iterator[tuple[ChildProcess, Limits]]:
        """A process for one text, once it is its turn."""
        limits = Limits(self._memory, _check.get())
        while not self._turns.acquire(timeout=_INTERVAL):
            limits.check()
        try:
            with self._pool.process() as process:
                yield process, limits
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise OutOfMemory(f"to bind the text takes more than {self._memory / 1e6:,.0f} MB: {error}") from None
        except duckdb.Error as error:
            raise BindError(str(error)) from None
        finally:
            self._turns.release()


class _Verdicts:
    """The heavy texts and the light ones, while the tables and views are the same."""

    def __init__(self, tables: Mapping[str, Table], views: tuple[str, ...]) -> None:
        self.tables, self.views = tables, views
        self.names = frozenset(name.lower() for name in (*tables, *views))
        self.by_text: dict[str, bool] = {}


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()
