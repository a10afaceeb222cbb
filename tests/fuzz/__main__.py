"""``make fuzz``: random queries against DuckDB, over random tables; each difference as a script that shows it.

``--seed S --first N --runs 1`` repeats one. The tables are another set for every 500 queries.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import duckdb
from fuzz_run import TEXTS, Outcome, tried
from fuzz_shrink import script, shrunk


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/fuzz", description=__doc__)
    parser.add_argument("--seed", default="0", help="of tables and texts")
    parser.add_argument("--first", type=int, default=0, help="the number of the first query")
    parser.add_argument("--runs", type=int, default=100_000, help="how many queries")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--scripts", type=Path, help="a folder for the scripts, besides printing them")
    parser.add_argument("--shrink", type=int, default=20, help="how many differences to shrink; the rest is counted")
    options = parser.parse_args()
    outcome = _run(options)
    print(_summary(outcome))
    for number, (name, found) in enumerate(outcome.found[: options.shrink]):
        least = shrunk(found)
        print(
            f"\n# --- {number + 1}: {name} ({least.mode}) {least.difference.kind}: {least.difference}\n{script(least)}"
        )
        if options.scripts:
            options.scripts.mkdir(parents=True, exist_ok=True)
            (options.scripts / f"{name.replace('/', '-')}.py").write_text(script(least))
    return 1 if outcome.found else 0


def _run(options: argparse.Namespace) -> Outcome:
    outcome, begun = Outcome(), time.monotonic()
    print(f"seed {options.seed}, {options.runs} queries, DuckDB {duckdb.__version__}", flush=True)
    with ProcessPoolExecutor(options.processes, get_context("spawn"), max_tasks_per_child=8) as pool:
        waiting = [
            pool.submit(tried, f"{options.seed}/{start // TEXTS}", numbers) for start, numbers in _parts(options)
        ]
        for done in as_completed(waiting):
            before = outcome.texts
            outcome.add(done.result())
            if outcome.texts // 5000 > before // 5000:
                passed = time.monotonic() - begun
                print(f"{outcome.texts} queries, {len(outcome.found)} differences, {passed:.0f} s", flush=True)
    return outcome


def _parts(options: argparse.Namespace) -> list[tuple[int, range]]:
    """The numbers of the queries of each set of tables."""
    last = options.first + options.runs
    starts = range(options.first - options.first % TEXTS, last, TEXTS)
    return [(start, range(max(options.first, start) - start, min(last, start + TEXTS) - start)) for start in starts]


def _summary(outcome: Outcome) -> str:
    refused = ", ".join(f"{count} {name}" for name, count in outcome.refused.most_common())
    verdicts = ", ".join(f"{count} {name}" for name, count in outcome.verdicts.most_common())
    return f"{outcome.texts} queries; DuckDB refused {refused or 'none'}\nwhole and staged: {verdicts}"


if __name__ == "__main__":
    sys.exit(main())
