"""A SELECT -> a query block: one method for each clause, in the order in which SQL evaluates them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from qoop.catalog.value import value
from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    Literal,
    binary,
    columns_of,
    columns_of_all,
    conjuncts,
    equals,
    transform,
)
from qoop.planner.algebra.fold_constants import simplify
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Filter,
    Project,
    Relation,
    SortKey,
    Window,
    WindowCall,
)
from qoop.planner.algebra.types import value_of_no_match
from qoop.planner.sql.convert import Env
from qoop.planner.sql.from_clause import NO_SOURCE, FromClause
from qoop.planner.sql.parts import has_aggregate
from qoop.planner.sql.query_block import QueryBlock, order_exprs, order_items, ordinal, resolved
from qoop.planner.sql.running import Bound, Running, aligned, bound_of, check
from qoop.planner.sql.scope import Cte, Names, Scope, Unsupported
from qoop.planner.sql.select_list import SelectItem, aliases, places, select_items
from qoop.planner.sql.stars import expanded, has_columns

if TYPE_CHECKING:
    from qoop.planner.sql.build import Builder


class SelectBlock:
    """One SELECT, clause by clause. `relation` grows from FROM upwards."""

    def __init__(self, builder: Builder, node: exp.Select, scope: Scope, ctes: dict[str, Cte]) -> None:
        self.builder = builder
        self.node = node
        self.scope = scope
        self.ctes = ctes
        self.relation: Relation = NO_SOURCE
        self.correlated: list[Expr] = []

    def build(self) -> QueryBlock:
        self.relation = FromClause(self.builder, self.scope, self.ctes).build(self.node)
        selects = select_items(self.node, self.scope)
        named = aliases(selects)
        self.where(named)
        return self.select(selects, self.env(aggregates={}, windows=[], aliases=named))

    def env(self, **more: Any) -> Env:
        """A fresh environment in which this block's expressions can be converted."""
        builder = self.builder
        bound, about = builder.bound, (self.scope, builder.names, builder.subqueries)
        return Env(*about, bound.timestamp, ctes=self.ctes, functions=bound.functions, **more)

    # -- WHERE ---------------------------------------------------------------------------------------------------------

    def where(self, named: dict[str, exp.Expression]) -> None:
        clause = self.node.args.get("where")
        if clause is None:
            return
        env = self.env(aliases=named)
        predicates: list[Expr] = []
        for conjunct in _ast_conjuncts(self.spelt_out(clause.this)):
            if not self.builder.subqueries.conjunct(conjunct, env):
                predicates.extend(conjuncts(simplify(env.convert(conjunct))))
        local = [p for p in predicates if not columns_of(p) & self.scope.outer]
        self.correlated = [p for p in predicates if columns_of(p) & self.scope.outer]
        if self.correlated and any(map(_may_not_correlate, self.node.find_all(exp.Join, exp.TableSample))):
            raise Unsupported("a join or sample that DuckDB may refuse in a correlated subquery")
        if self.builder.as_duckdb_reads:  # pushes filters down before it takes the outer values of subqueries
            here = frozenset(self.relation.columns)
            self.relation = _filtered(self.relation, [p for p in local if columns_of(p) <= here])
            local = [p for p in local if not columns_of(p) <= here]
        self.relation = _filtered(_attached(self.relation, env), local)

    def spelt_out(self, condition: exp.Expression) -> exp.Expression:
        """A condition with COLUMNS holds for all of them."""
        if not has_columns(condition):
            return condition
        return exp.and_(*(expr for _, expr in expanded(condition, self.scope)), copy=False)  # type: ignore[return-value]

    # -- GROUP BY, SELECT, HAVING ------------------------------------------------------------------------------------

    def select(self, selects: Sequence[SelectItem], env: Env) -> QueryBlock:
        """GROUP BY to ORDER BY: convert all expressions first, then stack the operators they need."""
        node = self.node
        qualify, having = node.args.get("qualify"), node.args.get("having")
        aggregated = self.is_aggregated([item.node for item in selects])
        if not aggregated:
            env.aggregates = None
        keys = self.group_keys(selects, env) if aggregated else GroupKeys()
        names = tuple(item.name for item in selects)
        exprs = [item.node if isinstance(item.node, Column) else env.convert(item.node) for item in selects]
        having_exprs = conjuncts(env.convert(having.this)) if having is not None else ()
        qualify_exprs = conjuncts(env.convert(qualify.this)) if qualify is not None else ()
        order = order_exprs(node, len(selects), places(selects), env)
        on = [resolved(item, places(selects), env) for item in self.distinct_on()]
        running = self.running(keys, env) if keys.bound is not None else None
        if aggregated and running is None:
            self.aggregate(keys, env)
        self.relation = _attached(self.relation, env)
        after = keys.after
        self.relation = _filtered(self.relation, [after(e) for e in having_exprs])
        if env.windows:
            self.relation = self.windows(env.windows, after)
        self.relation = _filtered(self.relation, [after(e) for e in qualify_exprs])
        block = QueryBlock(
            self.relation,
            tuple(map(after, exprs)),
            names,
            tuple(self.correlated),
            single=aggregated and keys.sets is None and having is None,
            grouped=aggregated,
            of_nothing=_of_nothing((env.aggregates or {}).values()),
            running=running,
        )
        if block.grouped and self.correlated and having is not None:
            raise Unsupported("HAVING in a correlated subquery")
        order = [e if isinstance(e, int) else after(e) for e in order]
        if on:
            block, order = self.first_of_each(block, [e if isinstance(e, int) else after(e) for e in on], order)
        originals = block.exprs
        if node.args.get("distinct") and not on:
            block = self.distinct(block)
        return self.builder.order_and_limit(node, block, originals, order)

    def windows(self, calls: Sequence[WindowCall], after: Callable[[Expr], Expr]) -> Window:
        """The relation with window functions. after: turns expressions into those over the groups."""
        if self.correlated:
            raise Unsupported("a window function in a correlated subquery")
        over_groups = (
            type(one)(one.column, after(one.call), tuple(map(after, one.partition_by)))  # type: ignore[arg-type]
            for one in calls
        )
        return Window(self.relation, tuple(over_groups))

    def distinct_on(self) -> list[exp.Expression]:
        """The items of DISTINCT ON."""
        distinct = self.node.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        return list(on.expressions if isinstance(on, exp.Tuple) else [on]) if on is not None else []

    def first_of_each(
        self, block: QueryBlock, on: Sequence[Expr | int], order: Sequence[Expr | int]
    ) -> tuple[QueryBlock, list[Expr | int]]:
        """DISTINCT ON: the block of the rows that it keeps, and what these are sorted by."""
        exprs = [self.at(block, item) for item in on]
        sorted_by = [self.at(block, item) for item in order]
        items = order_items(self.node, len(block.exprs))
        keys = [
            SortKey(expr, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
            for item, expr in zip(items, sorted_by, strict=True)
        ]
        kept = first_of_each(block, exprs, keys, self.builder.names)
        return kept.block, list(kept.order)

    def at(self, block: QueryBlock, item: Expr | int) -> Expr:
        """The expression at a place of the select list, or the one that is given."""
        if not isinstance(item, int):
            return item
        if not 0 <= item < len(block.exprs):
            raise Unsupported(f"the place {item + 1} in the select list")
        return block.exprs[item]

    def is_aggregated(self, items: Iterable[exp.Expression | Column]) -> bool:
        node = self.node
        if node.args.get("group") or node.args.get("having"):
            return True
        order = node.args.get("order")
        exprs = [item for item in items if isinstance(item, exp.Expression)]
        return any(map(has_aggregate, exprs + (order.expressions if order is not None else [])))

    def group_keys(self, selects: Sequence[SelectItem], env: Env) -> GroupKeys:
        group = self.node.args.get("group")
        keys = GroupKeys()
        if group is not None:
            plain = replace(env, aggregates=None, windows=None)
            if group.args.get("all"):
                keys.sets = self.all_keys(selects, plain, keys)
            else:
                keys.sets = grouping_sets(group, lambda item: self.key(item, selects, plain, keys))
        for predicate in self.correlated:
            bound = bound_of(predicate, frozenset(self.relation.columns))
            if bound is not None and keys.bound is None:
                keys.bound = bound
                continue
            inner, outer = self.builder.subqueries.sides(predicate, self.scope.outer)
            keys.correlated.append(equals(keys.add(inner, self.builder.names), outer))
        if keys.sets and len(keys.sets) > 1:
            if keys.correlated:
                raise Unsupported("grouping sets in a correlated subquery")
            if not all(map(columns_of, keys.columns)):
                raise Unsupported("grouping sets of a constant, which is NULL where the set is without it")
        return keys

    def all_keys(self, selects: Sequence[SelectItem], env: Env, keys: GroupKeys) -> list[tuple[Column, ...]] | None:
        """GROUP BY ALL: by the items of the select list that read columns outside of aggregates; None if none does."""
        nodes = [item.node for item in selects]
        if any(isinstance(node, exp.Expression) and node.find(exp.Subquery, exp.Exists) for node in nodes):
            raise Unsupported("GROUP BY ALL with a subquery")
        plain = [node for node in nodes if isinstance(node, Column) or not has_aggregate(node)]
        exprs = [node if isinstance(node, Column) else env.convert(node) for node in plain]
        read = [expr for expr in exprs if columns_of(expr)]
        if len(plain) == len(nodes) and not read:
            raise Unsupported("GROUP BY ALL of constants, which groups nothing")
        if columns_of_all(read) & self.scope.outer:
            raise Unsupported("GROUP BY ALL of outer columns")
        found = tuple(dict.fromkeys(keys.add(expr, self.builder.names) for expr in read))
        return [found] if found else None

    def key(self, node: exp.Expression, selects: Sequence[SelectItem], env: Env, keys: GroupKeys) -> Column:
        position = ordinal(node)
        if position is not None and 1 <= position <= len(selects):
            item = selects[position - 1].node
            return keys.add(item if isinstance(item, Column) else env.convert(item), self.builder.names)
        return keys.add(env.convert(node), self.builder.names)

    def aggregate(self, keys: GroupKeys, env: Env) -> None:
        computed = [(column, expr) for expr, column in keys.columns.items() if column != expr]
        if env.attachments and any(columns_of_all([e]) - set(self.relation.columns) for e in keys.columns):
            raise Unsupported("a subquery in GROUP BY")
        if computed:
            kept = tuple((column, column) for column in self.relation.columns)
            self.relation = Project(self.relation, kept + tuple(computed))
        aggregations = tuple((env.aggregates or {}).values())
        swapped = tuple(
            type(a)(a.column, keys.after(a.call), a.distinct, a.filter, a.ordered)  # type: ignore[arg-type]
            if a.call.op == "grouping"
            else a
            for a in aggregations
        )
        sets = tuple(keys.sets) if keys.sets is not None and len(keys.sets) > 1 else None
        if keys.sets is not None and len(keys.sets) == 1 and sets is None:
            unused = [c for c in keys.columns.values() if c not in keys.sets[0] and not keys.correlated]
            if unused:
                sets = tuple(keys.sets)
        self.relation = Aggregate(self.relation, tuple(keys.columns.values()), swapped, sets)
        self.correlated = keys.correlated

    def running(self, keys: GroupKeys, env: Env) -> Running:
        """The aggregates of a correlated subquery over the rows up to an outer value; they are computed where it is
        joined."""
        if keys.sets is not None or env.attachments:
            raise Unsupported("groups, or a subquery, in a subquery that is correlated by an inequality")
        assert keys.bound is not None
        inner, sides = frozenset(self.relation.columns), self.builder.subqueries.sides
        pairs = tuple(sides(one, self.scope.outer) for one in self.correlated if bound_of(one, inner) is None)
        found = aligned(Running(pairs, keys.bound, tuple((env.aggregates or {}).values())))
        check(found)
        return found

    def distinct(self, block: QueryBlock) -> QueryBlock:
        if block.correlated:
            return replace(block, distinct=True)  # EXISTS and IN ignore duplicates; a scalar subquery sees to it
        relation, columns = self.builder.project(block)
        return QueryBlock(Aggregate(relation, columns, ()), columns, block.names)


def _ast_conjuncts(node: exp.Expression) -> list[exp.Expression]:
    if isinstance(node, exp.Paren):
        return _ast_conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*_ast_conjuncts(node.this), *_ast_conjuncts(node.expression)]
    return [node]


