"""The kernel against DuckDB itself: inputs, outputs, partitions, types, stopping, errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from waits import until

from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import DiskFull, ExecutionError, OutOfMemory, SourceError, TableChanged
from qoop.catalog.functions.function import UserFunction
from qoop.catalog.table import Table
from qoop.engine import kernel as kernels
from qoop.engine.failures import Stopped, to_failure
from qoop.engine.kernel import Kernel, with_scans
from qoop.engine.kernel_options import disabled_optimizers
from qoop.engine.task import AttemptId, TaskId, TaskSpec, checkpoint_key
from qoop.planner.plan import Layout, Resources, Stage, StageInput, TableInput

NUMBERS = count(1)
UNCUT = Layout()
NOTHING: Mapping[str, pa.Table] = {}


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path / "spill")
    yield kernel
    kernel.close()


def a_stage(
    sql: str,
    columns: tuple[tuple[str, str], ...],
    reads: tuple[str, ...] = (),
    scans: tuple[TableInput, ...] = (),
    width: int = 1,
    layout: Layout = UNCUT,
    opaque: str | None = None,
    label: str = "",
) -> Stage:
    inputs = (*scans, *(StageInput(name, f"stage-{name}", "all") for name in reads))
    return Stage("s1", sql, inputs, columns, width, "sig", layout, opaque=opaque, label=label)


def a_spec(
    stage: Stage,
    part: int = 0,
    tables: Mapping[str, Table] | None = None,
    memory: float = 400e6,
    threads: int = 1,
    settings: tuple[tuple[str, str], ...] = (),
) -> TaskSpec:
    attempt = AttemptId(TaskId("job", stage.id, part), next(NUMBERS))
    available = Resources(cpu=threads, memory=memory)
    return TaskSpec(attempt, stage, checkpoint_key(stage, part), (), tables or {}, available, settings)


def run(kernel: Kernel, spec: TaskSpec, inputs: Mapping[str, pa.Table] = NOTHING) -> tuple[pa.Table, ...]:
    return kernel.run(spec, inputs.__getitem__).tables


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return duckdb.connect().from_arrow(table).fetchall()


def parquet_table(path: Path, sql: str, rows_per_group: int = 2048) -> Table:
    duckdb.connect().execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {rows_per_group})")
    return Catalog().register("t", str(path))


def a_scan(
    table: Table, sql: str, columns: tuple[tuple[str, str], ...], width: int = 1, opaque: str | None = None
) -> Stage:
    item = TableInput("t", "t", table.version, tuple(name for name, _ in table.columns), split=True)
    return a_stage(sql, columns, scans=(item,), width=width, opaque=opaque)


N = (("n", "BIGINT"),)


def test_reads_stage_inputs_of_several_chunks(kernel: Kernel) -> None:
    chunks = pa.concat_tables([pa.table({"a": [1, 2]}), pa.table({"a": [3]})])
    (out,) = run(kernel, a_spec(a_stage("SELECT sum(a)::BIGINT AS n FROM x", N, ("x",))), {"x": chunks})
    assert rows(out) == [(6,)]


def test_nothing_stays_registered(kernel: Kernel) -> None:
    stage = a_stage("SELECT a::BIGINT AS n FROM x", N, ("x",))
    run(kernel, a_spec(stage), {"x": pa.table({"a": [1]})})
    with pytest.raises(duckdb.CatalogException):
        run(kernel, a_spec(a_stage("SELECT a::BIGINT AS n FROM x", N)))


def test_inputs_are_cleaned_up_after_an_error(kernel: Kernel) -> None:
    bad = a_stage("SELECT error('no') AS n FROM x", N, ("x",))
    with pytest.raises(duckdb.Error):
        run(kernel, a_spec(bad), {"x": pa.table({"a": [1]})})
    with pytest.raises(duckdb.CatalogException):
        run(kernel, a_spec(a_stage("SELECT a::BIGINT AS n FROM x", N)))


def test_variables_of_python_are_not_tables(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qoop.engine.kernel.hidden", pa.table({"a": [1]}), raising=False)
    with pytest.raises(duckdb.CatalogException):
        run(kernel, a_spec(a_stage("SELECT a AS n FROM hidden", N)))


def test_empty_inputs_keep_the_schema(kernel: Kernel) -> None:
    empty = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    columns = (("a", "BIGINT"), ("b", "VARCHAR"))
    (out,) = run(kernel, a_spec(a_stage("SELECT a, b FROM x", columns, ("x",))), {"x": empty})
    assert out.schema == empty.schema and out.num_rows == 0
    parts = run(kernel, a_spec(a_stage("SELECT a, b FROM x", columns, ("x",), layout=Layout(("a",), 3))), {"x": empty})
    assert [part.schema for part in parts] == [empty.schema] * 3


@pytest.mark.parametrize("parts", [2, 7, 300])
@pytest.mark.parametrize("threads", [1, 2])
def test_partitions_are_a_partition(kernel: Kernel, parts: int, threads: int) -> None:
    sql = "SELECT range AS n, range % 100 AS k, 'row ' || range AS s FROM range(30000)"
    stage = a_stage(sql, (("n", "BIGINT"), ("k", "BIGINT"), ("s", "VARCHAR")), layout=Layout(("k", "s"), parts))
    out = run(kernel, a_spec(stage, threads=threads))
    con = duckdb.connect()
    assert len(out) == parts
    if threads == 1:
        assert all(part["n"].to_pylist() == sorted(part["n"].to_pylist()) for part in out)
    numbered = [
        part.append_column("part", pa.array([number] * part.num_rows, "int64")) for number, part in enumerate(out)
    ]
    cut = con.from_arrow(pa.concat_tables(numbered))
    assert cut.aggregate(f"bool_and(hash(k, s) % {parts} = part)").fetchall() == [(True,)]
    everything = pa.concat_tables(out)
    assert everything.column_names == ["n", "k", "s"]
    assert con.from_arrow(everything).order("n").fetchall() == con.sql(f"{sql} ORDER BY n").fetchall()


def test_partition_function_is_pinned() -> None:
    """Checkpoints of other processes and DuckDB versions were cut with these values."""
    golden = {
        "1::INTEGER": 4717996019076358352,
        "1::BIGINT": 4717996019076358352,
        "-7::SMALLINT": 10563357550827413168,
        "'abc'": 1924864467101078684,
        "'a string that is longer than twelve bytes'": 6196857655339949878,
        "''": 5104928228550385088,
        "1.50::DECIMAL(4,2)": 11259946367786091803,
        "1.50::DECIMAL(7,2)": 11259946367786091803,
        "1.50::DECIMAL(15,2)": 11259946367786091803,
        "1.50::DECIMAL(38,2)": 11259946367786091803,
        "DATE '2000-01-01'": 13639218996669248912,
        "TIMESTAMP '2000-01-01 12:00:00'": 8078417377799672167,
        "NULL::INTEGER": 13787848793156543929,
        "NULL::VARCHAR": 13787848793156543929,
        "1.5::DOUBLE": 1706605666616485939,
        "-0.0::DOUBLE": 0,
        "true": 4717996019076358352,
        "170141183460469231731687303715884105727::HUGEINT": 17464040461585920464,
        "[1, 2]": 6530802887144669425,
        "{'a': 1}": 4717996019076358352,
    }
    found = {text: duckdb.sql(f"SELECT hash({text})").fetchall()[0][0] for text in golden}
    assert found == golden
    assert duckdb.sql("SELECT hash(1::INTEGER, 'abc', DATE '2000-01-01')").fetchall() == [(17115844291144032216,)]


TYPED = [
    "170141183460469231731687303715884105727::HUGEINT", "'6f9619ff-8b86-d011-b42d-00c04fc964ff'::UUID",
    "'{\"a\":1}'::JSON", "'12:00:00+02'::TIMETZ", "[1, NULL, 2]", "{'a': 1, 'b': 'x'}", "1.5::DECIMAL(38,5)",
    "1.5::DECIMAL(4,1)", "'1011'::BIT", "INTERVAL '1 month 3 days'", "'2020-01-01 00:00:00+00'::TIMESTAMPTZ",
    "'2020-01-01'::TIMESTAMP_S", "'2020-01-01'::TIMESTAMP_NS", "DATE '2020-01-01'", "TIME '12:00:00'",
    "'\\xAA'::BLOB", "MAP {'a': 1}", "true", "1::TINYINT", "1::USMALLINT", "1::FLOAT", "[1, 2]::INTEGER[2]",
    "NULL::INTEGER", "[1::HUGEINT]", "18446744073709551615::UBIGINT",
]  # fmt: skip


@pytest.mark.parametrize("parts", [1, 2])
def test_types_survive_the_border(kernel: Kernel, parts: int) -> None:
    sql = "SELECT " + ", ".join(f"{text} AS c{i}" for i, text in enumerate(TYPED)) + " FROM range(3)"
    expected = duckdb.sql(sql)
    columns = tuple((f"c{i}", str(type_)) for i, type_ in enumerate(expected.types))
    first = run(kernel, a_spec(a_stage(sql, columns, layout=Layout(("c13",), parts))))
    again = a_stage("SELECT * FROM x", columns, ("x",))
    checks = ", ".join(f"typeof(c{i})" for i in range(len(TYPED)))
    typed = a_stage(f"SELECT DISTINCT {checks} FROM x", columns, ("x",))
    whole = pa.concat_tables(first)
    (back,) = run(kernel, a_spec(again), {"x": whole})
    assert back.schema == whole.schema
    (types,) = run(kernel, a_spec(typed), {"x": back})
    assert [str(value) for value in rows(types)[0]] == [type_ for _, type_ in columns]
    (equal,) = run(
        kernel, a_spec(a_stage(f"SELECT count(*) AS n FROM (FROM x EXCEPT ({sql}))", N, ("x",))), {"x": back}
    )
    assert rows(equal) == [(0,)]


@pytest.mark.skipif(not hasattr(pa, "decimal32"), reason="this pyarrow has no narrow decimals")
@pytest.mark.parametrize("parts", [1, 3])
def test_decimals_are_narrow_between_stages_and_as_usual_in_answers(kernel: Kernel, parts: int) -> None:
    types = ("DECIMAL(7,2)", "DECIMAL(18,4)", "DECIMAL(38,2)", "DECIMAL(9,2)[]")
    values = ("-12345.67", "12345678901234.5678", "1e30", "[1.25, NULL]")
    columns = tuple((f"c{number}", type_) for number, type_ in enumerate(types))
    items = ", ".join(f"CAST({v} AS {type_}) AS {name}" for v, (name, type_) in zip(values, columns, strict=True))
    sql = f"SELECT {items} UNION ALL SELECT {', '.join('NULL' for _ in types)}"
    stage = a_stage(sql, columns, layout=Layout(("c0",), parts) if parts > 1 else UNCUT)
    made = pa.concat_tables(run(kernel, a_spec(stage)))
    assert [str(type_) for type_ in made.schema.types[:3]] == [
        "decimal32(7, 2)",
        "decimal64(18, 4)",
        "decimal128(38, 2)",
    ]
    again = a_stage("SELECT * FROM s0 ORDER BY c0", columns, ("s0",))
    answer = run(kernel, replace(a_spec(again), answer=True), {"s0": made})[0]
    assert {type_.bit_width for type_ in answer.schema.types[:3]} == {128}
    assert rows(answer) == duckdb.sql(f"FROM ({sql}) ORDER BY 1").fetchall()


def test_vectorised_functions_get_decimals_as_usual(kernel: Kernel) -> None:
    seen: list[str] = []

    def doubled(column: pa.Array) -> pa.Array:
        seen.append(str(column.type))
        return pc.add(column, column).cast(pa.decimal128(9, 2))

    function = UserFunction("f", "1", ("DECIMAL(7,2)",), "DECIMAL(9,2)", vectorised=True, call=doubled)
    stage = a_stage('SELECT "f@1"(CAST(1.25 AS DECIMAL(7,2))) AS a', (("a", "DECIMAL(9,2)"),))
    assert rows(run(kernel, replace(a_spec(stage), functions=(function,)))[0]) == [(Decimal("2.50"),)]
    assert set(seen) == {"decimal128(7, 2)"}


def test_splits_of_a_table_make_the_table(kernel: Kernel, tmp_path: Path) -> None:
    table = parquet_table(tmp_path / "t.parquet", "SELECT range AS a, range % 7 AS b FROM range(20000)")
    stage = a_scan(table, "SELECT sum(a)::BIGINT AS n, count(*) AS k FROM t WHERE b < 5", (*N, ("k", "BIGINT")), 3)
    outs = [rows(run(kernel, a_spec(stage, part, {"t": table}))[0])[0] for part in range(3)]
    expected = duckdb.sql("SELECT sum(range)::BIGINT, count(*) FROM range(20000) WHERE range % 7 < 5").fetchall()
    assert [tuple(map(sum, zip(*outs, strict=True)))] == expected
    assert all(out[1] for out in outs)


def test_more_tasks_than_pieces_read_nothing(kernel: Kernel, tmp_path: Path) -> None:
    table = parquet_table(tmp_path / "t.parquet", "SELECT range AS a FROM range(10)")
    stage = a_scan(table, "SELECT a AS n FROM t", N, 4)
    assert sum(run(kernel, a_spec(stage, part, {"t": table}))[0].num_rows for part in range(4)) == 10


def test_arrow_tables_are_inputs(kernel: Kernel) -> None:
    table = Catalog().register("t", pa.table({"a": [1, 2, 3]}))
    (out,) = run(kernel, a_spec(a_scan(table, "SELECT sum(a)::BIGINT AS n FROM t", N), tables={"t": table}))
    assert rows(out) == [(6,)]


def test_tables_of_a_database_file_are_let_go(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE t AS SELECT range AS a FROM range(5)")
    (table,), _ = Catalog().register_database(path)
    (out,) = run(kernel, a_spec(a_scan(table, "SELECT sum(a)::BIGINT AS n FROM t", N), tables={"t": table}))
    assert rows(out) == [(10,)]
    with duckdb.connect(str(path)) as con:  # would fail while a kernel holds the file
        con.execute("SELECT 1")


def test_opaque_text_of_any_form(kernel: Kernel) -> None:
    table = Catalog().register("t", pa.table({"a": [3, 1, 2]}))
    stage = a_scan(table, "-- a comment\nFROM t ORDER BY a", (("a", "BIGINT"),), opaque="verbatim")
    assert rows(run(kernel, a_spec(stage, tables={"t": table}))[0]) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("name", ["t", "a table"])
def test_opaque_text_reads_the_rows_of_its_own_task(kernel: Kernel, name: str) -> None:
    columns = pa.table({"a": [1, 2]}), pa.table({"a": [5]}), pa.table({"a": [0.5], "b": ["x"]}), pa.table({"a": [7]})
    for data in columns:
        table = Catalog().register(name, data)
        item = TableInput(name, name, table.version, tuple(table.source.data.column_names), split=False)
        stage = a_stage(f'FROM main."{name}"', table.columns, scans=(item,), opaque="verbatim")
        (found,) = run(kernel, a_spec(stage, tables={name: table}))
        assert rows(found) == rows(data) != []
    with pytest.raises(duckdb.Error):
        run(kernel, a_spec(a_stage(f'FROM main."{name}"', N, opaque="verbatim")))


@pytest.mark.parametrize("opaque", [None, "verbatim"])
def test_rows_of_many_pipelines_all_come_out(kernel: Kernel, opaque: str | None) -> None:
    branch = "SELECT range AS n FROM range(200000) WHERE hash(range) % 3 < {}"
    sql = " UNION ALL ".join(branch.format(rest) for rest in (1, 2, 3))
    (out,) = run(kernel, a_spec(a_stage(sql, N, opaque=opaque)))
    assert sorted(rows(out)) == sorted(duckdb.sql(sql).fetchall()) != []


def test_opaque_text_over_files(kernel: Kernel, tmp_path: Path) -> None:
    table = parquet_table(tmp_path / "t.parquet", "SELECT range AS a FROM range(10)")
    stage = a_scan(table, "/* x */ WITH t2 AS (FROM main.t) FROM t2 LIMIT 3", (("a", "BIGINT"),), opaque="verbatim")
    for _ in range(2):
        assert rows(run(kernel, a_spec(stage, tables={"t": table}))[0]) == [(0,), (1,), (2,)]


def test_scans_join_the_fragments_own_expressions() -> None:
    sql = with_scans("with recursive s as (from t) select * from s", {"t": "SELECT 1 AS a"})
    assert duckdb.sql(sql).fetchall() == [(1,)]


def test_order_of_the_root_is_kept(kernel: Kernel) -> None:
    stage = a_stage("SELECT range AS n FROM range(500000) ORDER BY hash(range)", N)
    (out,) = run(kernel, a_spec(stage, threads=2))
    assert rows(out) == duckdb.sql("SELECT range FROM range(500000) ORDER BY hash(range)").fetchall()


def test_only_what_was_planned_is_kept_from_the_optimizer() -> None:
    assert disabled_optimizers(a_stage("FROM x", N, opaque="why")) == ""
    assert "join_order" in disabled_optimizers(a_stage("FROM x", N))


def test_settings_come_and_go(kernel: Kernel) -> None:
    stage = a_stage("SELECT current_setting('TimeZone') AS n", (("n", "VARCHAR"),))
    before = rows(run(kernel, a_spec(stage))[0])
    assert rows(run(kernel, a_spec(stage, settings=(("TimeZone", "Asia/Tokyo"),)))[0]) == [("Asia/Tokyo",)]
    assert rows(run(kernel, a_spec(stage))[0]) == before


def test_resources_are_what_was_granted(kernel: Kernel) -> None:
    stage = a_stage("SELECT current_setting('threads')::BIGINT AS n", N)
    assert rows(run(kernel, a_spec(stage, threads=2))[0]) == [(2,)]
    assert rows(run(kernel, a_spec(stage, threads=1))[0]) == [(1,)]


LONG = "SELECT count(*) AS n FROM range(1000000000) a, range(1000) b WHERE (a.range * b.range) % 7 = 3"


def raise_if(stop: threading.Event) -> None:
    if stop.is_set():
        raise Stopped


def test_stops_a_long_query(kernel: Kernel) -> None:
    stop, ended = threading.Event(), list[bool]()

    def attempt() -> None:
        try:
            kernel.run(a_spec(a_stage(LONG, N)), NOTHING.__getitem__, lambda: raise_if(stop))
        except Stopped:
            ended.append(True)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    until(lambda: kernel._querying)
    begun = time.process_time()
    stop.set()
    until(lambda: kernel.interrupt() or ended)  # one that comes before DuckDB begins is lost
    thread.join()
    assert time.process_time() - begun < 1.0, "DuckDB works on for 1 ms"
    assert rows(run(kernel, a_spec(a_stage("SELECT 1::BIGINT AS n", N)))[0]) == [(1,)]


def test_a_stop_before_the_start_is_not_lost(kernel: Kernel) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        kernel.run(a_spec(a_stage(LONG, N)), NOTHING.__getitem__, lambda: raise_if(stop))


def failure(kernel: Kernel, spec: TaskSpec) -> tuple[Exception, bool]:
    try:
        run(kernel, spec)
    except Exception as error:
        return to_failure(error, spec)
    raise AssertionError("it did not fail")


def test_errors_say_where_and_what(kernel: Kernel) -> None:
    stage = a_stage("SELECT CAST('many' AS BIGINT) AS n", N, label="final sort")
    error, retryable = failure(kernel, a_spec(stage))
    assert type(error) is ExecutionError and not retryable
    assert error.stage == "s1" and error.part == 0 and error.sql == stage.sql
    for words in ("s1", "final sort", "Could not convert string 'many'"):
        assert words in str(error)


def test_want_of_memory_is_retryable(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path / "spill")
    stage = a_stage("SELECT string_agg(range::VARCHAR) AS n FROM range(30000000)", (("n", "VARCHAR"),))
    error, retryable = failure(kernel, a_spec(stage, memory=20e6))
    assert type(error) is OutOfMemory and retryable and "20 MB" in str(error)
    assert error.single == 0.0
    kernel.close()


def test_want_of_memory_names_the_single_value_that_is_too_large(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path / "spill")
    stage = a_stage("SELECT repeat(range::VARCHAR, 60000000) AS n FROM range(2)", (("n", "VARCHAR"),))
    error, _ = failure(kernel, a_spec(stage, memory=20e6))
    assert type(error) is OutOfMemory and error.single >= 60e6
    kernel.close()


def test_a_spill_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    kernel = Kernel(tmp_path / "file" / "spill")
    stage = a_stage("SELECT range AS n FROM range(20000000) ORDER BY hash(range)", N)
    error, retryable = failure(kernel, a_spec(stage, memory=30e6))
    assert type(error) is DiskFull and not retryable, error
    kernel.close()


@pytest.fixture
def many_rows(tmp_path: Path) -> Table:
    return parquet_table(tmp_path / "t.parquet", "SELECT range AS a, hash(range)::VARCHAR AS b FROM range(20000)")


def test_a_missing_file(kernel: Kernel, tmp_path: Path, many_rows: Table) -> None:
    (tmp_path / "t.parquet").unlink()
    spec = a_spec(a_scan(many_rows, "SELECT a AS n FROM t", N), tables={"t": many_rows})
    error, retryable = failure(kernel, spec)
    assert isinstance(error, (SourceError, TableChanged)) and not retryable and "t.parquet" in str(error)


def test_a_file_changed_after_planning(kernel: Kernel, tmp_path: Path, many_rows: Table) -> None:
    duckdb.connect().execute(f"COPY (SELECT 1::BIGINT AS a, 'x' AS b) TO '{tmp_path}/t.parquet' (FORMAT parquet)")
    spec = a_spec(a_scan(many_rows, "SELECT a AS n FROM t", N), tables={"t": many_rows})
    error, retryable = failure(kernel, spec)
    assert type(error) is TableChanged and not retryable and error.stage == "s1"


def test_a_corrupt_file(kernel: Kernel, tmp_path: Path, many_rows: Table) -> None:
    path = tmp_path / "t.parquet"
    data = bytearray(path.read_bytes())
    first = pq.ParquetFile(path).metadata.row_group(0).column(1).dictionary_page_offset or 4
    start = pq.ParquetFile(path).metadata.row_group(3).column(1).data_page_offset or first
    data[start : start + 400] = b"\xff" * 400
    path.write_bytes(bytes(data))
    spec = a_spec(a_scan(many_rows, "SELECT sum(length(b))::BIGINT AS n FROM t", N), tables={"t": many_rows})
    error, retryable = failure(kernel, spec)
    assert isinstance(error, SourceError) and not retryable, repr(error)


def test_what_duckdb_tells_of_our_own_options_is_left_out(many_rows: Table) -> None:
    spec = a_spec(a_scan(many_rows, "SELECT a AS n FROM t", N), tables={"t": many_rows})
    told = (
        "Invalid Input Error: CSV Error on Line: 2\nOriginal Line: 3\n\n  file = t.csv\n  delimiter = , (Set By User)\n"
    )
    error, _ = to_failure(duckdb.InvalidInputException(told), spec)
    assert str(error).endswith("CSV Error on Line: 2\nOriginal Line: 3")


def test_after_a_setting_was_refused_the_next_task_has_what_it_asks_for(kernel: Kernel) -> None:
    zone = a_stage("SELECT current_setting('TimeZone') AS z", (("z", "VARCHAR"),))
    settings = (("TimeZone", "Asia/Tokyo"),)

    def asked() -> str:
        [table] = run(kernel, a_spec(zone, settings=settings))
        return str(table["z"][0])

    assert asked() == "Asia/Tokyo"
    with pytest.raises(duckdb.Error):
        kernel.run(a_spec(zone, settings=(("default_order", "sideways"),)), lambda name: NOTHING[name])
    assert asked() == "Asia/Tokyo"


def test_a_worn_instance_gives_way_to_a_new_one(
    tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each query leaves memory in DuckDB until the instance is closed; the new one may open what that one could."""
    monkeypatch.setattr(kernels, "WORN", 3)
    table = parquet_table(tmp_path / "t.parquet", "FROM range(10) t(x)")
    stage = a_scan(table, "SELECT sum(x) AS s FROM t", (("s", "HUGEINT"),))
    used = []
    for _ in range(7):
        (answer,) = run(kernel, a_spec(stage, tables={"t": table}))
        assert rows(answer) == [(45,)]
        used.append(kernel._connection)
    assert [len({id(one) for one in used[:3]}), len({id(one) for one in used})] == [1, 3]
