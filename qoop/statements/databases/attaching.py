"""ATTACH, DETACH, USE and SHOW DATABASES: from text to what they ask for."""

from __future__ import annotations

from pathlib import PurePath

from qoop.catalog.errors import QueryError
from qoop.catalog.value import value
from qoop.planner.sql.bind import without_end
from qoop.statements.words import Words, list_items

_OPTIONS = ("READ_ONLY", "READONLY")


@value
class Attach:
    """ATTACH 'path' AS name. unless: do nothing if there is a database of that name; replace: in its place."""

    path: str
    name: str
    unless: bool = False
    replace: bool = False


@value
class Detach:
    """DETACH name. exists: do nothing if there is none."""

    name: str
    exists: bool = False


@value
class Use:
    """USE name: names without a database are of that one first; None: of the session's own."""

    name: str | None


@value
class ShowDatabases:
    """SHOW DATABASES."""


OfDatabases = Attach | Detach | Use | ShowDatabases
OWN = "memory"
"""The name that DuckDB gives to the database without a file."""


def attached(text: str) -> Attach:
    """The order in an ATTACH statement. Raises QueryError for what is not attached here.

    >>> attached("ATTACH IF NOT EXISTS 'shop.duckdb' (READ_ONLY)")
    Attach(path='shop.duckdb', name='shop', unless=True, replace=False)
    """
    words = Words(without_end(text))
    replace = words.take("ATTACH", "OR", "REPLACE") or not words.take("ATTACH")
    _ = words.take("DATABASE")
    unless = words.take("IF", "NOT", "EXISTS")
    path = words.string()
    name = words.take_name() if path is not None and words.take("AS") else None
    if path is None or (name is None and words.next is not None and words.next.text != "("):
        raise QueryError("write ATTACH 'file.duckdb' AS name (READ_ONLY)")
    _check_options(words)
    return Attach(path, name or PurePath(path).name.partition(".")[0], unless, replace)


def _check_options(words: Words) -> None:
    told = words.parenthesised()
    if words.next is not None:
        raise QueryError(f"cannot read {words.rest!r} after ATTACH")
    inside = Words(told[1:-1]).left if told else ()
    for first, after in list_items(inside) if inside else ():
        option = [word.text.upper().strip("'\"") for word in inside[first:after]]
        if option[0] not in _OPTIONS and option != ["TYPE", "DUCKDB"]:
            raise QueryError(
                f"ATTACH takes READ_ONLY and TYPE duckdb here, not {' '.join(option)}: a session reads DuckDB's files; "
                "of other databases, COPY what is wanted into Parquet or a DuckDB file with DuckDB itself"
            )


def detached(text: str) -> Detach:
    """The order in a DETACH statement. Raises QueryError."""
    words = Words(without_end(text))
    if words.take("DETACH"):
        _ = words.take("DATABASE")
        exists = words.take("IF", "EXISTS")
        name = words.take_name()
        if name is not None and words.next is None:
            return Detach(name, exists)
    raise QueryError("write DETACH name")


def used(text: str) -> Use | None:
    """The order in a USE statement; None for another one. Raises QueryError."""
    words = Words(without_end(text))
    if not words.take("USE"):
        return None
    name = words.dotted_name()
    if name is None or words.next is not None:
        raise QueryError("write USE name, of a database that was attached or of a schema in it")
    return Use(None if name.lower() in (OWN, "main", f"{OWN}.main") else name.removesuffix(".main"))
