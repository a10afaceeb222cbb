"""Draw what a query did: its tasks as bars over time on the slots, its stages as EXPLAIN names them (`make picture`).

The picture shows one real run, the shortest of some: others may use the machine, too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import qoop
from qoop.picture import save
from qoop.timeline import draw, timeline
from qoop.tpcds.data import generate
from qoop.tpcds.queries import text

RUNS = 7


def run(session: qoop.Session, query: str) -> qoop.Job:
    """The job at its end."""
    job = session.submit(query)
    job.result()
    return job


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("picture", type=Path, metavar="FILE.svg")
    options.add_argument("--data", type=Path, default=Path.home() / ".cache" / "qoop" / "data")
    options.add_argument("--query", type=int, default=14, metavar="N", help="of TPC-DS (14)")
    options.add_argument("--slots", type=int, default=2, metavar="N")
    arguments = options.parse_args()
    data = arguments.data / "tpcds-sf1"
    generate(1, data)
    with qoop.connect(slots=arguments.slots) as session:
        session.register_folder(data)
        job = min((run(session, text(arguments.query)) for _ in range(RUNS)), key=lambda job: job.history()[-1].at)
    title = f"TPC-DS query {arguments.query}, scale 1, {arguments.slots} slots"
    save(draw(timeline(job.history(), [job.plan]), title), arguments.picture, title)


if __name__ == "__main__":
    main()
