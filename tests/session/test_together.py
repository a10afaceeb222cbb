"""Queries that are submitted together: what they share, and that each answers as by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.catalog.errors import BindError, Cancelled
from qoop.engine.history import Started
from qoop.engine.notices import Continued
from qoop.query.job import Job
from qoop.session.session import Session

SCRIPT = """
CREATE TABLE sales AS SELECT i % 13 AS day, nullif(i % 17, 3) AS item, nullif(i % 5, 2) AS shop, i % 29 AS customer,
    (i * 7919 % 1000)::DECIMAL(7, 2) AS price, CASE WHEN i % 11 > 0 THEN i % 7 END AS amount, (i % 97) / 8 AS weight
    FROM range(20_000) r(i);
CREATE TABLE days AS SELECT i AS day_key, i % 4 AS month, i < 9 AS is_open FROM range(12) r(i);
CREATE TABLE items AS SELECT i AS item_key, 'kind ' || i % 3 AS kind, CASE WHEN i % 4 > 0 THEN 'm' || i END AS maker
    FROM range(15) r(i);
CREATE TABLE shops AS SELECT i % 4 AS shop_key, 'town ' || i AS town FROM range(6) r(i);
"""  # the keys of shops are not unique
ITEMS, SHOPS = ("items", "item = item_key"), ("shops", "shop = shop_key")
ITEMS_TOO = "SELECT kind, sum(price) AS s FROM sales, days, items WHERE day = day_key AND month < 3 AND item = item_key"
TILES = (
    "SELECT month, sum(price) AS s, count(*) AS n FROM sales, days WHERE day = day_key AND month < 3 GROUP BY month",
    "SELECT count(*), avg(amount), min(weight), max(price) FROM sales, days WHERE day = day_key AND month < 3",
    f"{ITEMS_TOO} GROUP BY kind ORDER BY s DESC, kind LIMIT 2",
    f"{ITEMS_TOO} AND maker IN ('m1', 'm2', 'm5') AND amount BETWEEN 1 AND 4 GROUP BY ROLLUP (kind)",
    "SELECT month, count(DISTINCT customer) AS n FROM sales, days WHERE day = day_key AND month < 3 GROUP BY month",
    "SELECT CASE WHEN price < 300 THEN 'low' ELSE 'high' END AS band, count(amount) FILTER (amount > 2) AS n "
    "FROM sales JOIN days ON day = day_key WHERE month < 3 GROUP BY band HAVING count(*) > 3",
    "SELECT town, sum(amount) AS s FROM sales, days, shops WHERE day = day_key AND month < 3 AND shop = shop_key "
    "GROUP BY town",
    "SELECT sum(price) AS s FROM sales, days WHERE day = day_key AND month < 3 AND is_open AND price > 2000",
)


@pytest.fixture(autouse=True)
def always_worth_it(as_installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables here are so small that a search for summaries never pays."""
    monkeypatch.setattr("qoop.query.summaries.grouping.LEAST_SECONDS", 0.0)
    monkeypatch.setattr("qoop.query.summaries.grouping.GAIN", 100.0)


@pytest.fixture
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(SCRIPT)
        yield connection


@pytest.fixture
def session(oracle: duckdb.DuckDBPyConnection, tmp_path: Path) -> Iterator[Session]:
    for (name,) in oracle.execute("SHOW TABLES").fetchall():
        pq.write_table(oracle.sql(f"FROM {name}").to_arrow_table(), tmp_path / f"{name}.parquet", row_group_size=5_000)
    with qoop.connect(slots=2, memory="1GB") as session:
        session.register_folder(tmp_path)
        yield session


def shares(job: Job) -> bool:
    """True if the job reads the output of another one."""
    job.wait()
    return any(isinstance(record, Continued) for record in job.history())


def rows(found: Sequence[tuple[object, ...]]) -> list[str]:
    return sorted(map(repr, found))


