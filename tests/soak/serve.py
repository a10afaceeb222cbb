"""Fifty clients of `qoop serve` for ten minutes, while clients, connections and servers are killed (`make soak-serve`).

python tests/soak/serve.py --minutes 10 --clients 50 --scale 0.01 --seed 7
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("", "support", "tpcds", "planner"))]

from soak_serve import Served, perform  # noqa: E402

from qoop.tpcds.data import generate  # noqa: E402

DATA = Path(os.environ.get("QOOP_TEST_DATA") or Path.home() / ".cache" / "qoop" / "data")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/soak/serve.py")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--processes", type=int, default=10, help="that the clients are in")
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="an empty folder for all files, which stay there")
    options = parser.parse_args()
    folder = DATA / f"tpcds-sf{options.scale:g}"
    generate(options.scale, folder)
    with tempfile.TemporaryDirectory(prefix="qoop-soak-") as temporary:
        place = options.keep or Path(temporary)
        run = Served(folder, place, options.clients, options.processes, 60.0 * options.minutes, options.seed)
        report = perform(run, partial(print, flush=True))
    print("\n".join(report.lines()))
    report.check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
