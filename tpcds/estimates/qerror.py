"""The error of the estimates of rows: for every join, aggregate and set operation of a query, estimate against count.

A node's rows are counted by DuckDB, which runs the node printed as SQL; nodes that mean the same rows (by
:mod:`qoop.planner.identity.provenance`), in one query or in several, are counted once. The *q-error* of an estimate is
the
factor by which it is wrong, whichever way: max(e / a, a / e) with both at least one row (G. Moerkotte, T. Neumann and
G. Steidl, "Preventing Bad Plans by Bounding the Impact of Cardinality Estimation Errors", 2009).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from qoop.catalog.catalog import Catalog
from qoop.catalog.statistics.footers import from_footers
from qoop.catalog.statistics.stats import TableStats
from qoop.planner.algebra.relation import Aggregate, Join, Relation, SetOp, walk
from qoop.planner.arrange.arrange import arranged
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.identity.provenance import Provenances
from qoop.planner.planner import logical, stats_needed
from qoop.planner.sql.bind import Binder
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.quantiles import quantile_if_any
from qoop.tpcds.queries import texts


@dataclass(frozen=True, slots=True)
class QErrorOptions:
    """The queries and the data; `seconds` is the time that DuckDB may take to count the rows of one node.

    footers: estimates are made from footers alone.
    """

    directory: Path
    queries: tuple[int, ...] = ()
    suite: str = "tpcds"
    seconds: float = 5.0
    footers: bool = False


@dataclass(frozen=True, slots=True)
class NodeError:
    """One node of a query. kind: its operator. actual: None where counting took too long. what: keys or conditions."""

    query: int
    kind: str
    what: str
    estimate: float
    actual: int | None

    @property
    def qerror(self) -> float | None:
        """The factor by which the estimate is wrong, at least 1."""
        return None if self.actual is None else qerror(self.estimate, self.actual)


@dataclass(frozen=True, slots=True)
class QErrorReport:
    """All nodes of all queries that could be planned; `failed`: why the others could not."""

    nodes: tuple[NodeError, ...]
    failed: Mapping[int, str]

    def totals(self) -> dict[str, dict[str, Any]]:
        """Nodes, nodes not counted, median, 90th and 95th percentile and maximum by operator kind; "all" is last."""
        kinds = sorted({node.kind for node in self.nodes})
        return {kind: _summary([node for node in self.nodes if kind in (node.kind, "all")]) for kind in (*kinds, "all")}

    def worst(self, count: int) -> list[NodeError]:
        """The nodes whose estimates are furthest off."""
        return sorted((node for node in self.nodes if node.qerror), key=lambda node: -(node.qerror or 0.0))[:count]

    def json(self) -> dict[str, Any]:
        """The report as JSON values: nodes, totals, failed."""
        nodes = [{**asdict(node), "qerror": node.qerror} for node in self.nodes]
        return {"nodes": nodes, "totals": self.totals(), "failed": dict(self.failed)}


def qerror(estimate: float, actual: float) -> float:
    """The factor between an estimate and the truth; less than one row counts as one.

    >>> qerror(50, 100), qerror(100, 50), qerror(0.2, 0)
    (2.0, 2.0, 1.0)
    """
    estimate, actual = max(1.0, estimate), max(1.0, actual)
    return max(estimate / actual, actual / estimate)


def measure(options: QErrorOptions, progress: Callable[[int], object] = lambda query: None) -> QErrorReport:
    """Estimate and count joins, aggregates and set operations of the chosen queries. progress: takes each query done.

    Raises ConfigError or SourceError if there are no texts or no tables.
    """
    chosen = texts(options.suite, options.directory)
    nodes: list[NodeError] = []
    failed: dict[int, str] = {}
    with Catalog() as catalog, Oracle(options.directory) as oracle:
        planner = _Planner(catalog, options.directory, options.footers)
        counter = Counter(lambda text: oracle.answer(text).column(0)[0].as_py(), oracle.interrupt, options.seconds)
        for number in options.queries or tuple(chosen):
            try:
                nodes += _judged(number, planner, chosen[number], counter)
            except duckdb.Error as error:
                failed[number] = str(error)
            progress(number)
        planner.close()
    return QErrorReport(tuple(nodes), failed)


class Counter:
    """Counts rows of relations, each meaning once.

    answer: runs a SELECT of one number. interrupt: breaks it off, which raises duckdb.InterruptException in it.
    """

    def __init__(self, answer: Callable[[str], int], interrupt: Callable[[], None], seconds: float) -> None:
        self._answer = answer
        self._interrupt = interrupt
        self._seconds = seconds
        self._known: dict[str, int | None] = {}

    def rows(self, signature: str, relation: Relation) -> int | None:
        """The rows of the relation, None where counting takes too long."""
        if signature not in self._known:
            self._known[signature] = self._count(f"SELECT count(*) FROM ({to_sql(relation)}) AS node")
        return self._known[signature]

    def _count(self, text: str) -> int | None:
        timer = threading.Timer(self._seconds, self._interrupt)
        timer.start()
        try:
            return self._answer(text)
        except duckdb.InterruptException:
            return None
        finally:
            timer.cancel()
            timer.join()  # an interrupt on its way must not hit the next count


class _Planner:
    """Relations as a session would run them, with the estimates they were chosen by."""

    def __init__(self, catalog: Catalog, directory: Path, footers: bool) -> None:
        self._catalog, self._footers = catalog, footers
        self._binder = Binder()
        for table in catalog.register_folder(directory):
            self._binder.add_table(table.name, table.version, table.columns)

    def plan(self, text: str) -> tuple[Relation, Cardinality]:
        relation = logical(self._binder.bind(text), self._binder.describe)
        stats = {name: self._stats(name, columns) for name, columns in stats_needed(relation).items()}
        cardinality = Cardinality(stats)
        return arranged(relation, cardinality, CostModel()), cardinality

    def _stats(self, name: str, columns: Collection[str]) -> TableStats:
        return from_footers(self._catalog.table(name), columns) if self._footers else self._catalog.stats(name, columns)

    def close(self) -> None:
        self._binder.close()


def _judged(number: int, planner: _Planner, text: str, counter: Counter) -> Iterator[NodeError]:
    relation, cardinality = planner.plan(text)
    provenances, visited = Provenances(), set()
    for node in walk(relation):
        if isinstance(node, Join | Aggregate | SetOp) and id(node) not in visited:
            visited.add(id(node))
            actual = counter.rows(provenances.of(node).signature, node)
            yield NodeError(number, kind_of(node), _what(node), cardinality.rows(node), actual)


def kind_of(node: Join | Aggregate | SetOp) -> str:
    """The name of the operator in the report."""
    if isinstance(node, SetOp):
        return f"{node.kind} all" if node.all else node.kind
    if isinstance(node, Join):
        return f"{node.kind} join" if node.on else "cross join"
    if node.grouping_sets is not None:
        return "grouping sets"
    return "aggregate" if node.aggregations else "distinct"


def _what(node: Join | Aggregate | SetOp) -> str:
    if isinstance(node, Join):
        return " AND ".join(map(str, node.on))
    return ", ".join(map(str, node.keys if isinstance(node, Aggregate) else node.columns))


def _summary(nodes: Sequence[NodeError]) -> dict[str, Any]:
    errors = [node.qerror for node in nodes if node.qerror is not None]
    return {
        "nodes": len(nodes),
        "not_counted": len(nodes) - len(errors),
        "median": quantile_if_any(errors, 0.5),
        "p90": quantile_if_any(errors, 0.9),
        "p95": quantile_if_any(errors, 0.95),
        "max": max(errors, default=None),
    }


def table(report: QErrorReport, worst: int = 20) -> str:
    """The report for people: the worst nodes, then a line for each kind of operator."""
    lines = [f"{'q-error':>9} {'query':>5} {'estimate':>14} {'actual':>14}  operator"]
    for node in report.worst(worst):
        what = node.what if len(node.what) <= 60 else node.what[:57] + "..."
        lines.append(
            f"{node.qerror:>9.4g} {node.query:>5} {node.estimate:>14,.0f} {node.actual:>14,}  {node.kind}: {what}"
        )
    lines += ["", f"{'operator':<14} {'nodes':>6} {'uncounted':>9} {'median':>8} {'p90':>8} {'p95':>8} {'max':>10}"]
    for kind, total in report.totals().items():
        numbers = " ".join(_cell(total[name], size) for name, size in _COLUMNS)
        lines.append(f"{kind:<14} {total['nodes']:>6} {total['not_counted']:>9} {numbers}")
    lines += [f"query {number} failed: {error}" for number, error in report.failed.items()]
    return "\n".join(lines)


_COLUMNS = (("median", 8), ("p90", 8), ("p95", 8), ("max", 10))


def _cell(number: float | None, width: int) -> str:
    return f"{'-' if number is None else format(number, '.3g'):>{width}}"
