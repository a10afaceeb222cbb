"""Verifiers of passwords by SCRAM-SHA-256, in the form that PostgreSQL keeps them in.

A verifier suffices to check that a client knows the password, and does not reveal it. Sources: RFC 5802 and RFC 7677.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

OF_TOKEN = 4096
"""Rounds for a token: RFC 7677 asks for as many, and 256 random bits need no more."""
OF_PASSWORD = 100_000
"""Rounds for a password, which people choose: a client takes some 0.1 s for them."""

_FORM = re.compile(r"SCRAM-SHA-256\$(\d{4,7}):([\w+/=]+)\$([\w+/=]+):([\w+/=]+)", re.ASCII)
_SALT, _KEY = 16, 32  # bytes; a salt has at least as many


@value
class Verifier:
    """All that a server needs to check a password. rounds: of PBKDF2."""

    rounds: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        salt, stored, server = (base64.b64encode(one).decode() for one in (self.salt, self.stored_key, self.server_key))
        return f"SCRAM-SHA-256${self.rounds}:{salt}${stored}:{server}"


def read_verifier(text: str) -> Verifier:
    """The verifier of a text. Raises ValueError.

    >>> str(read_verifier(str(new_verifier("a password"))))[:19], read_verifier("SCRAM-SHA-256$1:a$b:c")
    Traceback (most recent call last):
    ValueError: it is not SCRAM-SHA-256$ROUNDS:SALT$KEY:KEY
    """
    found = _FORM.fullmatch(text)
    try:
        salt, stored, server = (base64.b64decode(one, validate=True) for one in (found.groups()[1:] if found else ()))
    except (ValueError, binascii.Error):
        raise ValueError("it is not SCRAM-SHA-256$ROUNDS:SALT$KEY:KEY") from None
    assert found is not None
    if len(salt) < _SALT or len(stored) != _KEY or len(server) != _KEY or int(found[1]) < OF_TOKEN:
        raise ValueError(f"it has less than {OF_TOKEN} rounds, or its salt or keys have another length")
    return Verifier(int(found[1]), salt, stored, server)


def new_verifier(password: str, rounds: int = OF_TOKEN, salt: bytes | None = None) -> Verifier:
    """A verifier of a password or token. salt: by default a new one. Raises ConfigError.

    Clients bring what is not ASCII into a normal form first, which is not done here.

    >>> new_verifier("pencil", 4096, bytes(16)).stored_key.hex()[:8]
    '7186f6e3'
    """
    if not password.isascii() or not password.isprintable():
        raise ConfigError("a password for SCRAM must be of printable ASCII characters")
    salt = secrets.token_bytes(_SALT) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    return Verifier(rounds, salt, stored, hmac.digest(salted, b"Server Key", "sha256"))


def decoy_verifier(like: Verifier, key: bytes) -> Verifier:
    """A verifier that no password fits, with the same salt whenever it is made from that key; it looks like another."""
    return Verifier(
        like.rounds,
        hashlib.shake_256(b"salt" + key).digest(len(like.salt)),
        secrets.token_bytes(_KEY),
        secrets.token_bytes(_KEY),
    )
