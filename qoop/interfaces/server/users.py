"""The file of users: their tokens and passwords, tenants and limits.

It is TOML, with a table for each user. ``qoop serve --new-user NAME`` prints one with a new token::

    [ana]
    token = "sha256:9f86…"    # or: password = "scrypt:<salt>:<digest>"
    scram = "SCRAM-SHA-256$…" # the same one's verifier, for clients of PostgreSQL
    tenant = "dashboards"     # by default the name of the user
    longest_query = 60        # seconds
    rows = 1000000            # of an answer
    queries = 4               # at a time
    rate = 600                # requests a minute

    [tenants.dashboards]      # the same limits, for all of its users together
    queries = 10
    slots = 2                 # that their tasks may hold at a time
    memory = "2GB"            # the same

The file holds digests only. That of a token is a plain SHA-256, as tokens are 256 random bits, and so is quick; that of
a password is scrypt, and one that was right is remembered by a digest under a key of this process.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stat
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qoop.catalog.errors import Busy, ConfigError, NotKnown
from qoop.catalog.value import value
from qoop.interfaces.server.limits import LIMITS, OF_USERS, Limits, Rates
from qoop.interfaces.server.verifiers import (
    OF_PASSWORD,
    OF_TOKEN,
    Verifier,
    decoy_verifier,
    new_verifier,
    read_verifier,
)

_OPTIONS = ("token", "password", "scram", "tenant", *OF_USERS)
_TENANTS = "tenants"
"""The table of the file that is not of a user."""
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_WAITING = 8
"""Passwords that may wait to be checked: each takes 16 MB and 50 ms, one at a time, and a thread of its request."""
_WRONG = 30
"""Wrong passwords a minute from an address: the next are refused without a look at them."""
_DECOY_PASSWORD = "scrypt:" + "00" * 16 + ":" + "00" * 32
"""A password that no text has: a name that does not exist takes as long to refuse as a wrong password."""
_DECOY_VERIFIER = Verifier(OF_TOKEN, bytes(16), bytes(32), bytes(32))


@value
class User:
    """A user of the server. secret: the digest of the token or password. verifier: the same for SCRAM. limits: its
    own."""

    name: str
    tenant: str
    secret: str = ""
    limits: Limits = Limits()
    verifier: Verifier | None = None


ANYBODY = User("anybody", "")
"""The user where there is no file of users; only on this machine."""


class Users:
    """The users of a server. users: None, if any client may connect."""

    def __init__(self, users: Mapping[str, User] | None = None, tenants: Mapping[str, Limits] | None = None) -> None:
        self._users = users
        self._tenants = tenants or {}
        self._by_token = {user.secret: user for user in (users or {}).values() if user.secret.startswith("sha256:")}
        self._key = secrets.token_bytes(32)
        secrets_text = "".join(sorted(user.secret for user in (users or {}).values()))
        self._of_strangers = hashlib.sha256(secrets_text.encode()).digest()  # the same when the server begins again
        self._right: dict[bytes, User] = {}
        self._one_at_a_time = threading.Lock()
        self._waiting = threading.BoundedSemaphore(_WAITING)
        self._wrong, self._counting = Rates(), threading.Lock()

    @property
    def are_identified(self) -> bool:
        """True if there is a file of users, so that each request needs a token or a password."""
        return self._users is not None

    def of_name(self, name: str) -> User | None:
        """The user of that name, if there still is one."""
        return ANYBODY if self._users is None else self._users.get(name)

    def verifier(self, name: str, clear: bool) -> Verifier | None:
        """The verifier for the password of that name; None: it comes in clear text, as it may if ``clear``.

        An unknown name gets the same challenge as a known one, and every password is wrong.
        """
        user = (self._users or {}).get(name)
        if user is not None and (user.verifier is not None or clear):
            return user.verifier
        key = hmac.digest(self._of_strangers, name.encode(errors="surrogatepass"), "sha256")
        others = [one.verifier for one in (self._users or {}).values() if clear or one.verifier is not None]
        like = others[int.from_bytes(key, "big") % len(others)] if others else _DECOY_VERIFIER
        return None if like is None else decoy_verifier(like, key)

    @property
    def without_verifier(self) -> Sequence[str]:
        """The users that need TLS to connect by PostgreSQL's protocol."""
        return [name for name, user in (self._users or {}).items() if user.verifier is None]

    @property
    def tenants(self) -> Mapping[str, Limits]:
        """The limits of tenants, by name."""
        return self._tenants

    def of_tenant(self, tenant: str) -> Limits:
        """The limits of all users of a tenant together."""
        return self._tenants.get(tenant, Limits())

    def of_header(self, header: str | None, address: str = "") -> User:
        """The user of an Authorization header, which is ``Bearer TOKEN`` or ``Basic …``. Raises as `of_password`."""
        if self._users is None:
            return ANYBODY
        kind, _, credentials = (header or "").partition(" ")
        if kind.lower() == "bearer":
            return self.of_token(credentials.strip())
        if kind.lower() == "basic":
            return self.of_password(*_basic(credentials), address)
        raise NotKnown("a token is needed, as the header Authorization: Bearer TOKEN")

    def of_token(self, token: str) -> User:
        """The user with that token. Raises NotKnown."""
        user = self._by_token.get(token_digest(token))  # its time depends on digests, not on tokens
        if user is None:
            raise NotKnown("no user has that token")
        return user

    def of_password(self, name: str, password: str, address: str = "") -> User:
        """The user of that name with that password, or with that token in its place. address: of the client, if known.

        Raises NotKnown, TooOften after many wrong ones, Busy while many are checked.
        """
        if self._users is None:
            return ANYBODY
        user = self._users.get(name)
        if user is not None and hmac.compare_digest(user.secret, token_digest(password)):
            return user
        digest = hmac.digest(self._key, f"{len(name)} {name}{password}".encode(errors="surrogatepass"), "sha256")
        if digest not in self._right:
            self._right[digest] = self._checked(user, password, address or f"the user {name}")
        return self._right[digest]

    def token_of(self, user: User) -> str:
        """A token for a user that came with a password, valid as long as this process."""
        token = hmac.digest(self._key, f"the token of {user.name}".encode(), "sha256").hex()
        self._by_token[token_digest(token)] = user
        return token

    def _checked(self, user: User | None, password: str, source: str) -> User:
        with self._counting:
            self._wrong.check(source, _WRONG)
        if not self._waiting.acquire(blocking=False):
            raise Busy("many passwords are checked at this moment: try again, or come with a token")
        try:
            expected = user.secret if user is not None and user.secret.startswith("scrypt:") else _DECOY_PASSWORD
            with self._one_at_a_time:  # many at a time are no way to fill the machine
                right = hmac.compare_digest(expected, password_digest(password, bytes.fromhex(expected.split(":")[1])))
        finally:
            self._waiting.release()
        if user is None or not right:
            with self._counting:
                self._wrong.take(source, _WRONG)
            raise NotKnown("no user has that name and password")
        return user


