"""Rewrite rules: Relation -> Relation of the same rows, cheaper to run.

:func:`apply_rules` runs :data:`RULES` in order. A rule is a plain function in the file of its name, can be run
twice without change, and returns its argument if it has nothing to do. Properties of
expressions and relations that rules may assume are proven in :mod:`~qoop.planner.algebra.properties`.

::

    merge_scalar_aggregates.py   computes several one-row aggregates in one pass
    outer_to_inner.py            outer joins become inner joins where padding is filtered away
    push_filters.py              predicates move down
    infer_predicates.py          predicates follow join equalities
    drop_empty.py                relations without rows disappear
    drop_sorts.py                ORDER BYs without effect disappear
    drop_distinct.py             DISTINCTs over distinct rows disappear
    merge_projects.py            two Projects become one
    group_by_filters.py          filtered aggregates become one grouping
    prune_columns.py             unread columns disappear
    semi_joins.py                inner joins that only test for a partner become semi joins
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qoop.catalog.errors import PlanError
from qoop.planner.algebra.fold_constants import fold_constants
from qoop.planner.algebra.relation import Relation
from qoop.planner.ending import go_on
from qoop.planner.rules.drop_distinct import drop_distinct
from qoop.planner.rules.drop_empty import drop_empty
from qoop.planner.rules.drop_sorts import drop_sorts
from qoop.planner.rules.group_by_filters import group_by_filters
from qoop.planner.rules.infer_predicates import infer_predicates
from qoop.planner.rules.merge_projects import merge_projects
from qoop.planner.rules.merge_scalar_aggregates import merge_scalar_aggregates
from qoop.planner.rules.outer_to_inner import outer_to_inner
from qoop.planner.rules.prune_columns import prune_columns
from qoop.planner.rules.push_filters import push_filters

Rule = Callable[[Relation], Relation]

RULES: tuple[Rule, ...] = (
    fold_constants,
    merge_scalar_aggregates,
    outer_to_inner,
    push_filters,
    infer_predicates,
    push_filters,
    drop_empty,
    drop_sorts,
    drop_distinct,
    merge_projects,
    group_by_filters,
    prune_columns,
    merge_projects,
)

DUCKDB_RULES = tuple(rule for rule in RULES if rule not in (merge_scalar_aggregates, group_by_filters))
"""The rules without those that DuckDB has no like of."""


def apply_rules(relation: Relation, rules: Sequence[Rule] | None = None) -> Relation:
    """Return an equivalent relation after all rules, with the same columns in the same order.

    rules: other ones. Raises PlanError if a rule changed the columns of the root, which would be a defect of that rule.
    """
    result = relation
    for rule in RULES if rules is None else rules:
        go_on()
        result = rule(result)
        if result.columns != relation.columns:
            raise PlanError(f"{rule.__name__} changed the columns {relation.columns} to {result.columns}")
    return result