def _may_not_correlate(node: exp.Expression) -> bool:
    """True for a join or sample that DuckDB refuses in correlated subqueries, if only in some of its plans."""
    words = {str(node.args.get(part)).upper() for part in ("side", "kind", "method")}
    return isinstance(node, exp.TableSample) or not words.isdisjoint(("FULL", "SEMI", "ANTI", "POSITIONAL"))


def _attached(relation: Relation, env: Env) -> Relation:
    for attach in env.attachments:
        relation = attach(relation)
    env.attachments = []
    return relation


def _of_nothing(aggregates: Iterable[Aggregation]) -> dict[Column, Literal]:
    values = ((a.column, value_of_no_match(a.call)) for a in aggregates)
    return {column: value for column, value in values if value is not None}


def _filtered(relation: Relation, predicates: Sequence[Expr]) -> Relation:
    kept = tuple(p for p in predicates if not (isinstance(p, Literal) and p.value is True))
    return Filter(relation, kept) if kept else relation


# ``SELECT DISTINCT ON (…) … ORDER BY …``: the first row of each group.
#
# It is the row that has the number 1 in its group. Where the order leaves a choice, the numbers vary, and so the block
# is non-deterministic (law 12), as any with ``row_number()`` is; where the query reads only the keys, it is a GROUP BY.

