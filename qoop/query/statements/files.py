"""Files that a query reads by path: ``FROM 'sales.parquet'``. Afterwards they are tables of that name."""

from __future__ import annotations

from collections.abc import Iterator

from qoop.catalog.stores.objects import without_options
from qoop.planner.sql.sources import tables_read

_GLOB = frozenset("*?[")


def files_read(text: str, endings: tuple[str, ...]) -> Iterator[str]:
    """The paths in a text at the places of tables.

    >>> list(files_read("FROM 'a.parquet' JOIN \\"b.csv\\" USING (x) WHERE y IN ('c', 'd.csv')", (".parquet", ".csv")))
    ['a.parquet', 'b.csv']
    """
    lower = text.lower()
    if any(ending in lower for ending in endings):
        yield from (name for name in tables_read(text) if without_options(name).lower().endswith(endings))


def is_glob(path: str) -> bool:
    """True if a path stands for several files."""
    return bool(_GLOB & set(path))
