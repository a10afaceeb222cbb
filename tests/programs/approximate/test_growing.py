"""Answers that grow, through the session: what is eligible, how they end, what they are never taken for."""

from __future__ import annotations

import asyncio
import math
import threading
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyte
import pytest

import qoop
from qoop.catalog.errors import Cancelled, ConfigError, QueryError
from qoop.interfaces.repl.growing_table import GrowingTable
from qoop.programs.approximate.intervals import Intervals, aimed, enough_at
from qoop.programs.approximate.schedule import schedule
from qoop.programs.approximate.target import Target
from qoop.query.drawing.terminal import Terminal

ROWS = 600_000
SALES = """SELECT shop, count(*) AS n, sum(price) AS income, avg(price) AS mean, sum(price) / sum(amount) AS ratio,
             count(note) FILTER (amount > 2) AS noted, max(price) AS dearest
           FROM sales JOIN shops USING (id) WHERE amount < 9 GROUP BY shop ORDER BY shop"""


@pytest.fixture(scope="module")
def data() -> dict[str, pa.Table]:
    rng = np.random.default_rng(1)
    sales = pa.table({
        "id": rng.integers(0, 6, ROWS),
        "price": pa.array(np.round(rng.gamma(2.0, 10.0, ROWS), 2)).cast(pa.decimal128(9, 2)),
        "amount": rng.integers(1, 10, ROWS),
        "note": pa.array(np.where(rng.random(ROWS) < 0.2, "x", None)),
        "day": np.sort(rng.integers(0, 100, ROWS)),
    })  # fmt: skip
    return {"sales": sales, "shops": pa.table({"id": range(6), "shop": ["a", "b", "c", "a", "b", "c"]})}


@pytest.fixture(scope="module")
def session(data):
    with qoop.connect(slots=2) as opened:
        for name, table in data.items():
            opened.register(name, table)
        yield opened


def exact(data: dict[str, pa.Table], text: str) -> list[tuple]:
    with duckdb.connect() as connection:
        for name, table in data.items():
            connection.register(name, table)
        return connection.execute(text).fetchall()


def without_bounds(result: qoop.Result) -> list[tuple]:
    kept = [place for place, name in enumerate(result.columns)
            if not name.endswith(("_low", "_high")) and name != "share_read"]  # fmt: skip
    return [tuple(row[place] for place in kept) for row in result.fetchall()]


def assert_alike(found: list[tuple], wanted: list[tuple]) -> None:
    assert wanted and len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert math.isclose(a, b, rel_tol=1e-12) if isinstance(b, float) else a == b


def test_the_last_edition_is_the_exact_answer(session, data):
    editions = list(session.approximate(SALES, error=0).editions())
    assert [edition.exact for edition in editions] == [False] * (len(editions) - 1) + [True]
    assert len(editions) > 2 and editions[-1].share == 1.0 and editions[-1].error == 0.0
    assert_alike(without_bounds(editions[-1].result), exact(data, SALES))
    assert editions[0].result.columns[:4] == ["shop", "n", "n_low", "n_high"]
    plain = session.sql(SALES)
    types = dict(zip(editions[-1].result.columns, editions[-1].result.types, strict=True))
    assert [types[name] for name in plain.columns] == plain.types


def test_intervals_hold_the_truth_and_shrink(session, data):
    truth = {row[0]: row for row in exact(data, SALES)}
    widths = []
    for edition in session.approximate(SALES, error=0, confidence=0.999, seed=1).editions():
        rows = edition.result.arrow().to_pylist()
        assert len(rows) == 3 and all(row["share_read"] == edition.share for row in rows)
        for row in rows:
            for place, name in enumerate(("n", "income", "mean", "ratio"), 1):
                if row[f"{name}_low"] is not None:
                    true, slack = float(truth[row["shop"]][place]), 1e-9 * row[f"{name}_high"]
                    assert row[f"{name}_low"] - slack <= true <= row[f"{name}_high"] + slack
            assert edition.exact or row["dearest_low"] is None
        widths.append(rows[0]["income_high"] - rows[0]["income_low"])
    assert widths[0] > widths[1] > widths[-1] == 0.0


