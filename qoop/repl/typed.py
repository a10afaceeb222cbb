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
    if not stripped or is_command(stripped) or is_bare_command(stripped) or split_command(text)[0]:
        return True
    last = next((token for token in reversed(tokens(text)) if token.kind not in ("space", "comment")), None)
    return last is not None and last.kind == "mark" and last.text in ";&" and tokens(text)[-1].closed


def is_command(text: str) -> bool:
    """True if the text is a command of the shell, as psql (\\d) or DuckDB (.tables) write them."""
    return re.match(r"\s*(\\|\.[a-z?])", text, re.I) is not None


def is_bare_command(text: str) -> bool:
    """True if the text is one of the words that are a command without a mark before it."""
    return text.strip().lower() in ("exit", "quit", "help", "?")


def split_command(text: str) -> tuple[str, str]:
    r"""A statement that is begun, and the command that its last line is; the text itself where it is not so.

    >>> split_command("select a,\n\\d t"), split_command("select '\n\\d t"), split_command("select 1;")
    (('select a,', '\\d t'), ('', "select '\n\\d t"), ('', 'select 1;'))
    """
    begun, _, last = text.rstrip().rpartition("\n")
    inside = any(not token.closed for token in tokens(begun)[-1:])
    return (begun, last.strip()) if last.lstrip().startswith("\\") and begun.strip() and not inside else ("", text)


def statement_at(text: str, place: int) -> tuple[str, int]:
    """The statement that holds a place in a text, and the place within it.

    >>> statement_at("select 1; select a", 18)
    (' select a', 9)
    """
    ends = [token.start for token in tokens(text) if token.kind == "mark" and token.text == ";"]
    start = max((end + 1 for end in ends if end < place), default=0)
    end = min((end for end in ends if end >= place), default=len(text))
    return text[start:end], place - start
