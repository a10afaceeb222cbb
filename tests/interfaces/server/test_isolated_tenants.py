"""Tenants with `isolation = "process"`: their kernels are child processes, and a dead one costs one query."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from waits import until

import qoop
from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.engine.backends.local import LocalBackend
from qoop.interfaces.server.audit import AuditLog
from qoop.interfaces.server.limits import Limits
from qoop.interfaces.server.queries import UserQuery
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.users import User, Users
from qoop.planner.plan import ISOLATED

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are limited on Linux alone")

ANN, BOB = User("ann", "apart"), User("bob", "")
LIGHT = "SELECT n % 3 AS rest, count(*) AS many, sum(n) AS s FROM t GROUP BY rest ORDER BY rest"
LONG = "SELECT count(*) AS n FROM t a, t b, t c, t d WHERE a.n + b.n + c.n + d.n = 7"
ROWS = pa.table({"n": range(1000)})


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with qoop.connect(slots=2, memory="1GB", locked=True) as session:
        session.register("t", ROWS)
        users = Users({one.name: one for one in (ANN, BOB)}, {"apart": Limits(isolated=True)})
        yield Service(session, users, AuditLog(io.StringIO()))


def rows(query: UserQuery) -> list[tuple[object, ...]]:
    found = [row for part in query.parts() for row in part.fetchall()]
    query.end()
    return found


def test_every_query_of_an_isolated_tenant_runs_in_a_child_process(service: Service) -> None:
    plans = [service.planned(user, LIGHT, "http") for user in (ANN, BOB)]
    assert [plan is not None and plan.root.opaque == ISOLATED for plan in plans] == [True, False]
    with duckdb.connect() as oracle:
        oracle.register("t", ROWS)
        expected = oracle.execute(LIGHT).fetchall()
    assert rows(service.admit(ANN, LIGHT, "http")) == rows(service.admit(BOB, LIGHT, "http")) == expected != []


def test_a_child_process_that_dies_costs_one_query(service: Service) -> None:
    backend, failed = service.session.backend, list[Exception]()
    assert isinstance(backend, LocalBackend)
    query, other = service.admit(ANN, LONG, "http"), service.admit(BOB, LONG, "http")

    def read() -> None:
        try:
            list(query.parts())
        except Exception as error:
            failed.append(error)
            query.end(error)

    other.begin()
    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: query.job is not None and query.job.status().used.cpu > 0)
    until(lambda: any(one.id for one in backend.processes._busy))
    [process] = backend.processes._busy
    with open(f"/proc/{process.id}/oom_score_adj", encoding="ascii") as file:
        assert int(file.read()) == 1000, "the system's killer chooses it first"
    os.kill(process.id, signal.SIGSEGV)
    reader.join()
    assert isinstance(failed[0], ExecutionError) and "the process of the query has ended" in str(failed[0])
    assert other.job is not None and not other.job.wait(0)
    other.cancel()
    other.end()
    assert rows(service.admit(ANN, "SELECT 1 AS one", "http")) == [(1,)]


def test_isolation_is_refused_where_there_are_no_child_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with qoop.connect(slots=1, memory="500MB", locked=True) as session:
        users = Users({"ann": ANN}, {"apart": Limits(isolated=True)})
        with pytest.raises(ConfigError, match="isolation of apart needs child processes"):
            Service(session, users, AuditLog(io.StringIO()))
