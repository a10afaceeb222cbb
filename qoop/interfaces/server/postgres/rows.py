"""Rows as messages: in DuckDB's texts, or on request in PostgreSQL's binary form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import QueryError
from qoop.interfaces.server.postgres.catalog.types import element, encoder, pg_type, sized
from qoop.interfaces.server.postgres.messages import HEAD, long, message, short, text, unsigned

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.query.result import Result

TEXT, BINARY = 0, 1
_ISO_TEXT = 2
"""The form of an interval as a text of ISO 8601; to the client it is a text."""
_INTERVAL = re.compile(
    r"(?:(-?\d+) years? ?)?(?:(-?\d+) months? ?)?(?:(-?\d+) days? ?)?(?:(-?)(\d+):(\d+):(\d+)(\.\d+)?)?"
)
_ROWS = 5_000
"""Rows that are turned into messages at a time."""

Write = Callable[[Sequence[Sequence[bytes]], int], bytes]
"""Makes messages of columns of values, each after its length, and the number of rows."""
Columns = Sequence[tuple[str, str]]
"""Names, and types of DuckDB."""


def description(columns: Columns, formats: Sequence[int] = ()) -> bytes:
    """The message that says which columns there are. formats: of each; none: texts."""
    fields = []
    for (name, type_), form in zip(columns, formats or [TEXT] * len(columns), strict=True):
        kind = pg_type(type_)
        fields += [
            text(name),
            long(0),
            short(0),
            unsigned(kind.oid),
            short(kind.size),
            long(kind.modifier),
            short(TEXT if form == _ISO_TEXT else form),
        ]
    return message(b"T", short(len(columns)), *fields)


def formats_of(requested: Sequence[int], columns: Columns) -> list[int]:
    """The form of each column, where a client asks for none, one for all, or one for each. Raises QueryError."""
    if len(requested) not in (0, 1, len(columns)) or not set(requested) <= {TEXT, BINARY}:
        raise QueryError(f"{len(requested)} forms were asked for, and there are {len(columns)} columns")
    forms = list(requested) if len(requested) == len(columns) else [*requested, TEXT][:1] * len(columns)
    for (name, type_), form in zip(columns, forms, strict=True):
        if form == BINARY and encoder(type_) is None and pg_type(type_).oid != 25:
            raise QueryError(f"the column {name} of type {type_} has no binary form: cast it to VARCHAR")
    return forms


def in_style(forms: Sequence[int], columns: Columns, style: str) -> list[int]:
    """The forms of columns for a client's `intervalstyle`."""
    is_iso = style.lower() == "iso_8601"
    return [
        _ISO_TEXT if is_iso and (type_, form) == ("INTERVAL", TEXT) else form
        for (_, type_), form in zip(columns, forms, strict=True)
    ]


def rows(
    part: Result, formats: Sequence[int], write: Write | None = None, types: Sequence[str] = ()
) -> Iterator[tuple[int, bytes]]:
    """The messages of a part's rows, many at a time, after their number. write: by default as those of SELECT.

    types: of the columns, if they are not those of the part: a catalog's answer has oid and the like.
    """
    for first in range(0, len(part), _ROWS):
        some = part.slice(first, _ROWS)
        yield len(some), (write or row_messages)(_columns(some, formats, types or part.types), len(some))


def row_messages(columns: Sequence[Sequence[bytes]], count: int) -> bytes:
    """Rows as messages of a SELECT."""
    head, number = HEAD.pack, short(len(columns))
    bodies = (b"".join(row) for row in zip(*columns, strict=True)) if columns else (b"" for _ in range(count))
    return b"".join(chain.from_iterable((head(b"D", len(body) + 6), number, body) for body in bodies))


def _columns(part: Result, formats: Sequence[int], types: Sequence[str]) -> list[list[bytes]]:
    """The values of each column, each after its length."""
    ours = [(form == BINARY and encoder(type_name) is not None) or element(type_name) is not None
            for form, type_name in zip(formats, types, strict=True)]  # fmt: skip
    texts = list(zip(*part.text_rows(), strict=True)) if not all(ours) else []
    arrow = part.arrow().columns if any(ours) else []
    found = []
    for number, type_name in enumerate(types):
        if not ours[number]:
            form = _iso_text if formats[number] == _ISO_TEXT else _text
            found.append([form(one, type_name) for one in (texts[number] if texts else ())])
        elif formats[number] == BINARY:
            found.append(_written(encoder(type_name), _since_1970(arrow[number]), type_name))
        else:
            found.append(_written(_array, arrow[number], type_name))
    return found


