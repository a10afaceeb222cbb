"""EXPORT DATABASE and IMPORT DATABASE: from text to statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.catalog.errors import QueryError
from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.query.statements.words import Words


@value
class Export:
    """options: as written, in DuckDB's syntax, or empty."""

    path: str
    options: str


@value
class Import:
    """IMPORT DATABASE 'path'."""

    path: str


OfMoves = Export | Import


def exported(words: Words) -> Export:
    """The EXPORT statement of a text. Raises QueryError."""
    if words.take("EXPORT", "DATABASE"):
        path = words.string()
        options = words.parenthesised() or ""
        if path and words.next is None:
            return Export(path, options)
    raise QueryError("write EXPORT DATABASE 'folder' (FORMAT parquet): it exports the session's tables and views")


def imported(words: Words) -> Import:
    """The IMPORT statement of a text. Raises QueryError."""
    path = words.string() if words.take("IMPORT", "DATABASE") else None
    if not path or words.next is not None:
        raise QueryError("write IMPORT DATABASE 'folder', of what EXPORT DATABASE has written")
    return Import(path)
