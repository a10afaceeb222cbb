"""The words of a text, by DuckDB's own lexer.

DuckDB's lexer gives the start of each word. The text up to the next start belongs to the word, except for white space
and comments at its end. So no code here decides where a string, a comment or a quoted name ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, cast

import duckdb

from qoop.catalog.by_text import by_text

Kind = Literal["string", "quoted", "number", "word", "parameter", "mark", "comment"]

_FIRST = re.compile(
    r"""(?P<string>[eExXbB]?'|\$\w*\$) | (?P<quoted>") | (?P<number>\.?\d) | (?P<word>[^\W\d])
    | (?P<parameter>[?$]) | (?P<comment>--|/\*) | (?P<mark>.)""",
    re.X | re.S,
)
_STRING = re.compile(r"""[xXbB]?'(?:[^']|'')*' | [eE]'(?:[^'\\]|\\.|'')*' | \$(\w*)\$.*?\$\1\$""", re.X | re.S)
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_COMMENT = re.compile(r"--|/\*")


class Lexeme(NamedTuple):
    """A word, number, sign … of a text. start: where it begins, in characters.

    A string is all that DuckDB takes for one string, which may be of several lines.
    """

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def says(self, *words: str) -> bool:
        """True if it is one of these words or signs, given in upper case; a quoted name is none."""
        return self.kind in ("word", "mark") and self.text.upper() in words

    @property
    def name(self) -> str | None:
        """The name that it gives, None if it is none."""
        if self.kind == "word":
            return self.text
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else None


@by_text(most=64)
def lexed(text: str) -> tuple[Lexeme, ...]:
    r"""All words of a text that DuckDB can parse. Of other texts there may be only the first ones.

    >>> [(word.kind, word.text) for word in lexed(r"SELECT E'it\'s ?', $1 /* /* */ ? */ + $a") if word.text != ","]
    [('word', 'SELECT'), ('string', "E'it\\'s ?'"), ('parameter', '$1'), ('mark', '+'), ('parameter', '$a')]
    """
    starts = _starts(text)
    words = (_word(text[start:after], start) for start, after in pairwise([*starts, len(text)]))
    return tuple(_joined(word for word in words if word is not None))


def list_items(words: Sequence[Lexeme], first: int = 0, ends: tuple[str, ...] = ()) -> Iterator[tuple[int, int]]:
    """The places of a list's items, from the first to that after the last, up to one of the words or a parenthesis.

    >>> words = lexed("f(a, b), [c, d]) x")
    >>> [" ".join(word.text for word in words[first:after]) for first, after in list_items(words)]
    ['f ( a , b )', '[ c , d ]']
    """
    depth = 0
    for place in range(first, len(words)):
        text = words[place].text
        if depth == 0 and (text == ")" or words[place].says(*ends)):
            yield first, place
            return
        if depth == 0 and text == ",":
            yield first, place
            first = place + 1
        depth += (text in "([{") - (text in ")]}")
    yield first, len(words)


def behind_closing(words: Sequence[Lexeme], first: int) -> int:
    """The place behind the parenthesis that closes the one at `first`; the end, where nothing closes it.

    >>> words = lexed("f(a, (b)) + c")
    >>> words[behind_closing(words, 1)].text
    '+'
    """
    depth = 0
    for place in range(first, len(words)):
        depth += (words[place].text == "(") - (words[place].text == ")")
        if depth == 0:
            return place + 1
    return len(words)


def quoted(name: str) -> str:
    """A name as it stands in a text whatever it holds: what `Lexeme.name` reads.

    >>> quoted('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'


def _starts(text: str) -> list[int]:
    """The places where words begin, in characters; DuckDB counts bytes."""
    offsets = [offset for offset, _ in duckdb.tokenize(text)]
    if text.isascii():
        return offsets
    raw = text.encode()
    lengths = (len(raw[first:after].decode(errors="replace")) for first, after in pairwise([0, *offsets]))
    return list(accumulate(lengths))


def _word(text: str, start: int) -> Lexeme | None:
    """The text from the beginning of a word up to the next one: the word, white space and comments."""
    first = _FIRST.match(text)
    kind = cast(Kind, first.lastgroup) if first else "mark"
    match kind:
        case "comment":  # only DuckDB 2 counts it as a word
            return None
        case "string":
            whole = _STRING.match(text)  # a string that follows in another line belongs to it
            return Lexeme(kind, whole[0] if whole and "'" not in text[whole.end() :] else text.rstrip(), start)
        case "quoted":
            whole = _QUOTED.match(text)
            return Lexeme(kind, whole[0] if whole else text.rstrip(), start)
    comment = _COMMENT.search(text)
    return Lexeme(kind, text[: comment.start() if comment else None].rstrip(), start)


def _joined(words: Iterable[Lexeme]) -> Iterator[Lexeme]:
    """The dollar of a parameter and its name are two words to DuckDB."""
    dollar: Lexeme | None = None
    for word in words:
        if dollar is not None:
            yield Lexeme("parameter", f"${' ' * (word.start - dollar.end)}{word.text}", dollar.start)
            dollar = None
        elif word.text == "$":
            dollar = word
        else:
            yield word
    if dollar is not None:
        yield dollar
