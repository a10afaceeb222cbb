"""Copies of Parquet files in DuckDB's own format: when they are made, what they serve, and that nothing is stale."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qoop import connect
from qoop.engine.backends.local import LocalBackend
from qoop.engine.instance import Instance
from qoop.engine.native import copies, making
from qoop.engine.native.copies import NativeCopies
from qoop.engine.native.worth import Worth
from qoop.session.session import Session

ROWS = 20_000


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch, as_installed: None) -> None:
    """Files are copied after the first query of any size."""
    monkeypatch.setattr(copies, "_LEAST", 0)
    monkeypatch.setattr(copies, "_WORTH", 0.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    write(tmp_path / "t" / "a.parquet", 0, ROWS)
    return tmp_path


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with connect(slots=2, memory="4GB") as made:
        made.register_folder(folder)
        yield made


def write(path: Path, first: int, rows: int) -> None:
    draft = path.with_suffix(".new")
    numbers = range(first, first + rows)
    pq.write_table(pa.table({"k": list(numbers), "s": [f"s{n % 7}" for n in numbers]}), draft)
    draft.replace(path)


def copies_of(session: Session) -> NativeCopies:
    assert isinstance(session.backend, LocalBackend)
    session.backend.copies.wait()
    return session.backend.copies


def total(session: Session, number: int) -> int:
    """The sum of a column, by a text that no query had before."""
    ((found,),) = session.sql(f"SELECT sum(k) + {number} FROM t WHERE k % 2 < 3").fetchall()
    return int(found) - number


def test_a_file_is_copied_and_its_copy_read_in_place_of_it(session: Session, folder: Path) -> None:
    assert total(session, 1) == ROWS * (ROWS - 1) // 2
    made = copies_of(session)
    (copy,) = made._copies.values()
    with duckdb.connect(copy.path, read_only=True) as connection:
        assert connection.execute("SELECT count(*), min(k) FROM t").fetchall() == [(ROWS, 0)]
    # Another copy of that name, with other rows: what the next query reads shows which of the files it was.
    Path(copy.path).unlink()
    with duckdb.connect(copy.path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 5::BIGINT AS k, 's' AS s")
    assert total(session, 2) == 5


def test_no_change_of_a_table_leaves_a_stale_answer(session: Session, folder: Path) -> None:
    sums = [ROWS * (ROWS - 1) // 2]
    assert total(session, 0) == sums[0]
    changes = ((100, 10), (7, 10), (0, ROWS // 2))
    for number, (first, rows) in enumerate(changes, 1):
        copies_of(session)
        write(folder / "t" / ("b.parquet" if number < 3 else "a.parquet"), first, rows)
        ((theirs,),) = duckdb.execute(f"SELECT sum(k) FROM '{folder}/t/*.parquet'").fetchall()
        assert total(session, number) == theirs
        assert total(session, 10 + number) == theirs  # small files that came stay Parquet, a large one is copied again
        paths = {Path(path).name for path in copies_of(session)._copies}
        assert paths == {"a.parquet"}


def test_rows_keep_their_order_with_files_that_came_before_and_after(session: Session, folder: Path) -> None:
    total(session, 1)
    copies_of(session)
    write(folder / "t" / "0.parquet", -3, 3)
    write(folder / "t" / "b.parquet", ROWS, 3)
    found = [k for (k,) in session.sql("SELECT k FROM t WHERE s <> ''").fetchall()]
    assert found == list(range(-3, ROWS + 3))


def test_lists_of_tables_do_not_show_copies(session: Session) -> None:
    text = "SELECT table_catalog, table_name FROM information_schema.tables"
    before = session.sql(text).fetchall()
    total(session, 1)
    assert copies_of(session)._copies
    total(session, 2)
    assert session.sql(f"{text} WHERE 1 = 1").fetchall() == before


def test_a_damaged_copy_is_a_miss(session: Session) -> None:
    total(session, 1)
    made = copies_of(session)
    (copy,) = made._copies.values()
    Path(copy.path).write_bytes(b"no database")
    assert total(session, 2) == ROWS * (ROWS - 1) // 2
    assert not made._copies
    assert total(session, 3) == ROWS * (ROWS - 1) // 2


def test_a_copy_that_cannot_be_made_is_none(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_MAKER", 1e-9)
    monkeypatch.setattr(making.Maker, "make", _fails)
    assert total(session, 1) == total(session, 2)
    assert not copies_of(session)._copies


def _fails(*_: object) -> None:
    raise duckdb.OutOfMemoryException("as if there were too little memory")


@pytest.mark.parametrize("options", [{"reuse": False}, {"memory": "800MB"}, {"locked": True}])
def test_sessions_without_copies(folder: Path, options: dict[str, object]) -> None:
    with connect(slots=1, **{"memory": "4GB", **options}) as session:  # type: ignore[arg-type]
        session.register_folder(folder)
        total(session, 1)
        assert not copies_of(session)._copies


def test_copies_are_removed_with_the_session(folder: Path, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    with connect(slots=1, memory="4GB", spill=spill) as session:
        session.register_folder(folder)
        total(session, 1)
        assert copies_of(session)._copies
        assert list(spill.glob("qoop-copies-*/*.duckdb"))
    assert not list(spill.glob("qoop-*"))


def test_queries_count_until_they_took_a_part_of_the_time_of_a_copy(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_WORTH", 1e9)
    for number in range(3):
        total(session, number)
    assert not copies_of(session)._copies
    monkeypatch.setattr(copies, "_WORTH", 0.0)
    total(session, 3)
    assert len(copies_of(session)._copies) == 1


def test_a_text_that_is_slower_over_copies_reads_files_again() -> None:
    worth = Worth()
    slow, fast = "SELECT k FROM t WHERE k < {}", "SELECT s FROM t WHERE k < {}"
    for number, (seconds, native) in enumerate([(0.1, False), (0.5, True), (0.2, True)]):
        assert worth.read_copies(slow.format(number))
        worth.add(slow.format(number), seconds, float(native))
        worth.add(slow.format(number), 0.001, 0.5)  # of both kinds
        worth.add(fast.format(number), seconds if number < 2 else 0.1, float(native))
    assert not worth.read_copies(slow.format(9))
    assert worth.read_copies(fast.format(9))
    assert worth.read_copies("SELECT 1")


def test_a_change_of_one_file_leaves_copies_of_others_in_memory(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of many files are read as Parquet next to copies: by their present types, too."""
    instances: set[int] = set()

    def find_in(self: Instance, databases: Sequence[str]) -> None:
        if databases:
            instances.add(id(self))
        found(self, databases)

    found = Instance.find_in
    monkeypatch.setattr(copies, "_MOST_FILES", 1)
    monkeypatch.setattr(Instance, "find_in", find_in)
    (folder / "u").mkdir()
    total(session, 1)
    copies_of(session)
    for values in ([1, 2], [3, 4], ["five", "six"]):
        for place, value in enumerate(values):
            draft = folder / f"{place}.new"
            pq.write_table(pa.table({"k": [place], "v": [value]}), draft)
            draft.replace(folder / "u" / f"{place}.parquet")
        session.register_folder(folder)
        rows = session.sql("SELECT v, s FROM t JOIN u USING (k) ORDER BY v").fetchall()
        assert rows == [(value, f"s{place}") for place, value in enumerate(values)]
    assert len(instances) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (SELECT rowid FROM t LIMIT 1) FROM (SELECT 5 AS rowid)",
        "SELECT count(*), count(t.k) FROM main.t AS t",
        "SELECT count(*), count(memory.main.t.k) FROM memory.main.t",
        "SELECT count(*), min(k) FROM T",
        "WITH t AS (SELECT 7 AS k) SELECT k FROM t",
        "SELECT * FROM t NATURAL JOIN (SELECT 3 AS k)",
        "SELECT count(DISTINCT columns(*)) FROM t",
        "SELECT count(*) FROM information_schema.tables, t WHERE k = 0",
        "SELECT current_database(), current_schema(), count(*) FROM t",
    ],
)
def test_a_text_means_the_same_over_copies(session: Session, text: str) -> None:
    before = session.sql(text).fetchall()
    assert before
    total(session, 1)
    assert copies_of(session)._copies
    assert session.sql(f"{text} LIMIT 9").fetchall() == before


def test_a_copy_that_grows_with_its_table_has_the_rows_of_now(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are appended, replaced, removed and renamed between queries."""
    monkeypatch.setattr(copies, "_GROWING", 0.0)
    chance, read_grown = random.Random(1), 0
    for number in range(24):
        further = sorted((folder / "t").glob("b*.parquet"))
        kind = chance.choice(("append", "replace", "remove", "rename")) if further else "append"
        if kind in ("append", "replace"):
            path = folder / "t" / f"b{number}.parquet" if kind == "append" else chance.choice(further)
            write(path, 100 * number, 1 + number % 3)
        elif kind == "remove":
            chance.choice(further).unlink()
        else:
            chance.choice(further).rename(folder / "t" / f"b{number}.parquet")
        ((theirs,),) = duckdb.execute(f"SELECT sum(k) FROM '{folder}/t/*.parquet'").fetchall()
        for again in range(3):
            assert total(session, 3 * number + again) == theirs
            copies_of(session)
        [made] = copies_of(session)._copies.values()
        attached = [scan for _, scan in copies_of(session)._scans.values() if scan is not None]
        read_grown += any(scan.table and made.name not in scan.files for scan in attached)
    assert read_grown > 12
