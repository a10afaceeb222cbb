"""Exchanges, where rows must move between tasks: their places, their kinds, and the number of tasks of each fragment.

:func:`place_exchanges` walks the relation bottom-up.  A scan of a large table is split over tasks, and what
stands above stays in the same fragment as long as every task can do it on its share: filters, projections,
joins with a build side that every task has (broadcast), partial aggregates, each task's top N, the first ranks that a
filter keeps of a window (:mod:`qoop.planner.exchange.top_ranks`).  Where that ends,
an Exchange ends the fragment: *gather* into one task, which may have all slots as threads, or *hash* by keys where much
work remains above.
Grouping sets without a common key are hashed by the keys that most have (:mod:`qoop.planner.algebra.grouping_sets`).

The forms of a join are compared by the seconds they take on this machine (:mod:`qoop.planner.exchange.exchange_cost`);
how rows lie over the tasks of a fragment that is being built is in :mod:`qoop.planner.exchange.distribution`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil

from qoop.catalog.value import changed
from qoop.planner.algebra.expr import TRUE, Column, Expr, columns_of_all, is_movable_call
from qoop.planner.algebra.grouping_sets import SplitSets
from qoop.planner.algebra.relation import (
    Aggregate,
    Exchange,
    Filter,
    Fragment,
    Join,
    Limit,
    Opaque,
    Project,
    Relation,
    Scan,
    SetOp,
    Shared,
    Sort,
    Values,
    Window,
    walk,
    with_inputs,
)
from qoop.planner.algebra.traversal import filtered
from qoop.planner.algebra.two_phase import TwoPhase, two_phase
from qoop.planner.estimate.calls import estimates_of, sum_of
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import BASE_MEMORY, CostModel
from qoop.planner.estimate.selectivity import sampled
from qoop.planner.exchange.distribution import (
    LEFT_SPREADS,
    RIGHT_SPREADS,
    HashKeys,
    Placed,
    agree,
    aligned,
    aligned_by_position,
    common_keys,
    common_partition,
    equi_pairs,
    fragment_nodes,
    hashed_within,
    is_nested,
    is_repeatable,
    joined_hashing,
    kept_hashing,
    partner_keys,
    positional_hashing,
    readers_keys,
)
from qoop.planner.exchange.exchange_cost import Costs, JoinSeconds, OperatorFacts
from qoop.planner.exchange.top_ranks import TopRanks, top_ranks
from qoop.planner.plan import CallEstimate, Estimate, Resources
from qoop.planner.variants import USUAL, Thresholds

_HALF_JOINS = frozenset({"semi", "anti", "mark"})


def place_exchanges(
    relation: Relation,
    cardinality: Cardinality,
    available: Resources,
    cost: CostModel,
    tables: Mapping[str, int],
    thresholds: Thresholds = USUAL,
    known: OperatorFacts | None = None,
) -> Relation:
    """Return the relation with its exchanges, each with its Fragment; the root is a gather of the result.

    available: what the machine has: `cpu` slots and `memory` bytes.
    tables: by table name the most tasks that a scan of it can use (row groups, files); 1 for those not named.
    known: the results of earlier calls with the same estimates and costs.
    """
    costs = Costs(cardinality, cost, available, thresholds, OperatorFacts() if known is None else known)
    placer = _Placer(cardinality, costs, tables, thresholds, readers_keys(relation))
    if cost.calls:
        placer.above = _calls_above(relation, costs)
    return placer.end(placer.place(relation), "gather")


def _calls_above(relation: Relation, costs: Costs) -> Mapping[int, float]:
    """By id of a scan, the seconds of the calls of Python that its own task can make of its rows."""
    found: dict[int, float] = {}
    for node in walk(relation):
        below, seconds = node, 0.0
        while isinstance(below, Filter | Project | Join):
            seconds += costs.cost.calling(costs.calls(below))
            below = below.inputs[0]
        if seconds and isinstance(below, Scan):
            found[id(below)] = max(found.get(id(below), 0.0), seconds)
    return found


_REDUCED = 0.5
"""The largest ratio of partial groups to rows: an output group costs about as much as a moved row."""


class _Placer:
    def __init__(
        self,
        cardinality: Cardinality,
        costs: Costs,
        tables: Mapping[str, int],
        limits: Thresholds,
        wishes: Mapping[int, tuple[Column, ...]],
    ) -> None:
        self.cardinality = cardinality
        self.costs = costs
        self.slots = costs.slots
        self.splits = tables
        self.limits = limits
        self.shared: dict[str, tuple[Exchange, Placed]] = {}
        self.above: Mapping[int, float] = {}
        self.fillers = 0
        self.wishes = wishes

    def place(self, node: Relation) -> Placed:
        """The subtree with its exchanges, as the lower part of a fragment."""
        match node:
            case Scan():
                return self.scan(node)
            case Values():
                return Placed(node, lambda _: node, rows=self.rows(node))
            case Filter():
                return self.filter(node)
            case Project():
                return self.project(node)
            case Join():
                return self.join(node, self.place(node.left), self.place(node.right))
            case Aggregate():
                return self.aggregate(node, self.place(node.input))
            case Window():
                return self.window(node, self.place(node.input), None)
            case Sort():
                return self.stack(node, self.gathered(self.place(node.input)))
            case Limit():
                return self.limit(node)
            case SetOp():
                return self.set_operation(node, [self.place(branch) for branch in node.branches])
            case Shared():
                return self.share(node)
            case Opaque():
                return self.opaque(node)
            case Exchange():
                return self.place(node.input)  # placed before: do it again, for this machine

    def rows(self, relation: Relation) -> float:
        return self.cardinality.rows(relation)

    def work(self, relation: Relation, parts: int = 1) -> float:
        return self.costs.work(relation, parts)

    def width(self, placed: Placed) -> int:
        return self.costs.width(placed)

    def tables(self, node: Relation, placed: Placed) -> int:
        """The number of tasks that divide the keys of an operator above, each with a separate hash table."""
        return self.width(placed._replace(seconds=placed.seconds + self.work(node))) if placed.hashed else 1

    # ---- ends of fragments ----

    def end(self, placed: Placed, kind: str, keys: HashKeys = (), parts: int = 1) -> Exchange:
        """The Exchange that ends the fragment, with the decisions about it."""
        width = self.width(placed)
        relation = placed.at(width)
        if isinstance(relation, Exchange) and kind == "gather":
            return replace(relation, kind="gather", keys=(), parts=1)
        if not relation.columns:  # a stage has a column to count its rows by
            self.fillers += 1
            filler = ((Column(f"row:{self.fillers}", "BOOLEAN"), TRUE),)
            relation, placed = Project(relation, filler), placed._replace(meaning=Project(placed.meaning, filler))
        fragment = self.fragment(placed, relation, width)
        return Exchange(relation, kind, keys, parts, fragment)  # type: ignore[arg-type]

    def fragment(self, placed: Placed, relation: Relation, width: int) -> Fragment:
        rows = placed.rows_of(width)
        own = self.costs.apart(placed.seconds / width + placed.repeated, width)
        seconds = own + self.costs.starting(relation) + self.costs.texts(rows, relation) / width
        tables = BASE_MEMORY + placed.hash_bytes_each + 1.5 * placed.hash_bytes / width
        memory = tables + self.costs.bytes(rows, relation) / width
        slots = self.costs.threads if width == 1 and seconds > self.limits.threads_seconds else 1
        requested = min(memory, self.costs.most_memory(slots))
        calls = self.calls(relation, width)
        estimate = Estimate(rows, self.costs.bytes(rows, relation), max(seconds, 1e-4), requested, memory, calls)
        return Fragment(placed.meaning, placed.partial, width, slots, estimate)

    def calls(self, relation: Relation, width: int) -> tuple[CallEstimate, ...]:
        """The calls of functions of Python in a task of the fragment."""
        row_seconds = self.costs.cost.calls
        if not row_seconds:
            return ()
        found: list[CallEstimate] = []
        others: list[Mapping[str, float]] = []
        for number, node in enumerate(fragment_nodes(relation)):
            ordered = estimates_of(node, self.costs.cardinality, row_seconds, number)
            found.extend(ordered)
            if not ordered:
                others.append(self.costs.calls(node))
        found.extend(CallEstimate(key, rows, row_seconds.get(key, 0.0)) for key, rows in sum_of(others).items())
        return tuple(changed(one, rows=one.rows / width) for one in sorted(found, key=lambda one: one.function))

    def gathered(self, placed: Placed) -> Placed:
        """The same rows, all in one task."""
        return self.leaf(self.end(placed, "gather"), placed) if placed.spread else placed

    def staged(self, placed: Placed) -> Placed:
        """The same rows, computed once in a separate stage."""
        return self.leaf(self.end(placed, "gather"), placed)

    def settled(self, placed: Placed) -> Placed:
        """A long computation of one task ends here rather than grow into a longer one, if its rows are few."""
        moving = 2.0 * self.costs.transfer(placed)
        if placed.seconds <= self.limits.single_seconds or moving > 0.1 * placed.seconds:
            return placed
        return self.staged(placed)

    def leaf(self, exchange: Exchange, placed: Placed) -> Placed:
        rows = placed.rows_of(exchange.fragment.width if exchange.fragment else 1)
        columns = placed.meaning.columns
        read = exchange if columns or not exchange.columns else Project(exchange, ())  # the filler was for the stage
        return Placed(placed.meaning, lambda _: read, rows, partial=placed.partial)

    def hashed(self, placed: Placed, keys: HashKeys) -> Placed:
        """The same rows, spread by ``hash(keys)``."""
        rows = placed.rows_of(self.width(placed))
        placed = placed._replace(seconds=placed.seconds + self.limits.hash_row * rows)
        return Placed(
            placed.meaning, lambda n: self.end(placed, "hash", keys, n), rows, spread=True,
            partial=placed.partial, hashed=(keys,), splits=self.limits.most_parts,
        )  # fmt: skip

    # ---- operators ----

    def reached(self, node: Relation, child: Placed) -> float:
        """The part of the tasks that have rows after an operator, which may read only a range of a sorted table."""
        part = self.cardinality.part_read(node) if child.spread and isinstance(node, Filter | Join) else 1.0
        return min(child.reached, part)

    def stack(self, node: Relation, child: Placed, hashed: tuple[HashKeys, ...] | None = None) -> Placed:
        """An operator that every task can do on its share."""
        hashed = child.hashed if hashed is None else hashed
        rows = min(child.rows, self.rows(node)) if isinstance(node, Filter | Limit) else self.rows(node)
        seconds = self.work(node, self.tables(node, child)) - min(child.seconds, self.costs.spared(node))
        return child.under(
            node, lambda below: with_inputs(node, (below,)), rows, seconds, hashed=hashed,
            hash_bytes=child.hash_bytes + self.costs.memory(node), reached=self.reached(node, child),
        )  # fmt: skip

    def scan(self, node: Scan) -> Placed:
        rows, seconds, splits = self.rows(node), self.work(node), self.splits.get(node.table, 1)
        least = max(self.limits.spread_seconds, 0.0 if self.slots > 1 else self.limits.task_seconds)
        if splits > 1 and seconds + self.above.get(id(node), 0.0) >= least:
            return Placed(
                node, lambda n: replace(node, parts=n), rows, spread=True, splits=splits, seconds=seconds
            )  # fmt: skip
        return Placed(node, lambda _: node, rows, seconds=seconds)

    def project(self, node: Project) -> Placed:
        child = self.place(node.input)
        return self.stack(node, child, kept_hashing(child.hashed, node))

    def filter(self, node: Filter) -> Placed:
        if isinstance(node.input, Window):
            return self.stack(node, self.window(node.input, self.place(node.input.input), top_ranks(node)))
        if isinstance(node.input, Join) and any(map(is_movable_call, node.predicates)):
            return self.late_calls(node)
        return self.stack(node, self.place(node.input))

    def late_calls(self, node: Filter) -> Placed:
        """Predicates that call Python above a join: their input is a separate stage, or DuckDB would push them below
        the join. So its rows are counted, and kept, before the first call; moving them costs little next to the calls.
        If the calls take long, the rows are hashed over tasks."""
        costly = tuple(filter(is_movable_call, node.predicates))
        below = filtered(node.input, (one for one in node.predicates if one not in costly))
        above, child = Filter(below, costly), self.place(below)
        keys = tuple(column for column in below.columns if column in columns_of_all(costly))
        if keys and self.costs.cost.calling(self.costs.calls(above)) > self.limits.task_seconds:
            return self.stack(above, self.hashed(child, keys))
        return self.stack(above, self.staged(child))

    def opaque(self, node: Opaque) -> Placed:
        unknown = node.rows is None  # then it gets all slots
        seconds = max(self.work(node), self.limits.threads_seconds * 1.01) if unknown else self.work(node)
        return self.staged(Placed(node, lambda _: node, self.rows(node), seconds=seconds))

    def share(self, node: Shared) -> Placed:
        """A new stage for the first reader; the others read the same one."""
        if node.name not in self.shared:
            placed = self.place(node.input)
            width = self.width(placed)
            physical = Shared(node.name, placed.at(width))
            fragment = self.fragment(placed, physical, width)
            self.shared[node.name] = (Exchange(physical, "forward", fragment=fragment), placed)
        exchange, placed = self.shared[node.name]
        width = exchange.fragment.width if exchange.fragment else 1
        if width == 1 or placed.rows <= self.limits.gather_rows:
            gather = replace(exchange, kind="gather")
            return Placed(node, lambda _: gather, placed.rows)
        return Placed(node, lambda _: exchange, placed.rows, True, hashed=placed.hashed, splits=width, exact=width)

    def limit(self, node: Limit) -> Placed:
        """Each task's first rows, then the first of those."""
        sort = node.input if isinstance(node.input, Sort) else None
        child = self.place(sort.input if sort else node.input)
        if node.limit is not None and child.spread:
            most = node.limit + node.offset
            child = self.local_limit(child, sort, most)
        child = self.gathered(child)
        if sort is not None:
            child = self.stack(sort, child)
        return self.stack(node, child)

    def local_limit(self, child: Placed, sort: Sort | None, most: int) -> Placed:
        def wrap(below: Relation) -> Relation:
            return Limit(Sort(below, sort.keys) if sort else below, most)

        seconds = self.work(sort) + self.work(Limit(sort, most)) if sort else 0.0
        return child.under(Limit(child.meaning if sort is None else sort, most), wrap, child.rows, seconds,
                           per_task=float(most), partial=True)  # fmt: skip

    def window(self, node: Window, child: Placed, top: TopRanks | None) -> Placed:
        """A window over whole partitions. top: what its reader, a filter in the same fragment, keeps of it."""
        keys = common_partition(node)
        if not child.spread or hashed_within(child.hashed, keys):
            return self.stack(node, child) if top is None else self.window_where_it_lies(top, node, child)
        if top is not None and self.thins(top, node, child):
            return self.window_of_first(top, node, child)
        if self.worth_hashing(node, child, keys):
            child = self.hashed(child, keys)
            return self.stack(node, child)
        return self.stack(node, self.gathered(child))

    def first_rows(self, top: TopRanks, node: Window) -> float:
        """The most rows of a task that have the first ranks, but for ties."""
        return max(1, top.most) * max(1.0, self.cardinality.distinct(node.input, top.call.partition_by))

    def thins(self, top: TopRanks, node: Window, child: Placed) -> bool:
        """True if each task's first ranks are few, and the others worth looking for."""
        rows = self.width(child) * self.first_rows(top, node)
        return rows <= 0.5 * child.rows and self.work(node) > self.limits.stage_seconds

    def window_where_it_lies(self, top: TopRanks, node: Window, child: Placed) -> Placed:
        """A window over rows that lie right for it, without those that cannot have the first ranks where that pays."""
        seconds = self.thinned_seconds(top, node, child.rows)
        if seconds is None:
            return self.stack(node, child)
        return child.under(
            node, lambda below: replace(node, input=below, first=top.most), self.rows(node), seconds,
            hashed=child.hashed, hash_bytes=child.hash_bytes + self.costs.memory(node),
        )  # fmt: skip

    def thinned_seconds(self, top: TopRanks, node: Window, rows: float) -> float | None:
        """Seconds of one thread for a window over the rows that can have the first ranks, these found first; None if
        that gains too little."""
        part = min(1.0, self.first_rows(top, node) / max(1.0, rows))
        seconds = part * self.work(node) + self.costs.thinning(node, top.call.partition_by)
        return seconds if top.thins and self.limits.thinning_gain * seconds <= self.work(node) else None

    def window_of_first(self, top: TopRanks, node: Window, child: Placed) -> Placed:
        """Each task's first ranks, then the ranks among those."""
        thinned = self.thinned_seconds(top, node, child.rows / self.width(child))
        first = child.under(
            node.input, lambda below: top.within(below, thinned is not None), child.rows,
            self.work(node) if thinned is None else thinned, per_task=self.first_rows(top, node), partial=True,
            hash_bytes=child.hash_bytes + self.costs.memory(node),
        )  # fmt: skip
        rows = first.rows_of(self.width(first))
        part = min(1.0, rows / max(1.0, child.rows))
        below = self.gathered(first)
        return below.under(
            node, lambda rows: with_inputs(node, (rows,)), rows, part * self.work(node), partial=True,
            hash_bytes=below.hash_bytes + part * self.costs.memory(node),
        )  # fmt: skip

    def worth_hashing(self, node: Relation, child: Placed, keys: Sequence[Expr]) -> bool:
        """True if the operator is too much for one task and its keys have values enough for all tasks."""
        if not keys or self.slots == 1 or self.work(node) <= self.limits.single_seconds:
            return False
        return self.cardinality.distinct(child.meaning, keys) >= 8 * self.slots

    # ---- aggregates ----

    def aggregate(self, node: Aggregate, child: Placed) -> Placed:
        keys = common_keys(node)
        if not child.spread:
            return self.stack(node, child)
        hashed = tuple(alternative for alternative in child.hashed if hashed_within((alternative,), keys))
        if hashed:
            return self.stack(node, child, hashed)
        phases = two_phase(node)
        if phases is not None and self.reduces(phases, child):
            return self.in_two_phases(phases, child)
        if self.worth_hashing(node, child, keys):
            return self.stack(node, self.hashed(child, self.hash_keys(node, child)))
        split = self.sets_apart(node, child, self.work(node))
        return self.stack(node, self.gathered(child)) if split is None else self.in_two_branches(node, child, *split)

    def hash_keys(self, node: Aggregate, child: Placed) -> tuple[Column, ...]:
        """The keys to spread an aggregate's rows by: those that its reader needs them spread by, if they suffice."""
        wish = self.wishes.get(id(node), ())
        if wish and self.cardinality.distinct(child.meaning, wish) >= 8 * self.slots:
            return wish
        return common_keys(node)

    def groups(self, phases: TwoPhase, child: Placed) -> tuple[float, float]:
        """Partial groups of one task that has rows, and the number of such tasks."""
        tasks = self.width(child._replace(seconds=child.seconds + self.work(phases.whole)))
        having = max(1.0, tasks * child.reached)
        if not phases.keys:
            return 1.0, float(tasks)
        groups = self.rows(phases.partial(child.meaning))
        return sampled(groups, child.rows, child.rows / having), having

    def reduces(self, phases: TwoPhase, child: Placed) -> bool:
        """True if partial groups are fewer than the rows by enough, or so few that it does not matter."""
        groups, tasks = self.groups(phases, child)
        return tasks * groups <= _REDUCED * child.rows or self.work(phases.whole) <= self.limits.stage_seconds

    def in_two_phases(self, phases: TwoPhase, child: Placed) -> Placed:
        node, (groups, tasks) = phases.whole, self.groups(phases, child)
        partial = child.under(
            node, phases.partial, child.rows, self.costs.partial(phases.partial(child.meaning), groups, tasks),
            per_task=groups, partial=True, hash_bytes=child.hash_bytes,
            hash_bytes_each=child.hash_bytes_each + self.costs.table_bytes(groups, node),
        )  # fmt: skip
        rows = partial.rows_of(self.width(partial))
        part = min(1.0, rows / max(1.0, child.rows))
        seconds = self.work(node) * part
        keys = common_keys(node)
        if seconds > self.limits.single_seconds and keys and self.rows(node) >= 8 * self.slots and self.slots > 1:
            keys = self.hash_keys(node, child)
            below = self.hashed(partial._replace(rows=rows, per_task=float("inf")), keys)
        elif (split := self.sets_apart(node, partial._replace(rows=rows), seconds)) is not None:
            return self.in_two_branches(node, partial._replace(rows=rows, per_task=float("inf")), *split)
        else:
            below = self.gathered(partial)
        seconds = self.work(node, self.tables(node, below)) * part
        return below.under(
            node, phases.final, self.rows(node), seconds, hash_bytes=below.hash_bytes + self.costs.memory(node)
        )

    # ---- grouping sets ----

    def sets_apart(self, node: Aggregate, child: Placed, seconds: float) -> tuple[SplitSets, int] | None:
        """The best split of grouping sets without a common key in two branches, and the parts of the finer one.

        seconds: work of all sets on the child's rows. None: one task does them as fast.
        """
        if seconds <= self.limits.single_seconds or node.grouping_sets is None:
            return None
        options = [self.branches(node, split, child, seconds) for split in self.costs.splits(node)]
        found = min((option for option in options if option is not None), key=lambda option: option[0], default=None)
        alone = self.costs.cost.on_threads(seconds, self.costs.threads)
        return found[1:] if found is not None and found[0] <= self.limits.parting_factor * alone else None

    def branches(
        self, node: Aggregate, split: SplitSets, child: Placed, seconds: float
    ) -> tuple[float, SplitSets, int] | None:
        """Seconds of a split, and its parts; None if its keys have too few values for all slots."""
        entering, limits = self.rows(node.input), self.limits
        scale = seconds / max(1e-9, self.work(node))
        fine = scale * self.work(split.fine.groups)
        most = min(limits.most_parts, int(self.cardinality.distinct(node.input, split.keys) / 4))
        parts = min(most, self.slots * ceil(fine / limits.task_seconds / self.slots))
        if parts < max(2, self.slots):
            return None
        part = split.coarse_part
        rows = min(child.rows, parts * (self.rows(part) if part.keys else 1.0))
        finishing = self.work(split.coarse.groups) * rows / max(1.0, entering)
        longest = fine * max(1.0 / parts, self.cardinality.most_common(node.input, split.keys))
        shared = fine + scale * self.work(part) + limits.hash_row * child.rows + self.costs.transfer(child)
        return max(shared / self.slots, longest) + finishing + 3 * limits.stage_seconds, split, parts

    def in_two_branches(self, node: Aggregate, child: Placed, split: SplitSets, parts: int) -> Placed:
        """The rows hashed by the keys of the fine sets; each task then has whole groups of these, parts of others.

        The coarse groups, finished in one task, go by the same keys to the tasks of the fine ones, in which they are
        NULL or as they are: so all rows that agree on these keys lie together.
        """
        exchange = self.hashed(child, split.keys).at(parts)  # both branches read the same one
        rows = Placed(
            child.meaning, lambda _: exchange, child.rows, True, child.partial, (split.keys,), parts, parts
        )  # fmt: skip
        share, partial = min(1.0, child.rows / max(1.0, self.rows(node.input))), child.partial
        coarse = self.hashed(self.coarse_branch(rows, split, share), split.keys).at(parts)
        return rows.under(
            node, lambda below: SetOp("union", True, (split.fine_of(below, partial), coarse), node.columns),
            self.rows(node), share * self.work(split.fine.groups),
            hash_bytes=self.costs.memory(split.fine.groups),
        )  # fmt: skip

    def coarse_branch(self, rows: Placed, split: SplitSets, share: float) -> Placed:
        part = split.coarse_part
        groups = self.rows(part) if part.keys else 1.0
        parts = rows.under(
            split.coarse.rows, lambda below: split.coarse_part_of(below, rows.partial), rows.rows,
            share * self.work(part), per_task=groups, partial=True,
            hash_bytes_each=self.costs.table_bytes(groups, part),
        )  # fmt: skip
        below = self.gathered(parts)
        seconds = self.work(split.coarse.groups) * below.rows / max(1.0, self.rows(split.coarse.groups.input))
        return below.under(split.coarse.rows, split.coarse_of, self.rows(split.coarse.groups), seconds)

    # ---- joins ----

    def join(self, node: Join, left: Placed, right: Placed) -> Placed:
        if not left.spread and not right.spread:
            return self.together(node, self.settled(left), self.settled(right))
        pairs = () if node.kind == "mark" else equi_pairs(node)
        mine, theirs = [pair.left for pair in pairs], [pair.right for pair in pairs]
        if left.spread and right.spread and aligned(left, right, pairs):
            return self.together(node, left, right)
        if node.kind in _HALF_JOINS and right.spread:
            right = self.deduplicated(right)
        seconds = JoinSeconds(self.costs, node, left, right, pairs)
        options: list[tuple[float, Callable[[], Placed]]] = []
        if left.spread and node.kind in LEFT_SPREADS:
            options.append((seconds.repeat_right(), lambda: self.together(node, left, self.repeated(right, left))))
        if right.spread and node.kind in RIGHT_SPREADS:
            options.append((seconds.repeat_left(), lambda: self.together(node, self.repeated(left, right), right)))
        worth_parting = self.slots > 1 or not self.costs.fits(right)  # one slot takes the parts in turn: grace join
        if pairs and worth_parting and self.cardinality.distinct(node.left, mine) >= 4 * self.slots:
            options.append((seconds.hash(), lambda: self.hash_join(node, left, right, mine, theirs)))
        options.append((seconds.gather(), lambda: self.together(node, self.gathered(left), self.gathered(right))))
        return min(options, key=lambda option: option[0])[1]()

    def repeated(self, placed: Placed, other: Placed) -> Placed:
        """The rows for every task of `other`: computed again in each if that is cheap, else once in a stage."""
        placed = self.gathered(placed)
        again = (placed.seconds + placed.repeated) * (self.width(other) - 1) / self.slots
        if again <= self.limits.inline_seconds and is_repeatable(placed.at(1)):
            return placed
        return self.staged(placed)

    def deduplicated(self, placed: Placed) -> Placed:
        """The distinct rows of each task's share, where that is worth it: for readers that only look up."""
        columns = placed.meaning.columns
        if not columns or placed.partial:
            return placed
        distinct = Aggregate(placed.meaning, columns, ())
        groups = self.rows(distinct)
        if self.width(placed) * groups > _REDUCED * placed.rows:
            return placed
        return placed.under(distinct, lambda below: Aggregate(below, columns, ()), placed.rows, self.work(distinct),
                            per_task=groups, partial=True)  # fmt: skip

    def hash_join(
        self, node: Join, left: Placed, right: Placed, mine: Sequence[Expr], theirs: Sequence[Expr]
    ) -> Placed:
        keys = partner_keys(left.hashed, mine, theirs)
        if keys is not None:
            return self.together(node, left, self.hashed(right, keys))
        keys = partner_keys(right.hashed, theirs, mine)
        if keys is not None:
            return self.together(node, self.hashed(left, keys), right)
        return self.together(node, self.hashed(left, tuple(mine)), self.hashed(right, tuple(theirs)))

    def together(self, node: Join, left: Placed, right: Placed) -> Placed:
        """Both sides in one fragment, whose tasks are those of whichever side is spread."""
        both = left.spread == right.spread
        parts = self.tables(node, left._replace(seconds=left.seconds + right.seconds)) if both and left.spread else 1
        work, building = self.work(node, parts), self.costs.build(right)
        build = self.costs.table_bytes(right.rows, right.meaning)
        spared = min(left.seconds, self.costs.spared(node))
        seconds, repeated = left.seconds - spared + right.seconds + work, left.repeated + right.repeated
        if not both:
            once = left if right.spread else right
            doing = building if left.spread else self.costs.probe(left, right)
            seconds, repeated = seconds - once.seconds - min(work, doing), repeated + once.seconds + doing
        return Placed(
            node, lambda n: with_inputs(node, (left.at(n), right.at(n))), self.rows(node), left.spread or right.spread,
            hashed=joined_hashing(node, left, right), splits=max(left.splits, right.splits),
            exact=left.exact or right.exact, seconds=max(seconds, 0.0), repeated=repeated,
            reached=1.0 if both else self.reached(node, left) if left.spread else right.reached,
            hash_bytes=left.hash_bytes + right.hash_bytes + (build if both or right.spread else 0.0),
            hash_bytes_each=left.hash_bytes_each + right.hash_bytes_each + (build if not both and left.spread else 0.0),
        )  # fmt: skip

    # ---- set operations ----

    def set_operation(self, node: SetOp, branches: list[Placed]) -> Placed:
        if not any(branch.spread for branch in branches):
            return self.combined(node, [self.settled(branch) for branch in branches])
        if node.kind == "union":
            return self.union(node, branches)
        if aligned_by_position(node, branches):
            return self.combined(node, branches)
        if not node.all:
            branches = [self.deduplicated(branch) if branch.spread else branch for branch in branches]
        keyed = self.slots > 1 and not any(map(is_nested, node.columns))
        if keyed and self.work(node) > self.limits.single_seconds:
            return self.combined(node, [self.hashed(branch, branch.meaning.columns) for branch in branches])
        return self.combined(node, [self.gathered(branch) for branch in branches])

    def union(self, node: SetOp, branches: list[Placed]) -> Placed:
        whole = node if node.all else replace(node, all=True)
        united = self.union_all(whole, branches)
        if node.all:
            return united
        if not united.spread:
            return self.combined(node, [self.gathered(branch) for branch in branches])
        return self.aggregate(Aggregate(whole, node.columns, ()), united)

    def union_all(self, node: SetOp, branches: list[Placed]) -> Placed:
        if all(branch.spread for branch in branches) and agree(branches):
            return self.combined(node, branches)
        rows = sum(branch.rows for branch in branches if branch.spread)
        keyed = all(not is_nested(column) for column in node.columns) and bool(node.columns)
        if self.slots == 1 or rows <= self.limits.gather_rows or not keyed:
            return self.combined(node, [self.gathered(branch) for branch in branches])
        return self.combined(node, [self.scattered(branch, branches) for branch in branches])

    def scattered(self, branch: Placed, branches: list[Placed]) -> Placed:
        """A branch whose tasks can be those of the others."""
        if branch.spread and (not branch.exact or agree(branches)):
            return branch
        return self.hashed(branch, branch.meaning.columns)

    def combined(self, node: SetOp, branches: Sequence[Placed]) -> Placed:
        hashed = positional_hashing(node, branches)
        arriving, whole = sum(b.rows for b in branches), sum(self.rows(branch) for branch in node.branches)
        work = self.work(node) * min(1.0, arriving / max(1.0, whole))  # branches may come without most of their repeats
        return Placed(
            node, lambda n: with_inputs(node, tuple(branch.at(n) for branch in branches)), self.rows(node),
            all(branch.spread for branch in branches), hashed=hashed, splits=max(branch.splits for branch in branches),
            exact=max(branch.exact for branch in branches), seconds=sum(b.seconds for b in branches) + work,
            repeated=sum(b.repeated for b in branches), hash_bytes=sum(b.hash_bytes for b in branches),
            hash_bytes_each=sum(b.hash_bytes_each for b in branches),
        )  # fmt: skip
