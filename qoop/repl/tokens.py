"""SQL as it is typed: words of a text that may end anywhere, even within a string.

DuckDB's own tokenizer gives up on a text that it cannot take to its end, which is what a text is most of the time
while it is being typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

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


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text. start: where it begins, in characters."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def closed(self) -> bool:
        """False for a string, a quoted name or a comment whose end has not been typed."""
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
    """All of the text, in pieces.

    >>> [(token.kind, token.text) for token in tokens("SELECT 'it''s") if token.kind != "space"]
    [('word', 'SELECT'), ('string', "'it''s")]
    """
    return tuple(
        Token(cast(Kind, match.lastgroup if match.lastgroup != "tag" else "string"), match[0], match.start())
        for match in _TOKEN.finditer(text)
    )


def is_whole(text: str) -> bool:
    """Whether Return runs the text: it ends with ; or & or is a command, or is empty.

    >>> is_whole("select 1;"), is_whole("select 1"), is_whole("select ';"), is_whole("from t; -- x")
    (True, False, False, True)
    """
    stripped = text.strip()
    if not stripped or is_command(stripped) or stripped.lower() in ("exit", "quit", "help"):
        return True
    last = next((token for token in reversed(tokens(text)) if token.kind not in ("space", "comment")), None)
    return last is not None and last.kind == "mark" and last.text in ";&" and tokens(text)[-1].closed


def is_command(text: str) -> bool:
    """Whether the text is a command of the shell, as psql (\\d) or DuckDB (.tables) write them."""
    return re.match(r"\s*(\\|\.[a-z?])", text, re.I) is not None


def statement_at(text: str, place: int) -> tuple[str, int]:
    """The statement that holds a place in a text, and the place within it.

    >>> statement_at("select 1; select a", 18)
    (' select a', 9)
    """
    ends = [token.start for token in tokens(text) if token.kind == "mark" and token.text == ";"]
    start = max((end + 1 for end in ends if end < place), default=0)
    end = min((end for end in ends if end >= place), default=len(text))
    return text[start:end], place - start


def words(text: str) -> Iterator[Token]:
    """The pieces that mean something."""
    return (token for token in tokens(text) if token.kind not in ("space", "comment"))


def name_of(token: Token) -> str | None:
    """The name that a piece gives, None if it is none."""
    if token.kind == "word":
        return token.text
    return token.text[1:-1].replace('""', '"') if token.kind == "quoted" and token.closed else None
