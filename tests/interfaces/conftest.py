"""The shell in a terminal, with two tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from screen import Screen


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("data")
    with duckdb.connect() as made:
        made.execute(
            f"COPY (SELECT range AS k, range * 13 % 1009 AS v FROM range(3000000)) TO '{folder}/facts.parquet'"
        )
        made.execute(
            f"COPY (SELECT range AS item, 'tea' AS name, NULL::DATE AS since, range * 1.5 AS price, repeat('x', 60) "
            f"AS note FROM range(500)) TO '{folder}/items.parquet'"
        )
    return str(folder)


@pytest.fixture
def screen(data: str, tmp_path: Path) -> Iterator[Screen]:
    made = Screen(data, "--slots", "4", "--memory", "2GB", home=tmp_path)
    try:
        made.wait("2 tables")
        yield made
    finally:
        made.close()