def token_digest(token: str) -> str:
    """The digest of a token, as the file holds it.

    >>> token_digest("an example")
    'sha256:73300871f44c168e7c949de2c750e60c2c9bb8ff530017c5a267234e9cb4db8e'
    """
    return "sha256:" + hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def password_digest(password: str, salt: bytes | None = None) -> str:
    """The digest of a password, as the file holds it. salt: by default a new one."""
    salt = os.urandom(16) if salt is None else salt
    digest = hashlib.scrypt(password.encode(errors="surrogatepass"), salt=salt, n=2**14, r=8, p=1)
    return f"scrypt:{salt.hex()}:{digest.hex()}"


def new_user(name: str, password: str | None = None) -> tuple[str, str]:
    """The token, and the lines of the file of users for a new user. password: in place of a new token.

    Raises ConfigError for a password that is empty, or not of ASCII.
    """
    if password == "":
        raise ConfigError("a password must not be empty")
    secret = secrets.token_urlsafe(32) if password is None else password
    digest = f'token = "{token_digest(secret)}"' if password is None else f'password = "{password_digest(secret)}"'
    verifier = new_verifier(secret) if password is None else new_verifier(secret, OF_PASSWORD)
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return secret, f'[{quoted}]\n{digest}\nscram = "{verifier}"\n'


