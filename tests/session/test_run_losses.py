"""A folder of checkpoints learns how often processes are lost there; what queries write follows from it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from math import inf
from pathlib import Path

import duckdb
import pytest
from waits import until

import qoop
from qoop.adaptive.replanning.worthwhile import Worthwhile
from qoop.query.output_losses import BETWEEN_LOSSES, SURVIVING, OutputLosses
from qoop.session.earlier_runs import EarlierRuns, RunLosses

QUERY = "SELECT a % 7 AS k, count(*) AS n, sum(b) AS s FROM t GROUP BY k ORDER BY k"
KILLED = """
import os, signal, sys, qoop
with qoop.connect(slots=2, memory="1GB", staged=True, checkpoints=sys.argv[2]) as session:
    session.register_folder(sys.argv[1])
    session.submit(sys.argv[3])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = duckdb.sql("SELECT i AS a, i % 500 AS b FROM range(200_000) AS r(i)")
    rows.write_parquet(str(folder / "t.parquet"), row_group_size=20_000)
    return folder


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "kept" / "runs").mkdir(parents=True)
    return tmp_path / "kept"


def quiet_for(kept: Path, seconds: float) -> None:
    RunLosses(kept).add_seconds(seconds)


def between(kept: Path) -> float:
    with qoop.connect(slots=2, memory="1GB", checkpoints=kept) as session:
        return session.planning.between_losses


def killed(data: Path, kept: Path, text: str = QUERY) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(data), str(kept), text], check=False)


def test_a_killed_run_says_how_long_a_process_may_live(data: Path, kept: Path) -> None:
    """The median of the last that were killed, whenever the next one starts. After an answer nothing is expected."""
    begun = time.time()
    runs = EarlierRuns(kept, None)
    assert runs.expected_life(QUERY) == inf
    killed(data, kept)
    assert 0.0 < runs.expected_life(QUERY) < time.time() - begun
    assert runs.expected_life("SELECT 1") == inf
    [record] = (kept / "runs").glob("*.json")
    os.utime(record, (begun + 500.0, begun + 500.0))
    assert 400.0 < runs.expected_life(QUERY) < 500.0
    killed(data, kept)
    assert len(RunLosses(kept).lives()) == 1 and RunLosses(kept).lives()[0] > 400.0
    with qoop.connect(slots=2, memory="1GB", checkpoints=kept) as session:
        session.register_folder(data)
        assert len(session.submit(QUERY, resume=True).result()) == 7
    assert runs.expected_life(QUERY) == inf


def test_a_run_says_that_its_process_lives_until_its_end(data: Path, kept: Path) -> None:
    with qoop.connect(slots=2, memory="1GB", checkpoints=kept) as session:
        session.register_folder(data)
        job = session.submit("SELECT count(*) FROM range(100000000000) r(i), t WHERE (i * a) % 7 = 1", resume=True)
        [record] = (kept / "runs").glob("*.json")
        written = record.stat().st_mtime
        until(lambda: record.stat().st_mtime > written)
        until(lambda: record.stat().st_mtime > written + 0.3)
        job.cancel()
        [failed] = until(lambda: list((kept / "runs").glob("*.failed.json")))
        ended = failed.stat().st_mtime
        until(lambda: "qoop-alive" not in {one.name for one in threading.enumerate()})
        assert failed.stat().st_mtime == ended


def written(data: Path, kept: Path, **options: str) -> int:
    """The outputs that a run of the query writes."""
    with qoop.connect(slots=2, memory="1GB", staged=True, checkpoints=kept, **options) as session:
        session.register_folder(data)
        rows = session.sql(QUERY).fetchall()
    with duckdb.connect() as connection:
        connection.read_parquet(str(data / "t.parquet")).create_view("t")
        assert rows == connection.sql(QUERY).fetchall() and len(rows) == 7
    return len(list(kept.glob(32 * "?" + ".json")))


def kill(data: Path, kept: Path, text: str = QUERY) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(data), str(kept), text], check=False, timeout=60)


def test_a_new_folder_expects_losses_and_writes_all(data: Path, kept: Path) -> None:
    assert between(kept) == BETWEEN_LOSSES
    assert written(data, kept) > 0


