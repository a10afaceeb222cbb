"""Joins of large tables that are read by buckets of their key."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import interval_coverage as coverage
import numpy as np
import pyarrow as pa
import pytest

import qoop
from qoop.planner.estimate.cost import DEFAULT
from qoop.programs.approximate.eligibility import growth_of
from qoop.programs.approximate.estimators import total
from qoop.programs.approximate.estimators.interim import Interim
from qoop.programs.approximate.estimators.moments import Moments, PairMoments
from qoop.programs.approximate.growth import Growth
from qoop.programs.approximate.schedule import buckets_in_order
from qoop.programs.approximate.universe import BUCKETS, Buckets, Keyed, Universe, compared
from qoop.session.session import Session

ROWS = 120_000
JOINED = """SELECT g, count(*) AS n, sum(v * w) AS s, avg(w) AS a
            FROM sold JOIN (SELECT k, sum(w) AS w FROM back GROUP BY k) AS b ON sold.k = b.k GROUP BY g ORDER BY g"""


@pytest.fixture(scope="module")
def data() -> dict[str, pa.Table]:
    rng = np.random.default_rng(1)

    def keys(most: int, nulls: float) -> pa.Array:
        return pa.array(rng.integers(0, most, ROWS), mask=rng.random(ROWS) < nulls)

    sold = {"k": keys(40_000, 0.1), "c": keys(50, 0.05), "g": rng.integers(0, 3, ROWS), "v": rng.integers(0, 100, ROWS)}
    back = {"k": keys(60_000, 0.1).cast(pa.int32()), "c": keys(50, 0.05).cast(pa.int16()),
            "w": rng.integers(1, 10, ROWS)}  # fmt: skip
    other = {"k": keys(60_000, 0.1).cast(pa.int32()).cast(pa.decimal128(12, 2)), "u": rng.integers(1, 10, ROWS)}
    return {"sold": pa.table(sold), "back": pa.table(back), "other": pa.table(other).slice(0, ROWS - 9)}


@pytest.fixture(scope="module")
def session(data: dict[str, pa.Table]) -> Iterator[Session]:
    with qoop.connect(slots=2, memory="1GB") as opened:
        for name, table in data.items():
            opened.register(name, table)
        yield opened


def grown(session: Session, text: str) -> Growth:
    tables = session._tables  # what `ask` does first
    bound, named = tables.bind(tables.as_read(text))
    found = growth_of(bound, named, tables.describe)
    assert isinstance(found, Growth), found
    return found


@pytest.mark.parametrize(
    ("text", "alias_and_keys"),
    [
        ("SELECT sum(v * w) AS s, count(*) AS n FROM sold, back WHERE sold.k = back.k AND g < 2", [["back", "k"]]),
        ("SELECT sum(w) AS s, count(*) AS n FROM sold JOIN back USING (k, c)", [["back", "k", "c"]]),
        # rows of the fact that find nothing stay, and NULLs are equal to nothing
        ("SELECT sum(w) AS s, count(*) AS n, count(w) AS m FROM sold LEFT JOIN back ON sold.k = back.k AND w > 3",
         [["back", "k"]]),
        ("SELECT count(*) AS n FROM sold SEMI JOIN back ON sold.k = back.k", [["back", "k"]]),
        ("SELECT count(*) AS n FROM sold ANTI JOIN back ON sold.k = back.k", [["back", "k"]]),
        # three of them: by what all have, in a type that all compare in
        ("""SELECT sum(v) AS s, count(*) AS n, sum(u) AS t FROM sold JOIN back ON sold.k = back.k AND sold.c = back.c
            LEFT JOIN other o ON o.k = back.k""", [["back", "k", "c"], ["back", "k", "o", "k"]]),
        ("SELECT count(*) AS n FROM sold a, sold b WHERE a.k = b.k AND a.v < b.v", [["b", "k"]]),
        ("""WITH w AS (SELECT k, max(w) AS w FROM back GROUP BY k)
            SELECT sum(b.w * sold.v) AS s FROM sold LEFT JOIN (SELECT k AS l, w FROM w) AS b ON sold.k = b.l""", []),
        ("SELECT sum(b.x) AS s FROM sold JOIN (SELECT k, w FROM back) AS b(y, x) ON sold.k = b.y", [["back", "k"]]),
        # what an outer join asks for holds for no other rows
        ("SELECT count(*) AS n, sum(u) AS s FROM sold LEFT JOIN back ON sold.k = back.k AND sold.c = back.k, other"
         " WHERE other.k = sold.c", [["back", "k"]]),
        ("SELECT count(*) AS n FROM sold JOIN back ON sold.k < back.w", []),
        ("SELECT count(*) AS n FROM sold JOIN back ON sold.k = back.k OR sold.k = back.w", []),
    ],
)  # fmt: skip
def test_what_buckets_give_adds_up(session, data, text, alias_and_keys):
    """Each row of the join is in the rounds of just one bucket of its key."""
    growth = grown(session, text)
    found = [[part for one in way.others for part in (one.alias, *one.keys)] for way in growth.universes]
    assert found == alias_and_keys
    if not found:
        return
    with duckdb.connect() as connection:
        for name, table in data.items():
            connection.register(name, table)
        [exact] = connection.execute(text).fetchall()
        assert exact[0]
        for way in growth.universes:
            buckets = Buckets(way, growth.fact.name, 7)
            parts = [buckets.text(growth.round_sql, run) for run in (range(300), range(300, 301), range(301, BUCKETS))]
            names = ", ".join(f"sum(t{term.y})" for term in growth.terms)
            [total_] = connection.execute(f"SELECT {names} FROM ({' UNION ALL '.join(parts)})").fetchall()
            assert total_ == exact


def test_a_join_grows_by_buckets_where_they_pay_and_ends_exactly(session, data):
    [(_, told)] = session.sql(f"EXPLAIN APPROXIMATE {JOINED}").fetchall()
    assert "sold and b are read by 1024 buckets of the hash of k" in told and "of one CPU by pieces" in told
    with duckdb.connect() as connection:
        for name, table in data.items():
            connection.register(name, table)
        exact = connection.execute(JOINED).fetchall()
    assert len(exact) == 3
    first, *_, last = session.approximate(JOINED, error=0, seed=3, confidence=0.999).editions()
    assert first.share == 64 / BUCKETS and last.exact
    for row, (group, n, s, a) in zip(first.result.arrow().to_pylist(), exact, strict=True):
        assert row["g"] == group
        for name, true in (("n", n), ("s", s), ("a", a)):
            assert row[f"{name}_low"] < true < row[f"{name}_high"] and row[f"{name}_high"] < 1.5 * true
    kept = [[row[place] for place in (0, 1, 4, 7)] for row in last.result.fetchall()]
    assert kept == [list(row) for row in exact]
    *_, early = session.approximate(JOINED, error=0.1, seed=3).editions()
    assert not early.exact and early.error <= 0.1
    others = {session.approximate(JOINED, error=0, seed=seed).editions().__next__().result.fetchall()[0][1]
              for seed in (3, 4, 5)}  # fmt: skip
    assert len(others) == 3, "each seed draws other buckets"


def test_buckets_are_drawn_where_the_other_table_takes_more_than_reading_the_fact():
    fact, ends = Keyed("f", ("k",), ((10e6, 3),)), buckets_in_order().ends
    found = [
        compared((Universe(fact, (Keyed("o", ("k",), ((rows, 3),), grouped),), ("BIGINT",)),), ends, DEFAULT)
        for rows, grouped in ((2e5, True), (2e6, False), (10e6, True))
    ]
    assert [way is not None and way.by_buckets < way.by_pieces for way in found] == [False, False, True]
    assert compared((), ends, DEFAULT) is None


def test_the_variance_of_buckets_is_on_average_that_of_keys():
    """Vengerov and others, over many hash functions, and as estimated from the buckets drawn."""
    rng = np.random.default_rng(1)
    keys, buckets, drawn = rng.gamma(0.5, 4.0, 3000), 256, 64
    estimates, errors = [], []
    for _ in range(800):
        totals = np.bincount(rng.integers(0, buckets, len(keys)), keys, buckets)[:drawn]
        estimates.append(totals.sum() * buckets / drawn)
        both = PairMoments.of(totals, np.ones(drawn))
        errors.append(float(total.standard_error(Interim(drawn, buckets, 0.05), Moments.of(totals), both)[0]))
    formula = (buckets / drawn - 1) * (keys**2).sum()
    assert np.mean(estimates) == pytest.approx(keys.sum(), rel=0.01)
    assert np.mean(np.square(errors)) == pytest.approx(formula, rel=0.03)
    assert np.var(estimates) == pytest.approx(formula, rel=0.15)


def test_heavy_keys_have_no_narrow_intervals():
    rows = coverage.rows("heavy keys", np.random.default_rng(1))
    assert rows.totals(BUCKETS)[0].sum() == len(rows.y) > 500_000
    found = coverage.grown(rows.totals(BUCKETS), 0.1, 0.95, 1)
    assert found.share == 1.0 and found.missed == 0
    even = coverage.rows("joined", np.random.default_rng(1))
    assert coverage.grown(even.totals(BUCKETS), 0.2, 0.95, 1).share < 1.0


def test_the_rounds_of_one_query_read_each_bucket_once():
    plan = buckets_in_order()
    assert [one for number in range(len(plan.ends)) for one in plan.pieces_of(number)] == list(range(BUCKETS))
