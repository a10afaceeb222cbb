"""The target is that of the rows that are shown, and rows that are chosen by estimates have wider intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import qoop
from qoop.catalog.catalog import Catalog
from qoop.programs.approximate.growth import Figure, Growth
from qoop.programs.approximate.schedule import Schedule, schedule
from qoop.programs.approximate.target import Target
from qoop.programs.approximate.worth_it import Expected, in_vain
from qoop.session.session import Session

ROWS = 400_000
"""Half of them in three groups, the others in 2,000."""


@pytest.fixture(scope="module")
def data() -> pa.Table:
    number = np.arange(ROWS)
    key = np.where(number % 2 == 0, number % 6 // 2, 3 + number // 2 % 2000)
    return pa.table({"k": key, "v": number * 7919 % 100})


@pytest.fixture(scope="module")
def session(data: pa.Table) -> Iterator[Session]:
    with qoop.connect(slots=2, memory="1GB") as session:
        session.register("t", data)
        session.register("named", pa.table({"k": [0, 1, -7]}))
        session.set("exact_within", 0)
        yield session


def test_groups_that_are_not_shown_do_not_count(session: Session) -> None:
    text = "SELECT k, sum(v) AS s FROM t GROUP BY k"
    for shown in (f"{text} ORDER BY s DESC LIMIT 3", f"{text} ORDER BY k LIMIT 3", f"{text} HAVING sum(v) > 1000000"):
        last = session.approximate(shown, error=0.05, seed=1).last()
        assert last.share < 1 and last.error is not None and last.error <= 0.05 and last.groups > 1000
        truth = dict(session.sql(text).fetchall())
        assert sorted(row[0] for row in last.result.fetchall()) == [0, 1, 2]
        assert all(low <= truth[k] <= high for k, _, low, high, _ in last.result.fetchall())
    assert session.approximate(text, error=0.05, seed=1).last().exact


def test_rows_chosen_by_estimates_have_wider_intervals(session: Session) -> None:
    def widths(order: str) -> dict[int, float]:
        text = f"SELECT k, sum(v) AS s FROM t GROUP BY k ORDER BY {order} LIMIT 3"
        first = next(session.approximate(text, error=0, seed=1).editions())
        unseen = 1 / 64 - 1 / round(64 / first.share)  # for a stretch that is unlike the rest: it is added to all
        return {k: high - low - 2 * unseen * s for k, s, low, high, _ in first.result.fetchall()}

    by_key, by_sum = widths("k"), widths("s DESC")
    assert by_key.keys() == by_sum.keys() and all(1.5 < by_sum[k] / by_key[k] < 4 for k in by_key)


def test_rows_without_a_group_have_no_interval_and_do_not_count(session: Session) -> None:
    text = """
        SELECT n.k, c.s FROM named n LEFT JOIN (SELECT k, sum(v) AS s FROM t GROUP BY k) c ON c.k = n.k ORDER BY n.k"""
    last = session.approximate(text, error=0.05, seed=1).last()
    none, *others = last.result.fetchall()
    assert none[:4] == (-7, None, None, None) and last.share < 1 and last.error is not None
    assert [row[0] for row in others] == [0, 1] and all(low < s < high for _, s, low, high, _ in others)
    plain = session.approximate(text, error=0.05, seed=1).result()
    assert plain.fetchall() == session.sql(text).fetchall()


def test_the_greatest_groups_may_have_many_times_the_mean_rows(data: pa.Table) -> None:
    with Catalog() as catalog:
        fact = catalog.register("t", data)
    figure, rounds, target = Figure(1, "total", 0), schedule(256, 1), Target(0.05, 0.95)

    def told(limited: bool, ranked: tuple[int, bool] | None, rounds: Schedule = rounds) -> str:
        growth = Growth(fact, ("k",), (), (), (figure,), ("k0", "e0"), "", limited,
                        (("k", "BIGINT"), ("s", "HUGEINT")), "", "", ranked=ranked)  # fmt: skip
        return in_vain(Expected(400_000, 2000), growth, rounds, target)

    assert (
        "too few" in told(False, None) and "too few" in told(True, (1, False)) and "too few" in told(False, (1, True))
    )
    assert told(True, (1, True)) == ""
    few = schedule(48, 1, in_row_groups=True)  # of which 24 are read: one in 48 may be unlike the others
    assert told(True, (1, True), few) == ""
    target = Target(0.02, 0.95)
    assert told(True, (1, True), few) == "its 48 pieces are too few to be within 2.0% before all are read"
