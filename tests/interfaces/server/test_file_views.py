"""A DuckDB file as it is served: its tables, and its views as far as they can be answered."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.interfaces.commands.file_views import create_views

VIEWS = """
CREATE TABLE sales AS SELECT i AS id, i % 3 AS shop, i * 2 AS price FROM range(100) t(i);
CREATE MACRO doubled(x) AS x * 2;
CREATE VIEW by_shop AS SELECT shop, sum(price) AS total FROM sales GROUP BY shop;
CREATE VIEW best AS SELECT * FROM by_shop WHERE total > 3300;
CREATE VIEW of_macro AS SELECT doubled(price) AS d FROM sales;
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(VIEWS)
    return path


@pytest.mark.parametrize("locked", [False, True])
def test_views_of_a_file_answer_as_in_duckdb_and_others_are_named_with_the_reason(shop: Path, locked: bool) -> None:
    with qoop.connect(shop, locked=locked) as session, duckdb.connect(str(shop), read_only=True) as connection:
        messages = list(create_views(session))
        for name in ("sales", "by_shop", "best"):
            text = f"FROM {name} ORDER BY ALL"
            expected = connection.execute(text).fetchall()
            assert expected and session.sql(text).fetchall() == expected
        assert len(messages) == 1 and messages[0].startswith(f"the view of_macro of {shop} is not served: ")
        assert "\n" not in messages[0]
