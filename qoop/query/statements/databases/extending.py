"""INSTALL and LOAD: from text to statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.catalog.errors import QueryError
from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.query.statements.words import Words


@value
class Install:
    """source: ``FROM …`` as written, or empty."""

    name: str
    source: str = ""


@value
class Load:
    """name: of an extension, or the path of its file."""

    name: str


OfExtensions = Install | Load


def extended(words: Words) -> OfExtensions:
    """The LOAD or INSTALL statement of a text. Raises QueryError."""
    loads = words.take("LOAD")
    _ = words.take("FORCE")
    if loads or words.take("INSTALL"):
        name = words.string() or words.take_name()
        source = words.rest
        if name and "," not in name and (not source or (not loads and words.take("FROM"))):
            return Load(name) if loads else Install(name, source)
    raise QueryError("write LOAD name, or INSTALL name [FROM repository], of an extension of DuckDB")
