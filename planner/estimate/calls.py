"""The cost of calls of functions of Python, which is unknown before the first call.

Plans are made with an estimate of seconds a row for each function: the measured time, else that of a function that does
next to nothing. The number of calls by each operator follows from the estimates of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from qoop.catalog.functions.function import UserFunction
from qoop.planner.algebra.expr import Expr, calls_python, conjunction, is_movable_call, python_calls
from qoop.planner.algebra.relation import Aggregate, Filter, Join, Project, Relation, Window
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.reestimate import rank
from qoop.planner.plan import CallEstimate, Predicate

SCALAR_ROW, VECTORISED_ROW = 1.5e-6, 30e-9
"""Seconds a row of a function that does next to nothing: measured, with DuckDB's part of the call."""

Rows = Mapping[str, float]
"""By function, the rows that it is called for."""


def call_seconds(functions: Iterable[UserFunction], measured: Mapping[str, float]) -> Mapping[str, float]:
    """Seconds a row by function. measured: those of the functions that have been called."""
    return {one.key: measured.get(one.key, VECTORISED_ROW if one.vectorised else SCALAR_ROW) for one in functions}


def calls_of(relation: Relation, cardinality: Cardinality, row_seconds: Mapping[str, float]) -> Rows:
    """The rows for which the top operator calls each function."""
    match relation:
        case Filter() if any(map(calls_python, relation.predicates)):
            filter_calls = _filter_calls(relation, cardinality, row_seconds)
            return sum_of(_for_each(one.rows, [one.predicate]) for one in filter_calls)
        case Project():
            return _for_each(cardinality.rows(relation.input), [expr for _, expr in relation.exprs])
        case Aggregate():
            entering = cardinality.rows(relation.input)
            return _for_each(entering, [expr for one in relation.aggregations for expr in one.exprs])
        case Join() if any(map(calls_python, relation.on)):
            return _for_each(_pairs(relation, cardinality), relation.on)
        case Window():
            return _for_each(cardinality.rows(relation.input), [one.call for one in relation.calls])
    return {}


def estimates_of(
    relation: Relation, cardinality: Cardinality, row_seconds: Mapping[str, float], number: int
) -> tuple[CallEstimate, ...]:
    """The calls of predicates that the top operator reorders at run time; none for fewer than two predicates.

    number: of the operator, among those of its task."""
    if not isinstance(relation, Filter) or len(relation.predicates) < 2:
        return ()
    filter_calls = _filter_calls(relation, cardinality, row_seconds)
    movable = [one for one in filter_calls if is_movable_call(one.predicate)]
    if len(movable) < 2:
        return ()
    return tuple(
        CallEstimate(
            key, one.rows, row_seconds.get(key, 0.0), Predicate(number, place, one.passes) if one in movable else None
        )
        for place, one in enumerate(filter_calls)
        for key in python_calls(one.predicate)
    )


@dataclass(frozen=True, slots=True)
class _FilterCall:
    """A predicate of a filter that calls Python. rows: that it is evaluated for. passes: the fraction that it
    passes."""

    predicate: Expr
    rows: float
    passes: float


def _filter_calls(relation: Filter, cardinality: Cardinality, row_seconds: Mapping[str, float]) -> list[_FilterCall]:
    """Predicates that do not call Python come first; those that do follow in the best order."""
    cheap = [one for one in relation.predicates if not calls_python(one)]
    left = cardinality.rows(relation.input) * cardinality.selectivity(conjunction(cheap), relation.input)
    costly = [(one, cardinality.selectivity(one, relation.input)) for one in relation.predicates if calls_python(one)]
    found = []
    for one, passes in sorted(costly, key=lambda it: rank(it[1], _seconds(it[0], row_seconds))):
        found.append(_FilterCall(one, left, passes))
        left *= passes
    return found


def _seconds(predicate: Expr, row_seconds: Mapping[str, float]) -> float:
    return sum(row_seconds.get(key, 0.0) for key in python_calls(predicate))


def _pairs(join: Join, cardinality: Cardinality) -> float:
    """The pairs that a join's conditions in Python are evaluated for: those that pass the others."""
    cheap = tuple(one for one in join.on if not calls_python(one))
    if not cheap or join.kind == "mark":
        return cardinality.rows(join.left) * cardinality.rows(join.right)
    return cardinality.rows(replace(join, kind="inner", on=cheap))


def _for_each(rows: float, exprs: Sequence[Expr]) -> Rows:
    return sum_of({key: rows} for expr in exprs for key in python_calls(expr))


def sum_of(parts: Iterable[Rows]) -> Rows:
    """The calls of several operators together."""
    found: dict[str, float] = {}
    for part in parts:
        for key, rows in part.items():
            found[key] = found.get(key, 0.0) + rows
    return found
