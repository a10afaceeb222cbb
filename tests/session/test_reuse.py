"""Outputs that serve another query of the session, or of another process."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.engine.history import Saved, Started
from qoop.query.job import Job

TEXT = "SELECT i % 50 AS k, count(*) AS n, sum(i) AS s FROM t GROUP BY k ORDER BY k"
SIMILAR = "SELECT i % 50 AS k, count(*) AS n, sum(i) AS s FROM t GROUP BY k ORDER BY s DESC LIMIT 3"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(pa.table({"i": np.arange(600_000)}), folder / "t.parquet", row_group_size=100_000)
    return folder


def attempts(job: Job) -> int:
    job.wait()
    return sum(isinstance(record, Started) for record in job.history())


def test_a_session_takes_over_what_it_has(data: Path) -> None:
    with qoop.connect(slots=2, reuse=True) as session:
        session.register_folder(data)
        first = session.submit(TEXT)
        expected = first.result().fetchall()
        assert attempts(first) > 1 and len(expected) == 50
        again = session.submit(TEXT)
        assert again.result().fetchall() == expected and attempts(again) == 0
        similar = session.submit(SIMILAR)
        assert similar.result().fetchall() == sorted(expected, key=lambda row: -row[2])[:3]
        assert attempts(similar) < attempts(first)
        fresh = session.submit(TEXT, resume=False)
        assert fresh.result().fetchall() == expected and attempts(fresh) == attempts(first)


def test_it_does_so_by_default_and_an_option_turns_it_off(as_installed: None, data: Path) -> None:
    with qoop.connect(slots=2) as session:
        session.register_folder(data)
        assert attempts(session.submit(TEXT)) > 0
        again = session.submit(TEXT)
        assert attempts(again) == 0
        shown = [str(record) for record in again.history()]
        why = "job1 made it, and nothing that it reads has changed"
        assert any("the answer was there" in one and why in one for one in shown)
    with qoop.connect(slots=2, reuse=False) as session:
        session.register_folder(data)
        assert attempts(session.submit(TEXT)) == attempts(session.submit(TEXT)) > 0


def test_parts_of_instants_serve_again_in_the_same_time_zone_only(as_installed: None, tmp_path: Path) -> None:
    instants = pa.array([1_700_000_000 + 5_000 * i for i in range(100)], pa.timestamp("s", "UTC"))
    pq.write_table(pa.table({"i": instants}), tmp_path / "t.parquet")
    text = "SELECT day(i) AS d, last_day(i) AS l, count(*) AS n FROM t GROUP BY ALL ORDER BY ALL"
    with qoop.connect(slots=2) as session, duckdb.connect() as oracle:
        session.register_folder(tmp_path)
        for zone in ("UTC", "Asia/Tokyo"):
            session.set("TimeZone", zone)
            oracle.execute(f"SET TimeZone = '{zone}'")
            expected = oracle.execute(text.replace("FROM t", f"FROM '{tmp_path / 't.parquet'}'")).fetchall()
            jobs = [session.submit(text) for _ in range(2)]
            assert [job.result().fetchall() for job in jobs] == [expected, expected] and len(expected) > 5
            assert attempts(jobs[0]) > 0
            assert attempts(session.submit(text)) == 0


def test_explain_names_the_job_whose_answer_is_there(as_installed: None, data: Path) -> None:
    with qoop.connect(slots=2) as session:
        session.register_folder(data)
        assert "the answer is there" not in session.explain(TEXT)
        session.sql(TEXT)
        for text in (session.explain(TEXT), session.sql(f"EXPLAIN {TEXT}").fetchall()[0][1]):
            assert text.startswith("the answer is there: job1 made it, and nothing that it reads has changed since\n")
        assert "rows by 0 of" not in session.explain(TEXT, analyze=True)
        table = pa.table({"i": pa.array([1, 2], pa.int64())})
        pq.write_table(table, data / "t.parquet")
        assert "the answer is there" not in session.explain(TEXT)


def test_users_take_over_their_own_outputs_only(as_installed: None, data: Path) -> None:
    with qoop.connect(slots=2) as session:
        session.register_folder(data)
        ran = {"ann": False, "bob": False}
        for user in ("ann", "bob", "ann", "bob", "bob"):
            job = session.submit(TEXT, user=user, tenant="a")
            assert len(job.result().fetchall()) == 50
            assert (attempts(job) == 0) == ran[user]
            ran[user] = True
        assert "the answer is there" not in session.explain(TEXT)
        other = session.submit(TEXT, user="ann", tenant="b")
        other.result()
        assert attempts(other) > 0


@pytest.mark.parametrize("staged", [True, False])
def test_what_no_version_stands_for_is_computed_each_time(data: Path, tmp_path: Path, staged: bool) -> None:
    """Files that a function reads, samples, and the moment: no table of the session changes with these."""
    file = tmp_path / "a.csv"
    texts = [
        f"SELECT v FROM read_csv('{file}')",
        f"""SELECT v FROM "read_csv" ('{file}')""",
        f"SELECT (SELECT max(v) FROM read_csv_auto('{file}')) AS v FROM t LIMIT 1",
        f"SELECT length(content) FROM read_text('{file}')",
        f"SELECT count(*) FROM glob('{tmp_path}/*.csv') WHERE file LIKE '%a.csv' AND (SELECT v > 1 FROM '{file}')",
        "SELECT sum(i) FROM t USING SAMPLE 1000 ROWS",
        "SELECT sum(i) FROM t TABLESAMPLE 30%",
        "SELECT sum(random()) FROM t",
    ]
    with qoop.connect(slots=2, staged=staged, reuse=True) as session:
        session.register_folder(data)
        file.write_text("v\n1\n")
        before = [session.sql(text).fetchall() for text in texts]
        file.write_text("v\n222\n")
        after = [session.sql(text).fetchall() for text in texts]
    assert [text for text, one, other in zip(texts, before, after, strict=True) if one == other] == []
    assert after[0] == [(222,)]


def test_ties_may_break_otherwise_in_duckdbs_plan(as_installed: None, tmp_path: Path) -> None:
    """Two runs of one text are not two plans that must agree."""
    pq.write_table(pa.table({"i": np.arange(400_000)}), tmp_path / "t.parquet", row_group_size=20_000)
    with qoop.connect(slots=2) as session:
        session.register_folder(tmp_path)
        for _ in range(30):
            jobs = [session.submit("SELECT i FROM t LIMIT 3", resume=False) for _ in range(2)]
            assert all(len(job.result()) == 3 for job in jobs)


def test_neither_changed_data_nor_changed_settings_are_taken_for_the_same(data: Path) -> None:
    with qoop.connect(slots=2, reuse=True) as session:
        session.register_folder(data)
        text = "SELECT i % 3 AS k, min(CASE WHEN i % 2 = 0 THEN i END) AS m FROM t GROUP BY k ORDER BY m LIMIT 1"
        before = session.sql(text).fetchall()
        session.register("t", pa.table({"i": pa.array([4, 5, None], pa.int64())}))
        assert session.sql(text).fetchall() != before
        session.set("default_null_order", "NULLS_FIRST")
        assert session.sql(text).fetchall()[0][1] is None


def test_what_is_retained_stays_within_the_memory(data: Path) -> None:
    with qoop.connect(slots=2, memory="64MB", reuse=True) as session:
        session.register_folder(data)
        for number in range(12):
            text = f"SELECT i, i + {number} AS j FROM t WHERE i % 4 = {number % 4} ORDER BY j DESC"
            assert session.sql(text).arrow().num_rows == 150_000
        assert session.backend.store.used <= 4_000_000  # a sixteenth of the memory
        assert session.sql("SELECT count(*) FROM t").fetchall() == [(600_000,)]
        assert 0 < session.backend.store.used <= 4_000_000


def test_another_process_takes_over_by_default(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    with qoop.connect(slots=2, checkpoints=folder) as session:
        session.register_folder(data)
        first = session.submit(TEXT)
        expected = first.result().fetchall()
        session.backend.store.flush()
    with qoop.connect(slots=2, checkpoints=folder) as session:
        session.register_folder(data)
        again = session.submit(TEXT)
        assert again.result().fetchall() == expected and attempts(again) == 0


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_damaged_outputs_are_made_again(data: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "checkpoints"
    with qoop.connect(slots=2, checkpoints=folder) as session:
        session.register_folder(data)
        first = session.submit(TEXT)
        expected = first.result().fetchall()
    for path in folder.glob("*.arrow"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.unlink() if damage == "remove" else path.write_bytes(content if damage == "flip" else content[:100])
    with qoop.connect(slots=2, checkpoints=folder) as session:
        session.register_folder(data)
        again = session.submit(TEXT)
        assert again.result().fetchall() == expected and attempts(again) >= attempts(first)


def test_the_history_tells_when_outputs_were_safe(data: Path, tmp_path: Path) -> None:
    with qoop.connect(slots=2, checkpoints=tmp_path / "checkpoints") as session:
        session.register_folder(data)
        job = session.submit("SELECT count(*) FROM t a, t b, t c WHERE a.i = b.i AND b.i = c.i AND a.i % 7 < 5")
        job.result()
        saved = [record for record in job.history() if isinstance(record, Saved)]
        assert all("was on disk" in str(record) for record in saved)


def test_a_budget_that_is_no_size() -> None:
    with pytest.raises(qoop.ConfigError, match="not a size"):
        qoop.connect(checkpoint_budget="much")
