"""SET options of a session: those that change results, so that they must reach every kernel.

Options that only change how DuckDB works (threads, memory_limit …) are refused: the session decides them.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache

import duckdb

from qoop.catalog.errors import ConfigError

Settings = tuple[tuple[str, str], ...]

CHANGES_RESULTS = (
    "Calendar",
    "TimeZone",
    "default_collation",
    "default_null_order",
    "default_order",
    "ieee_floating_point_ops",
    "integer_division",
    "old_implicit_casting",
    "order_by_non_integer_literal",
    "scalar_subquery_error_on_multiple_rows",
)
_ALIASES = {"null_order": "default_null_order"}
_NAMES = {name.lower(): name for name in CHANGES_RESULTS} | _ALIASES


def option_name(name: str) -> str:
    """The option's own spelling.

    >>> option_name("timezone"), option_name("NULL_ORDER")
    ('TimeZone', 'default_null_order')

    Raises ConfigError, listing what exists, if there is no such option.
    """
    found = _NAMES.get(name.lower())
    if found is None:
        near = get_close_matches(name.lower(), _NAMES, n=1)
        hint = f"; did you mean {_NAMES[near[0]]}?" if near else ""
        raise ConfigError(f"no option {name!r}{hint} Options: {', '.join(CHANGES_RESULTS)}")
    return found


def with_option(settings: Settings, name: str, value: object) -> Settings:
    """`settings` with the option set; None takes it back to its default.

    >>> with_option((), "timezone", "UTC")
    (('TimeZone', 'UTC'),)
    >>> with_option((("TimeZone", "UTC"),), "TimeZone", None)
    ()

    Raises ConfigError for an unknown option and for a value that DuckDB refuses.
    """
    option = option_name(name)
    others = tuple(pair for pair in settings if pair[0] != option)
    if value is None:
        return others
    return tuple(sorted((*others, (option, _checked(option, str(value))))))


@lru_cache(maxsize=256)
def _checked(option: str, value: str) -> str:
    """The value as DuckDB spells it."""
    with duckdb.connect(config={"threads": 1}) as connection:
        try:
            connection.execute(f"SET {option} = '{_quoted(value)}'")
            row = connection.execute(f"SELECT current_setting('{option}')").fetchone()
        except duckdb.Error as error:
            raise ConfigError(f"{option} cannot be {value!r}: {error}") from error
    assert row is not None
    return str(row[0])


def set_statements(settings: Settings) -> list[str]:
    """The SET statements that give a whole DuckDB, with all its cursors, these settings.

    >>> set_statements((("TimeZone", "UTC"),))
    ["SET GLOBAL TimeZone = 'UTC'"]
    """
    return [f"SET GLOBAL {name} = '{_quoted(value)}'" for name, value in settings]


def _quoted(value: str) -> str:
    return value.replace("'", "''")
