"""Statistics against exact values by DuckDB, their cache, and keys."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from qoop.catalog import paths
from qoop.catalog.catalog import Catalog
from qoop.catalog.errors import CatalogError, SourceError, TableChanged
from qoop.catalog.signed_json import opened, sealed
from qoop.catalog.statistics import collect as collecting
from qoop.catalog.statistics import stats_cache
from qoop.catalog.statistics.scalars import scalar_sql
from qoop.catalog.statistics.stats import ColumnStats, TableStats, to_scalar
from qoop.catalog.table import Table

KEY = b"a key"

# One row of a table with about every kind of distribution and type.
COLUMNS = """
    i AS id,
    i // 12 AS ticket, (i * 7919) % 1000 AS item,
    CASE WHEN i % 4 = 0 THEN NULL ELSE (hash(i) % 100)::INTEGER END AS quarter_null,
    CASE WHEN hash(i, 1) % 2 = 0 THEN 'half' ELSE 'v' || (hash(i, 2) % 5000)::VARCHAR END AS skewed,
    (hash(i, 3) % 1000000 / 100)::DECIMAL(9, 2) AS price,
    DATE '2000-01-01' + (hash(i, 4) % 365)::INTEGER AS day,
    TIMESTAMP '2000-01-01' + INTERVAL 1 SECOND * (i % 1000) AS moment,
    hash(i, 5) % 3 = 0 AS flag,
    CASE hash(i, 6) % 3 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN 1.0 ELSE i END AS real,
    [i] AS list, uuid() AS unique_text, NULL::INTEGER AS nothing, repeat('long', 1 + (i % 100)::INTEGER) AS text
