"""Growing queries over TPC-DS asked at the same moment on this machine, under one scheduler after the other.

The queries of the benchmark have many groups: at small scales hardly any group has an interval before it is
exact. These have few: sums over three fact tables, by what their dimensions say.

They grow until they are exact or, given a part, until their intervals have that part of the width of the first ones:
then the way of which 90 and 95 % are timed, in variance, ends there, as in the simulator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from qoop.session import Session, connect

QUERIES = (
    "SELECT sum(ss_net_paid) AS paid FROM store_sales",
    "SELECT avg(ss_sales_price) AS price FROM store_sales JOIN item ON ss_item_sk = i_item_sk WHERE i_manager_id < 9",
    "SELECT i_category, sum(ss_net_profit) AS profit FROM store_sales JOIN item ON ss_item_sk = i_item_sk GROUP BY 1",
    "SELECT d_year, sum(ss_quantity) AS sold FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk GROUP BY 1",
    "SELECT count(*) AS n FROM store_sales JOIN customer ON ss_customer_sk = c_customer_sk WHERE c_birth_year < 1960",
    "SELECT stddev(cs_sales_price) AS spread FROM catalog_sales",
    "SELECT i_category, avg(cs_net_paid) AS paid FROM catalog_sales JOIN item ON cs_item_sk = i_item_sk GROUP BY 1",
    "SELECT sum(cs_net_profit) / sum(cs_net_paid) AS part FROM catalog_sales",
    "SELECT sum(ws_net_paid) AS paid FROM web_sales JOIN item ON ws_item_sk = i_item_sk WHERE i_manager_id < 50",
    "SELECT d_qoy, sum(ws_quantity) AS sold FROM web_sales JOIN date_dim ON ws_sold_date_sk = d_date_sk GROUP BY 1",
)
SCHEDULERS = ("max_min", "SJF()", "quality")


@dataclass(frozen=True)
class Shown:
    """An answer: seconds at which each edition came since all were asked for, and its error; None: no interval yet.

    goal: the error at which it ends.
    """

    query: str
    editions: tuple[tuple[float, float | None], ...]
    goal: float = 0.0

    def reached(self, part: float) -> float:
        """Seconds until no more than that part of the way was left, from the variance of the first edition with
        intervals to that of the goal."""
        first = next((error for _, error in self.editions if error), 0.0)
        most = self.goal**2 + part * max(0.0, first**2 - self.goal**2)
        return next(at for at, error in self.editions if error is not None and error**2 <= most)


def played(
    directory: Path, scheduler: str, slots: int, queries: Sequence[str], narrow: float | None = None
) -> list[Shown]:
    """Ask for all queries at once, and let each grow until it is exact. narrow: or its intervals have that part of the
    width of the first ones."""
    with connect(slots=slots, scheduler=scheduler) as session:
        session.register_folder(directory)
        session.set("exact_within", 0)
        goals = [_goal(session, text, narrow) for text in queries]  # so that statistics are there, too
        begun = time.perf_counter()
        with ThreadPoolExecutor(len(queries)) as pool:
            return list(pool.map(lambda text, goal: _grown(session, text, goal, begun), queries, goals))


def _goal(session: Session, text: str, narrow: float | None) -> float:
    first = next(session.approximate(text, error=0.9).editions())
    return 0.0 if narrow is None or first.error is None else narrow * first.error


def _grown(session: Session, text: str, goal: float, begun: float) -> Shown:
    answer = session.approximate(text, error=goal)
    found = [(time.perf_counter() - begun, edition.error) for edition in answer.editions()]
    return Shown(text, tuple(found), goal)


def lines(
    directory: Path,
    slots: int = 2,
    queries: Sequence[str] = QUERIES,
    tell: Callable[[str], None] = lambda _: None,
    narrow: float | None = None,
) -> Iterator[str]:
    """A table of means, in seconds. narrow: see `played`."""
    yield f"{'scheduler':12} {'first':>7} {'to 90 %':>8} {'to 95 %':>8} {'end':>7} {'last end':>8}"
    for scheduler in SCHEDULERS:
        tell(scheduler)
        found = played(directory, scheduler, slots, queries, narrow)
        ends = [one.editions[-1][0] for one in found]
        times = (mean(one.editions[0][0] for one in found), mean(one.reached(0.1) for one in found),
                 mean(one.reached(0.05) for one in found), mean(ends), max(ends))  # fmt: skip
        yield f"{scheduler:12} " + " ".join(f"{one:7.2f}" for one in times)
