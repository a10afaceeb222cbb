"""``make fuzz``: random queries against DuckDB, over random tables; each difference as a script that shows it.

``--seed S --first N --runs 1`` repeats one. The tables are another set for every 500 queries.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue

import duckdb
from fuzz_run import TEXTS, Outcome, tried
from fuzz_shrink import Found, script, shrunk

SETS = 8  # of tables a process
EVERY = 1000  # queries between two lines that tell of them


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
        print(f"\n# --- {number + 1}: {_again(name)} {_told(least)}\n{script(least)}")
        if options.scripts:
            options.scripts.mkdir(parents=True, exist_ok=True)
            (options.scripts / f"{name.replace('/', '-')}.py").write_text(script(least))
    return 1 if outcome.found else 0


def _run(options: argparse.Namespace) -> Outcome:
    outcome, begun = Outcome(), time.monotonic()
    print(f"seed {options.seed}, {options.runs} queries, DuckDB {duckdb.__version__}", flush=True)
    for one in _outcomes(options):
        before = outcome.texts
        outcome.add(one)
        for name, found in one.found:
            print(f"{_again(name)} {_told(found)}", flush=True)
        if outcome.texts // EVERY > before // EVERY:
            passed = time.monotonic() - begun
            print(f"{outcome.texts} queries, {len(outcome.found)} differences, {passed:.0f} s", flush=True)
    return outcome


def _again(name: str) -> str:
    """The options that repeat a query."""
    seed, tables, number = name.rsplit("/", 2)
    return f"--seed {seed} --first {int(tables) * TEXTS + int(number)}"


def _told(found: Found) -> str:
    return f"({found.mode}) {found.difference.kind}: {found.difference}"


def _outcomes(options: argparse.Namespace) -> Iterator[Outcome]:
    """The outcome of each set of tables, as they come."""
    parts = _parts(options)
    groups = [parts[first : first + SETS] for first in range(0, len(parts), SETS)]
    came: SimpleQueue[Outcome | BaseException] = SimpleQueue()
    with ThreadPoolExecutor(options.processes) as threads:
        for group in groups:
            threads.submit(_in_a_process, options.seed, group, came.put)
        for _ in parts:
            one = came.get()
            if isinstance(one, BaseException):
                threads.shutdown(cancel_futures=True)
                raise one
            yield one


def _in_a_process(
    seed: str, group: Sequence[tuple[int, range]], tell: Callable[[Outcome | BaseException], None]
) -> None:
    """Some sets of tables in one process, that has no more of them since memory grows with each.

    It is a pool of its own: a pool whose processes end after some tasks may wait for ever (CPython's issue 115634).
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        for start, numbers in group:
            try:
                tell(pool.submit(tried, f"{seed}/{start // TEXTS}", numbers).result())
            except Exception as error:
                error.add_note(f"in the queries from --seed {seed} --first {start} on")
                tell(error)
                return


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