_ONE = Literal("1", "INTEGER", 1)


@value
class SortableBlock:
    """A block, and the expressions over it that its rows are sorted by."""

    block: QueryBlock
    order: tuple[Expr, ...]


def first_of_each(block: QueryBlock, on: Sequence[Expr], order: Sequence[SortKey], names: Names) -> SortableBlock:
    """The first row, in this order, for each value of the expressions `on`. Raises Unsupported without an order."""
    if block.correlated:
        raise Unsupported("DISTINCT ON in a correlated subquery")
    sorted_by = tuple(key.expr for key in order)
    if all(expr in on for expr in (*block.exprs, *sorted_by)):
        return _grouped(block, on, sorted_by, names)
    if not order:
        raise Unsupported("DISTINCT ON without an order, which leaves the choice of the rows to DuckDB")
    rank = names.fresh("place", "BIGINT")
    numbered = Window(block.relation, (WindowCall(rank, _row_number(on, order), tuple(on)),))
    return SortableBlock(replace(block, relation=Filter(numbered, (binary("=", rank, _ONE),))), sorted_by)


def _grouped(block: QueryBlock, on: Sequence[Expr], order: Sequence[Expr], names: Names) -> SortableBlock:
    keys: dict[Expr, Column] = {expr: names.fresh("distinct_key", expr.type) for expr in on}
    rows = Project(block.relation, tuple((column, expr) for expr, column in keys.items()))
    groups = Aggregate(rows, tuple(keys.values()), ())
    kept = replace(block, relation=groups, exprs=tuple(keys[expr] for expr in block.exprs))
    return SortableBlock(kept, tuple(keys[expr] for expr in order))


