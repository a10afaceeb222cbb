"""TLS between the processes of a session on several nodes, both sides with certificates.

The certificates are those that Ray itself is given: ``RAY_TLS_SERVER_CERT``, ``RAY_TLS_SERVER_KEY`` and
``RAY_TLS_CA_CERT`` name PEM files on each node. Both sides must have one that the authority has signed, and that of
the server must name the address at which its node is reached.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import field
from pathlib import Path

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

_FILES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


@value
class Certificates:
    """The certificate and key of a process, and the authority that it trusts; PEM."""

    own: bytes
    key: bytes = field(repr=False)
    authority: bytes


def uses_tls(option: bool | None, host: str) -> bool:
    """True if peers talk by TLS. option: the option ``ray_tls``; None: where certificates are named, unless the address
    is a loopback one. Raises ConfigError if it is requested and certificates are missing."""
    if option:
        certificates()
    return (bool(_named()) and not _is_loopback(host)) if option is None else option


def certificates() -> Certificates:
    """Those of this node. Raises ConfigError if they are not named, or cannot be read."""
    missing = [name for name in _FILES if name not in _named()]
    if missing:
        raise ConfigError(f"TLS between nodes needs files that are not named: set {', '.join(missing)}, as for Ray")
    own, key, authority = (_read(name) for name in _FILES)
    return Certificates(own, key, authority)


def server_context() -> ssl.SSLContext:
    """TLS for a connection that this process accepts. Raises ConfigError as `certificates` does."""
    return _context(ssl.PROTOCOL_TLS_SERVER)


def client_context() -> ssl.SSLContext:
    """TLS for a connection that it opens, to a host that the certificate there must name. Raises ConfigError as
    `certificates` does."""
    return _context(ssl.PROTOCOL_TLS_CLIENT)


def _context(side: int) -> ssl.SSLContext:
    authority = certificates().authority.decode()
    made = ssl.SSLContext(side)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_mode = ssl.CERT_REQUIRED
    own, key = (os.environ[name] for name in _FILES[:2])
    try:
        made.load_cert_chain(own, key)
        made.load_verify_locations(cadata=authority)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{own} and {key} are no certificate with its key: {error}") from error
    return made


def _named() -> list[str]:
    return [name for name in _FILES if os.environ.get(name)]


def _read(name: str) -> bytes:
    path = Path(os.environ[name])
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the file {path}, named by {name}, cannot be read: {error.strerror}") from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
