"""Fifty clients at once for ten minutes in one session (`make soak-clients`; :mod:`soak_clients`).

python tests/soak/clients.py --minutes 10 --clients 50 --scale 0.01 --seed 7
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("", "support", "tpcds", "planner"))]

from soak_clients import STUCK, Clients, perform  # noqa: E402

from qoop.adaptive.schedulers.described import named  # noqa: E402
from qoop.tpcds.data import generate  # noqa: E402

DATA = Path(os.environ.get("QOOP_TEST_DATA") or Path.home() / ".cache" / "qoop" / "data")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/soak/clients.py")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scheduler", default="max_min")
    options = parser.parse_args()
    named(options.scheduler)  # says what there is
    folder, seconds = DATA / f"tpcds-sf{options.scale:g}", 60.0 * options.minutes
    generate(options.scale, folder)
    faulthandler.dump_traceback_later(seconds + 2 * STUCK, exit=True)
    with tempfile.TemporaryDirectory(prefix="qoop-soak-") as place:
        os.environ["XDG_CACHE_HOME"] = str(Path(place) / "cache")
        clients = Clients(
            folder, Path(place) / "spill", options.clients, seconds, options.seed, scheduler=options.scheduler
        )
        report = perform(clients, partial(print, flush=True))
    print("\n".join(report.lines()))
    report.check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
