"""An instance of DuckDB that a kernel runs tasks in: opened, confined to the files that it may open, given options."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from qoop.catalog.access import Access
from qoop.catalog.functions.function import UserFunction
from qoop.catalog.opening import as_value, close_duckdb, confine, count_progress, open_duckdb, silence
from qoop.engine.storage.partition import quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.engine.functions.calls import Calls
    from qoop.engine.functions.filters import Filters

RESOURCE_OPTIONS = frozenset(
    ("external_threads", "memory_limit", "scheduler_process_partial", "streaming_buffer_size", "threads")
)
"""The options that each task has of its own. They change in a sealed instance, too: to open another takes 15 ms."""

_READ_ONLY = ("SELECT", "CREATE", "MULTI")
"""The statements that a query is for DuckDB: PIVOT makes a type first."""

_CONFIG = {
    "threads": 1,
    "arrow_lossless_conversion": True,
    "produce_arrow_string_view": False,
}


class Instance:
    """access: what it may open; None: anything. sealed: its options cannot be changed any more, but for those of
    resources.

    tasks: that it has run or begun. extensions: of DuckDB, that it has loaded.
    """

    def __init__(self, spill: Path) -> None:
        self._spill = spill
        self.access: Access | None = None
        self.sealed = False
        self.tasks = 0
        self.extensions: set[str] = set()
        self.connection = open_duckdb(threads=1, temp_directory=str(spill))
        for name, value in _CONFIG.items():
            self.connection.execute(f"SET {name} = {as_value(value)}")
        self._applied: dict[str, object] = {}
        self._views: dict[str, tuple[str, pa.Schema | None]] = {}
        self._attached: set[str] = set()
        self._searched: tuple[str, ...] = ()
        self._functions: dict[str, str] = {}  # the versions of functions of Python, by the names they have here

    def count_progress(self) -> None:
        """Have DuckDB keep count of the work that is over."""
        count_progress(self.connection)

    def confine(self, access: Access) -> None:
        """Let it open this, and what it spills, and nothing else, for good."""
        if any("://" in folder for folder in access.folders):
            from qoop.catalog.sources.remote import mount

            mount(self.connection)  # first: else DuckDB takes the URLs of folders for paths of this machine
        confine(self.connection, access.paths, access.folders)
        self.access = access

    def load(self, extensions: Sequence[str]) -> None:
        """Load extensions of DuckDB; before it is confined, for then it opens none."""
        missing = [name for name in extensions if name not in self.extensions]
        if missing:
            from qoop.catalog.extensions import load  # few sessions load any

            load(self.connection, missing)
            self.extensions.update(missing)

    def configure(self, requested: Mapping[str, object]) -> None:
        """Give it these options, and take others back."""
        lost = self._applied.keys() - requested.keys()
        if self._applied.get("threads") != requested.get("threads"):
            lost |= self._applied.keys() & {"external_threads"}  # there must be as many threads, at any moment
        for name in lost:
            self._applied.pop(name)  # even if another setting is refused, it is not as it was
            self.connection.execute(f"RESET {name}")
        for name, value in requested.items():
            if self._applied.get(name) != value:
                self._applied.pop(name, None)  # in doubt while it is being changed
                self.connection.execute(f"SET {name} = {as_value(value)}")
        self._applied = dict(requested)

    def regrant(self, requested: Mapping[str, object]) -> None:
        """Change options while a query runs; DuckDB lets a few of them be."""
        with self.connection.cursor() as other:
            for name, value in requested.items():
                if self._applied.get(name) != value:
                    other.execute(f"SET {name} = {as_value(value)}")
                    self._applied[name] = value

    @contextlib.contextmanager
    def apart(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Work on another connection meanwhile, with the same options: some belong to a connection."""
        usual, self.connection = self.connection, self.connection.cursor()
        try:
            silence(self.connection)
            for name, value in (_CONFIG | self._applied).items():
                self.connection.execute(f"SET {name} = {as_value(value)}")
            yield self.connection
        finally:
            other, self.connection = self.connection, usual
            other.close()

    def serves(
        self, access: Sequence[Access] | None, options: Mapping[str, object], extensions: Sequence[str] = ()
    ) -> bool:
        """True if a task that must be able to open this, and nothing else, can have these options and extensions."""
        if self.access is not None and not self.extensions.issuperset(extensions):
            return False
        if self.sealed and _lasting(self._applied) != _lasting(options):
            return False
        if access is None or self.access is None:
            return access is None and self.access is None
        return all(map(self.access.covers, access))

    def attach(self, files: Mapping[str, str]) -> None:
        """Attach files of DuckDB under these names, for good."""
        for name in files.keys() - self._attached:
            self.connection.execute(f"ATTACH {as_value(files[name])} AS {quoted(name)} (READ_ONLY)")
            self._attached.add(name)

    def find_in(self, databases: Sequence[str]) -> None:
        """Find the tables of these attached files by their bare names, besides what is in memory."""
        if tuple(databases) != self._searched:
            places = ["memory.main", *(f"{quoted(name)}.main" for name in databases)]
            self.connection.execute(f"SET search_path = {as_value(','.join(places))}")
            self._searched = tuple(databases)

    def view(self, name: str, query: str, schema: pa.Schema | None = None) -> None:
        """Give a query a name. One that has it already stays: a view costs 0.3 ms and a look at its file.

        schema: of the Arrow rows that it reads; these may be others the next time, or not be there."""
        if self._views.get(name) != (query, schema):
            self.connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {query}")
            self._views[name] = query, schema

    def drop_view(self, name: str) -> None:
        """Forget a view, if there is one of that name."""
        if self._views.pop(name, None) is not None:
            self.connection.execute(f"DROP VIEW {quoted(name)}")

    def function(self, function: UserFunction, name: str, calls: Calls) -> None:
        """Know a function of Python under a name."""
        if self._functions.get(name) == function.key:
            return
        if name in self._functions:
            self.connection.remove_function(name)
        calls.add_to(self.connection, function, name)
        self._functions[name] = function.key

    def filters(self, filters: Filters) -> None:
        """Know how to run filters in any order."""
        for name, add_to in filters.needed().items():
            if name not in self._functions:
                add_to(self.connection)
                self._functions[name] = name

    def table(self, name: str, query: str) -> None:
        """Keep the rows of a query as a table, of which DuckDB has statistics."""
        if name in self._views:
            self.drop_view(name)
        self.connection.execute(f"CREATE TABLE {quoted(name)} AS {query}")

    def drop_table(self, name: str) -> None:
        """Forget a table."""
        self.connection.execute(f"DROP TABLE {quoted(name)}")

    def seal(self) -> None:
        """Keep the options as they are, but for those of resources; later changes are ignored."""
        if not self.sealed:
            self.connection.execute(f"SET allowed_configs = {sorted(RESOURCE_OPTIONS)}")
            self.connection.execute("SET lock_configuration = true")
            self.sealed = True

    def check_query(self, text: str) -> None:
        """Refuse what may change an option. Raises duckdb.PermissionException."""
        kinds = [one.type.name for one in self.connection.extract_statements(text)]
        if not set(kinds) <= set(_READ_ONLY):
            raise duckdb.PermissionException(f"a locked session runs queries alone, not {', '.join(kinds)}")

    def close(self) -> None:
        """Free it; DuckDB removes what it spilled."""
        if self._spill.exists():
            self.connection.close()
        else:
            close_duckdb(self.connection)


def _lasting(options: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if name not in RESOURCE_OPTIONS}
