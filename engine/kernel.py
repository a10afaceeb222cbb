"""The kernel: runs the fragment of one task on its DuckDB instance.

A kernel is kept warm between tasks (opening one costs 15 ms) and given its threads and memory for each of
them. Measured on DuckDB 1.5.5 and 2.0.0, one thread:

- Rows leave as a stream of record batches, so that a kernel holds only few of them, whatever a task puts out. Against
  ``to_arrow_table()``, which collects all, one thread takes 10 % more for a bare scan of 3 M rows of 6 columns. Two
  take as long, if DuckDB may hold 32 MB that wait for the reader (at 1 MB 1.6 times that). Few rows take no longer.
- Arrow in costs 1 ms per million rows and column. 1.5.5 hands filters over Arrow to pyarrow, which is five
  times slower than DuckDB itself, uses threads that were not granted and refuses some filters; therefore
  `join_filter_pushdown` is off there for base tables held by pyarrow, and fragments read the outputs of other
  stages so that no filter is pushed down to them (:mod:`qoop.planner.exchange.cut`). 2.0 filters by itself.
- ``produce_arrow_string_view`` makes output 20 % faster, but Arrow cannot reorder views (no `take`) and
  writes all of a batch for each slice of it: off.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import count
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_input, arrow_output
from qoop.catalog.access import Access
from qoop.catalog.errors import CatalogError, FunctionFailed
from qoop.catalog.lexer import rare
from qoop.catalog.opening import EXTENSIONS, as_value, listed
from qoop.catalog.sources.file_stamp import File
from qoop.catalog.sources.parquet import ParquetSource, reach
from qoop.catalog.table import Split, Table
from qoop.engine.functions.calls import Calls, Tell
from qoop.engine.functions.measured import FunctionCalls, Ledger
from qoop.engine.instance import Instance
from qoop.engine.kernel_options import options_of, resource_options
from qoop.engine.native.copies import NativeCopies, NativeScan
from qoop.engine.storage.growing import Begin, InMemory, Made
from qoop.engine.storage.partition import cut, quoted, with_partition_number, without_number
from qoop.engine.task import AttemptId, TaskProfile, TaskSpec
from qoop.planner.plan import Resources, Stage, StageInput, TableInput

if TYPE_CHECKING:
    from qoop.engine.functions.filters import Filters
    from qoop.engine.profiling.reading import Profiler

BATCH_ROWS = 131_072  # rows of a record batch put out; a power of two, to which DuckDB rounds its buffers up
_BATCH_BYTES = 16 << 20  # that a batch should not exceed by much, as far as the width of rows is known


Purpose = Literal["stages", "users", "copies"]
"""An instance is for fragments of plans, for texts of users, or for those that read copies of tables."""

_UNREADABLE = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException, duckdb.SerializationException)
"""The errors of a copy that is gone or damaged."""

_IN_DOUBT = "in doubt"

_tells_tables_apart = rare(r"rowid|\bmemory\b", "rowid", "memory")
"""In texts for which a table of a copy differs from a view of it: views lack that column, and are in that catalog."""

WORN = 1_000
"""Tasks after which an instance gives way to a new one: each query leaves some KB in DuckDB until it is closed."""


class Kernel:
    """Runs one task at a time; `interrupt`, `regrant`, `part_over` and `cpu_seconds` may be called from other threads.

    Fragments that the planner has printed run in an instance of DuckDB that can open the files of the tables it was
    given so far, and no others. A user's own text (an opaque stage) may read files, so it has a separate instance;
    in a locked session that one can open the files of its tables only, and its options are locked as well. What an
    instance may open can only be said once: for more, it gives way to a new one, which takes 12 ms.

    Texts that read copies of tables run in a separate instance: no other text can see the copies.

    spill: directory for what DuckDB spills; made when needed, removed by `close`. ledger: what is known of functions of
    Python, shared with other kernels. copies: of tables, shared with them, too.
    """

    def __init__(self, spill: Path, ledger: Ledger | None = None, copies: NativeCopies | None = None) -> None:
        self._spill = spill
        self._numbers = count()
        self._fresh: Instance | None = self._new()  # unused: opened ahead of the first task
        self._instances: dict[Purpose, Instance] = {}
        self._copies = copies
        self.native: Mapping[str, NativeScan] = {}  # the inputs of the last task that copies serve
        self._connection = self._fresh.connection
        self._footers: dict[str, str] = {}  # the digests of Parquet files whose footers DuckDB may have kept
        self._querying = False
        self._ledger = ledger or Ledger()
        self._calls = Calls(self._ledger)
        self._filters: Filters | None = None  # until a task calls functions of Python
        self._lock = threading.Lock()
        self._profiler: Profiler | None = None
        self.profile: TaskProfile | None = None  # of the last task, if it was profiled
        self._running: tuple[AttemptId, Instance] | None = None  # that can be granted other resources
        self._regranting = threading.Lock()  # held while it is

    def run(
        self,
        spec: TaskSpec,
        read: Callable[[str], pa.Table],
        between: Callable[[], None] = lambda: None,
        begin: Begin = InMemory,
        tell: Tell = lambda _: None,
    ) -> Made:
        """Run the task and return the partitions of its output.

        read: the rows of a stage input by its name. between: called before, after and between all that takes
            long; raises Stopped to end the run, for which a query that is under way needs `interrupt` too.
        begin: where the rows go as they come, given their schema and how many partitions there are.
        tell: receives now and then the time of Python functions so far.
        Raises Stopped, DuckDB's and Arrow's own errors, and the catalog's (TableChanged, SourceError, DiskFull).
        """
        self._calls.begin(between, tell)
        try:
            return self._run(spec, read, between, begin)
        except FunctionFailed:
            if self._filters is None or not self._filters.moved:
                raise
            self._filters.keep_to_text()  # which may have guarded what raised
        except duckdb.Error as error:
            unreadable = self.native and isinstance(error, _UNREADABLE)
            if not unreadable and (self._filters is None or not self._filters.apart_after(error)):
                raise
            if self._copies is not None and unreadable:
                self._copies.give_up()
                self.restart()
        self._calls.begin(between, tell)
        return self._run(spec, read, between, begin)

    def _run(self, spec: TaskSpec, read: Callable[[str], pa.Table], between: Callable[[], None], begin: Begin) -> Made:
        with contextlib.ExitStack() as undo:
            self._forget_footers(spec)
            self.native = {} if self._copies is None else self._copies.scans(spec)
            instance = self._instance(spec)
            self._profiler = undo.enter_context(_profiler(spec, instance))
            self.profile = None
            self._connection = instance.connection
            self._add_functions(spec, instance)
            sql = self._in_order(self._bind(spec, instance, read, undo), spec, instance)
            with self._elastic(instance, spec):
                return self._read(sql, spec, between, begin)

    @property
    def called(self) -> tuple[FunctionCalls, ...]:
        """The functions of Python that the last task has called."""
        if self._filters is not None:
            self._filters.settle()
        return self._calls.observed()

    def _add_functions(self, spec: TaskSpec, instance: Instance) -> None:
        """A user's own text calls functions by their names, a planned stage by names with versions."""
        for function in spec.functions:
            if spec.stage.opaque is not None:
                instance.function(function, function.name, self._calls)
            elif function.key in spec.stage.sql:
                instance.function(function, function.key, self._calls)

    def _in_order(self, sql: str, spec: TaskSpec, instance: Instance) -> str:
        """The SQL with its filters in the orders that may be chosen among."""
        if not spec.functions or spec.stage.opaque is not None:
            if self._filters is not None:
                self._filters.begin("", ())
            return sql
        filters = self._filters = self._filters or self._new_filters()
        ordered = filters.begin(sql, spec.functions)
        if ordered != sql:
            instance.filters(filters)
        return ordered

    def _new_filters(self) -> Filters:
        from qoop.engine.functions.filters import Filters  # few queries call functions of Python

        return Filters(self._ledger, self._calls)

    def _read(self, sql: str, spec: TaskSpec, between: Callable[[], None], begin: Begin) -> Made:
        """The rows, if they are of the versions of the tables that were planned for."""
        try:
            made = self._query(sql, spec, between, begin)
            if self._profiler is not None:
                self.profile = self._profiler.profile(operators=spec.stage.opaque is not None)
            check_tables(spec)
        except (duckdb.Error, CatalogError):
            self._footers = dict.fromkeys(self._footers, _IN_DOUBT)
            raise
        return made

    def _forget_footers(self, spec: TaskSpec) -> None:
        """DuckDB tells a Parquet file whose footer it has kept by whole seconds: one that changed within a second would
        be read by the footer it had. Texts over copies keep no footers: what was read of copies stays in memory."""
        files = {file.path: file.digest for table, split in _read_tables(spec) for file in _parquet_files(table, split)}
        if any(self._footers.get(path, digest) != digest for path, digest in files.items()):
            copies = self._instances.pop("copies", None)
            self.restart()
            if copies is not None:
                self._instances["copies"] = copies
        self._footers |= files

    def _query(self, sql: str, spec: TaskSpec, between: Callable[[], None], begin: Begin) -> Made:
        between()
        try:
            with self._interruptible():
                return self._stream(sql, spec, between, begin)
        except duckdb.InterruptException:
            between()
            raise
        except duckdb.Error as error:
            self._calls.raise_cause(error, spec)
            raise

    def _stream(self, sql: str, spec: TaskSpec, between: Callable[[], None], begin: Begin) -> Made:
        parts, rows = spec.stage.layout.parts, batch_rows(spec.stage, spec.resources.memory)
        with self._reader(sql, spec.stage, rows) as reader:
            schema = reader.schema if parts == 1 else without_number(reader.schema)
            with contextlib.closing(begin(schema, parts)) as output:
                for batch in _batches(reader):
                    between()
                    output.add([(0, batch)] if parts == 1 else cut(batch, parts))
                between()
                return output.finish()

    def _reader(self, sql: str, stage: Stage, rows: int) -> pa.RecordBatchReader:
        """The rows in batches. A user's own text whose stream DuckDB might never begin is collected as a whole."""
        if stage.opaque is None:
            return arrow_output.stream(self._connection, arrow_output.through_one_pipeline(sql), rows)
        if arrow_output.has_several_pipelines(sql):
            return arrow_output.collected(self._connection, sql, rows).to_reader()
        return arrow_output.stream(self._connection, sql, rows)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Only the query itself is: what is undone after it must be undone."""
        with self._lock:
            self._querying = True
        try:
            yield
        finally:
            with self._lock:
                self._querying = False

    def part_over(self) -> float | None:
        """The part of the query that runs now which DuckDB believes to be over; None: none runs, or it does not say."""
        with self._lock:
            percent = self._connection.query_progress() if self._querying else 0.0
        return min(1.0, percent / 100.0) if percent > 0.0 else None

    def cpu_seconds(self) -> float | None:
        """None: what DuckDB's threads use is not known by task."""
        return None

    def interrupt(self) -> None:
        """End the query that runs now, within about 1 ms. Without effect if none runs *yet*: repeat it."""
        with self._lock:
            if self._querying:
                self._connection.interrupt()

    @contextlib.contextmanager
    def _elastic(self, instance: Instance, spec: TaskSpec) -> Iterator[None]:
        """Let a task that may be have other threads and memory while it runs."""
        if not spec.most:
            yield
            return
        self._running = spec.attempt, instance
        try:
            yield
        finally:
            with self._regranting:
                self._running = None

    def regrant(self, spec: TaskSpec, resources: Resources) -> bool:
        """Let a task that runs go on with other threads and memory. False: it does not run, or is not elastic.

        Takes until threads that are to go have finished their piece of work, some 10 ms. Raises duckdb.Error where
        what DuckDB holds does not fit the memory, or its options are locked; then only the threads are others.
        """
        with self._regranting:
            if self._running is None or self._running[0] != spec.attempt:
                return False
            self._running[1].regrant(resource_options(resources, spec.most))
            return True

    def exceeds(self, resources: Resources) -> bool:
        """False: it does not know what its task holds, and frees it by and by."""
        return False

    def restart(self) -> None:
        """Open a new instance, after an error that made one refuse further work."""
        self.close()
        self._instances, self._footers = {}, {}
        self._fresh = self._new()

    def close(self) -> None:
        """Free all instances; DuckDB removes what it spilled."""
        for instance in (self._fresh, *self._instances.values()):
            if instance is not None:
                instance.close()

    def _instance(self, spec: TaskSpec) -> Instance:
        """One that can open what the task reads, with the options of the task."""
        users = spec.stage.opaque is not None
        purpose: Purpose = "copies" if self.native else "users" if users else "stages"
        options, access = options_of(spec), _access(spec)
        extensions = listed(str(options.pop(EXTENSIONS, "")))
        if self.native:
            options["parquet_metadata_cache"] = False  # see `_forget_footers`
        found = self._instances.get(purpose)
        if found is None or found.tasks >= WORN or not found.serves(access, options, extensions):
            found = self._instances[purpose] = self._open(found, access, extensions)
            if users:  # other tasks are short
                found.count_progress()
        found.load(extensions)
        found.tasks += 1
        found.configure(options)
        if users and spec.locked:
            found.seal()
            found.check_query(spec.stage.sql)
        return found

    def _open(self, before: Instance | None, access: Sequence[Access] | None, extensions: Sequence[str]) -> Instance:
        """A new instance in place of the one before, which may open what that one may, too."""
        opened, self._fresh = self._fresh or self._new(), None
        opened.load(extensions)
        if access is not None:
            known = before.access if before is not None else None
            opened.confine(reduce(or_, access, known or Access()))
        if before is not None:
            before.close()
        return opened

    def _new(self) -> Instance:
        """Each has a separate place to spill to, since it removes that when it is closed."""
        number = next(self._numbers)
        return Instance(self._spill.with_name(f"{self._spill.name}-{number}") if number else self._spill)

    def _bind(
        self, spec: TaskSpec, instance: Instance, read: Callable[[str], pa.Table], undo: contextlib.ExitStack
    ) -> str:
        """Make the inputs known under their names; return the SQL to run."""
        scans: dict[str, str] = {}
        attached: dict[str, str] = {}
        schemas: dict[str, pa.Schema] = {}  # of the Arrow rows that views read
        databases: list[str] = []  # whose tables serve by their names: DuckDB binds these in half the time of views
        for item in spec.stage.inputs:
            if native := self.native.get(item.name):
                instance.attach(native.files)
                if native.table.lower() == item.name.lower() and not _tells_tables_apart(spec.stage.sql):
                    instance.drop_view(item.name)
                    databases += native.files
                else:
                    scans[item.name] = native.sql
                continue
            found = self._scan(spec, item, attached, undo) if isinstance(item, TableInput) else read(item.name)
            if isinstance(found, str):
                scans[item.name] = found
                continue
            types = _changed_types(spec, item)
            found = arrow_input.castable(found) if types else found
            name = f"{item.name}:rows"
            scan = arrow_input.scan(name, found.schema, types)
            if condition := spec.condition(item.name):
                scan = f"SELECT * FROM ({scan or f'FROM {quoted(name)}'}) WHERE {condition}"
            if scan is not None or spec.stage.opaque is not None:
                scans[item.name] = scan or f"FROM {quoted(name)}"  # main.name means a view, but nothing registered
            else:
                name = item.name
            arrow_input.register(self._connection, name, found)
            schemas[item.name] = found.schema
            undo.callback(self._connection.unregister, name)
        instance.find_in(databases)
        stage = spec.stage
        if stage.layout.parts > 1:
            return with_scans(with_partition_number(stage), scans)
        if stage.opaque is None:
            return with_scans(stage.sql, scans)
        tables = bool(schemas) and _asks_for_statistics(stage.sql)
        for name, scan in scans.items():  # text of the user's may have any form, so it gets views
            if tables:
                instance.table(name, scan)
                undo.callback(instance.drop_table, name)
                continue
            instance.view(name, scan, schemas.get(name))
            if attached:
                undo.callback(instance.drop_view, name)
        return stage.sql

    def _scan(
        self, spec: TaskSpec, item: TableInput, attached: dict[str, str], undo: contextlib.ExitStack
    ) -> str | pa.Table:
        table = spec.tables[item.table]
        reach(table.source, self._connection)
        found = table.attach()
        if found is not None and found[0] not in attached:
            alias, path = found
            self._connection.execute(f"ATTACH {as_value(path)} AS {quoted(alias)} (READ_ONLY)")
            undo.callback(self._connection.execute, f"DETACH {quoted(alias)}")
            attached[alias] = path
        return table.scan(item.columns, spec.split(item))