SPREADS = """SELECT shop, stddev(price) AS dev, var_samp(amount) AS var, stddev_pop(price) FILTER (amount > 3) AS few,
             var_pop(CASE WHEN note IS NULL THEN amount END) AS noted, 2 * stddev_samp(amount) AS twice,
             stddev_samp(price) / avg(price) AS cov
           FROM sales JOIN shops USING (id) GROUP BY shop ORDER BY shop"""


def test_variances_and_deviations_have_intervals_and_end_exact(session, data):
    truth = exact(data, SPREADS)
    first, *_, last = session.approximate(SPREADS, error=0, seed=1, confidence=0.999).editions()
    for mine, theirs in zip(without_bounds(last.result), truth, strict=True):
        assert mine[0] == theirs[0] and mine[1:] == pytest.approx(theirs[1:], rel=1e-9)
    for row, right in zip(first.result.arrow().to_pylist(), truth, strict=True):
        for place, name in enumerate(("dev", "var", "few", "noted", "twice"), 1):
            assert row[f"{name}_low"] < right[place] < row[f"{name}_high"] < 1.3 * right[place]
            assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
        assert row["cov"] == pytest.approx(right[6], rel=0.2) and row["cov_low"] is None
    *_, early = session.approximate("SELECT stddev(price) AS s FROM sales", error=0.05, seed=1).editions()
    assert not early.exact and early.error <= 0.05
    one = "SELECT id, var_samp(price) AS v FROM sales WHERE price = 10 GROUP BY id ORDER BY id"
    assert session.approximate(one, error=0).result().fetchall() == exact(data, one), "of equal values it is nothing"


FAR = "(1700000000 + amount)::DOUBLE"
"""Seconds since 1970: their squares have no digit left for how they differ."""

NOTHING = "CASE WHEN id > 9 THEN price END"


@pytest.mark.parametrize("text", [
    f"SELECT stddev({FAR}) AS dev, var_pop({FAR}) AS var FROM sales",
    f"SELECT id % 2 AS id, stddev({NOTHING}) AS dev, variance({NOTHING}) AS var FROM sales GROUP BY 1 ORDER BY 1",
    f"SELECT sum({NOTHING}) - sum(price) AS less, sum({NOTHING}) / sum(price) AS part FROM sales",
])  # fmt: skip
def test_what_sums_cannot_say_has_no_estimate_and_no_interval(session, data, text):
    *early, last = session.approximate(text, error=0.05, seed=1).editions()
    rows = [row for edition in early for row in edition.result.arrow().to_pylist()]
    assert rows and all(row[name] is None for row in rows for name in row if name not in ("id", "share_read"))
    assert last.exact
    for mine, theirs in zip(without_bounds(last.result), exact(data, text), strict=True):
        for one, other in zip(mine, theirs, strict=True):  # DuckDB sums seconds in another order each time
            assert one == other or one == pytest.approx(other, rel=1e-6)


VALUES = """SELECT id, count(DISTINCT price) AS prices, median(price) AS mid, quantile_disc(amount, 0.9) AS most,
              quantile_cont(price, 0.25) FILTER (amount > 3) AS low, count(DISTINCT amount) AS amounts,
              count(DISTINCT price) / count(*) AS part, count(DISTINCT note) AS notes, sum(price) AS s
            FROM sales WHERE id < 3 GROUP BY id ORDER BY id"""


