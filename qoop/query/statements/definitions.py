"""The names that statements define in a session: views, created tables, and files that queries read by path."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog.errors import CatalogError, Forbidden, QueryError, SourceError, UnknownTable
from qoop.catalog.lexer import quoted
from qoop.catalog.opening import EXTENSIONS, listed
from qoop.catalog.stores.objects import is_remote
from qoop.catalog.table import FilesSource
from qoop.planner.sql.sources import OF_CATALOG
from qoop.query.statements.created.storage import MemoryTables, Storage
from qoop.query.statements.databases.schemas import MAIN, CreateSchema, DropSchema
from qoop.query.statements.plain_names import (
    files_read,
    is_glob,
    is_sweep,
    reads,
    with_file_names,
    with_plain_names,
    with_queries,
)
from qoop.query.statements.views import View, of_file

if TYPE_CHECKING:
    from qoop.catalog.catalog import Catalog
    from qoop.catalog.sources.database import FileView
    from qoop.catalog.table import Columns, Table
    from qoop.planner.sql.bind import Binder
    from qoop.query.result import Result
    from qoop.query.statements.changing import Made, Workbench
    from qoop.query.statements.macros.defined import DefinedMacros
    from qoop.query.statements.macros.reading import OfMacros
    from qoop.query.statements.reading import ChangeTable, CreateEmpty, CreateView, Drop, Rename
    from qoop.query.statements.session_catalog import CatalogContents
    from qoop.query.statements.session_names import SessionNames
    from qoop.query.statements.settings import Settings


_WEB = ("http://", "https://")


def _storage(folder: Path | None, catalog: Catalog) -> Storage:
    if folder is None:
        return MemoryTables(catalog.opened)
    from qoop.query.statements.created.folder import FolderTables  # few sessions have a folder

    return FolderTables(folder, catalog.opened)


class Definitions:
    """Views, created tables, schemas and macros by name. Thread-safe through the lock of the session's names.

    names: of tables, views and schemas.
    register: registers data as a table, in place of one of that name. adopt: the same for a table that was created.
    check_again: refreshes the tables that a text may name, if their files have changed.
    endings: of file names that count as tables.
    """

    def __init__(
        self,
        catalog: Catalog,
        binder: Binder,
        names: SessionNames,
        register: Callable[[str, object], None],
        adopt: Callable[[Table], None],
        check_again: Callable[[str], None],
        endings: tuple[str, ...],
    ) -> None:
        self._catalog = catalog
        self._binder = binder
        self.names = names
        self._storage = _storage(names.folder, catalog)
        self._bench: Workbench | None = None  # once a table has changed
        self._changing = threading.RLock()  # one change of a table at a time; taken before the lock of the names
        self._register = register
        self._adopt = adopt
        self._check_again = check_again
        self._endings = endings
        self._macros: DefinedMacros | None = None  # once there is one
        self.sweep_rows: Callable[[str], object] | None = None  # of an expression such as sweep('rates')
        self.views_left: dict[str, str] = {}
        """The views of DuckDB files that cannot be answered, by name, with the reasons."""

    def as_read(self, text: str) -> str:
        """The text of a query for the planner: views are expanded, each table has one name, and a file is a table named
        by its path. Tables whose files have changed are refreshed.

        Raises ParseError or BindError, with places in the original text, and SourceError for a file that cannot be
        read.
        """
        with self.names.lock:
            text = self._with_queries(text)
            written = self._without_macros(text)
            read = self._as_read(written)
            return read if written == text else self._named_as(self.with_plain_names(text), read)

    def _as_read(self, text: str) -> str:
        """The same for a text without macros."""
        text = self.with_plain_names(text)
        self._binder.admit(text)
        for path in () if self.names.locked else files_read(text, self._endings):
            self._read_file(path)
        expanded = self._expanded(text)
        if expanded == text:
            return expanded
        if self._macros is not None or self.names.schemas.default is not None:
            return self._named_as(text, expanded)
        self._binder.describe(text)
        return expanded

    def _named_as(self, text: str, expanded: str) -> str:
        from qoop.query.statements.macros.naming import named_as

        return named_as(text, expanded, self._binder.describe)

    def expanded(self, text: str) -> str:
        """As `as_read`, for a text that a binder with the same contents has checked: nothing binds it here."""
        with self.names.lock:
            return self._expanded(self.with_plain_names(self._without_macros(text)))

    def _expanded(self, text: str) -> str:
        """A text with its views, whose tables are up to date."""
        expanded = self.names.views.expand(text)
        expanded = text if expanded == text else self.with_plain_names(self._without_macros(expanded))
        self._check_again(expanded)
        return expanded

    def _without_macros(self, text: str) -> str:
        """A text with macros and named queries written out, and with the values of calls that depend on the schema in
        use."""
        text = self._with_queries(text if self._macros is None else self._macros.expand(text))
        in_use = self.names.schemas.default
        if in_use is None:
            return text
        from qoop.query.statements.databases.search_path import with_path_values

        return with_path_values(text, in_use, in_use not in self.names.schemas, self._columns_of)

    def _columns_of(self, table: str) -> list[str]:
        """The names of the columns of a table, which is written in SQL; empty for a table that is not here."""
        try:
            return [name for name, _ in self._binder.describe(self.with_plain_names(f"FROM {table}"))]
        except QueryError:
            return []

    def _with_queries(self, text: str) -> str:
        """A text with the queries that it names by texts; a locked session names none so."""
        return text if self.names.locked else with_queries(text)

    def with_plain_names(self, text: str) -> str:
        """A text with one name for each table (:mod:`qoop.query.statements.plain_names`); an expression over the
        catalog becomes a table of its present rows."""
        with self.names.lock:
            return self._with_plain_names(text, self._catalog_table, self.names.schemas.default)

    @property
    def _catalog_table(self) -> Callable[[str], str] | None:
        return None if self.names.locked else self._answer_of_catalog

    def _with_plain_names(
        self,
        text: str,
        catalog: Callable[[str], str] | None,
        schema: str | None,
        write: Callable[[str], str] = quoted,
    ) -> str:
        """schema: is searched first for names without one."""
        if not self.names.locked:
            text = with_file_names(text, self._endings, self._columns_of_file)
        names = [*self._catalog.tables(), *self.names.views.names()]
        qualified = [name.lower() for name in names if "." in name and self.names.schema_of(name)]
        return with_plain_names(text, qualified, catalog, schema, write, self.names.has, not self.names.locked)

    def _answer_of_catalog(self, expression: str) -> str:
        from qoop.query.statements.session_catalog import ask_catalog

        name = expression + OF_CATALOG
        if self.sweep_rows is not None and is_sweep(expression):
            self._register(name, self.sweep_rows(expression))
        else:
            self._register(name, ask_catalog(expression, self.contents()))
        return name

    def contents(self) -> CatalogContents:
        """All tables, views, macros and schemas."""
        from qoop.query.statements.session_catalog import CatalogContents

        names = self.names
        with names.lock:
            places = {name: names.schema_of(name) for name in names.all()}
            macros = [] if self._macros is None else self._macros.all()
            return CatalogContents(names.listed(), names.views.all(), macros, places, names.schemas.names())

    def table_came(self, name: str) -> None:
        """A table with this name is registered: it replaces a view of that name."""
        self.names.created.discard(name.lower())
        self.names.materialized.discard(name.lower())
        self.names.files.discard(name)
        if name in self.names.views:
            self._binder.drop_view(name)
            self.names.views.drop(name)

    def create_view(self, statement: CreateView, within: str | None = None) -> str:
        """Create a view, and return its name. within: the schema of the file that it is of; empty: the main one; None:
        it is of none. Raises CatalogError if a view or table of that name exists; BindError for an invalid query."""
        with self.names.lock:
            schemas, last = self.names.schemas, statement.name[-1]
            name = schemas.full(statement.name) if within is None else f"{within}.{last}" if within else last
            replace = (statement.replace or within is not None) and name in self.names.views
            if self.names.taken(name, replace, statement.unless):
                return name
            schema = within or schemas.of(name) or schemas.default  # as in DuckDB, a view finds what is in its schema
            query = self._with_plain_names(statement.text, self._catalog_table, schema)
            self._binder.describe(self.as_read(query))
            # DuckDB's catalog has a table of that name, which the view would hide.
            if not self.names.has(name) and reads(statement.text, name):
                raise CatalogError(f"the view {name} would read itself: choose a name that its query does not read")
            self._binder.add_view(name, statement.columns, query)
            lasting = self._with_plain_names(statement.text, None, schema)  # each use of the view reads the catalog
            text = statement.text
            if schema is not None:
                text = self._with_plain_names(text, None, schema, self.names.dotted)
            self.names.views.add(View(name, statement.columns, text, lasting, within or ""))
            return name

    def define_file_views(self, views: Collection[FileView], database: str) -> list[str]:
        """Define the views of a DuckDB file, and return their names. database: comes before them."""
        if not views:
            return []
        from qoop.query.statements.databases.file_views import define_views  # few files have any

        def define(text: str, within: str) -> str:
            return self.create_view(of_file(text, bool(database)), within)

        names, left = define_views(views, database, define)
        self.views_left = {name: why for name, why in self.views_left.items() if name not in names} | left
        return names

    def attach_view(self, view: View) -> None:
        """Add a view on a table of an attached database; only the columns of that table are known."""
        columns = ", ".join(f"NULL::{type_} AS {quoted(name)}" for name, type_ in view.known)
        with self.names.lock:
            self._binder.add_view(view.name, "", f"SELECT {columns}")
            self.names.views.add(view)

    def do_schema(self, statement: CreateSchema | DropSchema) -> None:
        """Create or drop a schema. Raises CatalogError, QueryError, DiskFull; Forbidden in a locked session."""
        if self.names.locked:
            raise Forbidden("a locked session makes no schemas")
        names, schemas = self.names, self.names.schemas
        with self._changing, names.lock:
            if isinstance(statement, CreateSchema):
                schemas.create(statement, {name.partition(".")[0] for name in names.all() if "." in name})
                return
            within = [name for name in names.all() if schemas.of(name).lower() == statement.name.lower()]
            if schemas.check_drop(statement, within):
                for name in within:
                    self._drop(name, "VIEW" if name in names.views else "TABLE")
                schemas.forget(statement.name)

    def define_macro(self, statement: OfMacros) -> None:
        """Create or drop a macro. Raises CatalogError, BindError; Forbidden in a locked session, since a macro changes
        the queries of all its users."""
        from qoop.query.statements.macros.defined import DefinedMacros

        if self.names.locked:
            raise Forbidden("a locked session has no macros")
        with self.names.lock:
            self._macros = self._macros or DefinedMacros(self._binder, self.with_plain_names)
            self._macros.do(statement)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Within the block only this thread changes tables."""
        with self._changing:
            yield

    def check_types(self, name: str, columns: Columns) -> None:
        """Raise QueryError if a table cannot have columns of these types."""
        with self._changing:
            self._storage.check_types(name, columns)

    def create_table(self, name: str, result: Result) -> None:
        """Store the rows of a query as a table. Raises DiskFull, QueryError for types that cannot be stored."""
        with self._changing, self._storage.exclusive(name):
            self._store(name, result)

    def _store(self, name: str, result: Result, note: str = "") -> None:
        table = self._storage.store(name, result, note)
        with self.names.lock:
            self._adopt(table)
            self.names.created.add(name.lower())

    def publish(self, name: str, result: Result, note: str = "") -> None:
        """Store the rows of a materialized view in place of those of before. note: see `Storage.store`.

        Raises as `create_table`."""
        with self._changing, self._storage.exclusive(name), self.names.lock:
            self._store(name, result, note)
            self.names.materialized.add(name.lower())

    def drop_materialized(self, name: str) -> None:
        """Drop a materialized view. Raises UnknownTable."""
        with self._changing, self.names.lock:
            self._drop_table(name, "TABLE")
            self.names.materialized.discard(name.lower())

    def create_empty(self, statement: CreateEmpty, made: Made, settings: Settings) -> None:
        """Create a table without rows. Raises as `for_table`, `create_table`; Forbidden in a locked session."""
        from qoop.query.statements.changing import empty

        self.names.check_unlocked()
        with self._changing:
            name = self.names.for_table(statement.name, statement.replace, statement.unless)
            if name is not None:
                self.create_table(name, made(*empty(statement, settings)))

    def change(
        self,
        statement: ChangeTable,
        run: Callable[[str], Result],
        made: Made,
        settings: Settings,
        variables: Collection[str] = (),
    ) -> int:
        """Make a new version of a table; one change at a time. Queries that read the old version continue to do so.

        run: runs a query. made: makes a result of rows. variables: of the program, which the change may read. Returns
        the number of rows that changed.

        Raises UnknownTable; CatalogError for a table that no statement has created; QueryError; Forbidden in a locked
        session.
        """
        self.names.check_unlocked()
        with self._changing:
            if statement.exists and not self.names.has(self.names.resolved(statement.name)):
                return 0
            name = self._changeable(self.names.resolved(statement.name))
            with self._storage.exclusive(name):
                return self._changed(name, statement, run, made, settings, variables)

    def _changed(
        self,
        name: str,
        statement: ChangeTable,
        run: Callable[[str], Result],
        made: Made,
        settings: Settings,
        variables: Collection[str],
    ) -> int:
        """Apply a change to a table; returns the number of rows that changed."""
        from qoop.query.statements import changing

        before = self._catalog.table(name)
        now = self._storage.present(before)
        assert isinstance(now.source, FilesSource)
        storage, parts, pieces = self._storage, self.names.parts(name), now.source.file_rows()
        rows, scan, put = partial(storage.rows, now), partial(storage.scan, now), partial(storage.put, now)
        target = changing.Target(parts, now.columns, pieces, rows, scan, put)
        if statement.reshapes:
            result = made(*changing.reshaped(statement, target, settings))
            with self.names.lock:
                self._check_same(name, before, now)
                self._store(name, result)
            return 0
        read = set() if statement.files else self.names.read_by(statement.text) - {name}
        others = {one: self.names.parts(one) for one in read}
        others |= {variable: (variable,) for variable in variables}
        self._bench = self._bench or changing.Workbench(self.names.folder)
        reads = changing.Reads(others, run, made, self.names.schemas.default)
        change = changing.apply(statement, target, reads, self._bench, settings)
        with self.names.lock:
            self._check_same(name, before, now)
            if change.replaced or change.added:
                self._adopt(self._storage.change(now, change))
        return change.count

    def _check_same(self, name: str, *known: Table) -> None:
        """Raise CatalogError if a table was replaced by the program meanwhile. known: the table as the session had it,
        and as it lies in its folder, where others may have changed or packed it; the change may have read this."""
        if self._catalog.table(self._changeable(name)).version not in [one.version for one in known]:
            raise CatalogError(f"table {name} was replaced during the change, so the change has no effect")

    def rename(self, statement: Rename, run: Callable[[str], Result]) -> None:
        """Rename a table within its schema. run: runs a query. Raises as `change`."""
        self.names.check_unlocked()
        with self._changing:
            resolved = self.names.resolved(statement.name)
            if statement.exists and not self.names.has(resolved):
                return
            name = self._changeable(resolved)
            schema = self.names.schemas.of(name)
            new = self.names.schemas.full((schema or MAIN, statement.new))
            self.names.check_free([new])
            self.create_table(new, run(f"FROM {quoted(name)}"))
            with self.names.lock:
                self._drop_table(name, "TABLE")

    def _changeable(self, name: str) -> str:
        """The name of a table that statements may change. Raises UnknownTable, CatalogError."""
        if name in self.names.views:
            raise CatalogError(f"{name} is a view: only tables can be changed")
        if self.names.is_materialized(name):
            raise CatalogError(f"{name} is a materialized view: REFRESH MATERIALIZED VIEW {quoted(name)} computes it")
        table = self._catalog.table(name)
        if not self.is_own(table):
            raise CatalogError(
                f"table {table.name} was registered by the program, so statements do not change it: "
                f"CREATE TABLE name AS FROM {quoted(table.name)} makes a copy that can be changed"
            )
        return table.name

    def is_own(self, table: Table) -> bool:
        """True for a table that a statement has created, in this session or earlier in its folder of tables."""
        return self._storage.has(table) or table.name.lower() in self.names.created

    def drop(self, statement: Drop) -> None:
        """Drop a table or view. Raises UnknownTable, CatalogError if it is of the other kind."""
        with self._changing, self.names.lock:
            try:
                name = self.names.schemas.full(statement.name, self.names.has)
            except CatalogError:
                if statement.exists:  # no schema of that name either
                    return
                raise
            self._drop(name, statement.kind, statement.exists)

    def _drop(self, name: str, kind: str, exists: bool = False) -> None:
        if self.names.is_materialized(name):
            raise CatalogError(f"{name} is a materialized view: DROP MATERIALIZED VIEW drops it")
        is_view, is_table = name in self.names.views, self._catalog.find(name) is not None
        if (is_view and kind == "TABLE") or (is_table and kind == "VIEW"):
            it_is = "view" if is_view else "table"
            raise CatalogError(f"{name} is a {it_is}: DROP {it_is.upper()} drops it")
        self.names.check_own(name)
        if is_view:
            self.table_came(name)
        elif is_table or not exists:
            self._drop_table(name, kind)

    def close(self) -> None:
        """Free what changes of tables have opened."""
        self._storage.close()
        if self._bench is not None:
            self._bench.close()

    def _drop_table(self, name: str, kind: str) -> None:
        if kind == "VIEW":
            raise UnknownTable(f"there is no view {name}; there are: {', '.join(self.names.views.names()) or 'none'}")
        name = self._catalog.table(name).name
        if not self._storage.has(self._catalog.table(name)):
            self._forget(name)
            return
        with self._storage.exclusive(name):  # no variable has the table: the last use of its files ends with this
            self._storage.drop(name)
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._catalog.drop(name)
        self._binder.drop_table(name)

    def _check_web(self, path: str) -> None:
        """Raise SourceError unless the extension is loaded by which DuckDB reads from the web."""
        from qoop.catalog.extensions import is_here

        if "httpfs" not in listed(dict(self._binder.settings).get(EXTENSIONS, "")):
            found = (
                "" if is_here("httpfs") else f" (pip install duckdb-extension-httpfs=={duckdb.__version__} brings it)"
            )
            raise SourceError(f"cannot read {path} yet: LOAD httpfs first{found}")

    def _columns_of_file(self, path: str) -> Collection[str]:
        """The columns of a file that a query reads by its path, in lower case; none if there is no such file."""
        self._read_file(path)
        table = self._catalog.find(path)
        return () if table is None else [name.lower() for name, _ in table.columns]

    def _read_file(self, path: str) -> None:
        """Register a file, if there is one, as a table named by its path."""
        if path.lower().startswith(_WEB):
            self._check_web(path)
        elif not (is_remote(path) or is_glob(path) or os.path.exists(os.path.expanduser(path))):
            return
        elif self._catalog.find(path) is None:
            self._register(path, path)
            self.names.files.add(path)
