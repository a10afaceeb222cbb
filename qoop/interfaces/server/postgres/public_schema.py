"""Queries that name what only PostgreSQL has: the schema `public`, where its clients find the tables and which DuckDB
calls main, and system columns, by which editors of tables find a row again that they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.catalog.by_text import LONG
from qoop.catalog.errors import QueryError
from qoop.catalog.lexer import lexed
from qoop.interfaces.server.postgres.catalog.operands import follow, is_item, rewritten, type_end
from qoop.interfaces.server.postgres.catalog.text_functions import with_duckdb_calls

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


SYSTEM_COLUMNS = ("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid")


def without_system_columns(text: str, session: Session) -> str:
    """The text with NULL in the place of each item that is a system column. A text that binds as it is stays so: its
    tables, views or subqueries have columns of these names.

    Only items of a SELECT, with casts or not: in a condition a NULL would leave out all rows.
    """
    lower = text.lower()
    names = {name for name in SYSTEM_COLUMNS if name in lower}
    if not names or len(text) >= LONG:
        return text
    words = lexed(text).words

    def change(place: int) -> tuple[str, int] | None:
        end = place + 3 if follow(words, place + 1, ".") else place + 1
        name = (words[end - 1].name or "").lower() if end < len(words) else ""
        if name not in names or not words[place - 1].says(",", "SELECT") or not is_item(words, place):
            return None
        while follow(words, end, "::"):
            end = type_end(words, end + 1)
        if words[end : end + 1] and words[end].says(",", "FROM"):
            return f"CAST(NULL AS VARCHAR) AS {name}", end
        return ("CAST(NULL AS VARCHAR)", end) if words[end : end + 1] and words[end].says("AS") else None

    done = rewritten(text, words, change)
    return text if done == text or _binds(with_duckdb_calls(text), session) else done


def _binds(text: str, session: Session) -> bool:
    try:
        session.describe(text)
    except QueryError:
        return False
    return True
