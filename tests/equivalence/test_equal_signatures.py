"""Stages of equal signature give equal rows, over all pairs of plans of the 99 queries.

All plans of all pools are run, kept or not, on the grid of this machine and on that of a cluster; what is compared is
said in :mod:`witness`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_plans import candidates, running
from witness import Witness

from qoop.session.session import Session

SAMPLE = (31,)


@pytest.fixture(scope="module")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Witness:
    return Witness(tmp_path_factory.mktemp("witness"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "number", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow) for n in range(1, 100)]
)
def test_equal_signatures_have_equal_rows(number: int, planner: Session, tpcds_small: Path, witness: Witness) -> None:
    plans = [one.plan for _, one in candidates(planner, number)]
    with running(tpcds_small, plans) as runner:
        witness.see(f"query {number}", plans, runner)


def test_much_was_compared(witness: Witness) -> None:
    """Runs last: the promises were tried on many pairs of different ways."""
    assert witness.compared["finished"] >= 10 and witness.compared["parts"] >= 10, witness.compared


def test_the_witness_sees_a_difference(planner: Session, tpcds_small: Path, tmp_path: Path) -> None:
    """A stage that keeps its key and puts out other rows is found out."""
    plan = next(one.plan for _, one in candidates(planner, 18))
    first = plan.stages[0]
    fewer = replace(first, sql=f"FROM ({first.sql}) LIMIT 3")
    witness = Witness(tmp_path)
    with running(tpcds_small, [plan]) as runner:
        witness.see("query 18", [plan], runner)
        with pytest.raises(AssertionError, match="query 18 s1"):
            witness.see("query 18", [replace(plan, stages=(fewer, *plan.stages[1:]))], runner)
