"""Types of DuckDB as those of PostgreSQL, and values in its binary form."""

from __future__ import annotations

import datetime
import re
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from qoop.catalog.value import value

Encoder = Callable[[Any], bytes]

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_DAYS_TO_2000 = 10_957
_MINUS = 0x4000  # sign of a numeric


def sized(data: bytes | None) -> bytes:
    """A value after its length; None: NULL."""
    return b"\xff\xff\xff\xff" if data is None else len(data).to_bytes(4, "big") + data


@value
class PgType:
    """A type of PostgreSQL. size: of its values, -1: it differs. modifier: such as the digits of a numeric, or -1."""

    oid: int
    size: int = -1
    modifier: int = -1


def days(since: int) -> bytes:
    """A date, as days since 1970, in binary form. Raises OverflowError.

    >>> days(10957).hex(), days(2**31 - 1).hex(), days(1 - 2**31).hex()
    ('00000000', '7fffffff', '80000000')
    """
    return _since_2000(since, _DAYS_TO_2000, 4)


def instant(since: int) -> bytes:
    """A timestamp, with a time zone or without, as microseconds since 1970, in binary form. Raises OverflowError."""
    return _since_2000(since, _DAYS_TO_2000 * 86_400_000_000, 8)


def _since_2000(since: int, epoch: int, size: int) -> bytes:
    """A number since 1970 as one since 2000. The greatest one, and its negative, are DuckDB's infinity."""
    most = (1 << 8 * size - 1) - 1
    found = since - epoch if abs(since) < most else since if since > 0 else -most - 1
    return found.to_bytes(size, "big", signed=True)


def time_of_day(one: datetime.time) -> bytes:
    """A time of day in binary form."""
    seconds = one.hour * 3600 + one.minute * 60 + one.second
    return (seconds * 1_000_000 + one.microsecond).to_bytes(8, "big")


