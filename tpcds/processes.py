"""Child processes with their own interpreters, which do not outlive their parent; the memory of a tree of processes."""

from __future__ import annotations

import os
from collections import defaultdict
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
    """A process and all that descend from it.

    Nothing is read of threads: a process whose threads were looked at ends later where the CPUs are full (see
    `qoop.catalog.priority.all_go_behind`)."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for one in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # it has just ended
            facts = Path(f"/proc/{one}/stat").read_text(encoding="utf-8", errors="replace")
            children[int(facts.rpartition(")")[2].split()[1])].append(int(one))
    found = [root]
    for parent in found:
        found += sorted(children[parent])
    return found


def own_memory(process: int) -> int:
    """Bytes of a process that no file holds; its part of those that it shares; 0: it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon"))