def test_distinct_counts_and_quantiles_have_intervals_and_end_exact(session, data):
    truth = exact(data, VALUES)
    first, *_, last = session.approximate(VALUES, error=0, seed=1, confidence=0.999).editions()
    assert_alike(without_bounds(last.result), truth)
    for row, right in zip(first.result.arrow().to_pylist(), truth, strict=True):
        for place, name in enumerate(("prices", "mid", "most", "low"), 1):
            assert row[f"{name}_low"] <= right[place] <= row[f"{name}_high"] and row[f"{name}_low"] > 0
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
        assert row["prices_low"] < right[1] < row["prices_high"] and row["mid_high"] < 1.2 * float(right[2])
        assert row["amounts"] == 9 and row["amounts_low"] is None, "each was seen in many pieces"
        assert 0 < row["part"] < 1 and row["part_low"] is None and row["notes"] == 1
    text = "SELECT median(price) AS m FROM sales"
    [(_, told)] = session.sql(f"EXPLAIN APPROXIMATE {VALUES}").fetchall()
    assert "The interval of prices, amounts, notes begins" in told
    assert "Without intervals, computed from estimates: part." in told
    with qoop.connect(slots=1, memory="1GB") as other:
        other.register("sales", data["sales"])
        answer = other.approximate(text, error=0.03)
        assert not answer.last().exact and answer.last().error <= 0.03
        other.register("sales", data["sales"].slice(0, 9))  # the answer still is of the table as it was
        assert answer.result().fetchall() == exact(data, text)
    nothing = "SELECT count(DISTINCT price) AS d, median(price) AS m FROM sales WHERE amount > 99"
    answer = session.approximate(nothing, error=0)
    assert next(answer.editions()).result.fetchall()[0][:3] == (0, None, None)
    assert answer.result().fetchall() == [(0, None)]


def test_what_would_be_exact_at_once_is(session, data):
    text = "SELECT id, sum(price) AS s FROM sales GROUP BY id ORDER BY id"
    try:
        session.sql("SET exact_within = 60")
        [edition] = session.approximate(text, error=0.5).editions()
        assert edition.exact and "(exact_within)" in edition.reason
        assert "grows from 60 s on" in session.sql(f"EXPLAIN APPROXIMATE {text}").fetchall()[0][1]
        with pytest.raises(ConfigError, match="exact_within"):
            session.set("exact_within", -1)
    finally:
        session.sql("RESET exact_within")
    assert not session.approximate(text, error=0.5).last().exact


@pytest.mark.parametrize("text, error, reason", [
    ("SELECT note, price, amount, sum(id) AS s FROM sales WHERE day < 4 GROUP BY ALL", 0, "too few for an interval"),
    ("SELECT amount, sum(price) AS s FROM sales GROUP BY amount", 0.0001, "too few to be within 0.0%"),
    ("SELECT amount, sum(price) AS s FROM sales GROUP BY amount", 0.05, ""),
    ("SELECT min(price) AS s FROM sales GROUP BY price, day", 0.05, ""),
    ("SELECT sum(price) AS s FROM sales WHERE day = 3", 0.05, ""),
])  # fmt: skip
def test_what_statistics_know_to_be_in_vain_is_exact_at_once(session, data, text, error, reason):
    try:
        session.set("exact_within", 1e-9)
        session.set("error_goal", error)
        first = next(session.approximate(text, seed=1).editions())
        [(_, told)] = session.sql(f"EXPLAIN APPROXIMATE {text}").fetchall()
        assert (reason in first.reason and reason in told) if reason else not first.reason
        if reason:
            assert sorted(map(str, without_bounds(first.result))) == sorted(map(str, exact(data, text)))
    finally:
        session.sql("RESET exact_within; RESET error_goal")


def test_row_groups_are_the_pieces_of_a_table_that_has_many(data, tmp_path):
    """There is one interim edition, and then the exact answer, where none would meet the target."""
    (tmp_path / "sales").mkdir()
    for number in range(3):
        rows = data["sales"].slice(number * 200_000, 200_000)
        pq.write_table(rows, tmp_path / "sales" / f"{number}.parquet", row_group_size=5_000)
    text = "SELECT id, count(*) AS n, sum(price) AS s, median(amount) AS m FROM sales GROUP BY id ORDER BY id"
    summed = text.replace(", median(amount) AS m", "")
    with qoop.connect(slots=1, memory="1GB") as session:
        session.register_folder(tmp_path)
        [(_, told)] = session.sql(f"EXPLAIN APPROXIMATE {summed}").fetchall()
        assert "120 row groups" in told and "20, 40, 60, 120 of them" in told
        assert "The last round reads the row groups that are left, or is the query itself if that takes less." in told
        for one, error, first in ((text, 0, 16), (summed, 0.0001, 20)):
            grown = list(session.approximate(one, error=error, seed=1).editions())
            assert len(grown) == 2 and grown[0].share == first / 120
            assert_alike(without_bounds(grown[-1].result), exact(data, one))
        met = session.approximate(summed, error=0.2, seed=3)
        assert met.last().share < 1
        assert_alike(met.result().fetchall(), exact(data, summed))


