"""Passwords of attached databases, kept out of the texts of queries: in a file that libpq reads, the user's alone.

The text that reads such a table is a part of each query that names it, so EXPLAIN, errors, the page and traces show
it.
"""

from __future__ import annotations

import re
import tempfile
from typing import IO
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from qoop.catalog.errors import QueryError

_URI = ("postgresql://", "postgres://")
_WORD = re.compile(r"\bpassword\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s\\]|\\.)*))\s*", re.IGNORECASE | re.DOTALL)


class PasswordFile:
    """A password in a file of the temporary folder, until it is dropped.

    Raises QueryError for one with a line break.
    """

    def __init__(self, password: str) -> None:
        if "\n" in password:
            raise QueryError("a password with a line break cannot be kept: leave it to PGPASSWORD")
        self._file: IO[str] = tempfile.NamedTemporaryFile("w", prefix="qoop-pass-", encoding="utf-8")  # noqa: SIM115
        escaped = password.replace("\\", "\\\\").replace(":", "\\:")
        self._file.write(f"*:*:*:*:{escaped}\n")
        self._file.flush()

    @property
    def path(self) -> str:
        """The place of the file."""
        return self._file.name


def without_password(place: str) -> tuple[str, PasswordFile | None]:
    r"""A place as libpq takes it, with the name of a file where it had a password; None: it had none.

    >>> without_password("host=there dbname=shop")
    ('host=there dbname=shop', None)
    >>> place, kept = without_password(r"host=there password='it\'s' dbname=shop")
    >>> place == f"host=there dbname=shop passfile='{kept.path}'"
    True
    """
    return _of_uri(place) if place.startswith(_URI) else _of_words(place)


def _of_words(place: str) -> tuple[str, PasswordFile | None]:
    found = _WORD.search(place)
    if found is None:
        return place, None
    kept = PasswordFile(re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2], flags=re.DOTALL))
    return f"{_WORD.sub('', place).strip()} passfile='{kept.path}'", kept


def _of_uri(place: str) -> tuple[str, PasswordFile | None]:
    parts = urlsplit(place)
    login, at, host = parts.netloc.rpartition("@")
    user, _, encoded = login.partition(":")
    words = parse_qsl(parts.query, keep_blank_values=True)
    password = next((value for name, value in words if name == "password"), unquote(encoded))
    if not password:
        return place, None
    kept = PasswordFile(password)
    others = [(name, value) for name, value in words if name not in ("password", "passfile")]
    query = urlencode([*others, ("passfile", kept.path)], quote_via=quote)
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}", query=query)), kept
