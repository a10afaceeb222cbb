"""The time that a thread may keep Python's lock while others wait for it: short while a backend works.

A task goes back and forth between DuckDB, which runs without the lock, and Python some ten times, and each time waits
for the thread that computes in Python: planning, above all. With the usual turns of 5 ms a task of 23 ms took 73 ms
next to a thread that computes, with turns of 0.2 ms it took 23 ms, and the other thread was no slower for it.
"""

from __future__ import annotations

import os
import sys
import threading

TURN_SECONDS = 0.0002

_guard = threading.Lock()
_users = 0
_usual = 0.005


def begin_short_turns() -> None:
    """Have turns of at most `TURN_SECONDS`, in the whole process, until as many calls of `end_short_turns`."""
    global _users, _usual
    with _guard:
        if _users == 0:
            _usual = sys.getswitchinterval()
            sys.setswitchinterval(min(_usual, TURN_SECONDS))
        _users += 1


def end_short_turns() -> None:
    """The turns are as they were before, once short ones are not needed."""
    global _users
    with _guard:
        _users -= 1
        if _users == 0:
            sys.setswitchinterval(_usual)


def _forked() -> None:
    """The backends are the parent's."""
    global _guard, _users
    _guard = threading.Lock()
    if _users:
        sys.setswitchinterval(_usual)
    _users = 0


os.register_at_fork(after_in_child=_forked)
