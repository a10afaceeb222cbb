"""Groups of a table's rows, and within a range of them, where equal keys lie together.

A task reads a range of a table. If rows were in random order, most groups of several rows would occur in most tasks
(Cardenas 1975). But tables are written in some order, which has two effects, both known to the catalog:

* *Runs*: neighbouring rows have one value, as the lines of an order have one customer. Then not rows but runs are the
  random draws.
* *Locality*: the table is nearly sorted by a column, as by a date. Then a task has the values of a range alone.

A key comes from the table that is divided, or from another one that is joined by such a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING

from qoop.catalog.statistics.footers import domain_of
from qoop.catalog.statistics.stats import BLOCKS
from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Expr, columns_of, conjuncts, is_volatile
from qoop.planner.algebra.relation import Filter, Join, Project, Relation, Scan, Shared, Sort
from qoop.planner.estimate.selectivity import sampled

if TYPE_CHECKING:
    from qoop.planner.estimate.cardinality import Cardinality

_Base = frozenset[Column] | None


@value
class DividedRows:
    """The rows of a relation of which each task has those of a range of a scan.

    path: the operators from the relation down to the scan, through which its rows stream.
    """

    path: tuple[Relation, ...]
    cardinality: Cardinality

    @classmethod
    def of(cls, relation: Relation, scan: Scan, cardinality: Cardinality) -> DividedRows | None:
        """None if an operator between the relation and the scan gives the rows another order."""
        path = _path(relation, scan)
        return None if path is None else cls(path, cardinality)

    @classmethod
    def largest(cls, relation: Relation, cardinality: Cardinality) -> DividedRows | None:
        """Of the scans whose rows stream up to a relation, that of the largest table; None: there is none."""
        paths = [cls(path, cardinality) for path in _paths(relation)]
        return max(paths, key=lambda one: cardinality.rows(one.path[-1]), default=None)

    def all_groups(self, keys: Sequence[Column], groups: float, rows: float) -> float:
        """Groups of all rows, if in random order these would have `groups` groups by the keys: conditions leave out
        whole runs."""
        run = min((self._run(self._base(key, 0)) for key in keys), default=1.0)
        if run <= 1.0 or run == inf:
            return groups
        runs, domain = rows / self._kept_run(run), domain_of(groups, rows)
        return min(groups, runs if domain == inf else sampled(domain, self.cardinality.rows(self.path[-1]) / run, runs))

    def groups(self, keys: Sequence[Column], groups: float, rows: float, tasks: float) -> float:
        """Groups in one of that many tasks, of `groups` groups of all rows by the keys."""
        bases = [self._base(key, 0) for key in keys]
        run = min(map(self._run, bases), default=1.0)
        runs = rows / max(1.0, self._kept_run(run))
        part = min((self._part(key, base, tasks) for key, base in zip(keys, bases, strict=True)), default=1.0)
        here = max(groups, runs) / tasks
        return sampled(groups * part, max(here, tasks * here * part), here)

    def _run(self, base: _Base) -> float:
        """The mean number of neighbouring rows that agree on the columns; infinite for a constant."""
        known = self.cardinality.profile(self.path[-1]).columns
        return 1.0 if base is None else min((known[column.name].run for column in base), default=inf)

    def _kept_run(self, run: float) -> float:
        """The mean number of rows that filters and joins leave of a run of which they leave any."""
        kept = 1.0
        for place, node in enumerate(self.path[:-1]):
            below = self.path[place + 1]
            if isinstance(node, Filter):
                for predicate in node.predicates:
                    if not self._drops_runs(columns_of(predicate), place + 1, run):
                        kept *= self.cardinality.selectivity(predicate, below)
            elif isinstance(node, Join) and not self._drops_runs(_columns_within(node.on, below), place + 1, run):
                kept *= min(1.0, self.cardinality.rows(node) / max(1.0, self.cardinality.rows(below)))
        return run * kept / (1.0 - (1.0 - kept) ** run) if run > 1.0 and 0.0 < kept < 1.0 else run

    def _drops_runs(self, columns: Iterable[Column], place: int, run: float) -> bool:
        """True if conditions on the columns hold for all rows of a run, or for none."""
        return all(self._run(self._base(column, place)) >= run for column in columns)

    def _part(self, key: Column, base: _Base, tasks: float) -> float:
        """The part of the values of a key that lie in one task's range of a table that is sorted by the key."""
        locality = (
            self.cardinality.profile(self.path[-1]).columns[key.name].locality if base == frozenset((key,)) else 1.0
        )
        if locality >= 1.0:
            return 1.0
        values = max(1.0, self.cardinality.distinct(self.path[0], (key,)))
        return min(1.0, (1.0 + (values - 1.0) / tasks) / values + max(0.0, locality - 1.0 / BLOCKS))

    def _base(self, column: Column, place: int) -> _Base:
        """The columns of the scan that determine a column at a place of the path; None: not known."""
        while place < len(self.path) - 1:
            node, below = self.path[place], self.path[place + 1]
            place += 1
            if isinstance(node, Project):
                expr = dict(node.exprs)[column]
                return None if is_volatile(expr) else self._base_of(columns_of(expr), place)
            if isinstance(node, Join) and column not in below.columns:
                equal = [part for one in node.on for part in conjuncts(one) if _equates(part, below)]
                return self._base_of(_columns_within(equal, below), place) if equal else None
        return frozenset((column,))

    def _base_of(self, columns: Iterable[Column], place: int) -> _Base:
        found: frozenset[Column] = frozenset()
        for column in columns:
            base = self._base(column, place)
            if base is None:
                return None
            found |= base
        return found


def _path(relation: Relation, scan: Scan) -> tuple[Relation, ...] | None:
    return next((path for path in _paths(relation) if path[-1] is scan), None)


def _paths(relation: Relation) -> Iterator[tuple[Relation, ...]]:
    """The ways of rows from scans up to a relation, the relation first."""
    if isinstance(relation, Scan):
        yield (relation,)
    if isinstance(relation, Filter | Project | Join | Shared | Sort):
        for below in relation.inputs:
            for path in _paths(below):
                yield (relation, *path)


def _columns_within(exprs: Iterable[Expr], below: Relation) -> frozenset[Column]:
    return frozenset().union(*map(columns_of, exprs)) & frozenset(below.columns)


def _equates(part: Expr, below: Relation) -> bool:
    """True if a condition equates something of the relation below with something of the other side of a join."""
    if not (isinstance(part, Call) and part.op == "=" and len(part.args) == 2):
        return False
    within = [columns_of(arg) <= frozenset(below.columns) for arg in part.args]
    return all(map(columns_of, part.args)) and within[0] != within[1]
