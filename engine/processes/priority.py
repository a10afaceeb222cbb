"""Long work goes behind short work on the CPUs: an answer that takes milliseconds does not wait for one of minutes.

Source: sched(7) of Linux: a thread under SCHED_IDLE has what the others of its group leave, and one that wakes up takes
the CPU from it at once; with a lower priority alone it would have that for milliseconds more. Each thread has a policy
of its own, which those that it makes take over. It is not put back, so what is behind ends with its work.

Next to ten bombs the 99th percentile of short queries was 0.20 to 0.55 s in five runs, and 0.36 to 0.89 s in two with a
niceness of 10 instead. A thread behind may have the lock of the interpreter: next to two programs that take both CPUs
the slowest of 100 short queries took 0.54 s, and 0.48 s with the niceness.
"""

from __future__ import annotations

import contextlib
import os

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