def read_users(path: Path) -> Users:
    """The users of a file. Raises ConfigError, which names the file and the user."""
    import tomllib

    try:
        if path.stat().st_mode & _OTHERS_MAY_WRITE:
            raise ConfigError(f"{path} may be written by other users of this machine: chmod go-w it first")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    if not tables.keys() - {_TENANTS}:
        raise ConfigError(f"{path} has no users; qoop serve --new-user NAME prints the lines of one")
    tenants = _tenants(f"{path}: {_TENANTS}", tables.pop(_TENANTS, {}))
    users = {name: _user(f"{path}: {name}", name, table) for name, table in tables.items()}
    unknown = tenants.keys() - {user.tenant for user in users.values()}
    if unknown:
        raise ConfigError(f"{path} has limits of {', '.join(sorted(unknown))}, which no user is of")
    return Users(users, tenants)


def _tenants(place: str, table: object) -> dict[str, Limits]:
    if not isinstance(table, dict) or not all(isinstance(one, dict) for one in table.values()):
        raise ConfigError(f"{place} must be tables of limits, such as [tenants.dashboards]")
    for name, limits in table.items():
        _check_options(f"{place}.{name}", limits, LIMITS)
    return {name: Limits.of(f"{place}.{name}", limits) for name, limits in table.items()}


def _check_options(place: str, table: Mapping[str, object], known: Sequence[str]) -> None:
    unknown = table.keys() - set(known)
    if unknown:
        raise ConfigError(f"{place} has no option {', '.join(sorted(unknown))}; there are {', '.join(known)}")


def _user(place: str, name: str, table: object) -> User:
    if not isinstance(table, dict):
        raise ConfigError(f"{place} must be the table of a user, such as [ana]")
    _check_options(place, table, _OPTIONS)
    tenant = table.get("tenant", name)
    if not isinstance(tenant, str):
        raise ConfigError(f"{place}: tenant must be a text, not {tenant!r}")
    return User(name, tenant, _secret(place, table), Limits.of(place, table), _verifier(place, table))


def _verifier(place: str, table: Mapping[str, object]) -> Verifier | None:
    try:
        return read_verifier(str(table["scram"])) if "scram" in table else None
    except ValueError as error:
        raise ConfigError(f"{place}: scram is no verifier as qoop serve --new-user prints it: {error}") from None


def _secret(place: str, table: Mapping[str, Any]) -> str:
    kinds = {"token": ("sha256", [64]), "password": ("scrypt", [32, 128])}
    [*names] = kinds.keys() & table.keys()
    if len(names) != 1:
        raise ConfigError(f"{place} needs either a token or a password")
    kind, lengths = kinds[names[0]]
    algorithm, *digits = str(table[names[0]]).split(":")
    if algorithm != kind or [len(part) for part in digits] != lengths or not _are_hex(digits):
        raise ConfigError(f"{place}: {names[0]} must be a digest, {kind}:…, as qoop serve --new-user prints it")
    return str(table[names[0]]).lower()


def _are_hex(parts: list[str]) -> bool:
    return all(digit in "0123456789abcdefABCDEF" for part in parts for digit in part)


def _basic(encoded: str) -> tuple[str, str]:
    """The name and the password of a Basic header."""
    try:
        padded = encoded + "=" * (-len(encoded) % 4)  # drivers of Flight SQL leave it out
        name, colon, password = base64.b64decode(padded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise NotKnown("the header Authorization: Basic is not base64 of NAME:PASSWORD") from error
    if not colon:
        raise NotKnown("the header Authorization: Basic is not base64 of NAME:PASSWORD")
    return name, password
