"""The views of DuckDB files: a server answers them as it answers the tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qoop.catalog.errors import QoopError
from qoop.catalog.sources.database import DatabaseSource, database_alias
from qoop.catalog.sources.probe import attached

if TYPE_CHECKING:
    from qoop.session.session import Session

_VIEWS = (
    "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE database_name = ? AND NOT internal ORDER BY view_oid"
)


def create_views(session: Session) -> Iterator[str]:
    """Create the views of all DuckDB files of a session. Yields a message for each one that it cannot answer."""
    sources = [table.source for table in session.tables().values()]
    for path in sorted({source.file.path for source in sources if isinstance(source, DatabaseSource)}):
        left, failed = _views_of(path), dict[str, QoopError]()
        while left:  # one view may read another
            failed = {name: error for name, text in left.items() if (error := _refusal(session, text)) is not None}
            if len(failed) == len(left):
                break
            left = {name: left[name] for name in failed}
        yield from (f"the view {name} of {path} is not served: {_line(error)}" for name, error in failed.items())


def _views_of(path: str) -> dict[str, str]:
    """The statements that create the views of a file, by name. Raises SourceError."""
    alias = database_alias(path)
    with attached(alias, path) as cursor:
        rows = cursor.execute(_VIEWS, [alias]).fetchall()
    return {name if schema == "main" else f"{schema}.{name}": text for schema, name, text in rows}


def _refusal(session: Session, text: str) -> QoopError | None:
    """Create a view; return the error if that is not possible."""
    try:
        session.sql(text)
    except QoopError as error:
        return error
    return None


def _line(error: QoopError) -> str:
    """The first line of a message, which says what is wrong; the others show the place in the text."""
    return str(error).partition("\n")[0]
