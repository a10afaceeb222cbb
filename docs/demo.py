"""`make demo`: a TPC-DS query while slots and memory go and come back; what the engine decided, and a picture of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

import qoop
from qoop.engine.history import CapacityTold, Decided, Ended, Failed, Record, Switched
from qoop.tpcds.data import generate
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import text

SLOTS, MEMORY = 4, "2GB"
LESS_SLOTS, LESS_MEMORY = 1, "300MB"
LOSS, RETURN = 0.1, 1.2
"""When room goes and when it comes back, as parts of the time that the query takes undisturbed."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, default=Path.home() / ".cache" / "qoop" / "data")
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--query", type=int, default=78, metavar="N", help="of TPC-DS (78)")
    options.add_argument("--picture", type=Path, default=Path("demo.html"), metavar="FILE")
    arguments = options.parse_args()
    console = Console(highlight=False)
    data = arguments.data / f"tpcds-sf{arguments.scale:g}"
    make_data(console, data, arguments.scale)
    query = text(arguments.query)
    with qoop.connect(slots=SLOTS, memory=MEMORY) as session:
        session.register_folder(data)
        seconds = undisturbed(console, session, query, arguments.query)
        job = disturbed(console, session, query, seconds)
        judge(console, data, query, job)
        path = job.timeline(arguments.picture)
    console.print(f"The picture of it: {path}")


def make_data(console: Console, data: Path, scale: float) -> None:
    """Generate the tables, or find them finished."""
    console.rule(f"TPC-DS data at scale {scale:g} in {data}")
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("tables", total=1.0)
        made = generate(scale, data, lambda step: bar.update(task, total=step.total, completed=step.done))
    console.print(f"{made.bytes / 1e6:.0f} MB: {len(made.made)} tables made, {len(made.kept)} were there")


def undisturbed(console: Console, session: qoop.Session, query: str, number: int) -> float:
    """Seconds that the query takes with all slots: the least of three runs, as others use the machine."""
    console.rule(f"query {number} with {SLOTS} slots and {MEMORY}")
    session.sql(query)  # collects statistics
    jobs = [finished(session.submit(query)) for _ in range(3)]
    seconds = min(job.history()[-1].at for job in jobs)
    stages = jobs[0].plan.stages
    console.print(f"{seconds:.2f} s for {sum(stage.width for stage in stages)} tasks of {len(stages)} stages:")
    for stage in stages:
        console.print(f"  {stage.id:4} {stage.label}", markup=False, soft_wrap=True)
    # Known from here on: in a query this short there is no time to look for them.
    kept = session.alternatives(query).kept
    console.print(f"It is one of {len(kept)} plans that are worth keeping, each the best on some slots and memory.")
    return seconds


def disturbed(console: Console, session: qoop.Session, query: str, seconds: float) -> qoop.Job:
    """Run it while the room changes, and tell what happened."""
    profile = qoop.CapacityProfile.of(
        [(0, SLOTS, MEMORY), (LOSS * seconds, LESS_SLOTS, LESS_MEMORY), (RETURN * seconds, SLOTS, MEMORY)]
    )
    console.rule(f"the same, with {LESS_SLOTS} slot and {LESS_MEMORY} from {LOSS * seconds:.2f} s on, until it is back")
    job = session.submit(query)
    with qoop.replay(session, profile):
        finished(job)
    for line in story(job.history()):
        console.print(line, markup=False, soft_wrap=True)
    return job


def story(history: list[Record]) -> Iterator[str]:
    """What changed, what was thought of it and what was done."""
    for record in history:
        if isinstance(record, CapacityTold | Decided | Ended | Failed | Switched):
            yield str(record)


def finished(job: qoop.Job) -> qoop.Job:
    """The job at its end."""
    job.result()
    return job


def judge(console: Console, data: Path, query: str, job: qoop.Job) -> None:
    """Compare the answer with DuckDB's on the same files."""
    console.rule("its answer")
    result = job.result()
    print(result)
    with Oracle(data) as oracle:
        difference = oracle.judge(query, result.arrow())
    console.print("It is the answer that DuckDB gives." if difference is None else str(difference))


if __name__ == "__main__":
    main()
