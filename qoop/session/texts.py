"""The texts of queries before they are planned: with the values that stand for variables, PIVOTs and data frames."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sized
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from qoop.catalog.errors import QueryError
from qoop.query.config import Config
from qoop.query.result import Result
from qoop.query.tables import SessionTables
from qoop.session.frames import Frames

if TYPE_CHECKING:
    from qoop.adaptive.cluster.job_handle import JobHandle
    from qoop.query.statements.parameters import Parameters
    from qoop.query.statements.session_state import SessionState

RunQuery = Callable[[str], Result]
"""Runs a query that the preparation of another one needs."""


class Texts:
    """Texts before planning, and the names in them besides tables: prepared statements, variables, and data frames."""

    def __init__(self, config: Config, tables: SessionTables) -> None:
        self._config = config
        self._tables = tables
        self._sees_frames = config.local_frames and not config.locked
        self._frames = Frames(tables)

    @cached_property
    def state(self) -> SessionState:
        """The prepared statements and the variables."""
        from qoop.query.statements.session_state import SessionState

        return SessionState()

    def changed(self) -> None:
        """A table, a view or a schema is about to change: a transaction cannot be rolled back any more."""
        if "state" in vars(self):
            self.state.changed()

    def frames(self, text: str) -> Collection[str]:
        """The names of variables of the program that a text may read."""
        return self._frames.named(text).keys() if self._sees_frames else ()

    @contextmanager
    def written_out(self, text: str, run_query: RunQuery) -> Iterator[str]:
        """A query with the values of variables and of PIVOTs, and with the tables of the program that it reads. These
        tables stay until the block ends, and for the jobs that start within it."""
        if "getvariable" in text.lower() and not self._config.locked:
            text = self._with_variables(text)
        if "pivot" in text.lower():
            text = self._with_pivoted(text, run_query)
        if not self._sees_frames:
            yield text
            return
        with self._frames.read_by(text) as read:
            yield read

    def started(self, job: JobHandle, tables: Mapping[str, object]) -> None:
        """A job reads some tables. tables: by name in lower case."""
        self._frames.started(job, tables)

    def _with_pivoted(self, text: str, run_query: RunQuery) -> str:
        from qoop.query.statements.pivots import with_values

        def values(query: str) -> list[str]:
            with self.written_out(query, run_query) as written:
                return [str(value) for (value,) in run_query(written).fetchall()]

        return with_values(text, values)

    def _with_variables(self, text: str) -> str:
        """A query with the values of variables, and with the column names of the original text."""
        from qoop.query.statements.macros.naming import with_names

        written, describe = self.state.written_out(text), self._tables.binder.describe
        if written == text:
            return text
        try:
            expected, now = describe(text), describe(written)
        except QueryError:
            return written  # planning reports the fault
        return with_names(written, [name for name, _ in now], [name for name, _ in expected])


def with_parameters(text: str, parameters: Parameters | None) -> str:
    """The text with each parameter as a literal; unchanged without parameters."""
    if parameters is None or (isinstance(parameters, Sized) and len(parameters) == 0):
        return text
    from qoop.query.statements.parameters import with_values

    return with_values(text, parameters)
