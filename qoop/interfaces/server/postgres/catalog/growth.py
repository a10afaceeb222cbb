"""The questions about the catalog that are refused: they would make values without bound.

The DuckDB that answers is in the process of the server, and its `memory_limit` does not hold for the values of a row.
Tools ask for what is there; they neither repeat texts nor count to a million.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from qoop.catalog.lexer import Lexeme, lexed

_GROWING = frozenset((
    "apply", "array_apply", "array_resize", "array_transform", "bar", "bitstring", "damerau_levenshtein", "editdist3",
    "format_bytes", "jaccard", "jaro_similarity", "jaro_winkler_similarity", "levenshtein", "list_apply",
    "list_resize", "list_transform", "lpad", "printf", "range", "repeat", "rpad",
))  # fmt: skip
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
    'a question about the catalog does not call repeat()'
    """
    words = lexed(text).words
    calls = {(word.name or "").lower() for word, after in pairwise(words) if after.text == "("}
    if found := sorted(calls & _GROWING):
        return f"a question about the catalog does not call {found[0]}()"
    joins = sum(word.text == "||" for word in words)
    longest = max((len(word.text) for word in words if word.kind == "string"), default=0)
    if joins > _MOST_JOINS or (joins > _FEW_JOINS and longest > _SHORT) or (joins and "recursive" in _lower(words)):
        return "a question about the catalog joins few short texts, and none where it recurs"
    if _SERIES in calls and any(_may_be_large(words, place) for place in range(len(words))):
        return f"a question about the catalog calls {_SERIES}() with small numbers alone"
    return None


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
