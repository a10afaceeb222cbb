"""Statistics of two parts of a table are about those of the whole."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from qoop.catalog.catalog import Catalog
from qoop.catalog.statistics.merging import merged
from qoop.catalog.statistics.stats import BLOCKS, ColumnStats, TableStats

ROWS = 120_000
COLUMNS = """
    i AS id, i // 100 AS day, i * 7919 % 1000 AS even, (CASE WHEN i % 3 = 0 THEN 7 ELSE i * 7907 % 5000 END) AS skewed,
    CASE WHEN i * 31 % 10 < 4 THEN 'often' ELSE 'v' || (i * 7919 % 700) END AS name, i % 5 AS few,
    CASE WHEN i % 4 = 0 THEN NULL ELSE (i * 104729 % 1000003)::DOUBLE END AS measure, NULL::INTEGER AS none
"""


def collected(tmp_path: Path, first: int, last: int) -> TableStats:
    """Of the rows from one number to another, read by themselves."""
    path = tmp_path / f"{first}_{last}.parquet"
    duckdb.sql(f"SELECT {COLUMNS} FROM range({first}, {last}) r(i)").write_parquet(str(path))
    with Catalog(tmp_path / f"cache{first}_{last}") as catalog:
        catalog.register("t", path)
        return catalog.stats("t")


@pytest.mark.parametrize("border", [30_000, 60_000, 110_000])
def test_two_parts_are_about_the_whole(tmp_path: Path, border: int) -> None:
    parts = collected(tmp_path, 0, border), collected(tmp_path, border, ROWS)
    found, whole = merged(*parts), collected(tmp_path, 0, ROWS)
    assert (found.rows, found.keys) == (whole.rows, whole.keys) and found.keys >= {frozenset({"id"})}
    assert found.bytes == pytest.approx(whole.bytes, rel=0.02)
    for name, truth in whole.columns.items():
        one = found.columns[name]
        assert (one.minimum, one.maximum, one.nulls) == (truth.minimum, truth.maximum, truth.nulls), name
        assert one.distinct == pytest.approx(truth.distinct, rel=0.06), name
        assert one.width == pytest.approx(truth.width, rel=0.02), name
        assert one.locality == pytest.approx(truth.locality, abs=0.2), name
        for value, part in truth.common[:1]:
            assert dict(one.common).get(value, 0.0) == pytest.approx(part, abs=0.01), name


def test_histograms_are_put_together(tmp_path: Path) -> None:
    found = merged(collected(tmp_path, 0, 40_000), collected(tmp_path, 40_000, ROWS)).columns["measure"]
    bounds = [bound for bound in found.bounds if isinstance(bound, float)]
    assert bounds == sorted(bounds) and bounds[0] == found.minimum and bounds[-1] == found.maximum
    step = 1_000_003 / (len(bounds) - 1)
    assert all(abs(bound - place * step) < 0.03 * 1_000_003 for place, bound in enumerate(bounds))


def test_what_came_behind_adds_its_values_and_sorts_on() -> None:
    def column(low: float, high: float) -> TableStats:
        return TableStats(1000.0, 8000.0, {"x": ColumnStats(0.0, 100.0, low, high, locality=1 / BLOCKS)})

    apart = merged(column(0.0, 99.0), column(100.0, 199.0)).columns["x"]
    again = merged(column(0.0, 99.0), column(0.0, 99.0)).columns["x"]
    assert (apart.distinct, apart.minimum, apart.maximum, apart.locality) == (200.0, 0.0, 199.0, 1 / BLOCKS)
    assert again.distinct == pytest.approx(100.0, rel=0.01)
    assert all(isinstance(bound, float) for bound in apart.bounds) and len(apart.bounds) == 65


def test_a_key_goes_on_unless_rows_are_alike() -> None:
    def rows(distinct: float, keys: frozenset[frozenset[str]], guessed: frozenset[str] = frozenset()) -> TableStats:
        columns = {name: ColumnStats(0.0, distinct, 0.0, 9.0) for name in "ab"}
        return TableStats(100.0, 1600.0, columns, keys, guessed)

    both, one = frozenset({frozenset("ab")}), frozenset({frozenset("a")})
    assert merged(rows(50.0, both), rows(50.0, both)).keys == both
    assert merged(rows(50.0, both), rows(50.0, frozenset())).keys == frozenset()
    assert merged(rows(50.0, both), rows(50.0, frozenset(), frozenset("ab"))).keys == both  # footers cannot know
    assert merged(rows(100.0, one), rows(60.0, frozenset(), frozenset("ab"))).keys == frozenset()


def test_a_part_without_values_changes_shares_alone() -> None:
    some = TableStats(100.0, 800.0, {"x": ColumnStats(0.0, 2.0, 1.0, 2.0, ((1.0, 0.6), (2.0, 0.4)))})
    none = TableStats(100.0, 800.0, {"x": ColumnStats(100.0, 0.0)})
    for found in (merged(some, none).columns["x"], merged(none, some).columns["x"]):
        assert (found.nulls, found.distinct, found.common) == (100.0, 2.0, ((1.0, 0.3), (2.0, 0.2)))
