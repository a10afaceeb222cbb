"""The page of a session over plain HTTP: what it shows, and whom it turns away."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.adaptive.cluster import past_jobs

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("uvicorn", reason="the extra server is not installed")

from qoop.interfaces.page.opening import LivePage

SLOW = "SELECT sum(hash(a.range, b.range)) AS s FROM range(1000000) a, range(1000000) b"
NASTY = 'SELECT a AS "</script><b>", \'<img src=x onerror=alert(1)>\' AS s FROM "<t&>"'


class World:
    """A session with a page, and requests to it."""

    def __init__(self, session: qoop.Session) -> None:
        self.session = session
        self.page: LivePage = session.page()
        self.path = "/" + self.page.url.split("/", 3)[3]

    def ask(self, path: str, method: str = "GET", body: object = None, **headers: str) -> tuple[int, Any, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.page.port, timeout=60)
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body)
        connection.request(method, path if path.startswith("/") else self.path + path, data, told)
        found = connection.getresponse()
        reply = found.status, found.headers, found.read()
        connection.close()
        return reply

    def json(self, path: str) -> Any:
        status, _, body = self.ask(path)
        assert status == 200, body
        return json.loads(body)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with qoop.connect(slots=2, memory="1GB", staged=True) as session:
        session.register("<t&>", pa.table({"a": [1, 2, 3]}))
        session.register("t", pa.table({"k": [n % 7 for n in range(1000)], "v": list(range(1000))}))
        yield World(session)


def test_the_overview_has_every_query_with_its_times(world: World) -> None:
    world.session.sql("SELECT k, sum(v) FROM t GROUP BY k")
    found = world.json("overview")
    line = found["jobs"][0]
    assert (line["state"], line["fraction"], line["error"]) == ("SUCCEEDED", 1.0, None)
    assert 0 <= line["submitted"] <= line["started"] <= line["ended"] <= found["now"]
    assert found["wall"] > 1.7e9 and found["span"] is None
    assert found["machines"][0]["slots"] == 2 and found["capacity"][0][1] == 2


def test_a_job_has_its_stages_with_estimates_beside_what_they_became(world: World) -> None:
    job = world.session.submit("SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY k")
    assert len(job.result()) == 7
    view = world.json(f"jobs/{job.id}")
    assert view["sql"] == job.text and view["running"] == "A"
    assert [(one["done"], one["rows"]) for one in view["stages"]][-1] == (1, 7)
    assert view["stages"][-1]["rows_estimated"] > 0
    assert {task["state"] for task in view["tasks"]} == {"SUCCEEDED"}
    assert view["shares"][0][1] == 2 and view["map"]["best"][0][0] == "A"


def test_a_sweep_has_its_trials_with_their_curves_and_who_had_the_slots(world: World) -> None:
    step, start = "SELECT x + $to AS x FROM former", "SELECT 0.0::DOUBLE AS x"
    study = world.session.sweep(step, {"to": [1, 3, 2]}, metric="x", start=start, every=2, most=6)
    assert study.wait(60)
    [found] = world.json("overview")["sweeps"]
    assert (found["name"], found["over"], found["best"]) == (study.name, True, 1) and found["summary"] in repr(study)
    assert [(one["params"], one["value"], one["state"]) for one in found["trials"]] == [
        ("to=3", 18.0, "COMPLETE"), ("to=2", 12.0, "COMPLETE"), ("to=1", 6.0, "COMPLETE"),
    ]  # fmt: skip
    assert found["trials"][0]["curve"] == [[step, 3.0 * step] for step in range(1, 7)]
    split, width = found["split"], (found["split"]["to"] - found["split"]["from"]) / len(found["split"]["parts"])
    busy = sum(map(sum, split["parts"])) * width
    assert busy == pytest.approx(sum(one.ended - one.begun for one in study.spans), abs=0.02) and busy > 0
    assert max(map(sum, split["parts"])) <= 2.01, "a session of two slots"
    world.session.set("exact_within", 0)
    world.session.register("large", pa.table({"v": range(300_000)}))
    race = world.session.sweep("SELECT sum(v * $d) AS s FROM large", {"d": [1, 5, 3, 4, 2]}, metric="s")
    assert race.wait(60) and race.reason == "" and len(race.spans) > 5
    last = world.json("overview")["sweeps"][0]
    assert last["trials"][0]["params"] == "d=5" and 0 < max(map(sum, last["split"]["parts"])) <= 2.01


def test_a_sweep_is_one_line_among_the_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_jobs, "_ENDED", 5)
    step, first = "SELECT x + $to AS x FROM former", pa.table({"x": [0.0]})
    with qoop.connect(slots=2, memory="1GB", staged=True) as session:
        session.sql("SELECT 'before' AS said")
        studies = [session.sweep(step, {"to": [1, 3]}, metric="x", start=first, most=8) for _ in range(2)]
        assert all(study.wait(60) and sum(one.steps for one in study.trials) == 16 for study in studies)
        lines = World(session).json("overview")["jobs"]
    groups = [line["group"] for line in lines if "x + " in line["text"] and "$to" not in line["text"]]
    assert len(set(groups)) == len(groups) >= 2 and all(groups)
    assert any("'before'" in line["text"] for line in lines), "32 steps have ended since"


def test_a_query_is_cancelled_from_the_page(world: World) -> None:
    job = world.session.submit(SLOW)
    assert world.ask(f"jobs/{job.id}/cancel", "POST")[0] == 200
    with pytest.raises(qoop.Cancelled):
        job.result()
    assert world.json(f"jobs/{job.id}")["state"] == "CANCELLED"


def test_the_session_is_resized_from_the_page(world: World) -> None:
    assert world.ask("resize", "POST", {"slots": 1})[0] == 200
    assert world.session.available.cpu == 1
    assert world.json("overview")["capacity"][-1][1] == 1
    assert world.ask("resize", "POST", {"slots": 2})[0] == 200


@pytest.mark.parametrize("body", [{}, [], {"slots": -1}, {"slots": 1.5}, {"slots": True}, {"memory": "x"}, {"n": 1}])
def test_a_size_that_cannot_be_is_refused_with_words(world: World, body: object) -> None:
    status, _, told = world.ask("resize", "POST", body)
    assert status == 400 and json.loads(told)["error"]
    assert world.session.available.cpu == 2


def test_events_come_when_something_changes(world: World) -> None:
    job = world.session.submit(SLOW)
    connection = http.client.HTTPConnection("127.0.0.1", world.page.port, timeout=60)
    connection.request("GET", f"{world.path}events?job={job.id}")
    stream = connection.getresponse()
    assert stream.headers["content-type"].startswith("text/event-stream")
    told = event(stream, "job")
    assert told["id"] == job.id and told["since"] is None
    while not told["tasks"]:  # it is still being planned
        told = event(stream, "job")
    job.cancel()
    while told["state"] != "CANCELLED":
        told = event(stream, "job")
    assert told["since"] is not None and 0 < len(told["tasks"]) <= 2, "those that have changed"
    connection.close()


def event(stream: http.client.HTTPResponse, name: str) -> Any:
    """The data of the next event of that name."""
    while stream.readline().decode().strip() != f"event: {name}":
        pass
    return json.loads(stream.readline().decode().removeprefix("data: "))


def test_texts_of_users_are_escaped_in_the_rows(world: World) -> None:
    world.session.sql(NASTY)
    _, headers, body = world.ask("")
    assert b"<img src=x" not in body and b"&lt;img src=x onerror=alert(1)&gt;" in body
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer" and headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["overview", "", "jobs/job1", "events", "assets/index.html"])
def test_without_the_token_there_is_nothing(world: World, path: str) -> None:
    for token in ("", "x" * 32, "%00", "ü", world.path.split("/")[2][:-1]):
        assert world.ask(http_path(f"/page/{token}/{path}"))[0] == 404
    assert world.ask("/")[0] == 404


def http_path(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="/%")


def test_without_the_token_nothing_is_done(world: World) -> None:
    for what in ("resize", "jobs/job1/cancel", "jobs/job1/suspend"):
        assert world.ask(f"/page/{'x' * 32}/{what}", "POST", {"slots": 1})[0] == 404
        assert world.ask(f"/page/{what}", "POST", {"slots": 1})[0] == 404
        assert world.ask(what)[0] == 405, "a link does nothing"
    assert world.session.available.cpu == 2


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}"]
)
def test_a_host_of_another_name_is_refused(world: World, host: str) -> None:
    assert world.ask("overview", Host=host.format(port=world.page.port))[0] == 400


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
def test_names_of_this_machine_are_hosts(world: World, host: str) -> None:
    assert world.ask("overview", Host=host.format(port=world.page.port))[0] == 200


def test_another_page_cannot_ask(world: World) -> None:
    assert world.ask("resize", "POST", {"slots": 1}, Origin="http://evil.example")[0] == 403
    assert world.ask("resize", "POST", {"slots": 1}, Origin="null")[0] == 403
    assert world.ask("resize", "POST", {"slots": 1}, Sec_Fetch_Site="cross-site")[0] == 403
    assert world.session.available.cpu == 2


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "..%5capp.py", "%2e%2e/app.py", "/etc/passwd", "app.py", "."]
)
def test_assets_are_no_way_to_other_files(world: World, name: str) -> None:
    status, _, body = world.ask(f"{world.path}assets/{name}")
    assert status == 404 and b"import" not in body


def test_a_page_ends_with_its_session_and_its_streams_with_it() -> None:
    with qoop.connect(slots=1, memory="1GB") as session:
        world = World(session)
        assert session.page() is world.page
        connection = http.client.HTTPConnection("127.0.0.1", world.page.port, timeout=60)
        connection.request("GET", f"{world.path}events")
        stream = connection.getresponse()
        stream.readline()
    assert world.page.closed
    assert b"event: end" in stream.read()
    with pytest.raises(OSError):
        world.ask("overview")
    with pytest.raises(qoop.SessionClosed):
        session.page()


def test_the_lags_of_views_are_in_the_overview(world: World, tmp_path: Path) -> None:
    write = lambda name: pq.write_table(pa.table({"k": [1, 2], "v": [3, 4]}), tmp_path / name)  # noqa: E731
    write("a.parquet")
    world.session.register("landed", tmp_path)
    query = "SELECT k, sum(v) AS s FROM landed GROUP BY k"
    world.session.sql(f"CREATE MATERIALIZED VIEW lagging WITH (target_lag = '1 hour') AS {query}")
    assert world.json("overview")["views"] == [
        {
            "name": "lagging",
            "goal": 3600.0,
            "incremental": True,
            "error": "",
            "refreshes": [],
            "since": None,
            "sampling_error": 0.0,
        }
    ]
    write("b.parquet")
    os.utime(tmp_path / "b.parquet", (time() - 40, time() - 40))
    [status] = world.session.materialized_views()
    [view] = world.json("overview")["views"]
    assert 40 <= status.lag < 100 and view["since"] < 0
    world.session.sql("REFRESH MATERIALIZED VIEW lagging")
    [[at, lag]] = world.json("overview")["views"][0]["refreshes"]
    assert 40 <= lag < 100 and 0 < at <= world.json("overview")["now"]
    [status] = world.session.materialized_views()
    assert status.overdue == 0.0
    world.session.sql("DROP MATERIALIZED VIEW lagging")
    assert world.json("overview")["views"] == []