"""


@pytest.fixture(scope="module", params=[5_000, 300_000], ids=["whole", "sampled"])
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("stats")
    path = folder / "t.parquet"
    duckdb.connect().execute(
        f"COPY (SELECT {COLUMNS} FROM range({request.param}) r(i)) TO '{path}' (ROW_GROUP_SIZE 20480)"
    )
    with Catalog(folder / "cache") as catalog:
        catalog.register("t", path)
        yield path, catalog.stats("t")


ORDERED = ["id", "ticket", "item", "quarter_null", "skewed", "price", "day", "moment", "flag", "unique_text"]


def exact(path: Path, what: str) -> object:
    found = duckdb.execute(f"SELECT {what} FROM '{path}'").fetchall()[0]
    assert found
    return found[0]


@pytest.mark.parametrize("name", [*ORDERED, "real", "list", "nothing", "text"])
def test_nulls_and_distinct_are_near_the_truth(example: tuple[Path, TableStats], name: str) -> None:
    path, stats = example
    sampled = stats.rows > 200_000
    column = stats.columns[name]
    assert column.nulls == pytest.approx(exact(path, f"count(*) - count({name})"), rel=0.05)
    assert column.distinct == pytest.approx(exact(path, f"count(DISTINCT {name})"), rel=0.3 if sampled else 0)


@pytest.mark.parametrize("name", ORDERED)
def test_extremes_are_exact(example: tuple[Path, TableStats], name: str) -> None:
    path, stats = example
    column = stats.columns[name]
    low, high = (to_scalar(exact(path, f"{which}({name})")) for which in ("min", "max"))
    if name == "unique_text":
        low, high = (exact(path, f"{which}({name}::VARCHAR)") for which in ("min", "max"))
    assert (column.minimum, column.maximum) == (low, high)


@pytest.mark.parametrize("name", ["id", "item", "price", "day", "moment", "quarter_null"])
def test_a_histogram_cuts_the_rows_evenly(example: tuple[Path, TableStats], name: str) -> None:
    path, stats = example
    column = stats.columns[name]
    assert list(column.bounds) == sorted(column.bounds)
    assert len(column.bounds) == 65
    scalar = scalar_sql(name, kind(path, name))
    inside = stats.rows - column.nulls - sum(fraction for _, fraction in column.common) * stats.rows
    common = ", ".join(str(value) for value, _ in column.common) or "NULL::INTEGER"
    below = exact(
        path, f"count(*) FILTER ({scalar} < {column.bounds[32]} AND coalesce({scalar} NOT IN ({common}), true))"
    )
    assert below == pytest.approx(inside / 2, rel=0.06)


def kind(path: Path, name: str) -> str:
    return str(duckdb.execute(f"DESCRIBE SELECT {name} FROM '{path}'").fetchall()[0][1])


def test_common_values_have_their_fractions(example: tuple[Path, TableStats]) -> None:
    _, stats = example
    (value, fraction), *_ = stats.columns["skewed"].common
    assert value == "half"
    assert fraction == pytest.approx(0.5, abs=0.02)
    assert "half" not in stats.columns["skewed"].bounds
    assert dict(stats.columns["flag"].common).keys() == {0.0, 1.0}
    assert sum(fraction for _, fraction in stats.columns["flag"].common) == pytest.approx(1)
    assert stats.columns["flag"].bounds == ()


def test_uniform_columns_have_no_common_values(example: tuple[Path, TableStats]) -> None:
    _, stats = example
    assert stats.columns["id"].common == stats.columns["unique_text"].common == ()


def test_values_that_do_not_order_are_left_out(example: tuple[Path, TableStats]) -> None:
    _, stats = example
    real = stats.columns["real"]
    assert all(value == value for value in (real.minimum, real.maximum, *real.bounds))
    assert (stats.columns["list"].minimum, stats.columns["list"].bounds) == (None, ())
    assert stats.columns["nothing"] == ColumnStats(nulls=stats.rows, distinct=0, width=4)


def test_long_texts_are_cut_and_never_called_common(example: tuple[Path, TableStats]) -> None:
    path, stats = example
    text = stats.columns["text"]
    assert max(len(str(value)) for value in text.bounds) == 200
    assert all(len(str(value)) <= 200 for value, _ in text.common)
    assert text.width == pytest.approx(exact(path, "avg(strlen(text))"), rel=0.02)


def test_keys_are_columns_or_pairs_without_duplicates(example: tuple[Path, TableStats]) -> None:
    _, stats = example
    assert stats.keys == {frozenset({name}) for name in ("id", "unique_text", "list")}


def pairs(rows: int, duplicate: str = "") -> pa.Table:
    select = f"SELECT i // 12 AS ticket, (i * 7919) % 500 AS item, i % 5 AS other FROM range({rows}) r(i)"
    return duckdb.sql(f"{select} {duplicate}").to_arrow_table()


@pytest.mark.parametrize("rows", [2_000, 300_000])
def test_a_pair_of_columns_can_be_a_key(tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qoop.catalog.statistics.keys._ROWS_A_PASS", 100_000)
    with Catalog(tmp_path) as catalog:
        catalog.register("t", pairs(rows))
        assert frozenset({"ticket", "item"}) in catalog.stats("t", ["ticket", "item"]).keys
        catalog.register("u", pairs(rows, "UNION ALL SELECT 3, (36 * 7919) % 500, 0"))
        assert frozenset({"ticket", "item"}) not in catalog.stats("u", ["ticket", "item"]).keys


def test_a_pair_is_found_when_its_columns_are_asked_for_one_by_one(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog:
        catalog.register("t", pairs(2_000).select(["ticket", "other", "item"]))
        assert catalog.stats("t", ["ticket"]).keys == frozenset()
        assert frozenset({"ticket", "item"}) in catalog.stats("t", ["item"]).keys


def test_a_column_with_one_null_is_no_key(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog:
        catalog.register("t", pa.table({"a": [1, 2, None]}))
        assert catalog.stats("t").keys == frozenset()


def test_distinct_values_of_huge_tables_grow_as_their_blocks_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "DISTINCT_ROWS", 400_000)
    monkeypatch.setattr(collecting, "SAMPLE_ROWS", 1_000)
    columns = "i AS all_new, (hash(i) % 20000)::BIGINT AS everywhere, i // 4 AS clustered"
    duckdb.connect().execute(
        f"COPY (SELECT {columns} FROM range(1600000) r(i)) TO '{tmp_path}/t.parquet' (ROW_GROUP_SIZE 2048)"
    )
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", tmp_path / "t.parquet")
        stats = catalog.stats("t").columns
        assert stats["all_new"].distinct == pytest.approx(1_600_000, rel=0.4)
        assert stats["everywhere"].distinct == pytest.approx(20_000, rel=0.4)
        assert stats["clustered"].distinct == pytest.approx(400_000, rel=0.6)


def test_locality_tells_how_sorted_a_table_is(tmp_path: Path) -> None:
    columns = "i AS sorted, i // 30000 AS level, 300000 - i AS falling, hash(i) % 1000 AS anyhow, i % 7 AS cycle"
    duckdb.connect().execute(f"COPY (SELECT {columns} FROM range(300000) r(i)) TO '{tmp_path}/t.parquet'")
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", tmp_path / "t.parquet")
        found = {name: column.locality for name, column in catalog.stats("t").columns.items()}
    assert found["sorted"] == pytest.approx(1 / 16, rel=0.2) == found["falling"]
    assert 1 / 16 < found["level"] < 0.3
    assert min(found["anyhow"], found["cycle"]) > 0.9


def test_statistics_are_the_same_every_time(tmp_path: Path) -> None:
    duckdb.connect().execute(f"COPY (SELECT hash(i) % 99999 AS x, i FROM range(300000) r(i)) TO '{tmp_path}/t.parquet'")
    results = []
    for run in ("one", "two"):
        with Catalog(tmp_path / run) as catalog:
            catalog.register("t", tmp_path / "t.parquet")
            results.append(catalog.stats("t"))
    assert results[0] == results[1]


@pytest.mark.parametrize("files", [1, 3, 80])
def test_a_sample_in_stripes_shows_all_parts_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int) -> None:
    monkeypatch.setattr("qoop.catalog.sources.files._STRIPE_ROWS", 16)
    monkeypatch.setattr(collecting, "SAMPLE_ROWS", 10_000)
    rows = 480_000 // files
    for number in range(files):
        select = f"SELECT {number * rows} + i AS id, ({number * rows} + i) // 9600 AS slow FROM range({rows}) r(i)"
        duckdb.connect().execute(f"COPY ({select}) TO '{tmp_path}/{number:02}.parquet'")
    with Catalog(tmp_path / "cache") as catalog:
        table = catalog.register("t", tmp_path)
        sql = table.source.sample((("id", "BIGINT"), ("slow", "BIGINT")), table.rows // 10_000)
        assert "CASE" in str(sql)
        counts = [count for (count,) in duckdb.execute(f"SELECT count(*) FROM ({sql}) GROUP BY slow").fetchall()]
        assert sum(counts) == pytest.approx(10_000, rel=0.15)
        assert len(counts) == 50
        assert catalog.stats("t", ["slow"]).columns["slow"].distinct == 50
        assert catalog.stats("t", ["id"]).columns["id"].bounds[32] == pytest.approx(240_000, rel=0.1)


@pytest.mark.parametrize("kind", ["arrow", "csv", "duckdb", "json"])
def test_every_kind_of_source_has_statistics(tmp_path: Path, kind: str) -> None:
    data = duckdb.sql("SELECT i AS x, 's' || i % 7 AS s FROM range(250000) r(i)")
    with Catalog(tmp_path / "cache") as catalog:
        if kind == "arrow":
            catalog.register("t", data)
        elif kind == "duckdb":
            with duckdb.connect(str(tmp_path / "d.duckdb")) as database:
                database.register("v", data.to_arrow_table())
                database.execute("CREATE TABLE t AS FROM v")
            catalog.register_database(tmp_path / "d.duckdb")
        else:
            duckdb.connect().execute(
                f"COPY (SELECT i AS x, 's' || i % 7 AS s FROM range(250000) r(i)) TO '{tmp_path}/t.{kind}'"
            )
            catalog.register("t", tmp_path / f"t.{kind}")
        stats = catalog.stats("t")
        assert (stats.rows, stats.columns["x"].minimum, stats.columns["x"].maximum) == (250_000, 0, 249_999)
        assert stats.columns["s"].distinct == 7
        assert frozenset({"x"}) in stats.keys


def test_an_empty_table(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog:
        catalog.register("t", pa.table({"x": pa.array([], pa.int64()), "s": pa.array([], pa.string())}))
        stats = catalog.stats("t")
        assert (stats.rows, stats.bytes, stats.keys) == (0, 0, frozenset())
        assert stats.columns["x"] == ColumnStats(0, 0, width=4.0 * 2)


class Counting:
    """Counts how often statistics are collected, and for which columns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[list[str]] = []
        lock = threading.Lock()
        really = collecting.collect

        def collect(probe: object, table: Table, columns: list[str], known: TableStats | None) -> TableStats:
            with lock:
                self.asked.append(list(columns))
            return really(probe, table, columns, known)  # type: ignore[arg-type]

        monkeypatch.setattr("qoop.catalog.statistics.collect.collect", collect)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    duckdb.connect().execute(
        f"COPY (SELECT i AS a, i % 5 AS b, 'x' AS c FROM range(100) r(i)) TO '{tmp_path}/t.parquet'"
    )
    return tmp_path / "t.parquet"


