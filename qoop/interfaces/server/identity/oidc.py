"""Users with tokens of an issuer by OpenID Connect (the extra ``oidc``).

A token is a JSON Web Token with a signature by a key of the issuer. The keys are fetched once, again after an hour, and
at once for a token with an unknown key, since issuers replace their keys. If the issuer does not answer, the keys that
are known stay valid.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from qoop.catalog.errors import Busy, ConfigError, NotKnown
from qoop.catalog.value import value
from qoop.interfaces.server.limits import Limits
from qoop.interfaces.server.timeouts import is_loopback
from qoop.interfaces.server.users import User

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures with a pair of keys; a secret key of both sides, or none, is no signature of the issuer."""
_SKEW = 60
"""Seconds by which the clocks of the issuer and of this machine may differ."""
_KEEP_KEYS = 3600.0
_PAUSE = 10.0
"""Seconds between two requests for keys."""
_PATIENCE, _MOST_BYTES = 5.0, 1 << 20


@value
class IssuerSettings:
    """issuer: its URL, as tokens have it. audience: this server, as tokens have it. user, tenant: the fields of a token
    with the names. keys: the URL of the keys; by default the issuer says where they are. limits: of each user."""

    issuer: str
    audience: str
    user: str = "sub"
    tenant: str | None = None
    keys: str | None = None
    limits: Limits = Limits()


class Issuer:
    """Checks the tokens of an issuer. Thread-safe. clock: seconds since 1970.

    Raises ConfigError for a URL that is not secure, or without the extra.
    """

    def __init__(self, settings: IssuerSettings, clock: Callable[[], float] = time.time) -> None:
        for url in filter(None, (settings.issuer, settings.keys)):
            _check_url(url)
        try:
            import joserfc  # noqa: F401
        except ModuleNotFoundError as error:
            raise ConfigError("there is no joserfc, which OpenID Connect needs: pip install 'qoop[oidc]'") from error
        self._settings, self._clock = settings, clock
        self._keys: KeySet | None = None
        self._fetched = float("-inf")
        self._fetching = threading.Lock()

    def user(self, token: str) -> User:
        """The user of a token. Raises NotKnown, and Busy while the issuer has sent no keys."""
        facts = self._checked(token)
        name = self._text(facts, self._settings.user)
        tenant = name if self._settings.tenant is None else self._text(facts, self._settings.tenant)
        return User(name, tenant, limits=self._settings.limits, issued=True)

    def _text(self, facts: dict[str, Any], field: str) -> str:
        text = facts.get(field)
        if not isinstance(text, str) or not text:
            raise NotKnown(f"the token has no text {field}")
        return text

    def _checked(self, token: str) -> dict[str, Any]:
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        try:
            try:
                checked = jwt.decode(token, self._current_keys(), algorithms=_ALGORITHMS)
            except InvalidKeyIdError:
                checked = jwt.decode(token, self._current_keys(again=True), algorithms=_ALGORITHMS)
            rules = jwt.JWTClaimsRegistry(
                now=lambda: int(self._clock()),
                leeway=_SKEW,
                iss={"essential": True, "value": self._settings.issuer},
                aud={"essential": True, "value": self._settings.audience},
                exp={"essential": True},
            )
            rules.validate(checked.claims)
        except (JoseError, ValueError, TypeError) as error:
            raise NotKnown(f"the token is not valid: {error}") from error
        return checked.claims

    def _current_keys(self, again: bool = False) -> KeySet:
        """The keys of the issuer. again: also if those that are known are not old."""
        with self._fetching:
            age = self._clock() - self._fetched
            if age > _KEEP_KEYS or (age > _PAUSE and (again or self._keys is None)):
                self._fetched = self._clock()
                self._fetch()
            if self._keys is None:
                raise Busy(f"the keys of {self._settings.issuer} cannot be fetched at this time")
            return self._keys

    def _fetch(self) -> None:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        try:
            self._keys = KeySet.import_key_set(_json(self._settings.keys or self._place_of_keys()))
        except (OSError, ValueError, KeyError, TypeError, JoseError, ConfigError) as error:
            if self._keys is None:
                raise Busy(f"the keys of {self._settings.issuer} cannot be fetched: {error}") from error

    def _place_of_keys(self) -> str:
        """The URL of the keys, as the issuer publishes it."""
        known = _json(self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if known["issuer"] != self._settings.issuer:
            raise ValueError(f"it says that it is {known['issuer']}")
        return _check_url(str(known["jwks_uri"]))


def _check_url(url: str) -> str:
    """The URL, if no other machine can change its content on the way. Raises ConfigError."""
    try:
        parts = urlsplit(url)
        secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    except ValueError:
        secure = False
    if not secure:
        raise ConfigError(f"{url} must be a URL with https")
    return url


def _json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=_PATIENCE) as reply:  # its scheme was checked
        return json.loads(reply.read(_MOST_BYTES))
