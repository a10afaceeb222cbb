"""The answer of a query: an Arrow table with exactly DuckDB's column names and types.

The table of a large answer is mapped from a file without a name (:mod:`qoop.engine.storage.segments`), which goes with
the Result, or with the process: it takes no memory that the system could not have back. `batches`, `fetchmany`,
`copy_to` and what reads Arrow streams hold few of its rows at a time; `df`, `pl` and `fetchall` hold all.

Between stages every value travels in Arrow's lossless form (a HUGEINT as 16 bytes, not as a decimal).  Users get the
values of ``duckdb.sql(text)``, so only this module converts one form into the other: columns whose Arrow type is right
already are returned as they are; DuckDB casts the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_input, arrow_output
from qoop.catalog.duckdb_introspection import has_name
from qoop.catalog.errors import BindError, ConfigError, ExecutionError, PlanError
from qoop.catalog.interrupts import interruptible, interruptibly
from qoop.catalog.lexer import quoted
from qoop.engine.failures import is_fatal
from qoop.query.drawing.value_text import json_objects, texts

if TYPE_CHECKING:
    import pandas
    import polars

    from qoop.query.statements.settings import Settings

_T = TypeVar("_T")

_FEW = 1_000
"""Rows that are converted at once, without a thread that Ctrl-C can interrupt: that would take longer than they do.
They are printed without opening a DuckDB for it, where that can be (:mod:`qoop.query.drawing.value_text`)."""

_SHOWN_AT_MOST = 10_000  # rows DuckDB looks at to fit a table to the terminal
_BATCH = 10_000
_LARGE = 64 << 20  # bytes of rows that are not converted all at once without need


Description = tuple[str, str, None, None, None, None, None]
"""A column as PEP 249 describes it: name, DuckDB's type, and five that are not known."""

_ALIKE = {
    "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64(), "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(), "UINTEGER": pa.uint32(), "UBIGINT": pa.uint64(), "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(), "VARCHAR": pa.string(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"),
    '"NULL"': pa.null(),
}  # fmt: skip
"""Types of DuckDB with those of Arrow that it exports them as, and that become the same values of Python."""

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_HUGEINT = pa.decimal128(38, 0)  # as DuckDB exports it, of which Arrow's lossless form has the same bits

_INTERNAL = frozenset((
    "expressed", "json_rows", "lossless", "says_done", "settings", "text_casts", "text_rows", "typed", "unique_columns",
))  # fmt: skip
"""Methods of results that the rest of qoop uses."""

_AT_ONCE = 10_000
"""Rows that are made values of Python at a time."""


