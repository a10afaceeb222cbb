"""Completions of a text: commands, tables, columns of the tables in scope, functions, keywords, files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from qoop.catalog.value import value
from qoop.interfaces.repl.names import Names
from qoop.interfaces.repl.tokens import Token, name_of, words
from qoop.interfaces.repl.typed import is_command, statement_at

_TABLE_FOLLOWS = {"from", "join", "into", "describe", "desc", "summarize", "table", "view", "update"}
_NO_ALIAS = {
    "where", "on", "using", "join", "left", "right", "full", "inner", "outer", "cross", "group", "order", "having",
    "limit", "union", "except", "intersect", "select", "semi", "anti", "natural", "asof", "qualify", "window", "set",
    "as", "from", "positional", "lateral", "sample", "tablesample", "offset", "values",
}  # fmt: skip
_TAKE_FILES = {
    "i", "read", "include", "timeline", "o", "output", "save", "export", "profile", "suspend", "resume", "e", "edit",
    "import",
}  # fmt: skip
_ENDS_FROM = {"where", "group", "order", "having", "limit", "union", "except", "intersect", "select", "qualify"}


@value
class Offer:
    """text: replaces the last `replaces` characters before the cursor. what: a word on its kind."""

    text: str
    replaces: int
    what: str


def offers(text: str, cursor: int, names: Names, commands: Sequence[str] = ()) -> list[Offer]:
    """The possible words at the cursor, the likeliest first.

    >>> names = Names(tables={"orders": (("item", "VARCHAR"), ("price", "INTEGER"))})
    >>> [offer.text for offer in offers("select pr from orders", 9, names)]
    ['price', 'preceding']
    >>> [offer.text for offer in offers("select o. from orders o", 9, names)]
    ['item', 'price']
    """
    if is_command(text[:cursor]):
        return _of_command(text[:cursor], names, commands)
    statement, place = statement_at(text, cursor)
    before = list(words(statement[:place]))
    if before and before[-1].kind == "string" and not before[-1].closed:
        return _files(before[-1].text[1:])
    typed = before.pop() if before and before[-1].kind in ("word", "quoted") and before[-1].end == place else None
    prefix = typed.text if typed is not None else ""
    if _is_variable(before, place - len(prefix)):
        return _matching(prefix, _variables(names))
    if before and before[-1].text == "." and before[-1].end + len(prefix) == place:
        owner = name_of(before[-2]) if len(before) > 1 else None
        return _columns_of(owner or "", statement, prefix, names)
    if _table_follows(before):
        return _matching(prefix, [*_tables(names), *((name, "with") for name in common_tables(statement))])
    if not prefix:
        return []
    return _matching(prefix, _anything(statement, prefix, names))


def scope(statement: str, names: Names) -> dict[str, str]:
    """The sources that a statement reads, in their text after FROM, by alias in lower case.

    >>> scope("select * from orders o, items join x as y on true", Names())
    {'o': 'orders', 'items': 'items', 'y': 'x'}
    >>> scope("from range(3) t(n), 'a.csv' as a, (select 1) s", Names())
    {'t': 'range(3) t(n)', 'a': "'a.csv'", 's': '(select 1)'}
    """
    found: dict[str, str] = {}
    pieces = list(words(statement))
    in_from, depth_of_from, depth = False, 0, 0
    for place, token in enumerate(pieces):
        lower = token.text.lower()
        depth += (lower == "(") - (lower == ")")
        if lower in ("from", "join"):
            in_from, depth_of_from = True, depth
        elif lower in _ENDS_FROM and depth <= depth_of_from:
            in_from = False
        begins = lower in ("from", "join") or (lower == "," and in_from and depth == depth_of_from)
        source = _source(statement, pieces[place + 1 :]) if begins else None
        if source is not None:
            found[source[0].lower()] = source[1]
    return found


def _source(statement: str, after: Sequence[Token]) -> tuple[str, str] | None:
    """The alias and the text of the source at the start of these tokens; None if it is incomplete."""
    first = after[0] if after else None
    name = name_of(first) if first is not None else None
    if first is None or (name is not None and name.lower() in _NO_ALIAS):
        return None
    called = len(after) > 1 and after[1].text == "(" and first.end == after[1].start and name is not None
    begin = 1 if called else 0
    length = begin + _parentheses(after[begin:]) if called or first.text == "(" else 1
    if not length or (name is None and first.text != "(" and (first.kind != "string" or not first.closed)):
        return None
    alias = _alias(after[length : length + 2], name or "")
    if name is not None and not called:
        return alias, name
    end = length + _renaming(after[length:], alias)
    return alias, statement[first.start : after[end - 1].end]


def _parentheses(pieces: Sequence[Token]) -> int:
    """The number of tokens from a parenthesis to its closing one, both included; 0 if it is not closed."""
    depth = 0
    for place, token in enumerate(pieces):
        depth += (token.text == "(") - (token.text == ")")
        if not depth:
            return place + 1
    return 0


def _renaming(after: Sequence[Token], alias: str) -> int:
    """The number of tokens of an alias that also names columns; 0 if it names none."""
    place = next((place for place, token in enumerate(after[:2]) if name_of(token) == alias), None)
    if place is None or len(after) <= place + 1 or after[place + 1].text != "(":
        return 0
    length = _parentheses(after[place + 1 :])
    return place + 1 + length if length else 0


def _alias(after: Sequence[Token], table: str) -> str:
    for token in after:
        name = name_of(token)
        if token.text.lower() == "as":
            continue
        return name if name is not None and name.lower() not in _NO_ALIAS else table
    return table


def common_tables(statement: str) -> dict[str, str]:
    """The named queries of WITH, each as the text up to its end, by name in lower case.

    >>> common_tables("with a as (select 1 as x), b(y) as (from a) select ")
    {'a': 'with a as (select 1 as x)', 'b': 'with a as (select 1 as x), b(y) as (from a)'}
    """
    found: dict[str, str] = {}
    pieces = list(words(statement))
    if not pieces or pieces[0].text.lower() != "with":
        return found
    place = 2 if len(pieces) > 1 and pieces[1].text.lower() == "recursive" else 1
    while place < len(pieces) and (name := name_of(pieces[place])) is not None:
        renamed = place + 1 < len(pieces) and pieces[place + 1].text == "("
        place += 1 + (_parentheses(pieces[place + 1 :]) if renamed else 0)
        place += 1 + 2 * (place + 1 < len(pieces) and pieces[place + 1].text.lower() == "not")
        place += place < len(pieces) and pieces[place].text.lower() == "materialized"
        length = _parentheses(pieces[place:]) if place < len(pieces) and pieces[place].text == "(" else 0
        if not length:
            break
        place += length
        found[name.lower()] = statement[pieces[0].start : pieces[place - 1].end]
        if place >= len(pieces) or pieces[place].text != ",":
            break
        place += 1
    return found


def _table_follows(before: Sequence[Token]) -> bool:
    if not before:
        return False
    if before[-1].text.lower() in _TABLE_FOLLOWS:
        return True
    if before[-1].text != ",":
        return False
    for token in reversed(before):
        lower = token.text.lower()
        if lower in _ENDS_FROM or lower in ("on", "using", ")", "("):
            return False
        if lower == "from":
            return True
    return False


def _tables(names: Names) -> Iterator[tuple[str, str]]:
    return ((_written(name), "table") for name in names.tables)


def _is_variable(before: Sequence[Token], start: int) -> bool:
    """True if the word at this position follows a colon that is not part of a cast."""
    return (
        bool(before)
        and before[-1].text == ":"
        and before[-1].end == start
        and all(one.text != ":" for one in before[-2:-1])
    )


def _variables(names: Names) -> Iterator[tuple[str, str]]:
    return ((name, "variable") for name in names.variables)


def _columns_of(alias: str, statement: str, prefix: str, names: Names) -> list[Offer]:
    source = scope(statement, names).get(alias.lower(), alias)
    return _matching(prefix, _columns(source, statement, names))


def _columns(source: str, statement: str, names: Names) -> list[tuple[str, str]]:
    """The columns of a source, quoted where needed, with their types."""
    common = common_tables(statement)
    before = common.get(source.lower()) or (list(common.values())[-1] if common and source.startswith("(") else "")
    if source.lower() in common:
        found = names.describe(f"{before} SELECT * FROM {_written(source)}")
    elif source[-1:] in ("'", ")"):
        found = names.describe(f"{before} SELECT * FROM {source}")
    else:
        found = names.columns(source)
    return [(_written(name), type_.lower()) for name, type_ in found]


def _anything(statement: str, prefix: str, names: Names) -> Iterator[tuple[str, str]]:
    tables = scope(statement, names)
    for table in dict.fromkeys(tables.values()):
        yield from _columns(table, statement, names)
    yield from ((alias, "alias") for alias, table in tables.items() if alias and alias != table.lower())
    if not tables:
        every = (column for columns in names.tables.values() for column in columns)
        yield from ((_written(name), type_.lower()) for name, type_ in every)
    upper = prefix.isupper()
    yield from ((word.upper() if upper else word, "keyword") for word in names.keywords)
    yield from ((f"{name}(", "function") for name in names.functions)
    if not tables:
        yield from _tables(names)


def _matching(prefix: str, candidates: Iterable[tuple[str, str]]) -> list[Offer]:
    """The candidates that begin with the prefix, then those that contain it, each once."""
    typed = prefix.strip('"').lower()
    starts: dict[str, str] = {}
    within: dict[str, str] = {}
    for text, what in candidates:
        plain = text.strip('"').lower()
        if plain.startswith(typed):
            starts.setdefault(text, what)
        elif what not in ("keyword", "function") and len(typed) > 1 and typed in plain:
            within.setdefault(text, what)
    return [Offer(text, len(prefix), what) for text, what in (starts | within).items()]


def _written(name: str) -> str:
    """A name as SQL must write it."""
    return name if name.isidentifier() and name.isascii() else '"' + name.replace('"', '""') + '"'


def _of_command(line: str, names: Names, commands: Sequence[str]) -> list[Offer]:
    line = line.lstrip()
    word, space, rest = line.partition(" ")
    if not space:
        mark = line[0]
        known = [mark + name for name in commands if name.startswith(line[1:])]
        return [Offer(name, len(line), "command") for name in known]
    if word[1:] == "import" and rest.count(" "):  # behind FILE
        return _matching(rest.rpartition(" ")[2], _tables(names))
    if word[1:] in ("set", "unset"):
        return _matching(rest, _variables(names))
    if word[1:] in _TAKE_FILES:
        return _files(rest)
    if word[1:] == "register":  # PATH, or NAME PATH
        return _files(rest.rpartition(" ")[2])
    if word[1:] in ("d", "describe", "schema", "tables", "dt"):
        return _matching(rest, ((name, "table") for name in names.tables))
    if word[1:] == "resize":
        return _matching(rest.split(" ")[-1], (("slots=", "number"), ("memory=", "size"), ("notice=", "seconds")))
    if word[1:] in ("explain", "alternatives", "bg", "approx"):
        return offers(rest, len(rest), names, commands)
    return []


def _files(typed: str) -> list[Offer]:
    folder, name = os.path.split(typed)
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder or ".")), key=lambda entry: entry.name)
    except OSError:
        return []
    shown = [entry for entry in entries if entry.name.startswith(name) and (name or not entry.name.startswith("."))]
    return [
        Offer(entry.name + ("/" if entry.is_dir() else ""), len(name), "folder" if entry.is_dir() else "file")
        for entry in shown
    ]


class NameCompleter(Completer):
    """Offers for prompt_toolkit. names, commands: the current ones of the session and the shell."""

    def __init__(self, names: Callable[[], Names], commands: Callable[[], Sequence[str]]) -> None:
        self._names = names
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        for offer in offers(document.text, document.cursor_position, self._names(), self._commands()):
            yield Completion(offer.text, -offer.replaces, display_meta=offer.what)
