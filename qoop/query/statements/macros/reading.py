"""CREATE MACRO and DROP MACRO: from text to statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import Lexeme, lexed, list_items, quoted
from qoop.catalog.value import value
from qoop.query.statements.databases.schemas import MAIN, OWN, TEMPORARY

if TYPE_CHECKING:
    from qoop.query.statements.words import Words

_FORM = (
    "CREATE [OR REPLACE] MACRO name(parameter, parameter type, parameter := value, …) AS expression, or AS TABLE query"
)

OF_MACROS = ((), (MAIN,), (OWN, MAIN), (OWN,), (TEMPORARY,), (TEMPORARY, MAIN))
"""The schemas that may be written before the name of a macro, in lower case."""

PASSED = (":=", "=>")
"""The signs between the name of a parameter and its value."""


@value
class Parameter:
    """name: in lower case. default: the text of its value without an argument; None: it needs one. type: DuckDB's, to
    which arguments are cast; empty: any."""

    name: str
    default: str | None = None
    type: str = ""

    def __str__(self) -> str:
        typed = f"{self.name} {self.type}" if self.type else self.name
        return typed if self.default is None else f"{typed} := {self.default}"

    def cast(self, argument: str) -> str:
        """An argument as the body reads it."""
        return f"CAST({argument} AS {self.type})" if self.type else argument


@value
class Macro:
    """name: in lower case. body: an expression, or a query where it gives a table."""

    name: str
    parameters: tuple[Parameter, ...]
    body: str
    is_table: bool

    def definition(self, body: str | None = None) -> str:
        """The statement that makes it. body: in place of the body of the macro."""
        parameters = ", ".join(map(str, self.parameters))
        table = "TABLE " if self.is_table else ""
        return (
            f"CREATE OR REPLACE MACRO {quoted(self.name)}({parameters}) AS {table}{self.body if body is None else body}"
        )


@value
class CreateMacro:
    """replace: in place of a macro of that name. unless: do nothing if there is one. text: of the statement."""

    macro: Macro
    replace: bool
    unless: bool


@value
class DropMacro:
    """exists: do nothing if there is none."""

    name: str
    exists: bool


OfMacros = CreateMacro | DropMacro


def macro_created(words: Words) -> CreateMacro | None:
    """The macro in a CREATE statement; None for another statement. Raises QueryError for a form that is not
    supported."""
    replace = words.take("CREATE", "OR", "REPLACE") or not words.take("CREATE")
    _ = words.take("TEMP") or words.take("TEMPORARY")
    if not words.take("MACRO") and not words.take("FUNCTION"):
        return None
    unless = words.take("IF", "NOT", "EXISTS")
    name, parameters = _name(words), words.parenthesised()
    if not name or parameters is None or not words.take("AS"):
        raise QueryError(f"a macro is in the schema main: {_FORM}")
    is_table = words.take("TABLE")
    if not is_table and len(list(list_items(words.left))) > 1:
        raise QueryError(f"a macro of a session has one form: {_FORM}")
    return CreateMacro(Macro(name, _parameters(parameters), words.rest, is_table), replace, unless)


def _parameters(parenthesised: str) -> tuple[Parameter, ...]:
    inside = parenthesised[1:-1]
    words = lexed(inside).words
    return tuple(_parameter(inside, words[first:after]) for first, after in list_items(words) if first < after)


def _parameter(text: str, words: Sequence[Lexeme]) -> Parameter:
    """The name, then the type, then a sign and the value; the last two may be missing."""
    name, sign = words[0].name, next((place for place, one in enumerate(words) if one.text in PASSED), len(words))
    if name is None or sign == 0 or sign == len(words) - 1:
        raise QueryError(f"a parameter of a macro has a name: {_FORM}")
    type_ = text[words[1].start : words[sign - 1].end] if sign > 1 else ""
    default = text[words[sign + 1].start : words[-1].end] if sign < len(words) else None
    return Parameter(name.lower(), default, type_)


def macro_dropped(words: Words) -> DropMacro | None:
    """The macro in a DROP statement; None for another statement. Raises QueryError for a name with a schema."""
    if not words.take("DROP", "MACRO") and not words.take("DROP", "FUNCTION"):
        return None
    _ = words.take("TABLE")
    exists = words.take("IF", "EXISTS")
    name = _name(words)
    _ = words.take("CASCADE") or words.take("RESTRICT")
    if not name or words.next is not None:
        raise QueryError("a macro is in the schema main: DROP MACRO [IF EXISTS] name")
    return DropMacro(name, exists)


def _name(words: Words) -> str:
    """The name of a macro in lower case; empty for one in a schema other than that of names without one."""
    *schema, name = map(str.lower, words.parts() or ("",))
    return name if tuple(schema) in OF_MACROS else ""
