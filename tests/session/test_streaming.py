"""An answer as a stream, a job that is awaited, and callbacks: what a program that embeds qoop lives with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from waits import PATIENCE, until

import qoop
from qoop.__main__ import main
from qoop.adaptive.cluster.job_status import JobStatus
from qoop.engine.history import Decided, Succeeded
from qoop.engine.kernel import Kernel
from qoop.query.job import Job
from qoop.session.session import Session

ROWS = 2_000_000
WIDE = "SELECT k, sha256(sha256(k::VARCHAR)) AS s, v::HUGEINT AS h FROM facts WHERE v % 3 = 1"
LONG = "SELECT a.k % 1000 AS g, sum(a.v * b.v) AS s FROM facts a JOIN facts b ON a.k = b.k GROUP BY g ORDER BY g"


@pytest.fixture(scope="module")
def facts() -> pa.Table:
    with duckdb.connect() as made:
        return made.sql(f"SELECT range AS k, range * 13 % 1009 AS v FROM range({ROWS})").to_arrow_table()


@pytest.fixture
def session(facts: pa.Table) -> Iterator[Session]:
    with qoop.connect(slots=4, memory="2GB") as made:
        made.register("facts", facts)
        yield made


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """All tasks but the first wait until it is set."""
    run, begun, go = Kernel.run, threading.Lock(), threading.Event()

    def run_held(*arguments: Any, **named: Any) -> Any:
        if not begun.acquire(blocking=False):
            go.wait(PATIENCE)
        return run(*arguments, **named)

    monkeypatch.setattr(Kernel, "run", run_held)
    return go


def several_parts(session: Session) -> Job:
    """A job whose answer comes in parts, of which the last has not begun when the first is there."""
    session.resize(slots=1)
    plan = next(one.plan for one in session.alternatives(WIDE).kept if one.plan.root.width > 1)
    return session.submit(WIDE, plan=plan)


def test_rows_come_before_the_job_has_ended(session: Session, held: threading.Event) -> None:
    job = several_parts(session)
    reader = job.batches()
    first = reader.read_next_batch()
    assert not job.wait(0) and not held.is_set()
    held.set()
    rest = reader.read_all()
    assert 0 < first.num_rows < len(rest)
    with duckdb.connect() as theirs:
        theirs.register("facts", session.tables()["facts"].source.data)  # type: ignore[attr-defined]
        expected = theirs.sql(WIDE).to_arrow_table()
    assert reader.schema == expected.schema
    found = pa.concat_tables([pa.Table.from_batches([first]), rest])
    assert found.sort_by("k").equals(expected.sort_by("k"))


def test_what_was_handed_out_is_not_made_again(session: Session) -> None:
    """However the slots change meanwhile."""
    session.resize(slots=4)
    text = f"{WIDE} AND k >= 0"
    job = session.submit(text)
    reader = job.batches()
    keys = [reader.read_next_batch()["k"]]
    for slots in (1, 3, 1, 4):
        session.resize(slots=slots)
        job._handle.reconsider()
        keys += [batch["k"] for batch in [next(reader, None)] if batch is not None]
    keys += [batch["k"] for batch in reader]
    found = pa.chunked_array(keys).to_numpy()
    assert len(found) == len(set(found.tolist())) == session.sql(f"SELECT count(*) FROM ({WIDE})").fetchall()[0][0]


def test_a_stream_is_handed_out_once(session: Session) -> None:
    job = session.submit("SELECT 1 AS one, 'x' AS x")
    assert job.batches().read_all().to_pydict() == {"one": [1], "x": ["x"]}
    for again in (job.batches, job.result):
        with pytest.raises(qoop.ConfigError, match="handed out"):
            again()
    empty = session.submit("SELECT k FROM facts WHERE v < 0").batches()
    assert empty.schema.names == ["k"] and empty.read_all().num_rows == 0
    failing = session.submit("SELECT 'x'::INTEGER + k FROM facts")
    with pytest.raises(qoop.ExecutionError):
        failing.batches()
    sorted_ = session.submit("SELECT k FROM facts ORDER BY k DESC LIMIT 5").batches()
    assert sorted_.read_all()["k"].to_pylist() == [ROWS - 1 - place for place in range(5)]


def test_a_stream_can_be_gone_through_again_from_its_trace(
    facts: pa.Table, held: threading.Event, tmp_path: Path
) -> None:
    with qoop.connect(slots=1, memory="1GB", trace=tmp_path / "trace") as session:
        session.register("facts", facts)
        job = several_parts(session)
        next(job.batches())
        assert not job.wait(0)
        held.set()
        job.wait(60)
    assert "PinRequested" in (tmp_path / "trace").read_text()
    assert main(["replay", str(tmp_path / "trace")]) == 0


def test_jobs_are_awaited(session: Session) -> None:
    async def both() -> list[object]:
        jobs = [session.submit(f"SELECT count(*) + {number} FROM facts") for number in range(2)]
        return [result.fetchall() for result in await asyncio.gather(*jobs)]

    assert asyncio.run(both()) == [[(ROWS,)], [(ROWS + 1,)]]

    async def failing() -> object:
        return await session.submit("SELECT 'x'::INTEGER + k FROM facts")

    with pytest.raises(qoop.ExecutionError):
        asyncio.run(failing())


def test_who_gives_up_waiting_cancels_the_job(session: Session) -> None:
    session.resize(slots=0)
    job = session.submit(LONG)

    async def wait() -> None:
        await asyncio.wait_for(job, 0.1)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())
    assert job.wait(60) and job.state == "CANCELLED"


def test_followers_hear_of_progress_and_of_decisions(session: Session) -> None:
    session.resize(slots=0, memory="200MB")
    job = session.submit(LONG)
    reports: list[JobStatus] = []
    decided: list[Decided] = []
    ended = threading.Event()

    def progress(status: JobStatus) -> None:
        reports.append(status)
        if status.progress.fraction == 1.0:
            ended.set()

    job.follow(progress, decided.append, every=0.02)
    session.resize(slots=4, memory="2GB")
    assert len(job.result(120)) == 1000 and ended.wait(60)
    assert any(one.switched and "rose from" in one.cause for one in decided), decided
    assert reports[-1].left is None and reports[0].elapsed <= reports[-1].elapsed
    during = [status.left for status in reports if status.left is not None]
    assert all(left.least <= left.likely <= left.most for left in during)
    assert sum(isinstance(record, Succeeded) for record in job.history()) > 1


def test_a_follower_that_fails_leaves_the_job_alone(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: JobStatus) -> None:
        raise ValueError("no")

    job = session.submit("SELECT count(*) FROM facts")
    job.follow(fail, every=0.01)
    assert job.result().fetchall() == [(ROWS,)]
    until(lambda: "a callback of" in caplog.text)
