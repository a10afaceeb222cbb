"""Queries that name the schema `public`, where PostgreSQL's clients find the tables; DuckDB's is called main."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoop.catalog.lexer import Lexeme, lexed

if TYPE_CHECKING:
    from qoop.session.session import Session


def without_public(text: str, session: Session, database: str = "") -> str:
    """The text with ``public.`` as ``main.``, unless a table is called so; it has as many characters as before.

    database: a name that may stand before it. Spaces take the place of what is less, so that the place of an error is
    that of the client's text.
    """
    if "public" not in text.lower() or "public" in {name.lower() for name in session.tables()}:
        return text
    words = lexed(text).words
    done = text
    for place, word in enumerate(words):
        if (word.name or "").lower() != "public" or not _is_dot(words, place + 1):
            continue
        start = word.start
        if _is_dot(words, place - 1):
            if place < 2 or words[place - 2].name != database or _is_dot(words, place - 3):
                continue
            start = words[place - 2].start
        end = words[place + 1].start
        done = done[:start] + "main" + " " * (end - start - 4) + done[end:]
    return done


def _is_dot(words: Sequence[Lexeme], place: int) -> bool:
    return 0 <= place < len(words) and words[place].text == "."
