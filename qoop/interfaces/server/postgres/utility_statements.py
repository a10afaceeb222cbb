"""Statements that are no queries: transactions, settings, cursors, LISTEN; and those that write, which are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from qoop.catalog.errors import Forbidden, ParseError
from qoop.catalog.lexer import Lexeme, behind_closing, lexed, list_items
from qoop.catalog.value import value

Status = Literal["I", "T", "E"]
"""The state of a transaction: none, begun, failed."""


@value
class Transaction:
    """BEGIN, COMMIT and the like. status: of the transaction after it; empty: as before."""

    tag: str
    status: str = ""


@value
class Set:
    """SET. to: None: the default. tag: SET or RESET."""

    name: str
    to: str | None
    local: bool = False
    tag: str = "SET"


@value
class Show:
    """SHOW of one setting, or of all: an empty name."""

    name: str


@value
class Reset:
    """RESET ALL or DISCARD. everything: statements, cursors and channels, too."""

    tag: str
    everything: bool = False


@value
class Prepare:
    """PREPARE of a query. types: of its parameters, as they are written; the last ones may lack."""

    name: str
    types: tuple[str, ...]
    query: str


@value
class Execute:
    """EXECUTE of a prepared statement. values: expressions."""

    name: str
    values: tuple[str, ...]


@value
class Deallocate:
    """DEALLOCATE of one prepared statement, or of all: None."""

    name: str | None


@value
class Declare:
    """DECLARE of a cursor. query: its text. scroll: None: it is not said."""

    name: str
    query: str
    hold: bool = False
    scroll: bool | None = None
    binary: bool = False


@value
class Fetch:
    """FETCH, or MOVE, by `count` rows from where the cursor is; absolute: to that row; None: to the end.

    relative: only that row.
    """

    name: str
    count: int | None = 1
    backward: bool = False
    to: Literal["steps", "absolute", "relative"] = "steps"
    moves: bool = False


@value
class CloseCursor:
    """CLOSE of one cursor, or of all: None."""

    name: str | None


Utility = Transaction | Set | Show | Reset | Prepare | Execute | Deallocate | Declare | Fetch | CloseCursor

_WRITES = (
    "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT", "REVOKE", "COMMENT",
    "VACUUM", "ANALYZE", "REINDEX", "CLUSTER", "REFRESH", "REASSIGN", "SECURITY", "IMPORT", "CALL", "DO", "LOAD",
    "NOTIFY", "CHECKPOINT", "ATTACH", "DETACH", "INSTALL", "EXPORT", "USE", "PRAGMA", "LOCK",
)  # fmt: skip


def utility(text: str, status: str) -> Utility | None:
    """The meaning of a statement, None if it is a query. Raises Forbidden for what writes.

    >>> utility("BEGIN", "I"), utility("rollback;", "E"), utility("SHOW client_encoding", "I"), utility("FROM t", "I")
    (Transaction(tag='BEGIN', status='T'), Transaction(tag='ROLLBACK', status='I'), Show(name='client_encoding'), None)
    >>> utility("FETCH BACKWARD 5 IN c", "T")
    Fetch(name='c', count=5, backward=True, to='steps', moves=False)
    >>> utility("PREPARE p (int, text[]) AS SELECT $1", "I"), utility("EXECUTE p (1, f(2, 3));", "I")
    (Prepare(name='p', types=('int', 'text[]'), query='SELECT $1'), Execute(name='p', values=('1', 'f(2, 3)')))
    """
    words = [word for word in lexed(text).words if word.text != ";"]
    first = words[0].text.upper() if words and words[0].kind == "word" else ""
    if first in _WRITES:
        raise Forbidden(
            f"{first} is refused: this server only reads. It answers queries, EXPLAIN and SHOW, and its session is "
            "that of all users"
        )
    if first == "SELECT" and _writes_table(words):
        raise Forbidden("SELECT INTO is refused: this server only reads, and makes no tables, temporary ones neither")
    found = _transaction(first, words[1:], status)
    if found is not None:
        return found
    match first:
        case "SET" | "RESET":
            return _set(words[1:]) if first == "SET" else _reset(words[1:])
        case "SHOW":
            return _show(words[1:])
        case "DISCARD":
            return Reset(f"DISCARD {words[1].text.upper() if len(words) > 1 else 'ALL'}", True)
        case "PREPARE":
            return _prepare(text, words)
        case "EXECUTE":
            return _execute(text, words)
        case "DEALLOCATE":
            return Deallocate(_name_or_all(words[2:] if words[1:] and words[1].says("PREPARE") else words[1:]))
        case "LISTEN" | "UNLISTEN":
            return Transaction(first)
        case "DECLARE":
            return _declare(text, words)
        case "FETCH" | "MOVE":
            return _fetch(words[1:], first == "MOVE")
        case "CLOSE":
            return CloseCursor(_name_or_all(words[1:]))
    return None


def _writes_table(words: Sequence[Lexeme]) -> bool:
    """True if INTO stands before the FROM of a SELECT."""
    depth = 0
    for word in words:
        depth += (word.text == "(") - (word.text == ")")
        if depth == 0 and word.says("INTO", "FROM"):
            return word.says("INTO")
    return False


def _transaction(first: str, words: Sequence[Lexeme], status: str) -> Transaction | None:
    match first:
        case "BEGIN" | "START":
            return Transaction("BEGIN", "T")
        case "COMMIT" | "END":
            return Transaction("ROLLBACK" if status == "E" else "COMMIT", "I")
        case "ROLLBACK" | "ABORT":
            to_savepoint = any(word.says("TO") for word in words)
            return Transaction("ROLLBACK", "T" if to_savepoint else "I")
        case "SAVEPOINT" | "RELEASE":
            return Transaction(first)
    return None


def _set(words: Sequence[Lexeme]) -> Utility:
    local = bool(words) and words[0].says("LOCAL")
    if words and words[0].says("LOCAL", "SESSION") and not (len(words) > 1 and words[1].says("AUTHORIZATION")):
        words = words[1:]
    if _says(words, "CHARACTERISTICS") or _says(words, "TRANSACTION") or _says(words, "CONSTRAINTS"):
        return Transaction("SET")
    if _says(words, "SESSION", "AUTHORIZATION"):
        raise Forbidden("a server does not SET SESSION AUTHORIZATION: a client stays the user that it came as")
    if _says(words, "TIME", "ZONE"):
        return Set("timezone", _value(words[2:]), local)
    if _says(words, "NAMES"):
        return Set("client_encoding", _value(words[1:]) or "UTF8", local)
    if _says(words, "ROLE"):
        return Set("role", _value(words[1:]), local)
    name, after = _dotted(words)
    return Set(name, _value(words[after + 1 :]), local)


def _reset(words: Sequence[Lexeme]) -> Utility:
    if not words or words[0].says("ALL"):
        return Reset("RESET")
    if _says(words, "SESSION", "AUTHORIZATION"):
        return Transaction("RESET")
    return Set("timezone" if _says(words, "TIME", "ZONE") else _dotted(words)[0], None, tag="RESET")


def _show(words: Sequence[Lexeme]) -> Show | None:
    if not words or words[0].says("TABLES", "FUNCTIONS", "DATABASES", "SCHEMAS", "VIEWS", "COLUMNS"):
        return None
    if _says(words, "ALL") and len(words) == 1:
        return Show("")
    whole = "_".join(word.text.lower() for word in words)
    known = {
        "time_zone": "timezone", "transaction_isolation_level": "transaction_isolation",
        "session_authorization": "session_authorization",
    }  # fmt: skip
    return Show(known.get(whole) or _dotted(words)[0])


def _dotted(words: Sequence[Lexeme]) -> tuple[str, int]:
    """The name of a setting, and how many words it has."""
    if not words or words[0].name is None:
        return "", 0
    count = 1
    while count + 1 < len(words) and words[count].text == "." and words[count + 1].name is not None:
        count += 2
    return "".join(word.name or "." for word in words[:count]), count


def _value(words: Sequence[Lexeme]) -> str | None:
    """The value that the words say, None for the default."""
    if words and words[0].says("DEFAULT"):
        return None
    signs = [
        (word.text[1:-1].replace("''", "'") if word.kind == "string" else word.name or word.text) for word in words
    ]
    return " ".join(signs).replace(" , ", ", ").replace("- ", "-")


def _prepare(text: str, words: Sequence[Lexeme]) -> Prepare:
    if _says(words[1:], "TRANSACTION"):
        raise Forbidden("PREPARE TRANSACTION is refused: this server only reads")
    types, after = _in_parentheses(text, words, 2)
    if len(words) < after + 2 or words[1].name is None or not words[after].says("AS"):
        raise ParseError("a statement is prepared as PREPARE name [(type, …)] AS query")
    query = text[words[after + 1].start :].strip().rstrip(";")
    if utility(query, "T") is not None:
        raise ParseError("PREPARE takes a query")
    return Prepare(_folded(words[1]), types, query)


def _execute(text: str, words: Sequence[Lexeme]) -> Execute:
    values, after = _in_parentheses(text, words, 2)
    if len(words) != after or words[1].name is None:
        raise ParseError("a statement is executed as EXECUTE name [(value, …)]")
    return Execute(_folded(words[1]), values)


def _in_parentheses(text: str, words: Sequence[Lexeme], at: int) -> tuple[tuple[str, ...], int]:
    """The items of a list in parentheses that may be at a place, and the place behind it."""
    if at >= len(words) or words[at].text != "(":
        return (), at
    end = behind_closing(words, at)
    inside = words[at + 1 : end - 1]
    items = (inside[first:after] for first, after in list_items(inside))
    return tuple(text[item[0].start : item[-1].end] for item in items if item), end


def _declare(text: str, words: Sequence[Lexeme]) -> Declare:
    place = next((place for place, word in enumerate(words) if word.says("FOR")), len(words))
    options = [word.text.upper() for word in words[2:place]]
    if len(words) < 2 or words[1].name is None or "CURSOR" not in options or place + 1 >= len(words):
        raise ParseError("a cursor is declared as DECLARE name [BINARY] [[NO] SCROLL] CURSOR [WITH HOLD] FOR query")
    hold = "HOLD" in options and options[options.index("HOLD") - 1] == "WITH"
    scroll = None if "SCROLL" not in options else options[options.index("SCROLL") - 1] != "NO"
    query = text[words[place + 1].start :]
    return Declare(_folded(words[1]), query.strip().rstrip(";"), hold, scroll, "BINARY" in options)


def _fetch(words: Sequence[Lexeme], moves: bool) -> Fetch:
    if not words or words[-1].name is None:
        raise ParseError("FETCH and MOVE name a cursor: FETCH [direction] [FROM | IN] name")
    name = _folded(words[-1])
    how = [word.text.upper() for word in words[:-1] if not word.says("FROM", "IN")]
    match how:
        case [] | ["NEXT"] | ["FORWARD"]:
            return Fetch(name, moves=moves)
        case ["PRIOR"] | ["BACKWARD"]:
            return Fetch(name, backward=True, moves=moves)
        case ["FIRST"]:
            return Fetch(name, 1, to="absolute", moves=moves)
        case ["LAST"]:
            return Fetch(name, -1, to="absolute", moves=moves)
        case ["ALL"] | ["FORWARD", "ALL"]:
            return Fetch(name, None, moves=moves)
        case ["BACKWARD", "ALL"]:
            return Fetch(name, None, backward=True, moves=moves)
        case ["ABSOLUTE" | "RELATIVE" as to, *number]:
            return Fetch(name, _number(number), to="absolute" if to == "ABSOLUTE" else "relative", moves=moves)
        case ["FORWARD" | "BACKWARD" as to, *number]:
            count, back = _number(number), to == "BACKWARD"
            return Fetch(name, abs(count), backward=back != (count < 0), moves=moves)
        case number:
            count = _number(number)
            return Fetch(name, abs(count), backward=count < 0, moves=moves)


def _number(words: Sequence[str]) -> int:
    try:
        return int("".join(words))
    except ValueError as error:
        raise ParseError(f"{' '.join(words)} is no direction of FETCH") from error


def _folded(word: Lexeme) -> str:
    return (word.name or "") if word.kind == "quoted" else word.text.lower()


def _name_or_all(words: Sequence[Lexeme]) -> str | None:
    if not words or words[0].name is None:
        raise ParseError("a name is missing: CLOSE and DEALLOCATE take one, or ALL")
    return None if words[0].says("ALL") else _folded(words[0])


def _says(words: Sequence[Lexeme], *texts: str) -> bool:
    return len(words) >= len(texts) and all(word.says(text) for word, text in zip(words, texts, strict=False))