def test_where_nothing_was_lost_for_long_a_short_query_writes_nothing(data: Path, kept: Path) -> None:
    quiet_for(kept, 3600.0)
    assert between(kept) == 3600.0 + BETWEEN_LOSSES
    assert written(data, kept) == 0


def test_all_outputs_can_be_requested_there(data: Path, kept: Path) -> None:
    quiet_for(kept, 3600.0)
    assert written(data, kept, persist="all") > 0


def test_a_killed_query_writes_all_the_next_time(data: Path, kept: Path) -> None:
    quiet_for(kept, 3600.0)
    kill(data, kept)
    assert between(kept) == (3600.0 + BETWEEN_LOSSES) / 2, "before it is run again"
    assert written(data, kept) > 0
    assert between(kept) == (3600.0 + BETWEEN_LOSSES) / 2, "and after that"


def test_killed_queries_of_other_texts_count(data: Path, kept: Path) -> None:
    quiet_for(kept, 1000.0)
    for number in range(2):
        kill(data, kept, f"SELECT count(*) AS n, sum(b) AS s FROM t WHERE a <> {number}")
    assert between(kept) < 10 * BETWEEN_LOSSES
    assert written(data, kept) > 0


def test_a_query_that_fails_is_not_lost_with_its_process(data: Path, kept: Path) -> None:
    with qoop.connect(slots=2, memory="1GB", staged=True, checkpoints=kept) as session:
        session.register_folder(data)
        with pytest.raises(qoop.ExecutionError):
            session.sql("SELECT sum(CAST('x' || a AS INTEGER)) AS s FROM t")
    assert between(kept) == pytest.approx(BETWEEN_LOSSES, abs=5.0)
    assert list((kept / "runs").glob("*.failed.json"))


@pytest.mark.parametrize("lines", ["", "x\n", "nan\n-5\n1e999\n", "\xff\n", "12", "7.0\n12"])
def test_a_damaged_record_counts_as_far_as_it_can_be_read(kept: Path, lines: str) -> None:
    (kept / "runs" / "lasted").write_text(lines, encoding="latin-1")
    expected = {"nan\n-5\n1e999\n": 86_400.0, "7.0\n12": 7.0}.get(lines, 0.0)
    assert between(kept) == BETWEEN_LOSSES + expected


def test_the_record_stays_small_and_its_last_lines_count(kept: Path) -> None:
    losses = RunLosses(kept)
    for _ in range(20_000):
        losses.add_seconds(0.5)  # a line of two
        losses.add_lost()
    assert (kept / "runs" / "lasted").stat().st_size < 1 << 17
    assert losses.seconds_between(0) < 1.0
    for _ in range(4000):
        losses.add_seconds(10.0)
    assert losses.seconds_between(0) > 30_000.0


def test_the_preference_for_stages_falls_as_losses_become_rare() -> None:
    new, quiet, never = (OutputLosses(True, between=between) for between in (BETWEEN_LOSSES, 3600.0, 1e9))
    assert new.tolerance(60.0, False) == SURVIVING
    assert 1.0 < new.tolerance(1.1 * new.worth_losing, False) < 1.05, "a loss costs little more than estimates err"
    assert 1.0 < quiet.tolerance(60.0, False) < 1.01
    assert never.tolerance(1e6, False) == pytest.approx(1.0) and never.with_losses(100.0) == pytest.approx(100.0)
    assert quiet.tolerance(1.0, True) == SURVIVING, "its last run was killed"
    assert new.worth_losing < quiet.worth_losing < never.worth_losing
    assert OutputLosses(True, between=1.0).worth_losing == new.worth_losing, "the plan of the lost run is not left out"


def test_each_rule_writes_what_its_option_says(kept: Path) -> None:
    def rule(**options: str) -> float | None:
        with qoop.connect(slots=2, memory="1GB", checkpoints=kept, **options) as session:
            session.register("t", duckdb.sql("SELECT 1 AS a").to_arrow_table())
            saving = session._starts._saving(session.planning.plan("SELECT a FROM t"))
            return None if saving is None else saving.every

    assert rule() is None and rule(persist="worthwhile") == Worthwhile().every
    quiet_for(kept, 1e4)
    assert rule() == 1e4 + BETWEEN_LOSSES and rule(persist="all") is None
    assert rule(persist="worthwhile") == Worthwhile().every
