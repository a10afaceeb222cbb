"""The macros of a session, and texts with their bodies in place of the calls.

As in DuckDB, a parameter stands for the text of its argument, which is computed wherever the parameter is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from qoop.catalog.errors import BindError, CatalogError
from qoop.catalog.lexer import Lexeme, behind_closing, lexed, list_items
from qoop.catalog.value import value
from qoop.query.statements.macros.reading import OF_MACROS, PASSED, CreateMacro, DropMacro, Macro

_DEEPEST = 50
"""Calls within the bodies of others; DuckDB refuses a macro that calls itself, but not one that is replaced later."""


@value
class _Call:
    """A call in a text. start, end: the characters between which it stands. arguments: by parameter, as texts."""

    macro: Macro
    start: int
    end: int
    arguments: Mapping[str, str]


class Macros:
    """The macros of a session, by name. Not thread-safe: a caller that shares it guards it.

    >>> from qoop.query.statements.macros.reading import Parameter
    >>> macros = Macros()
    >>> macros.add(Macro("twice", (Parameter("x"),), "x * 2", False))
    >>> macros.expand("SELECT twice(a + 1) FROM t WHERE twice = 'twice(1)'")
    "SELECT ((a + 1) * 2) FROM t WHERE twice = 'twice(1)'"
    """

    def __init__(self) -> None:
        self._macros: dict[str, Macro] = {}

    def names(self) -> list[str]:
        """The names of all of them, sorted."""
        return sorted(self._macros)

    def all(self) -> list[Macro]:
        """All of them, by name."""
        return [self._macros[name] for name in self.names()]

    def must_define(self, statement: CreateMacro) -> bool:
        """True if the macro has to be defined. Raises CatalogError if one of that name exists, and the statement has
        neither OR REPLACE nor IF NOT EXISTS."""
        if statement.macro.name not in self._macros or statement.replace:
            return True
        if statement.unless:
            return False
        raise CatalogError(f"there is a macro {statement.macro.name} already; CREATE OR REPLACE MACRO takes its place")

    def add(self, macro: Macro) -> None:
        """Add a macro, in place of one of that name."""
        self._macros[macro.name] = macro

    def drop(self, statement: DropMacro) -> Macro | None:
        """Forget a macro, and return it; None: there is none. Raises CatalogError unless the statement has IF
        EXISTS."""
        found = self._macros.pop(statement.name, None)
        if found is None and not statement.exists:
            raise CatalogError(f"there is no macro {statement.name}; there are: {', '.join(self.names()) or 'none'}")
        return found

    def expand(self, text: str) -> str:
        """The text with bodies in place of calls. Raises BindError for arguments that do not fit, and for calls that
        have no end."""
        return self._expanded(text, 0)

    def _expanded(self, text: str, depth: int) -> str:
        lower = text.lower()
        if not any(name in lower for name in self._macros):
            return text
        if depth > _DEEPEST:
            raise BindError(f"macros call each other more than {_DEEPEST} deep: {text[:80]} …")
        done, pieces = 0, []
        for call in self._calls(text):
            body = _with(call.macro.body, {name: self._expanded(one, depth) for name, one in call.arguments.items()})
            pieces += [text[done : call.start], f"({self._expanded(body, depth + 1)})"]
            done = call.end
        return "".join([*pieces, text[done:]])

    def _calls(self, text: str) -> Iterator[_Call]:
        """The outer calls, in order."""
        words, after = lexed(text).words, 0
        for place, word in enumerate(words[:-1]):
            name = word.name
            macro = self._macros.get(name.lower()) if name is not None and place >= after else None
            if macro is None or words[place + 1].text != "(":
                continue
            first = place
            while first > 1 and words[first - 1].text == ".":
                first -= 2
            if tuple(one.text.lower() for one in words[first:place:2]) not in OF_MACROS:
                raise BindError(f"call the macro as {macro.name}(…), with nothing before its name")
            after = behind_closing(words, place + 1)
            yield _Call(
                macro, words[first].start, words[after - 1].end, _arguments(macro, text, words[place + 2 : after - 1])
            )


def _arguments(macro: Macro, text: str, words: Sequence[Lexeme]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    names = [parameter.name for parameter in macro.parameters]
    for first, after in list_items(words):
        if first == after:
            continue
        named = words[first].name if after - first > 2 and words[first + 1].text in PASSED else None
        begins = first if named is None else first + 2
        name = names[len(arguments)] if named is None and len(arguments) < len(names) else (named or "").lower()
        if name not in names or name in arguments:
            raise BindError(_mismatch(macro))
        arguments[name] = text[words[begins].start : words[after - 1].end]
    passed = {one: arguments.get(one.name, one.default) for one in macro.parameters}
    found = {one.name: one.cast(argument) for one, argument in passed.items() if argument is not None}
    if len(found) < len(passed):
        raise BindError(_mismatch(macro))
    return found


def _mismatch(macro: Macro) -> str:
    return f"the arguments of {macro.name} do not fit: it is {macro.name}({', '.join(map(str, macro.parameters))})"


def _with(body: str, arguments: Mapping[str, str]) -> str:
    """The body with arguments in place of parameters."""
    words, done, pieces = lexed(body).words, 0, []
    named = ((place, word.name.lower()) for place, word in enumerate(words) if word.name is not None)
    tables = {name for place, name in named if _may_be_table(words, place)}
    for place, word in enumerate(words):
        name = None if word.name is None else word.name.lower()
        if name is None or name not in arguments or not _is_parameter(words, place, name in tables):
            continue
        argument = arguments[name]
        is_word = len(lexed(argument).words) == 1 and _text(words, place + 1) != "."
        pieces += [body[done : word.start], argument if is_word else f"({argument})"]
        done = word.end
    return "".join([*pieces, body[done:]])


def _may_be_table(words: Sequence[Lexeme], place: int) -> bool:
    """True of a name that is a table's or an alias, as far as the words around it tell."""
    before = words[place - 1] if place else None
    if before is None or _text(words, place + 1) == ".":
        return False
    return before.name is not None or before.text in (",", ")") or before.says("FROM", "JOIN", "LATERAL", "AS")


def _is_parameter(words: Sequence[Lexeme], place: int, may_be_table: bool) -> bool:
    """False of a name that is a column's of a table, a function's, an alias or the name of an argument. may_be_table:
    what follows it and a dot is a column of that table, else a field of the argument."""
    before = words[place - 1] if place else None
    if before is not None and (before.text == "." or before.says("AS")):
        return False
    after = _text(words, place + 1)
    return not (after in ("(", *PASSED) or (after == "." and may_be_table))


def _text(words: Sequence[Lexeme], place: int) -> str:
    """The text of a word; empty behind the last one."""
    return words[place].text if place < len(words) else ""
