"""The backend of ibis: expressions have the rows that ibis gets of DuckDB itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

pytest.importorskip("ibis", reason="the extra ibis is not installed")

import ibis
from ibis import _

from qoop.interfaces.adapters.ibis_backend import Backend

TABLES = ("store_sales", "item", "date_dim", "store", "customer")

Expression = Callable[[Any], Any]


def _monthly(con: Any) -> Any:
    sales, dates = con.table("store_sales"), con.table("date_dim")
    joined = sales.join(dates, sales.ss_sold_date_sk == dates.d_date_sk)
    return joined.group_by(["d_year", "d_moy"]).agg(n=_.count(), paid=_.ss_net_paid.sum())


EXPRESSIONS: dict[str, Expression] = {
    "filter": lambda con: con.table("item").filter(_.i_current_price > 50).select("i_item_sk", "i_brand"),
    "join and group": _monthly,
    "order and limit": lambda con: _monthly(con).order_by(ibis.desc("paid"), "d_year", "d_moy").limit(5),
    "semi join": lambda con: con.table("item").semi_join(
        con.table("store_sales").filter(_.ss_quantity > 90), [("i_item_sk", "ss_item_sk")]
    ).select("i_item_sk"),
    "window": lambda con: con.table("item").select(
        "i_item_sk", rank=ibis.row_number().over(group_by="i_category", order_by=["i_current_price", "i_item_sk"])
    ),
    "case and strings": lambda con: con.table("item").select(
        "i_item_sk", kind=ibis.cases((_.i_current_price > 10, "dear"), else_="cheap"), up=_.i_brand.upper()
    ),
    "distinct": lambda con: con.table("item").select("i_category").distinct(),
    "dates": lambda con: con.table("date_dim").filter(_.d_date.year() == 2000).group_by(m=_.d_date.month()).count(),
    "union": lambda con: con.table("store").select(k="s_store_sk").union(con.table("item").select(k="i_item_sk")),
    "scalar": lambda con: con.table("store_sales").ss_net_paid.mean(),
    "memory": lambda con: con.table("store").join(
        ibis.memtable({"s_store_sk": [1, 2], "word": ["a", "b"]}), "s_store_sk"
    ).select("s_store_sk", "word"),
}  # fmt: skip


@pytest.fixture(scope="module")
def directory(benchmark_data: Callable[[str, float], Path]) -> Path:
    return benchmark_data("tpcds", 0.01)


@pytest.fixture(scope="module")
def ours(directory: Path) -> Iterator[Any]:
    made = ibis.qoop.connect(str(directory), slots=1, memory="1GB")
    yield made
    made.disconnect()


@pytest.fixture(scope="module")
def theirs(directory: Path) -> Iterator[Any]:
    made = ibis.duckdb.connect()
    for name in TABLES:
        made.read_parquet(str(directory / f"{name}.parquet"), table_name=name)
    yield made
    made.disconnect()


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    """The entry point is that of the installed package, which may be older than this tree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ibis, "qoop", Backend(), raising=False)
        yield


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_have_duckdbs_rows(ours: Any, theirs: Any, name: str) -> None:
    mine, other = (EXPRESSIONS[name](con) for con in (ours, theirs))
    if name == "scalar":
        assert ours.execute(mine) == pytest.approx(theirs.execute(other)) and ours.execute(mine) > 0
        return
    found, wanted = ours.execute(mine), theirs.execute(other)
    assert len(found) > 0
    keys = list(found.columns)
    pd.testing.assert_frame_equal(
        found.sort_values(keys).reset_index(drop=True), wanted.sort_values(keys).reset_index(drop=True)
    )


def test_arrow_whole_and_in_batches(ours: Any) -> None:
    expression = _monthly(ours)
    table = ours.to_pyarrow(expression)
    assert isinstance(table, pa.Table) and table.num_rows == ours.to_pyarrow_batches(expression).read_all().num_rows > 0


def test_tables_are_listed_made_and_gone(ours: Any) -> None:
    assert set(TABLES) <= set(ours.list_tables()) and ours.list_tables(like="^store$") == ["store"]
    made = ours.create_table("dear", ours.table("item").filter(_.i_current_price > 50), overwrite=True)
    assert made.count().execute() == EXPRESSIONS["filter"](ours).count().execute()
    empty = ours.create_table("empty", schema={"a": "int64", "b": "string"})
    assert empty.count().execute() == 0 and empty.schema().names == ("a", "b")
    ours.create_view("few", made.limit(3))
    assert ours.table("few").count().execute() == 3
    ours.drop_view("few")
    ours.drop_table("dear")
    assert not {"dear", "few"} & set(ours.list_tables())
    with pytest.raises(ibis.common.exceptions.TableNotFound):
        ours.table("nothing")


def test_texts_are_tables_too(ours: Any) -> None:
    found = ours.sql("SELECT i_category AS c, count(*) AS n FROM item GROUP BY ALL").filter(_.n > 1).execute()
    assert len(found) > 0 and list(found.columns) == ["c", "n"]
