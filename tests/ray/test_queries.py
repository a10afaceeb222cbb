"""The same answers as on one machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import qoop
from qoop.adaptive.replanning.observations import committed
from qoop.session.session import Session

if TYPE_CHECKING:
    from tests.ray.conftest import Nodes

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def session(two_nodes: Nodes, tpcds: Path) -> Iterator[Session]:
    with qoop.connect(ray=two_nodes.address) as session:
        session.register_folder(tpcds)
        yield session


def test_all_queries_are_right(session: Session, tpcds: Path) -> None:
    from qoop.tpcds.oracle import Oracle, is_empty_answer
    from qoop.tpcds.queries import texts

    full, machines = 0, set()
    with Oracle(tpcds) as oracle:
        for number, text in texts().items():
            job = session.submit(text)
            ours, theirs = job.result().arrow(), oracle.answer(text)
            difference = oracle.judge(text, ours, theirs)
            assert difference is None, f"query {number}: {difference}"
            full += not is_empty_answer(theirs)
            machines |= {record.machine for record in job.history() if hasattr(record, "machine")}
    assert full > 70  # of so little data some have none
    assert len(machines) == 2


def test_functions_of_python_run_on_the_nodes(session: Session) -> None:
    """Two predicates in one filter, in the process of a node and not in this one, with the order found there."""
    home = os.getpid()

    def away(number: int) -> bool:
        return os.getpid() != home and number % 3 == 0

    def halves(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.divide(numbers, 2)

    def fails(number: int) -> int:
        raise ValueError(f"{number} is not for me")

    session.register("counted", pa.table({"n": range(20_000)}))
    session.register_function("away", away, ["BIGINT"], "BOOLEAN", version="1")
    session.register_function("halves", halves, ["BIGINT"], "BIGINT", vectorised=True, version="1")
    session.register_function("fails", fails, ["BIGINT"], "BIGINT", version="1")
    job = session.submit("SELECT count(*), sum(halves(n)) FROM counted WHERE away(n) AND halves(n) < 5000")
    expected = [n // 2 for n in range(20_000) if n % 3 == 0 and n // 2 < 5000]
    assert job.result().fetchall() == [(len(expected), sum(expected))]
    called = {call.function.partition("@")[0] for one in committed(job.history()) for call in one.called}
    assert called == {"away", "halves"}
    with pytest.raises(qoop.FunctionFailed, match=r"fails.*is not for me"):
        session.sql("SELECT sum(fails(n)) FROM counted").fetchall()
    session.register_function("away", lambda number: number < 5, ["BIGINT"], "BOOLEAN", version="2", replace=True)
    assert session.sql("SELECT count(*) FROM counted WHERE away(n)").fetchall() == [(5,)], "the nodes get the new one"


def test_tables_in_the_memory_of_the_session_are_read_from_it(session: Session) -> None:
    session.register("numbers", pa.table({"n": range(500_000)}))
    found = session.sql("SELECT n % 3 AS rest, sum(n) AS total FROM numbers GROUP BY rest ORDER BY rest")
    assert found.fetchall() == [(rest, sum(range(rest, 500_000, 3))) for rest in range(3)]
