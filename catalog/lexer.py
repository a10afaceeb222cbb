"""The words of a text, by DuckDB's own lexer.

DuckDB's lexer gives the start of each word. The text up to the next start belongs to the word, except for white space
and comments at its end. So no code here decides where a string, a comment or a quoted name ends.

A text is lexed once, at the first use of its words. Its parts, such as the query of an EXPLAIN, take their words from
it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, cast

import duckdb

from qoop.catalog.by_text import LONG, by_text
from qoop.catalog.value import value

Kind = Literal["string", "quoted", "number", "word", "parameter", "mark"]

_FIRST = re.compile(
    r"""(?P<string>[eExXbB]?'|\$\w*\$) | (?P<quoted>") | (?P<number>\.?\d) | (?P<word>[^\W\d])
    | (?P<parameter>[?$]) | (?P<comment>--|/\*) | (?P<mark>.)""",
    re.X | re.S,
)
_STRING = re.compile(r"""[xXbB]?'(?:[^']|'')*' | [eE]'(?:[^'\\]|\\.|'')*' | \$(\w*)\$.*?\$\1\$""", re.X | re.S)
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_COMMENT = re.compile(r"--|/\*")
_MOST_PARTS = 64


def rare(pattern: str, *parts: str) -> Callable[[str], bool]:
    """The test for a pattern that few texts hold, without regard to case. parts: in lower case; each match holds one of
    them. To look for these first takes a tenth of the time.

    >>> is_import = rare("^ *import ", "import")
    >>> is_import(" IMPORT DATABASE 'd'"), is_import("SELECT important FROM t")
    (True, False)
    """
    search = re.compile(pattern, re.I).search

    def holds(text: str) -> bool:
        lower = text.lower()
        return any(part in lower for part in parts) and search(text) is not None

    return holds


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


@value
class LexedText:
    """A text and its words, which are found once, at their first use."""

    text: str
    find_words: Callable[[], tuple[Lexeme, ...]]

    @cached_property
    def words(self) -> tuple[Lexeme, ...]:
        """All words of a text that DuckDB can parse. Of other texts there may be only the first ones."""
        return self.find_words()

    def part(self, first: int, after: int | None = None) -> LexedText:
        """The text from a word up to another one, or to the end, without white space there. It is not lexed again."""
        words = self.words[first:after]
        start = words[0].start if words else len(self.text)
        text = self.text[start : None if after is None or not words else words[-1].end].rstrip()
        return LexedText(text, partial(_moved, words, start))

    @property
    def without_end(self) -> LexedText:
        """The text from its first word on, without its last semicolons and what follows them."""
        count = len(self.words)
        while count and self.words[count - 1].text == ";":
            count -= 1
        return self.part(0, count if count < len(self.words) else None)


_parts: dict[str, LexedText] = {}
"""Parts of texts that :func:`lexed` has not returned yet: few, and a long one alone."""


def known_text(part: LexedText) -> str:
    """The text of a part, which :func:`lexed` then does not lex."""
    if len(_parts) >= _MOST_PARTS or len(part.text) > LONG:
        _parts.clear()
    _parts[part.text] = part
    return part.text


@by_text(most=64)
def lexed(text: str) -> LexedText:
    r"""A text with its words.

    >>> words = lexed(r"SELECT E'it\'s ?', $1 /* /* */ ? */ + $a").words
    >>> [(word.kind, word.text) for word in words if word.text != ","]
    [('word', 'SELECT'), ('string', "E'it\\'s ?'"), ('parameter', '$1'), ('mark', '+'), ('parameter', '$a')]
    """
    return _parts.pop(text, None) or LexedText(text, partial(_words, text))


def without_end(text: str) -> str:
    """The text of a statement without its last semicolons and what follows them.

    >>> without_end("SELECT ';' ; -- done;")
    "SELECT ';'"
    """
    text = text.strip()
    if _COMMENT.search(text) is not None:
        return known_text(lexed(text).without_end)
    while text.endswith(";"):  # at once, for the text may be long
        text = text[:-1].rstrip()
    return text


def list_items(words: Sequence[Lexeme], first: int = 0, ends: tuple[str, ...] = ()) -> Iterator[tuple[int, int]]:
    """The places of a list's items, from the first to that after the last, up to one of the words or a parenthesis.

    >>> words = lexed("f(a, b), [c, d]) x").words
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

    >>> words = lexed("f(a, (b)) + c").words
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


def _words(text: str) -> tuple[Lexeme, ...]:
    starts = _starts(text)
    words = [_word(text[start:after], start) for start, after in pairwise([*starts, len(text)])]
    found = tuple(word for word in words if word is not None)
    return tuple(_joined(found)) if "$" in text else found


def _moved(words: tuple[Lexeme, ...], start: int) -> tuple[Lexeme, ...]:
    """Some words of a text as those of its part that begins at `start`."""
    return tuple(Lexeme(kind, text, first - start) for kind, text, first in words) if start else words


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
    kind = _kind(text[:2] if text[:1] != "$" else text[: text.find("$", 1) + 1 or 1])
    if kind is None:
        return None
    if "--" in text or "/*" in text:
        if kind in ("string", "quoted"):
            whole = (_STRING if kind == "string" else _QUOTED).match(text)
            if whole is not None and (kind == "quoted" or "'" not in text[whole.end() :]):
                return Lexeme(kind, whole[0], start)  # no string in another line belongs to it
        else:
            text = _COMMENT.split(text, maxsplit=1)[0]
    return Lexeme(kind, text.rstrip(), start)


@lru_cache(maxsize=4096)
def _kind(text: str) -> Kind | None:
    """The kind of a word by its first two characters, or by all up to a second dollar. None: a comment, which only
    DuckDB 2 counts as a word."""
    first = _FIRST.match(text)
    return None if first and first["comment"] else cast(Kind, first.lastgroup if first else "mark")


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
