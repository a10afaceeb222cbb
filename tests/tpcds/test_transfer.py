"""`qoop bench transfer`: what it compares, and that transfers and orders by chance leave answers as they are."""

from __future__ import annotations

from pathlib import Path

from qoop.session import connect
from qoop.tpcds.bench.transfer import TransferResult, plans, table
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import text


def test_answers_stay_as_they_are(benchmark_texts: None, tpcds_test: Path) -> None:
    """An order of joins by chance, in which transfers pay for themselves at scale 1."""
    asked = text(25)
    with connect(slots=2, replan=False, reuse=False, staged=True) as session, Oracle(tpcds_test) as oracle:
        session.register_folder(tpcds_test)
        without, with_keys = plans(session, asked, 2)
        assert without != with_keys
        theirs = oracle.answer(asked)
        assert theirs.num_rows > 0
        assert oracle.judge(asked, session.submit(asked, plan=with_keys).result().arrow(), theirs) is None


def test_orders_are_told_apart() -> None:
    done = [TransferResult(1, (1.0, 4.0), (1.0, 2.0), 1), TransferResult(2, (1.0, 1.0), (1.0, 1.0), 0)]
    assert table(done).splitlines() == [
        " without:     7.000 s, longest over shortest order 2.00",
        "    with:     5.000 s, longest over shortest order 1.41",
    ]
