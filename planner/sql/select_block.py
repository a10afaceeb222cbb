"""A SELECT -> a query block: one method for each clause, in the order in which SQL evaluates them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from qoop.planner.algebra.expr import Call, Column, Expr, Literal, columns_of, columns_of_all, conjuncts, equals
from qoop.planner.algebra.fold_constants import simplify
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    Scan,
    Values,
    Window,
)
from qoop.planner.algebra.types import type_of, value_of_no_match
from qoop.planner.sql.convert import Env, has_aggregate
from qoop.planner.sql.group_by import GroupKeys, grouping_sets
from qoop.planner.sql.query_block import QueryBlock, order_exprs, ordinal
from qoop.planner.sql.scope import Cte, Scope, Source, Unsupported, refuse, unlike_names
from qoop.planner.sql.select_list import SelectItem, aliases, places, select_items
from qoop.planner.sql.stars import expanded, has_columns

if TYPE_CHECKING:
    from qoop.planner.sql.build import Builder


class SelectBlock:
    """One SELECT, clause by clause. `relation` grows from FROM upwards."""

    KNOWN = frozenset(
        "with_ kind hint distinct expressions from_ joins where group having qualify order limit offset".split()  # noqa: SIM905
    )

    def __init__(self, builder: Builder, node: exp.Select, scope: Scope, ctes: dict[str, Cte]) -> None:
        self.builder = builder
        self.node = node
        self.scope = scope
        self.ctes = ctes
        self.relation: Relation = Values((), ((),))
        self.correlated: list[Expr] = []

    def build(self) -> QueryBlock:
        refuse(self.node, self.KNOWN)
        self.from_()
        selects = select_items(self.node, self.scope)
        named = aliases(selects)
        self.where(named)
        return self.select(selects, self.env(aggregates={}, windows=[], aliases=named))

    def env(self, **more: Any) -> Env:
        """A fresh environment in which this block's expressions can be converted."""
        builder = self.builder
        bound, about = builder.bound, (self.scope, builder.names, builder.subqueries)
        return Env(*about, bound.timestamp, ctes=self.ctes, functions=bound.functions, **more)

    # -- FROM ----------------------------------------------------------------------------------------------------

    def from_(self) -> None:
        clause = self.node.args.get("from_")
        if clause is None:
            if self.node.args.get("joins"):
                raise Unsupported("joins without FROM")
            return
        first, *others = _comma_separated(clause.this, self.node)
        self.relation = self.chain(*first)
        for node, joins in others:
            if all(_join_kind(join) == "inner" for join in joins):  # then any order is right
                before = len(self.scope.sources)
                self.relation = Join(self.relation, self.item(node), "inner", ())
                self.join_all(joins, before)
            else:
                self.relation = Join(self.relation, self.chain(node, joins), "inner", ())

    def chain(self, node: exp.Expression, joins: Sequence[exp.Join]) -> Relation:
        """A FROM item and what is joined to it, apart from what is joined so far."""
        before = len(self.scope.sources)
        outer, self.relation = self.relation, self.item(node)
        self.join_all(joins, before)
        built, self.relation = self.relation, outer
        return built

    def join_all(self, joins: Iterable[exp.Join], first: int) -> None:
        """Join one item after the other to those from the `first` source on."""
        for join in joins:
            self.join(join, first)

    def item(self, node: exp.Expression) -> Relation:
        """A FROM item: enters its columns into the scope, returns its relation."""
        before = len(self.scope.sources)
        if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Query) and not node.alias:
            relation = self.item(node.this)
        else:
            built = self.source(node)
            self.scope.sources.append(built)
            relation = built.relation
        outer, self.relation = self.relation, relation
        self.join_all(node.args.get("joins") or (), before)
        relation, self.relation = self.relation, outer
        return relation

    def source(self, node: exp.Expression) -> Source:
        alias = node.args.get("alias")
        renamed = tuple(column.name for column in alias.columns) if alias is not None else ()
        match node:
            case exp.Table():
                built = self.table(node)
            case exp.Subquery() | exp.Values():
                if isinstance(node, exp.Subquery):
                    refuse(node, {"this", "alias", "with_", "joins"})
                inner = node if isinstance(node, exp.Values) else node.this
                ctes = self.builder.with_(node, self.ctes)
                relation, columns, names = self.builder.derived(inner, ctes)
                built = Source(node.alias, tuple(zip(names, columns, strict=True)), relation)
            case _:
                raise Unsupported(f"{type(node).__name__} in FROM")
        if len(renamed) > len(built.columns):
            raise Unsupported(f"more names than columns in {node.alias}")
        names = unlike_names([*renamed, *(name for name, _ in built.columns[len(renamed) :])])
        pairs = tuple((name, expr) for name, (_, expr) in zip(names, built.columns, strict=True))
        return Source(node.alias or built.alias, pairs, built.relation)

    def table(self, node: exp.Table) -> Source:
        refuse(node, {"this", "alias", "joins"})
        name = node.name.lower()
        if name in self.ctes:
            return self.builder.cte(self.ctes[name])
        known = self.builder.bound.tables.get(name)
        if known is None or not isinstance(node.this, exp.Identifier):
            raise Unsupported(f"the table {node.sql(dialect='duckdb')}")
        version, typed = known
        fields = tuple((own, self.builder.names.fresh(own, type_)) for own, type_ in typed)
        return Source(node.name, fields, Scan(name, version, fields))

    def join(self, node: exp.Join, first: int) -> None:
        """Join the next item to those from the `first` source on."""
        refuse(node, {"this", "on", "using", "side", "kind", "method"})
        left, before = self.relation, list(self.scope.sources)
        right = self.item(node.this)
        kind = _join_kind(node)
        shared = self.shared_names(node, before[first:], self.scope.sources[len(before) :])
        same = self.using(shared, before[first:], self.scope.sources[len(before) :])
        on = tuple(equals(*pair) for pair in same.values()) if shared else self.conditions(node.args.get("on"))
        if kind == "right":
            self.relation = Join(right, left, "left", on)
        elif kind in ("semi", "anti"):
            self.scope.sources = before
            self.relation = Join(left, right, kind, on)
        else:
            self.relation = Join(left, right, kind, on)
        self.merge(kind, same)

    def conditions(self, node: exp.Expression | None) -> tuple[Expr, ...]:
        if node is None:
            return ()
        env = self.env()
        exprs = conjuncts(simplify(env.convert(node)))
        if env.attachments or columns_of_all(exprs) & self.scope.outer:
            raise Unsupported("a subquery or outer column in ON")
        return tuple(expr for expr in exprs if not (isinstance(expr, Literal) and expr.value is True))

    def shared_names(self, node: exp.Join, mine: Sequence[Source], theirs: Sequence[Source]) -> list[str]:
        """The names, in lower case, of the columns that USING or NATURAL makes one."""
        if (node.method or "").upper() != "NATURAL":
            return [identifier.name.lower() for identifier in node.args.get("using") or ()]
        others = {name.lower() for source in theirs for name, _ in source.columns}
        return list(dict.fromkeys(
            name.lower() for source in mine for name, _ in source.columns if name.lower() in others
        ))  # fmt: skip

    def using(
        self, names: Sequence[str], mine: Sequence[Source], theirs: Sequence[Source]
    ) -> dict[str, tuple[Column, Column]]:
        """The columns of each name on either side."""
        found = {}
        for name in names:
            ours = [column for source in mine if (column := source.find(name)) is not None]
            others = [column for source in theirs if (column := source.find(name)) is not None]
            ours, others = ([*dict.fromkeys(self.scope.same.get(c, c) for c in side)] for side in (ours, others))
            if len(ours) != 1 or len(others) != 1:
                raise Unsupported(f"USING ({name})")
            found[name] = ours[0], others[0]
        return found

    def merge(self, kind: str, pairs: Mapping[str, tuple[Column, Column]]) -> None:
        """Make the columns one that USING joins by: what the outer side has, of a full join what either has."""
        both = {}
        for name, (ours, theirs) in pairs.items():
            shown = theirs if kind == "right" else ours
            if kind == "full":
                template = "coalesce({0}, {1})"
                either = Call("coalesce", (ours, theirs), template, type_of(template, (ours, theirs)))
                shown = self.builder.names.fresh(name, either.type)
                both[shown] = either
            self.scope.merge(name, ours, theirs, shown)
        if both:
            kept = tuple((column, column) for column in self.relation.columns)
            self.relation = Project(self.relation, (*kept, *both.items()))

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
        self.relation = _filtered(_attached(self.relation, env), local)

    def spelt_out(self, condition: exp.Expression) -> exp.Expression:
        """A condition with COLUMNS holds for all of them."""
        if not has_columns(condition):
            return condition
        return exp.and_(*(expr for _, expr in expanded(condition, self.scope)), copy=False)

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
        if aggregated:
            self.aggregate(keys, env)
        self.relation = _attached(self.relation, env)
        after = keys.after
        self.relation = _filtered(self.relation, [after(e) for e in having_exprs])
        if env.windows:
            calls = tuple(
                type(w)(w.column, after(w.call), tuple(map(after, w.partition_by)))  # type: ignore[arg-type]
                for w in env.windows
            )
            if self.correlated:
                raise Unsupported("a window function in a correlated subquery")
            self.relation = Window(self.relation, calls)
        self.relation = _filtered(self.relation, [after(e) for e in qualify_exprs])
        block = QueryBlock(
            self.relation,
            tuple(map(after, exprs)),
            names,
            tuple(self.correlated),
            single=aggregated and keys.sets is None and having is None,
            grouped=aggregated,
            of_nothing=_of_nothing((env.aggregates or {}).values()),
        )
        if block.grouped and self.correlated and having is not None:
            raise Unsupported("HAVING in a correlated subquery")
        originals = block.exprs
        if node.args.get("distinct"):
            block = self.distinct(block)
        return self.builder.order_and_limit(
            node, block, originals, [e if isinstance(e, int) else after(e) for e in order]
        )

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
            inner, outer = self.builder.subqueries.sides(predicate, self.scope.outer)
            keys.correlated.append(equals(keys.add(inner, self.builder.names), outer))
        if keys.correlated and keys.sets and len(keys.sets) > 1:
            raise Unsupported("grouping sets in a correlated subquery")
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

    def distinct(self, block: QueryBlock) -> QueryBlock:
        if self.node.args["distinct"].args.get("on"):
            raise Unsupported("DISTINCT ON")
        if block.correlated:
            return replace(block, distinct=True)  # EXISTS and IN ignore duplicates; a scalar subquery sees to it
        relation, columns = self.builder.project(block)
        return QueryBlock(Aggregate(relation, columns, ()), columns, block.names)


