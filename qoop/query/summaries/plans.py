"""The plan of a summary, and those of the queries whose last stage reads it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from qoop.catalog.value import value
from qoop.planner.algebra.relation import Exchange, Fragment, Relation, Scan, walk
from qoop.planner.estimate.cost import BASE_MEMORY
from qoop.planner.exchange.cut import Cutter, Identity
from qoop.planner.identity.determinism import NonDeterminism
from qoop.planner.identity.float_order import float_order_of
from qoop.planner.identity.provenance import Provenances
from qoop.planner.plan import Estimate, Plan, Resources
from qoop.planner.planner import Planning
from qoop.planner.summaries.roll_up import over_summary
from qoop.planner.variants import Variant
from qoop.query.job import Planned
from qoop.query.summaries.grouping import SummaryGroup, TextToShare, merged_stats


@value
class SharedPlans:
    """The plan of a summary, and those of the texts that read it, by their places."""

    summary: Planned
    texts: Mapping[int, Planned]


def shared_plans(group: SummaryGroup, share: Resources) -> SharedPlans:
    """The plans of a group."""
    begun = time.perf_counter()
    tables = {name: table for one in group.texts.values() for name, table in one.prepared.tables.items()}
    planner = _Planner(group, share)
    plans = {place: planner.plan(one) for place, one in group.texts.items()}
    first = next(iter(plans.values()))
    below = Plan(first.stages[:-1], first.stages[-2].columns, first.settings)
    seconds = time.perf_counter() - begun
    found = {
        place: Planned(
            one.prepared.bound, plans[place], tables, seconds / len(plans), one.prepared.statistics_seconds,
            available=share, last_resort=one.own,
        )
        for place, one in group.texts.items()
    }  # fmt: skip
    return SharedPlans(Planned(planner.bound, below, tables, seconds, 0.0, available=share), found)


class _Planner:
    """Plans of texts over one summary, whose stages are cut once."""

    def __init__(self, group: SummaryGroup, share: Resources) -> None:
        texts = [one.prepared for one in group.texts.values()]
        relation = group.summary.relation
        columns = tuple((column.name, column.type) for column in relation.columns)
        known = {name: table for one in texts for name, table in one.bound.tables.items()}
        text = f"-- a summary for {len(texts)} queries"
        self.bound = replace(texts[0].bound, text=text, ast=None, tables=known, columns=columns)
        splits = {name: parts for one in texts for name, parts in one.splits.items()}
        stats = merged_stats(one.stats for one in texts)
        self._summary, self._cost = group.summary, texts[0].cost
        self._planning = Planning(self.bound, relation, stats, splits, self._cost, texts[0].known)
        self._placed = self._planning.placed(Variant(), share)
        self._groups = Scan(f"summary {group.summary.name}", "", tuple((c.name, c) for c in relation.columns))
        self._provenances = Provenances(self.bound.settings)
        read = {name: [column for column, _ in typed] for name, (_, typed) in known.items()}
        self._cutter = Cutter(self._identity, read)

    def plan(self, text: TextToShare) -> Plan:
        """The plan of a text whose last stage reads the summary."""
        relation, bound = text.prepared.relation, text.prepared.bound
        read, meaning = (over_summary(relation, self._summary, rows) for rows in (self._placed, self._groups))
        assert read is not None and meaning is not None  # the summary covers it
        assert isinstance(self._placed, Exchange) and self._placed.fragment is not None
        cost, made = self._cost, self._placed.fragment.estimate
        seconds = made.rows * (cost.exchange_row + cost.filter_row + cost.aggregate_row)
        estimate = Estimate(1.0, 1.0, max(seconds, 1e-4), BASE_MEMORY + made.bytes)
        fragment = Fragment(meaning, False, 1, 1, estimate)
        return self._cutter.cut(Exchange(read, "gather", fragment=fragment), bound.columns, bound.settings)

    def _identity(self, meaning: Relation) -> Identity:
        """Stages of the summary are named as in any plan, and those that read it by its digest."""
        if not any(node is self._groups for node in walk(meaning)):
            return self._planning.identity(meaning)
        found = self._provenances.of(meaning)
        varies = NonDeterminism(float_order_of(meaning)).of(meaning)
        return Identity(found.signature, found.columns, varies, self._provenances.rows(meaning), None)
