"""Aggregates over rows that lie in many tasks: in two phases, hashed by keys, or with grouping sets in two branches."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from qoop.planner.algebra.expr import Column, columns_of_all
from qoop.planner.algebra.grouping_sets import SplitSets
from qoop.planner.algebra.relation import Aggregate, Join, SetOp
from qoop.planner.algebra.traversal import narrowed
from qoop.planner.algebra.two_phase import TwoPhase, two_phase
from qoop.planner.estimate.clustering import DividedRows
from qoop.planner.estimate.selectivity import sampled
from qoop.planner.exchange.distribution import Placed, common_keys, hashed_within
from qoop.planner.exchange.exchange_cost import Costs
from qoop.planner.exchange.fragments import Fragments

REDUCED = 0.5
"""The largest ratio of partial groups to rows: an output group costs about as much as a moved row."""


class Aggregates:
    """Places the aggregates of one plan.

    wishes: by id of an aggregate, the keys that its reader needs its rows hashed by.
    """

    def __init__(self, fragments: Fragments, costs: Costs, wishes: Mapping[int, tuple[Column, ...]]) -> None:
        self._fragments = fragments
        self._costs = costs
        self._wishes = wishes

    def place(self, node: Aggregate, child: Placed) -> Placed:
        """The aggregate over rows that were placed."""
        keys = common_keys(node)
        if not child.spread:
            return self._fragments.stack(node, child)
        hashed = tuple(alternative for alternative in child.hashed if hashed_within((alternative,), keys))
        if hashed:
            return self._fragments.stack(node, child, hashed)
        phases = two_phase(node)
        if phases is not None and self._reduces(phases, child):
            return self._in_two_phases(phases, child)
        child = _as_read(node, child)
        if self._fragments.worth_hashing(node, child, keys):
            return self._fragments.stack(node, self._fragments.hashed(child, self._hash_keys(node, child)))
        split = self._sets_apart(node, child, self._costs.work(node))
        if split is None:
            return self._fragments.stack(node, self._fragments.gathered(child))
        return self._in_two_branches(node, child, *split)

    def _hash_keys(self, node: Aggregate, child: Placed) -> tuple[Column, ...]:
        """The keys to spread an aggregate's rows by: those that its reader needs them spread by, if they suffice."""
        wish = self._wishes.get(id(node), ())
        if wish and self._costs.cardinality.distinct(child.meaning, wish) >= 8 * self._costs.slots:
            return wish
        return common_keys(node)

    def _groups(self, phases: TwoPhase, child: Placed) -> tuple[float, float]:
        """Partial groups of one task that has rows, and the number of such tasks."""
        tasks = self._costs.width(child._replace(seconds=child.seconds + self._costs.work(phases.whole)))
        having = max(1.0, tasks * child.reached)
        if not phases.keys:
            return 1.0, float(tasks)
        partial = phases.partial(child.meaning)
        groups, cardinality = self._costs.rows(partial), self._costs.cardinality
        rows = DividedRows.of(partial.input, child.divided, cardinality) if child.divided is not None else None
        if rows is None:
            return sampled(groups, child.rows, child.rows / having), having
        return rows.groups(partial.keys, groups, child.rows, having), having

    def _reduces(self, phases: TwoPhase, child: Placed) -> bool:
        """True if partial groups are fewer than the rows by enough, or so few that it does not matter."""
        groups, tasks = self._groups(phases, child)
        few = tasks * groups <= REDUCED * child.rows
        return few or self._costs.work(phases.whole) <= self._costs.limits.stage_seconds

    def _in_two_phases(self, phases: TwoPhase, child: Placed) -> Placed:
        node, (groups, tasks) = phases.whole, self._groups(phases, child)
        partial = child.under(
            node, phases.partial, child.rows, self._costs.partial(phases.partial(child.meaning), groups, tasks),
            per_task=groups, partial=True, hash_bytes=child.hash_bytes,
            hash_bytes_each=child.hash_bytes_each + self._costs.table_bytes(groups, node),
        )  # fmt: skip
        rows = partial.rows_of(self._costs.width(partial))
        part = min(1.0, rows / max(1.0, child.rows))
        seconds = self._costs.work(node) * part
        keys = common_keys(node)
        many = self._costs.slots > 1 and self._costs.rows(node) >= 8 * self._costs.slots
        if many and keys and seconds > self._costs.limits.single_seconds:
            keys = self._hash_keys(node, child)
            below = self._fragments.hashed(partial._replace(rows=rows, per_task=float("inf")), keys)
        elif (split := self._sets_apart(node, partial._replace(rows=rows), seconds)) is not None:
            return self._in_two_branches(node, partial._replace(rows=rows, per_task=float("inf")), *split)
        else:
            below = self._fragments.gathered(partial)
        seconds = self._costs.work(node, self._fragments.tables(node, below)) * part
        whole = self._costs.rows(node) if node.grouping_sets is not None else min(rows, self._costs.rows(node))
        return below.under(node, phases.final, whole, seconds, hash_bytes=below.hash_bytes + self._costs.memory(node))

    # ---- grouping sets

    def _sets_apart(self, node: Aggregate, child: Placed, seconds: float) -> tuple[SplitSets, int] | None:
        """The best split of grouping sets without a common key in two branches, and the parts of the finer one.

        seconds: work of all sets on the child's rows. None: one task does them as fast.
        """
        if seconds <= self._costs.limits.single_seconds or node.grouping_sets is None:
            return None
        options = [self._branches(node, split, child, seconds) for split in self._costs.splits(node)]
        found = min((option for option in options if option is not None), key=lambda option: option[0], default=None)
        alone = self._costs.cost.on_threads(seconds, self._costs.threads)
        return found[1:] if found is not None and found[0] <= self._costs.limits.parting_factor * alone else None

    def _branches(
        self, node: Aggregate, split: SplitSets, child: Placed, seconds: float
    ) -> tuple[float, SplitSets, int] | None:
        """Seconds of a split, and its parts; None if its keys have too few values for all slots."""
        entering, limits = self._costs.rows(node.input), self._costs.limits
        scale = seconds / max(1e-9, self._costs.work(node))
        fine = scale * self._costs.work(split.fine.groups)
        most = min(limits.most_parts, int(self._costs.cardinality.distinct(node.input, split.keys) / 4))
        parts = min(most, self._costs.slots * ceil(fine / limits.task_seconds / self._costs.slots))
        if parts < max(2, self._costs.slots):
            return None
        part = split.coarse_part
        rows = min(child.rows, parts * (self._costs.rows(part) if part.keys else 1.0))
        finishing = self._costs.work(split.coarse.groups) * rows / max(1.0, entering)
        longest = fine * max(1.0 / parts, self._costs.cardinality.most_common(node.input, split.keys))
        shared = fine + scale * self._costs.work(part) + limits.hash_row * child.rows + self._costs.transfer(child)
        return max(shared / self._costs.slots, longest) + finishing + 3 * limits.stage_seconds, split, parts

    def _in_two_branches(self, node: Aggregate, child: Placed, split: SplitSets, parts: int) -> Placed:
        """The rows hashed by the keys of the fine sets; each task then has whole groups of these, parts of others.

        The coarse groups, finished in one task, go by the same keys to the tasks of the fine ones, in which they are
        NULL or as they are: so all rows that agree on these keys lie together.
        """
        exchange = self._fragments.hashed(child, split.keys).at(parts)  # both branches read the same one
        rows = Placed(
            child.meaning, lambda _: exchange, child.rows, spread=True, partial=child.partial, hashed=(split.keys,),
            splits=parts, exact=parts,
        )  # fmt: skip
        share, partial = min(1.0, child.rows / max(1.0, self._costs.rows(node.input))), child.partial
        coarse = self._fragments.hashed(self._coarse_branch(rows, split, share), split.keys).at(parts)
        return rows.under(
            node, lambda below: SetOp("union", True, (split.fine_of(below, partial), coarse), node.columns),
            self._costs.rows(node), share * self._costs.work(split.fine.groups),
            hash_bytes=self._costs.memory(split.fine.groups),
        )  # fmt: skip

    def _coarse_branch(self, rows: Placed, split: SplitSets, share: float) -> Placed:
        part = split.coarse_part
        groups = self._costs.rows(part) if part.keys else 1.0
        parts = rows.under(
            split.coarse.rows, lambda below: split.coarse_part_of(below, rows.partial), rows.rows,
            share * self._costs.work(part), per_task=groups, partial=True,
            hash_bytes_each=self._costs.table_bytes(groups, part),
        )  # fmt: skip
        below = self._fragments.gathered(parts)
        entering = max(1.0, self._costs.rows(split.coarse.groups.input))
        seconds = self._costs.work(split.coarse.groups) * below.rows / entering
        return below.under(split.coarse.rows, split.coarse_of, self._costs.rows(split.coarse.groups), seconds)


def _as_read(node: Aggregate, child: Placed) -> Placed:
    """The rows that an aggregate reads as its stage should have them: a join puts out the keys of joins below it, which
    nothing above reads."""
    read = columns_of_all(expr for aggregation in node.aggregations for expr in aggregation.exprs).union(node.keys)
    columns = child.meaning.columns
    kept = tuple(column for column in columns if column in read) or columns[:1]
    if child.partial or not isinstance(child.meaning, Join) or kept == columns:
        return child
    return child.under(
        narrowed(child.meaning, kept), lambda below: narrowed(below, kept), child.rows, 0.0, per_task=child.per_task
    )
