"""The databases that ATTACH has added to a session: their tables are the session's, named ``database.table``."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.catalog.errors import Forbidden, QueryError
from qoop.query.statements.databases.attaching import Attach, Detach, ShowDatabases, Use
from qoop.query.statements.databases.schemas import OWN, Schemas

if TYPE_CHECKING:
    from qoop.catalog.table import Columns
    from qoop.query.statements.databases.attaching import OfDatabases


class Attached:
    """The attached databases by name. Not thread-safe: the caller holds a lock.

    register, postgres: register the tables of a file, or of a server, under a name, and return their names.
    forget: removes a table. schemas: of the session's own database.
    """

    def __init__(
        self,
        register: Callable[[str, str], Collection[str]],
        postgres: Callable[[str, str], Collection[str]],
        forget: Callable[[str], None],
        schemas: Schemas,
    ) -> None:
        self._register, self._postgres, self._forget, self._schemas = register, postgres, forget, schemas
        self._tables: dict[str, tuple[str, Collection[str]]] = {}

    def tables(self) -> set[str]:
        """The names of all tables that are in attached databases."""
        return {name for _, names in self._tables.values() for name in names}

    def do(self, statement: OfDatabases, locked: bool) -> tuple[pa.Table, Columns] | None:
        """Run a statement; return its rows, if it has any. Raises QueryError, SourceError, Forbidden."""
        if locked:
            raise Forbidden("a locked session attaches no databases")
        match statement:
            case Attach():
                self._attach(statement)
            case Detach(name, exists):
                self._detach(name, exists)
            case Use(name):
                self._use(name)
            case ShowDatabases():
                names = pa.array(sorted([OWN, *(name for name, _ in self._tables.values())]), pa.string())
                return pa.table({"c0": names}), (("database_name", "VARCHAR"),)
        return None

    def _attach(self, statement: Attach) -> None:
        if statement.name.lower() in self._tables or statement.name.lower() == OWN:
            if statement.unless and statement.name.lower() != OWN:
                return
            if not statement.replace or statement.name.lower() == OWN:
                raise QueryError(
                    f"there is a database {statement.name} already: DETACH it, or attach this AS another name"
                )
        if statement.name in self._schemas:
            raise QueryError(f"there is a schema {statement.name}: attach this AS another name")
        before = self._tables.get(statement.name.lower(), ("", ()))[1]
        if statement.postgres:
            tables = self._postgres(statement.path, statement.name)
        else:
            tables = self._register(os.path.expanduser(statement.path), statement.name)
        for gone in set(before) - set(tables):
            self._forget(gone)
        self._tables[statement.name.lower()] = statement.name, tables

    def _detach(self, name: str, exists: bool) -> None:
        if name.lower() not in self._tables:
            if exists:
                return
            raise self._unknown(name)
        default = self._schemas.default
        if default is not None and default.lower().partition(".")[0] == name.lower():
            raise QueryError(f"{name} is in use: USE {OWN} first")
        for table in self._tables.pop(name.lower())[1]:
            self._forget(table)

    def _use(self, name: str | None) -> None:
        if name is not None and name not in self._schemas:
            database, _, schema = name.partition(".")
            if database.lower() not in self._tables:
                schemas = ", ".join(self._schemas.names())
                raise QueryError(f"{self._unknown(database)}{f', and schemas {schemas}' if schemas else ''}")
            begin = f"{name}.".lower()
            if schema and not any(table.lower().startswith(begin) for table in self._tables[database.lower()][1]):
                raise QueryError(f"there is no schema {schema} with tables in {database}")
        self._schemas.default = name

    def _unknown(self, name: str) -> QueryError:
        return QueryError(f"there is no database {name}; there are {', '.join(sorted([OWN, *self._tables]))}")
