"""Texts of queries that say the same but for comments, white space and the case of keywords.

A text is taken apart into the words that DuckDB's lexer sees; equal words make equal queries.  Names keep their case,
which shows in the names of result columns; only words that cannot be names are folded.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import blake2b
from itertools import zip_longest

from qoop.catalog.by_text import by_text
from qoop.catalog.duckdb_introspection import ask
from qoop.catalog.lexer import lexed
from qoop.catalog.value import value

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
