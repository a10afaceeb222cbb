"""The questions about the catalog that are refused: they would make values without bound.

The DuckDB that answers is in the process of the server, and its `memory_limit` does not hold for the values of a row.
Tools ask for what is there; they neither repeat texts nor count to a million. So this is a list of the functions that a
question may call: PostgreSQL's own of the catalog, those of light texts, and a few more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from qoop.catalog.lexer import Lexeme, lexed
from qoop.interfaces.server.postgres.catalog.functions import NAMES
from qoop.planner.light import FUNCTIONS, KEYWORDS, TYPES

_OF_TOOLS = frozenset((
    "array", "array_agg", "array_append", "array_cat", "array_contains", "array_position", "array_positions",
    "array_prepend", "array_slice", "array_sort", "array_to_json", "decode", "encode", "generate_series",
    "generate_subscripts",
    "json_agg", "json_build_array", "json_build_object", "json_group_array", "json_object", "json_object_agg",
    "json_to_recordset", "jsonb_agg", "jsonb_build_object", "list", "list_sort", "operator", "overlay",
    "regexp_split_to_array", "regexp_split_to_table", "row_to_json", "string_agg", "to_char", "to_json", "to_jsonb",
))  # fmt: skip
"""Functions that tools call besides: each puts out about as much as it reads."""
_ALLOWED = FUNCTIONS | KEYWORDS | TYPES | _OF_TOOLS | {name.lower() for name in NAMES}
_NAMES_FOLLOW = frozenset(("as", "with", "recursive", "ordinality", ")"))
_SERIES = "generate_series"
_MOST = 100_000
_MOST_JOINS, _FEW_JOINS, _SHORT = 16, 4, 4096
"""Each operator that joins texts may double one."""
_MULTIPLY = frozenset(("**", "^", "<<", "//"))
_BEFORE_ALL = frozenset(("all", "distinct", "select"))
"""Words before a star that stands for all columns."""


def growth_in(text: str) -> str | None:
    """The reason to refuse a question whose values may grow without bound; None: they do not.

    >>> growth_in("SELECT attname FROM pg_attribute, generate_series(1, 32) AS n")
    >>> growth_in("SELECT length(repeat('x', 2000000000)), version()")
    'repeat() is refused: a question about the catalog does not call it'
    >>> growth_in("SELECT 'a' LIKE 'b' ESCAPE pg_catalog.new_one('x') FROM pg_class")
    'new_one() is refused: a question about the catalog does not call it'
    """
    words = lexed(text).words
    calls = set(_calls(words))
    if found := sorted(calls - _ALLOWED):
        return f"{found[0]}() is refused: a question about the catalog does not call it"
    joins = sum(word.text == "||" for word in words)
    longest = max((len(word.text) for word in words if word.kind == "string"), default=0)
    if joins > _MOST_JOINS or (joins > _FEW_JOINS and longest > _SHORT) or (joins and "recursive" in _lower(words)):
        return "a question about the catalog joins few short texts, and none where it recurs"
    if _SERIES in calls and any(_may_be_large(words, place) for place in range(len(words))):
        return f"a question about the catalog calls {_SERIES}() with small numbers alone"
    return None


def _calls(words: Sequence[Lexeme]) -> Iterator[str]:
    """The names of what a text calls. Others have the names of columns between their parentheses."""
    for place, (word, after) in enumerate(pairwise(words)):
        if word.kind == "word" and after.text == "(" and not _has_columns(words, place) and not _is_plain(words, place):
            yield word.text.lower()


def _is_plain(words: Sequence[Lexeme], place: int) -> bool:
    """True for format() with a pattern of PostgreSQL's: one of DuckDB's may widen a value to any length."""
    if not words[place].says("FORMAT") or place + 3 >= len(words):
        return False
    pattern = words[place + 2].text
    return pattern.startswith("'") and "{" not in pattern and words[place + 3].text in (",", ")")


def _has_columns(words: Sequence[Lexeme], place: int) -> bool:
    """True for the name of a table that a text defines: an alias, or one of WITH."""
    before = words[place - 1].text.lower() if place else ""
    if before in _NAMES_FOLLOW:
        return True
    if before != ",":
        return False
    depth = 0
    for end in range(place + 1, len(words)):
        depth += (words[end].text == "(") - (words[end].text == ")")
        if depth == 0:
            return [one.text.lower() for one in words[end + 1 : end + 3]] == ["as", "("]
    return False


def _lower(words: Sequence[Lexeme]) -> set[str]:
    return {word.text.lower() for word in words if word.kind == "word"}


def _may_be_large(words: Sequence[Lexeme], place: int) -> bool:
    """True for a large number, or what makes one of small ones."""
    word, before = words[place], words[place - 1] if place else None
    if word.kind in ("number", "string"):
        digits = word.text.strip("'").replace("_", "")
        if not digits.isdecimal():
            return word.kind == "number"
        return int(digits) > _MOST
    if word.text == "*" and before is not None:
        return (
            before.kind in ("number", "quoted")
            or before.text == ")"
            or (before.kind == "word" and before.text.lower() not in _BEFORE_ALL)
        )
    return word.kind == "mark" and word.text in _MULTIPLY
