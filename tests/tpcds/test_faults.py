"""TPC-DS while slots, memory, kernels and checkpoints fail at random: the answers are DuckDB's, nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from fault_world import clean_session, failing_at_random, failures_of, resized_at_random

from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle, is_empty_answer
from qoop.tpcds.queries import text

SAMPLE = (39, 51, 95)
SEEDS = {number: 1000 + number for number in range(1, 100)}


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    folder = tmp_path / "spill"
    folder.mkdir()
    return folder


@pytest.fixture
def session(benchmark_texts: None, tpcds_test: Path, spill: Path) -> Iterator[Session]:
    with clean_session(tpcds_test, spill) as session:
        yield session


def right(session: Session, oracle: Oracle, number: int, **options: float) -> tuple[pa.Table, int]:
    """Run the query; its answer, which is DuckDB's, and how many attempts failed."""
    theirs = oracle.answer(text(number))
    assert not is_empty_answer(theirs)
    job = session.submit(text(number), **options)  # type: ignore[arg-type]
    ours = job.result(120).arrow()
    difference = oracle.judge(text(number), ours, theirs)
    assert difference is None, f"query {number}: {difference}\n" + "\n".join(map(str, job.history()))
    return ours, failures_of(job)


def pause(session: Session, number: int) -> float:
    """Seconds between changes: eight or so in the time the query takes undisturbed."""
    job = session.submit(text(number))
    job.result(120)
    return max(0.002, sum(report.seconds for report in job.stage_reports()) / 16)


@pytest.mark.parametrize("notice", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_slots_and_memory_come_and_go(session: Session, tpcds_oracle: Oracle, notice: bool) -> None:
    failed = 0
    for number in SAMPLE:
        with resized_at_random(session, SEEDS[number], pause(session, number), notice):
            failed += right(session, tpcds_oracle, number)[1]
    print(f"seeds {[SEEDS[number] for number in SAMPLE]}: {failed} attempts failed")
    assert failed > 0, "nothing was interrupted"


def test_kernels_and_checkpoints_fail(session: Session, tpcds_oracle: Oracle) -> None:
    with failing_at_random(seed=7, often=0.15) as faults:
        failed = sum(right(session, tpcds_oracle, number)[1] for number in SAMPLE)
    print(f"seed 7: {failed} attempts failed")
    assert failed >= faults.interrupted > 0, "nothing failed"


def test_several_jobs_share_what_comes_and_goes(session: Session, tpcds_oracle: Oracle) -> None:
    texts = [text(number) for number in SAMPLE]
    with resized_at_random(session, seed=11, pause=0.05):
        jobs = [session.submit(each, weight=1.0 + place % 3) for place, each in enumerate(texts)]
        answers = [job.result(120).arrow() for job in jobs]
    for each, ours in zip(texts, answers, strict=True):
        assert tpcds_oracle.judge(each, ours) is None
    print(f"seed 11: {sum(map(failures_of, jobs))} attempts failed")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_every_query_survives_everything(session: Session, tpcds_oracle: Oracle, seed: int) -> None:
    pauses = {number: pause(session, number) for number in range(1, 100)}
    for number in range(1, 100):
        own = 100 * seed + number
        print(f"query {number}, seed {own}")
        resized = resized_at_random(session, own, pauses[number], notice=seed % 2 == 1)
        with failing_at_random(own, often=0.02), resized:
            right(session, tpcds_oracle, number)
