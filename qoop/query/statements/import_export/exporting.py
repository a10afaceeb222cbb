"""EXPORT DATABASE: tables and views of a session as a folder that DuckDB imports.

DuckDB writes the folder, from a database with the session's tables without rows. Then a file with the rows takes the
place of each empty file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog.duckdb_introspection import parsed
from qoop.catalog.errors import DiskFull, QueryError
from qoop.catalog.opening import open_duckdb
from qoop.catalog.sources.files import sql_string
from qoop.catalog.sources.probe import reason
from qoop.query.statements.statement import folded
from qoop.query.statements.words import Words

if TYPE_CHECKING:
    from qoop.query.result import Result
    from qoop.query.statements.databases.moves import Export
    from qoop.query.statements.session_catalog import CatalogContents

FORMATS = ("csv", "parquet")


def export(
    statement: Export, contents: CatalogContents, attached: Collection[str], run: Callable[[str], Result]
) -> int:
    """Write all tables and views to a folder, which appears at its path once it is complete.

    attached: the names of tables in attached databases, which are not exported. run: answers a query. Returns the
    number of tables. Raises QueryError for options that DuckDB does not take, for views that it could not import, and
    for a folder that is not empty; DiskFull.
    """
    contents = replace(
        contents,
        tables={name: table for name, table in contents.tables.items() if name not in attached},
        views=[view for view in contents.views if view.name not in attached],
    )
    kept = [*contents.tables, *(view.name for view in contents.views)]
    contents = replace(contents, places={name: contents.places[name] for name in kept})
    options = statement.options or "(FORMAT csv)"
    _check_format(options)
    with _drafted(statement.path) as draft:
        _write_empty(contents, draft, statement.path, options)
        for name, file in _files(contents, draft).items():
            run(name).copy_to(draft / file, options)
    return len(contents.tables)


def _check_format(options: str) -> None:
    words = [word.text.lower().strip("'\"") for word in Words(options).left]
    found = words[words.index("format") + 1] if "format" in words[:-1] else "csv"
    if found not in FORMATS:
        raise QueryError(f"a database is exported as {' or '.join(FORMATS)}, not as {found}")


@contextmanager
def _drafted(path: str) -> Iterator[Path]:
    """A folder that takes the place of that path at the end, unless there was an error."""
    target = Path(os.path.abspath(os.path.expanduser(path)))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise QueryError(f"cannot export to {path}: there is something already; name a new folder")
    draft = None
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        yield draft
        draft.chmod(0o777 & ~_umask())
        os.replace(draft, target)
    except OSError as error:
        raise DiskFull(f"cannot export to {path}: {error.strerror or error}") from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)


def _umask() -> int:
    os.umask(found := os.umask(0o077))
    return found


def _write_empty(contents: CatalogContents, draft: Path, path: str, options: str) -> None:
    """The folder as DuckDB writes it, with files without rows."""
    try:
        with open_duckdb(threads=1) as connection:
            lost = contents.create(connection)
            if lost:
                raise QueryError(f"view {lost[0].name} cannot be exported: what it reads is not exported either")
            connection.execute(f"EXPORT DATABASE {sql_string(str(draft))} {options}")
    except duckdb.Error as error:
        raise QueryError(f"cannot export with {options}: {reason(error)}") from error
    load = draft / "load.sql"
    load.write_text(load.read_text().replace(str(draft).replace("'", "''"), path.replace("'", "''")))


def _files(contents: CatalogContents, draft: Path) -> dict[str, str]:
    """The names of the files of tables, as the folder's own text has them."""
    by_place = {_folded(Words(contents.placed(name))): name for name in contents.tables}
    found = {}
    for statement in parsed((draft / "load.sql").read_text()):
        words = Words(statement.query)
        _ = words.take("COPY")
        place = _folded(words)
        _ = words.take("FROM")
        found[by_place[place]] = os.path.basename(str(words.string()))
    return found


def _folded(words: Words) -> tuple[str, ...]:
    return tuple(map(folded, words.parts()))
