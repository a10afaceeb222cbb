"""Parameters of a text, ``?``, ``$1`` or ``$name``, passed as values of Python: each is written as a literal.

So a query with parameters is planned for their values, with the statistics that apply to them; plans of the same text
with other values are found by the same decisions (see :mod:`qoop.query.plan_keys`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import lexed
from qoop.catalog.value import value
from qoop.query.statements.statement import folded, parameters_of

_TOUCHED = re.compile("([\0\u00a0\u1680\u180e\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff])")

Parameters = Sequence[object] | Mapping[str, object]


def with_values(text: str, parameters: Parameters) -> str:
    """The text with every parameter as a literal.

    >>> with_values("SELECT ?, '?', $2, $1", [1, "it's"]), with_values("SELECT $a", {"a": None})
    ("SELECT CAST(1 AS INTEGER), '?', 'it''s', CAST(1 AS INTEGER)", 'SELECT NULL')

    DuckDB's parser says which parameters there are, and its lexer where they stand: what looks like one within a string
    or a comment is none. A literal is a whole expression of SQL between two spaces, so that no value can be anything
    else.

    Raises ParseError where DuckDB cannot parse the text, QueryError for a parameter without a value, a value without a
    parameter, or one of a type that has no literal.
    """
    values = dict(parameters) if isinstance(parameters, Mapping) else _numbered(parameters)
    return with_texts(text, {folded(str(name)): literal(value) for name, value in values.items()})


def with_texts(text: str, texts: Mapping[str, str]) -> str:
    """The text with expressions of SQL, by the folded names of parameters, in their places. Raises as `with_values`."""
    found = _found(text)
    for one in found:
        if one.name not in texts:
            raise QueryError(
                f"the parameter {one.text} has no value; there are values for: {', '.join(texts) or 'none'}"
            )
    left = texts.keys() - {one.name for one in found}
    if left:
        raise QueryError(
            f"there are values, but no parameters, for: {', '.join(name for name in texts if name in left)}"
        )
    return _replaced(text, [(one.start, one.end, texts[one.name]) for one in found])


@value
class _ParameterPlace:
    """The place of a parameter. text: as it is written."""

    name: str
    text: str
    start: int
    end: int


def _found(text: str) -> list[_ParameterPlace]:
    """The parameters of a text. Raises ParseError, and QueryError where the parser and the lexer do not agree."""
    for statement, names in parameters_of(text):
        if {place.name for place in _places(statement)} != names:
            raise QueryError("the places of the parameters in the text are ambiguous")
    return list(_places(text))


def _places(text: str) -> Iterator[_ParameterPlace]:
    highest = 0  # a mere ? comes after all numbers so far
    for word in lexed(text).words:
        if word.kind == "parameter":
            name = _name(word.text) or str(highest + 1)
            highest = max(highest, int(name)) if name.isdecimal() else highest
            yield _ParameterPlace(name, word.text, word.start, word.end)


def _name(written: str) -> str:
    """Of ``$a``, ``$1``, ``?1`` or ``$"a b"``; empty for ``?``."""
    name = folded(written[1:].strip())
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _replaced(text: str, places: Iterable[tuple[int, int, str]]) -> str:
    """The text with literals in these places, each apart from the words next to it."""
    pieces, done = [], 0
    for start, end, literal in places:
        before, after = text[done:start], text[end : end + 1]
        pieces += [before, " " * _touches(before[-1:]), literal, " " * _touches(after)]
        done = end
    return "".join((*pieces, text[done:]))


def _touches(neighbour: str) -> bool:
    return neighbour.isalnum() or (neighbour in ("_", "&", "$", "'", '"', "?") and neighbour != "")


def _numbered(values: Sequence[object]) -> dict[str, object]:
    if isinstance(values, str | bytes) or not (isinstance(values, Sequence) or hasattr(values, "tolist")):
        raise QueryError(f"the values of parameters come as a list or a dict, not as {values!r}")
    return {str(place): value for place, value in enumerate(values, 1)}


def literal(value: object) -> str:
    """A value of Python as a literal of DuckDB, of the type that DuckDB takes such a value for.

    >>> from datetime import date
    >>> literal(date(2026, 1, 2)), literal([1, None]), literal(1.5), literal(True)
    ("CAST('2026-01-02' AS DATE)", '[CAST(1 AS INTEGER), NULL]', 'CAST(1.5 AS DOUBLE)', 'true')

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
            return f"unhex('{bytes(value).hex()}')"
        case UUID():
            return f"CAST('{value}' AS UUID)"
        case _:
            return _time(value) or _nested(value)


def _time(value: object) -> str | None:
    if type(value).__name__ in ("NaTType", "NAType"):  # pandas' NULLs; that of times is a datetime, too
        return "NULL"
    match value:
        case datetime():
            return f"CAST('{value.isoformat(sep=' ')}' AS {'TIMESTAMPTZ' if value.tzinfo else 'TIMESTAMP'})"
        case date():
            return f"CAST('{value.isoformat()}' AS DATE)"
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
        return f"{{{', '.join(f'{_plain(str(name))}: {literal(item)}' for name, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return _plain_list(value) or f"[{', '.join(map(literal, value))}]"
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # of NumPy
        finest = value.dtype.name.endswith(("[ns]", "[ps]", "[fs]", "[as]"))  # Python has numbers for such times
        return literal((value.astype(f"{value.dtype.kind}8[us]") if finest else value).tolist())
    raise QueryError(f"a {type(value).__name__} cannot be the value of a parameter: {value!r}")


def _plain_list(values: Sequence[object]) -> str | None:
    """Integers of 64 bits as one cast, None for others: DuckDB takes long to bind a cast for each of 100,000 values."""
    if not values or any(type(value) is not int for value in values):
        return None
    numbers = [int(value) for value in values if isinstance(value, int)]
    bits = max(max(numbers).bit_length(), (-1 - min(numbers)).bit_length())
    if bits > 63:
        return None
    return f"CAST([{', '.join(map(str, numbers))}] AS {'INTEGER' if bits <= 31 else 'BIGINT'}[])"


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
    ('4, 2', '4, 3', '4, 0')
    """
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    return f"{len(digits) + max(0, exponent) if scale <= len(digits) else scale + 1}, {scale}"


def _quoted(text: str) -> str:
    """A string, in which a backslash is a backslash.

    Characters that DuckDB's parser does not leave alone are given by number: a NUL ends the text, and other spaces than
    that of ASCII become one where the parser, misled by an ``E'\\''`` before, does not know that it is in a string.

    >>> _quoted("it's"), _quoted("a\\0b")
    ("'it''s'", "('a' || chr(0) || 'b')")
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise QueryError(f"a parameter is not UTF-8: see character {error.start + 1} of its value") from error
    pieces = [f"chr({ord(piece)})" if _TOUCHED.fullmatch(piece) else _plain(piece) for piece in _TOUCHED.split(text)]
    return pieces[0] if len(pieces) == 1 else f"({' || '.join(pieces)})"


def _plain(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
