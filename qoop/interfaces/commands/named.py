"""The tables of a folder that the statements of ``qoop DIR -c`` can refer to; no others are opened.

Opening the 24 tables of a benchmark takes as long as a short query: each needs its footer read and a view in DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from qoop.query.statements.statement import Approximate, Explain, Query, SetOption, Statement

_WORD = re.compile(r"\w+")
_LISTS_TABLES = re.compile(
    r"\b(?:show|describe|information_schema|(?:duckdb|pg|pragma|sqlite)_\w+)\b|\(\s*desc\s*\)", re.I
)


def tables_named(done: Sequence[Statement]) -> Callable[[str], bool] | None:
    """True for the name of a table that occurs as a word in a statement; None if a statement may list all tables.

    A query may still compute the name of another table: then DuckDB raises that it does not exist.

    >>> named = tables_named([Query("SELECT count(*) FROM Orders")])
    >>> named("orders"), named("items"), named("my table"), tables_named([Query("FROM duckdb_tables()")])
    (True, False, True, None)
    """
    texts = [one.text for one in done if isinstance(one, Query | Approximate | Explain)]
    if any(map(_LISTS_TABLES.search, texts)) or not all(
        isinstance(one, Query | Approximate | Explain | SetOption) for one in done
    ):
        return None
    words = {word for text in texts for word in _WORD.findall(text.lower())}
    return lambda name: name.lower() in words or _WORD.fullmatch(name) is None
