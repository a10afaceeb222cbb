"""The timestamp of a query: what ``now()`` and its kin mean in all of its tasks, wherever they run.

DuckDB takes the beginning of the transaction for it. A query of ours is many transactions, and may be suspended and go
on in another process; so the timestamp is fixed when the query is bound, and kept with it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from qoop.catalog.opening import open_duckdb
from qoop.catalog.value import value
from qoop.planner.algebra.expr import Literal

_MEANS = {
    "TIMESTAMPTZ": ("now", "current_timestamp", "get_current_timestamp", "transaction_timestamp"),
    "DATE": ("current_date", "today"),
    "TIMETZ": ("current_time", "get_current_time"),
    "TIMESTAMP": ("localtimestamp", "current_localtimestamp"),
    "TIME": ("localtime", "current_localtime"),
}
_TYPES = {name: type_ for type_, names in _MEANS.items() for name in names}


@value
class QueryTimestamp:
    """at: as DuckDB writes a TIMESTAMPTZ in UTC. zone: the session's TimeZone, None: the process's."""

    at: str
    zone: str | None = None

    @classmethod
    def now(cls, zone: str | None = None) -> QueryTimestamp:
        """This one, to the microsecond."""
        return cls(datetime.now(UTC).isoformat(" ", "microseconds").removesuffix(":00"), zone)

    def literal(self, function: str) -> Literal | None:
        """The value of a function of the current time; None: it is another function.

        >>> str(QueryTimestamp("2026-01-02 23:30:00+00", "Asia/Tokyo").literal("current_date"))
        "CAST('2026-01-03' AS DATE)"
        """
        type_ = _TYPES.get(function.lower())
        return None if type_ is None else Literal(*_literal(self.at, self.zone, type_), None)


def is_of_the_moment(function: str) -> bool:
    """True for functions of the current time."""
    return function.lower() in _TYPES


@lru_cache(maxsize=256)
def _literal(at: str, zone: str | None, type_: str) -> tuple[str, str]:
    """The timestamp as SQL of a type, and that type's name."""
    through = "TIMESTAMP" if type_ == "TIME" else "TIMESTAMPTZ"
    with open_duckdb(files=False, threads=1) as connection:
        if zone is not None:
            connection.execute(f"SET TimeZone = '{zone.replace(chr(39), chr(39) * 2)}'")
        quoted = at.replace("'", "''")
        value = f"CAST(CAST(TIMESTAMPTZ '{quoted}' AS {through}) AS {type_})"
        [(text, name)] = connection.execute(f"SELECT CAST({value} AS VARCHAR), typeof({value})").fetchall()
    return f"CAST('{text}' AS {name})", str(name)
