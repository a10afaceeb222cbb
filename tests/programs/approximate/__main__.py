"""The soak of growing answers.

python tests/programs/approximate --runs 500 --seed 7             # `make soak-growing`
python tests/programs/approximate --runs 1 --seed 7 --first 123   # that run alone
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parents[1] / "tpcds")]

os.environ["QOOP_EXACT_WITHIN"] = "0"  # these answers are short

from growing_soak import perform, schedule, world  # noqa: E402


def main() -> int:
    """Do the runs; 1 if one has failed."""
    parser = argparse.ArgumentParser(prog="python tests/programs/approximate")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument("--first", type=int, default=0, help="number of the first run (0)")
    options = parser.parse_args()
    happened, failed, began = Counter[str](), 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qoop-growing-data-") as name:
        known = world(Path(name))
        for place in range(options.first, options.first + options.runs):
            try:
                happened += perform(schedule(options.seed, place), known)
            except Exception:
                traceback.print_exc()
                failed += 1
                print(f"again: make soak-growing SEED={options.seed} FIRST={place} RUNS=1", flush=True)
            if (place - options.first + 1) % 50 == 0:
                print(f"{place + 1} runs, {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
    print(f"seed {options.seed}: {failed} of {options.runs} runs failed; {dict(happened)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
