"""Flight SQL's questions about the server: its catalogs, schemas, tables, types and abilities, as Arrow tables, and the
options of a session.

All tables are in one schema, ``main``, of one catalog without a name, as SQL names them ``t`` or ``main.t``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qoop.interfaces.server.flight_messages import Message, message, read_message
from qoop.query.result import exported_schema

if TYPE_CHECKING:
    from qoop.session.session import Session

_CATALOG, _SCHEMA = "", "main"
_TEXT, _INT = pa.string(), pa.int32()

_TYPES: tuple[tuple[str, int, int | None, str | None, bool | None], ...] = (
    ("BOOLEAN", -7, 1, None, None), ("TINYINT", -6, 3, None, False), ("BIGINT", -5, 19, None, False),
    ("UBIGINT", -5, 20, None, True), ("BLOB", -3, None, "'", None), ("DECIMAL", 3, 38, None, False),
    ("HUGEINT", 3, 39, None, False), ("INTEGER", 4, 10, None, False), ("UINTEGER", 4, 10, None, True),
    ("SMALLINT", 5, 5, None, False), ("USMALLINT", 5, 5, None, True), ("UTINYINT", 5, 3, None, True),
    ("FLOAT", 7, 24, None, False), ("DOUBLE", 8, 53, None, False), ("VARCHAR", 12, None, "'", None),
    ("DATE", 91, 10, "'", None), ("TIME", 92, 15, "'", None), ("TIMESTAMP", 93, 26, "'", None),
    ("TIMESTAMP WITH TIME ZONE", 2014, 32, "'", None),
)  # fmt: skip
"""DuckDB's types, each with its number in ODBC, its size, what literals stand in, and whether it has no sign."""


def answer(session: Session, command: str, filters: Message) -> pa.Table | None:
    """The answer to a command about the server; None if that is no such command."""
    if command in _KEYS:
        return _table([], *_KEYS[command])
    found = _ANSWERS.get(command)
    return None if found is None else found(session, filters)


_OPTIONS = {"catalog": _CATALOG, "schema": _SCHEMA}
"""Options of a client's session, as Flight names them, and their only values."""
_UNKNOWN, _WRONG = 1, 2
"""Reasons not to set an option, as Flight numbers them: no such name, no such value."""


def options() -> bytes:
    """The answer to GetSessionOptions."""
    return message(*((1, message((1, name), (2, message((1, value))))) for name, value in _OPTIONS.items()))


def without_effect(request: bytes) -> bytes:
    """The answer to SetSessionOptions: the session is that of all users, so no option takes another value."""
    wrong = []
    for entry in read_message(request).fields.get(1, ()):
        option = read_message(entry if isinstance(entry, bytes) else b"")
        name, value = option.text(1), read_message(option.raw(2)).optional(1)
        if name not in _OPTIONS or value != _OPTIONS[name]:
            why = _WRONG if name in _OPTIONS else _UNKNOWN
            wrong.append((1, message((1, name), (2, message((1, why))))))
    return message(*wrong)


def _catalogs(_: Session, __: Message) -> pa.Table:
    return _table([(_CATALOG,)], ("catalog_name", _TEXT, False))


def _schemas(_: Session, filters: Message) -> pa.Table:
    rows = [(_CATALOG, _SCHEMA)] if _matches_schema(filters) else []
    return _table(rows, ("catalog_name", _TEXT, True), ("db_schema_name", _TEXT, False))


def _tables(session: Session, filters: Message) -> pa.Table:
    kinds, pattern = filters.texts(4), filters.optional(3)
    with_schema = any(filters.numbers(5))
    rows = [
        (_CATALOG, _SCHEMA, name, kind, *([_schema(session, name)] if with_schema else []))
        for name, kind in (_names(session) if _matches_schema(filters) else ())
        if (not kinds or kind in kinds) and _fits(name, pattern)
    ]
    columns = [
        ("catalog_name", _TEXT, True), ("db_schema_name", _TEXT, True), ("table_name", _TEXT, False),
        ("table_type", _TEXT, False), *([("table_schema", pa.binary(), False)] if with_schema else []),
    ]  # fmt: skip
    return _table(rows, *columns)


def _names(session: Session) -> Iterator[tuple[str, str]]:
    views = set(session.views())
    yield from sorted((name, "TABLE") for name in session.tables() if name not in views)
    yield from sorted((name, "VIEW") for name in views)


def _schema(session: Session, name: str) -> bytes:
    quoted = '"' + name.replace('"', '""') + '"'
    return bytes(exported_schema(session.describe(f"FROM {quoted}"), ()).serialize())


def _table_types(_: Session, __: Message) -> pa.Table:
    return _table([("TABLE",), ("VIEW",)], ("table_type", _TEXT, False))


