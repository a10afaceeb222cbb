"""The users of a server: the user of a token or a password, and the limits of tenants.

They are read from a file (`users_file`), which may be read again while the server runs. A password that was right is
remembered by a digest under a key of this process.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import hmac
import os
import secrets
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import field
from pathlib import Path
from typing import Protocol

from qoop.catalog.errors import Busy, ConfigError, NotKnown
from qoop.catalog.stores.private import make_folder
from qoop.catalog.value import value
from qoop.interfaces.server.limits import Limits, Rates
from qoop.interfaces.server.verifiers import (
    OF_PASSWORD,
    OF_TOKEN,
    Verifier,
    decoy_verifier,
    new_verifier,
)

_WAITING = 8
"""Passwords that may wait to be checked: each takes 16 MB and 50 ms, one at a time, and a thread of its request."""
_WRONG = 30
"""Wrong passwords a minute from an address: the next are refused without a look at them."""
_KEY_BYTES = 32
_DECOY_PASSWORD = "scrypt:" + "00" * 16 + ":" + "00" * 32
"""A password that no text has: a name that does not exist takes as long to refuse as a wrong password."""
_DECOY_VERIFIER = Verifier(OF_TOKEN, bytes(16), bytes(32), bytes(32))


@value
class User:
    """A user of the server. secret: the digest of the token or password. verifier: the same for SCRAM. limits: its
    own. issued: the user has a token of the issuer, and no entry in the file."""

    name: str
    tenant: str
    secret: str = ""
    limits: Limits = Limits()
    verifier: Verifier | None = None
    issued: bool = False


ANYBODY = User("anybody", "")
"""The user where there is no file of users; only on this machine."""


class TokenIssuer(Protocol):
    """Issues tokens to users that are not in the file."""

    def user(self, token: str) -> User:
        """The user of a token. Raises NotKnown, Busy."""


@value
class _File:
    """The content of a file of users. users: None, if any client may connect. by_token: the users with tokens."""

    users: Mapping[str, User] | None
    tenants: Mapping[str, Limits]
    issuer: TokenIssuer | None
    by_token: Mapping[str, User] = field(init=False)
    of_strangers: bytes = field(init=False)

    def __post_init__(self) -> None:
        users = (self.users or {}).values()
        by_token = {user.secret: user for user in users if user.secret.startswith("sha256:")}
        object.__setattr__(self, "by_token", by_token)
        text = "".join(sorted(user.secret for user in users))  # the same when the server begins again
        object.__setattr__(self, "of_strangers", hashlib.sha256(text.encode()).digest())


class Users:
    """The users of a server. users: None, if any client may connect. issuer: of tokens for users of another list."""

    def __init__(
        self,
        users: Mapping[str, User] | None = None,
        tenants: Mapping[str, Limits] | None = None,
        issuer: TokenIssuer | None = None,
    ) -> None:
        self._file = _File(users, tenants or {}, issuer)
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._right: dict[bytes, str] = {}
        """The secret in the file for each password that was right."""
        self._issued: tuple[_File, Mapping[str, User]] | None = None
        """The users of a file by the digests of the tokens that they get for passwords."""
        self._one_at_a_time = threading.Lock()
        self._waiting = threading.BoundedSemaphore(_WAITING)
        self._wrong, self._counting = Rates(), threading.Lock()

    @property
    def _users(self) -> Mapping[str, User] | None:
        return self._file.users

    def replace(self, users: Users) -> None:
        """Take over the users and tenants of others at once; tokens and passwords that are no longer there end."""
        self._file = users._file

    def current(self, user: User) -> User:
        """A user as it is now, for a connection that has been open for a while. Raises NotKnown."""
        if self._users is None or (user.issued and self._file.issuer is not None):
            return user
        if (found := self._users.get(user.name)) is None:
            raise NotKnown(f"there is no user {user.name} any more")
        return found

    def __len__(self) -> int:
        """The number of users in the file."""
        return len(self._users or {})

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
        key = hmac.digest(self._file.of_strangers, name.encode(errors="surrogatepass"), "sha256")
        others = [one.verifier for one in (self._users or {}).values() if clear or one.verifier is not None]
        like = others[int.from_bytes(key, "big") % len(others)] if others else _DECOY_VERIFIER
        return None if like is None else decoy_verifier(like, key)

    @property
    def without_verifier(self) -> Sequence[str]:
        """The users that need TLS to connect by PostgreSQL's protocol."""
        return [name for name, user in (self._users or {}).items() if user.verifier is None]

    @property
    def names(self) -> Set[str]:
        """The names of the users in the file."""
        return (self._users or {}).keys()

    @property
    def tenants(self) -> Mapping[str, Limits]:
        """The limits of tenants, by name."""
        return self._file.tenants

    def of_tenant(self, tenant: str) -> Limits:
        """The limits of all users of a tenant together."""
        return self._file.tenants.get(tenant, Limits())

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
        file, digest = self._file, token_digest(token)
        user = file.by_token.get(digest)  # its time depends on digests, not on tokens
        if user is None:
            user = self._by_issued_token(file).get(digest)
        if user is None and file.issuer is not None and may_be_signed(token):
            user = file.issuer.user(token)
            if user.name in (file.users or {}):
                raise NotKnown(f"the token is of {user.name}, which is a name in the file of users")
        if user is None:
            raise NotKnown("no user has that token")
        return user

    def may_wait(self, header: str) -> bool:
        """True for an Authorization header whose check takes its time: a password, or a token of an issuer."""
        kind, _, credentials = header.partition(" ")
        return kind.lower() == "basic" or (self._file.issuer is not None and may_be_signed(credentials))

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
        if user is None or self._right.get(digest) != user.secret:
            user = self._checked(user, password, address or f"the user {name}")
            self._right[digest] = user.secret
        return user

    def token_of(self, user: User) -> str:
        """A token for a user that came with a password, valid in all servers of the same key and file."""
        return self.sign(f"the token of {user.name} {user.secret}").hex()

    def sign(self, text: str) -> bytes:
        """A seal that only servers of the same key can make."""
        return hmac.digest(self._key, text.encode(errors="surrogatepass"), "sha256")

    def share_key(self, path: Path) -> None:
        """Use the key in a file, which is made if need be: what this server seals is valid in others, and later ones.

        Raises ConfigError for a file that cannot be used.
        """
        try:
            make_folder(path.parent)
            with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # servers that begin together
                key = file.read(_KEY_BYTES)
                if len(key) < _KEY_BYTES:
                    key = secrets.token_bytes(_KEY_BYTES)
                    file.seek(0)
                    file.write(key)
        except OSError as error:
            raise ConfigError(f"cannot use the key of the server in {path}: {error.strerror}") from error
        self._key = key

    def _by_issued_token(self, file: _File) -> Mapping[str, User]:
        issued = self._issued
        if issued is None or issued[0] is not file:
            users = (file.users or {}).values()
            issued = file, {token_digest(self.token_of(user)): user for user in users}
            self._issued = issued
        return issued[1]

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


def may_be_signed(token: str) -> bool:
    """True for a token in the form of a signed one (RFC 7519): three parts with dots between them."""
    return token.count(".") == 2


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
