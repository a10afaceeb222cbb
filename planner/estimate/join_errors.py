"""Errors of estimates that plans have in common: joins of the same tables are misjudged alike.

Plans of one query share assumptions about its tables. If the joins of some tables had eight times more rows than
estimated, those of another plan estimated with the same knowledge will have about as many times more. That holds also
for filters that compare the same columns with other values, or more columns. It is unknown for filters on fewer
columns: the assumption that filters are independent may have been wrong. Correcting only the identical estimates would
favour plans that avoid the observed ones: the job would flee from knowledge to ignorance (Markl et al., "Consistently
Estimating the Selectivity of Conjuncts of Predicates", VLDB 2005).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qoop.planner.algebra.canonical_text import leaf_name, scan_digest
from qoop.planner.algebra.expr import Call, Column, columns_of
from qoop.planner.algebra.facts import Facts
from qoop.planner.estimate.observed import LEAST_ROWS, MISJUDGED, Errors, Joined, Observation, Tables, tables_below
from qoop.planner.plan import Plan, Stage, StageId


def join_errors(plan: Plan, observations: Mapping[StageId, Observation]) -> Errors:
    """The errors of a plan's estimates; of several stages over the same tables that of the one with the most rows."""
    below = tables_below(plan)
    known = ((stage, observations[stage.id]) for stage in plan.stages if stage.id in observations)
    ordered = sorted(known, key=lambda pair: pair[1].rows)
    joining = ((stage, one, joined_facts(stage, plan, below)) for stage, one in ordered)
    found = {
        Joined(below[stage.id], filtered_columns(facts)): _error(stage, one)
        for stage, one, facts in joining
        if facts is not None
    }
    return {joined: error for joined, error in found.items() if not 1 / MISJUDGED < error < MISJUDGED}


def error_of(stage: Stage, plan: Plan, below: Mapping[StageId, Tables], errors: Errors) -> float | None:
    """The factor by which the rows of a stage were probably misjudged; None: no similar join was observed.

    The largest known set of its tables decides, unless an input joins all of them: then the input has grown.
    """
    over = below[stage.id]
    known = [one for one in errors if one.tables <= over and not _within_inputs(one.tables, stage, below)]
    facts = joined_facts(stage, plan, below) if known else None
    return None if facts is None else most_alike(known, filtered_columns(facts), errors)


def most_alike(known: Iterable[Joined], filtered: frozenset[str], errors: Errors) -> float | None:
    """The error of those joins that are most like one with filters on these columns; None: none is."""
    alike = [one for one in known if one.filtered <= filtered]
    if not alike:
        return None
    return errors[max(alike, key=lambda one: (len(one.tables), len(one.filtered), sorted(one.tables)))]


def joined_facts(stage: Stage, plan: Plan, below: Mapping[StageId, Tables]) -> Facts | None:
    """The facts of a stage that puts out joined rows of several tables; None: groups, or rows of one table, or those
    that a semi join has left, for what these are compared with may be groups."""
    facts = stage.facts.value if stage.meaning and len(below[stage.id]) > 1 else None
    if facts is None or any(isinstance(part, Call) and part.op in ("semi", "anti") for part in facts.predicates):
        return None
    scans = {leaf_name(repr(sorted(plan.settings)), scan_digest(*table)) for table in below[stage.id]}
    return facts if all(name in scans for name in _leaves(facts)) else None


def filtered_columns(facts: Facts) -> frozenset[str]:
    """The columns that are compared with something else than columns of other tables."""
    compared = (columns_of(predicate) for predicate in facts.predicates)
    single = (columns for columns in compared if len({_factor(column) for column in columns}) == 1)
    return frozenset(column.name.replace(_factor(column), _leaf(column)) for columns in single for column in columns)


def _factor(column: Column) -> str:
    return column.name.partition(":")[0]


def _leaf(column: Column) -> str:
    """The table of a column, whichever of its places in the query the factor is."""
    return _unnumbered(_factor(column))


def _unnumbered(factor: str) -> str:
    return factor.partition("#")[0]


def _leaves(facts: Facts) -> Iterable[str]:
    """The factors of the rows but for those that a left join pads, which hardly change their number."""
    return (_unnumbered(name) for name, args in facts.leaves if not args)


def _within_inputs(tables: Tables, stage: Stage, below: Mapping[StageId, Tables]) -> bool:
    return any(tables <= below[item.stage] for item in stage.stage_inputs)


def _error(stage: Stage, one: Observation) -> float:
    return max(one.rows, LEAST_ROWS) / max(stage.estimate.rows, LEAST_ROWS)