def _written(write: Callable[[Any], bytes] | None, column: pa.ChunkedArray, type_name: str) -> list[bytes]:
    """The values of a column, each after its length. Raises QueryError for a time that has no such form."""
    assert write is not None
    try:
        return [sized(None if one is None else write(one)) for one in column.to_pylist()]
    except OverflowError as error:
        raise QueryError(f"a value of type {type_name} is out of range ({error}): cast it to VARCHAR") from error


def _since_1970(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates as days and timestamps as microseconds, also those that Python has none for; other values as they are."""
    import pyarrow as pa

    is_list = pa.types.is_list(column.type)
    plain = column.type.value_type if is_list else column.type
    if pa.types.is_date32(plain):
        number: pa.DataType = pa.int32()
    elif pa.types.is_timestamp(plain):
        number = pa.int64()
    else:
        return column
    return column.cast(pa.list_(number) if is_list else number)


def _text(one: str | None, type_name: str) -> bytes:
    """A text of DuckDB as PostgreSQL has it."""
    if one is None:
        return sized(None)
    if type_name == "BOOLEAN":
        return sized(one[:1].encode())
    if type_name == "BLOB":
        return sized(_blob(one))
    return sized(one.encode())


def _iso_text(one: str | None, _: str) -> bytes:
    """A text of an interval of DuckDB's in ISO 8601, as PostgreSQL has it.

    >>> _iso_text("1 year 2 months -3 days -04:05:06.7", ""), _iso_text("00:00:00", "")
    (b'\\x00\\x00\\x00\\x14P1Y2M-3DT-4H-5M-6.7S', b'\\x00\\x00\\x00\\x04PT0S')
    """
    if one is None or (found := _INTERVAL.fullmatch(one)) is None:
        return sized(None if one is None else one.encode())
    years, months, days, sign, hours, minutes, seconds, rest = (part or "" for part in found.groups())
    whole = [f"{number}{unit}" for number, unit in ((years, "Y"), (months, "M"), (days, "D")) if number]
    second = f"{int(seconds or 0)}{rest.rstrip('0').rstrip('.')}"
    time = [(str(int(hours or 0)), "H"), (str(int(minutes or 0)), "M"), (second, "S")]
    parts = [f"{sign}{number}{unit}" for number, unit in time if number != "0"]
    if not (whole or parts):
        return sized(b"PT0S")
    return sized("".join(("P", *whole, *(["T", *parts] if parts else []))).encode())


def _blob(one: str) -> bytes:
    r"""Bytes in hexadecimal.

    >>> _blob(r"a\x00b")
    b'\\x610062'
    """
    pieces = one.split("\\x")
    data = pieces[0].encode() + b"".join(bytes.fromhex(piece[:2]) + piece[2:].encode() for piece in pieces[1:])
    return b"\\x" + data.hex().encode()


_PLAIN_ELEMENT = re.compile(r"""[^\s{},"\\]+""")
"""Texts that stand in an array without quotes."""


def _array(values: Sequence[Any]) -> bytes:
    r"""A list in PostgreSQL's notation.

    >>> _array([1, None, True]), _array(['a "b"', "NULL", "c"])
    (b'{1,NULL,t}', b'{"a \\"b\\"","NULL",c}')
    """
    return ("{" + ",".join(map(_element, values)) + "}").encode()


def _element(one: Any) -> str:
    if one is None:
        return "NULL"
    if isinstance(one, bool):
        return "t" if one else "f"
    if isinstance(one, bytes):
        return f'"\\\\x{one.hex()}"'
    if isinstance(one, int | float):
        return str(one)
    if _PLAIN_ELEMENT.fullmatch(str(one)) and str(one).upper() != "NULL":
        return str(one)
    return '"' + str(one).replace("\\", "\\\\").replace('"', '\\"') + '"'