class Result:
    """A table that owns its memory, or its file; it stays valid after the session is closed.

    table: the rows, columns in order, in Arrow's lossless or plain form; its column names do not matter.
    columns: (name, DuckDB type) of each column; a name may occur twice.
    settings: the SET options the query ran under (TimeZone decides how instants are shown).

    >>> result = Result(pa.table({"x": [3, 4]}), (("n", "BIGINT"),))
    >>> result.columns, result.types, len(result), result.fetchall()
    (['n'], ['BIGINT'], 2, [(3,), (4,)])
    """

    def __init__(self, table: pa.Table, columns: tuple[tuple[str, str], ...], settings: Settings = ()) -> None:
        if table.num_columns != len(columns):
            raise PlanError(f"the root stage has {table.num_columns} columns, the query has {len(columns)}")
        self._raw = table.rename_columns([f"c{index}" for index in range(len(columns))])
        self._columns = columns
        self._settings = settings

    @property
    def settings(self) -> Settings:
        """The SET options that the query ran under."""
        return self._settings

    @property
    def nbytes(self) -> int:
        """The bytes of the rows, as Arrow."""
        return int(self._raw.nbytes)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self._columns]

    @property
    def says_done(self) -> bool:
        """True for the answer to a statement that has no rows, such as CREATE VIEW."""
        return self._columns == (("Success", "BOOLEAN"),) and not len(self)

    @property
    def types(self) -> list[str]:
        """The DuckDB types of the columns."""
        return [type_ for _, type_ in self._columns]

    @property
    def description(self) -> list[Description]:
        """The columns, in order."""
        return [(name, type_, None, None, None, None, None) for name, type_ in self._columns]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return len(self), len(self._columns)

    def __getitem__(self, columns: str | list[str] | tuple[str, ...]) -> Result:
        """A Result of one column, or of several; nothing is copied. Raises BindError for a name that no column has."""
        names = columns if isinstance(columns, list | tuple) else [columns]
        found = [self._place(name) for name in names]
        return Result(self._raw.select(found), tuple(self._columns[place] for place in found), self._settings)

    def _place(self, name: str) -> int:
        """The first column of that name, or of that name in another case."""
        if not isinstance(name, str):
            raise BindError(f"a column has a name, not {name!r}; there are: {', '.join(self.columns)}")
        lower = [column.lower() for column in self.columns]
        if name in self.columns:
            return self.columns.index(name)
        if name.lower() in lower:
            return lower.index(name.lower())
        raise BindError(f"there is no column {name}; there are: {', '.join(self.columns)}")

    def __dir__(self) -> list[str]:
        """The names that programs use, without those of qoop's own code."""
        return [name for name in super().__dir__() if not name.startswith("_") and name not in _INTERNAL]

    def __len__(self) -> int:
        return int(self._raw.num_rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Each row as a tuple of Python values, from the first on, regardless of earlier fetches."""
        for first in range(0, len(self), _AT_ONCE):
            yield from self.slice(first, _AT_ONCE).fetchall()

    @property
    def unique_columns(self) -> list[str]:
        """The names of the columns, those that occur twice numbered."""
        return _numbered(self.columns)

    def lossless(self) -> pa.Table:
        """The rows in the Arrow form that preserves every type of DuckDB; columns by their unique names."""
        return self._raw.rename_columns(self.unique_columns)

    @interruptible()
    def copy_to(
        self, path: str | os.PathLike[str], options: str = "", folder: Path | None = None, threads: int = 1
    ) -> None:
        """Write the rows to a file as DuckDB's COPY does. options: such as "(FORMAT csv, HEADER false)".

        They are written next to it and renamed into its place once complete, so an error has no effect. The same holds
        for a folder (PER_THREAD_OUTPUT, FILE_SIZE_BYTES, PARTITION_BY), unless a folder of that name exists.

        folder: nothing is written, or read, outside of it; None: the options may say so. threads: that write.

        Raises QueryError for options that DuckDB does not take, DiskFull if the file cannot be written.
        """
        from qoop.query.writing import Destination, write  # few results are written

        write(*self.typed(), Destination(os.fspath(path), options, folder, threads), self._settings)

    def typed(self) -> tuple[pa.Table, list[str]]:
        """The rows, and an expression of SQL for each column over them, with its type and its unique name."""
        return self._raw, [f"{self._cast(index)} AS {quoted(name)}" for index, name in enumerate(self.unique_columns)]

    def write_parquet(self, path: str | os.PathLike[str], **options: object) -> None:
        """Write the rows to a Parquet file, as `copy_to` does. options: of DuckDB's COPY, such as compression="zstd" or
        partition_by=["day"]. Raises as `copy_to`."""
        from qoop.query.writing import copy_options

        self.copy_to(path, copy_options("parquet", options))

    def write_csv(self, path: str | os.PathLike[str], **options: object) -> None:
        """The same as a CSV file. options: such as sep=";" or header=False."""
        from qoop.query.writing import copy_options

        self.copy_to(path, copy_options("csv", options))

    def slice(self, first: int, rows: int) -> Result:
        """A result of `rows` rows that starts at row `first`, counted from 0; no data is copied."""
        return Result(self._raw.slice(first, rows), self._columns, self._settings)

    @interruptible()
    def batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, as DuckDB exports them: what must be converted is, one at a time."""
        if not _unlike(self._raw.schema, self._exported(self._raw.schema)):
            return self._arrow.to_reader()
        return pa.RecordBatchReader.from_batches(self._exported(self._raw.schema), self._converted())

    def _converted(self) -> Iterator[pa.RecordBatch]:
        for batch in self._raw.to_batches():
            yield from self._export(pa.Table.from_batches([batch])).to_batches()

    @interruptible()
    def arrow(self) -> pa.Table:
        """The rows as a pyarrow.Table, as DuckDB exports them; made once, without a copy where possible."""
        return self._arrow

    @interruptible()
    def df(self) -> pandas.DataFrame:
        """The rows as a pandas data frame (names that occur twice are numbered, as DuckDB does)."""
        return self._convert(lambda rows: rows.df())

    @interruptible()
    def pl(self) -> polars.DataFrame:
        """The rows as a Polars data frame (names that occur twice are numbered, as DuckDB does). Needs polars."""
        return self._convert(lambda rows: rows.pl())

    @interruptible()
    def fetchnumpy(self) -> dict[str, Any]:
        """The columns as arrays of NumPy by their names; those that hold NULL are masked."""
        return self._convert(lambda rows: rows.fetchnumpy())

    fetchdf, to_arrow_table = df, arrow  # as DuckDB has them

    def fetch_record_batch(self, rows_per_batch: int = 1_000_000) -> pa.RecordBatchReader:
        """As `batches`, with no more rows in a batch than that."""
        found = self.batches()
        return pa.RecordBatchReader.from_batches(found.schema, _cut(found, rows_per_batch))

    @interruptible()
    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values."""
        rows = self._few_rows() if len(self) <= _FEW else None
        return self._convert(lambda rows: rows.fetchall()) if rows is None else rows

    def _few_rows(self) -> list[tuple[Any, ...]] | None:
        """The rows where Arrow makes the same values of Python as DuckDB, which takes 1 ms for a query; else None."""
        columns: list[list[Any]] = []
        for column, type_ in zip(self._raw.columns, self.types, strict=True):
            values = _python_values(column, type_)
            if values is None:
                return None
            columns.append(values)
        return list(zip(*columns, strict=True))

    @interruptible()
    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """The next `size` rows after those that `fetchone` and this method have returned; fewer at the end, then
        none."""
        with _explained():
            return self._one_by_one.fetchmany(size)

    @interruptible()
    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, beginning with the first; None after the last."""
        with _explained():
            row: tuple[Any, ...] | None = self._one_by_one.fetchone()
        return row

    def text_rows(self) -> Iterator[tuple[str | None, ...]]:
        """The rows with every value as the text DuckDB casts it to; NULL is None."""
        if len(self) <= _FEW:
            columns = list(map(texts, self._raw.columns, self.types))
            if None not in columns:
                return zip(*(column for column in columns if column is not None), strict=True)
        return self._fetch(f"{cast} AS c{index}" for index, cast in enumerate(self.text_casts()))

    def text_casts(self) -> list[str]:
        """The SQL of each column's values as text, for `expressed`."""
        return [f"CAST({self._cast(index)} AS VARCHAR)" for index in range(len(self._columns))]

    def expressed(self, expression: str) -> Iterator[pa.Array]:
        """The values of an expression of SQL over the rows, in batches, as DuckDB computes them."""
        cursor = _database(self._settings).cursor()
        with _explained():
            arrow_input.register(cursor, "answer", arrow_input.castable(self._raw))
            rows = interruptibly(
                cursor, lambda: arrow_output.stream(cursor, f"SELECT {expression} FROM answer", _BATCH)
            )
            yield from (batch.column(0) for batch in rows)

    def json_rows(self) -> Iterator[str]:
        """The rows as JSON objects (names that occur twice are numbered). JSON has no infinite numbers and no
        NaN: they are the texts "Infinity", "-Infinity" and "NaN", as PostgreSQL writes them."""
        from qoop.query.writing import as_json

        names = _numbered(self.columns)
        if len(self) <= _FEW and (rows := json_objects(names, self._raw.columns, self.types)) is not None:
            return rows
        items = ", ".join(f"{quoted(name)} := {self._cast(index)}" for index, name in enumerate(names))
        return (as_json(str(row[0])) for row in self._fetch([f"to_json(struct_pack({items}))"]))

    @interruptible()
    def show(self, max_rows: int | None = None, max_width: int | None = None) -> None:
        """Print the rows as a table fitted to the terminal, or to `max_rows` and `max_width` characters."""
        self._first().show(max_rows=max_rows, max_width=max_width)
        if len(self) > _SHOWN_AT_MOST:
            print(self._total())

    def __repr__(self) -> str:
        text = str(self._first()).rstrip("\n")
        return f"{text}\n{self._total()}" if len(self) > _SHOWN_AT_MOST else text

    def _repr_html_(self) -> str:
        from qoop.query.drawing.html import result_html

        return result_html(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule interface: any Arrow library can read a Result."""
        rows = self.arrow() if self._raw.nbytes <= _LARGE else self.batches()
        return rows.__arrow_c_stream__(requested_schema)

    @cached_property
    def _arrow(self) -> pa.Table:
        return self._export(self._raw)

    def _export(self, table: pa.Table) -> pa.Table:
        """Some of the rows as DuckDB exports them."""
        arrays, exported = list(table.columns), self._exported(table.schema)
        wrong = _unlike(table.schema, exported)
        for index in wrong:
            if pa.types.is_null(exported[index].type):  # a stage puts it out as some other type
                arrays[index] = pa.chunked_array([pa.nulls(len(table))])
            if _is_hugeint(arrays[index], self.types[index]):
                arrays[index] = pa.chunked_array([one.storage.view(_HUGEINT) for one in arrays[index].chunks], _HUGEINT)
        wrong = [index for index in wrong if not arrays[index].type.equals(exported[index].type)]
        if wrong:
            casts = [self._cast(index) for index in wrong]
            converted = self._convert(lambda rows: rows.to_arrow_table(), casts, table)
            for index, array in zip(wrong, converted.columns, strict=True):
                arrays[index] = array
        return pa.Table.from_arrays(arrays, schema=exported)

    def _exported(self, schema: pa.Schema) -> pa.Schema:
        exported = exported_schema(self._columns, self._settings)
        for index, (_, type_) in enumerate(self._columns):
            if not has_name(type_):  # DuckDB derives it from the rows alone
                alone = self._convert(lambda rows: rows.to_arrow_table(), [f"c{index}"], self._raw.slice(0, 0))
                exported = exported.set(index, exported.field(index).with_type(alone.schema.field(0).type))
        return exported

    @cached_property
    def _one_by_one(self) -> duckdb.DuckDBPyConnection:
        return self._query(self._named_casts())

    def _convert(
        self,
        conversion: Callable[[duckdb.DuckDBPyRelation], _T],
        exprs: Iterable[str] | None = None,
        table: pa.Table | None = None,
    ) -> _T:
        """The rows as DuckDB's own relation, for the rows, or with expressions over them."""
        cursor = _database(self._settings).cursor()
        with _explained():
            rows = self._raw if table is None else table
            relation = self._project(cursor, self._named_casts() if exprs is None else exprs, rows)
            if len(rows) <= _FEW:
                return conversion(relation)
            return interruptibly(cursor, lambda: conversion(relation))

    def _first(self) -> duckdb.DuckDBPyRelation:
        """The rows that are shown, as DuckDB's own relation."""
        rows = self._raw.slice(0, _SHOWN_AT_MOST)
        return self._project(_database(self._settings).cursor(), self._named_casts(), rows)

    def _project(
        self, cursor: duckdb.DuckDBPyConnection, exprs: Iterable[str], rows: pa.Table
    ) -> duckdb.DuckDBPyRelation:
        return arrow_input.relation(cursor, arrow_input.castable(rows)).project(", ".join(exprs))

    def _query(self, exprs: Iterable[str]) -> duckdb.DuckDBPyConnection:
        """A connection that holds the result of the expressions over the rows."""
        cursor = _database(self._settings).cursor()
        with _explained():
            arrow_input.register(cursor, "answer", arrow_input.castable(self._raw))
            return interruptibly(cursor, lambda: cursor.execute(f"SELECT {', '.join(exprs)} FROM answer"))

    def _fetch(self, exprs: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        cursor = self._query(exprs)
        with _explained():
            while batch := cursor.fetchmany(_BATCH):
                yield from batch

    def _named_casts(self) -> list[str]:
        return [f"{self._cast(index)} AS {quoted(name)}" for index, (name, _) in enumerate(self._columns)]

    def _cast(self, index: int) -> str:
        type_ = self._columns[index][1]
        return f"CAST(c{index} AS {_type_sql(type_)})" if has_name(type_) else f"c{index}"

    def _total(self) -> str:
        return f"({len(self):,} rows in all)"


def _cut(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of no more rows than that."""
    if rows < 1:
        raise ConfigError(f"rows_per_batch must be at least 1, not {rows!r}")
    for batch in batches:
        yield from (batch.slice(first, rows) for first in range(0, len(batch), rows))


def _unlike(schema: pa.Schema, exported: pa.Schema) -> list[int]:
    """The columns that DuckDB exports as another type."""
    return [index for index, field in enumerate(schema) if not field.type.equals(exported[index].type)]


@contextmanager
def _explained() -> Iterator[None]:
    """A value that DuckDB does not convert, such as a MAP with a NULL among its keys, is an error of ours; so is one
    that Python cannot hold, such as an INTERVAL of two billion days."""
    try:
        yield
    except duckdb.InterruptException:
        raise
    except (duckdb.Error, OverflowError) as error:
        if is_fatal(error):  # it takes nothing any more, of other results neither
            _database.cache_clear()
        raise ExecutionError(f"the answer cannot be converted: {error}") from error


@lru_cache(maxsize=16)
def _database(settings: Settings) -> duckdb.DuckDBPyConnection:
    """An empty DuckDB under these settings; a single thread, so that no worker outlives a session."""
    from qoop.query.statements.settings import opened

    return opened(settings, threads=1)


os.register_at_fork(after_in_child=_database.cache_clear)


@lru_cache(maxsize=1024)
def exported_schema(columns: tuple[tuple[str, str], ...], settings: Settings) -> pa.Schema:
    """The Arrow schema DuckDB exports for such columns."""
    known = [(name, _exported_as(type_)) for name, type_ in columns]
    if all(type_ is not None for _, type_ in known):
        return pa.schema(known)
    named = ((name, _type_sql(type_) if has_name(type_) else "INTEGER") for name, type_ in columns)
    nulls = ", ".join(f"CAST(NULL AS {type_}) AS {quoted(name)}" for name, type_ in named)
    found = _database(settings).cursor().sql(f"SELECT {nulls} LIMIT 0").to_arrow_table().schema
    return pa.schema([field.with_type(type_ or field.type) for field, (_, type_) in zip(found, known, strict=True)])


def _exported_as(type_: str) -> pa.DataType | None:
    """The Arrow type that DuckDB exports a type as; None: DuckDB must be queried."""
    if type_ == "HUGEINT":
        return _HUGEINT
    found = _DECIMAL.fullmatch(type_)
    return _ALIKE.get(type_) if found is None else pa.decimal128(int(found[1]), int(found[2]))


def _is_hugeint(column: pa.ChunkedArray, type_: str) -> bool:
    """True for integers of 16 bytes in Arrow's lossless form."""
    return type_ == "HUGEINT" and isinstance(column.type, pa.OpaqueType) and column.type.storage_type == pa.binary(16)


def _python_values(column: pa.ChunkedArray, type_: str) -> list[Any] | None:
    """The values as DuckDB gives them to Python; None: DuckDB must convert them."""
    if _is_hugeint(column, type_):
        return [None if one is None else int.from_bytes(one, "little", signed=True) for one in column.to_pylist()]
    if type_ == "HUGEINT" or not column.type.equals(_exported_as(type_) or pa.null()):
        return None
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):  # infinite, or a moment that Python has no value for
        return None
    return values


def _type_sql(type_: str) -> str:
    return '"NULL"' if type_ in ("NULL", '"NULL"') else type_  # a keyword; the type exists from DuckDB 2.0 on


def _numbered(names: Iterable[str]) -> list[str]:
    """The names, each different from those before it whatever its case.

    >>> _numbered(["a", "A", "a_1", "b"])
    ['a', 'A_1', 'a_1_1', 'b']
    """
    taken: set[str] = set()
    numbered = []
    for name in names:
        candidates = (f"{name}_{number}" if number else name for number in range(len(taken) + 1))
        numbered.append(next(free for free in candidates if free.lower() not in taken))
        taken.add(numbered[-1].lower())
    return numbered
