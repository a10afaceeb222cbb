"""The costs of the forms of a plan on a machine: the numbers by which exchanges are placed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import ceil

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Expr
from qoop.planner.algebra.grouping_sets import SplitSets, split_sets
from qoop.planner.algebra.relation import Aggregate, Join, Relation, Window
from qoop.planner.estimate import tree_cost
from qoop.planner.estimate.calls import calls_of
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import BASE_MEMORY, SPILL_BYTE, CostModel
from qoop.planner.exchange.distribution import EquiPair, Placed, fragment_nodes, partner_keys
from qoop.planner.plan import Resources
from qoop.planner.variants import Thresholds


@value
class OperatorFacts:
    """Facts that do not depend on the machine, by id of an operator; with the operator, so that its id is not reused.

    work: its seconds of one thread; parted: the same in tasks that divide its keys, by their number.
    splits: the ways to take its grouping sets apart.
    """

    work: dict[int, tuple[Relation, float]] = field(default_factory=dict)
    parted: dict[tuple[int, int], tuple[Relation, float]] = field(default_factory=dict)
    splits: dict[int, tuple[Aggregate, tuple[SplitSets, ...]]] = field(default_factory=dict)


MANY_GROUPS = 10_000.0
"""Groups from which on the threads of a task make several tables of them."""

_IMPOSSIBLE = 3600.0  # seconds: only where nothing else can be done


class Costs:
    """Estimates of operators and subtrees on a machine of `slots` threads and `memory` bytes.

    known: the results of earlier calls; new ones are added.
    """

    def __init__(
        self, cardinality: Cardinality, cost: CostModel, available: Resources, limits: Thresholds, known: OperatorFacts
    ) -> None:
        self.cardinality = cardinality
        self.cost = cost
        self.slots = max(1, int(available.cpu))
        self.threads = min(self.slots, limits.most_threads)
        self._memory = available.memory
        self.machines = ceil(self.slots / limits.machine_slots)
        self._network = available.network if self.machines > 1 else 0.0
        self.limits = limits
        self._known = known

    def rows(self, relation: Relation) -> float:
        return self.cardinality.rows(relation)

    def work(self, relation: Relation, parts: int = 1) -> float:
        """Seconds of one thread for this operator alone, in that many tasks with different keys."""
        whole = parts <= 1
        known = self._known.work.get(id(relation)) if whole else self._known.parted.get((id(relation), parts))
        if known is None:
            known = relation, tree_cost.own_seconds(self.cost, relation, self.cardinality, parts)
            if whole:
                self._known.work[id(relation)] = known
            else:
                self._known.parted[id(relation), parts] = known
        return known[1]

    def partial(self, partial: Aggregate, groups: float, tasks: float) -> float:
        """Seconds of one thread to group the rows in that many tasks, each into `groups` groups."""
        return tree_cost.partial_seconds(self.cost, partial, self.cardinality, groups, tasks)

    def calls(self, relation: Relation) -> Mapping[str, float]:
        """The rows for which this operator alone calls functions of Python, by function."""
        return calls_of(relation, self.cardinality, self.cost.calls) if self.cost.calls else {}

    def splits(self, aggregate: Aggregate) -> tuple[SplitSets, ...]:
        """The ways to take the aggregate's grouping sets apart."""
        known = self._known.splits.get(id(aggregate))
        if known is None:
            known = self._known.splits[id(aggregate)] = (aggregate, tuple(split_sets(aggregate)))
        return known[1]

    def spared(self, relation: Relation) -> float:
        """Seconds of one thread that this operator saves the scan below it, if that is in its fragment."""
        return tree_cost.spared_seconds(self.cost, relation, self.cardinality)

    def thinning(self, window: Window, keys: Sequence[Expr]) -> float:
        """Seconds of one thread to keep the rows before a window, and those alone that can have its first ranks."""
        rows, partitions = self.cardinality.rows(window.input), self.cardinality.distinct(window.input, keys)
        kept = 2.0 * rows * self.cost.output_row
        return (
            kept + self.cost.group(rows, partitions, len(keys), 8.0 * len(keys), 1) + self.cost.probe(rows, partitions)
        )

    def starting(self, relation: Relation) -> float:
        """Seconds until the operators of a task with this fragment are planned and started."""
        return self.cost.operator_seconds * sum(1 for _ in fragment_nodes(relation))

    def memory(self, relation: Relation) -> float:
        """Bytes that this operator alone holds."""
        return max(0.0, tree_cost.own_memory(self.cost, relation, self.cardinality))

    def bytes(self, rows: float, relation: Relation) -> float:
        """Bytes of `rows` rows of the relation as they leave a stage."""
        return rows * self.cardinality.arrow_width(relation.columns)

    def texts(self, rows: float, relation: Relation) -> float:
        """Seconds that the texts of a relation take to leave a stage, beyond their bytes."""
        return rows * sum(column.type == "VARCHAR" for column in relation.columns) * self.cost.output_text

    def grouped_together(self, nodes: Iterable[Relation]) -> float:
        """Seconds that operators of one task take more of all its threads than of one, where they make many groups."""
        grouping = (self.work(node) for node in nodes if isinstance(node, Aggregate) and self.rows(node) >= MANY_GROUPS)
        return (self.cost.grouped_together - 1.0) * sum(grouping)

    def apart(self, seconds: float, tasks: int) -> float:
        """Seconds of one of several tasks that divide the work of one."""
        return seconds * self.cost.apart if tasks > 1 else seconds

    def table_bytes(self, rows: float, relation: Relation) -> float:
        """Bytes of a hash table over `rows` rows of the relation."""
        return self.cost.table_bytes(rows, self.cardinality.width(relation.columns))

    def build(self, placed: Placed) -> float:
        """Seconds of one thread to build a hash table of the rows."""
        return self.cost.build(placed.rows, self.cardinality.width(placed.meaning.columns))

    def probe(self, left: Placed, right: Placed, parts: int = 1) -> float:
        """Seconds of one thread to look the left rows up in hash tables of the right ones, that many."""
        return self.cost.probe(left.rows, right.rows / parts)

    def transfer(self, placed: Placed) -> float:
        """Seconds to write or read the rows at a stage border."""
        return self.cost.transfer(placed.rows, self.cardinality.arrow_width(placed.meaning.columns))

    def copies(self, rows: float, relation: Relation) -> float:
        """Seconds until every machine has the rows that one has; none where there is one machine."""
        return self.bytes(rows, relation) * (self.machines - 1) / self._network if self._network > 0 else 0.0

    def crossing(self, rows: float, relation: Relation) -> float:
        """Seconds until every machine has its share of rows that lie anywhere."""
        return self.copies(rows, relation) / self.machines

    def most_memory(self, slots: int) -> float:
        """A task that would like more than its slots' share of the memory spills instead."""
        return max(float(BASE_MEMORY), self._memory * slots / self.slots) if self._memory > 0 else float("inf")

    def fits(self, placed: Placed) -> bool:
        """True if a task on every slot can have a hash table of all the rows."""
        tables = self.slots * self.table_bytes(placed.rows, placed.meaning)
        return self._memory <= 0 or self.limits.table_factor * tables <= self._memory

    def spilling(self, placed: Placed) -> float:
        """Seconds to write to disk and read again what one task has no memory for of a hash table of the rows."""
        missing = self.table_bytes(placed.rows, placed.meaning) - self.most_memory(self.threads)
        return max(0.0, missing) * SPILL_BYTE

    def width(self, placed: Placed) -> int:
        """The number of tasks that the fragment gets if it ends here."""
        if not placed.spread:
            return 1
        if placed.exact:
            return placed.exact
        tasks = ceil(placed.seconds / self.limits.task_seconds)
        if placed.repeated > 0.0:  # the repeated work must not outgrow the divided work
            tasks = min(tasks, int(0.3 * placed.seconds / placed.repeated) + 1)
        tasks = self.slots * ceil(max(1, tasks) / self.slots)
        if tasks <= placed.splits:
            return tasks
        return placed.splits - placed.splits % self.slots if placed.splits > self.slots else max(1, placed.splits)