def test_tiles_share_a_summary_and_answer_as_by_themselves(session, oracle):
    jobs = session.submit_many(TILES)
    for text, job in zip(TILES, jobs, strict=True):
        expected = oracle.sql(text).fetchall()
        assert expected and rows(job.result().fetchall()) == rows(expected), text
    assert [shares(job) for job in jobs] == [False, True, True, True, True, True, False, True]


def test_any_tiles_answer_as_by_themselves(session, oracle):
    chance = random.Random(47)
    shared = 0
    for _ in range(4):
        texts = [_drawn(chance) for _ in range(5)]
        jobs = session.submit_many(texts)
        for text, job in zip(texts, jobs, strict=True):
            assert rows(job.result().fetchall()) == rows(oracle.sql(text).fetchall()), text
        shared += sum(map(shares, jobs))
    assert shared > 8


def _drawn(chance: random.Random) -> str:
    joined = chance.sample([ITEMS, SHOPS], chance.randrange(3))
    keys = ["month", "amount", *(["kind"] if ITEMS in joined else []), *(["town"] if SHOPS in joined else [])]
    grouped = chance.sample(keys, chance.randint(0, 2))
    values = chance.sample(
        ("sum(price)", "avg(price)", "count(*)", "count(DISTINCT amount)", "max(amount)", "bool_or(amount > 5)"), 2
    )
    limits = chance.sample(("price < 500", "amount IN (1, 2)", "is_open", "customer <> 3 OR amount IS NULL"), 1)
    where = ["day = day_key", *(on for _, on in joined), *limits, *(["month < 3"] if chance.random() < 0.7 else [])]
    tables = ", ".join(("sales", "days", *(name for name, _ in joined)))
    by = f" GROUP BY {', '.join(grouped)}" if grouped else ""
    return f"SELECT {', '.join((*grouped, *values))} FROM {tables} WHERE {' AND '.join(where)}{by}"


def test_a_changed_table_is_read_again(session, oracle, tmp_path):
    before = [job.result().fetchall() for job in session.submit_many(TILES[:4])]
    oracle.execute("UPDATE sales SET price = price + 1 WHERE day = 1")
    pq.write_table(oracle.sql("FROM sales").to_arrow_table(), tmp_path / "sales.parquet")
    after = [job.result().fetchall() for job in session.submit_many(TILES[:4])]
    assert [rows(one) for one in after] == [rows(oracle.sql(text).fetchall()) for text in TILES[:4]]
    assert all(rows(one) != rows(other) for one, other in zip(before, after, strict=True))


def test_the_first_query_starts_before_the_others_are_planned(session):
    seen: list[Job] = []
    jobs = session.submit_many(TILES[:4], watch=seen.append)
    assert seen[0] is jobs[0] and set(seen) == set(jobs) and not shares(jobs[0])
    assert any(isinstance(record, Started) for record in jobs[0].history())


def test_a_query_at_fault_is_reported_and_the_others_are_cancelled(session):
    seen: list[Job] = []
    with pytest.raises(BindError, match="nothing_like_it"):
        session.submit_many([*TILES[:3], "SELECT nothing_like_it FROM sales"], watch=seen.append)
    for job in seen:
        job.wait()
    assert seen


def test_a_job_that_waits_for_another_can_be_cancelled(session):
    session.resize(slots=0)
    planned = session.planning.plan(TILES[0])
    first = session.start(planned)
    waiting = session.start(planned, after=first._handle)
    waiting.cancel()
    with pytest.raises(Cancelled):
        waiting.result(60.0)
    assert waiting.state == "CANCELLED" and not first.wait(0.0)
    session.resize(slots=2)
    assert first.result().fetchall()


def test_nothing_is_shared_without_outputs_of_others(session):
    jobs = session.submit_many(TILES[:4], resume=False)
    assert not any(map(shares, jobs)) and all(job.result().fetchall() for job in jobs)
