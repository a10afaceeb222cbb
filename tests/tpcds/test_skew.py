"""Skewed data: as frequent as Zipf says, correlated across tables, and otherwise what the plain data are."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import duckdb
import pyarrow.parquet as parquet
import pytest

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError
from qoop.tpcds import data, skew
from qoop.tpcds.data import generate
from qoop.tpcds.manifest import read_manifest
from qoop.tpcds.skew import Skew

ZIPF = Skew(1.0, seed=7)


@pytest.fixture(scope="module")
def plain(tpcds_small: Path) -> Path:
    return tpcds_small


@pytest.fixture(scope="module")
def skewed(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made of plain data that are there, which saves making them."""
    folder = tmp_path_factory.mktemp("skewed")
    (folder / data._PLAIN).symlink_to(plain)
    generate(0.01, folder, skew=ZIPF)
    (folder / data._PLAIN).unlink()
    return folder


@cache
def opened(folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for file in folder.glob("*.parquet"):
        connection.execute(f"CREATE VIEW {file.stem} AS FROM '{file}'")
    return connection


def ask(folder: Path, text: str) -> list[tuple[object, ...]]:
    return opened(folder).execute(text).fetchall()


def shares(folder: Path, table: str, column: str) -> list[float]:
    """Of each key among all, the most frequent first."""
    total = f"SELECT count({column}) FROM {table}"
    text = f"SELECT count(*) / ({total}) AS share FROM {table} WHERE {column} IS NOT NULL GROUP BY {column}"
    return [float(share) for (share,) in ask(folder, f"{text} ORDER BY share DESC")]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "column", "size"),
    [
        ("store_sales", "ss_customer_sk", 1000),
        ("catalog_sales", "cs_bill_addr_sk", 1000),
        ("customer", "c_current_hdemo_sk", 7200),
    ],
)
def test_keys_are_as_frequent_as_zipf_says(skewed: Path, plain: Path, table: str, column: str, size: int) -> None:
    found, harmonic = shares(skewed, table, column), sum(1 / rank for rank in range(1, size + 1))
    for first in (1, 10, 100):
        zipf = sum(1 / rank for rank in range(1, first + 1)) / harmonic
        assert sum(found[:first]) == pytest.approx(zipf, rel=0.15)
        assert ZIPF.share(first, size) == pytest.approx(zipf, rel=0.03)
        assert sum(shares(plain, table, column)[:first]) < zipf / 2


def test_items_are_nearly_so_although_a_ticket_has_each_but_once(skewed: Path) -> None:
    found = shares(skewed, "store_sales", "ss_item_sk")
    assert 0.03 < found[0] < ZIPF.share(1, 2000), "at most one of the dozen in a ticket"
    assert sum(found[:100]) == pytest.approx(ZIPF.share(100, 2000), rel=0.1)
    for table, item, order in SALES:
        [(rows, different)] = ask(skewed, f"SELECT count(*), count(DISTINCT ({item}, {order})) FROM {table}")
        assert rows == different


SALES = (
    ("store_sales", "ss_item_sk", "ss_ticket_number"),
    ("catalog_sales", "cs_item_sk", "cs_order_number"),
    ("web_sales", "ws_item_sk", "ws_order_number"),
)


def test_frequent_keys_have_few_values_of_an_attribute(skewed: Path, plain: Path) -> None:
    text = "SELECT max(n) / sum(n) FROM (SELECT count(*) AS n FROM store_sales JOIN {} ON {} GROUP BY {})"
    for dimension, join, attribute in (
        ("item", "ss_item_sk = i_item_sk", "i_category"),
        ("customer_address", "ss_addr_sk = ca_address_sk", "ca_state"),
    ):
        [[(there,)], [(before,)]] = (ask(one, text.format(dimension, join, attribute)) for one in (skewed, plain))
        assert there > 2 * before  # type: ignore[operator]


