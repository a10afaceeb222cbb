"""The DuckDB of a kernel opens the files of the tables that its tasks were given, whatever a fragment says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from qoop.catalog.catalog import Catalog
from qoop.catalog.table import Table
from qoop.engine.kernel import Kernel
from qoop.engine.task import AttemptId, TaskId, TaskSpec, checkpoint_key
from qoop.planner.plan import Resources, Stage, TableInput

INTEGER = (("i", "BIGINT"),)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path / "spill")
    yield kernel
    kernel.close()


def written(path: Path, form: str = "parquet") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.connect().execute(f"COPY (SELECT range AS i FROM range(3)) TO '{path}' (FORMAT {form})")
    return path


def reading(table: Table, sql: str = "SELECT i FROM t", opaque: str | None = None, locked: bool = True) -> TaskSpec:
    stage = Stage("s1", sql, (TableInput("t", "t", table.version, ("i",), False),), INTEGER, 1, "sig", opaque=opaque)
    attempt = AttemptId(TaskId("job", stage.id, 0), 1)
    return TaskSpec(attempt, stage, checkpoint_key(stage, 0), (), {"t": table}, Resources(1, 400e6), locked=locked)


def run(kernel: Kernel, spec: TaskSpec) -> tuple[pa.Table, ...]:
    return kernel.run(spec, lambda name: pytest.fail(f"no stage is read, and so not {name}")).tables


PLACES = ("a.parquet", "a b/c'd.parquet", "x[1]/k*y?.parquet", "p=1/q=2/a.parquet", "a.csv", "[b].json")


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("opaque", [None, "a user's text"])
@pytest.mark.parametrize("place", PLACES)
def test_a_table_is_read_wherever_it_lies(
    kernel: Kernel, tmp_path: Path, place: str, opaque: str | None, locked: bool
) -> None:
    path = tmp_path / "data" / place
    path.parent.mkdir(parents=True)
    if path.suffix == ".parquet":
        duckdb.from_arrow(pa.table({"i": [0, 1, 2]})).write_parquet(str(path))
    else:
        path.write_text("i\n0\n1\n2\n" if path.suffix == ".csv" else '{"i": 0}\n{"i": 1}\n{"i": 2}\n')
    table = Catalog().register("t", str(path.parent if "=" in place else path))
    (found,) = run(kernel, reading(table, opaque=opaque, locked=locked))
    assert sorted(found["i"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("opaque", [None, "a user's text"])
@pytest.mark.parametrize("checkpointed", [True, False])
def test_a_table_of_a_database_is_read(kernel: Kernel, tmp_path: Path, opaque: str | None, checkpointed: bool) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT range AS i FROM range(3)")
        if not checkpointed:
            database.execute("CHECKPOINT; PRAGMA disable_checkpoint_on_shutdown; INSERT INTO t VALUES (3)")
    (table,), _ = Catalog().register_database(str(tmp_path / "a.duckdb"))
    for _ in range(2):
        (found,) = run(kernel, reading(table, opaque=opaque))
        assert len(found) == 4 - checkpointed


ELSEWHERE = (
    "SELECT i FROM read_parquet('{0}/secret.parquet')",
    "SELECT i FROM '{0}/secret.parquet'",
    "SELECT i FROM read_parquet('{0}/*.parquet')",
    "SELECT i FROM read_parquet('{0}/data/../secret.parquet')",
    "SELECT size AS i FROM read_blob('{0}/secret.parquet')",
    "SELECT count(*) AS i FROM glob('{0}/*')",
    "COPY (SELECT 1) TO '{0}/new.csv'",
    "ATTACH '{0}/new.duckdb'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET allowed_paths = ['{0}/secret.parquet']",
)


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("text", ELSEWHERE)
def test_a_planned_fragment_opens_nothing_else(kernel: Kernel, tmp_path: Path, text: str, locked: bool) -> None:
    """No matter who has changed or planted the fragment."""
    secret = written(tmp_path / "secret.parquet")
    table = Catalog().register("t", str(written(tmp_path / "data" / "a.parquet")))
    with pytest.raises(duckdb.Error):
        run(kernel, reading(table, text.format(tmp_path), locked=locked))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "spill") == ["data", secret.name]


@pytest.mark.parametrize("text", [*ELSEWHERE, "SELECT i FROM read_parquet('{0}/data/next_to.parquet')",
                                  "SET threads = 3", "SET memory_limit = '9GB'", "SET TimeZone = 'UTC'"])  # fmt: skip
def test_a_users_text_in_a_locked_session_opens_no_file_next_to_its_tables_either(
    kernel: Kernel, tmp_path: Path, text: str
) -> None:
    written(tmp_path / "secret.parquet")
    written(tmp_path / "data" / "next_to.parquet")
    table = Catalog().register("t", str(written(tmp_path / "data" / "a.parquet")))
    with pytest.raises(duckdb.Error):
        run(kernel, reading(table, text.format(tmp_path), opaque="a user's text"))
    (found,) = run(kernel, reading(table, opaque="a user's text"))
    assert len(found) == 3


def test_a_users_text_in_an_open_session_reads_files(kernel: Kernel, tmp_path: Path) -> None:
    written(tmp_path / "other.parquet")
    table = Catalog().register("t", str(written(tmp_path / "data" / "a.parquet")))
    text = f"SELECT i FROM t UNION ALL FROM read_parquet('{tmp_path}/other.parquet')"
    (found,) = run(kernel, reading(table, text, opaque="a user's text", locked=False))
    assert len(found) == 6


@pytest.mark.parametrize("locked", [True, False])
def test_tasks_in_turn_find_what_each_needs(kernel: Kernel, tmp_path: Path, locked: bool) -> None:
    """Tables that come later, options that change, fragments and texts of users; and what is too large spills."""
    for number in range(4):
        table = Catalog().register("t", str(written(tmp_path / f"d{number}" / "a.parquet")))
        for opaque in (None, "a user's text"):
            for zone in ("UTC", "Asia/Tokyo"):
                spec = replace(reading(table, opaque=opaque, locked=locked), settings=(("TimeZone", zone),))
                assert len(run(kernel, spec)[0]) == 3
    large = "SELECT (range * 7919) % 4000037 AS i FROM range(4000000) ORDER BY i"
    spec = replace(reading(table, large, locked=locked), resources=replace(spec.resources, memory=40e6))
    (found,) = run(kernel, spec)
    assert len(found) == 4_000_000


def test_a_locked_instance_gets_other_threads_and_memory_and_nothing_else(kernel: Kernel, tmp_path: Path) -> None:
    """The memory of tasks differs by bytes from one to the next, since the answers that are kept count."""
    table = Catalog().register("t", str(written(tmp_path / "a.parquet")))
    spec = reading(table, "SELECT i FROM t", opaque="a user's text")
    instances = set()
    for number in range(1, 6):
        resources = Resources(number, 400e6 + number)
        shown = "SELECT i, current_setting('threads') AS n, current_setting('memory_limit') AS m FROM t"
        (found,) = run(kernel, replace(spec, stage=replace(spec.stage, sql=shown), resources=resources))
        assert found["n"].to_pylist() == [number] * 3
        instances.add(kernel._instances["users"])
    (instance,) = instances
    for name in ("enable_external_access", "allowed_paths", "lock_configuration", "allowed_configs", "temp_directory"):
        with pytest.raises(duckdb.Error):
            instance.connection.execute(f"SET {name} = DEFAULT")
    with pytest.raises(duckdb.Error, match="locked"):
        instance.connection.execute("SET TimeZone = 'Asia/Tokyo'")
