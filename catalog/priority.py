"""Long work goes behind short work on the CPUs: an answer that takes milliseconds does not wait for one of minutes.

Source: sched(7) of Linux: with a niceness of 19 a thread has 1.5 % of a CPU for which another one competes, with 10 a
tenth, and all of what others leave. The niceness is one of the thread. A thread that it starts takes it over, and none
but root may lower it again. So a thread behind ends with its work, and another one starts what outlasts that
(`not_behind`).

Not SCHED_IDLE, which has 0.3 %: a thread behind may have the lock of the interpreter, or memory of a process that is
killed, and needs milliseconds of a CPU to give them back. Next to three programs that take both CPUs a server took 0.8
to 11 s to end after SIGTERM, in ten runs (once 60 s in a test), and with the niceness 0.8 to 2.0. Next to ten bombs
the 99th percentile of short queries was 0.17 and 0.22 s with SCHED_IDLE, 0.18 and 0.30 with the niceness; slices of
0.2 ms for all other threads changed nothing (0.26, 0.38).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_starter: ThreadPoolExecutor | None = None

URGENT = 0.05
"""Seconds of a CPU after which work goes behind: opening the kernel of a new process takes 0.02, and short texts less
than the rest. With 0.1, half of what a server used in the two seconds after ten bombs came was theirs."""

NICENESS = 10
"""Of threads that are behind, and of child processes of a server with texts of tenants whose last query was not short.
A short query passes through several threads of the server, each of which waits for a CPU when it wakes up; the text of
an unknown tenant in a child may work for 0.05 s before it is known to be long.
Measured in the 2 s after ten bombs of unknown tenants came to a new server, four runs of each: short queries took 44 ms
in the mean and 103 in the 90th percentile. Without a niceness they took 61 and 188, alone 16 and 33. The 99th
percentile was 0.26 s in both.

Short queries of tenants with short ones have no niceness. With one, next to ten bombs, a median that used 5 ms of a CPU
waited up to 0.13 s, and held an extra slot meanwhile."""

BEHIND = 19
"""The niceness of processes that are behind."""


def usable_cpus() -> frozenset[int]:
    """The numbers of the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def go_behind(thread: int) -> None:
    """Let others go before a thread. thread: its number in the system. Without effect if the thread has ended. Without
    effect outside of Linux, too: there only processes have a niceness.

    The thread may hold the lock of the interpreter, or that of the process's memory, and all others wait for these. So
    it goes before processes that are behind. Next to eight of these, another thread waits for the interpreter's lock
    for 1.4 ms in the 99th percentile and 22 ms at most (means of six runs of 6 s). With a niceness of 19 it waited for
    3.4 and 35 ms."""
    if sys.platform == "linux":
        _lower(os.PRIO_PROCESS, thread, NICENESS)


def all_go_behind(group: int, niceness: int = BEHIND) -> None:
    """Let others go before the threads of a group of processes; nothing if they have ended. niceness: on top of this
    process's own.

    In one call, and not by the list of threads in /proc: each look there makes an entry for a thread, which the thread
    removes as it ends. The parent of the process waits for that in a loop of the system, and a thread that is behind
    may be late: next to ten bombs the process that forks all others waited for 1 to 8 s, with 19 to 36 threads of
    DuckDB 2.0 in each."""
    _lower(os.PRIO_PGRP, group, niceness)


def _lower(kind: int, number: int, niceness: int) -> None:
    with contextlib.suppress(OSError):
        own = os.getpriority(os.PRIO_PROCESS, os.getpid())
        os.setpriority(kind, number, min(BEHIND, own + niceness))


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
