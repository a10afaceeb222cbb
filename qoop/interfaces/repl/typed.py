"""The input of the shell: a command, or statements, complete or not."""

from __future__ import annotations

import re

from qoop.interfaces.repl.tokens import tokens, words


def is_whole(text: str) -> bool:
    """True if Return runs the text: it ends with ; or & or is a command, or is empty.

    >>> is_whole("select 1;"), is_whole("select 1"), is_whole("select ';"), is_whole("from t; -- x")
    (True, False, False, True)
    """
    done, begun = pieces(text)
    if begun or is_command(done[-1]) or not text.strip():
        return True
    last = next(reversed(list(words(done[-1]))), None)
    return last is not None and last.kind == "mark" and last.text in ";&" and tokens(done[-1])[-1].closed


def is_command(text: str) -> bool:
    """True if the text is a command of the shell, as psql (\\d) or DuckDB (.tables) write them."""
    return re.match(r"\s*(\\|\.[a-z?])", text, re.I) is not None


def is_bare_command(text: str) -> bool:
    """True if the text is one of the words that are a command without a mark before it."""
    return text.strip().lower() in ("exit", "quit", "help", "?")


def pieces(text: str) -> tuple[list[str], str]:
    r"""The commands and the statements of a text, in order, and the unfinished statement that a final command
    interrupts. A command takes a whole line; a dot begins one only between statements.

    >>> pieces("\\x\nselect 1;\nselect\n2;\n.mode csv"), pieces("select a,\n\\d t"), pieces("select '\n\\d t")
    ((['\\x', 'select 1;\nselect\n2;', '.mode csv'], ''), (['\\d t'], 'select a,'), (["select '\n\\d t"], ''))
    """
    done: list[str] = []
    begun: list[str] = []
    ends_with_command = False
    for line in text.split("\n"):
        command = _command(line)
        is_one = command != "" and _may_follow(command, "\n".join(begun))
        if not is_one:
            begun.append(line)
        else:
            done += [*_ended(begun), command]
        ends_with_command = is_one or (ends_with_command and not line.strip())
    left = "\n".join(begun).strip()
    if ends_with_command and left:
        return done, left
    return ([*done, left] if any(words(left)) or not done else done), ""


def _command(line: str) -> str:
    """The command on a line, with its mark; empty if it is none."""
    if is_bare_command(line.rstrip().rstrip(";")):
        return f"\\{line.strip().rstrip(';').lower()}"
    return line.strip() if is_command(line) else ""


def _may_follow(command: str, begun: str) -> bool:
    """True if a line after an unfinished text is a command, not part of a string, a name or a comment."""
    if any(not token.closed for token in tokens(begun)[-1:]):
        return False
    return (command.startswith("\\") and not is_bare_command(command[1:])) or _at_an_end(begun)


def _at_an_end(text: str) -> bool:
    """True if a text has no unfinished statement."""
    last = next(reversed(list(words(text))), None)
    return last is None or (last.kind == "mark" and last.text in ";&")


def _ended(begun: list[str]) -> list[str]:
    """Remove and return the statements of the buffered lines, if the last of them has ended."""
    text = "\n".join(begun)
    if not _at_an_end(text):
        return []
    begun.clear()
    return [text.strip()] if any(words(text)) else []


def statement_at(text: str, place: int) -> tuple[str, int]:
    """The statement at a position in a text, and the position within it.

    >>> statement_at("select 1; select a", 18)
    (' select a', 9)
    """
    ends = [token.start for token in tokens(text) if token.kind == "mark" and token.text == ";"]
    start = max((end + 1 for end in ends if end < place), default=0)
    end = min((end for end in ends if end >= place), default=len(text))
    return text[start:end], place - start
