"""Statements of materialized views, which DuckDB's parser does not know.

::

    CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] v [(a, b)] [WITH (target_lag = '30 s', …)] AS query
    EXPLAIN CREATE MATERIALIZED VIEW …
    REFRESH MATERIALIZED VIEW v [FULL]
    ALTER MATERIALIZED VIEW v SET (target_lag = '5 min')
    DROP MATERIALIZED VIEW [IF EXISTS] v
    SHOW MATERIALIZED VIEWS
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NoReturn, get_args

from qoop.catalog.errors import ConfigError, QueryError
from qoop.catalog.lexer import quoted
from qoop.catalog.value import value
from qoop.query.statements.words import Words

RefreshMode = Literal["auto", "incremental", "full"]
TargetLag = float | Literal["downstream"] | None

_LENGTH = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*", re.I)
_SECONDS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400,
            "day": 86400}  # fmt: skip


@value
class ViewOptions:
    """target_lag: seconds that the view may be behind its tables; None: it is refreshed by statements only;
    downstream: before the views that read it. max_error: of its columns, relative, while refreshes lack time; 0: it is
    always exact."""

    target_lag: TargetLag = None
    refresh_mode: RefreshMode = "auto"
    max_error: float = 0.0


@value
class CreateMaterialized:
    """text: the query. replace: in place of a materialized view of that name. unless: do nothing if there is one."""

    name: tuple[str, ...]
    text: str
    options: ViewOptions
    replace: bool = False
    unless: bool = False


@value
class ExplainMaterialized:
    """EXPLAIN of a CREATE."""

    statement: CreateMaterialized


@value
class RefreshMaterialized:
    """full: compute the view again from all rows."""

    name: tuple[str, ...]
    full: bool


@value
class AlterMaterialized:
    """changes: names and values of options, as written."""

    name: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]


@value
class DropMaterialized:
    """exists: do nothing if there is no such view."""

    name: tuple[str, ...]
    exists: bool


@value
class ShowMaterialized:
    """SHOW MATERIALIZED VIEWS."""


OfMaterialized = (
    CreateMaterialized
    | ExplainMaterialized
    | RefreshMaterialized
    | AlterMaterialized
    | DropMaterialized
    | ShowMaterialized
)


def is_of_materialized(words: Words) -> bool:
    """True for a statement of this module."""
    says = [word.text.upper() for word in words.left[:5]]
    _ = says[:1] == ["EXPLAIN"] and says.pop(0)
    if says[:3] == ["CREATE", "OR", "REPLACE"]:
        del says[1:3]
    return says[:1] in (["CREATE"], ["REFRESH"], ["ALTER"], ["DROP"], ["SHOW"]) and says[1:2] == ["MATERIALIZED"]


def materialized(words: Words, query_text: Callable[[str], str]) -> OfMaterialized:
    """The statement. query_text: the text of a query. Raises QueryError for other forms, ConfigError for options.

    >>> materialized(Words("REFRESH MATERIALIZED VIEW v FULL"), str)
    RefreshMaterialized(name=('v',), full=True)
    """
    explain = words.take("EXPLAIN")
    if words.take("SHOW", "MATERIALIZED", "VIEWS") and words.next is None:
        return ShowMaterialized()
    if words.take("REFRESH", "MATERIALIZED", "VIEW"):
        return _ended(words, RefreshMaterialized(words.parts(), words.take("FULL")))
    if words.take("DROP", "MATERIALIZED", "VIEW"):
        exists = words.take("IF", "EXISTS")
        return _ended(words, DropMaterialized(words.parts(), exists))
    if words.take("ALTER", "MATERIALIZED", "VIEW"):
        name = words.parts()
        _ = words.take("SET") or _refuse()
        return _ended(words, AlterMaterialized(name, _options(words)))
    made = _created(words, query_text)
    return ExplainMaterialized(made) if explain else made


def options_with(options: ViewOptions, changes: tuple[tuple[str, str], ...]) -> ViewOptions:
    """The options after these changes.

    >>> options_with(ViewOptions(), (("target_lag", "5 min"),))
    ViewOptions(target_lag=300.0, refresh_mode='auto', max_error=0.0)
    >>> options_with(ViewOptions(), (("max_error", "5 %"),)).max_error
    0.05

    Raises ConfigError for an unknown option, with the list of options, and for an invalid value.
    """
    for name, text in changes:
        if name == "target_lag":
            downstream = text.strip().lower() == "downstream"
            options = replace(options, target_lag="downstream" if downstream else _seconds(text))
        elif name == "refresh_mode":
            if text not in get_args(RefreshMode):
                raise ConfigError(f"refresh_mode is {', '.join(get_args(RefreshMode))}, not {text!r}")
            options = replace(options, refresh_mode=text)  # type: ignore[arg-type]
        elif name == "max_error":
            options = replace(options, max_error=_part(text))
        else:
            raise ConfigError(
                f"a materialized view has no option {name}; it has target_lag, refresh_mode and max_error"
            )
    return options


def _created(words: Words, query_text: Callable[[str], str]) -> CreateMaterialized:
    _ = words.take("CREATE")
    replaces = words.take("OR", "REPLACE")
    _ = words.take("MATERIALIZED", "VIEW") or _refuse()
    unless = words.take("IF", "NOT", "EXISTS")
    name = words.parts()
    columns = words.parenthesised()
    options = options_with(ViewOptions(), _options(words) if words.take("WITH") else ())
    if not name or not words.take("AS") or words.next is None:
        _refuse()
    text = query_text(words.statement)
    named = f"SELECT * FROM ({text}\n) AS {quoted(name[-1])}{columns}" if columns else text
    return CreateMaterialized(name, named, options, replaces, unless)


def _options(words: Words) -> tuple[tuple[str, str], ...]:
    """The options in parentheses: names in lower case, and values."""
    text = words.parenthesised()
    if text is None:
        _refuse()
    inner, found = Words(text[1:-1]), []
    while inner.next is not None:
        name, equals, setting = inner.take_name(), inner.take("="), inner.string()
        if equals and setting is None and (number := inner.number()) is not None:
            setting = str(number)
        if name is None or not equals or setting is None:
            raise QueryError("options are written as (target_lag = '30 s', refresh_mode = 'auto', max_error = 0.05)")
        found.append((name.lower(), setting))
        if not inner.take(",") and inner.next is not None:
            raise QueryError(f"a comma stands between two options, not {inner.next.text}")
    return tuple(found)


def _ended(words: Words, made: OfMaterialized) -> OfMaterialized:
    if words.next is not None or not getattr(made, "name", ("",)):
        _refuse()
    return made


def _refuse() -> NoReturn:
    raise QueryError(
        "write CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(a, b)] [WITH (target_lag = '30 s')] AS "
        "query, REFRESH MATERIALIZED VIEW name [FULL], ALTER MATERIALIZED VIEW name SET (target_lag = '5 min'), "
        "DROP MATERIALIZED VIEW [IF EXISTS] name, or SHOW MATERIALIZED VIEWS"
    )


def _part(text: str) -> float:
    """A part from 0 to less than 1.

    >>> _part("0.02"), _part("2.5%")
    (0.02, 0.025)
    """
    number = text.strip().removesuffix("%")
    try:
        found = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        found = math.nan
    if not 0 <= found < 1:
        raise ConfigError(f"max_error is a part from 0 to less than 1, such as '5 %' or 0.05, not {text!r}")
    return found


def _seconds(text: str) -> float:
    """The seconds of a length of time.

    >>> _seconds("1.5 hours"), _seconds("30s")
    (5400.0, 30.0)
    """
    found = _LENGTH.fullmatch(text)
    unit = None if found is None else found[2].lower()
    factor = None if unit is None else _SECONDS.get(unit) or _SECONDS.get(unit.removesuffix("s"))
    if found is None or factor is None or not float(found[1]) > 0:
        raise ConfigError(
            f"target_lag is a length of time above 0, such as '30 s' or '5 min', or 'downstream', not {text!r}"
        )
    return float(found[1]) * factor
