"""The types of parameters of which a client says nothing, by their place in the text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from qoop.catalog.lexer import Lexeme, lexed
from qoop.interfaces.server.postgres.catalog.data import base_types
from qoop.interfaces.server.postgres.catalog.types import ELEMENTS, NAMES, pg_type

if TYPE_CHECKING:
    from qoop.session.session import Session

_COMPARED = frozenset(("=", "<>", "!=", "<", ">", "<=", ">="))
_CONSTANTS = ("number", "string", "parameter")
_INT4, _INT8, _TEXT, _NUMERIC = 23, 20, 25, 1700
_LISTS = {element: array for array, element in ELEMENTS.items()}
_COMBINED = {frozenset("+-*/%"): (20, 21, 23, 700, 701, 1700), frozenset(("||",)): (_TEXT, 1043)}
"""Operators, and the types that both of their sides have."""


def parameter_types(text: str, session: Session) -> dict[int, int]:
    """The numbers of types, by those of parameters: of a cast, of the column or number that one is compared or reckoned
    with, of LIMIT, of ANY, of a column that is nothing else."""
    words = lexed(text).words
    found: dict[int, int] = {}
    for place, word in enumerate(words):
        if word.kind == "parameter" and word.text[1:].strip().isdecimal():
            type_ = _cast(words, place) or _limit(words, place) or _among(words, place, session)
            type_ = type_ or _operand(words, place, session) or _item(words, place)
            if type_ is not None:
                found.setdefault(int(word.text[1:]), type_)
    return found


def _cast(words: Sequence[Lexeme], place: int) -> int | None:
    after = [word.text.lower() for word in words[place + 1 : place + 7]]
    is_call = place > 1 and words[place - 1].text == "(" and words[place - 2].says("CAST")
    if after[:1] != ["::"] and not (is_call and after[:1] == ["as"]):
        return None
    names = after[3:] if after[1:3] == ["pg_catalog", "."] else after[1:]
    numbers = {one.sql_name.split(" ")[0]: one.oid for one in base_types()}
    numbers |= {one.name: one.oid for one in base_types()}
    numbers |= {"int": 23, "string": 25, "datetime": 1114, "decimal": 1700, "float": 701, "timestamp": 1114}
    name = names[0].strip('"') if names else ""
    oid = numbers.get(f"{name}tz" if names[1:4] == ["with", "time", "zone"] else name)
    if oid is not None and names[1:3] == ["[", "]"]:
        oid = _LISTS.get(oid)
    return oid if oid in NAMES or oid in ELEMENTS else None


def _limit(words: Sequence[Lexeme], place: int) -> int | None:
    return _INT8 if place and words[place - 1].says("LIMIT", "OFFSET") else None


def _among(words: Sequence[Lexeme], place: int, session: Session) -> int | None:
    """Of a parameter that is all of ``= ANY ($1)`` and the like: a list of what is compared with it."""
    before, after = words[max(0, place - 4) : place], words[place + 1 : place + 2]
    if len(before) < 4 or before[1].text not in _COMPARED or not before[2].says("ANY", "SOME", "ALL"):
        return None
    if [one.text for one in (before[3], *after)] != ["(", ")"]:
        return None
    return _LISTS.get(_of_other(before[0], words, session) or _TEXT)


def _item(words: Sequence[Lexeme], place: int) -> int | None:
    """Of a parameter that is all of a column of a SELECT: a text, as for PostgreSQL."""
    after = words[place + 1] if place + 1 < len(words) else None
    if not (words[place - 1].text == "," or words[place - 1].says("SELECT")):
        return None
    if not (after is None or after.text in (",", ")", ";") or after.says("FROM", "AS", "UNION")):
        return None
    depth = 0
    for word in reversed(words[:place]):
        depth += (word.text == ")") - (word.text == "(")
        if depth < 0 or (depth == 0 and word.says("FROM", "WHERE", "BY", "VALUES", "IN")):
            return None
        if depth == 0 and word.says("SELECT"):
            return _TEXT
    return None


def _operand(words: Sequence[Lexeme], place: int, session: Session) -> int | None:
    """The type of the column or number that a parameter is compared or reckoned with."""
    before, after = words[:place][::-1], words[place + 1 :]
    operators = [found[0].text for found in (before, after) if len(found) > 1]
    if _COMPARED & set(operators):
        return _of_other(_next_to(before, after, _COMPARED), words, session)
    for combined, types in _COMBINED.items():
        if combined & set(operators):
            type_ = _of_other(_next_to(before, after, combined), words, session)
            return type_ if type_ in types else None
    return _of_other(_before_list(before), words, session)


def _next_to(before: Sequence[Lexeme], after: Sequence[Lexeme], operators: Collection[str]) -> Lexeme | None:
    """The word on the other side of one of the operators. before: words, the next one first."""
    if len(before) > 1 and before[0].text in operators:
        return before[1]
    return after[3] if len(after) > 3 and after[2].text == "." else after[1]


def _before_list(before: Sequence[Lexeme]) -> Lexeme | None:
    """The word before IN or BETWEEN, if nothing but constants is between it and the parameter."""
    for place, word in enumerate(before):
        if word.says("IN", "BETWEEN"):
            return next((other for other in before[place + 1 :] if not other.says("NOT")), None)
        if not (word.kind in _CONSTANTS or word.text in (",", "(") or word.says("AND")):
            return None
    return None


def _of_other(other: Lexeme | None, words: Sequence[Lexeme], session: Session) -> int | None:
    if other is not None and other.kind == "number":
        return _INT4 if other.text.isdecimal() else _NUMERIC
    if other is not None and other.kind == "string":
        return _TEXT
    return None if other is None or other.name is None else _of_column(other.name, words, session)


def _of_column(name: str, words: Sequence[Lexeme], session: Session) -> int | None:
    """The type of a column, if the tables of the text that have one agree."""
    named = {(word.name or "").lower() for word in words}
    tables = [table for table_name, table in session.tables().items() if table_name.lower() in named]
    types = {
        pg_type(type_).oid for table in tables for column, type_ in table.columns if column.lower() == name.lower()
    }
    return next(iter(types)) if len(types) == 1 else None
