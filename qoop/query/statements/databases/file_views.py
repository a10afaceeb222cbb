"""The views of DuckDB files: they are read as the tables of these files are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from qoop.catalog.errors import QoopError
from qoop.query.statements.databases.schemas import MAIN

if TYPE_CHECKING:
    from qoop.catalog.sources.database import FileView


def define_views(
    views: Iterable[FileView], database: str, define: Callable[[str, str], str]
) -> tuple[list[str], dict[str, str]]:
    """Define the views of a file as far as they can be answered. Returns the names of these, and the reasons for the
    others by name.

    database: the name that the file was attached by; empty: its tables are those of the session itself.
    define: of the statement that makes a view, and its schema, empty for the main one; returns the name in the session,
    or raises QoopError.
    """
    left = {
        (".".join(filter(None, (database, "" if schema == MAIN else schema))), name): text
        for schema, name, text in views
    }
    names, failed = list[str](), dict[str, str]()
    while left:  # one view may read another
        failed, before = {}, len(left)
        for (within, name), text in list(left.items()):
            try:
                names.append(define(text, within))
                del left[within, name]
            except QoopError as error:
                failed[f"{within}.{name}" if within else name] = str(error).partition("\n")[0]
        if len(left) == before:
            break
    return names, failed