def test_only_what_is_missing_is_collected(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", file)
        assert catalog.stats("t", ["a"]).columns.keys() == {"a"}
        assert list(catalog.stats("t", ["b", "a"]).columns) == ["a", "b"]
        catalog.stats("t", [])
        assert catalog.stats("t").keys == {frozenset({"a"})}
    assert counting.asked == [["a"], ["b"], ["c"]]


def test_another_process_finds_them_on_disk(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", file)
        first = catalog.stats("t")
    counting = Counting(monkeypatch)
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("other_name", file)
        assert catalog.stats("other_name") == first
    assert counting.asked == []


@pytest.mark.parametrize("content", ["", "{", '{"format": 0}', '{"format": 1}', "[]", '{"format": 1, "columns": []}'])
def test_a_damaged_or_old_cache_is_collected_again(file: Path, tmp_path: Path, content: str) -> None:
    for _ in range(2):
        with Catalog(tmp_path / "cache") as catalog:
            table = catalog.register("t", file)
            assert catalog.stats("t").columns["b"].distinct == 5
        cached = tmp_path / "cache" / "statistics" / f"{table.version}.json"
        assert json.loads(cached.read_text())["rows"] == 100
        cached.write_text(content)


def test_data_in_memory_is_not_kept_on_disk(tmp_path: Path) -> None:
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", pa.table({"a": [1]}))
        catalog.stats("t")
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_is_only_a_warning(file: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", file)
        with pytest.warns(RuntimeWarning, match="QOOP_CACHE_DIR"):
            assert catalog.stats("t").rows == 100


def test_the_place_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOOP_CACHE_DIR", "/somewhere")
    assert paths.cache_directory() == Path("/somewhere")
    monkeypatch.delenv("QOOP_CACHE_DIR")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert paths.cache_directory() == Path("/xdg/qoop")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert paths.cache_directory() == Path.home() / ".cache" / "qoop"


def test_json_keeps_everything() -> None:
    column = ColumnStats(1.0, 2.0, "a", "b", (("a", 0.5),), ("a", "b"), 3.0)
    stats = TableStats(10.0, 20.0, {"x": column, "d": ColumnStats(0.0, 1.0, 5.0, 6.0)}, frozenset({frozenset({"x"})}))
    text = stats_cache.to_json(stats, "v1", KEY).encode()
    assert stats_cache.from_json(text, "v1", KEY) == stats
    assert stats_cache.from_json(text, "v2", KEY) is None, "it was swapped with that of another table"
    assert stats_cache.from_json(text, "v1", b"another") is None


WRONG = [
    {"rows": "x"}, {"rows": -1}, {"rows": float("nan")}, {"rows": float("inf")}, {"rows": True}, {"rows": None},
    {"bytes": [1]}, {"columns": []}, {"columns": {"a": None}}, {"keys": 3}, {"keys": [[1]]}, {"keys": ["a"]},
]  # fmt: skip
WRONG_OF_A_COLUMN = [
    {"nulls": []}, {"nulls": -1}, {"distinct": "many"}, {"minimum": {}}, {"minimum": "a"}, {"maximum": [1]},
    {"common": [1]}, {"common": [[1]]}, {"common": [[1, "x"]]}, {"common": [["a", 0.5]]}, {"bounds": "ab"},
    {"bounds": [None]}, {"bounds": 5}, {"width": None}, {"locality": float("-inf")},
]  # fmt: skip


@pytest.mark.parametrize("change", [*WRONG, *({"a": one} for one in WRONG_OF_A_COLUMN)], ids=str)
def test_values_that_no_statistics_have_are_a_miss(change: dict[str, Any]) -> None:
    """Even under a valid seal: an older release may have written them."""
    stats = TableStats(10.0, 20.0, {"a": ColumnStats(0.0, 1.0, 5.0, 6.0, ((5.0, 0.5),), (5.0, 6.0))})
    body = opened(stats_cache.to_json(stats, "v", KEY).encode(), KEY)
    assert stats_cache.from_json(sealed(body, KEY).encode(), "v", KEY) == stats
    (body["columns"]["a"] if "a" in change else body).update(change.get("a", change))
    assert stats_cache.from_json(sealed(body, KEY).encode(), "v", KEY) is None


def test_threads_collect_once_and_see_the_same(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    with Catalog(tmp_path / "cache") as catalog, ThreadPoolExecutor(8) as pool:
        catalog.register("t", file)
        results = list(pool.map(lambda _: catalog.stats("t"), range(32)))
    assert all(result == results[0] for result in results)
    assert counting.asked == [["a", "b", "c"]]


def test_threads_may_register_drop_and_look_up_at_once(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for tick in range(10):
            name = f"t{number}_{tick}"
            catalog.register(name, pa.table({"a": [number]}))
            assert catalog.stats(name).columns["a"].minimum == number
            assert name in catalog.tables()
            catalog.drop(name)

    with Catalog(tmp_path) as catalog, ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
        assert not catalog.tables()


def test_data_changed_or_damaged_since_registration(file: Path, tmp_path: Path) -> None:
    with Catalog(tmp_path / "cache") as catalog:
        catalog.register("t", file)
        content = bytearray(file.read_bytes())
        content[4:40] = os.urandom(36)  # the footer still stands
        file.write_bytes(bytes(content))
        with pytest.raises(SourceError, match="cannot read table t"):
            catalog.stats("t")
        duckdb.connect().execute(f"COPY (SELECT 1 AS a, 2 AS b, 3 AS c) TO '{file}'")
        with pytest.raises(TableChanged):
            catalog.stats("t")


def test_unknown_columns_and_closed_catalogs(file: Path, tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "cache")
    catalog.register("t", file)
    with pytest.raises(CatalogError, match="no column z; it has a, b, c"):
        catalog.stats("t", ["a", "z"])
    catalog.close()
    catalog.close()
    with pytest.raises(CatalogError, match="closed"):
        catalog.register("t", file)
    with pytest.raises(CatalogError, match="closed"):
        catalog.register_folder(file.parent)


def test_scalars_in_sql_are_those_of_python() -> None:
    for sql in ("DATE '1960-02-03'", "TIMESTAMP '2001-02-03 04:05:06.5'", "TIME '01:02:03'", "1.5::DECIMAL(4,1)",
                "true", "INTERVAL 36 HOURS", "'x'", "3::HUGEINT", "TIMESTAMPTZ '2001-02-03 04:05:06+00'"):  # fmt: skip
        type_ = str(duckdb.execute(f"DESCRIBE SELECT {sql}").fetchall()[0][1])
        duckdb.execute("SET TimeZone = 'UTC'")
        ours, python = duckdb.execute(f"SELECT {scalar_sql(sql, type_)}, {sql}").fetchall()[0]
        assert ours == to_scalar(python), sql
