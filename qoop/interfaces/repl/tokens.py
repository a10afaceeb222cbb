"""Tokens of SQL for colours and completion, of a text that may end anywhere, even within a string.

DuckDB's own tokenizer fails on an unfinished text, which most texts are while they are typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, cast

from qoop.catalog.value import value

Kind = Literal["comment", "string", "quoted", "number", "word", "parameter", "space", "mark"]

_TOKEN = re.compile(
    r"""
      (?P<comment>   --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<string>    '(?:[^']|'')*(?:'|\Z) | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z) )
    | (?P<quoted>    "(?:[^"]|"")*(?:"|\Z) )
    | (?P<number>    \d[\d_]*(?:\.\d*)?(?:e[+-]?\d+)? | \.\d+ )
    | (?P<word>      [^\W\d]\w* )
    | (?P<parameter> \$\w+ | \? )
    | (?P<space>     \s+ )
    | (?P<mark>      . )
    """,
    re.X | re.S | re.I,
)


@value
class Token:
    """A piece of a text. start: its position, in characters."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def closed(self) -> bool:
        """False for a string, a quoted name or a comment without its end."""
        match self.kind:
            case "string" if self.text.startswith("$"):
                tag = self.text[: self.text.index("$", 1) + 1]
                return len(self.text) >= 2 * len(tag) and self.text.endswith(tag)
            case "string" | "quoted":
                return self.text.count(self.text[0]) % 2 == 0
            case "comment":
                return not self.text.startswith("/*") or (len(self.text) >= 4 and self.text.endswith("*/"))
        return True


@lru_cache(maxsize=64)
def tokens(text: str) -> tuple[Token, ...]:
    """All tokens of a text, spaces and comments included.

    >>> [(token.kind, token.text) for token in tokens("SELECT 'it''s") if token.kind != "space"]
    [('word', 'SELECT'), ('string', "'it''s")]
    """
    return tuple(
        Token(cast(Kind, match.lastgroup if match.lastgroup != "tag" else "string"), match[0], match.start())
        for match in _TOKEN.finditer(text)
    )


def words(text: str) -> Iterator[Token]:
    """The tokens without spaces and comments."""
    return (token for token in tokens(text) if token.kind not in ("space", "comment"))


def name_of(token: Token) -> str | None:
    """The identifier that a token is; None if it is none."""
    if token.kind == "word":
        return token.text
    return token.text[1:-1].replace('""', '"') if token.kind == "quoted" and token.closed else None