def _types(_: Session, filters: Message) -> pa.Table:
    numbers = [number - (1 << 64) if number >> 63 else number for number in filters.numbers(1)]
    columns = [
        ("type_name", _TEXT, False), ("data_type", _INT, False), ("column_size", _INT, True),
        ("literal_prefix", _TEXT, True), ("literal_suffix", _TEXT, True),
        ("create_params", pa.list_(pa.field("item", _TEXT, False)), True), ("nullable", _INT, False),
        ("case_sensitive", pa.bool_(), False), ("searchable", _INT, False), ("unsigned_attribute", pa.bool_(), True),
        ("fixed_prec_scale", pa.bool_(), False), ("auto_increment", pa.bool_(), True), ("local_type_name", _TEXT, True),
        ("minimum_scale", _INT, True), ("maximum_scale", _INT, True), ("sql_data_type", _INT, False),
        ("datetime_subcode", _INT, True), ("num_prec_radix", _INT, True), ("interval_precision", _INT, True),
    ]  # fmt: skip
    rows = [
        (name, number, size, quote, quote, None, 1, name == "VARCHAR", 3, unsigned, False, None, name,
         0 if name == "DECIMAL" else None, 38 if name == "DECIMAL" else None, number, None,
         None if unsigned is None else 2 if name in ("FLOAT", "DOUBLE") else 10, None)
        for name, number, size, quote, unsigned in _TYPES if not numbers or number in numbers
    ]  # fmt: skip
    return _table(rows, *columns)


def _abilities(_: Session, filters: Message) -> pa.Table:
    """Facts as a dense union: a text, a truth, or a number."""
    import qoop

    facts: dict[int, str | bool | int] = {
        0: "qoop", 1: qoop.__version__, 2: pa.__version__, 3: True, 4: True, 5: False, 8: 0, 9: True, 505: '"',
    }  # fmt: skip
    numbers = filters.numbers(1) or list(facts)
    chosen = {number: facts[number] for number in numbers if number in facts}
    kinds: tuple[type, ...] = (str, bool, int)
    children: list[list[object]] = [[], [], []]
    types, offsets = [], []
    for fact in chosen.values():
        kind = kinds.index(type(fact))
        # 8 says which transactions there are, as a mask of 32 bits; the others are none of these
        types.append(3 if kind == 2 else kind)
        offsets.append(len(children[kind]))
        children[kind].append(fact)
    return _union_table(list(chosen), types, offsets, children)


def _union_table(numbers: list[int], types: list[int], offsets: list[int], children: list[list[object]]) -> pa.Table:
    texts, truths, masks = children
    named = {
        "string_value": pa.array(texts, _TEXT), "bool_value": pa.array(truths, pa.bool_()),
        "bigint_value": pa.array([], pa.int64()), "int32_bitmask": pa.array(masks, _INT),
        "string_list": pa.array([], pa.list_(_TEXT)),
        "int32_to_int32_list_map": pa.array([], pa.map_(_INT, pa.list_(_INT))),
    }  # fmt: skip
    union = pa.UnionArray.from_dense(
        pa.array(types, pa.int8()), pa.array(offsets, _INT), list(named.values()), list(named)
    )
    schema = pa.schema([pa.field("info_name", pa.uint32(), False), pa.field("value", union.type, False)])
    return pa.Table.from_arrays([pa.array(numbers, pa.uint32()), union], schema=schema)


def _matches_schema(filters: Message) -> bool:
    """True if our catalog and schema are among those that are asked for."""
    return filters.optional(1) in (None, _CATALOG) and _fits(_SCHEMA, filters.optional(2))


def _fits(name: str, pattern: str | None) -> bool:
    """True if a name fits a pattern of LIKE; None: all do.

    >>> _fits("sales", "s%"), _fits("sales", "s_"), _fits("a.c", "a_c"), _fits("x", None)
    (True, False, True, True)
    """
    if pattern is None:
        return True
    parts = (".*" if char == "%" else "." if char == "_" else re.escape(char) for char in pattern)
    return re.fullmatch("".join(parts), name, re.DOTALL) is not None


def _table(rows: list[tuple[Any, ...]], *columns: tuple[str, pa.DataType, bool]) -> pa.Table:
    schema = pa.schema([pa.field(name, type_, nullable) for name, type_, nullable in columns])
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


_FOREIGN = (
    *((f"{side}_{name}", _TEXT, not name.startswith(("table", "column")))
      for side in ("pk", "fk") for name in ("catalog_name", "db_schema_name", "table_name", "column_name")),
    ("key_sequence", _INT, False), ("fk_key_name", _TEXT, True), ("pk_key_name", _TEXT, True),
    ("update_rule", pa.uint8(), False), ("delete_rule", pa.uint8(), False),
)  # fmt: skip
_KEYS = {
    "CommandGetPrimaryKeys": (
        ("catalog_name", _TEXT, True), ("db_schema_name", _TEXT, True), ("table_name", _TEXT, False),
        ("column_name", _TEXT, False), ("key_name", _TEXT, True), ("key_sequence", _INT, False),
    ),
    "CommandGetExportedKeys": _FOREIGN, "CommandGetImportedKeys": _FOREIGN, "CommandGetCrossReference": _FOREIGN,
}  # fmt: skip
"""Questions about keys, and the columns of their answers: no table has keys."""

_ANSWERS: dict[str, Callable[[Session, Message], pa.Table]] = {
    "CommandGetCatalogs": _catalogs,
    "CommandGetDbSchemas": _schemas,
    "CommandGetTables": _tables,
    "CommandGetTableTypes": _table_types,
    "CommandGetXdbcTypeInfo": _types,
    "CommandGetSqlInfo": _abilities,
}
