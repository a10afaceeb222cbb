"""Kills of processes that refresh materialized views (`make soak-views`), in series of a hundred.

python tests/soak/views.py --kills 300 --seed 7 --results kills.jsonl

Each series has a folder and a seed of its own. With results, a run that was broken off goes on after the last series.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from soak_views import Report, Views, perform  # noqa: E402

from qoop.tpcds.results import Results  # noqa: E402

SERIES = 100
"""Kills of a series."""


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python tests/soak/views.py")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", metavar="FILE", help="kept as they come; a broken-off run goes on from there")
    options = parser.parse_args(words)
    settings = {"seed": options.seed, "kills": options.kills}
    results = Results(Path(options.results) if options.results else None, settings)
    total = Report()
    for first in range(0, options.kills, SERIES):
        kills = min(SERIES, options.kills - first)
        report = _series(results, options.seed + first, kills)
        total.counts += report.counts
        total.wrong += report.wrong
    print("\n".join(total.lines()))
    total.check()
    return 0


def _series(results: Results, seed: int, kills: int) -> Report:
    """The report of a series, from the results if it is there."""
    name = f"seed {seed}"
    if results.get(name) is None:
        with tempfile.TemporaryDirectory(prefix="qoop-soak-") as place:
            made = perform(Views(Path(place), -(-kills // 2), seed), partial(print, flush=True))
        results.put(name, [dict(made.counts), made.wrong])
    counts, wrong = results.get(name)
    return Report(Counter(counts), wrong)


if __name__ == "__main__":
    sys.exit(main())
