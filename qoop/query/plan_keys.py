"""The identity of a text's plans: a digest of everything that determines them.

    text ──normal_text──> digest + tables' versions + settings + resources + cost model ──key_of──> key

A text has the same key only over the same versions of all tables that it might name, so no plan is found that is out of
date.  Decisions alone have a key that stays where files are added to tables; plans are made along them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Literal

import duckdb

from qoop.catalog.duckdb_introspection import ask
from qoop.catalog.lexer import lexed
from qoop.catalog.table import Table
from qoop.catalog.written import codec
from qoop.planner import plan_json
from qoop.planner.plan import Plan
from qoop.query.statements.normal_text import NormalText, normal_text

FORMAT = 4
"""The version of files of plans. It rises when the meaning of a file changes."""

Key = str
Kind = Literal["plan", "alternatives", "decisions", "begun"]
Settings = tuple[tuple[str, str], ...]

_MOMENTS = ("current_timestamp", "current_time", "current_localtime", "current_localtimestamp", "localtime",
            "localtimestamp", "rand", "getvariable", "current_setting", "tablesample")  # fmt: skip

_CALLED = ("age", "getenv")
"""Functions that depend on the moment or the process, though DuckDB's list does not say so."""

_STEADY = frozenset(
    """abs any_value avg bool_and bool_or cast ceil ceiling coalesce concat concat_ws contains corr count count_if
    covar_pop covar_samp cume_dist date decimal dense_rank ends_with exp first first_value floor greatest
    grouping grouping_id ifnull lag last last_value lead least left length list ln log lower lpad ltrim max mean
    median min mod nth_value ntile nullif numeric percent_rank power quantile_cont rank regexp_matches
    regexp_replace replace right round row_number rpad rtrim sign split_part sqrt starts_with stddev stddev_pop
    stddev_samp string_agg strlen substr substring sum trim trunc try_cast upper var_pop var_samp varchar
    variance
    all and any as between by case char cube distinct else end except exists filter from full group having if in
    inner intersect is join like limit not offset on or order over partition rollup select sets then union using
    values when where with""".split()  # noqa: SIM905
)
"""Names that are called, and words that stand before a parenthesis, in most texts: all steady in any DuckDB. For texts
that call no others the list of functions is not needed."""

_UNCALLED = frozenset(("localtime", "localtimestamp", "user", "session_user", "sample", "tablesample"))
"""Words that mean something at the moment without being called, besides those that begin as `current_date` does."""

_PURE = ("range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree")
"""The functions whose rows follow from their arguments. Others that stand for tables read files, or DuckDB's state."""


def key_of(kind: str, text: str, settings: Settings, tables: Mapping[str, Table], *circumstances: object) -> Key:
    """The key of a text's plans.

    kind: of the entry. tables: all tables of the session, by lower-case name. circumstances: the other inputs of plans
    (the resources, the cost model), as values with a complete repr.
    """
    normal = normal_text(text)
    identity = _place_of if kind == "decisions" else _version_of
    named = sorted(f"{name} {identity(table)}" for name, table in named_tables(normal, tables))
    meaning = normal.pattern if kind == "decisions" else normal.digest
    return _digest(kind, meaning, repr(settings), *named, *map(repr, circumstances), planner_version())


def _version_of(table: Table) -> str:
    return f"{table.version} {table.max_parts()}"


def _place_of(table: Table) -> str:
    """The identity of a table by its place, whatever rows are added there.

    Decisions hold for about as many rows, which :func:`~qoop.planner.search.decisions.replay` sees to.
    """
    return _version_of(table) if table.origin is None else repr((table.origin, table.columns))


def may_be_kept(text: str, plans: Iterable[Plan]) -> bool:
    """True if the plans of a text may be stored: neither depends on the moment or the session, and the plans say all
    about the query (the planner does not know what an opaque stage calls or reads)."""
    if any(stage.opaque is not None for plan in plans for stage in plan.stages):
        return False
    return is_steady(text)  # last: DuckDB has to list its functions


