"""Loads only the modules, and opens only the tables, that a single command needs: both may take most of its time."""

from __future__ import annotations

import atexit
import gc
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qoop.query.statements.statement import Statement

_WORD = re.compile(r"\w+")
_LISTS_TABLES = re.compile(
    r"\b(?:show|describe|information_schema|(?:duckdb|pg|pragma|sqlite)_\w+)\b|\(\s*desc\s*\)", re.I
)


_DATABASES = 2
"""DuckDBs that each query needs: to bind its text, and to run it. On 2.0 one more parses the text."""


@contextmanager
def loading_little(alone: bool = False) -> Iterator[None]:
    """Load Arrow without NumPy, and without garbage collection meanwhile, unless either is loaded already.

    alone: no other code uses this process: DuckDBs open in another thread meanwhile.

    Arrow loads NumPy, if installed, to convert arrays, which a command does not need. That takes longer than all of
    qoop's own modules. Arrow works without it, and a later import of NumPy works as usual. Loading makes many objects
    and no garbage.
    """
    if "pyarrow" in sys.modules or "numpy" in sys.modules:
        yield
        return
    gc.disable()
    try:
        if alone:
            _open_databases()
        _load_arrow_alone()
        yield
    finally:
        gc.enable()
        gc.freeze()
        atexit.register(_thaw)


def _thaw() -> None:
    """Free the loaded objects at exit if DuckDB reports leaks: 2.0 does so, in forty lines."""
    import duckdb

    if not duckdb.__version__.startswith("1."):
        gc.unfreeze()


def _open_databases() -> None:
    from qoop.catalog import duckdb_introspection, opening

    opening.open_ahead(_DATABASES if opening.OPENS_ON_IMPORT else _DATABASES + 1)
    duckdb_introspection.use_default()


def _load_arrow_alone() -> None:
    sys.modules["numpy"] = None  # type: ignore[assignment]  # imports of it fail, as where it is not installed
    try:
        import pyarrow  # noqa: F401 — for its effect
    finally:
        del sys.modules["numpy"]


def version_text() -> str:
    """The versions of qoop and of the DuckDB that it runs on."""
    import duckdb

    import qoop

    return f"qoop {qoop.__version__} on DuckDB {duckdb.__version__}"


def tables_named(done: Sequence[Statement]) -> Callable[[str], bool] | None:
    """True for the name of a table that occurs as a word in a statement; None if a statement may list all tables.

    Opening the 24 tables of a benchmark takes as long as a short query: each needs its footer read and a view in
    DuckDB. A query may still compute the name of another table: then DuckDB raises that it does not exist.

    >>> from qoop.query.statements.statement import Query
    >>> named = tables_named([Query("SELECT count(*) FROM Orders")])
    >>> named("orders"), named("items"), named("my table"), tables_named([Query("FROM duckdb_tables()")])
    (True, False, True, None)
    """
    from qoop.query.statements.statement import Approximate, Explain, Query, SetOption

    texts = [one.text for one in done if isinstance(one, Query | Approximate | Explain)]
    if any(map(_LISTS_TABLES.search, texts)) or not all(
        isinstance(one, Query | Approximate | Explain | SetOption) for one in done
    ):
        return None
    words = {word for text in texts for word in _WORD.findall(text.lower())}
    return lambda name: name.lower() in words or _WORD.fullmatch(name) is None
