"""Types of PostgreSQL's catalog, and the types of DuckDB that carry them while a question is answered.

DuckDB has no oid, "char" or regclass. Each has a type of DuckDB that nothing else in the catalog has, so that the type
of an answer's column says which it is. A regclass and the like is a number until it is shown, then a name.
"""

from __future__ import annotations

from collections.abc import Sequence

CHAR = "pg_char"
"""The name of the ENUM that carries "char", which has one character or none."""

CHARACTERS = "', '".join(["", *(chr(code) for code in range(33, 127) if chr(code) != "'")])
"""The values of that ENUM, as they stand in its definition."""

NAMED = {
    "regclass": "DECIMAL(31,0)", "regtype": "DECIMAL(32,0)", "regproc": "DECIMAL(33,0)",
    "regprocedure": "DECIMAL(33,0)", "regnamespace": "DECIMAL(34,0)", "regrole": "DECIMAL(35,0)",
    "regoper": "DECIMAL(36,0)", "regoperator": "DECIMAL(36,0)", "regcollation": "DECIMAL(36,0)",
    "regconfig": "DECIMAL(36,0)", "regdictionary": "DECIMAL(36,0)",
}  # fmt: skip
"""Types that are numbers, and names where they are shown."""

_CARRIERS = {
    **NAMED, "oid": "UINTEGER", "xid": "UINTEGER", "cid": "UINTEGER", "char": CHAR, "bool": "BOOLEAN",
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "xid8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE",
    "numeric": "DECIMAL(38,0)", "timestamptz": "TIMESTAMPTZ", "interval": "INTERVAL", "bytea": "BLOB", "json": "JSON",
    "jsonb": "JSON", "date": "DATE", "cardinal_number": "INTEGER", "int2vector": "SMALLINT[]",
    "oidvector": "UINTEGER[]", "time_stamp": "TIMESTAMPTZ",
}  # fmt: skip
_TEXTS = frozenset((
    "name", "text", "varchar", "bpchar", "pg_lsn", "pg_node_tree", "inet", "cidr", "tid", "xml", "anyarray", "record",
    "sql_identifier", "character_data", "yes_or_no", "aclitem", "unknown", "cstring", "pg_snapshot", "txid_snapshot",
))  # fmt: skip
_SHOWN = {carrier: name for name, carrier in reversed(NAMED.items())}


def carrier(type_: str) -> str:
    """The type of DuckDB that carries one of PostgreSQL; what has none is a text.

    >>> carrier("oid"), carrier("name[]"), carrier("oidvector"), carrier("pg_mcv_list")
    ('UINTEGER', 'VARCHAR[]', 'UINTEGER[]', 'VARCHAR')
    """
    if type_.endswith("[]"):
        return carrier(type_[:-2]) + "[]"
    return _CARRIERS.get(type_, "VARCHAR")


def cast_type(name: str) -> str | None:
    """The type of DuckDB that a cast to a type of PostgreSQL's catalog is to; None: DuckDB knows it by that name.

    >>> cast_type("name"), cast_type("OID"), cast_type("date")
    ('VARCHAR', 'UINTEGER', None)
    """
    name = name.lower()
    if name in _TEXTS:
        return "VARCHAR"
    return _CARRIERS.get(name) if name in _CARRIERS.keys() - {"numeric", "date", "interval", "timestamptz"} else None


def shown(types: Sequence[str]) -> list[str]:
    """The types of an answer's columns as clients hear them, by the carriers: oid, "char", or as DuckDB has them.

    >>> shown(["UINTEGER", "DECIMAL(31,0)", "UINTEGER[]", "ENUM('', '!')", "BIGINT"])
    ['oid', 'VARCHAR', 'oid[]', 'char', 'BIGINT']
    """
    return [_one_shown(type_) for type_ in types]


def _one_shown(type_: str) -> str:
    if type_.endswith("[]"):
        return _one_shown(type_[:-2]) + "[]"
    if type_.startswith("ENUM("):
        return "char"
    return "oid" if type_ == "UINTEGER" else "VARCHAR" if type_ in _SHOWN else type_


def selected(name: str, type_: str) -> str:
    """A column of an answer as it is selected last: names for numbers, and texts for "char".

    >>> selected("c1", "DECIMAL(31,0)"), selected("c1", "ENUM('', '!')[]"), selected("c1", "BIGINT")
    ('pg_regclass_text(c1)', 'CAST(c1 AS VARCHAR[])', 'c1')
    """
    if type_ in _SHOWN:
        return f"pg_{_SHOWN[type_]}_text({name})"
    if type_.startswith("ENUM("):
        return f"CAST({name} AS VARCHAR{'[]' if type_.endswith('[]') else ''})"
    return name
