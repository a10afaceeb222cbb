"""Running a server: turns, the log of slow queries, users that change, the check of a configuration, deploy files."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from server_world import ANA, SLOW, World
from waits import until

import qoop
from qoop.__main__ import _parser
from qoop.catalog.errors import Busy, Cancelled, ConfigError, NotKnown, Timeout, TooMuch
from qoop.interfaces.server.audit import AuditLog, Entry
from qoop.interfaces.server.identity.reloading import Reloading
from qoop.interfaces.server.identity.users_file import read_users
from qoop.interfaces.server.limits import Limits
from qoop.interfaces.server.logs import LineLog
from qoop.interfaces.server.queries import UserQuery
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.slow_log import SlowLog, text_digest
from qoop.interfaces.server.users import User, Users, password_digest, token_digest

DEPLOY = Path(__file__).parents[3] / "deploy"
TEXT = "SELECT n % 3 AS m, count(*) AS c FROM t WHERE n <> 4711 GROUP BY ALL ORDER BY m"


@pytest.fixture(scope="module")
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="1GB", locked=True) as session:
        session.register("t", pa.table({"n": range(1000)}))
        yield session


def served(
    session: qoop.Session, *users: User, tenants: dict[str, Limits] | None = None, slow: object = None
) -> Service:
    by_name = {user.name: user for user in users}
    return Service(session, Users(by_name, tenants), AuditLog(io.StringIO()), slow=slow)  # type: ignore[arg-type]


def rows(query: UserQuery) -> list[tuple[object, ...]]:
    try:
        found = [row for part in query.parts() for row in part.fetchall()]
    except Exception as error:
        query.end(error)
        raise
    query.end()
    return found


def test_a_query_of_a_full_user_waits_for_its_turn(session: qoop.Session) -> None:
    ann, bob = User("ann", "day", limits=Limits(queries=1, queue=1)), User("bob", "day")
    service = served(session, ann, bob)
    first, second = service.admit(ann, SLOW, "http"), service.admit(ann, TEXT, "http")
    with pytest.raises(Busy, match="1 queries of ann run and 1 wait"):
        service.admit(ann, TEXT, "http")
    assert (first.turn.is_set(), second.turn.is_set()) == (True, False)
    assert "qoop_queries_queued 1.0" in service.metrics()
    expected = duckdb.sql(TEXT.replace("FROM t", "FROM (SELECT unnest(range(1000)) AS n)")).fetchall()
    assert rows(service.admit(bob, TEXT, "http")) == expected, "another user does not wait"
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(rows(second)))
    thread.start()
    assert not answers
    first.end()
    thread.join()
    assert answers == [expected]
    assert "qoop_queries_queued 0.0" in service.metrics()


def test_a_query_in_the_queue_is_cancelled_and_times_out(session: qoop.Session) -> None:
    ann = User("ann", "day", limits=Limits(queries=1, queue=2, longest_query=0.1))
    service = served(session, ann)
    first, late, dropped = (service.admit(ann, TEXT, "http") for _ in range(3))
    dropped.cancel("no more")
    with pytest.raises(Cancelled, match="no more"):
        rows(dropped)
    with pytest.raises(Timeout, match="waited for its turn"):
        rows(late)
    first.end()
    service.admit(ann, TEXT, "http").end()


def test_an_answer_has_its_bytes_at_most(session: qoop.Session) -> None:
    ann = User("ann", "day", limits=Limits(result_bytes=1000))
    service = served(session, ann)
    with pytest.raises(TooMuch, match="more than the 1 KB that ann may have"):
        rows(service.admit(ann, "FROM t", "http"))
    assert len(rows(service.admit(ann, "FROM t LIMIT 100", "http"))) == 100


def test_slow_queries_have_a_line_without_their_text(session: qoop.Session) -> None:
    stream, ann = io.StringIO(), User("ann", "day")
    service = served(session, ann, slow=SlowLog(LineLog(stream), 0.0))
    found = rows(service.admit(ann, TEXT, "http"))
    line = json.loads(stream.getvalue())
    assert (line["user"], line["tenant"], line["by"], line["outcome"]) == ("ann", "day", "http", "done")
    assert (line["rows"], line["digest"]) == (len(found), text_digest(f"  {TEXT}\n"))
    assert 0 <= line["queue_seconds"] <= line["seconds"] and line["bytes"] > 0 and line["plan"]
    assert "4711" not in stream.getvalue()
    rows(served(session, ann, slow=SlowLog(LineLog(stream), 60.0)).admit(ann, TEXT, "http"))
    assert len(stream.getvalue().splitlines()) == 1, "a quick query has none"


def test_queries_are_answered_while_nothing_reads_the_audit_log(session: qoop.Session) -> None:
    reading, writing = os.pipe()
    text, count = f"SELECT 1 AS n -- {'x' * 90_000}", 60
    with os.fdopen(reading, encoding="utf-8") as reader:
        with os.fdopen(writing, "w", encoding="utf-8") as stream:
            audit = AuditLog(stream)
            ann = User("ann", "day")
            audited = Service(session, Users({"ann": ann}, {}), audit)
            for _ in range(count):
                audit.write(Entry("q", "ann", "http", text, "done"))
            assert rows(audited.admit(ann, "SELECT 1 AS n", "http")) == [(1,)]
            found: list[dict[str, Any]] = []
            reads = threading.Thread(target=lambda: found.extend(map(json.loads, reader)))
            reads.start()
            audit.close()
        reads.join()
    lost = sum(one.get("lost", 0) for one in found)
    kept = [one for one in found if "lost" not in one]
    assert all(one["statement"] in (text, "SELECT 1 AS n") for one in kept)
    assert 0 < lost < count and len(kept) + lost == count + 1


def users_file(path: Path, text: str) -> Path:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    os.replace(new, path)
    return path


def of_token(name: str, token: str, more: str = "") -> str:
    return f'[{name}]\ntoken = "{token_digest(token)}"\n{more}\n'


def test_users_change_while_the_server_runs(session: qoop.Session, tmp_path: Path) -> None:
    path = users_file(tmp_path / "users.toml", of_token("ann", "one") + of_token("bob", "two"))
    service = Service(session, read_users(path), AuditLog(io.StringIO()))
    users = service.users
    bob = users.of_token("two")
    with Reloading(path, service.reload, 0.01):
        more = 'queries = 3\ntenant = "night"\n[tenants.night]\nrows = 5'
        users_file(path, of_token("ann", "three", more))
        until(lambda: len(users) == 1)
        for token in ("one", "two"):
            with pytest.raises(NotKnown):
                users.of_token(token)
        assert service.limits(users.of_token("three")) == Limits(queries=3, rows=5)
        with pytest.raises(NotKnown, match="there is no user bob any more"):
            service.admit(bob, "SELECT 1", "postgres")
        users_file(path, "[ann\n")
        until(lambda: path.stat().st_size == 5)
        users_file(path, of_token("ann", "four") + of_token("eve", "five"))
        until(lambda: len(users) == 2)
        assert users.of_token("four").limits == Limits()


def test_users_are_read_again_at_sighup(tmp_path: Path) -> None:
    path, users = users_file(tmp_path / "users.toml", of_token("ann", "one")), Users({})
    before = signal.getsignal(signal.SIGHUP)
    try:
        with Reloading(path, users.replace, 600.0) as reloading:
            reloading.at_hangup()
            os.kill(os.getpid(), signal.SIGHUP)
            until(lambda: len(users) == 1)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_password_that_changed_is_no_longer_right() -> None:
    before = Users({"pat": User("pat", "day", password_digest("old"))})
    token = before.token_of(before.of_password("pat", "old"))
    assert before.of_token(token).name == "pat"
    before.replace(Users({"pat": User("pat", "day", password_digest("new"))}))
    with pytest.raises(NotKnown):
        before.of_password("pat", "old")
    with pytest.raises(NotKnown):
        before.of_token(token)
    assert before.of_password("pat", "new").name == "pat"


def checked(*words: str, folder: Path) -> tuple[int, str]:
    program = [sys.executable, "-m", "qoop", "serve", "--check-config", *words]
    found = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=60)
    assert not found.stdout
    return found.returncode, found.stderr


def test_a_configuration_is_checked_without_a_server(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "one.parquet")
    users_file(tmp_path / "users.toml", of_token("ann", "one"))
    words = ("one.parquet", "--users", "users.toml", "--audit", "log", "--answers", "answers")
    code, printed = checked(*words, folder=tmp_path)
    assert (code, printed) == (0, "qoop: the configuration is valid: 1 tables, 1 users\n")
    assert {path.name for path in tmp_path.iterdir()} == {"one.parquet", "users.toml"}, "nothing is written"


def test_all_faults_of_a_configuration_are_named(tmp_path: Path) -> None:
    users_file(tmp_path / "users.toml", '[ann]\nrowz = 1\nrate = -1\n[bob]\nqueue = "x"\n[tenants.day]\nslots = 0\n')
    (tmp_path / "qoop.toml").write_text('slots = -1\nmemory = "much"\n')
    (tmp_path / "cert.pem").write_text("no certificate")
    words = ("nowhere", "--users", "users.toml", "--config", "qoop.toml", "--port", "70000", "--queries", "0")
    words += ("--tls-cert", "cert.pem", "--tls-key", "key.pem", "--audit", "no/log")
    code, printed = checked(*words, folder=tmp_path)
    assert code == 2
    for fault in (
        "--queries must be 1 or more", "--port must be from 0 to 65535", "ann has no option rowz",
        "ann: rate must be a number above 0", "ann needs either a token or a password", "bob: queue must be a number",
        "bob needs either", "tenants.day: slots must be", "there is no file key.pem", "cannot write no/log",
        "qoop.toml: slots must be", "qoop.toml: memory: 'much' is not a size", "there is no nowhere",
    ):  # fmt: skip
        assert fault in printed, printed
    assert all(line.startswith("qoop: ") for line in printed.splitlines())


def test_the_dashboard_has_exported_metrics_only(world: World) -> None:
    world.sql("SELECT nix FROM t")
    world.quiet()
    text = world.ask("GET", "/metrics").body.decode()
    exported = {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}
    exported |= {"qoop_container_memory_bytes", "qoop_container_memory_limit_bytes"}  # in a container
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    shown += [one["query"] for one in dashboard["templating"]["list"]]
    names = {name for text in shown for name in re.findall(r"\b(?:qoop|process)_\w+", text)}
    assert len(names) > 15 and names <= exported, names - exported
    labels = {label for text in shown for found in re.findall(r"by \(([\w, ]+)\)", text) for label in found.split(", ")}
    assert all(f'{label}="' in text for label in labels), labels


def test_the_container_has_metrics_of_its_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from qoop.adaptive.monitor.cgroup import Group
    from qoop.interfaces.server import metrics

    for name, text in (("memory.max", "1000000"), ("memory.current", "700"), ("memory.stat", "inactive_file 200")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(metrics, "groups", lambda: (Group(tmp_path, Path.read_text),))
    text = metrics.Counts().text({})
    assert "qoop_container_memory_bytes 500.0" in text and "qoop_container_memory_limit_bytes 1e+06" in text


def documents() -> dict[str, dict[str, object]]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    return {one["kind"]: one for one in found}


def serve_options(words: list[str]) -> argparse.Namespace:
    command = ["serve", *words]
    return _parser(command).parse_args(command)


def test_the_manifests_fit_the_command(tmp_path: Path) -> None:
    found: dict[str, object] = documents()  # type: ignore[assignment]
    deployment, service, budget = (found[kind] for kind in ("Deployment", "Service", "PodDisruptionBudget"))
    pod = deployment["spec"]["template"]["spec"]  # type: ignore[index]
    [container] = pod["containers"]
    options = serve_options(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": options.port, "flight": options.flight_port, "postgres": options.pg_port}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == set(ports)  # type: ignore[index]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > options.grace + pause + 10, "SIGKILL comes after the end"
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "http", "scheme": "HTTPS"}
    policies = {one["resourceName"]: one["restartPolicy"] for one in container["resizePolicy"]}
    assert policies == dict.fromkeys(("cpu", "memory"), "NotRequired")
    assert set(container["resources"]) == {"requests", "limits"}
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    files = [*options.paths, str(options.users), str(options.tls_cert), str(options.tls_key), str(options.answers)]
    assert all(any(file.startswith(mount) for mount in mounts) for file in files)
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    [answers] = [one for one in pod["volumes"] if one["name"] == "answers"]  # outlives a pod, and pods share it
    claim: dict[str, Any] = found["PersistentVolumeClaim"]  # type: ignore[assignment]
    assert answers["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]  # type: ignore[index]
    assert service["spec"]["selector"] == labels == budget["spec"]["selector"]["matchLabels"]  # type: ignore[index]
    assert budget["spec"]["minAvailable"] < deployment["spec"]["replicas"]  # type: ignore[index]


def test_the_containerfile_fits_the_command() -> None:
    lines = dict(
        line.split(" ", 1) for line in (DEPLOY / "Containerfile").read_text().splitlines() if line[:1].isupper()
    )
    program, command = json.loads(lines["ENTRYPOINT"]), json.loads(lines["CMD"])
    assert program == ["qoop", "serve"] and str(serve_options(command).answers) == "/answers"
    assert lines["EXPOSE"].split()[0] == str(serve_options([]).port)


def test_probes_and_scrapes_by_another_name_need_an_allowed_host(world: World) -> None:
    from dataclasses import replace

    from qoop.interfaces.server.http_server import HttpServer
    from qoop.interfaces.server.timeouts import ClientLimits, Place

    assert world.ask("GET", "/healthz", token=None, host="10.0.0.7:8080").status == 400
    with HttpServer(world.service, Place(), ClientLimits(hosts=("*",))) as server:
        pod = replace(world, server=server)
        assert pod.ask("GET", "/healthz", token=None, host="10.0.0.7:8080").status == 200
        assert pod.ask("GET", "/metrics", token=ANA, host="10.0.0.7:8080").status == 200


def test_a_file_of_users_names_each_fault_of_its_issuer(tmp_path: Path) -> None:
    path = users_file(tmp_path / "users.toml", '[oidc]\nissuer = "http://login.example.com"\nusers = "a"\n')
    with pytest.raises(ConfigError) as error:
        read_users(path)
    assert "oidc has no option users" in str(error.value) and "oidc needs audience" in str(error.value)
    users_file(path, '[oidc]\nissuer = "http://login.example.com"\naudience = "qoop"\n')
    with pytest.raises(ConfigError, match=r"oidc: http://login.example.com must be a URL with https"):
        read_users(path)
