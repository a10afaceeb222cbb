"""Limits of users and of tenants; what is told to who looks after the server."""

from __future__ import annotations

import io
import json
import logging
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from server_world import SLOW, World
from waits import PATIENCE, until

import qoop
from qoop.catalog.errors import Busy, ConfigError, TooMuch, TooOften
from qoop.interfaces.server.audit import AuditLog
from qoop.interfaces.server.identity.users_file import read_users
from qoop.interfaces.server.limits import Limits, Rates
from qoop.interfaces.server.logs import logged
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.users import User, Users, token_digest
from qoop.query.job import Planned

NIGHT = Limits(queries=2, rows=100)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    users = {
        "ann": User("ann", "night"),
        "bob": User("bob", "night"),
        "cat": User("cat", "day", limits=Limits(rate=2)),
        "dan": User("dan", "often"),
        "eli": User("eli", "often"),
        "fay": User("fay", "day", limits=Limits(longest_query=PATIENCE)),
    }
    with qoop.connect(slots=1, memory="1GB", locked=True) as session:
        session.register("t", pa.table({"n": range(1000)}))
        yield Service(session, Users(users, {"night": NIGHT, "often": Limits(rate=1)}), AuditLog(io.StringIO()))


def test_a_tenant_has_so_many_queries_whoever_asks(service: Service) -> None:
    ann, bob, cat = (service.users.of_name(name) for name in ("ann", "bob", "cat"))
    assert ann and bob and cat
    running = [service.admit(ann, SLOW, "http"), service.admit(bob, SLOW, "http")]
    with pytest.raises(Busy, match="2 queries of the tenant night run"):
        service.admit(bob, "SELECT 1", "http")
    other = service.admit(cat, "SELECT 1", "http")
    for query in (*running, other):
        query.end()
    service.admit(bob, "SELECT 1", "http").end()


def test_of_a_limit_of_both_the_lesser_holds(service: Service) -> None:
    ann, cat = service.users.of_name("ann"), service.users.of_name("cat")
    assert ann and cat
    query = service.admit(ann, "FROM t", "http")
    with pytest.raises(TooMuch, match="more than the 100 rows"):
        list(query.parts())
    query.end()
    assert service.limits(cat).rows == math.inf


