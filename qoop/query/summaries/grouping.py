"""Queries that come at the same time: which of them share a summary.

    texts ──blocks──> groups of texts, where one summary takes less than a pass over the tables for each

A group is worth its summary if one pass over the tables, and every text regrouping the summary, takes less than a pass
for each text. The estimates are those of DuckDB's own plans, by footers, and the number of the summary's groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Expr, Literal, columns_of
from qoop.planner.algebra.relation import Aggregate, Scan, walk
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.plan import Plan
from qoop.planner.summaries.block import SummaryBlock, block_of, leaf_of
from qoop.planner.summaries.summary import Summary, covering
from qoop.query.job import Prepared

if TYPE_CHECKING:
    from qoop.catalog.catalog import Catalog
    from qoop.catalog.statistics.stats import TableStats

LEAST_SECONDS = 0.02
"""Seconds of one thread that texts must take in the mean for a search, which takes 10 ms each."""

GAIN = 0.8
"""The part of the seconds of separate passes that a summary may take at most: estimates err."""

MOST_GROUPS = 1_000_000
"""Groups of a summary at most: more are no summary, and take memory that other outputs need."""

MOST_COUNTED = 4_000_000
"""Rows of a table at most for which a column is counted to learn whether it is unique."""


@value
class TextToShare:
    """A text that may share a summary. own: DuckDB's plan of it, with its estimate. blocks: all its aggregates over
    base tables."""

    prepared: Prepared
    own: Plan
    blocks: tuple[SummaryBlock, ...]

    @property
    def seconds(self) -> float:
        """Seconds of one thread that it should take by itself."""
        return self.own.root.estimate.task_seconds


@value
class SummaryGroup:
    """Texts that share a summary. texts: by their places. seconds: of one thread, for all."""

    texts: Mapping[int, TextToShare]
    summary: Summary
    seconds: float

    @property
    def alone(self) -> float:
        """Seconds of one thread that the texts should take by themselves."""
        return sum(one.seconds for one in self.texts.values())


def text_to_share(prepared: Prepared, own: Plan) -> TextToShare | None:
    """The text, if all that it reads of tables goes into aggregates that a summary can cover."""
    aggregates = [node for node in walk(prepared.relation) if isinstance(node, Aggregate)]
    blocks = [block for block in map(block_of, aggregates) if block is not None]
    scans = sum(isinstance(node, Scan) for node in walk(prepared.relation))
    if not blocks or sum(len(block.leaves) for block in blocks) < scans:
        return None
    return TextToShare(prepared, own, tuple(blocks))


class Grouping:
    """Finds the groups of texts that share a summary. catalog: of the session's tables."""

    def __init__(self, catalog: Catalog, texts: Mapping[int, TextToShare]) -> None:
        self._catalog = catalog
        self._texts = texts
        self._stats = merged_stats(one.prepared.stats for one in texts.values())
        self._cardinality = Cardinality(self._stats)

    def groups(self) -> list[SummaryGroup]:
        """The groups of at least two texts whose summaries are worth it. Each text joins the group to which it adds
        the least seconds."""
        found: list[SummaryGroup] = []
        for place, text in self._texts.items():
            with_it = {i: self._group({**one.texts, place: text}) for i, one in enumerate(found)}
            joined = {i: one for i, one in with_it.items() if one is not None}
            best = min(joined, key=lambda i: joined[i].seconds - found[i].seconds, default=None)
            if best is not None and joined[best].seconds - found[best].seconds < text.seconds:
                found[best] = joined[best]
            elif (single := self._group({place: text})) is not None:
                found.append(replace(single, seconds=text.seconds))
        return [one for one in found if len(one.texts) > 1 and one.seconds < GAIN * one.alone]

    def _group(self, texts: Mapping[int, TextToShare]) -> SummaryGroup | None:
        blocks = [block for one in texts.values() for block in one.blocks]
        summary = covering(blocks, self._is_unique)
        if summary is None:
            return None
        rows = max(self._cardinality.rows(block.phases.whole.input) for block in blocks)
        groups = summary_rows(summary, rows, self._stats)
        if groups > MOST_GROUPS:
            return None
        cost = next(iter(texts.values())).prepared.cost
        each = cost.task_overhead_seconds + groups * (cost.exchange_row + cost.aggregate_row + cost.filter_row)
        passed = max(one.seconds for one in texts.values()) + groups * cost.group_row
        return SummaryGroup(texts, summary, passed + len(texts) * each)

    def _is_unique(self, table: str, column: str) -> bool:
        found = self._catalog.find(table)
        if found is None or found.rows > MOST_COUNTED:
            return False
        return frozenset((column,)) in self._catalog.stats(table, [column]).keys


def summary_rows(summary: Summary, rows: float, stats: Mapping[str, TableStats]) -> float:
    """Groups of a summary, as estimated. rows: of its input.

    The keys of one table have no more combinations than the table has rows.
    """
    by_leaf: dict[str, float] = {}
    for expr in summary.keys.values():
        leaves = {leaf_of(column) for column in columns_of(expr)}
        name = min(leaves, default="")
        by_leaf[name] = by_leaf.get(name, 1.0) * _values(expr, summary, stats)
    found = 1.0
    for name, combinations in by_leaf.items():
        leaf = summary.all_leaves.get(name)
        most = stats[leaf.table.lower()].rows if leaf is not None and leaf.table.lower() in stats else rows
        found *= min(combinations, max(1.0, most))
    return min(rows, found)


def _values(expr: Expr, summary: Summary, stats: Mapping[str, TableStats]) -> float:
    """The number of different values of a key."""
    if expr.type == "BOOLEAN":
        return 2.0
    if isinstance(expr, Call) and expr.op == "case":
        results = (*expr.args[1::2], *expr.args[-1:])
        if all(isinstance(one, Literal) for one in results):
            return float(len(results))
    found = 1.0
    for column in columns_of(expr):
        leaf = summary.all_leaves[leaf_of(column)]
        own = next(name for name in leaf.types if leaf.column(name) == column)
        known = stats.get(leaf.table.lower())
        found *= known.columns[own].distinct if known is not None and own in known.columns else MOST_GROUPS
    return found


def merged_stats(some: Iterable[Mapping[str, TableStats]]) -> Mapping[str, TableStats]:
    """The statistics of all columns, by table."""
    found: dict[str, TableStats] = {}
    for stats in some:
        for name, one in stats.items():
            had = found.get(name)
            found[name] = one if had is None else replace(
                had, columns={**had.columns, **one.columns}, keys=had.keys | one.keys, guessed=had.guessed | one.guessed
            )  # fmt: skip
    return found
