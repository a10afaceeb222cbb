"""Files that a query reads by their path: ``FROM 'sales.parquet'``. They are tables by that name from then on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from qoop.catalog.stores.objects import without_options
from qoop.statements.tokens import words

_GLOB = frozenset("*?[")


def files_read(text: str, endings: tuple[str, ...]) -> Iterator[str]:
    """The paths in a text that stand where a table is read: after FROM, JOIN, or a comma.

    >>> list(files_read("FROM 'a.parquet' JOIN \\"b.csv\\" USING (x) WHERE y IN ('c', 'd.csv')", (".parquet", ".csv")))
    ['a.parquet', 'b.csv', 'd.csv']

    A string after a comma may be just that; to make a table of it known does no harm, if there is such a file.
    """
    for before, token in pairwise(words(text)):
        if token.kind in ("string", "quoted") and token.closed and before.text.lower() in ("from", "join", ","):
            mark = token.text[0]
            path = token.text[1:-1].replace(mark * 2, mark)
            if mark in "'\"" and without_options(path).lower().endswith(endings):
                yield path


def is_glob(path: str) -> bool:
    """Whether a path stands for several files."""
    return bool(_GLOB & set(path))
