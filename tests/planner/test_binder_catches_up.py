"""The binder that opens DuckDB and defines tables in another thread, before the first text comes."""

from __future__ import annotations

import threading

import pytest
from waits import until

import qoop
from qoop.planner.sql import bind

COLUMN = (("x", "INTEGER"),)


def catches_up() -> bool:
    return any(thread.name == "qoop-binder" for thread in threading.enumerate())


def test_tables_are_defined_before_the_first_text(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    with qoop.connect() as session:
        session.sql("SELECT 7 AS x").write_parquet(str(tmp_path / "t.parquet"))
    opened = []
    usual = bind.open_duckdb
    monkeypatch.setattr(
        bind, "open_duckdb", lambda **options: opened.append(threading.current_thread()) or usual(**options)
    )
    with qoop.connect() as session:
        session.register_folder(tmp_path)
        until(lambda: not catches_up())
        assert not session._tables.binder._waiting
        assert session.sql("FROM t").fetchall() == [(7,)]
    assert [thread.name for thread in opened] == ["qoop-binder"]


def test_a_faulty_definition_stops_the_thread_and_fails_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    crashed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", crashed.append)
    binder = bind.Binder()
    binder.add_table("good", "1", COLUMN)
    binder.add_table("faulty", "1", (("x", "NO_SUCH_TYPE"),))
    binder.catch_up()
    until(lambda: not catches_up())
    with pytest.raises(qoop.QueryError, match="NO_SUCH_TYPE"):
        binder.describe("FROM faulty")
    assert binder.describe("FROM good") == COLUMN
    binder.close()
    assert not crashed


def test_tables_are_added_and_texts_bound_while_it_catches_up() -> None:
    binder = bind.Binder()
    for number in range(50):
        binder.add_table(f"t{number}", "1", COLUMN)
        binder.catch_up()
        if number % 7 == 0:
            assert binder.describe(f"FROM t{number}") == COLUMN
    assert binder.describe("SELECT count(*) AS n FROM t0, t49") == (("n", "BIGINT"),)
    binder.catch_up()
    binder.close()
    until(lambda: not catches_up())
