"""The dialect of SQLAlchemy: queries, the ORM, reflection, pandas, types and errors."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("sqlalchemy", reason="the extra sqlalchemy is not installed")

import sqlalchemy
from sqlalchemy import Engine, MetaData, String, Table, create_engine, exc, func, inspect, select, text
from sqlalchemy.dialects import registry
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import texts

registry.register("qoop", "qoop.interfaces.adapters.alchemy", "QoopDialect")


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "item"
    i_item_sk: Mapped[int] = mapped_column(primary_key=True)
    i_category: Mapped[str | None] = mapped_column(String)


QUERIES = (3, 7, 19, 42, 52, 55, 68, 73, 79, 96)


@pytest.fixture(scope="module")
def directory(benchmark_data: Callable[[str, float], Path]) -> Path:
    return benchmark_data("tpcds", 0.01)


@pytest.fixture(scope="module")
def engine(directory: Path) -> Iterator[Engine]:
    made = create_engine(f"qoop:///{directory}?slots=1&memory=2GB")
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def oracle(directory: Path) -> Iterator[Oracle]:
    with Oracle(directory) as made:
        yield made


@pytest.mark.usefixtures("benchmark_texts")
def test_a_tenth_of_the_queries_have_duckdbs_rows(engine: Engine, oracle: Oracle) -> None:
    rows = 0
    with engine.connect() as connection:
        for number in QUERIES:
            query = texts()[number]
            found = connection.exec_driver_sql(query)
            theirs = oracle.answer(query)
            assert list(found.keys()) == theirs.column_names
            ours = [tuple(row) for row in found]
            assert _plain(ours) == _plain(zip(*(column.to_pylist() for column in theirs.columns), strict=True)), number
            rows += len(ours)
    assert rows > 100


def _plain(rows: Iterable[tuple[object, ...]]) -> list[list[object]]:
    """Rows in an order of their own, floats to nine digits: ties may come in any order."""
    told = [[float(f"{one:.9g}") if isinstance(one, float | Decimal) else one for one in row] for row in rows]
    return sorted(told, key=lambda row: [(one is None, str(one)) for one in row])


def test_the_orm_selects_joins_and_counts(engine: Engine) -> None:
    with Session(engine) as session:
        wanted = select(Item.i_category, func.count()).where(Item.i_category.ilike("%O%")).group_by(Item.i_category)
        found = dict(map(tuple, session.execute(wanted)))
        assert found and all(name and "o" in name.lower() for name in found)
        first = session.scalars(select(Item).order_by(Item.i_item_sk).limit(1).offset(2)).one()
        assert first.i_item_sk == 3
        books = select(func.count()).where(Item.i_category.regexp_match("^B.*s$"))
        assert session.scalar(books) == found["Books"]


def test_tables_and_views_are_reflected(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execute(text("CREATE VIEW cheap AS SELECT i_item_sk FROM item WHERE i_current_price < 5"))
    looked = inspect(engine)
    assert {"item", "store_sales"} <= set(looked.get_table_names())
    assert looked.get_view_names() == ["cheap"] and looked.has_table("cheap") and not looked.has_table("nothing")
    assert looked.get_schema_names()[0] == "main"
    item = Table("item", MetaData(), autoload_with=engine)
    assert isinstance(item.c.i_item_sk.type, sqlalchemy.Integer | sqlalchemy.BigInteger)
    assert isinstance(item.c.i_rec_start_date.type, sqlalchemy.Date)
    price = item.c.i_current_price.type
    assert isinstance(price, sqlalchemy.Numeric) and (price.precision, price.scale) == (7, 2)
    with pytest.raises(exc.NoSuchTableError, match="nothing"):
        Table("nothing", MetaData(), autoload_with=engine)


def test_pandas_reads_and_writes(engine: Engine) -> None:
    found = pd.read_sql(text("SELECT i_category AS c, count(*) AS n FROM item WHERE i_item_sk < :most GROUP BY ALL"),
                        engine, params={"most": 1000})  # fmt: skip
    assert len(found) > 3 and found["n"].sum() == 999
    frame = pd.DataFrame({"k": [1, 2], "v": [1.5, None], "w": ["a", "o'clock"]})
    with engine.connect() as connection:
        frame.to_sql("written", connection, index=False)
    pd.testing.assert_frame_equal(pd.read_sql_table("written", engine).sort_values("k"), frame)


def test_values_come_as_they_are(engine: Engine) -> None:
    asked = text("SELECT :d AS d, :n AS n, :b AS b, :t AS at, NULL AS x, [1, 2] AS l")
    values = {"d": datetime.date(2002, 5, 1), "n": Decimal("1.50"), "b": True, "t": datetime.datetime(2002, 5, 1, 7)}
    with engine.connect() as connection:
        row = connection.execute(asked, values).one()
    assert (row.d, row.n, row.b, row.at, row.x, row.l) == (*values.values(), None, [1, 2])


def test_errors_are_those_of_sqlalchemy(engine: Engine) -> None:
    with engine.connect() as connection, pytest.raises(exc.ProgrammingError, match="nothing does not exist"):
        connection.execute(text("SELECT * FROM nothing"))
    with pytest.raises(exc.ArgumentError, match="qoop runs in this process"):
        create_engine("qoop://ana@host/x").connect()
    with pytest.raises(exc.ArgumentError, match="no option slotz; there are slots, memory, checkpoints"):
        create_engine("qoop:///?slotz=3").connect()


def test_threads_share_the_session_of_an_engine(engine: Engine) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda n: _asked(engine, n), range(12)))
    assert found == [n * 2 for n in range(12)]


def _asked(engine: Engine, n: int) -> object:
    with engine.connect() as connection:
        return connection.execute(text("SELECT :n * 2"), {"n": n}).scalar()
