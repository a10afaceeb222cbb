"""Arrow rows as DuckDB's input, without loading pandas.

DuckDB checks whether an object is a pandas frame, and loads pandas for the check: 0.3 s with Python's lock, once in
every process. For Arrow rows, this module hides pandas from DuckDB during the call, in this thread only. DuckDB repeats
the check for each object, so frames of other callers remain frames.

DuckDB 1.5.5 passes filters on the rows to pyarrow. There a NaN is greater than nothing, a NULL is at most a NaN, ``A``
is not the field ``a``, and an extension type (``arrow.bool8``) cannot be compared. :func:`scan` does not pass filters
on such columns.

Of a slice of rows, DuckDB 1.5.5 reads what lies two structs deep, unions, and the ENUMs in lists as if the slice's
first row were the first of all. Such columns are copied before. It crashes on ENUMs in arrays and in lists of lists,
which it is given as texts.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from types import MappingProxyType, ModuleType
from typing import Any

import duckdb
import pyarrow as pa

_VECTOR = 2048  # rows that DuckDB reads at a time
_CHANGED = "ENUM(", "TUPLE("
NO_TYPES: Mapping[str, str] = MappingProxyType({})


class _NotNow(MetaPathFinder):
    """Finds no pandas for a thread that has said so."""

    def __init__(self) -> None:
        self.thread = threading.local()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == "pandas" and getattr(self.thread, "without", False):
            raise ModuleNotFoundError("pandas is not needed for rows of Arrow", name=name)


_not_now = _NotNow()
sys.meta_path.insert(0, _not_now)


@contextmanager
def _without_pandas() -> Iterator[None]:
    _not_now.thread.without = True
    try:
        yield
    finally:
        _not_now.thread.without = False


def register(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Make Arrow rows known to a connection under a name, until they are unregistered."""
    with _without_pandas():
        connection.register(name, _readable(rows))


class Input:
    """Rows that a connection knows under one name, and that are others each time: a statement over them is planned
    once. Not thread-safe. schema: of all rows."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema) -> None:
        self.name = name
        self._none = schema.empty_table()
        self._known = _dataset_class()(self._none)
        self._known.rows = self._none
        with _without_pandas():
            connection.register(name, self._known)

    @contextmanager
    def having(self, rows: pa.Table) -> Iterator[None]:
        """Within the block the rows are these."""
        self._known.rows = _readable(rows)
        try:
            yield
        finally:
            self._known.rows = self._none


@cache
def _dataset_class() -> type[Any]:
    """The class of data sets of some rows, which DuckDB reads as they are.

    It reads a table through a scanner of pyarrow, which begins threads and takes 0.5 ms."""
    from pyarrow import dataset  # few processes need it

    class Rows(dataset.InMemoryDataset):  # type: ignore[misc]  # pyarrow has no types
        """rows: a table."""

        def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: object) -> _Reading:
            """DuckDB asks for some columns, or all, of the rows that pass its filter."""
            rows = self.rows if filter is None else self.rows.filter(filter)
            return _Reading(rows if columns is None else rows.select(columns))

    return Rows


class _Reading:
    """The part of a scanner of pyarrow that DuckDB uses."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows."""
        return self._rows.to_reader()


def scan(name: str, schema: pa.Schema, types: Mapping[str, str] = NO_TYPES) -> str | None:
    """A query over rows that were registered under a name, None where the name itself will do.

    types: of the columns that Arrow has in another type, see :func:`changed_types`."""
    kept = {field.name: _kept(field) for field in schema}
    kept |= {column: f'"{_quoted(column)}"::{type_}' for column, type_ in types.items() if column in kept}
    made = [f'{text} AS "{_quoted(column)}"' for column, text in kept.items() if text is not None]
    return f'SELECT * REPLACE ({", ".join(made)}) FROM "{_quoted(name)}"' if made else None


