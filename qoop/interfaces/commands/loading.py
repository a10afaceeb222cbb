"""Loads only the modules that a single command needs: loading may take most of its time."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading_little() -> Iterator[None]:
    """Load Arrow without NumPy, and without garbage collection meanwhile, unless either is loaded already.

    Arrow loads NumPy, if installed, to convert arrays, which a command does not need. That takes longer than all of
    qoop's own modules. Arrow works without it, and a later import of NumPy works as usual. Loading makes many objects
    and no garbage.
    """
    if "pyarrow" in sys.modules or "numpy" in sys.modules:
        yield
        return
    gc.disable()
    try:
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
