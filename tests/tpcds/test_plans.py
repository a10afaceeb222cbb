"""EXPLAIN of TPC-DS queries on real statistics, held in files (`make golden` writes them).

The data of scale 1 are the same wherever they are made, and so are their statistics; slots and memory are given.
So a plan changes only if the planner, the costs or the statistics do. Look at the difference before you keep it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.queries import text

PLANS = {
    (1, 2): "a correlated scalar aggregate over a shared CTE",
    (7, 2): "a star join and a two-phase aggregate",
    (9, 2): "fifteen scalar subqueries over one table, in one pass",
    (10, 2): "EXISTS under OR",
    (14, 2): "three INTERSECTs, shared by three branches of a ROLLUP",
    (36, 2): "ROLLUP and a window over it",
    (51, 2): "windows over both sides of a full outer join",
    (64, 2): "the most joins",
    (67, 2): "a ROLLUP of eight keys in two branches, and the first ranks of each task",
    (72, 2): "the largest table joined by inequalities, and outer joins",
    (76, 2): "a UNION ALL of which two branches have a stage of their own",
    (78, 8): "outer joins of large sides, partitioned by hash",
    (87, 2): "EXCEPT",
    (95, 2): "semi joins on a self join",
}
"""By query and slots."""


@pytest.fixture(scope="module")
def sessions(benchmark_texts: None, tpcds_test: Path) -> Iterator[dict[int, Session]]:
    """By slots."""
    with (
        connect(slots=2, memory="8GB", statistics="full") as two,
        connect(slots=8, memory="8GB", statistics="full") as eight,
    ):
        two.register_folder(tpcds_test)
        eight.register_folder(tpcds_test)
        yield {2: two, 8: eight}


@pytest.mark.parametrize(("number", "slots"), PLANS)
def test_plan(number: int, slots: int, sessions: dict[int, Session], golden: Callable[[str, str], None]) -> None:
    title = f"TPC-DS query {number}, scale 1, {slots} slots: {PLANS[number, slots]}"
    golden(f"tpcds/{number:02}", f"{title}\n\n{_without_digests(sessions[slots].explain(text(number)))}")


def _without_digests(plan: str) -> str:
    """Names of columns end in a digest of what they mean, and so of the files that this machine has."""
    return re.sub(r"_[0-9a-f]{10}\b", "", plan)
