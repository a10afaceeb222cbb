"""The words of a statement, read one after the other."""

from __future__ import annotations

import duckdb

from qoop.catalog.duckdb_introspection import ask, parsed
from qoop.catalog.errors import ParseError
from qoop.catalog.lexer import LexedText, Lexeme, behind_closing, known_text, lexed


def split(text: str) -> list[str]:
    """The statements of a text, without the empty ones.

    >>> split("SELECT ';' ; -- no more;\\n FROM t; -- end")
    ["SELECT ';'", 'FROM t']

    Raises ParseError for a text without words that is not empty: DuckDB's lexer stops at a string that has no end.
    """
    whole = lexed(text)
    ends = [place for place, word in enumerate(whole.words) if word.text == ";"]
    firsts = [0, *(end + 1 for end in ends)]
    parts = [whole.part(first, after) for first, after in zip(firsts, [*ends, None], strict=True)]
    if not whole.words:
        try:
            parsed(text)
        except duckdb.Error as error:
            raise ParseError(str(error)) from error
    return [known_text(part) for part in parts if part.words]


class Words:
    """The remaining words of a text.

    >>> words = Words("DROP /* it */ TABLE \\"a b\\" CASCADE")
    >>> words.take("DROP", "VIEW"), words.take("DROP", "TABLE"), words.take_name(), words.rest
    (False, True, 'a b', 'CASCADE')
    """

    def __init__(self, text: str | LexedText) -> None:
        self._lexed = lexed(text) if isinstance(text, str) else text
        self._text, self._words = self._lexed.text, self._lexed.words
        self._at = 0

    @property
    def next(self) -> Lexeme | None:
        """The next word, None at the end."""
        return self._words[self._at] if self._at < len(self._words) else None

    @property
    def left(self) -> tuple[Lexeme, ...]:
        """All words that are left."""
        return self._words[self._at :]

    @property
    def rest(self) -> str:
        """The text from the next word on."""
        return "" if self.next is None else self._text[self.next.start :]

    @property
    def statement(self) -> str:
        """The same, of a statement within this one: it is not lexed again."""
        return known_text(self._lexed.part(self._at))

    def take(self, *words: str) -> bool:
        """Go past these words, if they are the next ones."""
        found = self._words[self._at : self._at + len(words)]
        if len(found) < len(words) or not all(map(Lexeme.says, found, words)):
            return False
        self._at += len(words)
        return True

    def skip_to(self, *words: str) -> None:
        """Go past all words before the first of these that stands in no parentheses, is not a name before AS, and not
        the last one of IS DISTINCT FROM."""
        while (now := self._words[self._at : self._at + 2]) and (not now[0].says(*words) or now[-1].says("AS")):
            if not self.take("DISTINCT", "FROM") and self.parenthesised() is None:
                self._at += 1

    def take_name(self) -> str | None:
        """Go past a name, and return it; None if there is none."""
        name = None if self.next is None else self.next.name
        self._at += name is not None
        return name

    def parts(self) -> tuple[str, ...]:
        """Go past a name, or several with dots between them; none if there are none, or one is missing."""
        found = [self.take_name()]
        while found[-1] is not None and self.take("."):
            found.append(self.take_name())
        return () if None in found else tuple(map(str, found))

    def dotted_name(self) -> str | None:
        """The same as one text; None if there are none."""
        return ".".join(self.parts()) or None

    def number(self) -> float | None:
        """Go past a number, and return it; None if there is none."""
        if self.next is None or self.next.kind != "number":
            return None
        found = float(self.next.text.replace("_", ""))
        self._at += 1
        return found

    def string(self) -> str | None:
        """Go past a string, of whatever form, and return what it holds; None if there is none."""
        if self.next is None or self.next.kind != "string":
            return None
        ((value,),) = ask(f"SELECT {self.next.text}\n")
        self._at += 1
        return str(value)

    def parenthesised(self) -> str | None:
        """Go past what stands in parentheses, and return it with them; None if there is none."""
        first = self._at
        if self.next is None or self.next.text != "(":
            return None
        self._at = behind_closing(self._words, first)
        known_text(self._lexed.part(first + 1, self._at - 1))  # of a query in it, or the values of an EXECUTE
        return self._text[self._words[first].start : self._words[self._at - 1].end]
