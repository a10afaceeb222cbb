"""Python's search for cyclic garbage waits while a query is planned.

Planning makes several hundred thousand small objects in a fraction of a second, keeps most of them to its end, and
ties hardly any into cycles.  The collector takes each burst of new objects for a reason to walk over all that the
process holds, again and again, and finds nothing: an eighth of the planning of TPC-DS, and most of its slowest
queries.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_waiting = 0
_was_enabled = False


@contextmanager
def collector_waits() -> Iterator[None]:
    """No search for cycles before the end of the block, nor of any other such block that runs meanwhile.

    Also a decorator. Safe in several threads; a collector that is switched off stays so.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _waiting, _was_enabled
    with _lock:
        if not _waiting:
            _was_enabled = gc.isenabled()
            gc.disable()
        _waiting += 1


def _leave() -> None:
    global _waiting
    with _lock:
        _waiting -= 1
        if not _waiting and _was_enabled:
            gc.enable()


def _forked() -> None:
    """The child does not have the threads that were planning."""
    global _lock, _waiting
    _lock = Lock()
    if _waiting and _was_enabled:
        gc.enable()
    _waiting = 0


os.register_at_fork(after_in_child=_forked)
