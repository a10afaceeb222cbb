"""The macros of a session together with the DuckDB that its texts are bound by, which knows them, too."""

from __future__ import annotations

from collections.abc import Callable

from qoop.catalog.lexer import quoted
from qoop.planner.sql.bind import Binder
from qoop.query.statements.macros.expanding import Macros
from qoop.query.statements.macros.reading import CreateMacro, DropMacro, Macro, OfMacros


class DefinedMacros:
    """Not thread-safe: a caller that shares it guards it. with_plain_names: a query with each table by one name."""

    def __init__(self, binder: Binder, with_plain_names: Callable[[str], str]) -> None:
        self._binder = binder
        self._with_plain_names = with_plain_names
        self._macros = Macros()

    def do(self, statement: OfMacros) -> None:
        """Make a macro, or forget one. Raises CatalogError, ParseError or BindError where DuckDB does."""
        match statement:
            case CreateMacro(macro):
                if self._macros.must_define(statement):
                    self._binder.define(self._definition(macro))
                    self._macros.add(macro)
            case DropMacro(name):
                dropped = self._macros.drop(statement)
                if dropped is not None:
                    self._binder.define(f"DROP MACRO{' TABLE' if dropped.is_table else ''} {quoted(name)}")

    def all(self) -> list[Macro]:
        """All of them."""
        return self._macros.all()

    def expand(self, text: str) -> str:
        """See `Macros.expand`."""
        return self._macros.expand(text)

    def _definition(self, macro: Macro) -> str:
        query = self._with_plain_names(macro.body if macro.is_table else f"SELECT {macro.body}")
        return macro.definition(query if macro.is_table else query[len("SELECT ") :])
