"""A query that loses most of its memory in mid-query goes on by a plan that fits, if a session of that size has one."""

from __future__ import annotations

from pathlib import Path

import pytest
from waits import until

import qoop
from qoop.engine.history import Started
from qoop.tpcds.oracle import Oracle, is_empty_answer
from qoop.tpcds.queries import text

RANKED = 67
"""A window over groups: as one task it needs more than 75 MB, and does not spill."""


@pytest.mark.usefixtures("benchmark_texts")
def test_what_one_task_cannot_do_with_the_memory_there_is_many_can(tpcds_test: Path) -> None:
    with qoop.connect(slots=2, memory="2GB") as session, Oracle(tpcds_test) as oracle:
        session.register_folder(tpcds_test)
        session.alternatives(text(RANKED))  # for 2 GB
        job = session.submit(text(RANKED))
        until(lambda: any(isinstance(record, Started) for record in job.history()))
        session.resize(memory="150MB")
        answer = job.result().arrow()
        theirs = oracle.answer(text(RANKED))
        assert not is_empty_answer(theirs)
        assert oracle.judge(text(RANKED), answer, theirs) is None
