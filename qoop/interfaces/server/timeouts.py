"""The address that a server listens at, and the limits and timeouts of all its clients."""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

_T = TypeVar("_T")


@value
class ClientLimits:
    """Limits and timeouts of all clients. hosts: names of the server that requests may use.

    body: bytes of a request. patience: seconds for a request to arrive, and for a client to read what is sent.
    connections: concurrent HTTP connections. idle: seconds that a connection may stay open without a request.
    """

    hosts: Sequence[str] = ("127.0.0.1", "localhost", "[::1]")
    body: int = 1 << 20
    patience: float = 20.0
    connections: int = 1000
    idle: float = 60.0


Manners = ClientLimits  # its name in programs written for earlier versions


@value
class Place:
    """The address to listen at. port: 0 for any that is free. certificate, key: files of TLS in PEM; neither: plain."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None

    @property
    def name(self) -> str:
        """The host as addresses have it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def check(self, users_are_identified: bool) -> None:
        """Raise ConfigError unless it is this machine alone that is listened to, or there are TLS and tokens."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("TLS needs both a certificate and a key")
        for file in filter(None, (self.certificate, self.key)):
            if not file.is_file():
                raise ConfigError(f"there is no file {file}")
        if is_loopback(self.host):
            return
        lacks = [what for what, there in (("TLS", self.certificate), ("users", users_are_identified)) if not there]
        if lacks:
            raise ConfigError(
                f"{self.host} is not this machine alone: to listen there takes a certificate and a file of users, "
                f"and there is no {' and no '.join(lacks)}"
            )


def is_loopback(host: str) -> bool:
    """True if only this machine reaches the host.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def first_to_go(strangers: Sequence[tuple[_T, str]]) -> _T:
    """The connection that goes where there are too many: the oldest one of the address that has most of them.

    strangers: connections whose users are not known, each with its address, from the oldest on.

    >>> first_to_go([(1, "::1"), (2, "192.0.2.1"), (3, "::1")])
    1
    """
    numbers = Counter(address for _, address in strangers)
    return max(strangers, key=lambda one: numbers[one[1]])[0]


def listening_socket(place: Place) -> socket.socket:
    """A socket that listens there. Raises ConfigError."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        return socket.create_server((place.host, place.port), family=family, backlog=1024)
    except OSError as error:
        raise ConfigError(f"cannot listen at {place.host}, port {place.port}: {error.strerror or error}") from error
