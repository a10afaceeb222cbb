"""`make demo`: a TPC-DS query with 1, 2 and 4 slots; then its plan, its answer and its history."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

import qoop
from qoop.tpcds.data import generate

QUERY = """
WITH sales AS (
  SELECT c_birth_country AS country, d_year AS year, sum(ss_net_paid) AS paid
  FROM store_sales
  JOIN date_dim ON ss_sold_date_sk = d_date_sk
  JOIN customer ON ss_customer_sk = c_customer_sk
  GROUP BY c_birth_country, d_year
)
SELECT now.country, before.paid AS paid_2000, now.paid AS paid_2001, round(now.paid / before.paid, 3) AS growth
FROM sales AS before JOIN sales AS now ON now.country = before.country AND now.year = before.year + 1
WHERE before.year = 2000
ORDER BY growth DESC
LIMIT 10
"""
SLOTS = (1, 2, 4)
RUNS = 3


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, default=Path.home() / ".cache" / "qoop" / "data")
    options.add_argument("--scale", type=float, default=1.0)
    arguments = options.parse_args()
    console = Console(highlight=False)
    data = arguments.data / f"tpcds-sf{arguments.scale:g}"
    make_data(console, data, arguments.scale)
    console.rule("the query")
    console.print(QUERY.strip(), markup=False, soft_wrap=True)
    console.rule(f"time on {os.cpu_count()} CPUs")
    for slots in SLOTS:
        time_it(console, data, slots)
    tell(console, data, slots=2)


def make_data(console: Console, data: Path, scale: float) -> None:
    """Generate the tables, or find them finished."""
    console.rule(f"TPC-DS data at scale {scale:g} in {data}")
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("tables", total=1.0)
        made = generate(scale, data, lambda step: bar.update(task, total=step.total, completed=step.done))
    console.print(f"{made.bytes / 1e6:.0f} MB: {len(made.made)} tables made, {len(made.kept)} were there")


def time_it(console: Console, data: Path, slots: int) -> None:
    """Run the query some times, first to collect statistics; the shortest time counts, as others use the machine."""
    with qoop.connect(slots=slots) as session:
        session.register_folder(data)
        session.sql(QUERY)
        jobs = [finished(session.submit(QUERY)) for _ in range(RUNS)]
    best = min(jobs, key=lambda job: job.history()[-1].at)
    console.print(
        f"{slots} slot{'s' if slots > 1 else ' '}  {best.history()[-1].at * 1000:4.0f} ms running and"
        f" {best.planning_seconds * 1000:.0f} ms planning:"
        f" {len(best.plan.stages)} stages, {sum(report.tasks for report in best.stage_reports())} tasks"
    )


def finished(job: qoop.Job) -> qoop.Job:
    """The job at its end."""
    job.result()
    return job


def tell(console: Console, data: Path, slots: int) -> None:
    """Show the plan, the answer and what happened."""
    with qoop.connect(slots=slots) as session:
        session.register_folder(data)
        console.rule(f"its plan for {slots} slots")
        console.print(session.explain(QUERY), markup=False, soft_wrap=True)
        job = session.submit(QUERY)
        console.rule("its answer")
        print(job.result())
        console.rule("its history")
        for record in job.history():
            console.print(str(record), markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