def test_columns_go_together_across_joins(skewed: Path, plain: Path) -> None:
    """The most frequent customers buy at the most frequent addresses more often than if both were independent."""
    text = """
        WITH often AS (SELECT ss_customer_sk AS key FROM store_sales GROUP BY 1 ORDER BY count(*) DESC LIMIT 10),
            here AS (SELECT ss_addr_sk AS key FROM store_sales GROUP BY 1 ORDER BY count(*) DESC LIMIT 10)
        SELECT count(*) * count(often.key + here.key) / (count(often.key) * count(here.key))
        FROM store_sales LEFT JOIN often ON often.key = ss_customer_sk LEFT JOIN here ON here.key = ss_addr_sk"""
    [[(there,)], [(before,)]] = (ask(one, text) for one in (skewed, plain))
    assert there > 1.2 > before  # type: ignore[operator]


def test_every_key_is_in_its_dimension(skewed: Path) -> None:
    for table, fact in skew._FACTS.items():
        for key in (*fact.keys, *(("item",) if fact.items else ())):
            dimension, column = skew._DIMENSIONS[skew._domain(key)], fact.column(key)
            text = f"FROM {table} ANTI JOIN {dimension.table} ON {column} = {dimension.key} WHERE {column} IS NOT NULL"
            assert ask(skewed, f"SELECT count(*) {text}") == [(0,)]


def test_what_belonged_to_each_other_still_does(skewed: Path, plain: Path) -> None:
    """Returns have their sales, and equal customers stay equal (others may become so)."""
    for returns, prefix, order in (
        ("store_returns", "sr", "ticket"),
        ("catalog_returns", "cr", "order"),
        ("web_returns", "wr", "order"),
    ):
        sales, of = returns.replace("returns", "sales"), prefix[0] + "s"
        join = f"{prefix}_item_sk = {of}_item_sk AND {prefix}_{order}_number = {of}_{order}_number"
        pairs = f"SELECT (SELECT count(*) FROM {returns}), count(*) FROM {returns} JOIN {sales} ON {join}"
        [(returned, found)] = ask(skewed, pairs)
        assert returned == found
    same = "SELECT count(*) FROM catalog_sales WHERE cs_bill_customer_sk = cs_ship_customer_sk"
    assert ask(skewed, same)[0][0] >= ask(plain, same)[0][0] > 0  # type: ignore[operator]


def test_the_rest_is_as_it_was(skewed: Path, plain: Path) -> None:
    for file in plain.glob("*.parquet"):
        before, after = parquet.ParquetFile(file), parquet.ParquetFile(skewed / file.name)
        assert after.schema_arrow == before.schema_arrow
        assert [column.physical_type for column in after.schema] == [column.physical_type for column in before.schema]
        groups = [[one.metadata.row_group(n).num_rows for n in range(one.num_row_groups)] for one in (before, after)]
        assert groups[0] == groups[1]
    kept = "SELECT ss_sold_date_sk, ss_net_paid, ss_customer_sk IS NULL FROM store_sales"
    assert ask(skewed, kept) == ask(plain, kept)


def test_a_seed_makes_the_same_data_again_and_another_one_others(skewed: Path, plain: Path, tmp_path: Path) -> None:
    files = {file.stem: [file] for file in plain.glob("*.parquet")}
    for seed in (7, 8):
        with skew.SkewedCopy(files, Skew(1.0, seed), tmp_path / "spilled") as copy:
            copy.write("web_returns", plain / "web_returns.parquet", tmp_path / f"{seed}.parquet")
    again, other = (parquet.read_table(tmp_path / f"{seed}.parquet") for seed in (7, 8))
    assert again.equals(parquet.read_table(skewed / "web_returns.parquet"))
    assert not other["wr_item_sk"].equals(again["wr_item_sk"])


def test_the_folder_says_how_it_was_made(skewed: Path) -> None:
    manifest = read_manifest(skewed)
    assert manifest is not None and manifest.skew == ZIPF
    assert not generate(0.01, skewed, skew=ZIPF).made
    with pytest.raises(
        ConfigError, match=r"holds tpcds data at scale 0.01, with keys by Zipf's law of exponent 1, seed 7, not"
    ):
        generate(0.01, skewed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--skew", "0"], "the skew must be from 0.1 to 4, not 0"),
        (["--skew", "nan"], "the skew must be from 0.1 to 4, not nan"),
        (["--seed", "1"], "--seed belongs to --skew"),
    ],
)
def test_wrong_words(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["tpcds", "generate", str(tmp_path), *words]) != 0
    assert said in capsys.readouterr().err
