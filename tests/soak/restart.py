"""Twenty jobs of three protocols on `qoop serve`, which is killed at about half of them (`make soak-restart`).

python tests/soak/restart.py --jobs 20 --scale 10
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "planner")]

from soak_restart import benchmark_run, perform  # noqa: E402

from qoop.tpcds.data import generate  # noqa: E402

DATA = Path(os.environ.get("QOOP_TEST_DATA") or Path.home() / ".cache" / "qoop" / "data")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/soak/restart.py")
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--staged", action="store_true", help="in stages from the start, as long queries are anyway")
    parser.add_argument("--keep", type=Path, help="an empty folder for all files, which stay there")
    options = parser.parse_args()
    folder = DATA / f"tpcds-sf{options.scale:g}"
    generate(options.scale, folder)
    with tempfile.TemporaryDirectory(prefix="qoop-soak-") as temporary:
        run, expected = benchmark_run(folder, options.keep or Path(temporary), options.jobs, options.staged)
        report = perform(run)
    print("\n".join(report.lines()))
    report.check(expected)
    return 0


if __name__ == "__main__":
    sys.exit(main())
