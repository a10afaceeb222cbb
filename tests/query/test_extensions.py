"""Extensions of DuckDB in a session: each instance that works for it loads them; files on the web are read by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.catalog import extensions


@pytest.fixture
def session() -> Iterator[qoop.Session]:
    with qoop.connect(slots=1, memory="500MB") as made:
        yield made


@pytest.mark.skipif(not extensions.is_here("tpch"), reason="duckdb-extension-tpch is not installed")
def test_every_instance_of_duckdb_has_what_was_loaded(session: qoop.Session, tmp_path: Path) -> None:
    text = (
        f"SELECT count(*) AS n, max(query_nr) AS last FROM tpch_queries() JOIN '{tmp_path}/t.parquet' ON query_nr = x"
    )
    session.sql(f"COPY (SELECT range AS x FROM range(10)) TO '{tmp_path}/t.parquet'")
    with pytest.raises(qoop.BindError):
        session.sql(text)
    assert session.sql(f"INSTALL tpch; LOAD tpch; LOAD TPCH; {text}").fetchall() == [(9, 9)]
    session.sql("CREATE TABLE kept (n INTEGER); INSERT INTO kept SELECT query_nr FROM tpch_queries()")
    session.sql("UPDATE kept SET n = (SELECT count(*) FROM tpch_queries())")
    assert session.sql("SELECT sum(n) FROM kept").fetchall() == [(22 * 22,)]
    session.resize(slots=0)
    session.submit(text).suspend(tmp_path / "paused")
    assert qoop.resume(tmp_path / "paused", slots=1, memory="500MB").result().fetchall() == [(9, 9)]


@pytest.mark.skipif(not extensions.is_here("tpch"), reason="duckdb-extension-tpch is not installed")
def test_an_extension_is_loaded_from_its_file(session: qoop.Session) -> None:
    session.sql(f"LOAD '{extensions.file_of('tpch')}'; LOAD json")
    assert session.sql("SELECT count(*) FROM tpch_answers()").fetchall() == [(66,)]


def test_what_cannot_be_loaded_is_reported(session: qoop.Session, tmp_path: Path) -> None:
    (tmp_path / "odd.duckdb_extension").write_bytes(b"odd" * 1000)
    for text, wrong in (
        ("LOAD nonsense", "nonsense is not on this machine .* pip install duckdb-extension-nonsense=="),
        (f"LOAD '{tmp_path}/none.duckdb_extension'", "is not on this machine"),
        (f"LOAD '{tmp_path}/odd.duckdb_extension'", "DuckDB does not load"),
        ("INSTALL nonsense FROM 'http://127.0.0.1:9'", "cannot install nonsense"),
    ):  # fmt: skip
        with pytest.raises(qoop.ConfigError, match=wrong):
            session.sql(text)
    assert session.sql("SELECT 1 AS a").fetchall() == [(1,)]


def test_a_locked_session_loads_nothing() -> None:
    with qoop.connect(slots=1, memory="500MB", locked=True) as session:
        for text in ("LOAD httpfs", "INSTALL httpfs"):
            with pytest.raises(qoop.Forbidden):
                session.sql(text)


class _Files(BaseHTTPRequestHandler):
    """Files of a folder, and parts of them."""

    folder: Path

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.folder / self.path.strip("/")
        if not path.is_file():
            self.send_error(404)
            return
        data, bytes_range = path.read_bytes(), self.headers.get("Range")
        first, last = (
            (int(part) for part in bytes_range.removeprefix("bytes=").split("-")) if bytes_range else (0, len(data) - 1)
        )
        self.send_response(206 if bytes_range else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        if bytes_range:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data[first : last + 1])

    def log_message(self, *_: object) -> None:
        """Nothing is told."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    with duckdb.connect() as made:
        made.execute(f"COPY (SELECT range AS x, range % 7 AS y FROM range(1000)) TO '{tmp_path}/n.parquet'")
        made.execute(f"COPY (SELECT range AS y, 'é' || range AS name FROM range(5)) TO '{tmp_path}/names.csv'")
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Files", (_Files,), {"folder": tmp_path}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.skipif(not extensions.is_here("httpfs"), reason="duckdb-extension-httpfs is not installed")
def test_files_on_the_web_are_read_where_httpfs_is_loaded(session: qoop.Session, place: str, tmp_path: Path) -> None:
    text = (
        "SELECT name, count(*) AS n, sum(x) AS s FROM '{0}/n.parquet' JOIN read_csv('{0}/names.csv') USING (y) "
        "GROUP BY name"
    )
    with pytest.raises(qoop.SourceError, match=r"cannot read http://.*/n.parquet yet: LOAD httpfs first"):
        session.sql(text.format(place))
    found = session.sql(f"LOAD httpfs; {text.format(place)}").fetchall()
    expected = duckdb.sql(text.format(tmp_path)).fetchall()
    assert sorted(found) == sorted(expected) != []
    session.sql(f"CREATE VIEW web AS FROM '{place}/names.csv'; CREATE TABLE own AS SELECT 3 AS y")
    assert session.sql("SELECT name FROM web JOIN own USING (y)").fetchall() == [("é3",)]
    with pytest.raises(qoop.QoopError, match="404"):
        session.sql(f"FROM '{place}/none.parquet'")