def changed_types(columns: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The types of the columns that Arrow has in another type: an ENUM comes back as VARCHAR, and a TUPLE, which DuckDB
    2.0 has, as a STRUCT.

    >>> changed_types([("e", "ENUM('a', 'b')[]"), ("v", "VARCHAR")])
    {'e': "ENUM('a', 'b')[]"}
    """
    return {column: type_ for column, type_ in columns if any(changed in type_ for changed in _CHANGED)}


def _kept(field: pa.Field) -> str | None:
    """The column as an expression of the same values through which DuckDB pushes no filter; None where it may."""
    column = f'"{_quoted(field.name)}"'
    if pa.types.is_floating(field.type):
        return f"-(-{column})"
    if pa.types.is_struct(field.type) or isinstance(field.type, pa.BaseExtensionType):
        return f"struct_extract(struct_pack(v := {column}), 'v')"
    return None


def _quoted(name: str) -> str:
    return name.replace('"', '""')


def relation(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> duckdb.DuckDBPyRelation:
    """Arrow rows as a relation of a connection."""
    with _without_pandas():
        return connection.from_arrow(_readable(rows))


def castable(rows: pa.Table) -> pa.Table:
    """The rows with lists of ENUMs as lists of texts where DuckDB 1.5.5 ends in an internal error: if the rows that it
    reads first have no items. They are to be cast to their types."""
    for index, field in enumerate(rows.schema):
        if _holds_enums(field.type) and any(map(_begins_without_items, rows.column(index).chunks)):
            rows = _as_texts(rows, index)
    return rows


def _holds_enums(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) and pa.types.is_dictionary(type_.value_type))


def _begins_without_items(chunk: pa.Array) -> bool:
    return len(chunk) > 0 and len(chunk.slice(0, _VECTOR).flatten()) == 0


def _readable(rows: pa.Table) -> pa.Table:
    """The rows with those columns copied that DuckDB would misread."""
    for index, field in enumerate(rows.schema):
        if _crashes(field.type):
            rows = _as_texts(rows, index)
            continue
        chunks = rows.column(index).chunks if _misread_if_sliced(field.type) else ()
        if any(chunk.offset for chunk in chunks):
            copies = [pa.concat_arrays([chunk]) for chunk in chunks]
            rows = rows.set_column(index, field, pa.chunked_array(copies, field.type))
    return rows


def _misread_if_sliced(type_: pa.DataType, field: bool = False, item: bool = False) -> bool:
    """True for unions, structs in structs and dictionaries in lists.

    field, item: the type is that of a struct's field, of a list's items, or lies deeper in one.
    """
    if pa.types.is_union(type_) or (field and pa.types.is_struct(type_)) or (item and pa.types.is_dictionary(type_)):
        return True
    if pa.types.is_struct(type_):
        field = True
    elif pa.types.is_list(type_) or pa.types.is_map(type_):
        field, item = False, True  # the structs in a list begin where its first row's items do
    return any(_misread_if_sliced(type_.field(i).type, field, item) for i in range(type_.num_fields))


def _crashes(type_: pa.DataType, lists: int = 0) -> bool:
    """True for dictionaries in arrays, and in lists within lists. lists: around the type; an array counts for two."""
    if pa.types.is_dictionary(type_):
        return lists > 1
    lists += 2 if pa.types.is_fixed_size_list(type_) else pa.types.is_list(type_) or pa.types.is_map(type_)
    return any(_crashes(type_.field(i).type, lists) for i in range(type_.num_fields))


def _as_texts(rows: pa.Table, index: int) -> pa.Table:
    """The rows with the ENUMs of a column as texts."""
    field = rows.schema.field(index)
    type_ = _with_texts(field.type)
    return rows.set_column(index, field.with_type(type_), rows.column(index).cast(type_))


def _with_texts(type_: pa.DataType) -> pa.DataType:
    """The type with the values of dictionaries in their place."""
    if pa.types.is_dictionary(type_):
        return type_.value_type
    fields = [type_.field(i).with_type(_with_texts(type_.field(i).type)) for i in range(type_.num_fields)]
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(fields[0], type_.list_size)
    if pa.types.is_list(type_):
        return pa.list_(fields[0])
    if pa.types.is_map(type_):
        return pa.map_(*fields[0].type)
    return pa.struct(fields) if pa.types.is_struct(type_) else type_