def test_it_stops_at_the_bound_and_says_what_was_read(session):
    *_, last = session.approximate("SELECT sum(amount) AS s FROM sales", error=0.02, seed=1).editions()
    assert not last.exact and 0 < last.share < 1 and last.error <= 0.02
    [(total, low, high, share)] = last.result.fetchall()
    assert low < total < high and share == last.share and (high - low) / 2 / total <= 0.02


def test_sorted_pieces_are_clusters(session):
    """All rows of a day lie together: nothing is known of a day from few pieces, and nothing is claimed."""
    text = "SELECT day, count(*) AS n FROM sales GROUP BY day"
    first = next(session.approximate(text, error=0.05, seed=1).editions())
    assert first.groups < 100 and first.unseen > 0 and first.error is None
    assert "other groups" in str(first)
    *_, last = session.approximate(text, error=0.05, seed=1).editions()
    assert last.exact and last.groups == 100 and last.unseen == 0.0


def test_pieces_of_files_and_of_duckdb_files(data, tmp_path):
    """Row groups do not matter, nor does how many files there are."""
    (tmp_path / "sales").mkdir()
    pq.write_table(data["sales"].slice(0, 300_000), tmp_path / "sales" / "1.parquet", row_group_size=99_999)
    pq.write_table(data["sales"].slice(300_000), tmp_path / "sales" / "2.parquet")
    with duckdb.connect(str(tmp_path / "sales.db")) as connection:
        connection.register("given", data["sales"])
        connection.execute("CREATE TABLE sales AS FROM given")
    text = "SELECT id, count(*) AS n, sum(price) AS s FROM sales WHERE day < 90 GROUP BY id ORDER BY id"
    for register in ("folder", "database"):
        with qoop.connect(slots=1) as session:
            session.register_folder(tmp_path) if register == "folder" else session.register_database(
                tmp_path / "sales.db"
            )
            editions = list(session.approximate(text, error=0).editions())
            assert len(editions) > 2 and not editions[0].exact
            assert_alike(without_bounds(editions[-1].result), exact(data, text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT sum(DISTINCT amount) FROM sales", "DISTINCT"),
        ("SELECT count(DISTINCT (amount, id)), mode(amount) FROM sales", "cannot be estimated"),
        ("SELECT quantile_disc(note, 0.5) FROM sales", "is no number"),
        ("SELECT price FROM sales LIMIT 1", "no aggregates"),
        ("SELECT sum(amount) OVER () FROM sales LIMIT 1", "no aggregates"),
        ("SELECT shop, count(*) FROM shops LEFT JOIN sales USING (id) GROUP BY shop", "other side of a LEFT JOIN"),
        ("SELECT count(*) FROM (SELECT DISTINCT day FROM sales)", "names no table"),
        ("SELECT shop, count(*) FROM shops GROUP BY shop", "has only 6 rows"),
        ("SELECT sum(amount * random()) FROM sales", "from run to run"),
        ("SELECT avg(TIMESTAMP '2020-01-01' + to_days(day::INTEGER)) FROM sales", "taken apart"),
        ("SELECT sum(amount) > (SELECT max(id) FROM shops) FROM sales", "cannot be estimated"),
    ],
)  # fmt: skip
def test_what_cannot_grow_runs_exactly_and_says_why(session, data, text, reason):
    if "random" not in text:
        [edition] = session.approximate(text).editions()
        assert edition.exact and reason in edition.reason and edition.share == 1.0
        assert [row[:-1] for row in edition.result.fetchall()] == session.sql(text).fetchall()
    [(key, why)] = session.sql(f"EXPLAIN APPROXIMATE {text}").fetchall()
    assert key == "growth" and reason in why


