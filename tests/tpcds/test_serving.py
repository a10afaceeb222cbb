"""`qoop bench serve`: every way of asking is timed, and gives all rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("adbc_driver_flightsql", reason="the client of Flight SQL is not installed")

from qoop.__main__ import main


def test_all_ways_are_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "serve.json"
    asked = [
        "bench",
        "serve",
        "--queries",
        "3",
        "--rows",
        "50000",
        "--repeat",
        "1",
        "--slots",
        "1",
        "--json",
        str(path),
    ]
    assert main(asked) == 0
    told, found = capsys.readouterr().out, json.loads(path.read_text())
    assert "ms by http" in told and "ms by flight" in told and "1 MB: sent in" in told
    ways = {"session", "http", "flight"}
    assert found["short"].keys() == ways | {"driver"} and found["large"].keys() == ways | {"arrow"}
    assert min(*found["short"].values(), *found["large"].values()) > 0 and found["bytes"] == 50_000 * 24


def test_a_bench_of_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "serve", "--rows", "0"]) == 1
    assert "must be 1 or more" in capsys.readouterr().err
