"""Plans are found again, and never where they would be wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.planner.estimate.observed import NOTHING
from qoop.planner.plan import Plan, Stage
from qoop.query.plan_store import Entry, PlanStore
from qoop.session.session import Session

TEXT = "SELECT k, sum(v) AS total FROM t WHERE v > 10 GROUP BY k ORDER BY k"


def sales(rows: int = 200, extra: int = 0) -> pa.Table:
    return pa.table({"k": [i % 3 for i in range(rows)], "v": [i + extra for i in range(rows)]})


@pytest.fixture
def session() -> Iterator[Session]:
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register("t", sales())
        yield session


def hits(session: Session, text: str) -> int:
    """The number of hits that explaining the text adds."""
    before = session.plan_cache.hits
    session.explain(text)
    return session.plan_cache.hits - before


def test_a_text_is_planned_once(session: Session) -> None:
    first = session.explain(TEXT)
    assert hits(session, TEXT) == 1
    assert session.explain(TEXT) == first
    assert hits(session, TEXT.replace("SELECT", "select /* again */ ") + " ;") == 1
    assert hits(session, TEXT.replace("10", "11")) == 0


def test_better_statistics_of_its_columns_replace_a_plan_made_from_footers(tmp_path: Path) -> None:
    rows = pa.table({"k": range(4000), "v": [1] * 3900 + [*range(100)], "other": range(4000)})
    for name in ("t", "u"):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    text = "SELECT count(*) FROM t JOIN u ON t.k = u.k WHERE t.v = 1"
    with qoop.connect(slots=2, memory="500MB", plan_cache=tmp_path / "plans") as session:
        session.register_folder(tmp_path)
        before = session.explain(text)
        assert hits(session, text) == 1
        session.statistics("t")
        known = session.explain(text)
        assert known != before
        assert hits(session, text) == 1
    with qoop.connect(slots=2, memory="500MB", plan_cache=tmp_path / "plans") as session:
        session.register_folder(tmp_path)
        assert hits(session, text) == 1 and session.explain(text) == known


def test_the_answer_of_a_plan_found_again_is_the_same(session: Session) -> None:
    first = session.sql(TEXT)
    again = session.sql(TEXT)
    assert session.plan_cache.hits == 1
    assert again.fetchall() == first.fetchall() == [(0, 6615), (1, 6678), (2, 6552)]
    assert (again.columns, again.types) == (first.columns, first.types)


def test_a_table_that_was_replaced_is_planned_again(session: Session) -> None:
    assert session.sql("SELECT sum(v) FROM t").fetchall() == [(19900,)]
    session.register("t", sales(extra=1))
    assert len(session.plan_cache) == 0
    assert session.sql("SELECT sum(v) FROM t").fetchall() == [(20100,)]
    session.register("t", sales())
    assert session.sql("SELECT sum(v) FROM t").fetchall() == [(19900,)]


def test_a_table_of_the_same_name_but_other_columns_is_bound_again(session: Session) -> None:
    assert session.sql("SELECT * FROM t LIMIT 1").columns == ["k", "v"]
    session.register("t", pa.table({"other": ["x"]}))
    assert session.sql("SELECT * FROM t LIMIT 1").columns == ["other"]
    with pytest.raises(qoop.BindError):
        session.sql("SELECT v FROM t")


def test_a_new_table_that_the_text_may_name_counts(session: Session) -> None:
    with pytest.raises(qoop.BindError):
        session.sql("SELECT u.k FROM t AS x, u")
    session.sql("SELECT u.k FROM t AS u")
    session.register("u", pa.table({"k": [7]}))
    assert hits(session, "SELECT u.k FROM t AS u") == 0  # it is bound again, to be sure
    session.register("my own", pa.table({"k": [7]}))
    assert hits(session, "SELECT u.k FROM t AS u") == 1  # and this one is not named


def test_settings_count(session: Session) -> None:
    text = "SELECT k / 2 AS half FROM t ORDER BY v LIMIT 2"
    assert session.sql(text).fetchall() == [(0.0,), (0.5,)]
    session.sql("SET integer_division = true")
    assert session.sql(text).fetchall() == [(0,), (0,)]
    session.sql("RESET integer_division")
    assert session.sql(text).fetchall() == [(0.0,), (0.5,)]
    assert session.plan_cache.hits == 1


def test_the_resources_count(session: Session) -> None:
    session.explain(TEXT)
    session.resize(slots=1)
    assert hits(session, TEXT) == 0
    assert hits(session, TEXT) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT now() FROM t", "SELECT current_timestamp FROM t", "SELECT Current_Date FROM t", "SELECT today() FROM t",
        "SELECT random() FROM t", "SELECT uuid() FROM t", "SELECT current_setting('TimeZone') FROM t",
        "SELECT ago(INTERVAL 1 DAY) FROM t", "SELECT /* */ now /* */ () FROM t",
    ],
)  # fmt: skip
def test_what_is_bound_to_a_moment_is_not_kept(session: Session, text: str) -> None:
    session.explain(text)
    assert len(session.plan_cache) == 0
    assert hits(session, text) == 0


def test_moments_pass_between_two_runs(session: Session) -> None:
    text = "SELECT DISTINCT now() AS moment FROM t"
    assert session.sql(text).fetchall() < session.sql(text).fetchall()


def test_files_that_are_no_tables_are_read_again(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\n1\n")
    text = f"SELECT * FROM read_csv('{path}')"
    try:
        assert session.sql(text).columns == ["a"]
    except qoop.QoopError:
        return  # such functions are refused: nothing to keep
    path.write_text("b,c\n1,2\n")
    assert session.sql(text).columns == ["b", "c"]


def test_a_wrong_text_is_as_wrong_the_second_time(session: Session) -> None:
    for _ in range(2):
        with pytest.raises(qoop.BindError, match="nothing"):
            session.sql("SELECT nothing FROM t")


def test_a_closed_session_finds_nothing(session: Session) -> None:
    session.explain(TEXT)
    session.close()
    with pytest.raises(qoop.SessionClosed):
        session.explain(TEXT)


# Bounds


def plan(name: str = "a", text: str = "SELECT 1") -> Plan:
    return Plan((Stage("s1", text, (), ((name, "INTEGER"),), 1, "f00"),), ((name, "INTEGER"),))


def test_the_least_recently_used_goes_first() -> None:
    cache = PlanStore(most=2)
    cache.add("a", Entry({}, (plan("a"),)))
    cache.add("b", Entry({}, (plan("b"),)))
    assert cache.find("a") is not None
    cache.add("c", Entry({}, (plan("c"),)))
    assert [cache.find(key) is not None for key in "abc"] == [True, False, True]


def test_bytes_are_bounded_too() -> None:
    cache = PlanStore(most_bytes=100_000)
    for number in range(10):
        cache.add(str(number), Entry({}, (plan(text="x" * 30_000),)))
    assert len(cache) == 3
    assert cache.find("9") is not None


def test_many_threads_at_once() -> None:
    cache = PlanStore(most=8)
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for number in range(500):
                key = str((number * seed) % 20)
                found = cache.find(key)
                assert found is None or found.plans[0].columns[0][0] == key
                cache.add(key, Entry({}, (plan(key),)))
                if number % 7 == 0:
                    cache.drop(key)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (3, 7, 11, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(cache) <= 8


# On disk


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(sales(), folder / "t.parquet")
    return folder


def opened(data: Path, cache: Path) -> Session:
    session = qoop.connect(slots=2, memory="500MB", plan_cache=cache)
    session.register_folder(data)
    return session


def files(cache: Path) -> list[Path]:
    return sorted((cache / "plans").iterdir())


def test_another_session_finds_the_plan(data: Path, tmp_path: Path) -> None:
    with opened(data, tmp_path / "cache") as one:
        expected = one.sql(TEXT).fetchall()
    with opened(data, tmp_path / "cache") as other:
        assert other.sql(TEXT).fetchall() == expected != []
        assert other.plan_cache.hits == 1
    [file] = files(tmp_path / "cache")
    assert json.loads(file.read_text())["format"] == 4


def test_alternatives_of_another_session_are_read_once(data: Path, tmp_path: Path) -> None:
    with opened(data, tmp_path / "cache") as one:
        expected = [candidate.plan for candidate in one.alternatives(TEXT).kept]
    with opened(data, tmp_path / "cache") as other:
        first, second = other.alternatives(TEXT), other.alternatives(TEXT)
    staged = [candidate for candidate in first.kept if not candidate.plan.root.whole]
    assert len(first.kept) == len(expected) and {one.plan for one in staged} <= set(expected)
    again = {id(candidate) for candidate in second.kept}
    assert staged and all(id(candidate) in again for candidate in staged)


def test_the_folder_can_come_from_the_environment(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOOP_PLAN_CACHE", str(tmp_path / "kept"))
    with qoop.connect(slots=1, memory="500MB") as session:
        session.register_folder(data)
        session.explain(TEXT)
    assert len(files(tmp_path / "kept")) == 1


def test_data_that_changed_on_disk_is_another_table(data: Path, tmp_path: Path) -> None:
    with opened(data, tmp_path / "cache") as one:
        assert one.sql("SELECT sum(v) FROM t").fetchall() == [(19900,)]
    pq.write_table(sales(extra=1), data / "t.parquet")
    with opened(data, tmp_path / "cache") as other:
        assert other.sql("SELECT sum(v) FROM t").fetchall() == [(20100,)]
        assert other.plan_cache.hits == 0


def test_tables_that_only_this_process_sees_stay_in_memory(tmp_path: Path) -> None:
    with qoop.connect(slots=1, memory="500MB", plan_cache=tmp_path / "cache") as session:
        session.register("t", sales())
        session.explain(TEXT)
        assert len(session.plan_cache) == 1
    assert not (tmp_path / "cache" / "plans").exists()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 99}', "null", '{"format": 1, "key": "other"}', "\udcff"])
def test_a_damaged_file_is_replaced(data: Path, tmp_path: Path, damage: str) -> None:
    with opened(data, tmp_path / "cache") as one:
        one.explain(TEXT)
    [file] = files(tmp_path / "cache")
    whole = file.read_bytes()
    file.write_bytes(damage.encode(errors="surrogateescape"))
    with opened(data, tmp_path / "cache") as other:
        assert other.sql(TEXT).fetchall() != []
        assert other.plan_cache.hits == 0
    assert file.read_bytes() == whole


def test_a_folder_that_cannot_be_written_costs_a_warning(data: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with opened(data, tmp_path / "cache") as session, pytest.warns(RuntimeWarning, match="plans cannot be kept"):
        assert session.sql(TEXT).fetchall() != []


def test_old_files_are_removed(tmp_path: Path) -> None:
    cache = PlanStore(tmp_path, most=1)
    for number in range(130):
        cache.add(f"{number:032x}", Entry({}, (plan(),)), shared=True)
        os.utime(tmp_path / "plans" / f"{number:032x}.json", (number, number))
    assert len(files(tmp_path)) <= 74
    assert (tmp_path / "plans" / f"{129:032x}.json").exists()
    assert not (tmp_path / "plans" / f"{1:032x}.json").exists()


def write_many(folder: str, seed: int) -> None:
    cache = PlanStore(Path(folder))
    for number in range(60):
        key = f"{(number * seed) % 10:032x}"
        cache.add(key, Entry({"t": key}, (plan(key),)), shared=True)
        found = PlanStore(Path(folder)).find(key)
        assert found is None or found.plans == (plan(key),)  # the other one may have forgotten it
        if number % 9 == 0:
            cache.drop(f"{number:032x}")


def test_two_processes_share_a_folder(tmp_path: Path) -> None:
    workers = [subprocess.Popen([sys.executable, __file__, str(tmp_path), seed]) for seed in ("3", "7")]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    assert {file.suffix for file in files(tmp_path)} == {".json"}


# Alternatives


def test_alternatives_are_found_again(session: Session) -> None:
    found = session.alternatives(TEXT)
    assert session.alternatives(TEXT.lower()) is found
    session.resize(slots=1)
    assert session.alternatives(TEXT) is not found


def test_other_literals_need_no_search(session: Session) -> None:
    found = session.alternatives(TEXT)
    other = session.alternatives(TEXT.replace("10", "11"))
    assert found.pool.whole and not other.pool.whole
    assert "11" in "".join(stage.sql for stage in other.kept[0].plan.stages)
    for one in other.kept:
        answer = session.submit(TEXT.replace("10", "11"), plan=one.plan).result().fetchall()
        assert answer == session.sql(TEXT.replace("10", "11")).fetchall() != []


def test_rows_that_were_added_need_no_search(tmp_path: Path) -> None:
    folder = tmp_path / "sales"
    folder.mkdir()
    pq.write_table(sales(), folder / "first.parquet")
    with qoop.connect(slots=2, memory="500MB") as session:
        session.register("t", folder)
        assert session.alternatives(TEXT).pool.whole
        pq.write_table(sales(), folder / "second.parquet")
        assert session.sql("SELECT count(*) FROM t").fetchall() == [(400,)]
        found = session.alternatives(TEXT)
        assert not found.pool.whole
        for one in found.kept:
            assert session.submit(TEXT, plan=one.plan).result().fetchall() == session.sql(TEXT).fetchall()


def test_other_processes_find_alternatives(data: Path, tmp_path: Path) -> None:
    with opened(data, tmp_path / "cache") as one:
        plans = [item.plan for item in one.alternatives(TEXT).kept]
    with opened(data, tmp_path / "cache") as other:
        found = other.alternatives(TEXT)
        assert [item.plan for item in found.kept] == plans
        assert not found.pool.whole
        assert not other.alternatives(TEXT.replace("10", "12")).pool.whole


def test_a_job_that_may_change_plan_finds_its_alternatives(session: Session) -> None:
    session.alternatives(TEXT)
    session.explain(TEXT)
    planned = session.planning.plan(TEXT)
    assert planned.adaptive is not None and planned.adaptive.at_once
    assert planned.adaptive.find(NOTHING)
    session.register("t", sales(extra=1))
    assert list(planned.adaptive.find(NOTHING)) == []  # its table is another now


if __name__ == "__main__":
    write_many(sys.argv[1], int(sys.argv[2]))
