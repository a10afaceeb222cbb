"""Answers that are larger than the memory they may take: they lie in files, and are read as they are asked for."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import qoop
from qoop.catalog.errors import DiskFull, ExecutionError, QueryError
from qoop.query.result import Result

ROWS = 400_000
TEXT = f"SELECT i, i % 7 AS seven, 'row ' || i AS s, i::DECIMAL(9, 2) AS d FROM range({ROWS}) t(i) ORDER BY i DESC"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[qoop.Session]:
    monkeypatch.setenv("QOOP_SPILL", str(tmp_path / "spill"))
    with qoop.connect(slots=2, memory="60MB") as made:
        yield made


@pytest.fixture
def large(session: qoop.Session) -> Result:
    before = pa.total_allocated_bytes()
    result = session.sql(TEXT)
    assert pa.total_allocated_bytes() - before < result._raw.nbytes / 10, "it is no test of what it is meant for"
    return result


@pytest.fixture(scope="module")
def theirs() -> pa.Table:
    return duckdb.sql(TEXT).to_arrow_table()


READ: dict[str, Callable[[Result], pa.Table]] = {
    "arrow": lambda result: result.arrow(),
    "batches": lambda result: result.batches().read_all(),
    "capsule": lambda result: pa.table(result),
    "slices": lambda result: pa.concat_tables([result.slice(0, 123_456).arrow(), result.slice(123_456, ROWS).arrow()]),
}


@pytest.mark.parametrize("way", READ)
def test_every_way_of_reading_gives_the_rows_of_duckdb(large: Result, theirs: pa.Table, way: str) -> None:
    assert len(large) == ROWS
    assert READ[way](large).combine_chunks().equals(theirs.combine_chunks())


def test_rows_come_one_by_one_many_at_a_time_and_as_text(large: Result) -> None:
    expected = duckdb.execute(TEXT).fetchmany(20)
    assert [large.fetchone(), *large.fetchmany(18), large.fetchone()] == expected
    assert next(large.text_rows()) == ("399999", "5", "row 399999", "399999.00")
    assert next(large.json_rows()) == '{"i":399999,"seven":5,"s":"row 399999","d":399999.0}'
    assert large.df().shape == (ROWS, 4)
    assert "row 399999" in repr(large)


def test_a_copy_holds_all_rows_in_order(large: Result, tmp_path: Path, theirs: pa.Table) -> None:
    large.copy_to(tmp_path / "out.parquet")
    assert duckdb.read_parquet(str(tmp_path / "out.parquet")).to_arrow_table().equals(theirs)


def test_a_copy_in_parts_is_a_folder(session: qoop.Session, tmp_path: Path, theirs: pa.Table) -> None:
    out = tmp_path / "out"
    options = "(FORMAT parquet, PER_THREAD_OUTPUT true, FILE_SIZE_BYTES '1MB')"
    assert session.sql(f"COPY ({TEXT}) TO '{out}' {options}").fetchall() == [(ROWS,)]
    assert len(list(out.iterdir())) > 1
    assert duckdb.sql(f"FROM '{out}/*.parquet' ORDER BY i DESC").to_arrow_table().equals(theirs)


@pytest.mark.parametrize("before", [b"kept", None])
def test_a_copy_that_fails_leaves_all_as_it_was(large: Result, tmp_path: Path, before: bytes | None) -> None:
    file = tmp_path / "out" / "x.csv"
    file.parent.mkdir()
    if before is not None:
        file.write_bytes(before)
    with pytest.raises(QueryError, match=r"x\.csv"):
        large.copy_to(file, "(FORMAT csv, NO_SUCH_OPTION 1)")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
        with pytest.raises(DiskFull, match=r"x\.csv"):
            large.copy_to(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert [path.read_bytes() for path in file.parent.iterdir()] == ([] if before is None else [before])
    large.copy_to(file)
    assert len(file.read_bytes()) > 5_000_000


def test_it_outlives_the_session(session: qoop.Session, large: Result, theirs: pa.Table) -> None:
    session.close()
    assert large.arrow().equals(theirs)


def test_parts_stream_from_files(session: qoop.Session, theirs: pa.Table) -> None:
    before = pa.total_allocated_bytes()
    stream = session.submit(TEXT).batches()
    assert pa.total_allocated_bytes() - before < 4e6
    assert stream.read_all().combine_chunks().equals(theirs.combine_chunks())


def test_no_file_has_a_name(large: Result, tmp_path: Path) -> None:
    assert len(large) == ROWS and not list((tmp_path / "spill").rglob("*.arrow"))


def test_a_session_that_fails_late_says_what_duckdb_says(session: qoop.Session) -> None:
    with pytest.raises(ExecutionError, match="Could not convert string 'x390000'"):
        session.sql(f"SELECT CASE WHEN i < 390000 THEN 1 ELSE CAST('x' || i AS INT) END AS n FROM range({ROWS}) t(i)")
