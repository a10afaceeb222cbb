"""Queries that come at the same time: which of them share a summary.

    texts ──blocks──> groups of texts, where one summary takes less than a pass over the tables for each

A group is worth its summary if one pass over the tables, and every text regrouping the summary, takes less than a pass
for each text. The estimates are those of DuckDB's own plans, by footers, and the number of the summary's groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from qoop.catalog.statistics.combinations import Range
from qoop.catalog.statistics.scalars import INTEGERS
from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Expr, Literal, columns_of
from qoop.planner.algebra.properties import equated
from qoop.planner.algebra.relation import Aggregate, Scan, walk
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.plan import Plan
from qoop.planner.summaries.block import Leaf, SummaryBlock, block_of, leaf_of
from qoop.planner.summaries.summary import Summary, by_columns, covering
from qoop.query.job import Prepared

if TYPE_CHECKING:
    from qoop.catalog.catalog import Catalog
    from qoop.catalog.statistics.stats import TableStats

LEAST_SECONDS = 0.06
"""Seconds of one thread that texts must take in the mean for a search, which takes 15 ms each. At scale 1 of TPC-DS the
tiles of a dashboard take 0.02 to 0.05, and a search gains nothing."""

GAIN = 0.8
"""The part of the seconds of separate passes that a summary may take at most: estimates err."""

REDUCTION = 16.0
"""Rows for each group of a summary at least. With fewer, making the groups costs more than the passes that it saves: at
scale 1 of TPC-DS, a summary of half a million rows with as many groups takes 30 times a pass for one of them."""

KEY_ROW = 10e-9
"""Seconds of one thread for each key of a row, most of which are texts."""

MOST_GROUPS = 1_000_000
"""Groups of a summary at most: more are no summary, and take memory that other outputs need."""

MOST_PROBED = 200_000
"""Rows of a table at most whose combinations of keys are counted, in some milliseconds, once for each version."""

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
        self._cardinality, self._size = Cardinality(self._stats), SummarySize(catalog, self._stats)

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
        summary = covering(blocks, partial(unique_in, self._catalog))
        if summary is None:
            return None
        rows = max(self._cardinality.rows(block.phases.whole.input) for block in blocks)
        groups = self._size.groups(summary, rows)
        if groups > MOST_GROUPS or (len(texts) > 1 and groups * REDUCTION > rows):
            return None
        cost = next(iter(texts.values())).prepared.cost
        each = cost.task_overhead_seconds + groups * (cost.exchange_row + cost.aggregate_row + cost.filter_row)
        joined = sum(self._rows_of(one.leaf) * cost.build_row + rows * cost.probe_row for one in summary.partners)
        longest = max(one.seconds for one in texts.values())
        passed = longest + joined + rows * KEY_ROW * len(summary.keys) + groups * cost.group_row
        return SummaryGroup(texts, summary, passed + len(texts) * each)

    def _rows_of(self, leaf: Leaf) -> float:
        stats = self._stats.get(leaf.table.lower())
        return stats.rows if stats is not None else 0.0


def unique_in(catalog: Catalog, table: str, column: str) -> bool:
    """True if a column of a table has no value twice, as counted; False for a table that is long to count."""
    found = catalog.find(table)
    if found is None or found.rows > MOST_COUNTED:
        return False
    return frozenset((column,)) in catalog.stats(table, [column]).keys


def group_of_template(texts: Sequence[TextToShare], catalog: Catalog, most_seconds: float) -> SummaryGroup | None:
    """The group of texts that differ in constants, whose summary has the columns that these are compared with as keys.
    None if a text would take longer than some seconds of one thread over its groups."""
    blocks = [block for one in texts for block in one.blocks]
    summary = covering(blocks, partial(unique_in, catalog), by_columns)
    if summary is None:
        return None
    stats = merged_stats(one.prepared.stats for one in texts)
    rows = max(Cardinality(stats).rows(block.phases.whole.input) for block in blocks)
    rows = max(rows, _most_rows(summary, stats))
    groups = SummarySize(catalog, stats).groups(summary, rows)
    cost = texts[0].prepared.cost
    each = cost.task_overhead_seconds + groups * (cost.exchange_row + cost.aggregate_row + cost.filter_row)
    if groups > MOST_GROUPS or groups * REDUCTION > rows or each > most_seconds:
        return None
    return SummaryGroup(dict(enumerate(texts)), summary, each)


def _most_rows(summary: Summary, stats: Mapping[str, TableStats]) -> float:
    """Rows of its largest table: without the constants all may be left."""
    names = {leaf.table.lower() for leaf in summary.all_leaves.values()}
    return max((stats[name].rows for name in names & stats.keys()), default=float(MOST_GROUPS))


class SummarySize:
    """Estimates the groups of a summary.

    Of a small table the combinations of its keys are counted, in the rows that another table can join. Keys of
    different tables are taken as independent. catalog: of the tables. stats: by table.
    """

    def __init__(self, catalog: Catalog, stats: Mapping[str, TableStats]) -> None:
        self._catalog, self._stats = catalog, stats

    def groups(self, summary: Summary, rows: float) -> float:
        """Groups of a summary over that many rows."""
        columns: dict[str, set[Column]] = {}
        found = 1.0
        for expr in summary.keys.values():
            results = _results(expr)
            if results is not None:
                found *= results
                continue
            for column in columns_of(expr):
                columns.setdefault(leaf_of(column), set()).add(column)
        for name, some in columns.items():
            found *= max(1.0, self._combinations(summary, summary.all_leaves[name], some))
        return min(rows, found)

    def _combinations(self, summary: Summary, leaf: Leaf, columns: Collection[Column]) -> float:
        names = [own for own in leaf.types if leaf.column(own) in columns]
        table = self._catalog.find(leaf.table)
        if table is not None and table.version == leaf.version and table.rows <= MOST_PROBED:
            return self._catalog.combinations(leaf.table, names, self._joined_range(summary, leaf))
        stats = self._stats.get(leaf.table.lower())
        known = stats.columns if stats is not None else {}
        return prod(known[name].distinct if name in known else MOST_GROUPS for name in names)

    def _joined_range(self, summary: Summary, leaf: Leaf) -> Range | None:
        """The range of numbers by which others join the table; None: there is none."""
        equalities = (*summary.predicates.values(), *(one.on for one in summary.partners))
        for mine, theirs in (pair for one in equalities if (pair := _joined(one, leaf)) is not None):
            other = summary.all_leaves[leaf_of(theirs)]
            stats = self._stats.get(other.table.lower())
            own = next(name for name in other.types if other.column(name) == theirs)
            known = stats.columns.get(own) if stats is not None else None
            if known is not None and isinstance(known.minimum, float) and isinstance(known.maximum, float):
                column = next(name for name in leaf.types if leaf.column(name) == mine)
                return Range(column, known.minimum, known.maximum)
        return None


def _joined(predicate: Expr, leaf: Leaf) -> tuple[Column, Column] | None:
    """The integer column of a leaf that a predicate equates with one of another leaf, and that one."""
    pair = equated(predicate)
    if pair is None or pair[0].type not in INTEGERS:
        return None
    mine, theirs = pair if leaf_of(pair[0]) == leaf.name else pair[::-1]
    return (mine, theirs) if leaf_of(mine) == leaf.name != leaf_of(theirs) else None


def _results(expr: Expr) -> float | None:
    """The number of values that an expression can have by its form; None: as many as its columns."""
    if expr.type == "BOOLEAN":
        return 2.0
    if isinstance(expr, Call) and expr.op == "case":
        results = (*expr.args[1::2], *expr.args[-1:])
        if all(isinstance(one, Literal) for one in results):
            return float(len(results))
    return None


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
