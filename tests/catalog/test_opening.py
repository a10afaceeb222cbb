"""Instances of DuckDB as the engine opens them."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest

from qoop.catalog import opening
from qoop.catalog.opening import close_duckdb, leave_open, open_ahead, open_duckdb


def test_no_instance_writes_a_progress_bar_where_rows_go() -> None:
    with open_duckdb(threads=1) as connection, connection.cursor() as cursor:
        for one in (connection, cursor):
            assert one.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]


def test_what_was_opened_ahead_has_the_options_of_its_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, connect = [], duckdb.connect

    def noted(*values: object, **named: object) -> duckdb.DuckDBPyConnection:
        opened.append(threading.current_thread().name)
        return connect(*values, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(duckdb, "connect", noted)
    open_ahead(2)
    with open_duckdb(threads=2) as usual:
        assert usual.execute("SELECT current_setting('threads')").fetchall() == [(2,)]
    with (
        open_duckdb(threads=1, files=False, errors_as_json=True) as confined,
        open_duckdb(threads=1, temp_directory=str(tmp_path)) as free,
    ):
        query = "SELECT current_setting('threads'), current_setting('enable_external_access'), " + (
            "current_setting('errors_as_json'), current_setting('temp_directory')"
        )
        assert confined.execute(query).fetchall()[0][:3] == (1, False, True)
        assert free.execute(query).fetchall() == [(1, True, False, str(tmp_path))]
    assert len(opened) == 3 and len({name for name in opened if name.startswith("qoop-open")}) == 1
    open_duckdb(threads=1).close()
    assert len(opened) == 4, "none is left"


def test_a_process_that_ends_closes_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_closes", True)
    closed, left = open_duckdb(threads=1), open_duckdb(threads=1)
    close_duckdb(closed)
    leave_open()
    close_duckdb(left)
    with pytest.raises(duckdb.ConnectionException):
        closed.execute("SELECT 1")
    assert left.execute("SELECT 1").fetchall() == [(1,)]
    left.close()
