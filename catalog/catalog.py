"""The catalog: the tables a session knows, by name, and their statistics."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING

from qoop.catalog.errors import CatalogError, UnknownTable
from qoop.catalog.paths import source_path
from qoop.catalog.sources.files import Found
from qoop.catalog.sources.probe import Probe
from qoop.catalog.sources.register import open_database, open_folder, open_source, reread
from qoop.catalog.statistics.footers import FooterStats, together, with_collected
from qoop.catalog.statistics.stats import PILOT_ROWS, TableStats
from qoop.catalog.statistics.stats_cache import Collect, StatsCache
from qoop.catalog.table import Table

if TYPE_CHECKING:
    from qoop.catalog.sources.database import FileView


class Catalog:
    """Tables by name (upper and lower case are the same), safe to use from several threads.

    cache_dir: where statistics are kept between processes; by default ``QOOP_CACHE_DIR``, else the
        user's cache directory.
    """

    def __init__(self, cache_dir: str | os.PathLike[str] | None = None) -> None:
        self._tables: dict[str, Table] = {}
        self._shown: Mapping[str, Table] | None = None  # as `tables` has them, until one comes or goes
        self._lock = threading.Lock()
        self._probe = Probe()
        self._cache = StatsCache(cache_dir)
        self._pilots = StatsCache(cache_dir, "pilots")
        self._footers = FooterStats()
        self._grown: dict[tuple[str, str], TableStats | None] = {}  # by cache and version, of tables that have grown

    @classmethod
    def from_folder(cls, directory: str | os.PathLike[str], cache_dir: str | os.PathLike[str] | None = None) -> Catalog:
        """A catalog of the tables in a folder; see :meth:`register_folder`."""
        catalog = cls(cache_dir)
        try:
            catalog.register_folder(directory)
        except BaseException:
            catalog.close()
            raise
        return catalog

    def register(self, name: str, source: object, version: int | None = None) -> Table:
        """Register data under a name, replacing the table that had it.

        source: an Arrow table, record batches or dataset; anything with ``__arrow_c_stream__`` (pandas, Polars,
            DuckDB relations); or the path of a Parquet, CSV or JSON file, a glob of such files, or a folder of
            them (``key=value`` folders become columns), or the folder of a Delta or Iceberg table.
        version: of a Delta table, or a snapshot of an Iceberg table, which it keeps; None: the latest
            version at each query.

        Raises SourceError if it cannot be read.
        """
        table = self.opened(name, source, version)
        self._add(table)
        return table

    def opened(self, name: str, source: object, version: int | None = None) -> Table:
        """The same table, which the catalog does not know afterwards."""
        _check_name(name)
        self._probe.check_open()
        if isinstance(source, str | os.PathLike):
            source = source_path(source)
        return open_source(self._probe, name, source, version)

    def register_folder(
        self, directory: str | os.PathLike[str], is_selected: Callable[[str], bool] | None = None
    ) -> tuple[Table, ...]:
        """Register ``DIR/<table>.parquet`` and ``DIR/<table>/*.parquet`` (at any depth), by name of file or folder.

        is_selected: true for the names of tables to register; by default all. The tables of a bucket always are.
        """
        self._probe.check_open()
        tables = open_folder(self._probe, source_path(directory), is_selected)
        self._add(*tables)
        return tables

    def register_database(
        self, path: str | os.PathLike[str], database: str = ""
    ) -> tuple[tuple[Table, ...], Sequence[FileView]]:
        """Register every table of a DuckDB file; one outside the schema ``main`` as ``schema.table``. database: comes
        before the names of all. Returns the tables, and the views of the file, which are not registered."""
        tables, views = open_database(source_path(path), database)
        self._add(*tables)
        return tables, views

    def refresh(self, name: str, found: Found | None = None) -> Table | None:
        """Read the place of a table again: added, removed, replaced and rewritten files count from now on.

        found: the files that are there, if that is known. Returns the new table, None if nothing changed. Raises
        UnknownTable; SourceError if it cannot be read any more, and then the registered table stays.
        """
        before = self.table(name)
        table = reread(self._probe, before, found)
        if table is None:
            return None
        self._add(table)
        return table if table.version != before.version else None

    def add(self, table: Table) -> None:
        """Add a table of another catalog, or pieces of one."""
        self._add(table)

    def take_for(self, name: str, version: str) -> Table:
        """Give a table the version of another one that holds the same rows. Raises UnknownTable."""
        table = replace(self.table(name), version=version)
        self._add(table)
        return table

    def drop(self, name: str) -> None:
        """Forget a table. Raises UnknownTable."""
        with self._lock:
            del self._tables[self._find(name).name.lower()]
            self._shown = None

    def table(self, name: str) -> Table:
        """The table of that name. Raises UnknownTable, which names the nearest matches."""
        with self._lock:
            return self._find(name)

    def find(self, name: str) -> Table | None:
        """The table of that name, if there is one."""
        with self._lock:
            return self._tables.get(name.lower())

    def tables(self) -> Mapping[str, Table]:
        """All tables by name, as they are now, in order of name; the same mapping until one comes or goes."""
        with self._lock:
            if self._shown is None:
                self._shown = MappingProxyType({table.name: table for _, table in sorted(self._tables.items())})
            return self._shown

    def stats(self, name: str, columns: Collection[str] | None = None) -> TableStats:
        """Statistics of a table with at least these columns (None: all), collected on first use.

        Raises UnknownTable, CatalogError for an unknown column, SourceError or TableChanged.
        """
        table = self.table(name)
        return self._cache.get(table, _in_table_order(table, columns), partial(self._gather, table))

    def _gather(self, table: Table, missing: Sequence[str], known: TableStats | None) -> TableStats:
        """Statistics of columns, added to those known. If files were added to a table, only these files are read, for
        all columns known before."""
        from qoop.catalog.statistics.collect import collect  # loads pyarrow.compute; kept statistics do not need it

        before = self._cache.before(table) if known is None else None
        if before is not None:
            from qoop.catalog.statistics.merging import merged  # few tables have grown

            old, added = before
            new = self._cache.get(added, list(old.columns), partial(collect, self._probe, added))
            known = together(table, None, merged(old, new))
        return collect(
            self._probe, table, [name for name in missing if known is None or name not in known.columns], known
        )

    def known_stats(self, name: str, columns: Collection[str]) -> TableStats:
        """Statistics of these columns without reading a row: collected ones, also by a pilot, else those from footers.

        A table without footers has its statistics collected. Raises as `stats` does.
        """
        table = self.table(name)
        requested = _in_table_order(table, columns)
        collected = self._collected(table)
        missing = [column for column in requested if collected is None or column not in collected.columns]
        guessed = self._footers.get(table, missing) if missing else None
        if guessed is None and missing:
            return self.stats(name, columns)
        return with_collected(table, guessed, collected)

    def collected(self, name: str) -> Collection[str]:
        """The columns of a table with collected statistics. Raises UnknownTable."""
        known = self._collected(self.table(name))
        return known.columns.keys() if known is not None else ()

    def run_pilots(
        self, columns: Mapping[str, Collection[str]], seconds: float, frequent: bool = False
    ) -> Collection[str]:
        """Read a few row groups for the distribution of columns that only footers describe so far.

        columns: by table. seconds: for all pilots together; the cheapest run first. frequent: only the frequent values
        are needed, so fewer rows are read. Returns the tables with new statistics. Raises UnknownTable, SourceError or
        TableChanged.
        """
        from qoop.catalog.statistics.pilot import (  # loads pyarrow.compute
            FEW_ROWS,
            able,
            pilot,
            pilot_seconds,
        )

        most = FEW_ROWS if frequent else PILOT_ROWS
        known = {name: self.known_stats(name, names) for name, names in columns.items()}
        unspread = {name: able(known[name], names) for name, names in columns.items()}
        prices = {name: pilot_seconds(self.table(name), len(names), most) for name, names in unspread.items() if names}
        ran = []
        for name, price in sorted(prices.items(), key=lambda item: (item[1], item[0])):
            seconds -= price
            if seconds < 0:
                break
            table, guessed = self.table(name), known[name]
            before = self._kept(self._pilots, table)
            self._pilots.get(table, unspread[name], _after(before, partial(pilot, self._probe, table, guessed, most)))
            ran.append(name)
        return ran

    def duckdb_plan(self, text: str, tables: Mapping[str, Table]) -> str | None:
        """DuckDB's own plan of a query (:func:`~qoop.catalog.statistics.duckdb_plan.explained`)."""
        from qoop.catalog.statistics.duckdb_plan import explained  # short queries need none

        return explained(self._probe, text, tables)

    def _collected(self, table: Table) -> TableStats | None:
        """Collected statistics of a table, and those of pilots for the other columns."""
        full, part = self._kept(self._cache, table), self._kept(self._pilots, table)
        return part if full is None else full if part is None else with_collected(table, part, full)

    def _kept(self, cache: StatsCache, table: Table) -> TableStats | None:
        """A cache's statistics of a table, or of its earlier version merged with the footers of the added files.

        None if there are none, or if the added files have more rows than the earlier version."""
        key = cache.kind, table.version
        known = cache.known(table)
        if known is None and key not in self._grown:
            self._grown[key] = self._with_added(cache, table)
        return self._grown[key] if known is None else known

    def _with_added(self, cache: StatsCache, table: Table) -> TableStats | None:
        before = cache.before(table)
        if before is None or before[1].rows > before[0].rows:
            return None
        from qoop.catalog.statistics.merging import merged  # few tables have grown

        old, added = before
        guessed = self._footers.get(added, list(old.columns))
        return None if guessed is None else together(table, None, merged(old, guessed))

    def close(self) -> None:
        """Forget all tables and close DuckDB. Further calls raise CatalogError."""
        with self._lock:
            self._tables.clear()
            self._shown = None
        self._probe.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _add(self, *tables: Table) -> None:
        with self._lock:
            self._tables.update((table.name.lower(), table) for table in tables)
            self._shown = None

    def _find(self, name: str) -> Table:
        found = self._tables.get(name.lower())
        if found is None:
            raise UnknownTable(_unknown(name, [table.name for table in self._tables.values()]))
        return found


def _after(before: TableStats | None, collect: Collect) -> Collect:
    """A collector that starts from the statistics of before, where none are known."""
    return lambda missing, known: collect(missing, known or before)


def _in_table_order(table: Table, columns: Collection[str] | None) -> list[str]:
    """The columns in the order of the table; None: all. Raises CatalogError for an unknown one."""
    names = [column for column, _ in table.columns]
    unknown = sorted(set(columns or ()) - set(names))
    if unknown:
        raise CatalogError(f"table {table.name} has no column {', '.join(unknown)}; it has {', '.join(names)}")
    return names if columns is None else [name for name in names if name in columns]


def _check_name(name: str) -> None:
    """Refuse an empty name, and one that no text of SQL can hold. SQL can write any other name in quotes."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a table is a text, not a {type(name).__name__}")
    fault = "a table needs a name" if not name else "the name of a table holds a NUL" if "\0" in name else None
    try:
        name.encode()
    except UnicodeEncodeError:
        fault = "the name of a table is not UTF-8"
    if fault is not None:
        raise CatalogError(fault)


def _unknown(name: str, names: Collection[str]) -> str:
    if not names:
        return f"there is no table {name}: no table is registered"
    import difflib

    by_lower = {known.lower(): known for known in names}
    near = [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(sorted(names)[:20])}"
    return f"there is no table {name}: {hint}"