def test_the_planning_of_a_query_counts_for_its_limit(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, start, left = service.session.planning.plan, service.session.start, list[float]()

    def slow(text: str, reuse: bool = True) -> Planned:
        time.sleep(0.7)
        return plan(text, reuse=reuse)

    def starting(planned: Planned, *arguments: Any, timeout: float, **options: Any) -> qoop.Job:
        left.append(timeout)
        return start(planned, *arguments, timeout=timeout, **options)

    monkeypatch.setattr(service.session, "start", starting)
    monkeypatch.setattr(service.session.planning, "plan", slow)
    fay = service.users.of_name("fay")
    assert fay
    query = service.admit(fay, "SELECT count(*) FROM t", "http")
    assert list(query.parts())
    query.end()
    assert len(left) == 1 and left[0] <= PATIENCE - 0.7


def test_so_many_requests_a_minute(service: Service) -> None:
    dan, eli = service.users.of_name("dan"), service.users.of_name("eli")
    assert dan and eli
    service.admit(dan, "SELECT 1", "http").end()
    with pytest.raises(TooOften, match="the tenant often may ask 1 times a minute") as refused:
        service.admit(eli, "SELECT 1", "http")
    assert 0 < refused.value.wait <= 60


def test_requests_are_made_up_for_with_time() -> None:
    now = 0.0
    rates = Rates(lambda: now)
    let_in = 0
    for second in range(600):
        now = float(second)
        try:
            rates.take("ann", 6)
            let_in += 1
        except TooOften as error:
            assert 0 < error.wait <= 10
    assert let_in == 6 + 59, "six at once, then one each ten seconds"


def test_over_http_it_is_429_with_the_seconds_to_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(who: str, rate: float) -> None:
        error = TooOften("not now")
        error.wait = 7.2
        raise error

    monkeypatch.setattr(world.service._rates, "take", refuse)
    reply = world.sql("SELECT 1")
    assert (reply.status, reply.error, reply.headers["retry-after"]) == (429, "TooOften", "8")


def test_the_file_has_tenants(tmp_path: Path) -> None:
    secret = token_digest("a token")
    path = tmp_path / "users.toml"

    def read(more: str) -> Users:
        path.write_text(f'[ana]\ntoken = "{secret}"\ntenant = "day"\nrate = 60\n{more}')
        path.chmod(0o600)
        return read_users(path)

    assert read('slots = 2\nisolation = "process"').of_token("a token").limits == Limits(
        rate=60, slots=2, isolated=True
    )
    users = read('[tenants.day]\nqueries = 3\nlongest_query = 9\nmemory = "100MB"')
    assert users.of_tenant("day") == Limits(longest_query=9, queries=3, memory=100e6)
    assert users.of_token("a token").limits == Limits(rate=60)
    for more, wrong in (
        ("[tenants.night]\nqueries = 3", "limits of night, which no user is of"),
        (
            "[tenants.day]\nslotz = 3",
            "tenants.day has no option slotz; "
            "there are longest_query, rows, result_bytes, queries, queue, rate, slots, memory, isolation",
        ),
        ('[tenants.day]\nmemory = "much"', "tenants.day: memory: 'much' is not a size"),
        ("[tenants.day]\nmemory = 5", "tenants.day: memory: it must be at least 16MiB"),
        ('isolation = "thread"', "ana: isolation must be \"process\", not 'thread'"),
        ("[tenants.day]\nrate = 0", "tenants.day: rate must be a number above 0, not 0"),
        ("[tenants]\nday = 3", "must be tables of limits"),
    ):
        with pytest.raises(ConfigError, match=wrong):
            read(more)
    path.write_text("[tenants.day]\nqueries = 1\n")
    with pytest.raises(ConfigError, match="has no users"):
        read_users(path)


def test_metrics_tell_of_waits_in_the_format_of_prometheus(world: World) -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    world.sql("SELECT count(*) FROM t")
    until(lambda: not world.service.of(world.user("the token of ana")))
    text = world.ask("GET", "/metrics").body.decode()
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    waits = {sample.name: sample.value for sample in families["qoop_wait_seconds"].samples}
    assert waits["qoop_wait_seconds_count"] >= 1
    assert families["qoop_query_seconds"].type == "histogram"


def test_the_log_is_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with logged(path):
        logging.getLogger("qoop.session").info("one slot of %d", 2)
        try:
            raise ValueError("oh\nno")
        except ValueError:
            logging.getLogger("qoop.interfaces.server").exception("it failed")
    logging.getLogger("qoop.session").info("not this")
    first, second = map(json.loads, path.read_text().splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("info", "qoop.session", "one slot of 2")
    assert "ValueError: oh\nno" in second["error"] and second["level"] == "error"
    with pytest.raises(ConfigError, match="cannot write the log"), logged(tmp_path / "no" / "log"):
        pass


def test_each_query_is_a_span_with_its_stages_below_it() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from qoop.interfaces.server.spans import exported

    exporter = InMemorySpanExporter()
    with qoop.connect(slots=2, memory="1GB", locked=True, staged=True) as session, exported(exporter) as spans:
        session.register("t", pa.table({"n": range(1000)}))
        service = Service(session, Users(), AuditLog(io.StringIO()), spans=spans)
        user = service.users.of_header(None)
        good = service.admit(user, "SELECT n % 3 AS m, count(*) FROM t GROUP BY ALL", "http")
        assert sum(len(part) for part in good.parts()) == 3
        good.end()
        bad = service.admit(user, "SELECT nothing FROM t", "http")
        with pytest.raises(qoop.QueryError) as error:
            list(bad.parts())
        bad.end(error.value)
    made = exporter.get_finished_spans()
    queries = [span for span in made if span.parent is None]
    assert [span.attributes["qoop.outcome"] for span in queries] == ["done", "failed"]
    below = [span for span in made if span.parent is not None]
    assert below and all(span.parent.span_id == queries[0].context.span_id for span in below)
    assert all(queries[0].start_time <= span.start_time <= span.end_time <= queries[0].end_time for span in below)
    assert "nothing" in queries[1].status.description
