"""Texts of queries that say the same but for comments, white space and the case of keywords.

A text is taken apart into the tokens that DuckDB sees; equal tokens make equal queries.  Names keep their case, which
shows in the names of result columns; only words that cannot be names are folded.  Where the reading is not certain
(dollar quotes, escape strings, nested comments …) the text stands for itself, so that in doubt two texts differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b

from qoop.catalog.asking import ask

MOST_CHARACTERS = 1 << 20
"""Longer texts stand for themselves."""

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<string>\w*'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<number>\.?\d(?:[eE][+-]|[\w.])*)
    |(?P<word>[^\W\d]\w*)
    |(?P<mark>[()\[\]{},;.#]|:+|[-+*/<>=~!@%^&|?`]+?(?=--|/\*|[^-+*/<>=~!@%^&|?`]|$))""",
    re.X | re.S,
)
_UNCERTAIN = re.compile(r"""\$|\b[eE]'|\b[uU]&['"]|:=|=>|/\*(?:(?!\*/).)*/\*""", re.S)


@dataclass(frozen=True, slots=True)
class NormalText:
    """digest: equal for texts that mean the same. pattern: equal, too, where only literals differ.

    words: all that could be the name of something in the text, in lower case.
    """

    digest: str
    pattern: str
    words: frozenset[str]


@lru_cache(maxsize=1024)
def normal_text(text: str) -> NormalText:
    """Take a text apart.

    >>> normal_text("SELECT a FROM t").digest == normal_text("select a -- all\\n  from t").digest
    True
    >>> normal_text("SELECT a FROM t").digest == normal_text("SELECT A FROM t").digest
    False
    >>> normal_text("FROM t WHERE a = 1").pattern == normal_text("FROM t WHERE a = 22").pattern
    True
    """
    found = None if len(text) > MOST_CHARACTERS or _UNCERTAIN.search(text) else _tokens(text)
    words = frozenset(re.findall(r"\w+", text.lower()))
    if found is None:
        own = _digest("verbatim", text)
        return NormalText(own, own, words)
    tokens, pattern = found
    return NormalText(_digest("tokens", *tokens), _digest("pattern", *pattern), words)


def _tokens(text: str) -> tuple[list[str], list[str]] | None:
    """The tokens, and the same with its literals left open; None where a character is part of none."""
    tokens: list[str] = []
    pattern: list[str] = []
    end, before, keywords = 0, "", _keywords()
    for match in _TOKEN.finditer(text):
        if match.start() != end:
            return None
        end = match.end()
        kind, token = match.lastgroup, match[0]
        if kind == "space":
            continue
        if kind == "string" and before[-1:] == "'":
            return None  # a line break, and nothing less, makes them one
        if kind == "word" and before not in ("as", "."):
            lower = token.lower()
            token = lower if lower in keywords else token
        tokens.append(token)
        pattern.append(f"<{kind}>" if kind in ("string", "number") else token)
        before = token.lower()
    while tokens and tokens[-1] == ";":
        del tokens[-1], pattern[-1]
    return (tokens, pattern) if end == len(text) else None


@cache
def _keywords() -> frozenset[str]:
    """Words that no column, table or alias can be called, but after AS or a dot."""
    rows = ask("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')")
    return frozenset(str(name) for (name,) in rows)


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
