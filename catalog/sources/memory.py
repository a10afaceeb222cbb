"""Arrow tables in memory as a source."""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import Any, NoReturn

import pyarrow as pa

from qoop.catalog.access import Places
from qoop.catalog.errors import SourceError
from qoop.catalog.sources.files import sql_string
from qoop.catalog.sources.pieces import PIECE, Runs
from qoop.catalog.table import Columns, Compaction, Footer, Range, Split, joined
from qoop.catalog.value import value

MOST_CATEGORIES = 10_000
"""Categories of a pandas column that is an ENUM: its type is written in each statement that reads it."""

_WITH_TEXTS = frozenset({"builtins", "datetime", "decimal", "uuid", "numpy", "pandas"})
"""The packages whose values have a text that says what they are; that of other objects is where they lie in memory."""

# Rows worth a separate task: some milliseconds of work, DuckDB's row group size.
_ROWS_PER_PIECE = 122_880


@value
class ArrowSource:
    """A table in the memory of this process, known by an id that was never given before.

    Arrow data does not change, so there is nothing to check; a program that writes to the NumPy memory behind Arrow
    data breaks Arrow's own rule. A pickle has the id without the data: it means nothing in another process, and
    reading it there fails.
    """

    id: str
    data: pa.Table | None = field(compare=False, repr=False)

    shared = False
    cuttable = True
    in_row_groups = False

    @classmethod
    def of(cls, data: pa.Table) -> ArrowSource:
        """Wrap a table under a fresh id."""
        return cls(uuid.uuid4().hex, data)

    def __reduce__(self) -> tuple[type[ArrowSource], tuple[str, None]]:
        return ArrowSource, (self.id, None)

    @property
    def rows(self) -> int:
        return int(self._here().num_rows)

    def digest(self) -> str:
        """The id of the registration."""
        return self.id

    @cached_property
    def _pieces(self) -> tuple[Range, ...]:
        rows = self._here().num_rows
        count = -(-rows // _ROWS_PER_PIECE)
        borders = [index * rows // count for index in range(count + 1)] if count else []
        return tuple(Range("", a, b - a) for a, b in pairwise(borders))

    def pieces(self) -> tuple[Range, ...]:
        """Equal runs of rows."""
        return self._pieces

    def check(self, split: Split | None) -> None:
        """Raise SourceError in a process that does not have the data."""
        self._here()

    def scan(self, columns: Columns, split: Split | None) -> str | pa.Table:
        """A slice that shares the memory of the table."""
        data = self._here()
        if split is not None:
            slices = [data.slice(item.first, item.rows) for item in joined(split.ranges)]
            data = pa.concat_tables(slices) if slices else data.slice(0, 0)
        return data.select([name for name, _ in columns])

    def scan_runs(self, columns: Columns, runs: Sequence[Runs]) -> str | pa.Table:
        """Slices that share the memory of the table."""
        [run] = runs
        slices = [self._here().slice(piece * run.size, run.size) for piece in run.chosen]
        data = pa.concat_tables(slices)
        if any(name == PIECE for name, _ in columns):
            numbers = [pa.repeat(pa.scalar(run.first + piece, pa.int32()), len(rows))
                       for piece, rows in zip(run.chosen, slices, strict=True)]  # fmt: skip
            data = data.append_column(PIECE, pa.chunked_array(numbers))
        return data.select([name for name, _ in columns])

    def sample(self, columns: Columns, one_in: int) -> str | pa.Table:
        """Rows at random places, from a fixed seed."""
        import numpy

        data = self._here()
        places = numpy.random.default_rng(0).choice(data.num_rows, data.num_rows // one_in, replace=False)
        return data.select([name for name, _ in columns]).take(numpy.sort(places))

    def extremes(self, names: Sequence[str]) -> Mapping[str, tuple[object, object]]:
        """None are known without a scan."""
        return {}

    def footers(self) -> Sequence[Footer]:
        """It has none."""
        return ()

    def places(self) -> Places:
        """The places that must be opened to read it."""
        return Places()

    def attach(self) -> None:
        """Nothing to attach."""
        return

    def _here(self) -> pa.Table:
        return self.data if self.data is not None else _elsewhere(self.id)


@value
class CreatedArrow(ArrowSource):
    """A table that statements have created: its pieces, one after the other.

    parts: the id of each piece, and its rows. compactions: by ids.
    """

    parts: tuple[tuple[str, int], ...] = ()
    compactions: tuple[Compaction, ...] = field(default=(), compare=False, repr=False)

    compactable = True

    @classmethod
    def of_pieces(cls, pieces: Mapping[str, pa.Table], compactions: tuple[Compaction, ...] = ()) -> CreatedArrow:
        """These pieces by id; at least one."""
        id_ = blake2b("".join(pieces).encode(), digest_size=16).hexdigest()
        parts = tuple((one, rows.num_rows) for one, rows in pieces.items())
        return cls(id_, pa.concat_tables(pieces.values()), parts, compactions)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._here().schema

    def identities(self) -> Mapping[str, str]:
        """The ids of the pieces."""
        return {one: one for one, _ in self.parts}

    def only(self, paths: Collection[str]) -> CreatedArrow:
        """The pieces of these ids."""
        pieces = {one: rows for one, rows in self.by_id().items() if one in paths}
        return self.of_pieces(pieces or {"": self._here().slice(0, 0)})

    def by_id(self) -> Mapping[str, pa.Table]:
        """The rows of each piece, which share the memory of the table."""
        ends = accumulate(rows for _, rows in self.parts)
        return {one: self._here().slice(end - rows, rows) for (one, rows), end in zip(self.parts, ends, strict=True)}

    def file_rows(self) -> Mapping[str, int]:
        """The rows of each piece."""
        return dict(self.parts)


def of_pandas(frame: Any) -> pa.Table:
    """A frame as Arrow rows that nothing can write to. Raises pa.ArrowException, ValueError."""
    names = {str(name).lower() for name in frame.columns}
    if len(names) < len(frame.columns) or "" in names:  # DuckDB gives names in their place
        return by_duckdb(frame)
    try:
        data = _without_halves(_own_copy(pa.Table.from_pandas(frame, preserve_index=False)))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:  # objects of several types, or of 65 bits
        return _as_duckdb_reads(frame, error)
    return _with_types_of_objects(frame, data)


def category(data: pa.Table, column: str) -> str | None:
    """The ENUM that DuckDB makes of a pandas column of texts with categories, whose order is theirs."""
    type_ = data.schema.field(column).type
    chunks = data.column(column).chunks
    if not (pa.types.is_dictionary(type_) and chunks and _is_text(type_.value_type)):
        return None
    names = chunks[0].dictionary.to_pylist()
    return f"ENUM({', '.join(map(sql_string, names))})" if 0 < len(names) <= MOST_CATEGORIES else None


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _own_copy(data: pa.Table) -> pa.Table:
    """The table without memory that a pandas frame can still write to: its numbers, times and categories are arrays of
    NumPy's."""
    for index, column in enumerate(data.schema):
        if pa.types.is_primitive(column.type) or pa.types.is_dictionary(column.type):
            chunks = [_copied(chunk) for chunk in data.column(index).chunks]
            data = data.set_column(index, column, pa.chunked_array(chunks, column.type))
    return data


def _copied(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(_copied(array.indices), array.dictionary, ordered=array.type.ordered)
    buffers = [None if buffer is None else pa.py_buffer(buffer.to_pybytes()) for buffer in array.buffers()]
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset)


def _without_halves(data: pa.Table) -> pa.Table:
    """Numbers of 16 bits as of 32: DuckDB reads them from pandas so, and from Arrow not at all."""
    for index, column in enumerate(data.schema):
        if pa.types.is_float16(column.type):
            data = data.set_column(index, column.name, data.column(index).cast(pa.float32()))
    return data


def _with_types_of_objects(frame: Any, data: pa.Table) -> pa.Table:
    """The data with the types that DuckDB finds for numbers, dates, times and nested values among objects of Python.
    Where its sample does not show the type of all, those of Arrow stay."""
    types = data.schema.types
    places = [place for place, type_ in enumerate(frame.dtypes) if type_ == "object" and _is_guessed(types[place])]
    if places:
        with contextlib.suppress(ValueError):
            read = by_duckdb(frame.iloc[:, places])
            for place, column in zip(places, read.columns, strict=True):
                data = data.set_column(place, data.column_names[place], column)
    return data


def _is_guessed(type_: pa.DataType) -> bool:
    """True for a type by which Arrow may lose a part of a value: the time of one moment among dates, a time's zone."""
    kinds = (pa.types.is_integer, pa.types.is_nested, pa.types.is_date, pa.types.is_time)
    return any(is_one(type_) for is_one in kinds)


def is_arrays(value: object) -> bool:
    """True for what DuckDB reads as a table of NumPy's arrays: one of one dimension, each of which is a column, or of
    two; or several of one, in a sequence or by their names."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    if isinstance(value, numpy.ndarray):
        return value.ndim in (1, 2)
    if not isinstance(value, dict | list | tuple):
        return False
    columns = value.values() if isinstance(value, dict) else value
    return bool(value) and all(isinstance(one, numpy.ndarray) and one.ndim == 1 for one in columns)


def by_duckdb(source: object) -> pa.Table:
    """A frame or arrays as DuckDB makes a table of them. Raises ValueError if it makes none."""
    import duckdb

    from qoop.catalog.opening import open_duckdb

    with open_duckdb() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        try:
            return connection.register("frame", source).sql("FROM frame").to_arrow_table()
        except duckdb.Error as error:
            raise ValueError(str(error).strip().partition("\n")[0]) from error


def _has_text(one: object) -> bool:
    return type(one).__module__.partition(".")[0] in _WITH_TEXTS and type(one) is not object


def _as_duckdb_reads(frame: Any, error: Exception) -> pa.Table:
    """A frame as DuckDB makes a table of it: values of several types are texts. error: raised if it makes none, or of
    objects of the program."""
    objects = frame.select_dtypes("object")
    if not all(_has_text(one) for name in objects for one in objects[name]):
        raise error
    try:
        return by_duckdb(frame)
    except ValueError:
        raise error from None


def _elsewhere(id_: str) -> NoReturn:
    raise SourceError(f"table {id_} lives in the memory of another process; write it to a file to share it")
