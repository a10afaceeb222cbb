"""The functions of a child process that read and bind the text of a user, before anything else does.

They run in a process of :mod:`qoop.engine.processes`, within its limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import QueryError
from qoop.catalog.written.codec import Codec
from qoop.planner.lock import names_read
from qoop.planner.sql.bind import Binder, BinderContents
from qoop.query.statements.pivots import is_open
from qoop.query.statements.statement import Explain, Query, Statement, statements

if TYPE_CHECKING:
    from qoop.engine.processes.child import Reply

CODEC = Codec({})
"""Writes what a binder knows as JSON."""

_binders: list[Binder] = []


def prepare() -> None:
    """Do once, before processes are forked, what the first text of each would do. A first text takes 9 ms of the
    processor after that, and 14 without it (DuckDB 2.0.1; later texts 2)."""
    CODEC.pair(BinderContents)
    names_read("SELECT median(x) FROM t WHERE x > 1")


def describe(reply: Reply, contents: Any | None, locked: bool, text: str) -> list[tuple[str, str]]:
    """Names and types of the result of a text. contents: what the binder knows, as JSON; None: as at the last call.

    Raises as `Binder.describe`.
    """
    if contents is not None:
        for binder in _binders:
            binder.close()
        _binders[:] = [Binder.of(CODEC.read(BinderContents, contents), locked)]
    return list(_binders[0].describe(text))


def read(reply: Reply, text: str) -> list[list[str]]:
    """The statements of a long text: the kind and the text of each. Raises as `statements`, and QueryError for kinds
    that are not to be long."""
    return [list(_plain(one)) for one in statements(text)]


def _plain(statement: Statement) -> tuple[str, str]:
    match statement:
        case Query(text) | Explain(text) if is_open(text):
            raise QueryError("the text is too long for a PIVOT without values: write them after IN")
        case Query(text):
            return "query", text
        case Explain(text, what):
            return what, text
    raise QueryError("the text is too long: queries and EXPLAIN may be, other statements may not")