def interval(one: Any) -> bytes:
    """An interval in binary form: Arrow's has months, days and nanoseconds."""
    return struct.pack("!qii", one.nanoseconds // 1000, one.days, one.months)


def numeric(one: Decimal | int) -> bytes:
    """A numeric in binary form: digits to the base 10,000, of which the first has a weight.

    >>> numeric(Decimal("-12345.60")).hex()
    '0003000140000002000109291770'
    """
    sign, digits, exponent = Decimal(one).as_tuple()
    scale = max(0, -int(exponent))
    whole = "".join(map(str, digits)) + "0" * max(0, int(exponent))
    whole = whole.rjust(scale + 1, "0")
    before, after = whole[: len(whole) - scale], whole[len(whole) - scale :]
    before = before.rjust(-(-len(before) // 4) * 4, "0")
    after = after.ljust(-(-len(after) // 4) * 4, "0")
    groups = [int((before + after)[at : at + 4]) for at in range(0, len(before) + len(after), 4)]
    weight = len(before) // 4 - 1
    while groups and groups[0] == 0:
        groups, weight = groups[1:], weight - 1
    while groups and groups[-1] == 0:
        groups.pop()
    head = struct.pack("!hhHh", len(groups), weight if groups else 0, _MINUS if sign and groups else 0, scale)
    return head + struct.pack(f"!{len(groups)}h", *groups)


def of_numeric(data: bytes) -> Decimal:
    """The number that a numeric in binary form is.

    >>> of_numeric(numeric(Decimal("-12345.60"))), of_numeric(numeric(0))
    (Decimal('-12345.60'), Decimal('0'))
    """
    count, weight, sign, scale = struct.unpack_from("!hhHh", data)
    if sign not in (0, _MINUS):
        raise ValueError("it is no number")
    digits = "".join(f"{group:04}" for group in struct.unpack_from(f"!{count}h", data, 8))
    point = 4 * (weight + 1)
    before, after = digits[: max(0, point)].ljust(max(0, point), "0"), "0" * -point + digits[max(0, point) :]
    return Decimal(f"{'-' if sign else ''}{before or 0}.{after.ljust(scale, '0')[:scale]}".rstrip("."))


def _packed(form: str) -> Encoder:
    return struct.Struct(f"!{form}").pack


_INT2, _INT4, _INT8, _NUMERIC, _TEXT = PgType(21, 2), PgType(23, 4), PgType(20, 8), PgType(1700), PgType(25)

_TYPES: dict[str, tuple[PgType, Encoder]] = {
    "BOOLEAN": (PgType(16, 1), _packed("?")),
    "TINYINT": (_INT2, _packed("h")), "UTINYINT": (_INT2, _packed("h")), "SMALLINT": (_INT2, _packed("h")),
    "USMALLINT": (_INT4, _packed("i")), "INTEGER": (_INT4, _packed("i")), "UINTEGER": (_INT8, _packed("q")),
    "BIGINT": (_INT8, _packed("q")), "UBIGINT": (_NUMERIC, numeric), "HUGEINT": (_NUMERIC, numeric),
    "UHUGEINT": (_NUMERIC, numeric), "FLOAT": (PgType(700, 4), _packed("f")), "DOUBLE": (PgType(701, 8), _packed("d")),
    "VARCHAR": (_TEXT, str.encode), "BLOB": (PgType(17), bytes), "JSON": (PgType(114), str.encode),
    "DATE": (PgType(1082, 4), days), "TIME": (PgType(1083, 8), time_of_day),
    "TIMESTAMP": (PgType(1114, 8), instant), "TIMESTAMP WITH TIME ZONE": (PgType(1184, 8), instant),
    "INTERVAL": (PgType(1186, 16), interval), "oid": (PgType(26, 4), _packed("I")),
    "char": (PgType(18, 1), str.encode),
    "UUID": (PgType(2950, 16), lambda one: (one if isinstance(one, uuid.UUID) else uuid.UUID(str(one))).bytes),
}  # fmt: skip

_ARRAYS = {
    16: 1000, 17: 1001, 18: 1002, 19: 1003, 26: 1028,
    20: 1016, 21: 1005, 23: 1007, 25: 1009, 700: 1021, 701: 1022, 1700: 1231,
    1082: 1182, 1083: 1183, 1114: 1115, 1184: 1185, 1186: 1187, 2950: 2951,
}  # fmt: skip
"""The numbers of types, and of their arrays."""
ELEMENTS = {array: one for one, array in _ARRAYS.items()}
NAMES = {
    16: ("bool", "BOOLEAN"), 17: ("bytea", "BLOB"), 18: ("char", "VARCHAR"), 19: ("name", "VARCHAR"),
    20: ("int8", "BIGINT"), 21: ("int2", "SMALLINT"),
    23: ("int4", "INTEGER"), 25: ("text", "VARCHAR"), 26: ("oid", "UINTEGER"),
    114: ("json", "JSON"), 700: ("float4", "FLOAT"),
    701: ("float8", "DOUBLE"), 1042: ("bpchar", "VARCHAR"), 1043: ("varchar", "VARCHAR"), 1082: ("date", "DATE"),
    1083: ("time", "TIME"), 1114: ("timestamp", "TIMESTAMP"), 1184: ("timestamptz", "TIMESTAMPTZ"),
    1186: ("interval", "INTERVAL"), 1700: ("numeric", "DECIMAL"), 2950: ("uuid", "UUID"), 3802: ("jsonb", "JSON"),
}  # fmt: skip
"""The names of types, in PostgreSQL and in DuckDB."""
ARRAY_NAMES = {_ARRAYS[oid]: f"_{name}" for oid, (name, _) in NAMES.items() if oid in _ARRAYS}


def element(type_name: str) -> str | None:
    """The type of the elements, if a type of DuckDB is a list of plain values.

    >>> element("BIGINT[]"), element("BIGINT[][]"), element("STRUCT(a BIGINT[])[]")
    ('BIGINT', None, None)
    """
    inner = type_name.removesuffix("[]")
    is_plain = inner in _TYPES or _DECIMAL.fullmatch(inner)
    return inner if inner != type_name and is_plain and inner not in ("JSON", "INTERVAL") else None


def pg_type(type_name: str) -> PgType:
    """A type of DuckDB as PostgreSQL's; what it does not have is text.

    >>> pg_type("DECIMAL(7,2)"), pg_type("BIGINT[]").oid, pg_type("STRUCT(a INTEGER)").oid
    (PgType(oid=1700, size=-1, modifier=458758), 1016, 25)
    """
    found = _DECIMAL.fullmatch(type_name)
    if found:
        return PgType(1700, -1, (int(found[1]) << 16 | int(found[2])) + 4)
    inner = element(type_name)
    if inner is not None:
        return PgType(_ARRAYS[pg_type(inner).oid])
    return _TYPES.get(type_name, (_TEXT, str.encode))[0]


def encoder(type_name: str) -> Encoder | None:
    """The function that writes a value of a type of DuckDB in binary form; None: there is none."""
    if _DECIMAL.fullmatch(type_name):
        return numeric
    inner = element(type_name)
    if inner is not None:
        return _array(pg_type(inner).oid, encoder(inner))
    return _TYPES.get(type_name, (None, None))[1]


def _array(oid: int, of: Encoder | None) -> Encoder:
    assert of is not None

    def encoded(values: list[Any]) -> bytes:
        head = struct.pack("!iii", min(1, len(values)), any(one is None for one in values), oid)
        if not values:
            return head
        return (
            head
            + struct.pack("!ii", len(values), 1)
            + b"".join(sized(None if one is None else of(one)) for one in values)
        )

    return encoded
