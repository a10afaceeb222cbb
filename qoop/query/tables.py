"""The tables of a session by name: changes apply to the binder and the catalog together."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from qoop.catalog.by_text import LONG
from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import CatalogError, Forbidden, QueryError, SessionClosed
from qoop.catalog.forks import CreatorProcess
from qoop.catalog.opening import EXTENSIONS, listed
from qoop.catalog.paths import source_path
from qoop.catalog.sources.files import Found, is_partitioned, is_sqlite, lake_of
from qoop.catalog.sources.register import CSV, JSON, PARQUET
from qoop.catalog.stores.objects import is_remote, without_options
from qoop.catalog.value import changed
from qoop.planner.sql.bind import Binder, Bound, at_present
from qoop.query.plan_keys import named_tables, versions
from qoop.query.plan_store import PlanStore
from qoop.query.statements.definitions import Definitions
from qoop.query.statements.normal_text import normal_text
from qoop.query.statements.session_names import SessionNames
from qoop.query.statements.statement import query_text
from qoop.query.statements.views import View

if TYPE_CHECKING:
    from qoop.catalog.functions.function import UserFunction
    from qoop.catalog.statistics.stats import TableStats
    from qoop.catalog.table import Table
    from qoop.query.bundle import TableRef
    from qoop.query.isolation.text_isolation import TextIsolation
    from qoop.query.statements.databases.attached import Attached
    from qoop.query.statements.databases.passwords import PasswordFile
    from qoop.query.statements.settings import Settings

_Place = tuple[Literal["source", "folder", "database"], str]
"""The kind and the path of what a table was registered by."""

_Arguments = ParamSpec("_Arguments")
_Found = TypeVar("_Found")

DATA_FILES = (*PARQUET, *CSV, *JSON)
"""The endings of names of files, each of which is a table."""

_TEXTS = 1024
"""Texts whose tables are cached, if they are not long."""


class _NamedTables:
    """The tables that texts may name; valid until a table is added or dropped."""

    def __init__(self, among: Mapping[str, Table]) -> None:
        self.among = among
        self.by_text: dict[str, Mapping[str, Table]] = {}


class SessionTables:
    """The names of a session. Thread-safe: code that reads or changes several names together holds `lock`.

    folder: of tables that statements create; None: they live in memory. locked: see `qoop.connect`.
    plan_store: drops the plans that read earlier versions of a table.
    """

    def __init__(self, plan_store: PlanStore, folder: Path | None, locked: bool) -> None:
        self.creator_process = CreatorProcess()
        self.lock = threading.RLock()
        self.catalog = Catalog()
        self.binder = Binder(locked=locked)
        register, adopt, check_again = weakly(self.register), weakly(self.create), weakly(self.check_again)
        self.names = SessionNames(self.catalog, self.lock, folder, locked)
        self.definitions = Definitions(self.catalog, self.binder, self.names, register, adopt, check_again, DATA_FILES)
        self._plan_store = plan_store
        self._locked = locked
        self._closed = False
        self._places: dict[str, _Place] = {}  # where tables came from, by name in lower case
        self._named = _NamedTables({})
        self._passwords: dict[str, PasswordFile | None] = {}  # of attached databases, by name in lower case
        self.isolation: TextIsolation | None = None  # of texts that are not light; None: this process binds all
        self._compared = threading.local()  # in a thread that compares once, see `comparing_once`
        self._unreadable: dict[str, CatalogError] = {}  # tables that could not be looked at, by name in lower case

    @classmethod
    def apart(cls, tables: Iterable[Table], settings: Settings, locked: bool) -> SessionTables:
        """A separate set of tables and options of a session: changes of it do not show in the session."""
        made = cls(PlanStore(), None, locked)
        for name, setting in settings:
            made.binder.set(name, setting)
        for table in tables:
            made.adopt(table)
        return made

    def only(self, text: str, *others: Table) -> SessionTables:
        """The tables and functions of Python that a text needs, and all options, apart from the session.

        text: as `as_read` gives it. others: take the place of tables of their names."""
        made = SessionTables.apart((*self.named(text).values(), *others), self.binder.settings, self._locked)
        for function in self.binder.functions(text).values():
            made.binder.add_function(function)
        return made

    @contextlib.contextmanager
    def knowing(self, others: Iterable[Table]) -> Iterator[None]:
        """Within the block, texts are read as if the session had these tables, too, whose names are free."""
        with self.naming():
            for table in others:
                self.binder.add_table(table.name, table.version, table.columns)
            try:
                yield
            finally:
                for table in others:
                    self.binder.drop_table(table.name)

    @property
    def locked(self) -> bool:
        """See `qoop.connect`."""
        return self._locked

    @property
    def closed(self) -> bool:
        """True after `shut`: statements are refused."""
        return self._closed

    def check_open(self) -> None:
        """Raise SessionClosed if the session is closed, or in a forked process."""
        self.creator_process.check()
        if self._closed:
            raise SessionClosed("the session is closed")

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Within the block, names of the binder and the catalog may change, and only this thread changes them."""
        self.creator_process.check()  # in a forked process the lock may never be released
        with self.lock:
            self.check_open()
            yield

    @cached_property
    def attached(self) -> Attached:
        """The databases that statements have attached."""
        from qoop.query.statements.databases.attached import Attached

        register, forget = weakly(self.register_database), weakly(self.forget_any)
        return Attached(register, weakly(self.register_postgres), forget, self.names.schemas)

    def shut(self) -> None:
        """Refuse statements from now on; those that run are still answered."""
        with self.lock:
            self._closed = True

    def close(self) -> None:
        """Free the tables and the binder."""
        self.definitions.close()
        self.binder.close()
        self.catalog.close()
        self._passwords.clear()

    # What is there

    def register(self, name: str, source: object, version: int | None = None) -> None:
        """As `Session.register`."""
        with self.naming():
            self._announce(self.catalog.register(name, source, version), place=_place(source))
            self.binder.catch_up()

    def create(self, table: Table) -> None:
        """Add a table that a statement has created or changed, in place of a table of its name."""
        with self.naming():
            self.catalog.add(table)
            self._announce(table, place=None if table.origin is None else _place(table.origin.place))

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Those of the names that no table and no view has."""
        with self.naming():
            return [name for name in names if not self.names.has(name)]

    def unregister(self, name: str) -> None:
        """As `Session.unregister`."""
        with self.naming():
            table = self.catalog.table(name)
            if self.definitions.is_own(table):
                raise CatalogError(f"table {table.name} was created by a text: DROP TABLE {table.name} drops it")
            self.forget(table.name)

    def forget(self, name: str) -> None:
        """Drop a table that was registered."""
        with self.naming():
            self.catalog.drop(name)
            self.binder.drop_table(name)

    def register_function(self, function: UserFunction, replace: bool) -> None:
        """As `Session.register_function`."""
        with self.naming():
            if self._locked:
                raise Forbidden("the session is locked: it calls no functions of Python")
            self.binder.add_function(function, replace)

    def unregister_function(self, name: str) -> None:
        """As `Session.unregister_function`."""
        with self.naming():
            self.binder.drop_function(name)

    def register_folder(
        self, directory: str | os.PathLike[str], is_selected: Callable[[str], bool] | None = None
    ) -> None:
        """As `Session.register_folder`. is_selected: see `Catalog.register_folder`."""
        with self.naming():
            self._announce(*self.catalog.register_folder(directory, is_selected), place=_at("folder", directory))
            self.binder.catch_up()

    def register_database(self, path: str | os.PathLike[str], database: str = "") -> list[str]:
        """As `Session.register_database`. database: comes before the names of the tables. Returns these."""
        with self.naming():
            if is_sqlite(os.path.expanduser(path)):
                self._load_sqlite()
            tables, views = self.catalog.register_database(path, database)
            self._announce(*tables, place=_at("database", path))
            self.binder.catch_up()
            return [*(table.name for table in tables), *self.definitions.define_file_views(views, database)]

    def _load_sqlite(self) -> None:
        from qoop.catalog import extensions

        if extensions.is_here("sqlite"):  # else Python's own module reads it
            self.load_extension("sqlite")

    def register_postgres(self, place: str, database: str) -> list[str]:
        """Make views of the tables of a PostgreSQL database. Returns their names. Raises SourceError, ConfigError."""
        from qoop.query.statements.databases.passwords import without_password
        from qoop.query.statements.databases.postgres import EXTENSION, foreign_tables

        with self.naming():
            self.load_extension(EXTENSION)
            place, password = without_password(place)
            found = foreign_tables(place, database)
            self._passwords[database.lower()] = password  # one of before is dropped
            for one in found:
                if self.catalog.find(one.name) is not None:  # of a file that had the name of the database
                    self.forget(one.name)
                self.definitions.attach_view(View(one.name, "", one.text, one.text, one.within, one.columns))
            return [one.name for one in found]

    def forget_any(self, name: str) -> None:
        """Drop a table that was registered, or a view."""
        with self.naming():
            if self.catalog.find(name) is not None:
                self.forget(name)
            else:
                self.definitions.table_came(name)

    def load_extension(self, name: str) -> None:
        """Load an extension in each DuckDB of the session. Raises ConfigError, Forbidden."""
        from qoop.catalog import extensions

        if self._locked:
            raise Forbidden("a locked session loads no extensions")

        name = extensions.own_name(name)
        if name.endswith(extensions.ENDING):
            name = str(extensions.file_of(name))
        with self.naming():
            loaded = listed(dict(self.binder.settings).get(EXTENSIONS, ""))
            if name not in loaded and not extensions.is_built_in(name):
                extensions.check(name)
                self.binder.set(EXTENSIONS, ",".join([*loaded, name]))

    def register_path(self, path: str | os.PathLike[str], is_selected: Callable[[str], bool] | None = None) -> None:
        """As `Session.register_path`."""
        file = Path(os.path.expanduser(without_options(source_path(path))))
        if lake_of(str(file)) or is_partitioned(str(file)):
            self.register(file.name, path)
        elif file.is_dir() or (is_remote(os.fspath(path)) and not file.name.lower().endswith(DATA_FILES)):
            self.register_folder(path, is_selected)
        elif file.name.lower().endswith(DATA_FILES):
            self.register(file.name.partition(".")[0], path)
        else:
            self.register_database(path)

    def register_again(self, table: TableRef) -> None:
        """Register a table from its origin, if that is known."""
        from qoop.query.bundle import TableOrigin  # few sessions read or write a bundle

        match table.place:
            case TableOrigin("source", path):
                self.register(table.name, path)
            case TableOrigin("folder", path):
                self.register_folder(path)
            case TableOrigin("database", path):
                self.register_database(path)
                if self.catalog.find(table.name) is None:  # it was attached
                    self.register_database(path, table.name.partition(".")[0])

    def check_again(self, text: str) -> None:
        """Refresh the tables that a text may name, if their files have changed."""
        with self.lock:
            self.check_tables(self.named(text))

    def check_tables(self, names: Iterable[str]) -> None:
        """Refresh the tables of these names in lower case that are there, if their files have changed."""
        compared: set[str] = getattr(self._compared, "names", set())
        files_of: Callable[[Table], Found | None] = getattr(self._compared, "files_of", lambda _: None)
        with self.lock:
            for name in names:
                table = None if name in compared else self.catalog.find(name)
                if table is None:
                    continue
                compared.add(name)
                try:
                    self._unreadable.pop(name, None)
                    self._refresh(table.name, files_of(table))
                except CatalogError as error:  # it may be that the text does not read the table after all
                    self._unreadable[name] = error

    @contextlib.contextmanager
    def comparing_once(self, files_of: Callable[[Table], Found | None] = lambda _: None) -> Iterator[set[str]]:
        """Within the block this thread compares the files of each table once. Yields the names of those compared; a
        name that is removed is compared again. files_of: tells those of a table without listing them, if it can."""
        self._compared.names, self._compared.files_of = set[str](), files_of
        try:
            yield self._compared.names
        finally:
            del self._compared.names, self._compared.files_of

    def named(self, text: str) -> Mapping[str, Table]:
        """The tables that a text may name, by lower-case name."""
        tables = self.catalog.tables()
        known = self._named
        if known.among is not tables or len(known.by_text) >= _TEXTS:
            known = self._named = _NamedTables(tables)
        found = known.by_text.get(text)
        if found is None:
            lower = {name.lower(): table for name, table in tables.items()}
            found = dict(named_tables(normal_text(text), lower))
            if len(text) <= LONG:
                known.by_text[text] = found
        return found

    def adopt(self, table: Table) -> None:
        """Add a table of another session, or pieces of one, in place of a table of its name."""
        with self.naming():
            self.catalog.add(table)
            self._now_is(table)

    def take_copies(self, tables: Sequence[TableRef], contents: Mapping[str, str]) -> None:
        """Treat tables with the rows of a bundle's tables as these tables. contents: see `take_copies`."""
        from qoop.query.copies import take_copies

        by_name = {table.name.lower(): table.version for table in tables}
        with self.naming():
            for table in take_copies(self.catalog, by_name, contents):
                self._now_is(table)

    def references(self, tables: Mapping[str, Table]) -> tuple[TableRef, ...]:
        """References by which a later process finds the tables."""
        from qoop.query.bundle import TableOrigin, references

        return references(tables, {name: TableOrigin(*place) for name, place in self._places.items()})

    def statistics(self, name: str) -> TableStats:
        """As `Session.statistics`."""
        self.check_open()
        with self.lock:
            self._refresh(name)
        return self.catalog.stats(name)

    # What a text means

    def as_read(self, text: str) -> str:
        """See `Definitions.as_read`."""
        self.binder.read_ahead(text)
        return self.definitions.as_read(text)

    def describe(self, query: str) -> tuple[tuple[str, str], ...]:
        """As `Session.describe`."""
        with self.naming():
            self.as_read(query)
            return self.binder.describe(self.definitions.with_plain_names(query))

    def bind(self, text: str, at: str | None = None) -> tuple[Bound, Mapping[str, Table]]:
        """The bound query and the tables it reads, pinned. at: see `Binder.bind`."""
        with self.naming():
            bound = self.binder.bind(text, at)
            return bound, self.pinned({name: self.catalog.table(name) for name in bound.tables})

    def bind_again(self, text: str, before: Bound | None) -> tuple[Bound, Mapping[str, Table]]:
        """As `bind`; `before` of the same text serves as long as its columns and settings are those of now."""
        with self.naming():
            if before is None or before.text != text or not self._binds_the_same(before):
                return self.bind(text)
            return before, self.pinned({name: self.catalog.table(name) for name in before.tables})

    def _binds_the_same(self, before: Bound) -> bool:
        now = {name: self.catalog.find(name) for name in before.tables}
        return (
            not before.functions
            and before.settings == self.binder.settings
            and all(table is not None and table.columns == before.tables[name][1] for name, table in now.items())
        )

    def bind_whole(self, text: str, before: Bound | None = None) -> tuple[Bound, Mapping[str, Table]]:
        """The same for a query that DuckDB runs as a whole, with all tables that it may name. before: as for
        `bind_again`; other rows in its tables change nothing.

        DuckDB takes milliseconds to bind a text, so the lock of the names is not held meanwhile, if that will do.
        """
        self.check_open()
        if before is None and (found := self._bound_ahead(text)) is not None:
            with self.naming():
                tables = {name: table for name in found.tables if (table := self.catalog.find(name)) is not None}
                if {name: (table.version, table.columns) for name, table in tables.items()} == found.tables:
                    return found, self.pinned(tables)
        with self.naming():
            if before is not None and before.text == text and self._binds_the_same(before):
                tables = {name: self.catalog.table(name) for name in before.tables}
                schemas = {name: (table.version, table.columns) for name, table in tables.items()}
                return changed(at_present(before), tables=schemas), self.pinned(tables)
            bound = self.binder.bind_whole(text, self.named(text))
            return bound, self.pinned({name: self.catalog.table(name) for name in bound.tables})

    def _bound_ahead(self, text: str) -> Bound | None:
        """The text bound while names may change; None if it has a fault, which may be that they do."""
        try:
            return self.binder.bind_whole(text, self.named(text))
        except (QueryError, KeyError):
            return None

    def one_query(self, text: str) -> str:
        """As `query_text`; a long text that a child process has read is not parsed again."""
        return text if self.isolation is not None and self.isolation.is_query(text) else query_text(text)

    def isolates(self, text: str) -> bool:
        """True for a text that is bound and run in processes of its own."""
        if self.isolation is None:
            return False
        return self.isolation.is_needed(text, self.catalog.tables(), self.names.of_views())

    def bind_isolated(self, text: str) -> tuple[Bound, Mapping[str, Table]]:
        """As `bind_whole`, for a text that a child process binds. No lock is held meanwhile."""
        assert self.isolation is not None
        columns = self.isolation.describe(text, self.binder.contents())
        text = self.definitions.expanded(text)
        with self.naming():
            bound = self.binder.bind_whole(text, self.named(text), columns)
            return bound, self.pinned({name: self.catalog.table(name) for name in bound.tables})

    def are_as_before(self, tables: Mapping[str, Table]) -> bool:
        """True if all of these tables are the session's now."""
        with self.lock:
            now = [(self.catalog.find(name), table) for name, table in tables.items()]
        return all(found is not None and found.version == table.version for found, table in now)

    def pinned(self, tables: Mapping[str, Table]) -> Mapping[str, Table]:
        """The tables that a text reads, if they could be refreshed. Raises SourceError, TableChanged."""
        for name in tables:
            if name.lower() in self._unreadable:
                raise self._unreadable[name.lower()]
        return tables

    # Inside

    def _announce(self, *tables: Table, place: _Place | None) -> None:
        for table in tables:
            if place is not None:
                self._places[table.name.lower()] = place
            else:
                self._places.pop(table.name.lower(), None)
            self.definitions.table_came(table.name)
            self._unreadable.pop(table.name.lower(), None)
            self.binder.add_table(table.name, table.version, table.columns)
        self._plan_store.tables_changed(versions({table.name: table for table in tables}))

    def _refresh(self, name: str, found: Found | None = None) -> None:
        table = self.catalog.refresh(name, found)
        if table is not None:
            self._now_is(table)

    def _now_is(self, table: Table) -> None:
        self.binder.add_table(table.name, table.version, table.columns)
        self._plan_store.tables_changed(versions({table.name: table}))


def weakly(method: Callable[_Arguments, _Found]) -> Callable[_Arguments, _Found]:
    """A method that does not keep its object alive; for parts of that object."""
    weak = weakref.WeakMethod(method)

    def call(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Found:
        found = weak()
        if found is None:
            raise SessionClosed("the session is closed")
        return found(*arguments, **named)

    return call


def _place(source: object) -> _Place | None:
    return _at("source", source) if isinstance(source, str | os.PathLike) else None


def _at(kind: Literal["source", "folder", "database"], path: str | os.PathLike[str]) -> _Place:
    text = os.fspath(path)
    return kind, text if is_remote(text) else os.path.abspath(os.path.expanduser(text))
