"""Values of parameters, as a client sends them, as expressions of SQL."""

from __future__ import annotations

import datetime
import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import Lexeme, lexed
from qoop.interfaces.server.postgres.catalog.types import ELEMENTS, NAMES, of_numeric
from qoop.interfaces.server.postgres.messages import Reader
from qoop.query.statements.parameters import literal

_EPOCH = datetime.datetime(2000, 1, 1)
_UNKNOWN = (0, 18, 19, 25, 705, 1042, 1043)
"""Types whose values are texts that fit what they are compared with."""


def _unpacked(form: str) -> Callable[[bytes], Any]:
    return lambda data: struct.unpack(f"!{form}", data)[0]


def _later(data: bytes) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=_unpacked("q")(data))


_DECODERS: dict[int, Callable[[bytes], Any]] = {
    16: _unpacked("?"), 17: bytes, 20: _unpacked("q"), 21: _unpacked("h"), 23: _unpacked("i"), 25: bytes.decode,
    18: bytes.decode, 19: bytes.decode, 26: _unpacked("I"),
    700: _unpacked("f"), 701: _unpacked("d"), 1042: bytes.decode, 1043: bytes.decode, 0: bytes.decode,
    705: bytes.decode, 114: bytes.decode, 3802: lambda data: data[1:].decode(),
    1082: lambda data: _EPOCH.date() + datetime.timedelta(_unpacked("i")(data)),
    1083: lambda data: (_EPOCH + datetime.timedelta(microseconds=_unpacked("q")(data))).time(),
    1114: _later, 1184: lambda data: _later(data).replace(tzinfo=datetime.UTC),
    1700: of_numeric, 2950: lambda data: uuid.UUID(bytes=data),
}  # fmt: skip
"""Values in binary form, by the number of their type."""


def expression(oid: int, form: int, data: bytes | None) -> str:
    """A value as an expression. form: 0, a text; 1, binary. Raises QueryError.

    >>> expression(23, 1, bytes(3) + bytes([7])), expression(0, 0, b"it's"), expression(1082, 0, b"2026-01-02")
    ('CAST(CAST(7 AS INTEGER) AS INTEGER)', "'it''s'", "CAST('2026-01-02' AS DATE)")
    """
    if data is None:
        return "NULL"
    try:
        return _binary(oid, data) if form == 1 else _text(oid, data.decode())
    except (ValueError, struct.error, ArithmeticError) as error:
        raise QueryError(f"a value of the type {oid} cannot be read: {error}") from error


def _text(oid: int, text: str) -> str:
    if oid in _UNKNOWN:
        return literal(text)
    if oid == 17:
        return literal(bytes.fromhex(text.removeprefix("\\x")))
    if oid in ELEMENTS:
        return _cast_array(oid, "[" + text.strip()[1:-1] + "]")
    if oid == 1700:
        return _numeric(text)
    if oid not in NAMES:
        raise QueryError(f"a value of PostgreSQL's type {oid} is not taken: cast it to a text")
    return f"CAST({literal(text)} AS {NAMES[oid][1]})"


def _numeric(text: str) -> str:
    from decimal import Decimal, InvalidOperation

    try:
        return literal(Decimal(text))
    except InvalidOperation as error:
        raise QueryError(f"{text!r} is no number") from error


def _cast_array(oid: int, text: str) -> str:
    """DuckDB reads what stands between PostgreSQL's braces, but for its own brackets."""
    return f"CAST({literal(text)} AS {NAMES[ELEMENTS[oid]][1]}[])"


def _binary(oid: int, data: bytes) -> str:
    if oid in ELEMENTS:
        values = _elements(Reader(data))
        return literal(values) if values else _cast_array(oid, "[]")
    if oid == 1186:
        microseconds, days, months = struct.unpack("!qii", data)
        return f"(to_months({months}) + to_days({days}) + to_microseconds({microseconds}))"
    decode = _DECODERS.get(oid)
    if decode is None:
        raise QueryError(f"a value of PostgreSQL's type {oid} is not taken in binary form: send a text")
    return typed(oid, literal(decode(data)))


def typed(oid: int, sql: str) -> str:
    """An expression in the type that its parameter has; a text takes that of what it is compared with.

    >>> typed(20, "5"), typed(25, "'a'")
    ('CAST(5 AS BIGINT)', "'a'")
    """
    return sql if oid in (*_UNKNOWN, 1700) or oid not in NAMES else f"CAST({sql} AS {NAMES[oid][1]})"


def unbound(oid: int, is_by_text: bool) -> str:
    """The expression in the place of a parameter without a value. is_by_text: its text says that it has this type.

    >>> unbound(20, False), unbound(25, True), unbound(25, False)
    ('CAST(NULL AS BIGINT)', "CAST('' AS VARCHAR)", 'NULL')
    """
    inner = ELEMENTS.get(oid, oid)
    if inner not in NAMES or (oid in _UNKNOWN and not is_by_text):
        return "NULL"
    if oid in _UNKNOWN:
        return f"CAST('' AS {NAMES[oid][1]})"  # to DuckDB 1.5.5 a NULL || 'x' is an INTEGER
    return f"CAST(NULL AS {NAMES[inner][1]}{'[]' if oid in ELEMENTS else ''})"


def _elements(reader: Reader) -> Sequence[Any]:
    dimensions, _, oid = reader.number(4), reader.number(4), reader.number(4)
    if dimensions > 1:
        raise QueryError("a list within a list is no value of a parameter")
    count = reader.number(4) if dimensions else 0
    _ = reader.number(4) if dimensions else 0  # the first index
    decode = _DECODERS.get(oid)
    if decode is None:
        raise QueryError(f"a list of PostgreSQL's type {oid} is not taken in binary form: send a text")
    sizes = ((reader.number(4)) for _ in range(count))
    return [None if size < 0 else decode(reader.raw(size)) for size in sizes]


def parameter_count(text: str) -> int:
    """The number of a text's parameters: the largest of ``$1``, ``$2`` and so on.

    >>> parameter_count("DECLARE c CURSOR FOR SELECT '$3' FROM t WHERE a > $2"), parameter_count("FROM t")
    (2, 0)
    """
    return max((number for _, number in _parameters(text)), default=0)


def with_expressions(text: str, expressions: Sequence[str]) -> str:
    """The text with expressions in the place of its parameters, whatever statement it is. Raises QueryError.

    >>> with_expressions("SELECT $1, $1 + $2", ["1", "NULL"])
    'SELECT 1, 1 + NULL'
    """
    done, at = "", 0
    for word, number in _parameters(text):
        if not 1 <= number <= len(expressions):
            raise QueryError(f"the parameter ${number} has no value; there are {len(expressions)} values")
        done += text[at : word.start] + expressions[number - 1]
        at = word.end
    return done + text[at:]


def _parameters(text: str) -> list[tuple[Lexeme, int]]:
    words = (word for word in lexed(text).words if word.kind == "parameter")
    return [(word, int(name)) for word in words if (name := word.text[1:].strip()).isdecimal()]
