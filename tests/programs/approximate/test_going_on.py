"""Answers that go on in another session over the same checkpoints: after kill -9, and after it was stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.catalog.errors import Cancelled, ConfigError
from qoop.programs.approximate.answer import Answer
from qoop.programs.approximate.edition import Edition
from qoop.session.session import Session

ROWS = 537 * 2048
"""Enough for four rounds: of a process that is killed at the second edition the last has not begun. Pieces are of one
size and prices small, so that sums, also of cubes, are of whole numbers and the same in any order."""

TEXT = "SELECT id, count(*) AS n, sum(price) AS s, avg(price) AS a FROM sales GROUP BY id ORDER BY id"

GROWS = f"""
import os, signal, sys
import qoop
with qoop.connect(slots=2, memory="1GB", checkpoints=sys.argv[1] + "/kept", reuse=True) as session:
    session.register("sales", sys.argv[3])
    for edition in session.approximate({TEXT!r}, error=0, seed=1).editions():
        print(edition.result.fetchall(), flush=True)
        if edition.number == int(sys.argv[2]):
            session.backend.store.flush()  # outputs are written behind the tasks: what still waits is lost
            os.kill(os.getpid(), signal.SIGKILL)  # the next round runs
"""


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    folder = Path(tmp_path_factory.mktemp("sales"))
    table = pa.table({"id": rng.integers(0, 6, ROWS), "price": rng.integers(1, 10, ROWS)})
    pq.write_table(table, folder / "sales.parquet", row_group_size=100_000)
    return folder / "sales.parquet"


@pytest.fixture(scope="module")
def undisturbed(sales: Path) -> list[Edition]:
    with qoop.connect(slots=2, memory="1GB") as session:
        session.register("sales", sales)
        editions = list(session.approximate(TEXT, error=0, seed=1).editions())
    assert len(editions) == 4
    assert editions[-1].plain().fetchall() == duckdb.sql(TEXT.replace("FROM sales", f"FROM '{sales}'")).fetchall()
    return editions


def of_rounds(answer: Answer) -> list[int]:
    """Tasks that each round has run itself."""
    return [sum(report.tasks for report in job.stage_reports()) for job in answer.jobs]


def raised_by(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except Exception as error:
        return error
    return None


@contextmanager
def holding(folder: Path, sales: Path) -> Iterator[tuple[Session, threading.Event]]:
    """A session with one slot, which a query that calls ``held`` holds until the event is set."""
    hold = threading.Event()
    hold.set()

    def held(x: int) -> int:
        hold.wait(60)
        return x

    with qoop.connect(slots=1, memory="1GB", checkpoints=folder / "kept", reuse=True) as session:
        session.register("sales", sales)
        session.register_function("held", held, ["BIGINT"], "BIGINT", deterministic=False)
        yield session, hold


@pytest.mark.parametrize("last", [0, 1])
def test_an_answer_goes_on_after_kill_9(sales: Path, undisturbed: list[Edition], tmp_path: Path, last: int) -> None:
    command = [sys.executable, "-c", GROWS, str(tmp_path), str(last), str(sales)]
    killed = subprocess.run(command, capture_output=True, timeout=60, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    wanted = [edition.result.fetchall() for edition in undisturbed]
    assert killed.stdout.splitlines() == [str(rows) for rows in wanted[: last + 1]]
    with qoop.connect(slots=2, memory="1GB", checkpoints=tmp_path / "kept", reuse=True) as session:
        session.register("sales", sales)
        answer = session.approximate(TEXT, error=0, seed=1)
        assert [edition.result.fetchall() for edition in answer.editions()] == wanted
        tasks = of_rounds(answer)
        assert tasks[: last + 1] == [0] * (last + 1) and tasks[-1] > 0, "what was written is not read again"


def test_an_answer_that_was_stopped_goes_on_elsewhere(sales: Path, undisturbed: list[Edition], tmp_path: Path) -> None:
    with holding(tmp_path, sales) as (session, hold):
        answer = session.approximate(TEXT, error=0.5, seed=1)
        assert not answer.last().exact
        hold.clear()
        blocking = session.submit("SELECT held(1) AS x")
        asked: list[BaseException | None] = []
        finishing = threading.Thread(target=lambda: asked.append(raised_by(answer.result)))
        rounds = len(answer.jobs)
        finishing.start()
        while len(answer.jobs) == rounds:
            finishing.join(0.01)
        with pytest.raises(ConfigError, match="ask for it again"):
            answer.jobs[-1].suspend(tmp_path / "suspended")
        assert not (tmp_path / "suspended").exists()
        assert answer.jobs[-1].state not in ("SUCCEEDED", "FAILED", "CANCELLED")
        answer.stop()
        hold.set()
        finishing.join(60)
        assert isinstance(asked[0], Cancelled) and blocking.result().fetchall() == [(1,)]
        assert not answer.last().exact, "the edition before is the last"
    with holding(tmp_path, sales) as (session, _):
        again = session.approximate(TEXT, error=0.5, seed=1)
        assert again.result().fetchall() == undisturbed[-1].plain().fetchall()
        assert of_rounds(again)[0] == 0