@contextlib.contextmanager
def _profiler(spec: TaskSpec, instance: Instance) -> Iterator[Profiler | None]:
    """A profiler of the queries of a task, on a separate connection; None where none is taken, or the options of
    the instance are sealed."""
    if not spec.profiled or instance.sealed:
        yield None
        return
    from qoop.engine.profiling.reading import Profiler  # few queries are analysed

    with instance.apart() as connection:
        yield Profiler(connection, spec.resources.memory, alone=spec.resources.cpu <= 1 and spec.most < 2)


def check_tables(spec: TaskSpec) -> None:
    """To be done after reading. Raises TableChanged or SourceError."""
    for table, split in _read_tables(spec):
        table.check(split)


def _read_tables(spec: TaskSpec) -> Iterator[tuple[Table, Split | None]]:
    for item in spec.stage.table_inputs:
        yield spec.tables[item.table], spec.split(item)


def _parquet_files(table: Table, split: Split | None) -> Sequence[File]:
    return table.source.local_files(split) if isinstance(table.source, ParquetSource) else ()


_STATISTICS = re.compile(r"bitstring_agg", re.I)


def _asks_for_statistics(text: str) -> bool:
    """True if a text of the user's may need the bounds of a column, which DuckDB knows of files and tables only."""
    return _STATISTICS.search(text) is not None