def is_steady(text: str) -> bool:
    """True if a text means the same at another moment and in another session."""
    words = normal_text(text).words
    if _calls_only_steady(text, words):
        return True
    if words & _unsteady_words():
        return False
    return not (words & (_unsteady_calls() | {"sample"}) and _calls_unsteady(text))


def _calls_only_steady(text: str, words: frozenset[str]) -> bool:
    """True if all that a text calls is known to be steady, which is found without a list of DuckDB's functions."""
    if words & _UNCALLED or any(word.startswith("current_") for word in words):
        return False
    called = (word.name for word, after in pairwise(lexed(text).words) if after.text == "(")
    return all(name is None or name.lower() in _STEADY for name in called)


def _calls_unsteady(text: str) -> bool:
    """True if a text calls one of these functions, or draws a sample. Columns may have such names."""
    calls = _unsteady_calls()
    for word, after in pairwise(lexed(text).words):
        if after.text == "(" and (word.name or "").lower() in calls:
            return True
        if word.says("USING") and after.says("SAMPLE"):
            return True
    return False


def named_tables(normal: NormalText, tables: Mapping[str, Table]) -> Iterable[tuple[str, Table]]:
    """The tables that the text might name: all words of the name are somewhere in the text."""
    for name, table in tables.items():
        if name in normal.words or (not name.isidentifier() and _words(name) <= normal.words):
            yield name, table


@cache
def _words(name: str) -> frozenset[str]:
    return normal_text(name).words


@cache
def _unsteady_words() -> frozenset[str]:
    """Names that stand for something else at another moment, in another session or in another query."""
    return frozenset((*(name for name, unsteady in _functions() if unsteady), *_MOMENTS))


@cache
def _unsteady_calls() -> frozenset[str]:
    """Names of functions whose rows do not follow from their arguments, where they are called."""
    return frozenset((*(name for name, unsteady in _functions() if not unsteady), *_CALLED)) - frozenset(_PURE)


@cache
def _functions() -> Sequence[tuple[str, bool]]:
    """The functions that are unsteady wherever they are named (True), and those that stand for tables. DuckDB needs 10
    ms to list its functions."""
    rows = ask(
        "SELECT lower(function_name), bool_or(function_type NOT IN ('table', 'table_macro')) FROM duckdb_functions() "
        "WHERE stability <> 'CONSISTENT' OR function_type IN ('table', 'table_macro') "
        "OR macro_definition ILIKE '%current_timestamp%' OR macro_definition ILIKE '%now()%' GROUP BY 1"
    )
    return [(str(name), bool(unsteady)) for name, unsteady in rows]


@cache
def planner_version() -> str:
    """Digest of the code that makes and writes plans, of DuckDB's version and of its options where none is set."""
    folder = Path(plan_json.__file__).parent
    sources = (path.read_bytes() for path in (*sorted(folder.rglob("*.py")), Path(codec.__file__)))
    code = blake2b(b"\0".join(sources), digest_size=16).hexdigest()
    [zone] = ask("SELECT current_setting('TimeZone'), current_setting('Calendar')")
    return _digest(code, duckdb.__version__, str(zone), str(FORMAT), str(plan_json.FORMAT))


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def all_shared(tables: Iterable[Table]) -> bool:
    """True if every other process that registers the same sources sees the same versions."""
    return all(table.source.shared for table in tables)


def versions(tables: Mapping[str, Table]) -> dict[str, str]:
    """Versions by lower-case name."""
    return {name.lower(): table.version for name, table in tables.items()}


def about(plan: Plan, tables: Mapping[str, str], settings: Settings) -> bool:
    """True if a plan reads no other versions of tables than these (by lower-case name), under these settings."""
    read: Sequence[tuple[str, str]] = [(item.table, item.version) for s in plan.stages for item in s.table_inputs]
    return plan.settings == settings and all(tables.get(name.lower()) == version for name, version in read)
