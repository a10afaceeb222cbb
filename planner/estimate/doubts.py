"""The columns whose spread of values decides how much a filter keeps, while only footers have told of them.

Equal figures come from footers for values that are spread evenly and for values that are not: between two of its
constants a filter may keep a hundredth of the rows, or most. Joins and groups lean on distinct values instead, which
footers tell well.
"""

from __future__ import annotations

from collections.abc import Mapping

from qoop.catalog.statistics.stats import TableStats
from qoop.planner.algebra.expr import Call, Expr, columns_of, conjuncts
from qoop.planner.algebra.relation import Filter, Relation, Scan, walk
from qoop.planner.estimate.cardinality import Cardinality

MATTERS = 1.5
"""A filter that keeps that many times more or fewer rows than believed may change a plan."""


def doubtful(relation: Relation, stats: Mapping[str, TableStats]) -> Mapping[str, frozenset[str]]:
    """The guessed columns, by table, that filters compare with something else than each other. stats: by table."""
    scans = [node for node in walk(relation) if isinstance(node, Scan)]
    origin = {column: (scan.table, own) for scan in scans for own, column in scan.fields}
    predicates = {one for node in walk(relation) if isinstance(node, Filter) for one in node.predicates}
    found: dict[str, set[str]] = {}
    for part in (part for predicate in predicates for part in conjuncts(predicate)):
        columns = {origin[column] for column in columns_of(part) if column in origin}
        if len({table for table, _ in columns}) != 1 or _counts_nulls(part):
            continue
        for table, own in columns:
            if own in stats[table].guessed:
                found.setdefault(table, set()).add(own)
    return {table: frozenset(found[table]) for table in sorted(found)}


def _counts_nulls(part: Expr) -> bool:
    """True for what footers do tell."""
    if isinstance(part, Call) and part.op == "not":
        return _counts_nulls(part.args[0])
    return isinstance(part, Call) and part.op == "is_null"


def moved(relation: Relation, before: Mapping[str, TableStats], after: Mapping[str, TableStats]) -> bool:
    """True if a filter of the relation keeps a different number of rows by the statistics of later on."""
    old, new = Cardinality(before), Cardinality(after)
    filters = [node for node in walk(relation) if isinstance(node, Filter)]
    return any(not 1 / MATTERS < max(1.0, new.rows(one)) / max(1.0, old.rows(one)) < MATTERS for one in filters)
