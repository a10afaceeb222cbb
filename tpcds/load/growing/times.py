"""Times of growing answers over the queries of TPC-DS, next to those of the exact answers, in turn in one process.

The alternative to these queries are sums in few groups over fact tables: short ones, and some that take about a second
at scale 10. Each query runs exactly, then grows to within five and one percent at 95 percent, then until it is exact,
some times in turn. The figures are parts of the exact time. For a query that runs exactly at once, the reason is shown.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from qoop.programs.approximate.edition import Edition
from qoop.session.opening import connect
from qoop.session.session import Session

SHORTER = (
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
"""Sums in few groups: the benchmark's own queries have many, which are hardly ever known before they are exact."""

LONGER = (
    """SELECT i_category, sum(ss_ext_sales_price) AS sold, count(*) AS n
       FROM store_sales JOIN item ON ss_item_sk = i_item_sk GROUP BY 1""",
    """SELECT d_year, i_category, sum(ss_ext_sales_price) AS sold, avg(ss_quantity) AS each, count(*) AS n
       FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk JOIN item ON ss_item_sk = i_item_sk
       GROUP BY 1, 2""",
    """SELECT d_moy, sum(ss_quantity) AS a, sum(ss_wholesale_cost) AS b, sum(ss_list_price) AS c,
         sum(ss_sales_price) AS d, sum(ss_ext_sales_price) AS e, sum(ss_net_paid) AS f, avg(ss_ext_tax) AS g,
         count(*) AS n
       FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk GROUP BY 1""",
    """SELECT cd_gender, cd_education_status, sum(ss_net_paid) AS paid, avg(ss_list_price) AS price, count(*) AS n
       FROM store_sales JOIN customer ON ss_customer_sk = c_customer_sk
       JOIN customer_demographics ON c_current_cdemo_sk = cd_demo_sk GROUP BY 1, 2""",
    """SELECT ca_location_type, sum(ss_net_paid) AS paid, sum(ss_net_profit) / sum(ss_net_paid) AS part
       FROM store_sales JOIN customer ON ss_customer_sk = c_customer_sk
       JOIN customer_address ON c_current_addr_sk = ca_address_sk GROUP BY 1""",
    "SELECT i_category, stddev(ss_list_price) AS spread, avg(ss_list_price) AS price, count(*) AS n "
    "FROM store_sales JOIN item ON ss_item_sk = i_item_sk GROUP BY 1",
)  # fmt: skip
"""Sums over fact tables that take about a second at scale 10."""

SUMS = {f"sum{number}": text for number, text in enumerate((*SHORTER, *LONGER), 1)}

GOALS = (0.05, 0.01, 0.0)
"""Half-widths of intervals; 0: the exact answer."""


@dataclass(frozen=True)
class Times:
    """Of one query. exact: seconds of the plain query. first, ended, shares: by goal, seconds until the first edition
    and until the last, and the part that was read. reason: why it does not grow."""

    name: str
    exact: float
    first: tuple[float, ...] = ()
    ended: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    reason: str = ""

    def line(self) -> str:
        """One line of the table."""
        begin = f"{self.name:>5} {self.exact:7.2f}"
        if self.reason:
            return f"{begin}  {self.reason}"
        parts = " ".join(
            f"{ended / self.exact:6.2f} ({share:4.0%})" for ended, share in zip(self.ended, self.shares, strict=True)
        )
        return f"{begin} {min(self.first):7.2f} {parts}"


def timed(session: Session, name: str, text: str, repeats: int = 3) -> Times:
    """The times of a query, each the least of some."""
    session.sql(text)
    turns = [(_seconds(lambda: session.sql(text).fetchall()), [_grown(session, text, goal) for goal in GOALS])
             for _ in range(repeats)]  # fmt: skip
    exact = min(seconds for seconds, _ in turns)
    found = [min((grown[place] for _, grown in turns), key=lambda one: one[1]) for place in range(len(GOALS))]
    reason = next((last.reason for _, _, last in found if last.reason), "")
    return Times(
        name, exact, tuple(one[0] for one in found), tuple(one[1] for one in found),
        tuple(one[2].share for one in found), reason,
    )  # fmt: skip


def _seconds(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def _grown(session: Session, text: str, goal: float) -> tuple[float, float, Edition]:
    """Seconds until the first edition and until the last, and the last."""
    begun, first = time.perf_counter(), math.nan
    for edition in session.approximate(text, goal, 0.95).editions():
        edition.result.fetchall()
        first = time.perf_counter() - begun if math.isnan(first) else first
    return first, time.perf_counter() - begun, edition


def lines(directory: Path, slots: int, texts: Mapping[str, str], exact_within: float) -> Iterator[str]:
    """A line a query, and then the medians of those that grow. texts: of the queries, by name. exact_within: see
    `qoop.query.config.Config`."""
    yield "query   exact   first  to 5 % (read)  to 1 % (read)  to the end    (parts of the exact seconds)"
    found = []
    with connect(slots=slots) as session:
        session.register_folder(directory)
        session.set("exact_within", exact_within)
        for name, text in texts.items():
            found.append(timed(session, name, text))
            yield found[-1].line()
    grown = [one for one in found if not one.reason]
    if grown:
        yield f"{len(grown)} of {len(found)} grow; {_medians(grown)}"


def _medians(grown: Sequence[Times]) -> str:
    parts = [median(one.ended[place] / one.exact for one in grown) for place in range(len(GOALS))]
    first = max(one.first[0] for one in grown)
    return f"medians {', '.join(f'{part:.2f}' for part in parts)}; the last first edition after {first:.2f} s"
