"""Long work goes behind short work on the CPUs: an answer that takes milliseconds does not wait for one of minutes.

Source: sched(7) of Linux: a thread under SCHED_IDLE has what the others of its group leave, and one that wakes up takes
the CPU from it at once; with a lower priority alone it would have that for milliseconds more. The policy is one of
the thread. A thread that it starts takes the policy over, and none puts it back. So a thread behind ends with its work,
and another one starts what outlasts that (`not_behind`).

Next to ten bombs the 99th percentile of short queries was 0.20 to 0.55 s in five runs, and 0.36 to 0.89 s in two with a
niceness of 10 instead. A thread behind may have the lock of the interpreter: next to two programs that take both CPUs
the slowest of 100 short queries took 0.54 s, and 0.48 s with the niceness.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_starter: ThreadPoolExecutor | None = None

URGENT = 0.05
"""Seconds of a CPU after which work goes behind: opening the kernel of a new process takes 0.02, and short texts less
than the rest. With 0.1, half of what a server used in the two seconds after ten bombs came was theirs."""


def go_behind(thread: int) -> None:
    """Let all others go before a thread; nothing if it has ended."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def all_go_behind(process: int) -> None:
    """Let all others go before the threads that a process has; nothing if it has ended."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            go_behind(int(thread))


def keep_starter() -> None:
    """Start the thread of `not_behind`, from one that is not behind itself, before any goes behind."""
    global _starter
    if _starter is None:
        _starter = ThreadPoolExecutor(1, "qoop-starter")
        _starter.submit(int).result()


def not_behind(call: Callable[[], T]) -> T:
    """The result of a call that starts a thread or a process, made by a thread that is never behind others, if
    `keep_starter` was called. Else workers, and the threads that write outputs, would be behind whatever they do."""
    if _starter is None:
        return call()
    try:
        made = _starter.submit(call)
    except RuntimeError:  # at the end of the interpreter
        return call()
    return made.result()


def _forget() -> None:
    global _starter
    _starter = None


os.register_at_fork(after_in_child=_forget)
