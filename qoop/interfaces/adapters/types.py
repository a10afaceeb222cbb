"""Types of DuckDB as SQLAlchemy's."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import types
from sqlalchemy.types import TypeEngine

_SIMPLE: dict[str, type[TypeEngine[Any]]] = {
    "BOOLEAN": types.BOOLEAN, "TINYINT": types.SMALLINT, "SMALLINT": types.SMALLINT, "INTEGER": types.INTEGER,
    "BIGINT": types.BIGINT, "UTINYINT": types.SMALLINT, "USMALLINT": types.INTEGER, "UINTEGER": types.BIGINT,
    "FLOAT": types.REAL, "DOUBLE": types.DOUBLE, "VARCHAR": types.VARCHAR, "BLOB": types.BLOB, "DATE": types.DATE,
    "TIME": types.TIME, "TIMESTAMP": types.TIMESTAMP, "UUID": types.UUID, "JSON": types.JSON,
    "INTERVAL": types.Interval,
}  # fmt: skip
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


def alchemy_type(name: str) -> TypeEngine[Any]:
    """The SQLAlchemy type for a DuckDB type; NullType where there is none, such as for structs and maps.

    >>> alchemy_type("DECIMAL(7,2)"), alchemy_type("INTEGER[]"), alchemy_type("STRUCT(a INTEGER)")
    (NUMERIC(precision=7, scale=2), ARRAY(INTEGER()), NullType())
    """
    if name.endswith("]"):
        item, _, _ = name.rpartition("[")
        return types.ARRAY(alchemy_type(item))
    if (found := _DECIMAL.fullmatch(name)) is not None:
        return types.NUMERIC(int(found[1]), int(found[2]))
    if name in ("HUGEINT", "UBIGINT", "UHUGEINT"):
        return types.NUMERIC(39, 0)
    if name in ("TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE"):
        return types.TIMESTAMP(timezone=True) if name.startswith("TIMESTAMP") else types.TIME(timezone=True)
    if name.startswith("TIMESTAMP_"):
        return types.TIMESTAMP()
    if name.startswith("ENUM("):
        return types.VARCHAR()
    return _SIMPLE.get(name, types.NullType)()
