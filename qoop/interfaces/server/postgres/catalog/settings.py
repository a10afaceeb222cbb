"""The settings of one client: those of PostgreSQL, which it may set and see, though few of them have an effect here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from qoop.catalog.duckdb_introspection import ask
from qoop.catalog.errors import ConfigError, Forbidden, QueryError, TooMuch
from qoop.query.statements.settings import option

REPORTED = {
    "server_version": "server_version", "server_encoding": "server_encoding", "client_encoding": "client_encoding",
    "datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone",
    "integer_datetimes": "integer_datetimes", "standard_conforming_strings": "standard_conforming_strings",
    "is_superuser": "is_superuser", "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby", "application_name": "application_name",
    "session_authorization": "session_authorization", "search_path": "search_path",
    "scram_iterations": "scram_iterations",
}  # fmt: skip
"""The settings that a client hears of at its begin, and when they change, by the names that it knows."""

_ONLY = {
    "client_encoding": ("utf8", "utf-8", "unicode"), "standard_conforming_strings": ("on", "true", "1", "yes"),
    "datestyle": ("iso", "iso, mdy", "iso,mdy", "iso, ymd", "iso, dmy", "iso,ymd", "iso,dmy"),
    "intervalstyle": ("postgres", "iso_8601"),
    "bytea_output": ("hex",), "role": ("none",),
}  # fmt: skip
"""Settings that decide what a value is sent as, and the values that they must have."""
_UTC = ("utc", "gmt", "etc/utc", "etc/gmt", "z", "zulu", "etc/uct", "uct", "universal", "etc/universal", "0")
_MOST, _LONGEST = 400, 4_000
_FIXED = (
    "server_version", "server_version_num", "server_encoding", "is_superuser", "in_hot_standby", "integer_datetimes",
    "max_connections", "block_size", "lc_collate", "lc_ctype", "ssl", "wal_level", "max_identifier_length",
)  # fmt: skip


@cache
def defaults() -> Mapping[str, str]:
    """The settings of PostgreSQL and their values, by names in lower case."""
    lines = files(f"{__package__}.data").joinpath("settings.txt").read_text(encoding="ascii").splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


class ClientSettings:
    """The settings of one client. Those that it sets in a transaction last as PostgreSQL's do."""

    def __init__(self, first: Mapping[str, str]) -> None:
        self._first = dict(defaults()) | dict(first)
        self._values = dict(self._first)
        self._local: dict[str, str] = {}
        self._before: dict[str, str] | None = None
        self._unreported: list[str] = []

    def __getitem__(self, name: str) -> str:
        """The value of a setting. Raises QueryError for one that there is none of."""
        found = self.all().get(name.lower())
        if found is None:
            raise QueryError(f'there is no setting "{name}": SHOW ALL lists them')
        return found

    def all(self) -> Mapping[str, str]:
        """All settings as they are now."""
        return self._values | self._local

    @property
    def zone(self) -> str | None:
        """The time zone that the client has set; None: that of the server."""
        zone = self["timezone"]
        return None if _is_same_zone(zone, time_zone()) else zone

    def set(self, name: str, to: str | None, local: bool = False) -> None:
        """Set a setting; None: to its default.

        local: until the end of the transaction. Raises Forbidden for what cannot be had here, and QueryError.
        """
        name = name.lower()
        self._check(name, to)
        value = self._first.get(name, "") if to is None else to
        if name == "timezone":
            value = self._first[name] if value.lower() in ("local", "default") else _zone_named(value)
        elif to is not None and name in _ONLY and name != "intervalstyle":
            value = self._first[name]
        (self._local if local else self._values)[name] = value
        self._unreported.append(name)

    def reset(self) -> None:
        """Set all to their defaults."""
        self._unreported += [name for name, value in self._values.items() if value != self._first.get(name)]
        self._values, self._local = dict(self._first), {}

    def begin(self) -> None:
        """A transaction begins."""
        self._before = self._before or dict(self._values)

    def end(self, kept: bool) -> None:
        """A transaction ends. kept: what it has set stays, but for what was local."""
        changed = [*self._local]
        if not kept and self._before is not None:
            changed += [name for name, value in self._values.items() if value != self._before.get(name)]
            self._values = self._before
        self._local, self._before = {}, None
        self._unreported += changed

    def changes(self) -> dict[str, str]:
        """The settings to report since the last time, by the names that clients know."""
        names, self._unreported = dict.fromkeys(self._unreported), []
        found = self.all()
        return {REPORTED[name]: found.get(name, "") for name in names if name in REPORTED}

    def _check(self, name: str, to: str | None) -> None:
        if name not in self._first and "." not in name:
            raise Forbidden(
                f"a server does not SET {name or 'nothing'}: its session is that of all users, and PostgreSQL has no "
                "such setting"
            )
        if len(name) + len(to or "") > _LONGEST or (name not in self._values and len(self._values) >= _MOST):
            raise TooMuch(f"a client has at most {_MOST} settings, of {_LONGEST:,} characters each")
        if name in _FIXED:
            raise Forbidden(f"a server does not SET {name}: it stays {self._first[name]}")
        if to is None or name not in _ONLY:
            return
        if to.lower() not in _ONLY[name]:
            raise Forbidden(f"a server does not SET {name} to {to}: it stays {self._first[name]}")


def _is_same_zone(one: str, other: str) -> bool:
    return one.lower() == other.lower() or (one.lower() in _UTC and other.lower() in _UTC)


def _zone_named(name: str) -> str:
    """A time zone as DuckDB spells it. Raises QueryError."""
    if name.lower() in _UTC:
        return "UTC"
    try:
        return option("TimeZone", name)[1]
    except ConfigError as error:
        raise QueryError(f'there is no time zone "{name}"') from error


@cache
def time_zone() -> str:
    """The zone in which the server computes."""
    [(zone,)] = ask("SELECT current_setting('TimeZone')")
    return "UTC" if _is_same_zone(str(zone), "UTC") else str(zone)
