"""Parameters of a text, ``?``, ``$1`` or ``$name``, given as values of Python: each is written as a literal.

So a query with parameters is planned for their values, with the statistics that apply to them; plans of the same text
with other values are found by the same decisions (see :mod:`qoop.plan_cache`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from qoop.catalog.errors import QueryError
from qoop.statements.tokens import tokens

Parameters = Sequence[object] | Mapping[str, object]


def with_values(text: str, parameters: Parameters) -> str:
    """The text with every parameter as a literal.

    >>> with_values("SELECT ?, '?', $2, $1", [1, "it's"]), with_values("SELECT $a", {"a": None})
    ("SELECT CAST(1 AS INTEGER), '?', 'it''s', CAST(1 AS INTEGER)", 'SELECT NULL')

    Raises QueryError for a parameter without a value, a value without a parameter, or one of a type that has no
    literal.
    """
    given = dict(parameters) if isinstance(parameters, Mapping) else _numbered(parameters)
    pieces, used, place = [], set(), 0
    for token in tokens(text):
        if token.kind != "parameter":
            pieces.append(token.text)
            continue
        place += token.text == "?"
        name = str(place) if token.text == "?" else token.text[1:]
        if name not in given:
            known = ", ".join(given) or "none"
            raise QueryError(f"the parameter {token.text} has no value; there are values for: {known}")
        used.add(name)
        pieces.append(literal(given[name]))
    left = [name for name in given if name not in used]
    if left:
        raise QueryError(f"there are values, but no parameters, for: {', '.join(left)}")
    return "".join(pieces)


def _numbered(values: Sequence[object]) -> dict[str, object]:
    if isinstance(values, str | bytes):
        raise QueryError(f"the values of parameters come as a list or a dict, not as {values!r}")
    return {str(place): value for place, value in enumerate(values, 1)}


def literal(value: object) -> str:
    """A value of Python as a literal of DuckDB, of the type that DuckDB takes such a value for.

    >>> from datetime import date
    >>> literal(date(2026, 1, 2)), literal([1, None]), literal(1.5), literal(True)
    ("DATE '2026-01-02'", '[CAST(1 AS INTEGER), NULL]', 'CAST(1.5 AS DOUBLE)', 'true')

    Raises QueryError for a type that has none.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int():
            return _integer(int(value))
        case float():
            return _float(float(value))
        case Decimal() if value.is_finite():
            return f"CAST({value:f} AS DECIMAL({_digits(value)}))"
        case str():
            return _quoted(value)
        case bytes() | bytearray() | memoryview():
            escaped = "".join(f"\\x{byte:02X}" for byte in bytes(value))
            return f"'{escaped}'::BLOB"
        case UUID():
            return f"CAST('{value}' AS UUID)"
        case _:
            return _time(value) or _nested(value)


def _time(value: object) -> str | None:
    if type(value).__name__ in ("NaTType", "NAType"):  # pandas' NULLs; that of times is a datetime, too
        return "NULL"
    match value:
        case datetime():
            return f"{'TIMESTAMPTZ' if value.tzinfo else 'TIMESTAMP'} '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time():
            return f"CAST('{value.isoformat()}' AS {'TIMETZ' if value.tzinfo else 'TIME'})"
        case timedelta():
            microseconds = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
            return f"to_microseconds({microseconds})"
    return None


def _nested(value: Any) -> str:
    if isinstance(value, Mapping):
        if not value:
            return "MAP {}"
        return f"{{{', '.join(f'{_quoted(str(name))}: {literal(item)}' for name, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # of NumPy
        finest = value.dtype.name.endswith(("[ns]", "[ps]", "[fs]", "[as]"))  # Python has numbers for such times
        return literal((value.astype(f"{value.dtype.kind}8[us]") if finest else value).tolist())
    raise QueryError(f"a {type(value).__name__} cannot be the value of a parameter: {value!r}")


def _integer(value: int) -> str:
    """Of the type of its size: a number as such would take on the type of what is around it.

    >>> _integer(-7), _integer(1 << 40)
    ('CAST(-7 AS INTEGER)', 'CAST(1099511627776 AS BIGINT)')
    """
    for type_, bits in (("INTEGER", 31), ("BIGINT", 63), ("HUGEINT", 127)):
        if -(1 << bits) <= value < 1 << bits:
            return f"CAST({value} AS {type_})"
    return str(value) if value >= 0 else f"({value})"


def _float(value: float) -> str:
    plain = math.isfinite(value) and (value or math.copysign(1, value) > 0)  # minus 0.0 is 0.0 to DuckDB
    return f"CAST({value!r} AS DOUBLE)" if plain else f"CAST('{value!r}' AS DOUBLE)"


def _digits(value: Decimal) -> str:
    """Precision and scale.

    >>> _digits(Decimal("-12.50")), _digits(Decimal("0.001")), _digits(Decimal("1E+3"))
    ('4, 2', '3, 3', '4, 0')
    """
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    return f"{max(len(digits) + max(0, exponent), scale, 1)}, {scale}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def names_of(text: str) -> Iterator[str]:
    """The parameters of a text as they are written.

    >>> list(names_of("SELECT $b, ?, '$c'"))
    ['$b', '?']
    """
    return (token.text for token in tokens(text) if token.kind == "parameter")
