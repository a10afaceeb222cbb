"""PREPARE, EXECUTE and DEALLOCATE, SET VARIABLE, CALL and BEGIN: from text to statements."""

from __future__ import annotations

from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import lexed, list_items
from qoop.catalog.value import value
from qoop.query.statements.words import Words


@value
class Prepare:
    """text: a statement, with parameters where it has any."""

    name: str
    text: str


@value
class Execute:
    """values: the values by the names of parameters, as they are written; those without a name are numbered."""

    name: str
    values: tuple[tuple[str, str], ...]


@value
class Deallocate:
    """name: of the statement; None: all."""

    name: str | None


@value
class SetVariable:
    """text: an expression; None: the variable is removed."""

    name: str
    text: str | None


@value
class Transaction:
    """word: BEGIN, COMMIT or ROLLBACK."""

    word: str


OfSessionState = Prepare | Execute | Deallocate | SetVariable | Transaction


def prepared(words: Words) -> Prepare:
    """The PREPARE statement of a text. Raises QueryError."""
    name = words.take_name() if words.take("PREPARE") else None
    if name is None or not words.take("AS"):
        raise QueryError("write PREPARE name AS statement")
    return Prepare(name, words.statement)


def executed(words: Words) -> Execute:
    """The EXECUTE statement of a text. Raises QueryError."""
    name = words.take_name() if words.take("EXECUTE") else None
    values = words.parenthesised()
    if name is None or words.next is not None:
        raise QueryError("write EXECUTE name (value, …)")
    return Execute(name, tuple(_values(values[1:-1] if values else "")))


def deallocated(words: Words) -> Deallocate:
    """The DEALLOCATE statement of a text. Raises QueryError."""
    _ = words.take("DEALLOCATE") and words.take("PREPARE")
    name = None if words.take("ALL") else words.take_name()
    if words.next is not None:
        raise QueryError("write DEALLOCATE name, or DEALLOCATE ALL")
    return Deallocate(name)


def set_variable(words: Words) -> SetVariable | None:
    """The statement, if it is SET VARIABLE or RESET VARIABLE, else None. Raises QueryError."""
    if words.take("RESET", "VARIABLE"):
        name = words.take_name()
        if name is not None and words.next is None:
            return SetVariable(name, None)
    elif words.take("SET", "VARIABLE"):
        name = words.take_name()
        if name is not None and (words.take("=") or words.take("TO")) and words.next is not None:
            return SetVariable(name, words.rest)
    else:
        return None
    raise QueryError("write SET VARIABLE name = value, or RESET VARIABLE name")


def transaction(words: Words) -> Transaction:
    """The statement about transactions."""
    if words.take("BEGIN") or words.take("START"):
        return Transaction("BEGIN")
    return Transaction("COMMIT" if words.take("COMMIT") or words.take("END") else "ROLLBACK")


def _values(text: str) -> list[tuple[str, str]]:
    """The values between commas that are in no parentheses, each with its name or number."""
    found: list[tuple[str, str]] = []
    values = lexed(text)
    for first, after in list_items(values.words) if values.words else ():
        part = values.part(first, after)
        words = Words(part)
        name = words.take_name()
        named = name is not None and (words.take(":=") or (words.take(":") and words.take("=")) or words.take("=>"))
        found.append((str(name), words.rest) if named else (str(len(found) + 1), part.text))
    return found