def _row_number(on: Sequence[Expr], order: Sequence[SortKey]) -> Call:
    slots = ", ".join(f"{{{place}}}" for place in range(len(on)))
    sorted_by = ", ".join(f"{{{len(on) + place}}} {_direction(key)}" for place, key in enumerate(order))
    template = f"row_number() OVER (PARTITION BY {slots} ORDER BY {sorted_by})"
    return Call("row_number", (*on, *(key.expr for key in order)), template, "BIGINT")


def _direction(key: SortKey) -> str:
    return f"{'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


# GROUP BY: its keys, and the grouping sets that its items spell out


@dataclass
class GroupKeys:
    """GROUP BY while it is built: key expression -> its column, and the grouping sets.

    correlated: what remains of correlated predicates, between key columns and outer ones. bound: the one of them that
    is an inequality.
    """

    columns: dict[Expr, Column] = field(default_factory=dict)
    sets: list[tuple[Column, ...]] | None = None
    correlated: list[Expr] = field(default_factory=list)
    bound: Bound | None = None

    def add(self, expr: Expr, names: Names) -> Column:
        if expr not in self.columns:
            self.columns[expr] = expr if isinstance(expr, Column) else names.fresh("key", expr.type)
        return self.columns[expr]

    def after(self, expr: Expr) -> Expr:
        """The expression above the Aggregate: key expressions became columns."""
        computed = {e: c for e, c in self.columns.items() if e != c and not isinstance(e, Literal)}
        if not computed:
            return expr
        return transform(expr, lambda node: computed.get(node) if isinstance(node, Call) else None)


def grouping_sets(group: exp.Group, key: Callable[[exp.Expression], Column]) -> list[tuple[Column, ...]]:
    """Spell GROUP BY out as the list of its grouping sets (SQL:1999, cross product of the items)."""
    factors: list[list[tuple[Column, ...]]] = []
    items = [
        *group.expressions,
        *(group.args.get("rollup") or ()),
        *(group.args.get("cube") or ()),
        *(group.args.get("grouping_sets") or ()),
    ]
    for item in items:
        factors.append(_factor(item, key))
    return [tuple(dict.fromkeys(c for part in choice for c in part)) for choice in product(*factors)]


def _factor(item: exp.Expression, key: Callable[[exp.Expression], Column]) -> list[tuple[Column, ...]]:
    def part(node: exp.Expression) -> tuple[Column, ...]:
        if isinstance(node, exp.Tuple):
            return tuple(key(child) for child in node.expressions)
        return (key(node.this if isinstance(node, exp.Paren) else node),)

    if isinstance(item, exp.Rollup):
        parts = [part(node) for node in item.expressions]
        return [sum(parts[:i], ()) for i in range(len(parts), -1, -1)]
    if isinstance(item, exp.Cube):
        parts = [part(node) for node in item.expressions]
        choices = [c for n in range(len(parts), -1, -1) for c in combinations(parts, n)]
        return [sum(choice, ()) for choice in choices]
    if isinstance(item, exp.GroupingSets):
        return [s for node in item.expressions for s in (
            _factor(node, key) if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) else [part(node)]
        )]  # fmt: skip
    return [part(item)]
