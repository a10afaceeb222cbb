"""The cost of running an operator tree, by the constants of a :class:`~qoop.planner.estimate.cost.CostModel`.

An Exchange ends a tree: below it is another task's work.
"""

from __future__ import annotations

from qoop.planner.algebra.cascade import levels
from qoop.planner.algebra.expr import Column, Expr, columns_of, columns_of_all, steps
from qoop.planner.algebra.relation import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Scan,
    SetOp,
    Shared,
    Sort,
    Window,
)
from qoop.planner.estimate.calls import calls_of
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.cost import CostModel
from qoop.planner.estimate.skipping import scanned

TOP_ROWS = 5000
"""Of more rows than these DuckDB sorts all, if they are no tiny part."""


_PAIRING = frozenset(("inner", "left", "right", "full"))
"""Joins that put out all pairs that their equalities permit before they try the other conditions."""


def seconds(cost: CostModel, relation: Relation, cardinality: Cardinality) -> float:
    """Cpu seconds of one thread to run the operator tree; an Exchange below costs reading it."""
    own = own_seconds(cost, relation, cardinality)
    if isinstance(relation, Exchange):
        return own
    below = sum(seconds(cost, child, cardinality) for child in relation.inputs)
    return own + max(0.0, below - spared_seconds(cost, relation, cardinality))


def seconds_once(cost: CostModel, relation: Relation, cardinality: Cardinality) -> float:
    """The same where a shared subplan runs once, however many read it."""
    shared: set[str] = set()

    def run(node: Relation) -> float:
        if isinstance(node, Shared):
            if node.name in shared:
                return 0.0
            shared.add(node.name)
        below = sum(map(run, node.inputs))
        return own_seconds(cost, node, cardinality) + max(0.0, below - spared_seconds(cost, node, cardinality))

    return run(relation)


def spared_seconds(cost: CostModel, relation: Relation, cardinality: Cardinality) -> float:
    """Seconds that the operator saves the scan below it, of which only a part is read."""
    if not isinstance(relation, Join | Filter):
        return 0.0
    part = cardinality.part_read(relation)
    scan = scanned(relation) if part < 1.0 else None
    return (1.0 - part) * own_seconds(cost, scan, cardinality) if scan is not None else 0.0


def own_seconds(cost: CostModel, relation: Relation, cardinality: Cardinality, parts: float = 1.0) -> float:
    """Cpu seconds of the top operator alone.

    parts: the number of tasks that have a hash table each, of different keys: the smaller a table, the more of it is in
    the cache.
    """
    own = _without_calls(cost, relation, cardinality, parts)
    return own + cost.calling(calls_of(relation, cardinality, cost.calls)) if cost.calls else own


def _without_calls(cost: CostModel, relation: Relation, cardinality: Cardinality, parts: float) -> float:
    rows = cardinality.rows(relation)
    match relation:
        case Scan():
            return rows * (cost.scan_row + cost.scan_byte * cardinality.width(relation.columns))
        case Exchange():
            return cost.reading(rows, cardinality.arrow_width(relation.columns))
        case Filter():
            return cardinality.rows(relation.input) * cost.filter_row * sum(map(steps, relation.predicates))
        case Project():
            return rows * cost.filter_row * sum(steps(expr) for _, expr in relation.exprs)
        case Join():
            return _join_seconds(cost, relation, cardinality, parts)
        case Aggregate():
            return _aggregate_seconds(cost, relation, cardinality, parts)
        case Window():
            return _window_seconds(cost, relation, rows)
        case Sort():
            return cost.sort(rows)
        case SetOp() if not (relation.all and relation.kind == "union"):
            entering = sum(cardinality.rows(branch) for branch in relation.branches)
            width = cardinality.width(relation.columns)
            return cost.group(entering, rows, len(relation.columns), width, values=0, parts=parts)
        case SetOp():  # its rows pass through
            return rows * cost.filter_row
        case Limit() if is_top(relation):  # in place of the sort, each row is compared with the last one kept
            entering = cardinality.rows(relation.input)
            return entering * cost.filter_row - own_seconds(cost, relation.input, cardinality)
    return rows * cost.output_row


def memory(cost: CostModel, relation: Relation, cardinality: Cardinality) -> float:
    """Peak bytes that the operators of the tree hold at once: hash tables, groups, sorted rows."""
    own = own_memory(cost, relation, cardinality)
    if isinstance(relation, Exchange):
        return own
    return own + sum(memory(cost, child, cardinality) for child in relation.inputs)


def own_memory(cost: CostModel, relation: Relation, cardinality: Cardinality) -> float:
    """Bytes that the top operator holds."""
    match relation:
        case Join():
            return cost.table_bytes(cardinality.rows(relation.right), cardinality.width(relation.right.columns))
        case Aggregate() | Shared():
            return cost.table_bytes(cardinality.rows(relation), cardinality.width(relation.columns))
        case SetOp() if not (relation.all and relation.kind == "union"):
            return cost.table_bytes(cardinality.rows(relation), cardinality.width(relation.columns))
        case Limit() if isinstance(relation.input, Sort):
            return cardinality.bytes(relation) - cardinality.bytes(relation.input)  # a top-N keeps only its rows
        case Sort() | Window():
            return cardinality.bytes(relation)
    return 0.0


def partial_seconds(
    cost: CostModel, partial: Aggregate, cardinality: Cardinality, groups: float, tasks: float
) -> float:
    """Cpu seconds of all tasks that each group a share of the rows into `groups` groups, of any keys."""
    return _grouping_seconds(cost, partial, cardinality, tasks * groups, tasks)


