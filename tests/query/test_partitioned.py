"""Folders whose names are ``key=value``: the keys are columns with DuckDB's types, and filters on them skip files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import qoop

TEXTS = (
    "SELECT day, k, t, count(*) AS n, sum(x) AS s FROM {} GROUP BY ALL",
    "SELECT min(x), typeof(any_value(day)), typeof(any_value(k)), typeof(any_value(t)) FROM {}",
    "SELECT count(*) AS n FROM {} WHERE t IS NULL AND k = 1",
    "SELECT day, t FROM {} WHERE day > DATE '2024-01-01' AND k = 0 GROUP BY ALL",
    "SELECT a.day, count(*) AS n FROM {0} AS a JOIN {0} AS b ON a.k = b.k AND a.x = b.x GROUP BY ALL",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("d") / "sales")
    with duckdb.connect() as made:
        made.execute(
            "COPY (SELECT range AS x, DATE '2024-01-01' + (range % 3)::INT AS day, range % 2 AS k, "
            "CASE range % 4 WHEN 0 THEN 'a b' WHEN 1 THEN NULL ELSE 'é=/' END AS t FROM range(900)) "
            f"TO '{path}' (FORMAT parquet, PARTITION_BY (day, k, t))"
        )
    return path


@pytest.fixture(scope="module")
def session(folder: str) -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="500MB", staged=True) as made:
        made.register("registered", folder)
        made.register_path(folder)
        yield made


@pytest.mark.parametrize("text", TEXTS)
def test_keys_are_columns_as_in_duckdb(session: qoop.Session, folder: str, text: str) -> None:
    expected = sorted(map(repr, duckdb.sql(text.format(f"'{folder}/**/*.parquet'")).fetchall()))
    assert expected
    for table in ("registered", "sales", f"'{folder}/**/*.parquet'", f"'{folder}/*/*/*/*.parquet'"):
        assert sorted(map(repr, session.sql(text.format(table)).fetchall())) == expected


def test_a_filter_on_a_key_skips_files(session: qoop.Session, tmp_path: Path) -> None:
    with duckdb.connect() as made:
        made.execute(
            "COPY (SELECT hash(range) AS x, range % 3 AS k FROM range(30_000)) "
            f"TO '{tmp_path}/t' (FORMAT parquet, PARTITION_BY (k))"
        )
    for path in (tmp_path / "t" / "k=2").iterdir():
        data = path.read_bytes()
        path.write_bytes(data[:4] + b"\0" * (len(data) // 2) + data[4 + len(data) // 2 :])  # its footer stays whole
    session.register("t", tmp_path / "t")
    assert session.sql("SELECT count(x), max(k) FROM t WHERE k < 2").fetchall() == [(20_000, 1)]
    with pytest.raises(qoop.QoopError):
        session.sql("SELECT sum(x) FROM t WHERE k = 2")


def test_a_folder_that_comes_is_observed(session: qoop.Session, tmp_path: Path) -> None:
    copy = "COPY (SELECT range AS x FROM range(5)) TO '{}/year={}/f.parquet'"
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        duckdb.sql(copy.format(tmp_path, year))
        text = f"SELECT year, count(*) FROM '{tmp_path}/*/*.parquet' GROUP BY ALL ORDER BY ALL"
        assert session.sql(text).fetchall() == [(one, 5) for one in range(2023, year + 1)]


@pytest.mark.parametrize("folder", ["k=", "K="])
@pytest.mark.parametrize("format_", ["parquet", "csv", "json"])
def test_of_a_column_that_is_a_key_as_well_the_key_counts(tmp_path: Path, folder: str, format_: str) -> None:
    """The values in the files do not: they may even be of another type."""
    for number in (1, 2):
        (tmp_path / f"{folder}{number}").mkdir()
        rows = "SELECT range AS x, 'no number' AS k, 'a' AS t FROM range(3)"
        duckdb.execute(f"COPY ({rows}) TO '{tmp_path}/{folder}{number}/f.{format_}'")
    with qoop.connect(slots=1, memory="300MB", staged=True) as session:
        session.register("t", tmp_path)
        for text in ("FROM {}", "SELECT x FROM {} WHERE k = 2", "SELECT min(k), max(k), count(DISTINCT k) FROM {}"):
            expected = duckdb.sql(text.format(f"'{tmp_path}/*/*.{format_}'"))
            found = session.sql(text.format("t"))
            assert found.columns == expected.columns
            assert sorted(found.fetchall()) == sorted(expected.fetchall()) != []
