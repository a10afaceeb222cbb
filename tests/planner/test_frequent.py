"""Joins of columns that are no keys: frequent values that both sides have count, and few rows tell of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from qoop.catalog.statistics.stats import ColumnStats, TableStats
from qoop.planner.algebra.expr import Column, Expr, equals
from qoop.planner.algebra.relation import Join, Relation, Scan
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.estimate.doubts import joined_unevenly
from qoop.planner.estimate.frequent import excess_of
from qoop.planner.estimate.selectivity import Spread
from qoop.planner.join_order.enumerate import search
from qoop.planner.join_order.graph import JoinGraph
from qoop.planner.join_order.group import collect
from qoop.query import preparation
from qoop.session.opening import connect
from qoop.session.session import Session

VALUES = 100
HALF = [min(i, VALUES - 1) if i < VALUES else 7 for i in range(2 * VALUES)]
"""All values once, and one of them in over half of the rows."""


def table(values: list[int], *keys: str, guessed: bool = False) -> TableStats:
    times = Counter(values)
    common = tuple((float(one), n / len(values)) for one, n in times.most_common(3) if n > 2)
    columns = {"k": ColumnStats(0.0, len(times), 0.0, max(values), common)}
    names = frozenset(columns) if guessed else frozenset[str]()
    return TableStats(len(values), 8.0 * len(values), columns, frozenset(map(frozenset, keys)), names)


def scan(name: str) -> Scan:
    return Scan(name, "v1", (("k", column(name)),))


def column(name: str) -> Column:
    return Column(f"{name}_k", "INTEGER")


def on(left: str, right: str) -> tuple[Expr, ...]:
    return (equals(column(left), column(right)),)


def chain(*names: str) -> Relation:
    relation: Relation = scan(names[0])
    for before, name in pairwise(names):
        relation = Join(relation, scan(name), "inner", on(before, name))
    return relation


def agreeing(*tables: list[int]) -> float:
    """Rows of the join of tables on their only column, counted."""
    first, *others = map(Counter, tables)
    for other in others:
        first = Counter({one: n * other[one] for one, n in first.items()})
    return sum(first.values())


EVEN = list(range(VALUES)) * 3
CASES = {"both": (HALF, HALF), "one": (HALF, EVEN), "none": (EVEN, EVEN), "three": (HALF, EVEN, HALF)}


@pytest.mark.parametrize("case", CASES)
def test_rows_of_a_join_are_as_many_as_there_are(case: str) -> None:
    names, tables = "abc"[: len(CASES[case])], CASES[case]
    cardinality = Cardinality({name: table(values) for name, values in zip(names, tables, strict=True)})
    assert cardinality.rows(chain(*names[:2])) == pytest.approx(agreeing(*tables[:2]), rel=0.05)
    graph = JoinGraph(collect(chain(*names), lambda leaf: leaf), cardinality)
    search(graph, CostModel(), 1000)
    assert graph.rows[graph.full] == pytest.approx(agreeing(*tables), rel=0.05)


def test_frequent_values_of_several_types_have_an_order() -> None:
    """A text that equals a number, as texts are compared with numbers by their values."""
    spreads = [Spread(10.0, 100.0, 10.0, common=((value, 0.5),)) for value in ("a", 1.0)]
    assert excess_of(spreads) == excess_of(spreads[::-1])


def test_only_columns_of_large_tables_that_no_key_is_equal_to_are_doubtful() -> None:
    many = HALF * 10
    stats = {
        "a": table(many, guessed=True),
        "b": table(many, guessed=True),
        "key": table(list(range(2000)), "k", guessed=True),
        "few": table(HALF, guessed=True),
        "known": table(many),
    }
    assert joined_unevenly(chain("a", "b"), stats) == {"a": {"k"}, "b": {"k"}}
    assert joined_unevenly(chain("a", "key", "b"), stats) == {"a": {"k"}, "b": {"k"}}  # equal to each other as well
    assert joined_unevenly(chain("a", "known"), stats) == {"a": {"k"}}
    for one in (chain("a", "key"), chain("a", "few"), Join(scan("a"), scan("b"), "semi", on("a", "b"))):
        assert joined_unevenly(one, stats) == {}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables that share their frequent values, two of even ones; all sorted by a year."""
    folder: Path = tmp_path_factory.mktemp("frequent")
    for name, rows in (("small", 20_000), ("large", 60_000)):
        for kind, key in (("uneven", "CASE WHEN h % 3 = 0 THEN h % 4 ELSE h % 5000 END"), ("even", "h % 5000")):
            text = (
                f"SELECT ({key})::INTEGER AS k, i // 5000 AS year FROM (SELECT i, hash(i) AS h FROM range({rows}) r(i))"
            )
            duckdb.sql(text).write_parquet(str(folder / f"{kind}_{name}.parquet"))
    return folder


@pytest.fixture
def session(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("QOOP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(preparation, "UNEVEN_PART", 1e6)
    monkeypatch.setattr(preparation, "KNOWN_UNEVEN_PART", 1e6)
    with connect(slots=1, memory="500MB", staged=True) as session:
        session.register_folder(data)
        yield session


def joined(kind: str, key: str = "k") -> str:
    return f"SELECT s.{key}, l.{key} FROM {kind}_small s JOIN {kind}_large l USING ({key})"


def estimated(session: Session, text: str) -> float:
    session.planning.plan(text)
    asked = session.prepare(text)
    return Cardinality(asked.stats).rows(asked.relation)


def test_pilots_tell_of_frequent_values(session: Session, data: Path) -> None:
    asked = session.prepare(joined("uneven"))
    before = Cardinality(asked.stats).rows(asked.relation)
    true = duckdb.sql(
        f"SELECT count(*) FROM '{data}/uneven_small.parquet' JOIN '{data}/uneven_large.parquet' USING (k)"
    ).fetchall()[0][0]
    assert true > 50 * before
    assert estimated(session, joined("uneven")) == pytest.approx(true, rel=0.1)


def test_where_the_small_table_is_even_the_large_one_is_not_read(session: Session) -> None:
    estimated(session, joined("even"))
    catalog = session.planning._tables.catalog
    assert catalog.collected("even_small") == {"k"} and not catalog.collected("even_large")


def test_the_first_rows_of_a_sorted_column_do_not_stand_for_all(session: Session) -> None:
    estimated(session, joined("uneven", "year"))
    assert session.prepare(joined("uneven", "year")).stats["uneven_small"].guessed == {"year"}
