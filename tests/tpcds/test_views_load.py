"""`qoop bench fresh`: views over days that land, each equal to DuckDB's answer; a run that goes on from its results."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import qoop.tpcds.views.load as load
import qoop.tpcds.views.recorded as recorded
from qoop.__main__ import main
from qoop.programs.folder_lock import folder_lock
from qoop.tpcds.views.days import Landing, split
from qoop.tpcds.views.shapes import CHANNELS, shapes
from qoop.tpcds.views.virtual import EQUAL, TURNS, offered, play


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A year of few sales."""
    place = tmp_path / "data"
    place.mkdir()
    dims = {
        "item": "i AS i_item_sk, 'c' || i % 3 AS i_category, 'b' || i % 5 AS i_brand, i % 4 AS i_manufact_id, "
        "'k' || i % 6 AS i_class FROM range(40) t(i)",
        "date_dim": "i AS d_date_sk, 2000 AS d_year, DATE '2000-01-01' + i::INTEGER AS d_date, i % 12 AS d_moy "
        "FROM range(90) t(i)",
        "promotion": "i AS p_promo_sk, i % 2 AS p_channel_email, i % 3 AS p_channel_event FROM range(5) t(i)",
    }
    sales = {
        table: f"i % 20 AS {p}_sold_date_sk, i % 40 AS {p}_item_sk, i % 5 AS {p}_promo_sk, i % 9 AS {p}_quantity, "
        f"(i % 70)::DECIMAL(7, 2) AS {p}_ext_sales_price, (i % 30 - 9)::DECIMAL(7, 2) AS {p}_net_profit "
        "FROM range(900) t(i)"
        for table, p in CHANNELS.items()
    }
    for name, query in (dims | sales).items():
        duckdb.sql(f"SELECT {query}").write_parquet(str(place / f"{name}.parquet"))
    return place


def costs(views: int) -> recorded.RecordedCosts:
    """A refresh takes 10 ms and 1 ms a day, three times as long after replaced days."""
    found = [(days, others, (0.01 + 0.001 * days) * (1 + 2 * others)) for days in range(1, 30) for others in (0, 1)]
    return recorded.RecordedCosts([found] * views, [0.5] * views, [0.002], [0.001], 0.0001, 0.0001)


def test_a_run_goes_on_from_its_results(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["bench", "fresh", "--data", str(data), "--days", str(tmp_path / "days"), "--views", "2"]
    words += ["--seconds", "0.1", "--results", str(tmp_path / "results.json")]
    monkeypatch.setattr(recorded, "record", lambda options: costs(options.views))
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert printed.count("2 incremental, 0 wrong") == 3 and "turns" in printed and "goals of" in printed
    monkeypatch.setattr(load, "play", None)
    assert main(words) == 0 and capsys.readouterr().out == printed
    assert not list((tmp_path / "days").glob("qoop-days-*"))
    assert main([*words, "--load", "0"]) == 1
    with folder_lock(tmp_path / "days"):
        assert main(words) == 1 and "another process" in capsys.readouterr().err


def test_a_refresh_is_compared_with_the_same_change_by_hand(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "fresh", "--data", str(data), "--days", str(tmp_path / "days"), "--by-hand", "1"]
    assert main([*words, "--there", "0.5"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("times that") == printed.count("the same rows") == 3
    assert main([*words, "--there", "1"]) == 1


def test_days_hold_all_sales_and_some_are_late(data: Path, tmp_path: Path) -> None:
    split(data, tmp_path / "days")
    landing = Landing(tmp_path / "days", tmp_path / "live", 1)
    while landing.left:
        landing.land()
    found = duckdb.sql(f"FROM '{tmp_path}/days/store_sales/*/*.parquet'")
    [(rows, late)] = found.aggregate("count(*), count_if(day > ss_sold_date_sk)").fetchall()
    assert rows == 900 and 0 < late < 90 and (tmp_path / "live" / "store_sales").is_dir()


def test_a_hundred_views_are_different_queries() -> None:
    found = shapes(100)
    assert len({one.query for one in found}) == len({one.name for one in found}) == 100


def test_costs_are_recorded_while_days_land(data: Path, tmp_path: Path) -> None:
    found = recorded.record(load.LoadOptions(data, tmp_path / "days", 2, there=0.3), days=24)
    assert all(len(one) > 1 and all(days > 0 < seconds for days, _, seconds in one) for one in found.refreshes)
    assert sum(others for _, others, _ in found.refreshes[0]) > 0 and len(found.full) == 2
    assert len(found.compared) == len(found.unchanged) == 24 and found.again > 0 < found.search


def test_policies_are_compared_over_the_same_costs() -> None:
    known, targets = costs(24), load.goals(24, offered(costs(24)), 0.8)
    found = {policy: play(known, policy, targets, 20.0, 1) for policy in ("max-min", EQUAL, TURNS)}
    assert found["max-min"] == play(known, "max-min", targets, 20.0, 1)
    assert found["max-min"].overdue < min(found[EQUAL].overdue, found[TURNS].overdue) / 3
    assert found["max-min"].busy < 0.95 < found[EQUAL].busy and min(one.refreshes for one in found.values()) > 500
    assert play(known, "max-min", targets, 20.0, 1, burst=True).overdue > found["max-min"].overdue


def test_the_command_compares_policies_on_a_virtual_clock(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["bench", "fresh", "--data", str(data), "--days", str(tmp_path / "days"), "--views", "2"]
    monkeypatch.setattr(recorded, "record", lambda options: costs(options.views))
    assert main([*words, "--seconds", "2", "--virtual", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("overdue (") == 8 and "7.5% of a full one" in printed
    assert main([*words, "--virtual", "-1"]) == 1
