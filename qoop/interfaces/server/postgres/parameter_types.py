"""The types of parameters of which a client says nothing, by their place in the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoop.catalog.lexer import Lexeme, lexed
from qoop.interfaces.server.postgres.catalog.data import base_types
from qoop.interfaces.server.postgres.catalog.types import ELEMENTS, NAMES, pg_type

if TYPE_CHECKING:
    from qoop.session.session import Session

_COMPARED = ("=", "<>", "!=", "<", ">", "<=", ">=")
_INT8, _TEXT = 20, 25


def parameter_types(text: str, session: Session) -> dict[int, int]:
    """The numbers of types, by those of parameters: of a cast, of the column that one is compared with, of LIMIT,
    of a column that is nothing else."""
    words = lexed(text).words
    found: dict[int, int] = {}
    for place, word in enumerate(words):
        if word.kind == "parameter" and word.text[1:].strip().isdecimal():
            type_ = _cast(words, place) or _limit(words, place) or _column(words, place, session) or _item(words, place)
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
        oid = {one: array for array, one in ELEMENTS.items()}.get(oid)
    return oid if oid in NAMES or oid in ELEMENTS else None


def _limit(words: Sequence[Lexeme], place: int) -> int | None:
    return _INT8 if place and words[place - 1].says("LIMIT", "OFFSET") else None


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


def _column(words: Sequence[Lexeme], place: int, session: Session) -> int | None:
    """The type of the column on the other side of a comparison, if the tables of the text that have one agree."""
    if place > 1 and words[place - 1].text in _COMPARED:
        name = words[place - 2].name
    elif place + 2 < len(words) and words[place + 1].text in _COMPARED:
        after = [word for word in words[place + 2 : place + 5 : 2] if word.name is not None]
        name = after[-1].name if after else None
    else:
        return None
    if name is None:
        return None
    named = {(word.name or "").lower() for word in words}
    tables = [table for table_name, table in session.tables().items() if table_name.lower() in named]
    types = {
        pg_type(type_).oid for table in tables for column, type_ in table.columns if column.lower() == name.lower()
    }
    return next(iter(types)) if len(types) == 1 else None
