"""The seconds of tasks: those that they waited, read, computed and wrote are all there are, and are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from waits import until

import qoop
from qoop.adaptive.retrace.reading import read_trace
from qoop.adaptive.retrace.rerun import rerun
from qoop.engine.history import Began, Record, Saved, Started, Succeeded, Waiting
from qoop.engine.replay import JobReplay
from qoop.engine.task import AttemptId, TaskAccount, TaskId
from qoop.interfaces.page.job_progress import JobProgress
from qoop.planner.plan import Resources
from qoop.query.drawing.timeline import timeline
from qoop.query.job import Job
from qoop.session.session import Session

ROWS = 400_000
QUERY = "SELECT item, sum(price) AS total, count(DISTINCT price) AS n FROM sales GROUP BY item"


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Path]]:
    path = tmp_path_factory.mktemp("trace") / "session.jsonl"
    with qoop.connect(slots=2, memory="1GB", trace=str(path), staged=True) as session:
        rows = pa.table({"item": [i % 5000 for i in range(ROWS)], "price": [i * 7919 % 9973 for i in range(ROWS)]})
        session.register("sales", rows)
        yield session, path


def spans(history: list[Record]) -> dict[AttemptId, float]:
    began = {one.attempt: one.at for one in history if isinstance(one, Started)}
    return {one.attempt: one.at - began[one.attempt] for one in history if isinstance(one, Succeeded)}


def test_the_parts_of_a_task_are_all_of_its_time(traced: tuple[Session, Path]) -> None:
    """From the grant, which the driver notes, to the report, which it notes as well."""
    until(lambda: well_known(traced[0].submit(QUERY)), "much of the time is in no part")


def well_known(job: Job) -> bool:
    """True if the parts are most of the time; on a crowded machine the driver may hear of an end late."""
    assert len(job.result().fetchall()) == 5000
    accounts = {one.attempt: one.account for one in job.history() if isinstance(one, Succeeded)}
    took = spans(job.history())
    assert len(accounts) > 2
    for attempt, account in accounts.items():
        assert account is not None
        assert min(account.waited, account.read, account.computed, account.wrote) >= 0
        assert account.seconds <= took[attempt] + 0.001
    for one in (one for one in job.history() if isinstance(one, Succeeded) and one.account):
        account, seconds = one.account, one.committed.seconds  # until the output is handed to the store
        assert account.read + account.computed <= seconds + 0.01
        assert seconds <= account.read + account.computed + account.wrote
    known = sum(account.seconds for account in accounts.values() if account is not None)
    return known >= 0.6 * sum(took.values()) - 0.01 * len(accounts)


def test_tasks_read_compute_and_write(traced: tuple[Session, Path]) -> None:
    job = traced[0].submit(QUERY.replace("count", "max"))
    job.result()
    total = sum((one.account for one in job.history() if isinstance(one, Succeeded) and one.account), TaskAccount())
    assert total.computed > 0 and total.wrote > 0 and total.read > 0


def test_what_tasks_did_is_told_by_explain_history_and_by_the_trace(traced: tuple[Session, Path]) -> None:
    session, path = traced
    assert " computing" in session.explain(QUERY, history=True)
    recording = read_trace(path)
    again = rerun(recording)
    assert again.difference is None
    known = [one.account for job in again.jobs for one in job.history if isinstance(one, Succeeded)]
    assert known and all(known)


# --- attempts that wait -------------------------------------------------------------------------------------

ONE, TWO = (AttemptId(TaskId("job1", "s", part), part + 1) for part in range(2))
SLOT = Resources(1, 100)


def waiting_history() -> list[Record]:
    from qoop.engine.task import CheckpointKey

    one, two = CheckpointKey("s", "l", 0), CheckpointKey("s", "l", 1)
    return [
        Started(1.0, ONE, one, "m", SLOT), Waiting(1.0, ONE, one, "m"), Started(2.0, TWO, two, "m", SLOT),
        Waiting(2.5, TWO, two, "m"), Began(4.0, ONE, one, "m", 3.0), Began(5.0, TWO, two, "m", 3.0),
    ]  # fmt: skip


def test_a_job_waits_until_its_first_task_begins() -> None:
    history = waiting_history()
    assert JobReplay.of(history).waited(9.0) == 4.0
    assert JobReplay.of(history[:4]).waited(9.0) == 9.0
    assert JobReplay.of([one for one in history if not isinstance(one, Waiting | Began)]).waited(9.0) == 1.0
    assert JobReplay.of([one for one in history if getattr(one, "attempt", None) != ONE]).waited(9.0) == 5.0


def test_the_page_tells_queued_tasks_from_running_ones() -> None:
    progress = JobProgress()
    progress.take(waiting_history()[:5])
    assert [task.state for task in progress.running.values()] == ["RUNNING", "QUEUED"]
    assert progress.replay.first_began == 4.0
    progress.take(waiting_history()[5:])
    assert [task.begun for task in progress.running.values()] == [4.0, 5.0]


def test_the_timeline_draws_the_waiting_apart() -> None:
    bars = timeline(waiting_history()).bars
    assert [(bar.begun, bar.ended, bar.outcome) for bar in bars] == [
        (1.0, 4.0, "queued"), (2.0, 5.0, "queued"), (4.0, 5.0, "running"), (5.0, 5.0, "running"),
    ]  # fmt: skip


def test_a_durable_output_says_how_long_writing_it_took(tmp_path: Path) -> None:
    with qoop.connect(slots=2, memory="1GB", checkpoints=tmp_path / "kept", staged=True) as session:
        session.register("sales", pa.table({"item": [i % 50 for i in range(10_000)], "price": list(range(10_000))}))
        job = session.submit(QUERY)
        job.result()
    saved = [one for one in job.history() if isinstance(one, Saved)]
    assert all(0 <= one.seconds <= one.behind for one in saved)