def _changed_types(spec: TaskSpec, item: TableInput | StageInput) -> Mapping[str, str]:
    """The types of a table's columns that Arrow has in another type."""
    if not isinstance(item, TableInput):
        return arrow_input.NO_TYPES
    return arrow_input.changed_types(spec.tables[item.table].columns)


def _access(spec: TaskSpec) -> Sequence[Access] | None:
    """The places that the task must be able to open; None: all that its text names."""
    tables = [spec.tables[item.table] for item in spec.stage.table_inputs]
    if spec.locked:
        return [table.files for table in tables]
    return [table.folders for table in tables] if spec.stage.opaque is None else None


def batch_rows(stage: Stage, memory: float = 0.0) -> int:
    """Rows of the batches that a task puts out: fewer if they are estimated to be long, or if it was granted little
    memory, for there are several at a time: one that is made, in buffers of up to twice its size, one that is cut."""
    most = min(_BATCH_BYTES, memory / 16) if memory > 0 else _BATCH_BYTES
    width = max(1.0, stage.estimate.bytes / max(1.0, stage.estimate.rows))
    return min(BATCH_ROWS, 1 << max(11, int(most / width).bit_length() - 1))


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of the reader; its errors are DuckDB's own again."""
    try:
        yield from reader
    except pa.ArrowMemoryError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise _as_duckdb(error) from None


