"""Thousands of schedules of jobs and mishaps for the core alone, until one of them breaks it.

    python tests/adaptive/simulation --runs 20000 --seed 7             # `make soak-sim`
    python tests/adaptive/simulation --runs 1 --seed 7 --first 123     # that schedule alone

No data, no SQL and no time: cluster, runs, driver, schedulers and re-planner are the real ones, over simulated machines
and a virtual clock (law 3). What is drawn for a number is in :mod:`sim_draw`, what must hold in :mod:`sim_watch`. A
schedule that fails is made short (:mod:`sim_shrink`) and written to tests/scripts; a test goes through all of those.
That many schedules as are tried by default take every transition of the core (:mod:`sim_cover`): if one is never taken,
the schedules have ceased to test it, which is a failure, too.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from qoop.tpcds.processes import pool

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from sim_cover import Cover, all_cells  # noqa: E402
from sim_draw import drawn  # noqa: E402
from sim_shrink import shrunk  # noqa: E402
from sim_try import Tried, tried_all  # noqa: E402

SCRIPTS = HERE.parents[1] / "scripts"
AT_A_TIME = 25
ENOUGH = 20_000
"""Schedules from which on every transition must have been taken."""


def main() -> int:
    options = _options()
    numbers = range(options.first, options.first + options.runs)
    print(f"{len(numbers)} schedules, seed {options.seed}", flush=True)
    found = _soak(options, numbers)
    cover = Cover()
    cover.hits = found.hits
    print("\n".join(cover.lines()))
    print(_summary(found))
    for number in sorted(found.failures)[:3]:
        _report(options.seed, number, found)
    holes = gaps(cover, len(found.events))
    for line in holes:
        print(line)
    return 1 if found.failures or holes else 0


def gaps(cover: Cover, schedules: int) -> list[str]:
    """The faults in the transitions that n schedules have taken: those that no table knows, and, of enough
    schedules, those that none took."""
    unknown = sorted(set(cover.hits) - set(all_cells()))
    never = cover.never() if schedules >= ENOUGH else []
    lines = [f"FAILED: taken, but not in the tables of sim_cover: {' '.join(cell)}" for cell in unknown]
    return [*lines, *(f"FAILED: not taken by any of {schedules:,} schedules: {' '.join(cell)}" for cell in never)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/adaptive/simulation")
    parser.add_argument("--runs", type=int, default=ENOUGH)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument("--first", type=int, default=0, help="number of the first schedule (0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--most-failures", type=int, default=5, help="stop after that many (5)")
    return parser.parse_args()


def _soak(options: argparse.Namespace, numbers: range) -> Tried:
    found, began, shown = Tried(), time.monotonic(), 0.0
    for more in _all(options, numbers):
        found.add(more)
        now = time.monotonic() - began
        if now - shown >= 10.0 or len(found.events) == len(numbers):
            shown = now
            print(f"{len(found.events)} of {len(numbers)} in {now:.0f} s, {len(found.failures)} failed", flush=True)
        if len(found.failures) >= options.most_failures:
            break
    return found


def _all(options: argparse.Namespace, numbers: range) -> Iterator[Tried]:
    """The outcomes of the schedules, some at a time."""
    tasks = [(options.seed, numbers[i : i + AT_A_TIME]) for i in range(0, len(numbers), AT_A_TIME)]
    if options.processes < 2 or len(tasks) < 2:
        yield from map(tried_all, tasks)
        return
    workers = pool(options.processes)
    try:
        yield from workers.map(tried_all, tasks)
    finally:
        workers.shutdown(cancel_futures=True)


def _summary(found: Tried) -> str:
    counts = ", ".join(f"{count:,} {what}" for what, count in found.counts.most_common())
    return (
        f"{len(found.events):,} schedules of {statistics.median(found.events):g} events and"
        f" {statistics.median(found.jobs):g} jobs in the median, {sum(found.events):,} events in all;"
        f" jobs: {counts}\n{len(found.failures)} of them failed"
    )


def _report(seed: str, number: int, found: Tried) -> None:
    failure = found.failures[number]
    print(f"\nschedule {number} failed: {failure.message}\nagain: make soak-sim SEED={seed} FIRST={number} RUNS=1")
    short = shrunk(drawn(seed, number))
    path = SCRIPTS / f"found-{seed}-{number}.txt"
    path.write_text(str(short))
    print(f"made short in {path.relative_to(HERE.parents[2])}:\n{short}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
