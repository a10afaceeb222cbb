"""The texts of queries before they are planned: with the values that stand for variables, PIVOTs and data frames."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import cached_property
from typing import TYPE_CHECKING

from qoop.catalog.errors import QueryError
from qoop.config import Config
from qoop.result import Result
from qoop.session_tables import SessionTables

if TYPE_CHECKING:
    from qoop.statements.parameters import Parameters
    from qoop.statements.remembered import Remembered

Asked = Callable[[str], Result]
"""Answers a query that is asked on the way to another one."""


class Texts:
    """Things that texts refer to besides tables: prepared statements, variables, and data frames of the program."""

    def __init__(self, config: Config, tables: SessionTables) -> None:
        self._config = config
        self._tables = tables
        self._frames: dict[str, object] = {}  # variables of the program that are tables, by name in lower case

    @cached_property
    def remembered(self) -> Remembered:
        """The prepared statements and the variables."""
        from qoop.statements.remembered import Remembered

        return Remembered()

    def changed(self) -> None:
        """A table, a view or a schema is about to change: a transaction cannot be rolled back any more."""
        if "remembered" in vars(self):
            self.remembered.changed()

    def forget_frame(self, name: str) -> None:
        """Leave a name to the table that the program has registered."""
        self._frames.pop(name.lower(), None)

    def written_out(self, text: str, asked: Asked) -> str:
        """A query with the values of variables, and with those that its PIVOTs find in the data."""
        if "getvariable" in text.lower() and not self._config.locked:
            text = self._with_variables(text)
        if self._config.local_frames and not self._config.locked:
            self._see_frames(text)
        if "pivot" not in text.lower():
            return text
        from qoop.statements.pivots import with_values

        return with_values(text, lambda query: [str(value) for (value,) in asked(query).fetchall()])

    def _with_variables(self, text: str) -> str:
        """A query with the values of variables, and the columns that it has as it was given."""
        from qoop.statements.macros.naming import with_names

        written, describe = self.remembered.written_out(text), self._tables.binder.describe
        if written == text:
            return text
        try:
            wanted, now = describe(text), describe(written)
        except QueryError:
            return written  # its fault is told where it is planned
        return with_names(written, [name for name, _ in now], [name for name, _ in wanted])

    def _see_frames(self, text: str) -> None:
        """Register the variables of the program that a query names as tables; forget those that are none any more."""
        from qoop.statements.local_frames import may_change, names_where_tables_stand, variables

        asked = names_where_tables_stand(text)
        names = [*(name for name in asked if name.lower() in self._frames), *self._tables.unknown(asked)]
        holding = variables(names) if names else {}
        for name in names:
            seen, found = self._frames.get(name.lower()), holding.get(name)
            if found is None and seen is not None:
                self._tables.forget(name)
                del self._frames[name.lower()]
            elif found is not None and (found is not seen or may_change(found)):
                self._tables.register(name, found)
                self._frames[name.lower()] = found


def with_parameters(text: str, parameters: Parameters | None) -> str:
    """The text as it is where no values are given, else with each parameter as a literal."""
    if parameters is None or (isinstance(parameters, Sized) and len(parameters) == 0):
        return text
    from qoop.statements.parameters import with_values

    return with_values(text, parameters)
