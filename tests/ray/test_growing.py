"""Answers that grow on nodes, which may be killed meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.engine.history import CapacityReported, Started
from qoop.programs.approximate.edition import Edition
from qoop.query.job import Job
from qoop.session.session import Session

if TYPE_CHECKING:
    from tests.ray.conftest import NodesMaker

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]

ROWS = 600_000
TEXT = "SELECT shop, count(*) AS n, sum(price) AS income FROM sales GROUP BY shop ORDER BY shop"
SLOW = TEXT.replace("GROUP", "WHERE length(md5(repeat(price::VARCHAR, 300))) = 32 GROUP")


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in 16 row groups, which is cut into smaller pieces."""
    path, rng = tmp_path_factory.mktemp("tables") / "sales.parquet", np.random.default_rng(3)
    table = pa.table({"shop": rng.integers(0, 4, ROWS), "price": rng.integers(0, 1000, ROWS)})
    pq.write_table(table, path, row_group_size=ROWS // 16)
    return path


def opened(address: str, sales: Path) -> Session:
    session = qoop.connect(ray=address)
    session.register("sales", sales)
    session.set("exact_within", 0)
    return session


def assert_sound(editions: list[Edition], sales: Path, confidence: float = 0.999) -> None:
    """Intervals hold the truth, ever more is read, and the last edition is DuckDB's answer."""
    truth = duckdb.sql(TEXT.replace("sales", f"'{sales}'")).fetchall()
    assert truth and len(editions) > 2 and [one.exact for one in editions] == [False] * (len(editions) - 1) + [True]
    assert [one.share for one in editions] == sorted({one.share for one in editions})
    assert editions[-1].plain().fetchall() == truth
    for one in editions:
        for row, (shop, n, income) in zip(one.result.arrow().to_pylist(), truth, strict=True):
            assert row["shop"] == shop
            assert row["n_low"] <= n <= row["n_high"] and row["income_low"] <= income <= row["income_high"]


def test_an_answer_grows_on_two_nodes(make_nodes: NodesMaker, sales: Path) -> None:
    with make_nodes(1, 1) as nodes, opened(nodes.address, sales) as session:
        answer = session.approximate(TEXT, error=0, confidence=0.999, seed=1)
        assert_sound(list(answer.editions()), sales)
        met = session.approximate(TEXT, error=0.05, seed=2).last()
        assert not met.exact and met.error is not None and met.error <= 0.05
        middle = session.approximate("SELECT median(price) AS m FROM sales", error=0.05, seed=2)
        [found] = middle.last().result.arrow().to_pylist()
        assert (
            found["m_low"] <= middle.result().fetchall()[0][0] <= found["m_high"] and found["m_low"] < found["m_high"]
        )


def test_a_node_is_killed_while_an_answer_grows(make_nodes: NodesMaker, sales: Path) -> None:
    with make_nodes(1, 1) as nodes, opened(nodes.address, sales) as session:
        answer = session.approximate(SLOW, error=0, confidence=0.999, seed=1)
        waiting = answer.editions()
        editions = [next(waiting)]
        nodes.kill(nodes.there[0])
        editions += waiting
        assert_sound(editions, sales)
        told = [record for job in answer.jobs for record in job.history() if isinstance(record, CapacityReported)]
        gone = {one.machine for one in told if one.capacity is None}
        assert len(gone) == 1, "a round has heard of it"
        assert not any(one in gone for job in answer.jobs for one in started_late(job))


def started_late(job: Job) -> list[str]:
    """The machines of attempts that began after the job had heard of one that is gone."""
    history = job.history()
    heard = [at for at, one in enumerate(history) if isinstance(one, CapacityReported) and one.capacity is None]
    return [one.machine for one in history[heard[0] :] if isinstance(one, Started)] if heard else []
