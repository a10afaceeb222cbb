"""Offers while a query is typed: columns of everything that can stand behind FROM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import qoop
from qoop.interfaces.repl.completer import offers
from qoop.interfaces.repl.interactive import _described
from qoop.interfaces.repl.names import Names


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Names]:
    folder = tmp_path_factory.mktemp("files")
    with qoop.connect(slots=1) as session:
        session.register("items", pa.table({"item": ["tea"], "price": [3]}))
        session.sql("CREATE VIEW dear AS SELECT item AS dear_item FROM items WHERE price > 2")
        session.sql("CREATE TABLE kept AS SELECT price AS kept_price FROM items")
        session.sql(f"COPY (SELECT 1 AS from_file, 2 AS other) TO '{folder}/a.parquet'")
        tables = {table.name: table.columns for table in session.tables().values()}
        views = {view: session.describe(f"FROM {view}") for view in session.views()}
        yield Names((), (), {**tables, **views, "folder": ((str(folder), ""),)}, partial(_described, session))


def offered(text: str, names: Names) -> list[str]:
    """The offers at the mark ‸."""
    cursor = text.index("‸")
    return [offer.text for offer in offers(text.replace("‸", ""), cursor, names)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("select dea‸ from dear", ["dear_item"]),
        ("select d.‸ from dear d", ["dear_item"]),
        ("select kept_‸ from kept", ["kept_price"]),
        ("with c as (select price * 2 as twice from items) select tw‸ from c", ["twice"]),
        ("with c(x, y) as (select 1, 2), d as (select x as of_c from c) select q.‸ from d q", ["of_c"]),
        ("with recursive c as materialized (select 1 as n) select c.‸ from c", ["n"]),
        ("select r.‸ from range(3) r(number)", ["number"]),
        ("select ran‸ from range(3)", ["range"]),
        ("select s.‸ from (select price as inner_price, item from items) s", ["inner_price", "item"]),
        ("with c as (select 1 as one) select s.‸ from (select one + 1 as two from c) as s", ["two"]),
        ("select s.‸ from items i join (select 1 as k) s on true", ["k"]),
        ("select i.‸ from range(2) r, items i", ["item", "price"]),
    ],
)
def test_columns_of_what_is_read(text: str, first: list[str], names: Names) -> None:
    assert offered(text, names) == first


@pytest.mark.parametrize("command", [".import", "\\e", "\\register", "\\register name", "\\save", "\\read"])
def test_files_are_offered_behind_commands_that_take_one(command: str, names: Names) -> None:
    folder = names.tables["folder"][0][0]
    assert offered(f"{command} {folder}/a.p‸", names) == ["a.parquet"]


def test_columns_of_a_file(names: Names) -> None:
    path = Path(names.tables["folder"][0][0]) / "a.parquet"
    assert offered(f"select from_‸ from '{path}'", names) == ["from_file"]
    assert offered(f"select f.‸ from read_parquet('{path}') f", names) == ["from_file", "other"]


@pytest.mark.parametrize(
    "text",
    [
        "select x.‸ from (select price from",
        "select ‸ from 'nothing.parquet'",
        "with c as (select nothing from items) select c.‸ from c",
        "select n.‸ from nothing(1) n",
        "with a as‸",
        "with ‸",
        "select ‸ from (",
    ],
)
def test_what_is_not_whole_offers_nothing_and_raises_nothing(text: str, names: Names) -> None:
    assert offered(text, names) == []


def test_views_and_with_can_be_read(names: Names) -> None:
    assert offered("from dea‸", names) == ["dear"]
    assert offered("with some as (select 1) select * from so‸", names) == ["some"]


def test_variables_and_tables_complete_behind_commands() -> None:
    names = Names(tables={"teas": (), "items": ()}, variables=("day", "least"))
    assert [one.text for one in offers("from t where x > :le", 20, names)] == ["least"]
    assert [one.text for one in offers("\\unset d", 8, names)] == ["day"]
    assert [one.text for one in offers(".import a.csv te", 16, names)][:1] == ["teas"]
    assert "day" not in [one.text for one in offers("select x::da", 12, names)], "a cast"
