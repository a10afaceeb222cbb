"""The names of a session's tables and views: which exist, of which kind and schema, and which are free."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.errors import CatalogError, Forbidden
from qoop.catalog.lexer import quoted
from qoop.planner.sql.sources import is_of_query
from qoop.query.statements.created.storage import check_name
from qoop.query.statements.databases.schemas import MAIN, NameParts, Schemas
from qoop.query.statements.views import Views
from qoop.query.statements.words import Words

if TYPE_CHECKING:
    from qoop.catalog.catalog import Catalog
    from qoop.catalog.table import Table


class SessionNames:
    """The names of tables, views and schemas. Public methods take the lock of the session's names.

    folder: of created tables; None: they live in memory. locked: texts change no table that the program has registered.
    views, schemas: those of the session. created, materialized: the tables that statements have created, and those of
    them that are editions of materialized views, in lower case. files: the paths of files that queries have read.
    """

    def __init__(self, catalog: Catalog, lock: threading.RLock, folder: Path | None, locked: bool) -> None:
        self._catalog = catalog
        self.lock = lock
        self.folder = folder
        self.locked = locked
        self.views = Views()
        self.schemas = Schemas(folder, check_name)
        self.created: set[str] = set()
        self.materialized: set[str] = set()
        self.files: set[str] = set()

    def all(self) -> list[str]:
        """The names of all tables and views, without files that queries have read by path."""
        return sorted([*self.listed(), *self.views.names()])

    def has(self, name: str) -> bool:
        """True if a table or a view has the name."""
        with self.lock:
            return name in self.views or self._catalog.find(name) is not None

    def within(self, schema: str) -> list[str]:
        """The names of the tables and views in a schema, without its name. Raises CatalogError if it does not exist."""
        with self.lock:
            within = "" if schema.lower() == MAIN else schema.lower()
            found = [name for name in self.all() if self.schema_of(name).lower() == within]
            if within and not found and schema not in self.schemas:
                raise self.schemas.unknown(schema)
            return [name[len(within) + 1 :] if within else name for name in found]

    def listed(self) -> Mapping[str, Table]:
        """The tables that were registered or created."""
        tables = self._catalog.tables().items()
        return {name: table for name, table in tables if name not in self.files and not is_of_query(name)}

    def of_views(self) -> list[str]:
        """The names of all views, in the case of their definitions; no lock is taken."""
        return sorted(self.views.names())

    def is_materialized(self, name: str) -> bool:
        """True for the name of a materialized view."""
        return name.lower() in self.materialized

    def know_materialized(self, name: str) -> None:
        """Treat a table of the folder as a materialized view."""
        with self.lock:
            self.materialized.add(name.lower())

    def check_free(self, names: Iterable[str]) -> None:
        """Raise CatalogError if one of the names is that of a table or view."""
        with self.lock:
            for name in names:
                self.taken(name, False, False)

    def for_table(self, parts: NameParts, replace: bool, unless: bool) -> str | None:
        """The name for a new table; None if it exists, and `unless`: IF NOT EXISTS. Raises CatalogError if it exists
        without that or `replace`: OR REPLACE; QueryError for a name that the folder of tables does not allow; Forbidden
        in a locked session for the name of a registered table."""
        with self.lock:
            name = self._full(parts)
            if replace:
                self.check_own(name)
            replace = replace and name not in self.views and not self.is_materialized(name)
            return None if self.taken(name, replace, unless) else name

    def for_materialized(self, parts: NameParts, replace: bool, unless: bool) -> str | None:
        """The name for a new materialized view, as `for_table`. replace: another materialized view may have it. Raises
        Forbidden in a locked session."""
        if self.locked:
            raise Forbidden("a locked session makes no materialized views")
        with self.lock:
            name = self._full(parts)
            return None if self.taken(name, replace and self.is_materialized(name), unless) else name

    def _full(self, parts: NameParts) -> str:
        """The name in the session of a new table."""
        name = self.schemas.full(parts)
        if self.folder is not None:
            check_name(self.folder, name)
        return name

    def taken(self, name: str, replace: bool, unless: bool) -> bool:
        """True if the name exists, and the statement has IF NOT EXISTS. Raises CatalogError if it has neither that nor
        OR REPLACE."""
        kind = self._kind(name)
        if kind is None or replace:
            return False
        if unless:
            return True
        raise CatalogError(f"there is a {kind} {name} already; CREATE OR REPLACE {kind.upper()} takes its place")

    def _kind(self, name: str) -> str | None:
        """The kind of the object of a name; None: there is none."""
        if name in self.views:
            return "view"
        if self.is_materialized(name):
            return "materialized view"
        return "table" if self._catalog.find(name) is not None else None

    def check_own(self, name: str) -> None:
        """Raise Forbidden in a locked session for a table that no statement has created."""
        if self.locked and self._catalog.find(name) is not None and name.lower() not in self.created:
            raise Forbidden(f"the session is locked: table {name}, which the program has registered, stays as it is")

    def check_unlocked(self) -> None:
        """Raise Forbidden in a locked session."""
        if self.locked:
            raise Forbidden("the session is locked: CREATE TABLE … AS makes tables, and no statement changes them")

    def resolved(self, parts: NameParts) -> str:
        """The name in the session for a name in parts. Raises CatalogError."""
        dotted = ".".join(parts)
        return dotted if len(parts) > 1 and self.has(dotted) else self.schemas.full(parts, self.has)

    def schema_of(self, name: str) -> str:
        """The schema, or attached database, of a table or view; empty for the main schema."""
        from qoop.catalog.sources.database import schema_of

        table = self._catalog.find(name)
        attached = self.views.within(name) if table is None else schema_of(table)
        return attached or self.schemas.of(name)

    def parts(self, name: str) -> NameParts:
        """The database, schema and name of a table."""
        schema = self.schema_of(name)
        return (*schema.split("."), name[len(schema) + 1 :]) if schema else (name,)

    def dotted(self, name: str) -> str:
        """The database, schema and name of a table, quoted."""
        return ".".join(map(quoted, self.parts(name)))

    def read_by(self, text: str) -> set[str]:
        """The tables and views whose names occur in a text."""
        says = {word.name.lower() for word in Words(text).left if word.name}
        return {name for name in self.all() if name.lower() in says or self.parts(name)[-1].lower() in says}
