"""The records for `logging` and their levels; they cost nothing where nobody listens."""

from __future__ import annotations

import logging
import subprocess
import sys

import pyarrow as pa
import pytest

import qoop
from qoop.adaptive.cluster.recording.journal import Journal, level_of
from qoop.catalog.errors import CheckpointError, ExecutionError, Revoked
from qoop.engine.history import Ended, Failed, Lost, Record, Started, Succeeded
from qoop.engine.task import AttemptId, CheckpointKey, TaskId

COUNT = "SELECT i % 3 AS d, count(*) AS n FROM big GROUP BY ALL ORDER BY d"
ATTEMPT, KEY = AttemptId(TaskId("job1", "s1", 0), 1), CheckpointKey("a" * 8, "b" * 8, 0)


def run() -> None:
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register("big", pa.table({"i": range(100_000)}))
        assert len(session.sql(COUNT)) == 3


def test_a_query_begins_and_ends_at_info_and_its_tasks_are_for_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="qoop"):
        run()
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "qoop.job"]
    info = [text for level, text in told if level == "INFO"]
    assert info[0] == f"job1: {COUNT}" and "started: " in info[1] and info[-1].endswith("the job succeeded")
    assert len(info) == 3 and not [text for level, text in told if level == "WARNING"]
    assert any("put out 3 rows" in text for level, text in told if level == "DEBUG")


@pytest.mark.parametrize("level", [logging.WARNING, logging.INFO])
def test_what_nobody_listens_to_is_not_made_into_text(
    level: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    for kind in (Started, Succeeded, Ended):
        monkeypatch.setattr(kind, "__str__", lambda record: made.append(type(record).__name__) or "text")
    with caplog.at_level(level, logger="qoop"):
        run()
    assert set(made) == ({"Ended"} if level == logging.INFO else set())


@pytest.mark.parametrize(
    ("record", "level"),
    [
        (Lost(1.0, KEY), logging.WARNING),
        (Failed(1.0, ATTEMPT, KEY, CheckpointError("cannot be read"), True), logging.WARNING),
        (Failed(1.0, ATTEMPT, KEY, Revoked("its slot is gone"), True), logging.DEBUG),
        (Ended(1.0, "FAILED", qoop.GuardMismatch("two answers")), logging.WARNING),
        (Ended(1.0, "FAILED", ExecutionError("overflow")), logging.INFO),
    ],
)
def test_what_was_mended_is_a_warning(record: Record, level: int, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal()
    with caplog.at_level(logging.DEBUG, logger="qoop"):
        journal.log("job1", [record])
        journal.log("job1", [record])  # it was told
    assert level_of(record) == level
    assert [(one.levelno, one.getMessage()) for one in caplog.records] == [(level, f"job1 {record}")]


def test_without_a_word_from_the_program_nothing_is_printed() -> None:
    code = "import qoop, logging; logging.getLogger('qoop.job').warning('lost'); qoop.connect(slots=1).sql('SELECT 7')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout and not done.stderr
