"""The soak: thousands of runs in which all goes wrong that can, until one of them goes wrong itself.

    python tests/soak --runs 2000 --seed 7             # `make soak`
    python tests/soak --runs 1 --seed 7 --first 123    # that run alone

Every run draws jobs of TPC-DS queries that are forced from plan to plan, slots and memory that come and go, kernels
that fail, checkpoints that are lost, cancels and moves to another session (`soak_run.scenario`). Each answer must be
DuckDB's; invariants are checked at every turn, digests of what two plans call the same are compared, and after each
run nothing may be left.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("", "support", "tpcds", "planner"))]

import psutil  # noqa: E402
from soak_plans import Subjects  # noqa: E402
from soak_run import Happened, perform, query_of, scenario  # noqa: E402

from qoop.tpcds.data import generate  # noqa: E402

DATA = Path(os.environ.get("QOOP_TEST_DATA") or Path.home() / ".cache" / "qoop" / "data")
STUCK = 300.0
"""Seconds after which a run is given up, with what all threads do."""


def main() -> int:
    options = _options()
    os.environ["QOOP_GUARD"] = "always"
    places = range(options.first, options.first + options.runs)
    print(f"{len(places)} runs, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="qoop-soak-") as caches, Subjects(_folder) as subjects:
        os.environ["XDG_CACHE_HOME"] = caches
        happened, failed = _soak(options.seed, places, options.most_failures, subjects, Path(caches))
        print(_summary(happened, subjects))
    print(
        f"{len(failed)} of {happened.times['runs']} runs failed"
        + "".join(f"\n  {_again(options.seed, n)}" for n in failed)
    )
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/soak")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument("--first", type=int, default=0, help="number of the first run (0)")
    parser.add_argument("--most-failures", type=int, default=5, help="stop after that many (5)")
    return parser.parse_args()


def _folder(scale: float) -> Path:
    folder = DATA / f"tpcds-sf{scale:g}"
    generate(scale, folder)
    return folder


def _soak(seed: str, places: range, most: int, subjects: Subjects, caches: Path) -> tuple[Happened, list[int]]:
    happened = Happened()
    failed: list[int] = []
    began = time.monotonic()
    for place in places:
        subjects.of(query_of(place))  # planning is no part of the run
        faulthandler.dump_traceback_later(STUCK, exit=True)
        try:
            happened.add(perform(scenario(seed, place), subjects, caches))
        except Exception:
            traceback.print_exc()
            print(f"run {place} failed; again: {_again(seed, place)}", flush=True)
            failed.append(place)
        faulthandler.cancel_dump_traceback_later()
        happened.times["runs"] += 1
        _show(happened, len(places), failed, time.monotonic() - began)
        if len(failed) >= most:
            break
    return happened, failed


def _again(seed: str, place: int) -> str:
    return f"make soak SEED={seed} FIRST={place} RUNS=1"


def _show(happened: Happened, runs: int, failed: list[int], seconds: float) -> None:
    times, megabytes = happened.times, psutil.Process().memory_info().rss / 1e6
    done = times["runs"]
    if done % 50 and done < runs:
        return
    print(
        f"{done} of {runs} runs in {seconds:.0f} s, {len(failed)} failed: {times['jobs']} jobs, "
        f"{times['switches of plan']} switches, {times['attempts failed with Revoked']} attempts killed, "
        f"{megabytes:.0f} MB",
        flush=True,
    )


def _summary(happened: Happened, subjects: Subjects) -> str:
    lines = [f"{count:>9,} {what}" for what, count in sorted(happened.times.items())]
    ways = sum(len(subject.pairs) for subject in subjects.used)
    return "\n".join([*lines, f"{len(happened.ways):>9,} of {ways:,} ways from plan to plan taken"])


if __name__ == "__main__":
    sys.exit(main())
