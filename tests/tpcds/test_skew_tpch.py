"""Skewed TPC-H: keys by Zipf that go with dates, suppliers of `partsupp`, and otherwise what the plain data are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as parquet
import pytest

from qoop.tpcds import data
from qoop.tpcds.data import generate
from qoop.tpcds.skew import Skew

ZIPF = Skew(1.0, seed=3)
SIZES = {"customer": 1500, "part": 2000}  # at scale 0.01


@pytest.fixture(scope="module")
def plain(benchmark_data: Callable[[str, float], Path]) -> Path:
    return benchmark_data("tpch", 0.01)


@pytest.fixture(scope="module")
def skewed(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(plain, tmp_path_factory.mktemp("skewed"), ZIPF)


def made(plain: Path, folder: Path, skew: Skew) -> Path:
    """Made of plain data that are there, which saves making them."""
    (folder / data._PLAIN).symlink_to(plain)
    generate(0.01, folder, suite="tpch", skew=skew)
    (folder / data._PLAIN).unlink()
    return folder


@pytest.fixture(scope="module")
def both(skewed: Path, plain: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """All skewed tables, and lineitem and orders of the plain data in a schema of that name."""
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA plain")
        for name in ("customer", "part", "partsupp", "orders", "lineitem"):
            files = f"{name}/*.parquet" if (skewed / name).is_dir() else f"{name}.parquet"
            connection.execute(f"CREATE VIEW {name} AS FROM '{skewed}/{files}'")
        for name in ("orders", "lineitem"):
            connection.execute(f"CREATE VIEW plain.{name} AS FROM '{plain}/{name}/*.parquet'")
        yield connection


@pytest.mark.parametrize(
    ("table", "key", "dimension"), [("orders", "o_custkey", "customer"), ("lineitem", "l_partkey", "part")]
)
def test_keys_are_as_frequent_as_zipf_says(
    both: duckdb.DuckDBPyConnection, table: str, key: str, dimension: str
) -> None:
    counted = f"SELECT count(*) / sum(count(*)) OVER () FROM {table} GROUP BY {key} ORDER BY 1 DESC"
    found = [share for (share,) in both.execute(counted).fetchall()]
    size = SIZES[dimension]
    for first in (1, 10, 100):
        assert sum(found[:first]) == pytest.approx(ZIPF.share(first, size), rel=0.1, abs=0.01)


@pytest.mark.parametrize(
    ("table", "key", "dimension", "date"),
    [("orders", "o_custkey", "c_nationkey", "o_orderdate"), ("lineitem", "l_partkey", "p_brand", "l_shipdate")],
)
def test_the_frequent_values_of_a_quarter_of_the_year_are_its_own(
    both: duckdb.DuckDBPyConnection, table: str, key: str, dimension: str, date: str
) -> None:
    """In plain data the most frequent one of 25 has about 4 to 6 % in each quarter."""
    joined = "customer ON c_custkey = o_custkey" if table == "orders" else "part ON p_partkey = l_partkey"
    text = f"""
        SELECT max(n) / sum(n) FROM (
            SELECT quarter({date}) AS q, {dimension}, count(*) AS n FROM {{}}{table} JOIN {joined} GROUP BY ALL
        ) GROUP BY q"""
    before, now = ([share for (share,) in both.execute(text.format(of)).fetchall()] for of in ("plain.", ""))
    assert max(now) > 2 * min(now) and max(now) > 3 * max(before)


def test_lines_have_a_supplier_of_their_part_and_its_price(both: duckdb.DuckDBPyConnection) -> None:
    [(lines, right)] = both.execute("""
        SELECT count(*), count(ps_suppkey) FILTER (l_extendedprice = l_quantity * p_retailprice) FROM lineitem
        JOIN part ON p_partkey = l_partkey LEFT JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
    """).fetchall()
    assert lines == right > 50_000
    others = "SELECT count(*) FROM orders WHERE o_custkey NOT IN (SELECT c_custkey FROM customer)"
    assert both.execute(others).fetchall() == [(0,)]


def test_the_rest_is_as_it_was(skewed: Path, plain: Path) -> None:
    new = {"o_custkey", "l_partkey", "l_suppkey", "l_extendedprice"}
    for file in plain.rglob("*.parquet"):
        before, after = parquet.ParquetFile(file), parquet.ParquetFile(skewed / file.relative_to(plain))
        assert after.schema_arrow.equals(before.schema_arrow), file
        assert [after.metadata.row_group(n).num_rows for n in range(after.num_row_groups)] == [
            before.metadata.row_group(n).num_rows for n in range(before.num_row_groups)
        ]
        kept = [name for name in before.schema_arrow.names if name not in new]
        assert after.read(kept).equals(before.read(kept)), file


def test_a_seed_makes_the_same_bytes_again_and_another_one_others(skewed: Path, plain: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "again", tmp_path / "other"]
    for folder, seed in zip(folders, (3, 4), strict=True):
        folder.mkdir()
        made(plain, folder, Skew(1.0, seed))
    again, other = folders
    for name in ("orders/orders.1.parquet", "lineitem/lineitem.2.parquet"):
        assert (again / name).read_bytes() == (skewed / name).read_bytes() != (other / name).read_bytes()
