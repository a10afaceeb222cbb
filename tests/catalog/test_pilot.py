"""A pilot of a few row groups tells how values are spread, of the columns and for the time that it is asked for."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from qoop.catalog.catalog import Catalog
from qoop.catalog.statistics import pilot

ROWS = 400_000
COLUMNS = """
    i AS id, (CASE WHEN i * 7907 % 1000 < 900 THEN i % 10 ELSE i * 7907 % 1000 END)::INTEGER AS skewed,
    i // 100 AS sorted, CASE WHEN i * 7919 % 1000 < 500 THEN 'often' ELSE 'v' || i * 7919 % 900 END AS name
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("pilot")
    rows = duckdb.sql(f"SELECT {COLUMNS} FROM range({ROWS}) r(i)")
    rows.write_parquet(str(folder / "large.parquet"), row_group_size=20_480)
    rows.limit(1_000).write_parquet(str(folder / "small.parquet"))
    return folder


@pytest.fixture
def catalog(folder: Path, tmp_path: Path) -> Catalog:
    return Catalog.from_folder(folder, tmp_path)


def test_what_few_row_groups_show_stands_for_all(catalog: Catalog) -> None:
    before = catalog.known_stats("large", ["skewed", "name"])
    assert catalog.run_pilots({"large": ["skewed", "name"]}, 1.0) == ["large"]
    after = catalog.known_stats("large", ["skewed", "name"])
    assert after.guessed == frozenset() and catalog.collected("large") == {"skewed", "name"}
    assert dict(after.columns["name"].common)["often"] == pytest.approx(0.5, abs=0.02)
    assert sum(part for value, part in after.columns["skewed"].common if value < 10) == pytest.approx(0.9, abs=0.03)
    for name in ("skewed", "name"):
        old, new = before.columns[name], after.columns[name]
        assert (new.minimum, new.maximum, new.distinct) == (old.minimum, old.maximum, old.distinct)
    assert catalog.stats("large", ["name"]).columns["name"].distinct == pytest.approx(
        901, rel=0.2
    )  # collected all the same if asked for


def test_a_column_whose_row_groups_differ_is_left_out(catalog: Catalog) -> None:
    assert catalog.run_pilots({"large": ["sorted", "id"]}, 1.0) == []
    assert catalog.known_stats("large", ["sorted"]).guessed >= {"sorted"}
    assert catalog.run_pilots({"large": ["sorted", "skewed"]}, 1.0) == ["large"]
    assert catalog.collected("large") == {"skewed"}


def test_a_small_table_is_read_whole_and_first(catalog: Catalog) -> None:
    wanted = {"large": ["skewed"], "small": ["id", "skewed"]}
    just = pilot.pilot_seconds(catalog.table("small"), 2)
    assert catalog.run_pilots(wanted, just * 0.9) == []
    assert catalog.run_pilots(wanted, just * 1.1) == ["small"]
    found = catalog.known_stats("small", ["id", "skewed"])
    exact = catalog.stats("small", ["id", "skewed"])
    assert found.columns == exact.columns and found.keys == exact.keys == {frozenset({"id"})}


def test_a_pilot_is_kept_for_other_processes_and_not_run_again(
    catalog: Catalog, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.run_pilots({"large": ["skewed"]}, 1.0)
    known = catalog.known_stats("large", ["skewed"])
    monkeypatch.setattr(pilot, "pilot", None)
    with Catalog.from_folder(folder, tmp_path) as other:
        assert other.known_stats("large", ["skewed"]) == known
        assert other.run_pilots({"large": ["skewed"]}, 1.0) == []


def test_what_was_collected_from_all_rows_wins(catalog: Catalog) -> None:
    catalog.run_pilots({"large": ["skewed", "name"]}, 1.0)
    collected = catalog.stats("large", ["skewed"])
    both = catalog.known_stats("large", ["skewed", "name", "id"])
    assert both.columns["skewed"] == collected.columns["skewed"] and both.guessed >= {"id"}
