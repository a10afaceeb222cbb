"""The colours of a query while it is typed: terminal colours that suit dark and light backgrounds."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from qoop.interfaces.repl.names import COMMON, Names
from qoop.interfaces.repl.tokens import Token, tokens
from qoop.interfaces.repl.typed import is_command

STYLE = {
    "sql.keyword": "bold ansiblue",
    "sql.function": "ansimagenta",
    "sql.string": "ansigreen",
    "sql.number": "",
    "sql.comment": "italic ansibrightblack",
    "sql.command": "bold ansimagenta",
    "sql.open": "ansired",
}
"""prompt_toolkit styles by the class of a token."""


class SqlLexer(Lexer):
    """Colours for prompt_toolkit. names: the current names of the session."""

    def __init__(self, names: Callable[[], Names]) -> None:
        self._names = names

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = coloured(document.text, self._names())
        return lambda number: lines[number] if number < len(lines) else []


def coloured(text: str, names: Names) -> list[StyleAndTextTuples]:
    """The lines of a text in pieces with their styles.

    >>> coloured("select 1", Names())
    [[('class:sql.keyword', 'select'), ('', ' '), ('class:sql.number', '1')]]
    """
    if is_command(text):
        word, space, rest = text.partition(" ")
        return _lines([("class:sql.command", word), ("", space + rest)])
    pieces = tokens(text)
    keywords, functions = frozenset(COMMON), frozenset(names.functions)
    styles = []
    for place, token in enumerate(pieces):
        called = place + 1 < len(pieces) and pieces[place + 1].text == "("
        styles.append((_style(token, called, keywords, functions), token.text))
    return _lines(styles)


def _style(token: Token, called: bool, keywords: frozenset[str], functions: frozenset[str]) -> str:
    match token.kind:
        case "string":
            return "class:sql.string" if token.closed else "class:sql.open"
        case "number" | "parameter":
            return "class:sql.number"
        case "comment":
            return "class:sql.comment"
        case "word" if called and token.text.lower() in functions:
            return "class:sql.function"
        case "word" if token.text.lower() in keywords:
            return "class:sql.keyword"
    return ""


def _lines(pieces: list[tuple[str, str]]) -> list[StyleAndTextTuples]:
    lines: list[StyleAndTextTuples] = [[]]
    for style, text in pieces:
        first, *rest = text.split("\n")
        if first:
            lines[-1].append((style, first))
        for line in rest:
            lines.append([(style, line)] if line else [])
    return lines
