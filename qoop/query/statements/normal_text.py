"""Texts of queries that say the same but for comments, white space and the case of keywords, and texts that mean the
same at any moment.

A text is taken apart into the words that DuckDB's lexer sees; equal words make equal queries.  Names keep their case,
which shows in the names of result columns; only words that cannot be names are folded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from itertools import pairwise, zip_longest

from qoop.catalog.by_text import by_text
from qoop.catalog.duckdb_introspection import ask
from qoop.catalog.lexer import lexed
from qoop.catalog.value import value

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
    date_diff date_part date_trunc day dayofweek dayofyear extract hour minute month quarter second strftime week year
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

MOST_CHARACTERS = 1 << 16
"""Longer texts stand for themselves."""


@value
class NormalText:
    """digest: equal for texts that mean the same. pattern: equal, too, where only literals differ.

    words: all that could be the name of something in the text, in lower case.
    """

    digest: str
    pattern: str
    words: frozenset[str]


@by_text(most=1024)
def normal_text(text: str) -> NormalText:
    """Take a text apart.

    >>> normal_text("SELECT a FROM t").digest == normal_text("select a -- all\\n  from t").digest
    True
    >>> normal_text("SELECT a FROM t").digest == normal_text("SELECT A FROM t").digest
    False
    >>> normal_text("FROM t WHERE a = 1").pattern == normal_text("FROM t WHERE a = 22").pattern
    True
    """
    words = frozenset(re.findall(r"\w+", text.lower()))
    if len(text) > MOST_CHARACTERS:
        own = _digest("verbatim", text)
        return NormalText(own, own, words)
    tokens, pattern = _tokens(text)
    return NormalText(_digest("tokens", *tokens), _digest("pattern", *pattern), words)


def _tokens(text: str) -> tuple[list[str], list[str]]:
    """The words of the text, and the same with its literals left open."""
    tokens: list[str] = []
    pattern: list[str] = []
    before, keywords, words = "", _keywords(), lexed(text).without_end.words
    for word, after in zip_longest(words, words[1:]):
        token = word.text
        names = before in ("as", ".") or (after is not None and after.text in (":=", "=>", ":"))
        if word.kind == "word" and not names:
            lower = token.lower()
            token = lower if lower in keywords else token
        tokens.append(token)
        pattern.append(f"<{word.kind}>" if word.kind in ("string", "number") else token)
        before = token.lower()
    return tokens, pattern


@cache
def _keywords() -> frozenset[str]:
    """Words that cannot be names, but after AS or a dot, or before what gives a name its value."""
    rows = ask("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')")
    return frozenset(str(name) for (name,) in rows)


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


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
    ms to list its functions.

    DuckDB 2.0 declares `year` and others of an instant, a time with a zone, to be consistent within a query only. What
    changes between queries is the session's zone, which is one of its settings, so such functions are steady.
    """
    rows = ask(
        "SELECT lower(function_name), bool_or(function_type NOT IN ('table', 'table_macro')) FROM duckdb_functions() "
        "WHERE (stability <> 'CONSISTENT' AND NOT (stability = 'CONSISTENT_WITHIN_QUERY' AND len(parameters) > 0 "
        "AND regexp_matches(concat(parameter_types::VARCHAR, return_type), 'WITH TIME ZONE|TIMESTAMPTZ'))) "
        "OR function_type IN ('table', 'table_macro') "
        "OR macro_definition ILIKE '%current_timestamp%' OR macro_definition ILIKE '%now()%' GROUP BY 1"
    )
    return [(str(name), bool(unsteady)) for name, unsteady in rows]
