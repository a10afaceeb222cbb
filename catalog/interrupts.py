"""Ctrl-C while DuckDB works for the main thread.

DuckDB's client checks for signals only between its steps: version 1.5.5 within milliseconds, version 2.0 in some calls
never. So long calls run in a second thread, while the main thread waits (`interruptibly`). Short ones run in the main
thread (`interruptible`). What needs no Python runs at the same time (`meanwhile`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

import duckdb

T = TypeVar("T")

_POLL = 0.1  # seconds between checks for signals: a signal delivered to another thread does not end the wait
_INTERRUPT_AGAIN = 0.005  # seconds between interrupts: an interrupt before DuckDB has begun is lost


def interruptibly(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises. It uses this connection only.

    Ctrl-C ends it within 0.1 s, as a KeyboardInterrupt. Costs 0.1 ms.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()  # signals come to the main thread only
    answer, thread = _thread(work)
    try:
        thread.start()
        while not answer.done():
            wait([answer], _POLL)
        return answer.result()
    except BaseException:  # the answer is known, or no longer needed
        while not answer.done():
            connection.interrupt()
            wait([answer], _INTERRUPT_AGAIN)
        raise
    finally:
        thread.join()


@contextmanager
def meanwhile(work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Do short work in a thread within the block, which ends no sooner than the work: what it uses may be closed then.

    The block gets the function that waits for the work, and returns or raises what that does.
    """
    answer, thread = _thread(work)
    thread.start()
    try:
        yield answer.result
    finally:
        thread.join()


def _thread(work: Callable[[], T]) -> tuple[Future[T], threading.Thread]:
    """The result of work to come, and the thread that is to do it."""
    answer: Future[T] = Future()
    return answer, threading.Thread(target=_fulfil, args=(answer, work), name="qoop-duckdb", daemon=True)


def _fulfil(answer: Future[T], work: Callable[[], T]) -> None:
    try:
        answer.set_result(work())
    except BaseException as error:
        answer.set_exception(error)


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block, and in functions that it decorates, Ctrl-C is a KeyboardInterrupt.

    DuckDB's client stops its query at any signal, but raises RuntimeError("Query interrupted") in place of what the
    signal's handler raises; that is its cause, such as `EndedBySignal`, or the TimeoutError of an alarm of the program.
    """
    try:
        yield
    except RuntimeError as error:
        if "Query interrupted" in str(error):
            raise (error.__cause__ or KeyboardInterrupt()) from None
        raise
