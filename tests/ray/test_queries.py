"""The same answers as on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import qoop
from qoop.session import Session

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


def test_tables_in_the_memory_of_the_session_are_read_from_it(session: Session) -> None:
    session.register("numbers", pa.table({"n": range(500_000)}))
    found = session.sql("SELECT n % 3 AS rest, sum(n) AS total FROM numbers GROUP BY rest ORDER BY rest")
    assert found.fetchall() == [(rest, sum(range(rest, 500_000, 3))) for rest in range(3)]
