"""A trace on the page, at any time of it: what is shown is what was."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import qoop

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("uvicorn", reason="the extra server is not installed")

from qoop.adaptive.retrace.reading import read_trace
from qoop.interfaces.page.live import Live
from qoop.interfaces.page.opening import LivePage
from qoop.interfaces.page.recorded import Recorded
from qoop.interfaces.page.views import Powers


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], dict[str, Any], Recorded]]:
    """The overview and the jobs of a session at its end, and its trace."""
    path = tmp_path_factory.mktemp("trace") / "t.jsonl"
    with qoop.connect(slots=2, memory="1GB", staged=True, trace=path) as session:
        session.register("t", pa.table({"k": [n % 7 for n in range(1000)], "v": list(range(1000))}))
        for text in ("SELECT k, sum(v) FROM t GROUP BY k", "SELECT count(*) FROM t AS a JOIN t AS b USING (k)"):
            assert session.sql(text).fetchall()
        session.resize(slots=1)
        with pytest.raises(qoop.ExecutionError):
            session.sql("SELECT error('no <b>') FROM t")
        live = Live(session, Powers())
        views = {line["id"]: live.job(line["id"]) for line in live.overview()["jobs"]}
        overview = live.overview()
    yield overview, views, Recorded(read_trace(path), path.name)


def test_at_its_end_a_trace_looks_as_the_session_did(
    both: tuple[dict[str, Any], dict[str, Any], Recorded],
) -> None:
    overview, views, recorded = both
    found = recorded.overview()
    assert [same(line) for line in found["jobs"]] == [same(line) for line in overview["jobs"]]
    assert [size[1] for size in found["capacity"]] == [2, 1]
    assert found["wall"] == pytest.approx(overview["wall"], abs=1.0)
    assert found["remarks"] == [] and len(views) == 3
    for id, view in views.items():
        assert same(recorded.job(id)) == same(view)


def same(view: dict[str, Any]) -> dict[str, Any]:
    """The view without what a trace tells otherwise, or not at all: the map is filled as time allows."""
    left_out = ("map", "rho", "left", "error", "whole", "plans")
    kept = {name: one for name, one in view.items() if name not in left_out}
    return json.loads(json.dumps(kept, sort_keys=True))  # type: ignore[no-any-return]


def test_at_a_time_before_there_is_what_had_happened_by_then(
    both: tuple[dict[str, Any], dict[str, Any], Recorded],
) -> None:
    _, _, recorded = both
    assert recorded.overview(at=0.0)["jobs"] == [] and recorded.overview(at=-1.0)["now"] == 0
    [first] = [line for line in recorded.overview()["jobs"] if line["id"] == "job1"]
    middle = (first["started"] + first["ended"]) / 2
    then = recorded.overview(at=middle)
    [line] = then["jobs"]
    assert (line["id"], line["ended"], line["used_slots"] > 0) == ("job1", None, True)
    assert then["now"] == pytest.approx(middle, abs=1e-3) and then["span"][1] >= first["ended"]
    view = recorded.job("job1", at=middle)
    assert "RUNNING" in {task["state"] for task in view["tasks"]}
    assert all(task["start"] <= middle + 1e-3 for task in view["tasks"])
    with pytest.raises(qoop.QoopError, match="there is no job job2 at that time"):
        recorded.job("job2", at=middle)


def test_the_order_in_which_times_are_looked_at_changes_nothing(
    both: tuple[dict[str, Any], dict[str, Any], Recorded],
) -> None:
    """Jobs that have ended are remembered, so that a slider does not go through all of them at each step."""
    recorded = both[2]
    times = [recorded.overview()["span"][1] * part / 10 for part in range(11)]
    forth = [recorded.overview(at) for at in times]
    back = [recorded.overview(at) for at in reversed(times)]
    assert forth == back[::-1] and forth[0] != forth[-1]


def test_a_page_of_a_trace_may_only_look(both: tuple[dict[str, Any], dict[str, Any], Recorded]) -> None:
    with LivePage(both[2]) as page:
        with urllib.request.urlopen(f"{page.url}overview?at=0.0") as answer:
            assert json.load(answer)["jobs"] == []
        with urllib.request.urlopen(f"{page.url}jobs/job1?at=1e9") as answer:
            assert json.load(answer)["state"] == "SUCCEEDED"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"{page.url}jobs/job1/cancel", b"")
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"{page.url}overview?at=soon")


def test_the_command_says_what_is_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from qoop.__main__ import main

    (tmp_path / "x.jsonl").write_text("no\n")
    assert main(["page", str(tmp_path / "x.jsonl")]) == 1
    assert "is no trace of qoop" in capsys.readouterr().err
