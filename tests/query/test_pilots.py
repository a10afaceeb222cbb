"""Queries are planned from footers; one that takes long and hangs on guesses has a pilot run first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.query import preparation
from qoop.session.session import Session

TEXT = "SELECT sum(v) FROM fact JOIN dim ON k = id WHERE price BETWEEN 1 AND 2"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nearly all prices lie below 10, few up to 1000."""
    folder: Path = tmp_path_factory.mktemp("pilots")
    fact = "SELECT (hash(i) % 2000)::INTEGER AS k, i AS v FROM range(300000) r(i)"
    price = "CASE WHEN i % 50 = 0 THEN i / 2 ELSE i % 100 / 10 END::DECIMAL(9, 2)"
    dim = f"SELECT i AS id, {price} AS price FROM range(2000) r(i)"
    for name, rows in (("fact", fact), ("dim", dim)):
        duckdb.sql(rows).write_parquet(str(folder / f"{name}.parquet"))
    return folder


@pytest.fixture
def session(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("QOOP_CACHE_DIR", str(tmp_path))
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register_folder(data)
        yield session


def test_a_short_query_is_planned_from_footers_alone(session: Session) -> None:
    session.planning.plan(TEXT)
    plain = session.prepare(TEXT)
    assert plain.stats["dim"].guessed == {"id", "price"}
    session.sql(f"CREATE VIEW joined AS {TEXT}")
    over_view = session.prepare("FROM joined")
    assert over_view.tables == plain.tables and over_view.stats == plain.stats


def test_a_long_query_has_a_pilot_of_what_its_filter_hangs_on(
    session: Session, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = session.prepare(TEXT)
    monkeypatch.setattr(preparation, "PILOT_PART", 1e6)
    planned = session.planning.plan(TEXT)
    after = session.prepare(TEXT)
    assert before.stats["dim"].guessed == {"id", "price"} and after.stats["dim"].guessed == {"id"}
    assert after.stats["fact"].guessed == {"k", "v"}  # nothing is compared with a constant
    assert planned.statistics_seconds > 0
    with duckdb.connect() as connection:
        for name in ("fact", "dim"):
            connection.execute(f"CREATE VIEW {name} AS FROM '{data / name}.parquet'")
        assert session.sql(TEXT).fetchall() == connection.execute(TEXT).fetchall() != [(None,)]


def test_the_plan_is_made_again_if_the_filter_keeps_something_else(
    session: Session, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = session.explain(TEXT)
    monkeypatch.setattr(preparation, "PILOT_PART", 1e6)
    assert session.explain(TEXT) == few  # it has its plan
    with qoop.connect(slots=2, memory="500MB") as other:
        other.register_folder(data)
        assert other.explain(TEXT) != few


def test_other_ways_to_get_statistics(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "PILOT_PART", 1e6)
    for statistics, guessed in (("footers", {"id", "price"}), ("full", set())):
        monkeypatch.setenv("QOOP_CACHE_DIR", str(tmp_path / statistics))
        with qoop.connect(slots=2, memory="500MB", statistics=statistics) as session:
            session.register_folder(data)
            session.planning.plan(TEXT)
            assert session.prepare(TEXT).stats["dim"].guessed == guessed
    with pytest.raises(qoop.ConfigError, match="statistics must be one of pilot, footers, full"):
        qoop.connect(slots=1, statistics="some")
