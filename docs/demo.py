"""`make demo`: a query while slots and memory come and go; what the engine decided, and a picture of it.

The resources change when the query has got somewhere, not after some seconds, so that a busy machine shows the same.
The engine decides what to make of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

import qoop
from qoop.engine.history import CapacityReported, Decided, Ended, Failed, Record, Started, Switched
from qoop.tpcds.data import generate
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import text

SLOTS, MEMORY = 4, "2GB"
LESS_SLOTS, LESS_MEMORY = 1, "200MB"
LOSS = 0.5
"""The part of the work after which the resources go again that came when the first task had begun."""

PAIRS = """SELECT i_category, count(*) AS pairs, avg(other.ss_sales_price) AS price
FROM store_sales one JOIN store_sales other ON one.ss_customer_sk = other.ss_customer_sk
                     JOIN item ON one.ss_item_sk = i_item_sk
WHERE one.ss_item_sk <> other.ss_item_sk
GROUP BY i_category ORDER BY pairs DESC, i_category"""
"""The other things that buyers of a category buy. The plan for one slot with little memory is one task. The plan for
four slots has parts, and ends in less than half of the time: so much that the change is worth it for some time."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=Path.home() / ".cache" / "qoop" / "data")
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--query", type=int, metavar="N", help="that of TPC-DS, in place of pairs of sales")
    options.add_argument("--picture", type=Path, default=Path("demo.html"), metavar="FILE")
    arguments = options.parse_args()
    console = Console(highlight=False)
    data = arguments.data / f"tpcds-sf{arguments.scale:g}"
    make_data(console, data, arguments.scale)
    query = PAIRS if arguments.query is None else text(arguments.query)
    with qoop.connect(slots=SLOTS, memory=MEMORY, staged=True, reuse=False) as session:
        session.register_folder(data)
        undisturbed(console, session, query)
        job = disturbed(console, session, query)
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


def undisturbed(console: Console, session: qoop.Session, query: str) -> None:
    """Run it with all the resources there are, and show its plan."""
    console.rule(f"a query with {SLOTS} slots and {MEMORY}")
    console.print(query, markup=False, soft_wrap=True)
    session.sql(query)  # collects statistics
    job = finished(session.submit(query))
    stages = job.plan.stages
    tasks = sum(stage.width for stage in stages)
    console.print(f"{job.history()[-1].at:.2f} s for {counted(tasks, 'task')} of {counted(len(stages), 'stage')}:")
    for stage in stages:
        console.print(f"  {stage.id:4} {stage.label}", markup=False, soft_wrap=True)


def counted(number: int, what: str) -> str:
    """A number of things in words."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def disturbed(console: Console, session: qoop.Session, query: str) -> qoop.Job:
    """Run it while its resources change, and tell what happened."""
    console.rule(f"the same, begun with {LESS_SLOTS} slot and {LESS_MEMORY}")
    session.resize(LESS_SLOTS, LESS_MEMORY)
    # Known from here on: in a query this short there is no time to look for them.
    kept = session.alternatives(query).kept
    console.print(f"Worth keeping: {counted(len(kept), 'plan')}, each the best on some slots and memory.")
    job = session.submit(query)
    until(job, lambda: any(isinstance(record, Started) for record in job.history()))
    session.resize(SLOTS, MEMORY)
    until(job, lambda: job.progress().fraction >= LOSS)
    session.resize(LESS_SLOTS, LESS_MEMORY)
    finished(job)
    for line in story(job.history()):
        console.print(line, markup=False, soft_wrap=True)
    console.print(conclusion(job.history()), markup=False, soft_wrap=True, style="bold")
    return job


def until(job: qoop.Job, reached: Callable[[], bool]) -> None:
    """Wait until the query has got that far, or has ended."""
    while not reached() and not job.wait(0.01):
        pass


def conclusion(history: Sequence[Record]) -> str:
    """A sentence: the plan was changed, or why it was not."""
    decided = [record for record in history if isinstance(record, Decided)]
    switches = sum(record.switched for record in decided)
    if switches:
        return f"The plan was changed {'once' if switches == 1 else f'{switches} times'}."
    reasons = dict.fromkeys(record.reason for record in decided)
    return f"The plan was not changed this time: {'; '.join(reasons) or 'the query was over before a decision'}."


def story(history: Sequence[Record]) -> Iterator[str]:
    """The records of changes, of decisions about them and of actions."""
    for record in history:
        if isinstance(record, CapacityReported | Decided | Ended | Failed | Switched):
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
