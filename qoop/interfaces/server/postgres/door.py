"""The begin of a connection: TLS, then a name and a password; or the cancelling of another connection's query.

The password of PostgreSQL's clients is a user's password or token. SCRAM proves it where the file of users has its
verifier. It goes in clear text within TLS only, for users without one.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping

from qoop.catalog.errors import NotKnown, QueryError
from qoop.catalog.value import value
from qoop.interfaces.server.postgres import messages
from qoop.interfaces.server.postgres.messages import Gone, Reader, Wire
from qoop.interfaces.server.postgres.scram import binding_of, converse
from qoop.interfaces.server.users import ANYBODY, User, Users

_TLS, _GSS, _CANCEL, _VERSION = 80_877_103, 80_877_104, 80_877_102, 3
_CLEAR_TEXT, _OK = 3, 0
_FIRST = 10_000
"""Bytes of the first messages, whose client is not known yet."""


@value
class Cancel:
    """The wish to stop what a connection runs. key: that was told to its client."""

    key: tuple[int, int]


@value
class Entered:
    """A client that was let in. startup: the parameters of its first message, such as the name of a database."""

    user: User
    startup: Mapping[str, str]


class Door:
    """Lets clients in. tls: None: connections are plain. certificate: in DER, that of TLS."""

    def __init__(
        self, users: Users, tls: ssl.SSLContext | None, patience: float, certificate: bytes | None = None
    ) -> None:
        self._users, self._tls, self._patience = users, tls, patience
        self._binding = None if certificate is None else binding_of(certificate)

    def enter(self, wire: Wire, replaced: Callable[[Wire], None]) -> Entered | Cancel:
        """The user of a connection. replaced: hears of the wire within TLS. Raises Gone, NotKnown, QueryError."""
        first = wire.receive_first()
        code = first.number(4)
        while code in (_TLS, _GSS):
            if code == _TLS and self._tls is not None:
                wire = self._with_tls(wire.connection)
                replaced(wire)
            else:
                wire.put(b"N")
                wire.flush()
            first = wire.receive_first()
            code = first.number(4)
        if code == _CANCEL:
            return Cancel((first.number(4), first.number(4)))
        return self._user(wire, code, first)

    def plain(self, connection: socket.socket) -> Wire:
        """The wire of a client before authentication: its messages are small, and arrive soon."""
        return Wire(connection, _FIRST, self._patience, self._patience)

    def _with_tls(self, connection: socket.socket) -> Wire:
        assert self._tls is not None
        if isinstance(connection, ssl.SSLSocket):
            raise QueryError("the connection has TLS already")
        try:
            connection.sendall(b"S")
            inner = self._tls.wrap_socket(connection, server_side=True)
        except OSError as error:
            raise Gone(str(error)) from error
        return self.plain(inner)

    def _user(self, wire: Wire, code: int, first: Reader) -> Entered:
        if code >> 16 != _VERSION:
            raise QueryError(f"the version {code >> 16}.{code & 0xFFFF} of the protocol is not spoken here, but 3.0")
        if self._tls is not None and not isinstance(wire.connection, ssl.SSLSocket):
            raise NotKnown("this server takes connections with TLS only: sslmode=require")
        settings = _pairs(first)
        if code & 0xFFFF:
            wire.put(messages.message(b"v", messages.long(_VERSION << 16), messages.long(0)))
        if not self._users.are_identified:
            return Entered(ANYBODY, settings)
        return Entered(self._proven(wire, settings.get("user", "")), settings)

    def _proven(self, wire: Wire, name: str) -> User:
        """The user of that name, once it has shown its password."""
        verifier = self._users.verifier(name, clear=self._tls is not None)
        if verifier is None:
            return self._users.of_password(name, _in_clear_text(wire), wire.address)
        if converse(wire, verifier, self._binding) and (user := self._users.of_name(name)) is not None:
            return user
        hint = "" if self._tls is not None else "; one without a line scram in the file of users needs TLS"
        raise NotKnown(f"no user has that name and password{hint}")


def _in_clear_text(wire: Wire) -> str:
    wire.put(messages.message(b"R", messages.long(_CLEAR_TEXT)))
    wire.flush()
    kind, reply = wire.receive()
    if kind != b"p":
        raise NotKnown("a password was asked for")
    return reply.text()


def let_in(wire: Wire, key: tuple[int, int], settings: dict[str, str]) -> None:
    """Tell a client that it is in, and what there is to know."""
    wire.put(messages.message(b"R", messages.long(_OK)))
    wire.put(*(messages.with_status(name, value) for name, value in settings.items()))
    wire.put(messages.message(b"K", messages.long(key[0]), messages.long(key[1])), messages.ready("I"))
    wire.flush()


def _pairs(first: Reader) -> dict[str, str]:
    found = {}
    while name := first.text():
        found[name] = first.text()
    return found
