"""A few small tables and everything between a SQL text and its plan, for tests of the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import duckdb
import pyarrow as pa

from qoop.catalog.statistics.stats import ColumnStats, TableStats
from qoop.planner.algebra.relation import Relation
from qoop.planner.arrange.arrange import arranged
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.exchange.cut import Cutter, Identity
from qoop.planner.exchange.exchange import place_exchanges
from qoop.planner.identity.provenance import Provenances, is_non_deterministic
from qoop.planner.plan import Plan, Resources
from qoop.planner.rules import apply_rules
from qoop.planner.sql.bind import Binder, Bound
from qoop.planner.sql.build import build
from qoop.planner.variants import USUAL, Thresholds

SPLITS = 8
COST = CostModel()


class World:
    """Tables made by a SQL script, with exact statistics; `scale` multiplies what the planner is told."""

    def __init__(self, script: str, scale: float = 1.0) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET arrow_lossless_conversion = true")
        self.connection.execute(script)
        names = [name for (name,) in self.connection.execute("SHOW TABLES").fetchall()]
        self.tables = {name: self.duckdb(f"SELECT * FROM {name}") for name in names}
        self.stats = {name: self._stats(name, scale) for name in names}
        self.binder = Binder()
        for name in names:
            described = self.connection.execute(f"DESCRIBE {name}").fetchall()
            self.binder.add_table(name, "v1", tuple((column, type_) for column, type_, *_ in described))

    def duckdb(self, query: str) -> pa.Table:
        """The oracle's answer."""
        return self.connection.sql(query).to_arrow_table()

    def placed(
        self,
        query: str,
        thresholds: Thresholds = USUAL,
        cost: CostModel = COST,
        slots: int = 2,
        network: float = 0.0,
        rewrite: Callable[[Relation], Relation] = lambda relation: relation,
    ) -> tuple[Bound, Relation]:
        """The query's relation with its exchanges. rewrite: a step that is taken before these."""
        bound = self.binder.bind(query)
        relation = rewrite(apply_rules(build(bound, self.binder.describe)))
        splits = dict.fromkeys(self.tables, SPLITS)
        available = Resources(slots, 4 << 30, network=network)
        return bound, place_exchanges(relation, Cardinality(self.stats), available, cost, splits, thresholds)

    def plan(
        self,
        query: str,
        thresholds: Thresholds = USUAL,
        cost: CostModel = COST,
        slots: int = 2,
        network: float = 0.0,
        rewrite: Callable[[Relation], Relation] = lambda relation: relation,
    ) -> Plan:
        """The query's plan."""
        bound, relation = self.placed(query, thresholds, cost, slots, network, rewrite)
        columns = {name: [column for column, _ in described] for name, (_, described) in bound.tables.items()}
        provenances = Provenances(bound.settings)
        return Cutter(partial(identify, provenances), columns).cut(relation, bound.columns, bound.settings)

    def arranged(self, query: str) -> tuple[Relation, Plan]:
        """The query's relation after the rewrites that need estimates, and its plan."""
        found: list[Relation] = []

        def rewrite(relation: Relation) -> Relation:
            found.append(arranged(relation, Cardinality(self.stats), COST))
            return found[-1]

        plan = self.plan(query, rewrite=rewrite)
        return found[-1], plan

    def _stats(self, name: str, scale: float) -> TableStats:
        table = self.tables[name]
        columns = {column: self._column(name, column, scale) for column in table.column_names}
        return TableStats(table.num_rows * scale, table.nbytes * scale, columns)

    def _column(self, name: str, column: str, scale: float) -> ColumnStats:
        query = f'SELECT count(*) - count("{column}"), count(DISTINCT "{column}") FROM {name}'
        [(nulls, distinct)] = self.connection.execute(query).fetchall()
        rows = max(1, self.tables[name].num_rows)
        return ColumnStats(nulls * scale, distinct * scale if distinct > 0.2 * rows else distinct)


def counted(table: pa.Table) -> Counter[tuple[object, ...]]:
    """The number of times that each row is there."""
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def identify(provenances: Provenances, relation: Relation) -> Identity:
    """The identity of a relation."""
    found = provenances.of(relation)
    rows, facts = provenances.rows(relation), partial(provenances.facts, relation)
    return Identity(found.signature, found.columns, is_non_deterministic(relation), rows, facts)
