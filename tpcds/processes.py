"""Child processes with their own interpreters, which do not outlive their parent; the memory of a tree of processes."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context, parent_process
from pathlib import Path
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


def family(root: int) -> list[int]:
    """A process and all that descend from it."""
    found = [root]
    for one in found:
        with suppress(OSError):  # it, or a thread of it, has just ended
            for tasks in Path(f"/proc/{one}/task").glob("*/children"):
                found += map(int, tasks.read_text(encoding="ascii").split())
    return found


def own_memory(process: int) -> int:
    """Bytes of a process that no file holds; its part of those that it shares; 0: it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon"))
