"""Tables of the program that a query names as DuckDB lets it: `df = pandas.DataFrame(…); session.sql("FROM df")`.

A variable counts if it holds a table of Arrow, pandas or Polars, arrays of NumPy, a Result or a relation of DuckDB, if
a text names it where tables stand, and if no table or view has its name. It is searched for where the session was
called: among local names, then among those of the module.
A cell of a notebook calls the session through IPython, whose own names do not count.
"""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Collection, Iterator
from types import FrameType

from qoop.catalog.by_text import by_text
from qoop.catalog.lexer import lexed
from qoop.catalog.sources.memory import is_arrays

_LIBRARIES = ("pyarrow", "pandas", "polars", "qoop", "duckdb", "_duckdb")
_KINDS = (
    "DataFrame",
    "LazyFrame",
    "Table",
    "RecordBatch",
    "RecordBatchReader",
    "FileSystemDataset",
    "InMemoryDataset",
    "Result",
    "DuckDBPyRelation",
)
_BEFORE_TABLES = frozenset(
    ", from join using table pivot pivot_wider unpivot describe desc summarize".split()  # noqa: SIM905
)
_BETWEEN = frozenset({__name__.partition(".")[0], "contextlib", "IPython"})
"""Packages between the program and the place that reads its variables."""


@by_text(most=128)
def names_where_tables_stand(text: str) -> tuple[str, ...]:
    """The names where tables may stand (behind FROM, JOIN, a comma and the like) that nothing is called by, each once.

    >>> names_where_tables_stand("SELECT a FROM df, b.c JOIN other ON f(x) > 1, range(3), df")
    ('df', 'other')
    """
    return tuple(dict.fromkeys(_names(text)))


def _names(text: str) -> Iterator[str]:
    words = lexed(text).words
    for place, before in enumerate(words[:-1]):
        if before.text.lower() not in _BEFORE_TABLES or before.kind not in ("word", "mark"):
            continue
        word, after = words[place + 1], words[place + 2 : place + 3]
        if word.name and not (after and after[0].text in ("(", ".", "=", ":")):
            yield word.name


def variables(names: Collection[str]) -> dict[str, object]:
    """Those of the names that are variables of the program, and the tables that they hold."""
    caller = _caller()
    if caller is None:
        return {}
    known = ChainMap(caller.f_locals, caller.f_globals)
    return {name: known[name] for name in names if name in known and _is_table(known[name])}


def _caller() -> FrameType | None:
    """The innermost function of the program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_between(frame):
        frame = frame.f_back
    return frame


def _is_between(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] in _BETWEEN


def _is_table(value: object) -> bool:
    kind = type(value)
    return (kind.__module__.partition(".")[0] in _LIBRARIES and kind.__name__ in _KINDS) or is_arrays(value)


def may_change(value: object) -> bool:
    """True if the value can change while the object stays the same."""
    return type(value).__module__.partition(".")[0] in ("pandas", "duckdb", "_duckdb") or is_arrays(value)