def _aggregate_seconds(cost: CostModel, aggregate: Aggregate, cardinality: Cardinality, parts: float) -> float:
    """For each grouping the lookup of the group and all functions."""
    if aggregate.cascade:
        return _argument_seconds(cost, aggregate, cardinality) + _cascade_seconds(cost, aggregate, cardinality, parts)
    return _grouping_seconds(cost, aggregate, cardinality, cardinality.rows(aggregate), parts)


def _argument_seconds(cost: CostModel, aggregate: Aggregate, cardinality: Cardinality) -> float:
    computed = sum(steps(expr) for one in aggregate.aggregations for expr in one.exprs)
    return cardinality.rows(aggregate.input) * computed * cost.filter_row


def _grouping_seconds(
    cost: CostModel, aggregate: Aggregate, cardinality: Cardinality, groups: float, parts: float
) -> float:
    """groups: of all grouping sets and all `parts` hash tables together."""
    entering, values = cardinality.rows(aggregate.input), len(aggregate.aggregations)
    computed = _argument_seconds(cost, aggregate, cardinality)
    if not aggregate.keys:
        return computed + entering * values * cost.aggregate_value + groups * cost.group_row
    sets, width = len(aggregate.grouping_sets or ((),)), cardinality.width(aggregate.keys)
    return computed + sets * cost.group(entering, groups / sets, len(aggregate.keys), width, values, parts)


def _cascade_seconds(cost: CostModel, aggregate: Aggregate, cardinality: Cardinality, parts: float) -> float:
    """Each level groups what its parent has; groups are written once, and read by the levels and sets below."""
    values, total = len(aggregate.aggregations), 0.0
    rows: list[float] = []
    for level in levels(aggregate):
        entering = cardinality.rows(aggregate.input) if level.parent is None else rows[level.parent]
        groups = min(entering, cardinality.distinct(aggregate.input, level.keys) if level.keys else 1.0)
        width = cardinality.width(level.keys)
        total += cost.group(entering, groups, len(level.keys), width, values, parts) + 2.0 * groups * cost.output_row
        rows.append(groups)
    return total


def _window_seconds(cost: CostModel, window: Window, rows: float) -> float:
    """Rows are laid out once for all functions over the same partitions and order."""
    orders = {call.layout for call in window.calls if call.is_ordered}
    partitions = {call.layout for call in window.calls if not call.is_ordered}
    frames = sum(call.has_moving_frame for call in window.calls)
    return cost.window(rows, len(orders), len(partitions), frames) + rows * cost.output_row


def _join_seconds(cost: CostModel, join: Join, cardinality: Cardinality, parts: float) -> float:
    left = cardinality.rows(join.left) * cardinality.part_read(join)
    right, output = cardinality.rows(join.right), cardinality.rows(join)
    keys = equalities(join)
    if not keys:
        return cost.nested_loops(left, right, output)
    if join.kind == "mark" and len(join.on) > 1:
        right = _members(join, cardinality)
        output = max(output, right)
    elif len(keys) < len(join.on):
        output = max(output, _tried(join, keys, cardinality))
    more = left * cost.more_keys_row * (len(keys) - 1)
    return more + cost.hash_join(left, right, cardinality.width(join.right.columns), output, parts)


def _tried(join: Join, keys: tuple[Expr, ...], cardinality: Cardinality) -> float:
    """The pairs that satisfy the equalities and are tried by the other conditions. A semi or anti join tries no more
    for a row that has found its partner."""
    pairs = cardinality.pairs(join, keys)
    if join.kind in _PAIRING:
        return pairs
    left, output = cardinality.rows(join.left), cardinality.rows(join)
    matched = output if join.kind == "semi" else left - output
    found = cardinality.pairs(join, join.on)
    until_found = min(pairs, matched * pairs / max(found, 1e-9))
    return pairs * (1.0 - matched / max(left, 1.0)) + until_found * matched / max(left, 1.0)


def _members(join: Join, cardinality: Cardinality) -> float:
    """The rows among which a mark join with further conditions looks for members: DuckDB first joins the right side
    with the values of the left that these conditions read."""
    rest = join.on[1:]
    mine = frozenset(join.left.columns)
    read = sorted(columns_of_all(rest) & mine, key=lambda column: column.name)
    rows = max(1.0, cardinality.rows(join.left))
    repeats = rows / max(1.0, min(rows, cardinality.distinct(join.left, read)))
    return max(cardinality.rows(join.right), cardinality.pairs(join, rest) / repeats)


def is_top(limit: Limit) -> bool:
    """True if DuckDB keeps the first rows of a sort alone and does not sort the others."""
    return isinstance(limit.input, Sort) and limit.limit is not None and limit.limit + limit.offset <= TOP_ROWS


def equalities(join: Join) -> tuple[Expr, ...]:
    """The conditions that equate the left with the right."""
    left, right = frozenset(join.left.columns), frozenset(join.right.columns)
    return tuple(condition for condition in join.on if equates(condition, left, right))


def equates(condition: object, left: frozenset[Column], right: frozenset[Column]) -> bool:
    """True for an equality of an expression over the one side's columns with one over the other's."""
    if getattr(condition, "op", None) != "=":
        return False
    first, second = (columns_of(arg) for arg in condition.args)  # type: ignore[attr-defined]
    return bool(first and second) and ((first <= left and second <= right) or (first <= right and second <= left))
