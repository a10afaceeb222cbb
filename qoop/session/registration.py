"""The tables and functions of a session, as the program registers them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from qoop.catalog.interrupts import interruptible
from qoop.query.tables import SessionTables

if TYPE_CHECKING:
    from qoop.catalog.functions.function import UserFunction
    from qoop.catalog.statistics.stats import TableStats
    from qoop.catalog.table import Table
    from qoop.engine.processes.pool import ProcessPool
    from qoop.query.config import Config
    from qoop.query.isolation.text_isolation import TextIsolation


class FunctionOptions(TypedDict, total=False):
    """The options of a function of Python, as arguments of `Session.register_function`.

    vectorised: the function takes Arrow arrays and returns one of the same length; by default it takes and returns the
        values of one row.
    deterministic: equal arguments give equal results; by default true. False: an output that depends on the function
        is never used twice.
    null_handling: "default": where an argument is NULL so is the result, and the function is not called; "special":
        it is called, and may return None.
    version: identifies what the function computes; by default a digest of its code. Outputs are taken over only from
        functions of the same version.
    """

    vectorised: bool
    deterministic: bool
    null_handling: str
    version: str | None


class Registration:
    """Tables and functions of a session: its base. Thread-safe."""

    _tables: SessionTables
    config: Config

    def isolate(self, processes: ProcessPool, has_short: Callable[[str], bool] = lambda tenant: False) -> None:
        """Bind and run texts in child processes from now on, unless they are known to take little memory. has_short:
        see `Cluster.has_short`."""
        from qoop.query.isolation.text_isolation import TextIsolation  # few sessions have texts that are not trusted

        self._tables.isolation = TextIsolation(processes, self.config.memory, self.config.locked, has_short)

    @property
    def isolation(self) -> TextIsolation | None:
        """See `isolate`; None: all texts are bound in this process."""
        return self._tables.isolation

    @interruptible()
    def register(self, name: str, source: object, *, version: int | None = None) -> None:
        """Register data as table `name`, in place of the table that had the name.

        source: an Arrow table, record batches or dataset; anything with ``__arrow_c_stream__`` (pandas, Polars,
            DuckDB relations, a Result); arrays of NumPy, as DuckDB reads them; or the path of a Parquet, CSV or JSON
            file, a glob, or a folder of them; or the folder of a Delta or Iceberg table, which needs the extra
            ``qoop[delta]`` or ``qoop[iceberg]``.
        version: of a Delta table, or a snapshot of an Iceberg table, which it then stays at; by default each query
            reads the latest.

        Raises SourceError if it cannot be read.
        """
        self._tables.register(name, source, version)

    @interruptible()
    def unregister(self, name: str) -> None:
        """Remove a table from the session; its data does not change. Raises UnknownTable, CatalogError for a table
        that a statement has created."""
        self._tables.unregister(name)

    @interruptible()
    def register_folder(self, directory: str | os.PathLike[str]) -> None:
        """Register ``DIR/<table>.parquet`` and ``DIR/<table>/*.parquet``. Raises SourceError."""
        self._tables.register_folder(directory)

    @interruptible()
    def register_database(self, path: str | os.PathLike[str]) -> None:
        """Register every table of a DuckDB file. Raises SourceError."""
        self._tables.register_database(path)

    def register_path(self, path: str | os.PathLike[str], is_selected: Callable[[str], bool] | None = None) -> None:
        """Register a folder of tables, a DuckDB file, or a file of data as a table with the name of the file.

        is_selected: true for the names of those tables of a folder that are to be registered; by default all. Raises
        SourceError.
        """
        self._tables.register_path(path, is_selected)

    def tables(self) -> Mapping[str, Table]:
        """The tables by name, as they are now. Files that queries read by path are not among them."""
        self._tables.creator_process.check()
        return self._tables.names.listed()

    def views(self) -> Sequence[str]:
        """The names of the views, as they are now."""
        self._tables.creator_process.check()
        return self._tables.names.of_views()

    def views_left(self) -> Mapping[str, str]:
        """The views of DuckDB files that cannot be answered, by name, with the reasons: those that call macros of the
        file, for one."""
        return dict(self._tables.definitions.views_left)

    @interruptible()
    def statistics(self, table: str) -> TableStats:
        """The statistics of a table's rows and columns, collected on first use. Raises UnknownTable, SourceError."""
        return self._tables.statistics(table)

    @interruptible()
    def register_function(
        self,
        name: str,
        function: Callable[..., Any],
        parameters: Sequence[str],
        return_type: str,
        *,
        replace: bool = False,
        **options: Unpack[FunctionOptions],
    ) -> None:
        """Register a function of Python for later queries; see docs/functions.md.

        parameters, return_type: DuckDB's types, such as "BIGINT" or "VARCHAR[]".
        replace: replace another function of that name. Running queries keep the one that they have.
        options: see :class:`FunctionOptions`.

        Raises FunctionError for an invalid function, Forbidden in a locked session.
        """
        from qoop.catalog.functions.registry import described

        self._tables.register_function(described(name, function, parameters, return_type, **options), replace)

    @interruptible()
    def unregister_function(self, name: str) -> None:
        """Remove a function. Raises UnknownFunction."""
        self._tables.unregister_function(name)

    def functions(self) -> Mapping[str, UserFunction]:
        """The functions of Python by lower-case name, as they are now."""
        self._tables.creator_process.check()
        return self._tables.binder.functions()
