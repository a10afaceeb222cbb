"""Loads what a single command needs, and no more: most of its time may be that."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading_little() -> Iterator[None]:
    """Load Arrow without NumPy, and let Python collect no garbage meanwhile, unless either is loaded already.

    Arrow loads NumPy where it is installed, to convert from and to its arrays, which a command has no use for. That
    takes longer than all of qoop's own modules. Arrow supports to be without it. Who asks for NumPy later gets it.
    Loading makes many objects and no garbage.
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
    """Let what was loaded be freed at the end, if DuckDB complains of what is not: 2.0 does so, in forty lines."""
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
