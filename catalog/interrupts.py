"""Ctrl-C while DuckDB works for the main thread.

DuckDB's client looks for signals only between steps of its own: version 1.5.5 within milliseconds, version 2.0
in some calls never. So what may take long is done in a second thread, while the main thread waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

import duckdb

T = TypeVar("T")

_LOOK = 0.1  # seconds between looks for signals: one that the system gives to another thread wakes nobody
_INSIST = 0.005  # seconds between interrupts: one that comes before DuckDB has begun is lost


def interruptibly(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises; it asks this connection and no other.

    Ctrl-C ends it within 0.1 s, as a KeyboardInterrupt. Costs 0.1 ms.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()  # signals come to the main thread only
    answer: Future[T] = Future()
    thread = threading.Thread(target=_fulfil, args=(answer, work), name="qoop-duckdb", daemon=True)
    try:
        thread.start()
        while not answer.done():
            wait([answer], _LOOK)
        return answer.result()
    except BaseException:  # the answer is here, or nobody waits for it any more
        while not answer.done():
            connection.interrupt()
            wait([answer], _INSIST)
        raise
    finally:
        thread.join()


def _fulfil(answer: Future[T], work: Callable[[], T]) -> None:
    try:
        answer.set_result(work())
    except BaseException as error:
        answer.set_exception(error)
