"""The few messages of Flight SQL that a server needs, in protobuf's encoding.

A message is fields, each a number and either a whole number or bytes. Commands come within an ``Any``, which names
their type. This is written by hand: the package `protobuf` would need descriptions of all messages, and pins versions.

>>> unpacked(packed("CommandStatementQuery", (1, "FROM t")))[1].text(1)
'FROM t'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qoop.catalog.errors import QueryError
from qoop.catalog.value import value

_TYPES = "type.googleapis.com/arrow.flight.protocol.sql."
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
"""Protobuf's kinds of fields."""


@value
class Message:
    """A message that was read. fields: the values of each, in order."""

    fields: Mapping[int, tuple[int | bytes, ...]]

    def raw(self, number: int) -> bytes:
        """The bytes of a field, empty if it is not there. Raises QueryError if it is a number."""
        found = self.fields.get(number, (b"",))[-1]
        if not isinstance(found, bytes):
            raise QueryError(f"the field {number} of a message of Flight SQL must not be a number")
        return found

    def text(self, number: int) -> str:
        """The text of a field. Raises QueryError."""
        return _decoded(self.raw(number))

    def optional(self, number: int) -> str | None:
        """The text of a field, None if it is not there. Raises QueryError."""
        return self.text(number) if number in self.fields else None

    def texts(self, number: int) -> list[str]:
        """The texts of a field that may be there several times. Raises QueryError."""
        return [_decoded(found) for found in self.fields.get(number, ()) if isinstance(found, bytes)]

    def numbers(self, number: int) -> list[int]:
        """The numbers of such a field, which may come packed. Raises QueryError."""
        found: list[int] = []
        for one in self.fields.get(number, ()):
            found += [one] if isinstance(one, int) else _packed_numbers(one)
        return found


def message(*fields: tuple[int, bytes | str | int]) -> bytes:
    """A message with these fields."""
    return b"".join(map(_field, fields))


def packed(name: str, *fields: tuple[int, bytes | str | int]) -> bytes:
    """A message of that type of Flight SQL within an Any."""
    return message((1, _TYPES + name), (2, message(*fields)))


def unpacked(data: bytes) -> tuple[str, Message]:
    """The type and the message within an Any; no type if it is none of Flight SQL. Raises QueryError."""
    outer = read_message(data)
    name = outer.text(1)
    return name.removeprefix(_TYPES) if name.startswith(_TYPES) else "", read_message(outer.raw(2))


def read_message(data: bytes) -> Message:
    """A message. Raises QueryError for what is none.

    >>> read_message(bytes([8, 150, 1])).numbers(1)
    [150]
    """
    found: dict[int, tuple[int | bytes, ...]] = {}
    try:
        for number, value in _fields(memoryview(data)):
            found[number] = (*found.get(number, ()), value)
    except IndexError as error:
        raise QueryError("a message of Flight SQL has no end") from error
    return Message(found)


def _fields(data: memoryview) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind, size = key & 7, 0
        if kind == _VARINT:
            number, at = _number(data, at)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            size, at = _number(data, at)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise QueryError(f"a message of Flight SQL has a field of the unknown kind {kind}")
        if at + size > len(data):
            raise IndexError
        yield key >> 3, bytes(data[at : at + size])
        at += size


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return found, at
        if shift > 63:
            raise QueryError("a message of Flight SQL has a number of more than 64 bits")


def _packed_numbers(data: bytes) -> list[int]:
    found, at = [], 0
    try:
        while at < len(data):
            number, at = _number(memoryview(data), at)
            found.append(number)
    except IndexError as error:
        raise QueryError("a message of Flight SQL has no end") from error
    return found


def _field(field: tuple[int, bytes | str | int]) -> bytes:
    number, value = field
    if isinstance(value, int):
        return _encoded(number << 3 | _VARINT) + _encoded(value)
    data = value.encode() if isinstance(value, str) else value
    return _encoded(number << 3 | _BYTES) + _encoded(len(data)) + data


def _encoded(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise QueryError(f"a text of Flight SQL is not UTF-8: see byte {error.start + 1}") from error