def test_having_order_and_limit_are_of_estimates(session, data):
    text = """SELECT s.id AS i, sum(price) AS s FROM sales s, shops
              WHERE s.id = shops.id AND day IN (SELECT * FROM range(90))
              GROUP BY ALL HAVING sum(amount) > 10 ORDER BY 2 DESC LIMIT 4"""
    editions = list(session.approximate(text, error=0).editions())
    assert [len(one.result) for one in editions] == [4] * len(editions)
    assert "estimates" in editions[0].notes[0] and not editions[-1].notes
    assert_alike(without_bounds(editions[-1].result), exact(data, text))


def test_no_group_and_nothing_found(session, data):
    text = "SELECT count(*) AS n, sum(price) AS s, avg(price) AS a, min(day) AS first FROM sales WHERE amount > 99"
    editions = list(session.approximate(text, error=0.1).editions())
    assert editions[-1].exact and without_bounds(editions[-1].result) == [(0, None, None, None)] == exact(data, text)
    assert editions[0].result.fetchall()[0][:3] == (0, None, None)


def test_the_statement(session):
    result = session.sql("APPROXIMATE WITHIN 2 PERCENT CONFIDENCE 90 SELECT sum(amount) AS s FROM sales")
    assert result.columns == ["s", "s_low", "s_high", "share_read"] and result.fetchall()[0][3] < 1
    assert "Each round" in session.sql("EXPLAIN APPROXIMATE SELECT sum(amount) FROM sales").fetchall()[0][1]
    for wrong in ("WITHIN 2", "WITHIN x PERCENT", "CONFIDENCE 100", "WITHIN 0 PERCENT"):
        with pytest.raises(QueryError):
            session.sql(f"APPROXIMATE {wrong} SELECT sum(amount) FROM sales")
    for error, confidence in ((-0.1, 0.9), (2, 0.9), (0.1, 1.0), (0.1, 95)):
        with pytest.raises(ConfigError):
            session.approximate("SELECT sum(amount) FROM sales", error, confidence)


def test_stopped(session):
    answer = session.approximate("SELECT sum(amount) AS s FROM sales", error=0)
    first = next(answer.editions())
    assert answer.stop() is first and list(answer.editions()) == [first]
    assert answer.last() is first
    hasty = session.approximate("SELECT sum(price) AS s FROM sales", error=0)
    hasty.stop()
    for taken in (hasty.last, hasty.result):
        with pytest.raises(Cancelled):
            taken()


