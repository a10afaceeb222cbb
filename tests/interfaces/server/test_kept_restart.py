"""Queries that the next server goes on with: the process before was killed or ended, or its tables have changed."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from long_query import LONG, answer_of_long, files_of_long
from waits import until

MANY_TASKS = " UNION ALL ".join(
    f"SELECT {m} AS m, g, count(*) OVER (ORDER BY g) AS place, n, s FROM ({LONG.replace('% 7', f'% {m}')})"
    for m in (3, 5, 7, 11)
)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """A server of that folder's data, its port, and what else it said at its start."""
    words = ["serve", "data", "--port", "0", "--grace", "5", "--config", "my.toml", "--answers", "answers"]
    program = [sys.executable, "-m", "qoop", *words, "--audit", "audit", "--log", "log"]
    with subprocess.Popen(program, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            port = int(server.stderr.readline().rpartition(":")[2])
            said = server.stderr.readline() if any((folder / "answers").glob("*/bundle")) else ""
            yield server, port, said
        finally:
            server.kill()


def reply(port: int, method: str, path: str, body: str | None = None) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body)
    found = connection.getresponse().read().decode()
    connection.close()
    return found


def test_after_a_kill_the_next_server_goes_on_from_the_outputs(tmp_path: Path) -> None:
    """The outputs depend on the time at which the query was submitted."""
    text = f"FROM ({MANY_TASKS.replace('a.v + b.v', 'a.v + b.v + 0 * second(now())')}) ORDER BY m, g"
    files_of_long(tmp_path, keys=12_000)
    (tmp_path / "my.toml").write_text("slots = 2\nstaged = true\n")
    with serving(tmp_path) as (server, port, _):
        id = json.loads(reply(port, "POST", "/queries", text))["id"]
        until(lambda: len(list((tmp_path / "answers/checkpoints").glob("*.json"))) > 3)
        server.kill()
        assert server.wait(60) == -signal.SIGKILL
    with serving(tmp_path) as (server, port, _):
        until(lambda: json.loads(reply(port, "GET", f"/queries/{id}"))["state"] == "done")
        rows = json.loads(reply(port, "GET", f"/queries/{id}/result"))
    expected = answer_of_long(text, keys=12_000)
    assert len(rows) == 26 and [tuple(row.values())[:4] for row in rows] == [row[:4] for row in expected]
    assert [row["s"] for row in rows] == pytest.approx([s for *_, s in expected])
    [(found, outputs)] = re.findall(r"continued: (\d+) of (\d+) outputs found", (tmp_path / "log").read_text())
    assert int(found) >= 3 and int(outputs) > int(found)


def test_sigterm_suspends_it_and_the_next_server_goes_on(tmp_path: Path) -> None:
    files_of_long(tmp_path, keys=4000)
    with serving(tmp_path) as (server, port, _):
        id = json.loads(reply(port, "POST", "/queries", LONG))["id"]
        until(lambda: json.loads(reply(port, "GET", f"/queries/{id}")).get("fraction", 0) > 0)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
        assert "1 queries are suspended" in server.stderr.read()  # type: ignore[union-attr]
    assert (tmp_path / "answers" / id / "bundle").is_dir()
    with serving(tmp_path) as (server, port, lines):
        assert "and goes on with 1 queries" in lines
        until(lambda: json.loads(reply(port, "GET", f"/queries/{id}"))["state"] == "done")
        rows = json.loads(reply(port, "GET", f"/queries/{id}/result"))
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    expected = answer_of_long(keys=4000)
    assert rows and [(row["g"], row["n"]) for row in rows] == [(g, n) for g, n, _ in expected]
    assert [row["s"] for row in rows] == pytest.approx([s for *_, s in expected])


def test_a_suspended_query_starts_again_where_its_tables_have_changed(tmp_path: Path) -> None:
    files_of_long(tmp_path)
    big = tmp_path / "data" / "big.parquet"
    with serving(tmp_path) as (server, port, _):
        id = json.loads(reply(port, "POST", "/queries", LONG))["id"]
        until(lambda: json.loads(reply(port, "GET", f"/queries/{id}")).get("fraction", 0) > 0)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert (tmp_path / "answers" / id / "bundle").is_dir()
    duckdb.execute(f"COPY (SELECT i % 9 AS k, i AS v FROM range(900) t(i)) TO '{big}'")
    with serving(tmp_path) as (server, port, _):
        until(lambda: json.loads(reply(port, "GET", f"/queries/{id}"))["state"] == "done")
        rows = json.loads(reply(port, "GET", f"/queries/{id}/result"))
    expected = duckdb.execute(f"WITH big AS (FROM '{big}') {LONG}").fetchall()
    assert rows and [(row["g"], row["n"]) for row in rows] == [(g, n) for g, n, _ in expected]
