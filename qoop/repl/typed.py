"""The input of the shell: a command, or statements that are whole or not."""

from __future__ import annotations

import re

from qoop.repl.tokens import tokens


def is_whole(text: str) -> bool:
    """True if Return runs the text: it ends with ; or & or is a command, or is empty.

    >>> is_whole("select 1;"), is_whole("select 1"), is_whole("select ';"), is_whole("from t; -- x")
    (True, False, False, True)
    """
    stripped = text.strip()
    if not stripped or is_command(stripped) or stripped.lower() in ("exit", "quit", "help"):
        return True
    last = next((token for token in reversed(tokens(text)) if token.kind not in ("space", "comment")), None)
    return last is not None and last.kind == "mark" and last.text in ";&" and tokens(text)[-1].closed


def is_command(text: str) -> bool:
    """True if the text is a command of the shell, as psql (\\d) or DuckDB (.tables) write them."""
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