def _comma_separated(node: exp.Expression, select: exp.Select) -> list[tuple[exp.Expression, list[exp.Join]]]:
    """The FROM items between commas, which bind less than any JOIN, each with the joins that follow it."""
    parts: list[tuple[exp.Expression, list[exp.Join]]] = [(node, [])]
    for join in select.args.get("joins") or ():
        if {key for key, value in join.args.items() if value} == {"this"}:
            parts.append((join.this, []))
        else:
            parts[-1][1].append(join)
    return parts


def _join_kind(node: exp.Join) -> JoinKind:
    side, kind = (node.side or "").lower(), (node.kind or "").lower()
    if node.method and node.method.upper() != "NATURAL":
        raise Unsupported(f"a {node.method} join")
    name = side or kind or "inner"
    if name == "cross":
        return "inner"
    if name in ("inner", "left", "right", "full", "semi", "anti"):
        return name  # type: ignore[return-value]
    if name == "outer":
        raise Unsupported("OUTER JOIN without a side")
    raise Unsupported(f"a {name} join")


def _ast_conjuncts(node: exp.Expression) -> list[exp.Expression]:
    if isinstance(node, exp.Paren):
        return _ast_conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*_ast_conjuncts(node.this), *_ast_conjuncts(node.expression)]
    return [node]


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
