"""Child processes with their own interpreters, which do not outlive their parent."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from threading import Thread


def pool(processes: int) -> ProcessPoolExecutor:
    """A pool of processes that end when this one does, however it ends.

    Each starts a new interpreter ("spawn"): a fork of a process with threads may hang.
    """
    return ProcessPoolExecutor(processes, get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """Without this, the processes of a killed parent wait for work for ever: each keeps the others' pipe open."""
    Thread(target=_await_parent, name="parent", daemon=True).start()


def _await_parent() -> None:
    parent = parent_process()
    if parent is not None:  # as it is in a child process
        parent.join()
        os._exit(1)
