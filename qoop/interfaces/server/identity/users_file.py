"""The file of users: their tokens and passwords, tenants, limits, and the issuer of tokens by OpenID Connect.

It is TOML, with a table for each user. ``qoop serve --new-user NAME`` prints one with a new token::

    [ana]
    token = "sha256:9f86…"    # or: password = "scrypt:<salt>:<digest>"
    scram = "SCRAM-SHA-256$…" # the same one's verifier, for clients of PostgreSQL
    tenant = "dashboards"     # by default the name of the user
    longest_query = 60        # seconds
    rows = 1000000            # of an answer
    result_bytes = "1GB"      # of an answer
    queries = 4               # at a time
    queue = 10                # that may wait besides
    rate = 600                # requests a minute
    slots = 2                 # that its tasks may hold at a time
    memory = "1GB"            # the same
    isolation = "process"     # all its queries run in child processes

    [tenants.dashboards]      # the same limits, for all of its users together
    queries = 10
    memory = "2GB"

    [oidc]                    # users with tokens of an issuer; limits as above, for each
    issuer = "https://login.example.com"
    audience = "qoop"
    user = "email"            # the field of the token that names the user; by default sub
    tenant = "team"           # and the tenant; by default the name of the user
    keys = "https://…"        # of its keys; by default the issuer says where they are

The file has digests only. That of a token is a plain SHA-256, as tokens are 256 random bits, and so is quick; that of
a password is scrypt.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import ConfigError
from qoop.catalog.faults import Faults
from qoop.interfaces.server.limits import LIMITS, Limits
from qoop.interfaces.server.users import User, Users
from qoop.interfaces.server.verifiers import Verifier, read_verifier

if TYPE_CHECKING:
    from qoop.interfaces.server.identity.oidc import Issuer

_OPTIONS = ("token", "password", "scram", "tenant", *LIMITS)
_TENANTS, _OIDC = "tenants", "oidc"
"""The tables of the file that are not of a user."""
_OF_ISSUER = ("issuer", "audience", "user", "tenant", "keys")
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def read_users(path: Path) -> Users:
    """The users of a file. Raises ConfigError, which names the file and each fault with its user."""
    tables, faults = _tables(path), Faults()
    no_tenants: dict[str, Limits] = {}
    tenants = faults.read(partial(_tenants, f"{path}: {_TENANTS}", tables.pop(_TENANTS, {})), no_tenants)
    has_issuer = _OIDC in tables
    issuer = faults.read(partial(_issuer, f"{path}: {_OIDC}", tables.pop(_OIDC, None)), None)
    read = {name: partial(_user, f"{path}: {name}", name, table) for name, table in tables.items()}
    users = {name: user for name, one in read.items() if (user := faults.read(one, None)) is not None}
    unknown = tenants.keys() - {user.tenant for user in users.values()}
    if unknown and not has_issuer and len(users) == len(tables):
        faults.add(f"{path} has limits of {', '.join(sorted(unknown))}, which no user is of")
    faults.check()
    return Users(users, tenants, issuer)


def _tables(path: Path) -> dict[str, Any]:
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
    return tables


def _tenants(place: str, table: object) -> dict[str, Limits]:
    if not isinstance(table, dict) or not all(isinstance(one, dict) for one in table.values()):
        raise ConfigError(f"{place} must be tables of limits, such as [tenants.dashboards]")
    faults = Faults()
    for name, limits in table.items():
        faults.read(partial(_check_options, f"{place}.{name}", limits, LIMITS), None)
    found = {
        name: faults.read(partial(Limits.of, f"{place}.{name}", limits), Limits()) for name, limits in table.items()
    }
    faults.check()
    return found


def _issuer(place: str, table: object) -> Issuer | None:
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ConfigError(f"{place} must be a table with the issuer of tokens and their audience")
    from qoop.interfaces.server.identity.oidc import Issuer, IssuerSettings

    faults = Faults()
    faults.read(partial(_check_options, place, table, (*_OF_ISSUER, *LIMITS)), None)
    limits = faults.read(partial(Limits.of, place, table), Limits())
    for name in ("issuer", "audience"):
        if name not in table:
            faults.add(f"{place} needs {name}")
    texts = {name: table[name] for name in _OF_ISSUER if name in table}
    for name, text in texts.items():
        if not isinstance(text, str) or not text:
            faults.add(f"{place}: {name} must be a text, not {text!r}")
    faults.check()
    try:
        return Issuer(IssuerSettings(**texts, limits=limits))
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _check_options(place: str, table: Mapping[str, object], known: Sequence[str]) -> None:
    unknown = table.keys() - set(known)
    if unknown:
        raise ConfigError(f"{place} has no option {', '.join(sorted(unknown))}; there are {', '.join(known)}")


def _user(place: str, name: str, table: object) -> User | None:
    if not isinstance(table, dict):
        raise ConfigError(f"{place} must be the table of a user, such as [ana]")
    faults = Faults()
    faults.read(partial(_check_options, place, table, _OPTIONS), None)
    tenant = table.get("tenant", name)
    if not isinstance(tenant, str):
        faults.add(f"{place}: tenant must be a text, not {tenant!r}")
    secret = faults.read(partial(_secret, place, table), "")
    limits = faults.read(partial(Limits.of, place, table), Limits())
    verifier = faults.read(partial(_verifier, place, table), None)
    faults.check()
    return User(name, str(tenant), secret, limits, verifier)


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
