"""A DuckDB file with its tables, and with its views as far as they can be answered."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import qoop

VIEWS = """
CREATE TABLE sales AS SELECT i AS id, i % 3 AS shop, i * 2 AS price FROM range(100) t(i);
CREATE MACRO doubled(x) AS x * 2;
CREATE VIEW by_shop AS SELECT shop, sum(price) AS total FROM sales GROUP BY shop;
CREATE VIEW best (name, most) AS SELECT * FROM by_shop WHERE total > 3300;
CREATE VIEW of_macro AS SELECT doubled(price) AS d FROM sales;
CREATE VIEW of_main AS SELECT min(price) AS low FROM main.sales;
CREATE SCHEMA old; CREATE TABLE old.few AS SELECT 5 AS price; CREATE VIEW old.seen AS SELECT price + 1 AS p FROM few;
"""
ANSWERED = ("sales", "by_shop", "best", "old.seen")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(VIEWS)
    return path


@pytest.mark.parametrize("locked", [False, True])
def test_views_of_a_file_answer_as_in_duckdb_and_others_are_named_with_the_reason(shop: Path, locked: bool) -> None:
    with qoop.connect(shop, locked=locked) as session, duckdb.connect(str(shop), read_only=True) as oracle:
        for name in (*ANSWERED, "of_main"):
            check(session, oracle, f"FROM {name} ORDER BY ALL")
        [(name, reason)] = session.views_left().items()
        assert name == "of_macro" and "doubled does not exist" in reason and "\n" not in reason


def test_views_of_an_attached_file_are_in_its_database(shop: Path) -> None:
    with qoop.connect(slots=1) as session, duckdb.connect() as oracle:
        for run in (session.sql, oracle.execute):
            run("CREATE TABLE sales AS SELECT 'own' AS of_the_session")
            run(f"ATTACH '{shop}' AS d (READ_ONLY)")
        for name in ANSWERED:
            check(session, oracle, f"FROM d.{name} ORDER BY ALL")
        assert "without a schema" in session.views_left()["d.of_main"], "main is the session's own"
        for run in (session.sql, oracle.execute):
            run("USE d")
        check(session, oracle, "SELECT * FROM best JOIN sales ON shop = name ORDER BY ALL")
        session.sql("USE memory; DETACH d")
        assert not session.views()
        with pytest.raises(qoop.BindError):
            session.sql("FROM d.best")


def check(session: qoop.Session, oracle: duckdb.DuckDBPyConnection, text: str) -> None:
    """Both give the same rows, and some, with the same names."""
    expected, found = oracle.sql(text), session.sql(text)
    assert found.columns == expected.columns
    assert found.fetchall() == expected.fetchall() != []
