"""A tenth of the queries of TPC-DS against one server, by each kind of client, with DuckDB's rows."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from server_world import ANA, USERS

import qoop
from qoop.interfaces.server.audit import AuditLog
from qoop.interfaces.server.flight import FlightServer
from qoop.interfaces.server.http_server import HttpServer
from qoop.interfaces.server.postgres.server import PostgresServer
from qoop.interfaces.server.service import Service
from qoop.interfaces.server.timeouts import ClientLimits, Place
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.queries import texts

QUERIES = (3, 7, 19, 42, 52, 55, 68, 73, 79, 96)

Rows = Iterable[Sequence[Any]]
Ask = Callable[[str], Rows]


class Served:
    """The addresses of one server."""

    def __init__(self, directory: Path, around: ExitStack) -> None:
        session = around.enter_context(qoop.connect(slots=2, memory="2GB", locked=True))
        session.register_path(directory)
        service = Service(session, USERS, AuditLog(io.StringIO()))
        around.callback(service.close, 0.0)
        kinds = (HttpServer, FlightServer, PostgresServer)
        servers = [around.enter_context(kind(service, Place(), ClientLimits())) for kind in kinds]
        self.http, self.flight, self.postgres = (server.address for server in servers)


@pytest.fixture(scope="module")
def directory(benchmark_data: Callable[[str, float], Path]) -> Path:
    return benchmark_data("tpcds", 0.01)


@pytest.fixture(scope="module")
def served(directory: Path) -> Iterator[Served]:
    with ExitStack() as around:
        yield Served(directory, around)


@pytest.fixture(scope="module")
def wanted(directory: Path) -> dict[int, list[list[str]]]:
    """The rows of DuckDB."""
    with Oracle(directory) as oracle:
        found = {number: plain(rows_of(oracle.answer(texts()[number]))) for number in QUERIES}
    assert sum(map(len, found.values())) > 100
    return found


def plain(rows: Rows) -> list[list[str]]:
    """Rows in an order of their own, numbers to nine digits: ties may come in any order, and CSV knows texts only."""
    return sorted([_plain(one) for one in row] for row in rows)


def _plain(one: Any) -> str:
    if one is None or one != one:
        return ""
    try:
        number = float(one)
    except (TypeError, ValueError):
        return str(one)
    return f"{number:.9g}" if math.isfinite(number) else str(one)


def rows_of(table: pa.Table) -> Rows:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def by_adbc(served: Served, around: ExitStack) -> Ask:
    return lambda text: rows_of(_cursor(served, around, text).fetch_arrow_table())


def by_polars(served: Served, around: ExitStack) -> Ask:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return lambda text: polars.read_database(text, _adbc(served, around)).rows()


def _adbc(served: Served, around: ExitStack) -> Any:
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi", reason="adbc-driver-flightsql is not installed")
    known = {"adbc.flight.sql.authorization_header": f"Bearer {ANA}"}
    return around.enter_context(dbapi.connect(served.flight, known, autocommit=True))


def _cursor(served: Served, around: ExitStack, text: str) -> Any:
    cursor = around.enter_context(_adbc(served, around).cursor())
    cursor.execute(text)
    return cursor


def by_curl(served: Served, around: ExitStack) -> Ask:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")

    def ask(text: str) -> Rows:
        words = ["-sS", "-H", f"Authorization: Bearer {ANA}", "--data-binary", "@-", f"{served.http}/sql"]
        return [list(row.values()) for row in json.loads(run(["curl", *words], text))]

    return ask


def by_psql(served: Served, around: ExitStack) -> Ask:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    url = served.postgres.replace("//", "//ana@") + "/x"
    return lambda text: csv.reader(
        io.StringIO(run(["psql", "-X", "--csv", "-t", url], text.rstrip().rstrip(";") + ";"))
    )


def run(words: Sequence[str], given: str) -> str:
    usual = {"PGPASSWORD": ANA, "PATH": "/usr/bin:/bin"}
    return subprocess.run(words, input=given, capture_output=True, text=True, timeout=60, env=usual, check=True).stdout


def by_psycopg(served: Served, around: ExitStack) -> Ask:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    connection = around.enter_context(psycopg.connect(served.postgres, user="ana", password=ANA, autocommit=True))
    return lambda text: connection.execute(text, binary=True).fetchall()


def _engine(served: Served, around: ExitStack) -> Any:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    sqlalchemy = pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed")
    url = sqlalchemy.make_url(served.postgres).set(drivername="postgresql+psycopg", username="ana", password=ANA)
    engine = sqlalchemy.create_engine(url)
    around.callback(engine.dispose)
    return engine


def by_sqlalchemy(served: Served, around: ExitStack) -> Ask:
    """With PostgreSQL's own dialect, which finds the tables, too."""
    import sqlalchemy

    engine = _engine(served, around)
    looked = sqlalchemy.inspect(engine)
    assert {"store_sales", "item"} <= set(looked.get_table_names())
    columns = {column["name"]: column["type"] for column in looked.get_columns("item")}
    assert isinstance(columns["i_item_sk"], sqlalchemy.BigInteger | sqlalchemy.Integer)
    assert str(columns["i_current_price"]) == "NUMERIC(7, 2)"
    connection = around.enter_context(engine.connect())
    return lambda text: connection.exec_driver_sql(text).all()


def by_pandas(served: Served, around: ExitStack) -> Ask:
    import pandas as pd
    import sqlalchemy

    engine = _engine(served, around)
    return lambda text: pd.read_sql(sqlalchemy.text(text), engine).astype(object).values.tolist()


CLIENTS = (by_adbc, by_polars, by_curl, by_psql, by_psycopg, by_sqlalchemy, by_pandas)


@pytest.mark.usefixtures("benchmark_texts")
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__.removeprefix("by_"))
def test_a_tenth_of_the_queries_have_duckdbs_rows(
    served: Served, wanted: dict[int, list[list[str]]], client: Callable[[Served, ExitStack], Ask]
) -> None:
    with ExitStack() as around:
        ask = client(served, around)
        for number in QUERIES:
            assert plain(ask(texts()[number])) == wanted[number], number