@value
class JoinSeconds:
    """Time of the forms of one join, without that of its inputs."""

    costs: Costs
    node: Join
    left: Placed
    right: Placed
    pairs: Sequence[EquiPair]

    def repeat_right(self) -> float:
        """The left side spread, a table of the whole right side built by every task."""
        tasks, costs = self.costs.width(self.left), self.costs
        return self._sum(costs.build(self.right) * tasks, costs.probe(self.left, self.right), self.right)

    def repeat_left(self) -> float:
        """The right side spread, the whole left side looked up by every task."""
        tasks, costs = self.costs.width(self.right), self.costs
        return self._sum(costs.build(self.right), costs.probe(self.left, self.right) * tasks, self.left)

    def _sum(self, build: float, probe: float, whole: Placed) -> float:
        limits = self.costs.limits
        arriving = self.costs.copies(whole.rows, whole.meaning)
        seconds = ((build + probe) / self.costs.slots + limits.stage_seconds) * limits.broadcast_factor + arriving
        return seconds + (0.0 if self.costs.fits(whole) else _IMPOSSIBLE)

    def hash(self) -> float:
        """Both sides spread by hash, or one of them to match the other."""
        mine, theirs = [pair.left for pair in self.pairs], [pair.right for pair in self.pairs]
        left_stays = partner_keys(self.left.hashed, mine, theirs) is not None
        right_stays = not left_stays and partner_keys(self.right.hashed, theirs, mine) is not None
        moving = [side for side, stays in ((self.left, left_stays), (self.right, right_stays)) if not stays]
        limits, costs = self.costs.limits, self.costs
        crossing = sum(costs.crossing(side.rows, side.meaning) for side in moving)
        hashing = sum(side.rows for side in moving) * limits.hash_row
        return (self._join() + hashing) / costs.slots + 2 * limits.stage_seconds + crossing

    def gather(self) -> float:
        """One task with all slots; what stands above is no longer spread either."""
        spread = [side for side in (self.left, self.right) if side.spread]
        stages = len(spread) * self.costs.limits.stage_seconds
        stages += sum(self.costs.copies(side.rows, side.meaning) for side in spread)  # over the link of one machine
        work = self.costs.work(self.node)
        long = max(0.0, work - self.costs.limits.single_seconds)
        alone = self.costs.cost.on_threads(self._join() + long, self.costs.threads)
        return stages + alone + 0.25 * work + self.costs.spilling(self.right)

    def _join(self) -> float:
        return self.costs.build(self.right) + self.costs.probe(self.left, self.right)
