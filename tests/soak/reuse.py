"""Statements that repeat while tables, files, names and settings change (`make soak-reuse`).

python tests/soak/reuse.py --statements 100000 --seed 7
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from soak_reuse import perform  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/soak/reuse.py")
    parser.add_argument("--statements", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--staged", action="store_true", help="in stages only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qoop-soak-") as place:
        report = perform(Path(place), options.statements, options.seed, options.staged)
    print("\n".join(report.lines()))
    report.check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
