"""Errors of estimates that plans have in common: joins of the same tables are misjudged alike.

Plans of one query lean on the same assumptions about its tables. Where the joins of some tables had eight times more
rows than estimated, those of another plan that was estimated with the same knowledge will have about as many times
more, also where filters differ. To put only those estimates right that say the very same would make whatever avoids
what was seen look better than it is: the job would flee from knowledge to ignorance (Markl et al., "Consistently
Estimating the Selectivity of Conjuncts of Predicates", VLDB 2005).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qoop.planner.algebra.canonical_text import leaf_name, scan_digest
from qoop.planner.algebra.expr import Call
from qoop.planner.algebra.facts import Facts
from qoop.planner.estimate.observed import LEAST_ROWS, MISJUDGED, Errors, Observation, Tables, tables_below
from qoop.planner.plan import Plan, Stage, StageId


def join_errors(plan: Plan, seen: Mapping[StageId, Observation]) -> Errors:
    """The errors of a plan's estimates; of several stages over the same tables that of the one with the most rows."""
    below = tables_below(plan)
    known = ((stage, seen[stage.id]) for stage in plan.stages if stage.id in seen)
    ordered = sorted(known, key=lambda pair: pair[1].rows)
    found = {below[stage.id]: _error(stage, one) for stage, one in ordered if joins_tables(stage, plan, below)}
    return {tables: error for tables, error in found.items() if not 1 / MISJUDGED < error < MISJUDGED}


def error_of(stage: Stage, plan: Plan, below: Mapping[StageId, Tables], errors: Errors) -> float | None:
    """By which factor the rows of a stage were probably misjudged; None: nothing like it was seen.

    The most of its tables of which something is known decide, unless an input joins all of them: that has grown then.
    """
    known = [tables for tables in errors if tables <= below[stage.id] and not _within_inputs(tables, stage, below)]
    if not known or not joins_tables(stage, plan, below):
        return None
    return errors[max(known, key=lambda tables: (len(tables), sorted(tables)))]


def joins_tables(stage: Stage, plan: Plan, below: Mapping[StageId, Tables]) -> bool:
    """True if the stage puts out joined rows of several tables: neither groups, nor rows of one table, nor those that a
    semi join has left, for what these are compared with may be groups."""
    facts = stage.facts.value if stage.meaning and len(below[stage.id]) > 1 else None
    if facts is None or any(isinstance(part, Call) and part.op in ("semi", "anti") for part in facts.predicates):
        return False
    scans = {leaf_name(repr(sorted(plan.settings)), scan_digest(*table)) for table in below[stage.id]}
    return all(name in scans for name in _leaves(facts))


def _leaves(facts: Facts) -> Iterable[str]:
    """The factors of the rows but for those that a left join pads, which hardly change their number."""
    return (name.partition("#")[0] for name, args in facts.leaves if not args)


def _within_inputs(tables: Tables, stage: Stage, below: Mapping[StageId, Tables]) -> bool:
    return any(tables <= below[item.stage] for item in stage.stage_inputs)


def _error(stage: Stage, one: Observation) -> float:
    return max(one.rows, LEAST_ROWS) / max(stage.estimate.rows, LEAST_ROWS)