def test_several_threads_see_the_same_editions(session):
    answer, seen = session.approximate(SALES, error=0), []
    threads = [threading.Thread(target=lambda: seen.append(list(answer.editions()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 3 and seen[0] == seen[1] == seen[2] and len(seen[0]) > 2


def test_the_exact_query_takes_nothing_of_an_approximation(data, tmp_path):
    """And an answer that was begun before, in another process, takes over its rounds."""
    text = "SELECT id, sum(price) AS s FROM sales GROUP BY id ORDER BY id"
    pq.write_table(data["sales"], tmp_path / "sales.parquet")
    reads = []
    for _ in range(2):
        with qoop.connect(slots=2, checkpoints=tmp_path / "kept", reuse=True) as session:
            session.register("sales", tmp_path / "sales.parquet")
            answer = session.approximate(text, error=0)
            first = next(answer.editions())
            answer.stop()
            reads.append(sum(report.tasks for report in answer.jobs[0].stage_reports()))
            assert not first.exact and session.sql(text).fetchall() == exact(data, text)
    assert reads == [1, 0]


def test_an_approximate_query_has_editions_and_then_the_exact_answer(session, data):
    """The exact answer takes over all that was read for the target, and who awaits it holds up nobody."""
    text = "SELECT id, sum(amount) AS s, avg(price) AS a FROM sales GROUP BY id ORDER BY id"
    answer = session.approximate(text, error=0.05, confidence=0.9)
    assert not answer.last().exact and answer.last() is list(answer.editions())[-1]
    rounds = len(answer.jobs)
    found = answer.result()
    assert_alike(found.fetchall(), exact(data, text))
    assert (found.columns, found.types) == (lambda plain: (plain.columns, plain.types))(session.sql(text))
    assert len(answer.jobs) == rounds + 1 and list(answer.editions())[-1].exact
    assert sum(job.result().arrow().num_rows > 0 for job in answer.jobs) == rounds + 1

    async def shown() -> list[bool]:
        growing = session.approximate(text, error=0.05)
        seen = [edition.exact async for edition in growing.editions()]
        assert_alike((await growing).fetchall(), exact(data, text))
        one = session.approximate("SELECT DISTINCT count(id) FROM sales")
        assert (await one).fetchall() == [(ROWS,)] and [edition.exact async for edition in one.editions()] == [True]
        return seen

    assert asyncio.run(shown()) == [False] * len(list(answer.editions())[:-1])


def test_the_session_has_a_goal(session):
    text = "APPROXIMATE SELECT sum(price) AS s FROM sales WHERE id = 1"
    [usual] = session.sql(text).fetchall()
    try:
        session.sql("SET error_goal = 0.1; SET confidence = 0.9")
        [loose] = session.sql(text).fetchall()
        session.sql("SET error_goal = 0")
        [full] = session.sql(text).fetchall()
        for name, value in (("error_goal", 1), ("error_goal", "x"), ("confidence", 0.2), ("confidence", 95)):
            with pytest.raises(ConfigError, match=name):
                session.set(name, value)
    finally:
        session.sql("RESET error_goal; RESET confidence")
    assert loose[3] < usual[3] <= full[3] == 1.0


@pytest.mark.parametrize("columns", [80, 160])
def test_the_growing_table_takes_its_own_place_on_the_screen(session, columns):
    screen = pyte.Screen(columns, 40)
    stream = pyte.Stream(screen)
    table = GrowingTable(
        lambda text: stream.feed(f"{text}\n".replace("\n", "\r\n")), lambda: Terminal(columns, 40, True)
    )
    stream.feed("qoop> \\approx\r\n")
    for edition in session.approximate(SALES, error=0).editions():
        table.show(edition)
        shown = [line.rstrip() for line in screen.display if line.strip()]
        assert shown[0] == "qoop> \\approx" and max(map(len, shown)) <= columns
        assert sum("read, 3 groups" in line for line in shown) == (0 if edition.exact else 1)
        assert edition.exact or "±" in "".join(shown)
    assert shown == ["qoop> \\approx", "exact, 3 groups"]
    table.clear()
    assert [line.rstrip() for line in screen.display if line.strip()] == ["qoop> \\approx"]


def test_an_answer_ends_early_for_others_only_where_that_is_permitted_and_they_would_wait() -> None:
    rng = np.random.default_rng(5)
    sales = pa.table({"shop": rng.choice(["A", "B"], 400_000), "price": rng.integers(0, 100, 400_000)})
    text = "SELECT shop, sum(price) AS income FROM sales GROUP BY shop ORDER BY shop"
    endless = "SELECT count(*) FROM range(100000000000) a, range(100000000000) b"
    with qoop.connect(slots=1, memory="500MB", most_jobs=1) as session:
        session.register("sales", sales)
        exact = session.sql(text).fetchall()
        alone = session.approximate(text, error=0.2, if_busy=True).last()
        assert alone.exact and "had to wait" in alone.reason and len(alone.result) == 2
        assert len(session.approximate(text, error=0.2, if_busy=True).jobs) == 1  # no rounds
        first = session.submit(endless, tenant="other")
        answer = session.approximate(text, error=0.2, if_busy=True, tenant="polite", seed=1)
        second = session.submit(endless, tenant="other")
        first.cancel()  # a round is let in now, and the second waits for it
        cut = answer.last()
        assert not cut.exact and cut.share < 0.5 and len(answer.jobs) < 4
        for (shop, income), (name, _, low, high, share) in zip(exact, cut.result.fetchall(), strict=True):
            assert shop == name and low <= income <= high and share == cut.share
        [polite] = [one for one in session.tenants() if one.name == "polite"]
        assert (polite.cut, polite.skipped) == (1, pytest.approx(1 - cut.share))
        second.cancel()
        assert session.sql(f"APPROXIMATE WITHIN 20 PERCENT IF BUSY {text}").fetchall()[0][-1] == 1.0


@pytest.mark.parametrize(
    ("text", "bounded"),
    [
        # itself again, whole, and grouping sets
        ("SELECT count(*) AS n FROM sales a JOIN shops USING (id) WHERE price > (SELECT avg(price) FROM sales)", ["n"]),
        ("""SELECT id, day % 2 AS d, sum(amount) AS s, grouping(id) + grouping(day % 2) AS g FROM sales
            GROUP BY ROLLUP (id, d) ORDER BY 4, 1, 2""", ["s"]),
        # sums of sums, windows over them, and what has no formula
        ("""SELECT id, sum(price) - sum(amount) AS d, (sum(price) + count(*)) / coalesce(sum(amount), 0) AS r,
              sum(amount) * count(*) AS p, sum(price) * 100 / sum(sum(price)) OVER () AS part
            FROM sales GROUP BY id ORDER BY id""", ["d", "r"]),
        # around the sums: HAVING, joins with what is small or exact, sums of sums
        ("""WITH c AS (SELECT id AS i, sum(price) AS s, count(*) AS n FROM sales GROUP BY id),
                 most AS (SELECT max(amount) AS m FROM sales)
            SELECT c.s, shop, n * 2 AS twice FROM c, shops, most WHERE i = id AND n > m ORDER BY c.s DESC LIMIT 5""",
         ["s"]),
        ("SELECT * FROM (SELECT id, sum(price) AS s FROM sales GROUP BY id) x WHERE id > 2 ORDER BY s", ["s"]),
        ("""SELECT id, sum(n) AS total FROM (SELECT id, count(*) AS n FROM sales GROUP BY id UNION ALL
            SELECT id, count(*) FROM shops GROUP BY id) GROUP BY id ORDER BY id""", []),
        ("SELECT count(*) FROM sales UNION ALL SELECT 1", None),
    ],
)  # fmt: skip
def test_more_that_grows_ends_exactly(session, data, text, bounded):
    [(_, told)] = session.sql(f"EXPLAIN APPROXIMATE {text}").fetchall()
    assert ("runs exactly" in told) is (bounded is None)
    assert (f"With intervals: {', '.join(bounded)}." in told) if bounded else "With intervals" not in told
    editions = list(session.approximate(text, error=0, confidence=0.9999).editions())
    if bounded is None:
        assert [one.exact for one in editions] == [True]
        return
    assert len(editions) > 2 and not editions[0].exact
    wanted = [f"{one}_low" for one in bounded]
    guesses = [one.result.df() for one in editions if not one.exact]  # the first may have read too little for bounds
    early, last = next(one for one in guesses if ends(one) == wanted), editions[-1].result.df()
    assert_alike(without_bounds(editions[-1].result), exact(data, text))
    for name in bounded:
        low, high, true = early[f"{name}_low"], early[f"{name}_high"], last[name]
        assert len(low) == len(true) and (low <= true.astype(float)).all() and (true.astype(float) <= high).all()


def ends(rows):
    """The columns of lower ends that have one for every row."""
    return [name for name in rows.columns if name.endswith("_low") and rows[name].notna().all()]


def test_how_sure_a_rank_is_is_said(session):
    text = "SELECT day, sum(price) AS s FROM sales GROUP BY day ORDER BY s DESC LIMIT 3"
    first = next(session.approximate(text, error=0).editions())
    assert any("surely among the first" in note for note in first.notes)


def test_a_query_whose_exact_parts_take_its_time_does_not_grow(session):
    part = "SELECT count(*) AS n, sum(price) AS s FROM sales WHERE amount = {}"
    parts = ", ".join(f"({part.format(at)}) {name}" for at, name in enumerate("abc", 1))
    text = f"SELECT a.s, b.s AS t, c.s AS u FROM {parts}"
    try:
        session.set("exact_within", 1e-9)
        [edition] = session.approximate(text, error=0.05).editions()
        assert edition.exact and "the exact parts around its sums should take" in edition.reason
    finally:
        session.sql("RESET exact_within")
    assert len(list(session.approximate(text, error=0).editions())) > 1


def test_a_part_that_names_a_column_outside_it_is_said_to_run_exactly(session, data):
    text = """SELECT c.id, c.s, l.shop FROM (SELECT id, sum(price) AS s FROM sales GROUP BY id) c,
              (SELECT max(shop) AS shop FROM shops WHERE shops.id = c.id) l ORDER BY c.id"""
    try:
        session.set("exact_within", 1e-9)
        [edition] = session.approximate(text, error=0.05).editions()
        assert edition.exact and "needs more than these" in edition.reason
        assert_alike(without_bounds(edition.result), exact(data, text))
    finally:
        session.sql("RESET exact_within")


def test_the_status_tells_what_is_in_time(session):
    answer = session.approximate(SALES, error=0.0001, deadline=1000.0)
    assert answer.status().goal == 0.0001 and answer.status().deadline < 1000.0
    next(answer.editions())
    told = answer.status()
    assert 0 < told.share < 1 and told.to_goal == told.to_exact > 0, told
    assert told.in_time == "exact" and str(told).endswith("the exact answer is in time")
    answer.result()
    first, *_, last = (job.terms.deadline for job in answer.jobs)
    assert 1000.0 >= first > last, "each round is needed at the moment at which the answer is"
    assert answer.status().share == 1.0 and answer.status().to_exact == 0.0
    late = session.approximate(SALES, error=0.05, deadline=1e-6)
    late.last()
    assert late.status().to_goal == 0.0 < late.status().to_exact and ", exact in " in str(late.status())
    assert "; late by " in str(late.status()) and late.status().in_time == "neither"
    whole = session.approximate("SELECT DISTINCT shop FROM shops")
    whole.last()
    assert whole.status().to_exact == 0.0 and whole.status().deadline is None


def test_the_edition_that_should_meet_the_target_is_predicted():
    plan = schedule(1024, 1)
    assert plan.ends == (64, 128, 256, 512, 1024)
    found = Intervals({}, {}, 0.04, plain=0.04)
    enough = [enough_at(found, plan, 64, Target(error)) for error in (0.035, 0.021, 0.012, 0.011)]
    assert enough == [128, 256, 512, None]
    assert enough_at(replace(found, worst=None, needed=300.0), plan, 64, Target(0.03)) == 512
    assert enough_at(replace(found, worst=None, plain=0.0), plan, 64, Target(0.03)) is None, "there are no intervals"


def test_a_round_ends_where_the_goal_should_be_met():
    plan = schedule(190, 1, in_row_groups=True, several=True)
    assert plan.ends == (31, 62, 95, 190)
    found = Intervals({}, {}, 0.06, plain=0.05)
    assert aimed(found, plan, 31, 1, Target(0.065)).ends == (31, 46, 95, 190), "a little more than √(1/n - 1/N) says"
    assert aimed(found, plan, 31, 1, Target(0.08)).ends == (31, 39, 95, 190), "a quarter more at least"
    assert aimed(replace(found, needed=40.0), plan, 31, 1, Target(0.08)).ends == (31, 46, 95, 190), "for an interval"
    assert aimed(found, plan, 31, 1, Target(0.02)) == plan, "the next edition misses the target"
    assert aimed(found, plan, 31, 1, Target(0.0)) == aimed(replace(found, plain=0.0), plan, 31, 1, Target(0.06)) == plan
    assert aimed(found, plan, 95, 3, Target(0.045)) == plan, "the last round reads all"
