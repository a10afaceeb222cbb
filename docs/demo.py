"""`make demo`: one TPC-DS query with 1, 2 and 4 slots, its plan, its progress and its history."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

import qoop
from qoop.tpcds.data import generate

QUERY = """
SELECT i_category, d_year, count(*) AS sales, sum(ss_ext_sales_price) AS revenue
FROM store_sales
JOIN item ON ss_item_sk = i_item_sk
JOIN date_dim ON ss_sold_date_sk = d_date_sk
JOIN customer ON ss_customer_sk = c_customer_sk
WHERE d_year BETWEEN 1999 AND 2001 AND c_birth_country = 'ICELAND'
GROUP BY i_category, d_year
ORDER BY revenue DESC
LIMIT 10
"""
SLOTS = (1, 2, 4)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "qoop")
    options.add_argument("--scale", type=float, default=1.0)
    arguments = options.parse_args()
    console = Console(highlight=False)
    data = arguments.cache / f"sf{arguments.scale:g}"
    make_data(console, data, arguments.scale)
    for slots in SLOTS:
        run(console, data, slots, tell_all=slots == SLOTS[-1])


def make_data(console: Console, data: Path, scale: float) -> None:
    """Generate the tables, or find them finished."""
    console.rule(f"TPC-DS data at scale {scale:g} in {data}")
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("tables", total=1.0)
        made = generate(scale, data, lambda step: bar.update(task, total=step.total, completed=step.done))
    console.print(f"{made.bytes / 1e6:.0f} MB: {len(made.made)} tables made, {len(made.kept)} were there")


def run(console: Console, data: Path, slots: int, tell_all: bool) -> None:
    """Run the query; at the end say what happened."""
    console.rule(f"{slots} slot{'s' if slots > 1 else ''}")
    with qoop.connect(slots=slots) as session:
        session.register_folder(data)
        if tell_all:
            console.print(session.explain(QUERY), markup=False, soft_wrap=True)
        begun = time.perf_counter()
        job = session.submit(QUERY)
        watch(console, job)
        result = job.result()
        console.print(f"{time.perf_counter() - begun:.3f} s, of which planning {job.planning_seconds:.3f} s")
        if tell_all:
            print(result)
            for record in job.history():
                console.print(str(record), markup=False, soft_wrap=True)


def watch(console: Console, job: qoop.Job) -> None:
    """A bar of the job's progress until it ends."""
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(job.id, total=1.0)
        while not job.wait(0.05):
            bar.update(task, completed=job.progress().fraction)


if __name__ == "__main__":
    main()
