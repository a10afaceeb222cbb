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

from qoop.planner.algebra.expr import Column, Expr, columns_of_all, is_movable_call
from qoop.planner.algebra.relation import (
    Aggregate,
    Exchange,
    Filter,
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
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.exchange.aggregates import REDUCED, Aggregates
from qoop.planner.exchange.distribution import (
    LEFT_SPREADS,
    RIGHT_SPREADS,
    Placed,
    agree,
    aligned,
    aligned_by_position,
    common_partition,
    equi_pairs,
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
from qoop.planner.exchange.fragments import Fragments
from qoop.planner.exchange.top_ranks import TopRanks, top_ranks
from qoop.planner.plan import Resources
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
    return placer.fragments.end(placer.place(relation), "gather")


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
        self.fragments = Fragments(costs)
        self.slots = costs.slots
        self.splits = tables
        self.limits = limits
        self.shared: dict[str, tuple[Exchange, Placed]] = {}
        self.above: Mapping[int, float] = {}
        self.aggregates = Aggregates(self.fragments, costs, wishes)

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
                return self.aggregates.place(node, self.place(node.input))
            case Window():
                return self.window(node, self.place(node.input), None)
            case Sort():
                return self.fragments.stack(node, self.fragments.gathered(self.place(node.input)))
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
        return self.costs.rows(relation)

    def work(self, relation: Relation, parts: int = 1) -> float:
        return self.costs.work(relation, parts)

    def width(self, placed: Placed) -> int:
        return self.costs.width(placed)

    # ---- ends of fragments ----

    # ---- operators ----

    def scan(self, node: Scan) -> Placed:
        rows, seconds, splits = self.rows(node), self.work(node), self.splits.get(node.table, 1)
        least = max(self.limits.spread_seconds, 0.0 if self.slots > 1 else self.limits.task_seconds)
        if splits > 1 and seconds + self.above.get(id(node), 0.0) >= least:
            return Placed(
                node, lambda n: replace(node, parts=n), rows, spread=True, divided=node, splits=splits, seconds=seconds
            )  # fmt: skip
        return Placed(node, lambda _: node, rows, seconds=seconds)

    def project(self, node: Project) -> Placed:
        child = self.place(node.input)
        return self.fragments.stack(node, child, kept_hashing(child.hashed, node))

    def filter(self, node: Filter) -> Placed:
        if isinstance(node.input, Window):
            return self.fragments.stack(node, self.window(node.input, self.place(node.input.input), top_ranks(node)))
        if isinstance(node.input, Join) and any(map(is_movable_call, node.predicates)):
            return self.late_calls(node)
        return self.fragments.stack(node, self.place(node.input))

    def late_calls(self, node: Filter) -> Placed:
        """Predicates that call Python above a join: their input is a separate stage, or DuckDB would push them below
        the join. So its rows are counted, and kept, before the first call; moving them costs little next to the calls.
        If the calls take long, the rows are hashed over tasks."""
        costly = tuple(filter(is_movable_call, node.predicates))
        below = filtered(node.input, (one for one in node.predicates if one not in costly))
        above, child = Filter(below, costly), self.place(below)
        keys = tuple(column for column in below.columns if column in columns_of_all(costly))
        if keys and self.costs.cost.calling(self.costs.calls(above)) > self.limits.task_seconds:
            return self.fragments.stack(above, self.fragments.hashed(child, keys))
        return self.fragments.stack(above, self.fragments.staged(child))

    def opaque(self, node: Opaque) -> Placed:
        unknown = node.rows is None  # then it gets all slots
        seconds = max(self.work(node), self.limits.threads_seconds * 1.01) if unknown else self.work(node)
        return self.fragments.staged(Placed(node, lambda _: node, self.rows(node), seconds=seconds))

    def share(self, node: Shared) -> Placed:
        """A new stage for the first reader; the others read the same one."""
        if node.name not in self.shared:
            placed = self.place(node.input)
            width = self.width(placed)
            physical = Shared(node.name, placed.at(width))
            fragment = self.fragments.fragment(placed, physical, width)
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
        child = self.fragments.gathered(child)
        if sort is not None:
            child = self.fragments.stack(sort, child)
        return self.fragments.stack(node, child)

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
            return self.fragments.stack(node, child) if top is None else self.window_where_it_lies(top, node, child)
        if top is not None and self.thins(top, node, child):
            return self.window_of_first(top, node, child)
        if self.fragments.worth_hashing(node, child, keys):
            child = self.fragments.hashed(child, keys)
            return self.fragments.stack(node, child)
        return self.fragments.stack(node, self.fragments.gathered(child))

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
            return self.fragments.stack(node, child)
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
        below = self.fragments.gathered(first)
        return below.under(
            node, lambda rows: with_inputs(node, (rows,)), rows, part * self.work(node), partial=True,
            hash_bytes=below.hash_bytes + part * self.costs.memory(node),
        )  # fmt: skip

    # ---- aggregates ----

    # ---- grouping sets ----

    # ---- joins ----

    def join(self, node: Join, left: Placed, right: Placed) -> Placed:
        if not left.spread and not right.spread:
            return self.together(node, self.fragments.settled(left), self.fragments.settled(right))
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
        gathered = self.fragments.gathered
        options.append((seconds.gather(), lambda: self.together(node, gathered(left), gathered(right))))
        return min(options, key=lambda option: option[0])[1]()

    def repeated(self, placed: Placed, other: Placed) -> Placed:
        """The rows for every task of `other`: computed again in each if that is cheap, else once in a stage."""
        placed = self.fragments.gathered(placed)
        again = (placed.seconds + placed.repeated) * (self.width(other) - 1) / self.slots
        if again <= self.limits.inline_seconds and is_repeatable(placed.at(1)):
            return placed
        return self.fragments.staged(placed)

    def deduplicated(self, placed: Placed) -> Placed:
        """The distinct rows of each task's share, where that is worth it: for readers that only look up."""
        columns = placed.meaning.columns
        if not columns or placed.partial:
            return placed
        distinct = Aggregate(placed.meaning, columns, ())
        groups = self.rows(distinct)
        if self.width(placed) * groups > REDUCED * placed.rows:
            return placed
        return placed.under(distinct, lambda below: Aggregate(below, columns, ()), placed.rows, self.work(distinct),
                            per_task=groups, partial=True)  # fmt: skip

    def hash_join(
        self, node: Join, left: Placed, right: Placed, mine: Sequence[Expr], theirs: Sequence[Expr]
    ) -> Placed:
        hashed = self.fragments.hashed
        keys = partner_keys(left.hashed, mine, theirs)
        if keys is not None:
            return self.together(node, left, hashed(right, keys))
        keys = partner_keys(right.hashed, theirs, mine)
        if keys is not None:
            return self.together(node, hashed(left, keys), right)
        return self.together(node, hashed(left, tuple(mine)), hashed(right, tuple(theirs)))

    def together(self, node: Join, left: Placed, right: Placed) -> Placed:
        """Both sides in one fragment, whose tasks are those of whichever side is spread."""
        both = left.spread == right.spread
        below = left._replace(seconds=left.seconds + right.seconds)
        parts = self.fragments.tables(node, below) if both and left.spread else 1
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
            hashed=joined_hashing(node, left, right), divided=None if both else left.divided or right.divided,
            splits=max(left.splits, right.splits),
            exact=left.exact or right.exact, seconds=max(seconds, 0.0), repeated=repeated,
            reached=1.0 if both else self.fragments.reached(node, left) if left.spread else right.reached,
            hash_bytes=left.hash_bytes + right.hash_bytes + (build if both or right.spread else 0.0),
            hash_bytes_each=left.hash_bytes_each + right.hash_bytes_each + (build if not both and left.spread else 0.0),
        )  # fmt: skip

    # ---- set operations ----

    def set_operation(self, node: SetOp, branches: list[Placed]) -> Placed:
        if not any(branch.spread for branch in branches):
            return self.combined(node, [self.fragments.settled(branch) for branch in branches])
        if node.kind == "union":
            return self.union(node, branches)
        if aligned_by_position(node, branches):
            return self.combined(node, branches)
        if not node.all:
            branches = [self.deduplicated(branch) if branch.spread else branch for branch in branches]
        keyed = self.slots > 1 and not any(map(is_nested, node.columns))
        if keyed and self.work(node) > self.limits.single_seconds:
            return self.combined(node, [self.fragments.hashed(branch, branch.meaning.columns) for branch in branches])
        return self.combined(node, [self.fragments.gathered(branch) for branch in branches])

    def union(self, node: SetOp, branches: list[Placed]) -> Placed:
        whole = node if node.all else replace(node, all=True)
        united = self.union_all(whole, branches)
        if node.all:
            return united
        if not united.spread:
            return self.combined(node, [self.fragments.gathered(branch) for branch in branches])
        return self.aggregates.place(Aggregate(whole, node.columns, ()), united)

    def union_all(self, node: SetOp, branches: list[Placed]) -> Placed:
        if all(branch.spread for branch in branches) and agree(branches):
            return self.combined(node, branches)
        rows = sum(branch.rows for branch in branches if branch.spread)
        keyed = all(not is_nested(column) for column in node.columns) and bool(node.columns)
        if self.slots == 1 or rows <= self.limits.gather_rows or not keyed:
            return self.combined(node, [self.fragments.gathered(branch) for branch in branches])
        return self.combined(node, [self.scattered(branch, branches) for branch in branches])

    def scattered(self, branch: Placed, branches: list[Placed]) -> Placed:
        """A branch whose tasks can be those of the others."""
        if branch.spread and (not branch.exact or agree(branches)):
            return branch
        return self.fragments.hashed(branch, branch.meaning.columns)

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
