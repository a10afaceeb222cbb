"""Queries that name what only PostgreSQL has: the schema `public`, where its clients find the tables and which DuckDB
calls main, and the column `ctid`, by which editors of tables find a row again that they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoop.catalog.by_text import LONG
from qoop.catalog.lexer import Lexeme, lexed
from qoop.interfaces.server.postgres.catalog.operands import follow, is_item, rewritten

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
        if (word.name or "").lower() != "public" or not follow(words, place + 1, "."):
            continue
        start = word.start
        if follow(words, place - 1, "."):
            if place < 2 or words[place - 2].name != database or follow(words, place - 3, "."):
                continue
            start = words[place - 2].start
        end = words[place + 1].start
        done = done[:start] + "main" + " " * (end - start - 4) + done[end:]
    return done


def without_ctid(text: str, session: Session) -> str:
    """The text with NULL in the place of each item ``ctid``, unless a table has a column of that name."""
    if "ctid" not in text.lower() or len(text) >= LONG:
        return text
    if any(name.lower() == "ctid" for table in session.tables().values() for name, _ in table.columns):
        return text
    words = lexed(text).words

    def change(place: int) -> tuple[str, int] | None:
        end = place + 3 if follow(words, place + 1, ".") else place + 1
        found = _is_ctid(words, place, end) and is_item(words, place)
        return ("CAST(NULL AS VARCHAR) AS ctid", end) if found else None

    return rewritten(text, words, change)


def _is_ctid(words: Sequence[Lexeme], place: int, end: int) -> bool:
    """True if the name between these places is that column, and has no other name and no part in an expression."""
    if end >= len(words) or (words[end - 1].name or "").lower() != "ctid":
        return False
    return words[place - 1].says(",", "SELECT") and words[end].says(",", "FROM")
