"""Messages on the wire: a kind of one byte, a length of four, and fields. They are few and fixed, so no library helps.

>>> reader = Reader(b"FROM t\\0\\0\\x02")
>>> reader.text(), reader.number(2)
('FROM t', 2)
"""

from __future__ import annotations

import socket
import struct

from qoop.catalog.errors import QueryError, TooMuch

HEAD = struct.Struct("!ci")
_PIECE = 1 << 16


class Gone(Exception):
    """The client has closed its connection, or does not read what it is sent."""


class Wire:
    """The messages of one connection. most: bytes that one of the client's may have.

    patience: seconds that the rest of a message may take to arrive, and the client to take what is sent. idle: seconds
    until a message begins.
    """

    def __init__(self, connection: socket.socket, most: int, patience: float, idle: float) -> None:
        self.connection, self._most = connection, most
        self._patience, self._idle = patience, idle
        self._unsent: list[bytes] = []

    @property
    def address(self) -> str:
        """The address of the client. Raises Gone."""
        try:
            return str(self.connection.getpeername()[0])
        except OSError as error:
            raise Gone(str(error)) from error

    def receive(self) -> tuple[bytes, Reader]:
        """The next message: its kind and its fields. Raises Gone, TooMuch."""
        self.connection.settimeout(self._idle)
        kind = self._exactly(1)
        self.connection.settimeout(self._patience)
        return kind, self.receive_first()

    def receive_first(self) -> Reader:
        """A message without a kind, as the first of a connection is. Raises Gone, TooMuch."""
        size = int.from_bytes(self._exactly(4), "big", signed=True)
        if not 4 <= size <= self._most + 4:
            raise TooMuch(f"a message has at most {self._most:,} bytes")
        return Reader(self._exactly(size - 4))

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            try:
                piece = self.connection.recv(min(_PIECE, size - len(found)))
            except OSError as error:
                raise Gone(str(error)) from error
            if not piece:
                raise Gone("the client has closed its connection")
            found += piece
        return bytes(found)

    def put(self, *messages: bytes) -> None:
        """Send these with what comes next."""
        self._unsent += messages

    def flush(self) -> None:
        """Send what was put. Raises Gone."""
        data, self._unsent = memoryview(b"".join(self._unsent)), []
        try:
            self.connection.settimeout(self._patience)
            for first in range(0, len(data), _PIECE):
                self.connection.sendall(data[first : first + _PIECE])
        except OSError as error:
            raise Gone(str(error)) from error


class Reader:
    """The fields of a message, one after the other. All raise QueryError where there are no more."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        """Bytes that are left."""
        return len(self._data) - self._at

    def number(self, size: int) -> int:
        """A number of that many bytes."""
        return int.from_bytes(self.raw(size), "big", signed=True)

    def raw(self, size: int) -> bytes:
        """That many bytes."""
        if not 0 <= size <= self.left:
            raise QueryError("a message of the client ends before its fields do")
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        """A text, which a zero ends."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise QueryError("a text of the client has no end")
        found = self.raw(end - self._at)
        self._at += 1
        try:
            return found.decode()
        except UnicodeDecodeError as error:
            raise QueryError(f"a text of the client is not UTF-8: see byte {error.start + 1}") from error

    def numbers(self, size: int) -> list[int]:
        """A list of numbers of that many bytes, after its length."""
        return [self.number(size) for _ in range(self.number(2))]


def message(kind: bytes, *fields: bytes) -> bytes:
    """A message of the server."""
    body = b"".join(fields)
    return HEAD.pack(kind, len(body) + 4) + body


def text(value: str) -> bytes:
    """A text as a field; what follows a zero is not sent."""
    return value.partition("\0")[0].encode(errors="replace") + b"\0"


def short(number: int) -> bytes:
    """A number of two bytes."""
    return number.to_bytes(2, "big", signed=True)


def long(number: int) -> bytes:
    """A number of four bytes."""
    return number.to_bytes(4, "big", signed=True)


def unsigned(number: int) -> bytes:
    """A number of four bytes without a sign."""
    return number.to_bytes(4, "big")


def with_status(name: str, value: str) -> bytes:
    """A setting of the server, which the client keeps."""
    return message(b"S", text(name), text(value))


def ready(status: str) -> bytes:
    """The server waits for the next statement. status: I, T within a transaction, E within one that has failed."""
    return message(b"Z", status.encode())


def complete(tag: str) -> bytes:
    """A statement has ended."""
    return message(b"C", text(tag))
