"""Queries that are suspended on 4 slots, go on on 1 with a quarter of the memory, and come back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import qoop
from qoop.catalog.errors import ConfigError
from qoop.query.job import Job
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle, is_empty_answer
from qoop.tpcds.queries import texts

SAMPLE = (39, 95)
NUMBERS = [number if number in SAMPLE else pytest.param(number, marks=pytest.mark.slow) for number in range(1, 100)]


def suspended(session: Session, job: Job, path: Path, fraction: float) -> bool:
    """Suspend the job when this part of its work is done; False if it has ended before."""
    while job.progress().fraction < fraction and not job.wait(0.002):
        pass
    try:
        job.suspend(path)
    except ConfigError:
        assert job.state == "SUCCEEDED"
        return False
    return True


@pytest.mark.parametrize("number", NUMBERS)
def test_a_query_moves_twice(
    number: int, benchmark_texts: None, tpcds_test: Path, tpcds_oracle: Oracle, tmp_path: Path
) -> None:
    random_ = random.Random(number)
    text = texts()[number]
    with qoop.connect(slots=4, memory="2GB") as session:
        session.register_folder(tpcds_test)
        job = session.submit(text)
        moved = suspended(session, job, tmp_path / "there", random_.uniform(0.0, 0.7))
        answer = None if moved else job.result().arrow()
    if moved:
        with qoop.connect(slots=1, memory="500MB") as session:
            job = session.resume(tmp_path / "there")
            back = suspended(session, job, tmp_path / "back", random_.uniform(0.5, 0.9))
            answer = None if back else job.result().arrow()
        if back:
            answer = qoop.resume(tmp_path / "back", slots=4, memory="2GB").result().arrow()
    assert answer is not None
    theirs = tpcds_oracle.answer(text)
    assert not is_empty_answer(theirs)
    difference = tpcds_oracle.judge(text, answer, theirs)
    assert difference is None, f"query {number}: {difference}"
