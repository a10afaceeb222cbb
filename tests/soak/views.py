"""Kills of processes that refresh materialized views (`make soak-views`).

python tests/soak/views.py --kills 300 --seed 7
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from soak_views import Views, perform  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/soak/views.py")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qoop-soak-") as place:
        report = perform(Views(Path(place), -(-options.kills // 2), options.seed), partial(print, flush=True))
    print("\n".join(report.lines()))
    report.check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
