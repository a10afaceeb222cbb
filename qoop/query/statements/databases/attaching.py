"""ATTACH, DETACH, USE and SHOW DATABASES: from text to statements."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import lexed
from qoop.catalog.value import value
from qoop.query.statements.databases.schemas import MAIN, OWN

if TYPE_CHECKING:
    from qoop.query.statements.words import Words

POSTGRES = "POSTGRES"
_TYPES = ("DUCKDB", "SQLITE", POSTGRES)
_PREFIXES = ("postgres:", "postgresql://", "postgres://")
_OPTIONS = ("READ_ONLY", "READONLY")


@value
class Attach:
    """ATTACH 'path' AS name. unless: do nothing if there is a database of that name; replace: in its place.

    postgres: the path names a server and one of its databases.
    """

    path: str
    name: str
    unless: bool = False
    replace: bool = False
    postgres: bool = False


@value
class Detach:
    """DETACH name. exists: do nothing if there is none."""

    name: str
    exists: bool = False


@value
class Use:
    """USE name: names without a database or schema are searched there first; None: in the session's own."""

    name: str | None


@value
class ShowDatabases:
    """SHOW DATABASES."""


OfDatabases = Attach | Detach | Use | ShowDatabases


def attached(words: Words) -> Attach:
    """The ATTACH statement of a text, ``ATTACH IF NOT EXISTS 'shop.duckdb' AS shop (READ_ONLY)``. Raises QueryError
    for a place that cannot be attached."""
    replace = words.take("ATTACH", "OR", "REPLACE") or not words.take("ATTACH")
    _ = words.take("DATABASE")
    unless = words.take("IF", "NOT", "EXISTS")
    path = words.string()
    name = words.take_name() if path is not None and words.take("AS") else None
    if path is None or (name is None and words.next is not None and words.next.text != "("):
        raise QueryError("write ATTACH 'file.duckdb' AS name (READ_ONLY)")
    if path in ("", ":memory:"):
        raise QueryError("ATTACH is of files and servers, not of ':memory:': CREATE SCHEMA makes a place for tables")
    postgres = _type(words) == POSTGRES or path.startswith(_PREFIXES)
    if not postgres:
        path = path.removeprefix("sqlite:")
        return Attach(path, name or PurePath(path).name.partition(".")[0], unless, replace)
    if name is None:
        raise QueryError("write ATTACH 'host=… dbname=…' AS name (TYPE postgres)")
    path = path if path.startswith(_PREFIXES[1:]) else path.removeprefix(_PREFIXES[0])
    return Attach(path, name, unless, replace, postgres)


def _type(words: Words) -> str | None:
    """The TYPE among the options of ATTACH, if there is one. Raises QueryError for other types and options."""
    options, found = words.parenthesised(), None
    if words.next is not None:
        raise QueryError(f"cannot read {words.rest!r} after ATTACH")
    for part in (options or "")[1:-1].split(","):
        option = [word.text.upper().strip("'\"") for word in lexed(part).words]
        if option[:1] == ["TYPE"] and option[1:] and option[1] in _TYPES:
            found = option[1]
        elif option and option[0] not in _OPTIONS:
            raise QueryError(
                f"ATTACH takes READ_ONLY and TYPE duckdb, sqlite or postgres here, not {' '.join(option)}: from other "
                "databases, COPY the tables into Parquet or a DuckDB file with DuckDB itself"
            )
    return found


def detached(words: Words) -> Detach:
    """The DETACH statement of a text. Raises QueryError."""
    if words.take("DETACH"):
        _ = words.take("DATABASE")
        exists = words.take("IF", "EXISTS")
        name = words.take_name()
        if name is not None and words.next is None:
            return Detach(name, exists)
    raise QueryError("write DETACH name")


def used(words: Words) -> Use:
    """The USE statement of the words after USE. Raises QueryError."""
    parts = list(words.parts())
    if not parts or words.next is not None:
        raise QueryError("write USE name, of a schema, or of a database that was attached or a schema in it")
    if len(parts) > 1 and parts[-1].lower() == MAIN:
        parts.pop()
    if len(parts) > 1 and parts[0].lower() == OWN:
        parts.pop(0)
    return Use(None if parts[0].lower() in (OWN, MAIN) and len(parts) == 1 else ".".join(parts))