_SAID: dict[str, type[Exception]] = {
    "Conversion Error": duckdb.ConversionException,
    "HTTP Error": duckdb.HTTPException,
    "INTERNAL Error": duckdb.InternalException,
    "INTERRUPT Error": duckdb.InterruptException,
    "IO Error": duckdb.IOException,
    "FATAL Error": duckdb.FatalException,
    "Invalid Input Error": duckdb.InvalidInputException,
    "Not implemented Error": duckdb.NotImplementedException,
    "Out of Memory Error": duckdb.OutOfMemoryException,
    "Out of Range Error": duckdb.OutOfRangeException,
    "Serialization Error": duckdb.SerializationException,
}


def _as_duckdb(error: Exception) -> Exception:
    """The error of a query whose rows are being read, which Arrow hands on as a text."""
    kind: type[Exception] = _SAID.get(str(error).partition(":")[0], duckdb.Error)
    return kind(str(error))


_WITH = re.compile(r"\s*WITH\s+(RECURSIVE\s+)?", re.IGNORECASE)


def with_scans(sql: str, scans: Mapping[str, str]) -> str:
    """Put scans in front of a planned fragment, as common table expressions that DuckDB inlines.

    A view would do the same, but costs 0.3 ms and a second look at the file.

    >>> with_scans("SELECT a FROM t", {"t": "SELECT 1"})
    'WITH "t" AS NOT MATERIALIZED (SELECT 1) SELECT a FROM t'
    >>> with_scans("WITH s AS (FROM t) SELECT * FROM s", {"t": "SELECT 1"})
    'WITH "t" AS NOT MATERIALIZED (SELECT 1), s AS (FROM t) SELECT * FROM s'
    """
    if not scans:
        return sql
    definitions = ", ".join(f"{quoted(name)} AS NOT MATERIALIZED ({scan})" for name, scan in scans.items())
    found = _WITH.match(sql)
    if found is None:
        return f"WITH {definitions} {sql}"
    return f"WITH {found.group(1) or ''}{definitions}, {sql[found.end() :]}"
