"""PEP 249: what tools that know no other interface rely on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.interfaces import dbapi

ITEMS = pa.table({"item": ["tea", "rice", None], "price": [3, 2, 1]})


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dbapi.Connection]:
    pq.write_table(ITEMS, tmp_path / "items.parquet")
    with dbapi.connect(str(tmp_path), slots=2, memory="500MB") as made:
        yield made


def test_pandas_reads_it(connection: dbapi.Connection) -> None:
    with pytest.warns(UserWarning, match="DBAPI2"):
        frame = pd.read_sql("SELECT item, price * ? AS twice FROM items ORDER BY price", connection, params=[2])
    assert frame["twice"].tolist() == [2, 4, 6] and frame["item"].tolist()[1:] == ["rice", "tea"]


def test_rows_are_fetched_in_pieces(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.description is None and cursor.rowcount == -1
    cursor.execute("SELECT price, item, DATE '2026-01-02' AS d, 1.5::FLOAT AS f FROM items ORDER BY price")
    assert cursor.description is not None and [column[0] for column in cursor.description] == [
        "price",
        "item",
        "d",
        "f",
    ]
    kinds = [column[1] for column in cursor.description]
    assert [kinds[0] == dbapi.NUMBER, kinds[1] == dbapi.STRING, kinds[2] == dbapi.DATETIME] == [True] * 3
    assert dbapi.NUMBER != "VARCHAR" and kinds[3] == dbapi.NUMBER and cursor.rowcount == 3
    assert cursor.fetchone()[:2] == (1, None)  # type: ignore[index]
    assert [row[0] for row in cursor.fetchmany(1)] == [2] and [row[0] for row in cursor] == [3]
    assert cursor.fetchone() is None and cursor.fetchall() == []
    assert connection.execute("SELECT count(*) FROM items").fetchone() == (3,)
    assert cursor.executemany("SELECT $n + 1", [{"n": 1}, {"n": 2}]).fetchall() == [(3,)]


def test_errors_are_those_of_the_standard(connection: dbapi.Connection, tmp_path: Path) -> None:
    cursor = connection.cursor()
    for text, kind in [
        ("SELEC 1", dbapi.ProgrammingError),
        ("SELECT nothing FROM items", dbapi.ProgrammingError),
        ("DROP TABLE nothing", dbapi.ProgrammingError),
        ("SELECT 'x'::INTEGER + price FROM items", dbapi.OperationalError),
    ]:
        with pytest.raises(kind) as raised:
            cursor.execute(text)
        assert isinstance(raised.value.__cause__, qoop.QoopError) and isinstance(raised.value, dbapi.DatabaseError)
    with pytest.raises(dbapi.ProgrammingError, match="nothing was executed"):
        cursor.fetchone()
    with pytest.raises(dbapi.NotSupportedError):
        connection.rollback()
    with pytest.raises(dbapi.DataError):
        dbapi.connect(str(tmp_path / "missing.parquet"), slots=1)
    cursor.close()
    connection.commit()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.execute("SELECT 1")
    connection.close()
    with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
        connection.cursor().execute("SELECT 1")


def test_a_session_that_was_given_stays_open() -> None:
    with qoop.connect(slots=1) as session:
        session.register("items", ITEMS)
        with dbapi.connect(session=session) as connection:
            assert connection.execute("SELECT sum(price) FROM items").fetchall() == [(6,)]
        assert session.sql("SELECT 1").fetchall() == [(1,)]


def test_threads_share_a_connection(connection: dbapi.Connection) -> None:
    found: list[object] = []

    def ask(number: int) -> None:
        found.append(connection.execute("SELECT sum(price) + ? FROM items", [number]).fetchone())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == [(6 + number,) for number in range(8)]  # type: ignore[type-var]
