"""Statements that change nothing here: transactions of readers, SET of what clients always set, SHOW of it."""

from __future__ import annotations

from collections.abc import Sequence

from qoop.catalog.errors import Forbidden
from qoop.catalog.lexer import Lexeme, lexed
from qoop.catalog.value import value

SETTINGS = {
    "server_version": "14.0", "server_encoding": "UTF8", "client_encoding": "UTF8", "datestyle": "ISO, MDY",
    "intervalstyle": "postgres", "timezone": "UTC", "integer_datetimes": "on", "standard_conforming_strings": "on",
    "is_superuser": "off", "in_hot_standby": "off", "default_transaction_read_only": "on",
    "transaction_isolation": "read committed", "transaction_read_only": "on", "search_path": "main",
    "max_identifier_length": "63", "extra_float_digits": "1", "bytea_output": "hex", "application_name": "",
    "statement_timeout": "0", "lc_collate": "C", "lc_ctype": "C", "server_version_num": "140000",
    "max_index_keys": "32",
}  # fmt: skip
"""Settings that SHOW tells; clients hear some of them at their begin."""
ANNOUNCED = {
    "server_version": "server_version", "server_encoding": "server_encoding", "client_encoding": "client_encoding",
    "datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone",
    "integer_datetimes": "integer_datetimes", "standard_conforming_strings": "standard_conforming_strings",
    "is_superuser": "is_superuser", "default_transaction_read_only": "default_transaction_read_only",
}  # fmt: skip
"""The settings that the server reports to each client at its begin, by PostgreSQL's names."""

_ANY_VALUE = {
    "application_name", "extra_float_digits", "statement_timeout", "lock_timeout", "client_min_messages",
    "idle_in_transaction_session_timeout", "search_path", "bytea_output", "jit", "transaction", "session",
    "row_security", "lc_messages", "idle_session_timeout",
}  # fmt: skip
"""Settings that may be set to anything: they change no answer of a server that reads only."""
_ONLY = {
    "client_encoding": ("utf8", "utf-8", "unicode", "'utf8'", "'utf-8'", "'unicode'"), "datestyle": ("iso", "'iso'"),
    "standard_conforming_strings": ("on", "'on'", "true"), "timezone": ("utc", "'utc'", "'gmt'", "'etc/utc'"),
    "intervalstyle": ("postgres", "'postgres'"), "names": ("'utf8'", "'utf-8'", "utf8"),
}  # fmt: skip
"""Settings that must be what they are."""


@value
class SessionStatement:
    """A statement that needs no query. tag: what says that it is done. status: of the transaction after it, empty: as
    before. row: the name and the value of its only row, if it has one."""

    tag: str
    status: str = ""
    row: tuple[str, str] | None = None


def session_statement(text: str, status: str) -> SessionStatement | None:
    """A statement that the server answers without the engine; None for one of the engine's.

    Raises Forbidden for a SET that would change answers.

    >>> session_statement("BEGIN", "I")
    SessionStatement(tag='BEGIN', status='T', row=None)
    >>> session_statement("rollback;", "E").status, session_statement("SHOW client_encoding", "I").row
    ('I', ('client_encoding', 'UTF8'))
    >>> session_statement("FROM t", "I")
    """
    words = [word for word in lexed(text).words if word.text != ";"]
    first = words[0].text.upper() if words and words[0].kind == "word" else ""
    match first:
        case "BEGIN" | "START":
            return SessionStatement("BEGIN", "T")
        case "COMMIT" | "END":
            return SessionStatement("ROLLBACK" if status == "E" else "COMMIT", "I")
        case "ROLLBACK" | "ABORT":
            to_savepoint = any(word.says("TO") for word in words)
            return SessionStatement("ROLLBACK", "T" if to_savepoint else "I")
        case "SAVEPOINT" | "RELEASE" | "DISCARD" | "RESET" | "UNLISTEN":
            return SessionStatement({"DISCARD": "DISCARD ALL", "UNLISTEN": "UNLISTEN"}.get(first, first))
        case "SET":
            return _set(words[1:])
        case "SHOW":
            return _shown(words[1:])
    return None


def _set(words: Sequence[Lexeme]) -> SessionStatement:
    names = [word.text.lower() for word in words]
    if names[:1] in (["session"], ["local"]) and names[1:2] not in (["characteristics"], ["authorization"]):
        names = names[1:]
    name = "timezone" if names[:2] == ["time", "zone"] else names[0] if names else ""
    value_words = names[2:3] if len(names) > 2 else names[1:2]
    if name in _ANY_VALUE or value_words[:1] == ["default"] or (value_words and value_words[0] in _ONLY.get(name, ())):
        return SessionStatement("SET")
    has = f": it stays {SETTINGS[name]}" if name in SETTINGS else ""
    raise Forbidden(f"a server does not SET {name or 'nothing'}{has}; its session is that of all users")


def _shown(words: Sequence[Lexeme]) -> SessionStatement | None:
    name = "_".join(word.text.lower() for word in words)
    name = {"time_zone": "timezone", "transaction_isolation_level": "transaction_isolation"}.get(name, name)
    return SessionStatement("SHOW", row=(name, SETTINGS[name])) if name in SETTINGS else None
