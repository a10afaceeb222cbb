"""Groups that a task finds in a range of a table, by layouts of the table, against counts by DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from qoop.catalog.catalog import Catalog
from qoop.catalog.statistics.stats import TableStats
from qoop.planner.algebra.relation import Aggregate, Relation, Scan, walk
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.clustering import DividedRows
from qoop.planner.estimate.selectivity import sampled
from qoop.planner.rules import apply_rules
from qoop.planner.sql.bind import Binder
from qoop.planner.sql.build import build

ROWS, TASKS = 240_000, 8
LINES = f"""
    SELECT i AS id, i // 12 AS ticket, (hash(i // 12, 1) % 20000)::INTEGER AS customer,
        (hash(i // 12, 2) % 40)::INTEGER AS store, (hash(i, 3) % 50)::INTEGER AS quantity,
        (hash(i, 4) % 3000)::INTEGER AS item, (i // 2000)::INTEGER AS day,
        (2 * (hash(i, 6) % 1500) + i // 120000)::INTEGER AS model,
        ((i + hash(i, 5) % 20000) // 2000)::INTEGER AS shipped
    FROM range({ROWS}) r(i)"""


class Lines:
    """The lines of orders in the order in which they came, in 24 row groups, with the footers' statistics."""

    def __init__(self, folder: Path) -> None:
        self.connection = duckdb.connect()
        self.connection.execute(f"CREATE TABLE lines AS {LINES}")
        self.connection.execute(
            "CREATE TABLE people AS SELECT range AS number, range % 20000 AS name FROM range(20000)"
        )
        self.binder, self.catalog = Binder(), Catalog(folder / "cache")
        for name in ("lines", "people"):
            path = folder / f"{name}.parquet"
            self.connection.execute(f"COPY {name} TO '{path}' (ROW_GROUP_SIZE 10240)")
            table = self.catalog.register(name, path)
            self.binder.add_table(name, "v1", table.columns)

    def relation(self, query: str) -> Aggregate:
        relation = apply_rules(build(self.binder.bind(query), self.binder.describe))
        [aggregate] = [node for node in walk(relation) if isinstance(node, Aggregate)]
        return aggregate

    def seen(self, keys: str, rest: str) -> float:
        """Groups that a task has in the mean."""
        counts = f"SELECT count(*) FROM (SELECT DISTINCT id // {ROWS // TASKS}, {keys} FROM {rest})"
        [(groups,)] = self.connection.execute(counts).fetchall()
        return float(groups) / TASKS

    def stats(self) -> dict[str, TableStats]:
        tables = [self.catalog.table(name) for name in ("lines", "people")]
        return {one.name: self.catalog.known_stats(one.name, [name for name, _ in one.columns]) for one in tables}

    def estimated(self, aggregate: Aggregate, groups: float, rows: float) -> float:
        divided = DividedRows.of(aggregate.input, scan_of(aggregate), Cardinality(self.stats()))
        assert divided is not None
        return divided.groups(aggregate.keys, groups, rows, TASKS)

    def total(self, keys: str, rest: str) -> tuple[float, float]:
        [(groups, rows)] = self.connection.execute(f"SELECT count(DISTINCT ({keys})), count(*) FROM {rest}").fetchall()
        return float(groups), float(rows)


def scan_of(relation: Relation) -> Scan:
    [scan] = [node for node in walk(relation) if isinstance(node, Scan) and node.table == "lines"]
    return scan


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lines]:
    found = Lines(tmp_path_factory.mktemp("lines"))
    with found.catalog:
        yield found


@pytest.mark.parametrize(
    ("keys", "rest"),
    [
        ("customer", "lines"),
        ("ticket", "lines"),
        ("item", "lines"),
        ("day", "lines"),
        ("shipped", "lines"),
        ("customer, store", "lines"),
        ("customer, quantity", "lines"),
        ("item, day", "lines"),
        ("item, shipped", "lines"),
        ("customer, model", "lines"),
        ("name", "lines JOIN people ON customer = number"),
        ("name, store", "lines JOIN people ON customer = number"),
        ("name, item", "lines JOIN people ON customer = number"),
        ("customer", "lines WHERE quantity < 5"),
        ("customer", "lines WHERE store < 5"),
        ("name", "lines JOIN people ON customer = number WHERE quantity < 10 AND name < 10000"),
    ],
)
def test_a_task_has_the_groups_of_its_range(lines: Lines, keys: str, rest: str) -> None:
    aggregate = lines.relation(f"SELECT {keys}, count(*) FROM {rest} GROUP BY {keys}")
    seen = lines.seen(keys, rest)
    assert seen > 0
    assert lines.estimated(aggregate, *lines.total(keys, rest)) == pytest.approx(seen, rel=0.2)


def test_rows_in_random_order_are_independent_draws(lines: Lines) -> None:
    """No more is known of a table without runs than that rows are drawn at random."""
    aggregate = lines.relation("SELECT item, quantity, count(*) FROM lines GROUP BY item, quantity")
    groups, rows = lines.total("item, quantity", "lines")
    drawn = sampled(groups, rows, rows / TASKS)
    assert lines.estimated(aggregate, groups, rows) == pytest.approx(drawn, rel=0.05)
    assert lines.seen("item, quantity", "lines") == pytest.approx(drawn, rel=0.05)


def test_runs_bring_far_fewer_groups_than_independent_rows(lines: Lines) -> None:
    groups, rows = lines.total("customer", "lines")
    assert sampled(groups, rows, rows / TASKS) > 3.0 * lines.seen("customer", "lines")


@pytest.mark.parametrize(
    ("keys", "rest", "times"),
    [
        ("customer, day", "lines", 5.0),
        ("customer, store", "lines", 5.0),
        ("name, store", "lines JOIN people ON customer = number", 10.0),
        ("customer", "lines WHERE store < 8", 3.0),
        ("ticket", "lines WHERE store < 8", 3.0),
        ("name, store", "lines JOIN people ON customer = number WHERE store < 8", 10.0),
        ("customer, store", "lines WHERE quantity < 5", 1.5),
    ],
)
def test_lines_of_orders_have_as_many_groups_as_there_are_orders(
    lines: Lines, keys: str, rest: str, times: float
) -> None:
    """Drawn one by one, they would have that many times as many."""
    aggregate = lines.relation(f"SELECT {keys}, count(*) FROM {rest} GROUP BY {keys}")
    cardinality, (groups, _) = Cardinality(lines.stats()), lines.total(keys, rest)
    assert cardinality.rows(aggregate) == pytest.approx(groups, rel=0.2)
    assert cardinality.distinct(aggregate.input, aggregate.keys) > times * groups


@pytest.mark.parametrize("query", [
    "SELECT customer, count(*) FROM (SELECT * FROM lines ORDER BY quantity LIMIT 1000) GROUP BY customer",
    "SELECT customer, count(*) FROM (SELECT customer FROM lines UNION ALL SELECT number FROM people) GROUP BY customer",
])  # fmt: skip
def test_no_order_is_known_above_operators_that_mix_rows(lines: Lines, query: str) -> None:
    aggregate = lines.relation(query)
    assert DividedRows.of(aggregate.input, scan_of(aggregate), Cardinality({})) is None


def test_a_key_of_a_random_function_has_no_runs(lines: Lines) -> None:
    aggregate = lines.relation("SELECT k, count(*) FROM (SELECT random() AS k FROM lines) GROUP BY k")
    assert lines.estimated(aggregate, ROWS, ROWS) == pytest.approx(ROWS / TASKS)


@pytest.mark.parametrize(
    "part",
    ["year(d)", "extract(year FROM d)", "date_part('month', d)", "quarter(d)", "date_trunc('month', d)",
     "dayofweek(d)", "hour(moment)", "date_trunc('day', moment)"],
)  # fmt: skip
def test_parts_of_dates_have_few_values(tmp_path: Path, part: str) -> None:
    rows = """SELECT DATE '1992-03-05' + (hash(i) % 2000)::INTEGER AS d,
        TIMESTAMP '1992-03-05' + INTERVAL 1 SECOND * (hash(i) % 40000000) AS moment FROM range(20000) r(i)"""
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path / 'days.parquet'}'")
    with Catalog(tmp_path / "cache") as catalog:
        table = catalog.register("days", tmp_path / "days.parquet")
        binder = Binder()
        binder.add_table("days", "v1", table.columns)
        bound = binder.bind(f"SELECT {part} AS part, count(*) FROM days GROUP BY part")
        relation = apply_rules(build(bound, binder.describe))
        estimated = Cardinality({"days": catalog.known_stats("days", ("d", "moment"))}).rows(relation)
    [(seen,)] = duckdb.sql(f"SELECT count(DISTINCT {part}) FROM ({rows})").fetchall()
    assert seen > 1 and estimated == pytest.approx(seen, rel=0.35)
