"""The relations, types and functions of PostgreSQL 16's own catalog: their names, numbers and types, a line each.

relations.txt   number, name with schema, kind, and ``column:type`` for each column
types.txt       base types with all that pg_type has of them; their arrays follow from these
functions.txt   functions that only read the catalog, or read and write values of types
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from qoop.catalog.value import value

Column = tuple[str, str]


@value
class Relation:
    """A table ("r") or view ("v") of a schema. oid: 0 for those that came after PostgreSQL 15."""

    oid: int
    schema: str
    name: str
    kind: str
    columns: tuple[Column, ...]


@value
class BaseType:
    """A type that is no array. modes: alignment and storage, as pg_type has them."""

    oid: int
    name: str
    length: int
    by_value: bool
    kind: str
    category: str
    is_preferred: bool
    delimiter: str
    array: int
    functions: tuple[str, str, str, str]
    sql_name: str
    modes: tuple[str, str]
    collation: int
    element: int


@value
class Function:
    """A function. defaults: how many of its arguments may be left out. columns: of the rows that it returns, if any."""

    oid: int
    name: str
    returns: str
    returns_set: bool
    kind: str
    volatility: str
    defaults: int
    arguments: tuple[int, ...]
    columns: tuple[Column, ...]


@cache
def relations() -> tuple[Relation, ...]:
    """All relations.

    >>> [one.columns[:2] for one in relations() if one.name == "pg_am"]
    [(('oid', 'oid'), ('amname', 'name'))]
    """
    return tuple(map(_relation, _lines("relations")))


@cache
def base_types() -> tuple[BaseType, ...]:
    """All base types.

    >>> next((one.name, one.array, one.sql_name) for one in base_types() if one.oid == 20)
    ('int8', 1016, 'bigint')
    """
    return tuple(map(_base_type, _lines("types")))


@cache
def functions() -> tuple[Function, ...]:
    """All functions.

    >>> [one.columns for one in functions() if one.name == "pg_partition_ancestors"]
    [(('relid', 'regclass'),)]
    """
    return tuple(map(_function, _lines("functions")))


def _lines(name: str) -> list[str]:
    return files(__package__).joinpath(f"{name}.txt").read_text(encoding="ascii").splitlines()


def _relation(line: str) -> Relation:
    oid, name, kind, *columns = line.split()
    schema, _, name = name.partition(".")
    return Relation(int(oid), schema, name, kind, tuple(map(_column, columns)))


def _base_type(line: str) -> BaseType:
    (oid, name, length, by_value, kind, category, preferred, delimiter, array, reads, writes, receives, sends, sql_name,
     alignment, storage, collation, element) = line.split("|")  # fmt: skip
    return BaseType(
        int(oid), name, int(length), by_value == "t", kind, category, preferred == "t", delimiter, int(array),
        (reads, writes, receives, sends), sql_name, (alignment, storage), int(collation), int(element),
    )  # fmt: skip


def _function(line: str) -> Function:
    oid, name, returns, returns_set, kind, volatility, defaults, arguments, columns = line.split("|")
    return Function(
        int(oid), name, returns, returns_set == "t", kind, volatility, int(defaults),
        tuple(map(int, arguments.split())), tuple(map(_column, columns.split())),
    )  # fmt: skip


def _column(text: str) -> Column:
    name, _, type_ = text.partition(":")
    return name, type_
