"""sqlglot AST -> Relation: one function for each clause of a query block, in the order SQL evaluates them.

``build`` is the entry.  A block is FROM, WHERE, GROUP BY, HAVING, windows, QUALIFY, SELECT, DISTINCT, ORDER BY
and LIMIT; :mod:`qoop.planner.sql.subquery` joins its subqueries in.  What cannot be taken apart becomes an
:class:`~qoop.planner.algebra.relation.Opaque` fragment of the smallest block that is closed (law 11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

from sqlglot import exp

from qoop.catalog.errors import BindError, PlanError, QueryError
from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    Literal,
    cast,
    columns_of,
    columns_of_all,
    conjuncts,
    equals,
    quote,
    transform,
)
from qoop.planner.algebra.fold_constants import simplify
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Filter,
    Join,
    JoinKind,
    Limit,
    Opaque,
    Project,
    Relation,
    Scan,
    SetKind,
    SetOp,
    Shared,
    Sort,
    SortKey,
    Values,
    Window,
)
from qoop.planner.algebra.types import common_type, value_of_no_match
from qoop.planner.identity.island import is_island
from qoop.planner.sql.bind import Bound, TypedName
from qoop.planner.sql.convert import Env, has_aggregate
from qoop.planner.sql.scope import Cte, Names, Scope, Source, Unsupported, count_uses
from qoop.planner.sql.subquery import SubqueryJoins

MOST_NESTED = 100  # every level takes frames of Python's stack, of which there are 1000; TPC-DS has up to 19

# Settings that change what DuckDB makes of an expression, which the planner asks of a DuckDB without them.
_CHANGING_EXPRESSIONS = frozenset(
    """error_on_division_by_zero ieee_floating_point_ops integer_division legacy_disable_null_type old_implicit_casting
    order_by_non_integer_literal regex_match_operator_semantics scalar_subquery_error_on_multiple_rows""".split()  # noqa: SIM905
)

Describe = Callable[[str], tuple[TypedName, ...]]


@dataclass
class Block:
    """A query block before its select list is projected.

    relation, exprs, names: the select list `exprs`, called `names`, over the rows of `relation`.
    correlated: predicates between the block's columns and outer ones that are still to be applied.
    single: the block has exactly one row (for each value of the correlated columns).
    grouped: it aggregates. of_nothing: what its columns are where no row is found, if that is not NULL.
    distinct: of its rows that are equal only one is meant, for each value of the correlated columns.
    """

    relation: Relation
    exprs: tuple[Expr, ...]
    names: tuple[str, ...]
    correlated: tuple[Expr, ...] = ()
    single: bool = False
    grouped: bool = False
    of_nothing: Mapping[Column, Literal] = field(default_factory=dict)
    distinct: bool = False


def build(bound: Bound, describe: Describe) -> Relation:
    """Return the relation of a bound query; its columns are the result's, in order and of DuckDB's types.

    describe: names and types of the result of a SQL text (the binder's), for opaque blocks.
    """
    if bound.ast is None:
        return whole(bound, "only DuckDB can parse the text as it is meant")
    changed = [name for name, _ in bound.settings if name in _CHANGING_EXPRESSIONS]
    if changed:
        return whole(bound, f"expressions mean something else under {changed[0]}")
    if _depends_on_order_settings(bound):
        return whole(bound, "ORDER BY under a changed default order")
    if bound.ast.find(exp.Collate) is not None or "default_collation" in dict(bound.settings):
        return whole(bound, "texts that are equal in a collation hash differently")
    if _nesting(bound.ast) > MOST_NESTED:
        return whole(bound, f"expressions nested deeper than {MOST_NESTED} levels")
    try:
        return Builder(bound, describe).root(bound.ast)
    except (Unsupported, PlanError, BindError, RecursionError) as reason:
        return whole(bound, str(reason))


def whole(bound: Bound, reason: str) -> Opaque:
    """The query as one opaque fragment."""
    return Builder(bound, lambda _: ()).opaque(bound.text, bound.columns, reason)


def _nesting(ast: exp.Expression) -> int:
    """How deep the tree is, counted without recursion; chains of AND and OR, which the rules flatten, count as one."""
    deepest, left = 0, [(ast, 0)]
    while left:
        node, depth = left.pop()
        deepest = max(deepest, depth)
        below = depth + (not isinstance(node, exp.And | exp.Or))
        left.extend((child, below) for child in node.iter_expressions())
    return deepest


def _depends_on_order_settings(bound: Bound) -> bool:
    changed = {name for name, _ in bound.settings} & {"default_null_order", "default_order", "null_order"}
    return bool(changed) and bound.ast is not None and bound.ast.find(exp.Ordered) is not None


class Builder:
    """Builds one statement. `names` are unique in it, `uses` counts how often each table name is read."""

    def __init__(self, bound: Bound, describe: Describe) -> None:
        self.bound = bound
        self.describe = describe
        self.names = Names()
        self.uses = count_uses(bound.ast) if bound.ast is not None else {}
        self.subqueries = SubqueryJoins(self)

    def root(self, ast: exp.Expression) -> Relation:
        relation, columns = self.project(self.query(ast, None, {}))
        if [c.type for c in columns] == [t for _, t in self.bound.columns] and relation.columns == columns:
            return relation
        if len(columns) != len(self.bound.columns):
            raise Unsupported("the select list has another width than DuckDB's")
        exprs = tuple(
            (column, column) if column.type == type_ else (self.names.fresh(column.name, type_), cast(column, type_))
            for column, (_, type_) in zip(columns, self.bound.columns, strict=True)
        )
        return Project(relation, exprs)  # rows keep the order that a Sort below gave them

    def opaque(self, sql: str, columns: Sequence[TypedName], reason: str) -> Opaque:
        tables = tuple((name, version) for name, (version, _) in sorted(self.bound.tables.items()))
        fresh = tuple(self.names.fresh(name, type_) for name, type_ in columns)
        return Opaque(sql, tables, fresh, reason)

    def query(self, node: exp.Expression, parent: Scope | None, ctes: dict[str, Cte]) -> Block:
        """Build a SELECT, set operation, VALUES or a parenthesised one of these."""
        ctes = self.with_(node, ctes)
        match node:
            case exp.Subquery():
                self._refuse(node, {"this", "alias", "with_"})
                return self.query(node.this, parent, ctes)
            case exp.Select():
                return _SelectBlock(self, node, Scope(parent), ctes).build()
            case exp.SetOperation():
                return self.set_operation(node, parent, ctes)
            case exp.Values():
                return self.values(node)
        raise Unsupported(f"{type(node).__name__} as a query")

    def project(self, block: Block) -> tuple[Relation, tuple[Column, ...]]:
        """The block's relation with exactly the select list as its columns."""
        if block.correlated:
            raise Unsupported("a correlated subquery here")
        columns = self.output_columns(block.exprs, block.names)
        if block.relation.columns == columns:
            return block.relation, columns
        return Project(block.relation, tuple(zip(columns, block.exprs, strict=True))), columns

    def output_columns(self, exprs: Sequence[Expr], names: Sequence[str]) -> tuple[Column, ...]:
        """Columns for a select list: a plain column stays itself the first time it occurs."""
        columns: list[Column] = []
        for expr, name in zip(exprs, names, strict=True):
            keeps = isinstance(expr, Column) and expr not in columns
            columns.append(expr if keeps and isinstance(expr, Column) else self.names.fresh(name, expr.type))
        return tuple(columns)

    # -- WITH ---------------------------------------------------------------------------------------------------

    def with_(self, node: exp.Expression, ctes: dict[str, Cte]) -> dict[str, Cte]:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise Unsupported("a recursive CTE")
        visible = dict(ctes)
        for item in clause.expressions:
            name = item.alias.lower()
            columns = tuple(column.name for column in item.args["alias"].columns)
            inlined = item.args.get("materialized") is False
            visible[name] = Cte(name, item.this, columns, dict(visible), self.uses.get(name, 0), inlined)
        return visible

    def cte(self, cte: Cte) -> Source:
        """One use of a CTE: shared where it is used more than once and worth computing once, or may vary."""
        if cte.shared is None:
            relation, columns, names = self.derived(cte.query, cte.visible)
            varies = is_island(relation)
            if cte.uses < 2 or (cte.inlined if varies else not _worth_sharing(cte.query)):
                return self._source(cte.name, cte.columns or names, columns, relation)
            if relation.columns != columns:
                relation = Project(relation, tuple((c, c) for c in columns))
            cte.shared = (Shared(self.names.fresh(f"cte_{cte.name}", "").name, relation), cte.columns or names)
        shared, names = cte.shared
        fresh = tuple(self.names.fresh(column.name, column.type) for column in shared.columns)
        reader = Project(shared, tuple(zip(fresh, shared.columns, strict=True)))
        return self._source(cte.name, names, fresh, reader)

    def _varies(self, cte: Cte) -> bool:
        """True if all of its readers must have the rows of one evaluation."""
        return not cte.inlined and is_island(self.derived(cte.query, cte.visible)[0])

    def _source(self, alias: str, names: Sequence[str], columns: Sequence[Column], relation: Relation) -> Source:
        if len(names) > len(columns):
            raise Unsupported(f"more names than columns in {alias}")
        every = [*names, *(column.name for column in columns[len(names) :])]
        return Source(alias, tuple(zip(every, columns, strict=True)), relation)

    def derived(
        self, node: exp.Expression, ctes: dict[str, Cte]
    ) -> tuple[Relation, tuple[Column, ...], tuple[str, ...]]:
        """A closed query in FROM or WITH; opaque where it cannot be taken apart."""
        try:
            block = self.query(node, None, ctes)
            relation, columns = self.project(block)
            return relation, columns, block.names
        except (Unsupported, PlanError, BindError) as reason:
            if any(cte.uses > 1 and self._varies(cte) for cte in _named(node, ctes)):
                raise Unsupported(f"{reason}, over a CTE whose rows are others each time") from reason
            sql = _with_definitions(node, ctes)
            try:
                typed = self.describe(sql)
            except QueryError:
                raise Unsupported(str(reason)) from reason  # not closed: the block around it is opaque
            opaque = self.opaque(sql, typed, str(reason))
            return opaque, opaque.columns, tuple(name for name, _ in typed)

    # -- VALUES, set operations --------------------------------------------------------------------------------------

    def values(self, node: exp.Values) -> Block:
        env = Env(Scope(None), self.names, self.subqueries, self.bound.moment)
        rows = [tuple(env.convert(item) for item in row.expressions) for row in node.expressions]
        if not rows or env.attachments:
            raise Unsupported("VALUES with a subquery")
        types = [common_type([row[i].type for row in rows]) for i in range(len(rows[0]))]
        names = tuple(f"col{i}" for i in range(len(types)))
        columns = tuple(self.names.fresh(name, type_) for name, type_ in zip(names, types, strict=True))
        return Block(Values(columns, tuple(rows)), columns, names)

    def set_operation(self, node: exp.SetOperation, parent: Scope | None, ctes: dict[str, Cte]) -> Block:
        self._refuse(node, {"this", "expression", "distinct", "with_", "order", "limit", "offset"})
        kind: SetKind = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}[type(node)]  # type: ignore[assignment]
        keep_duplicates = not node.args.get("distinct")
        blocks = [self.query(part, parent, ctes) for part in _operands(node)]
        branches = [self.project(block) for block in blocks]
        width = len(branches[0][1])
        if any(len(columns) != width for _, columns in branches):
            raise Unsupported("set operation over different widths")
        types = [common_type([columns[i].type for _, columns in branches]) for i in range(width)]
        aligned = tuple(self._aligned(relation, columns, types) for relation, columns in branches)
        names = blocks[0].names
        columns = tuple(self.names.fresh(name, type_) for name, type_ in zip(names, types, strict=True))
        union = SetOp(kind, keep_duplicates, aligned, columns)
        scope = Scope(None, [Source("", tuple(zip(names, columns, strict=True)), union)])
        places = {name.lower(): i for i, name in reversed(tuple(enumerate(names)))}
        order = _order_exprs(node, places, Env(scope, self.names, self.subqueries, self.bound.moment))
        return self.order_and_limit(node, Block(union, columns, names), columns, order)

    def _aligned(self, relation: Relation, columns: tuple[Column, ...], types: Sequence[str]) -> Relation:
        """The branch with its columns cast to the common types, and exactly these columns."""
        if relation.columns == columns and all(c.type == t for c, t in zip(columns, types, strict=True)):
            return relation
        pairs = tuple(
            (column if column.type == type_ else self.names.fresh(column.name, type_), cast(column, type_))
            for column, type_ in zip(columns, types, strict=True)
        )
        return Project(relation, pairs)

    # -- ORDER BY, LIMIT ------------------------------------------------------------------------------------

    def order_and_limit(
        self, node: exp.Expression, block: Block, originals: Sequence[Expr], order: Sequence[Expr | int]
    ) -> Block:
        """Apply ORDER BY, LIMIT and OFFSET to a block whose select list is final.

        originals: the select list as it was written (before DISTINCT made columns of it).
        order: the ORDER BY items, a place in the select list where an item names an output column.
        """
        limit = self._limit(node)
        if not order and limit is None:
            return block
        if block.correlated:
            if limit is not None:
                raise Unsupported("LIMIT in a correlated subquery")
            return block
        columns = self.output_columns(block.exprs, block.names)
        hidden: list[tuple[Column, Expr]] = []
        keys = self._sort_keys(node, columns, originals, order, hidden)
        if hidden and node.args.get("distinct"):
            raise Unsupported("ORDER BY of an expression outside SELECT DISTINCT")
        relation: Relation = Project(block.relation, (*zip(columns, block.exprs, strict=True), *hidden))
        if keys:
            relation = Sort(relation, keys)
        if limit is not None:
            relation = Limit(relation, *limit)
        if hidden:
            relation = Project(relation, tuple((column, column) for column in columns))
        return Block(relation, columns, block.names, single=block.single)

    def _sort_keys(
        self,
        node: exp.Expression,
        columns: tuple[Column, ...],
        originals: Sequence[Expr],
        order: Sequence[Expr | int],
        hidden: list[tuple[Column, Expr]],
    ) -> tuple[SortKey, ...]:
        keys = []
        for item, expr in zip(node.args["order"].expressions if order else (), order, strict=True):
            if item.args.get("with_fill"):
                raise Unsupported("WITH FILL")
            if isinstance(expr, int):
                found = columns[expr] if 0 <= expr < len(columns) else None
            else:
                found = next((c for c, own in zip(columns, originals, strict=True) if own == expr), None)
                if found is None:
                    found = self.names.fresh("sort_key", expr.type)
                    hidden.append((found, expr))
            if found is None:
                raise Unsupported(f"ORDER BY {item.sql(dialect='duckdb')}")
            keys.append(SortKey(found, bool(item.args.get("desc")), bool(item.args.get("nulls_first"))))
        return tuple(keys)

    def _limit(self, node: exp.Expression) -> tuple[int | None, int] | None:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None and offset is None:
            return None
        for clause in (limit, offset):
            if clause is not None:
                self._refuse(clause, {"this", "expression"})
        if isinstance(limit, exp.Fetch):
            raise Unsupported("FETCH")
        count = self._integer(limit.expression) if limit is not None else None
        return count, self._integer(offset.expression) if offset is not None else 0

    def _integer(self, node: exp.Expression) -> int:
        expr = Env(Scope(None), self.names, self.subqueries, self.bound.moment).convert(node)
        if isinstance(expr, Literal) and isinstance(expr.value, int) and expr.value >= 0:
            return expr.value
        raise Unsupported(f"LIMIT {node.sql(dialect='duckdb')}")

    def _refuse(self, node: exp.Expression, known: set[str]) -> None:
        for key, value in node.args.items():
            if value and key not in known:
                raise Unsupported(f"{key} in {type(node).__name__}")


class _SelectBlock:
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

    def build(self) -> Block:
        self.builder._refuse(self.node, set(self.KNOWN))
        self.from_()
        selects = self.select_items()
        aliases = {name.lower(): item for item, name in selects if name and not isinstance(item, Column)}
        self.where(aliases)
        return self.select(selects, self.env(aggregates={}, windows=[], aliases=aliases))

    def env(self, **more: Any) -> Env:
        """A fresh environment in which this block's expressions can be converted."""
        return Env(
            self.scope, self.builder.names, self.builder.subqueries, self.builder.bound.moment, ctes=self.ctes, **more
        )

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
                    self.builder._refuse(node, {"this", "alias", "with_", "joins"})
                inner = node if isinstance(node, exp.Values) else node.this
                ctes = self.builder.with_(node, self.ctes)
                relation, columns, names = self.builder.derived(inner, ctes)
                built = self.builder._source(node.alias, names, columns, relation)
            case _:
                raise Unsupported(f"{type(node).__name__} in FROM")
        if len(renamed) > len(built.columns):
            raise Unsupported(f"more names than columns in {node.alias}")
        names = (*renamed, *(name for name, _ in built.columns[len(renamed) :]))
        pairs = tuple((name, expr) for name, (_, expr) in zip(names, built.columns, strict=True))
        return Source(node.alias or built.alias, pairs, built.relation)

    def table(self, node: exp.Table) -> Source:
        self.builder._refuse(node, {"this", "alias", "joins"})
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
        self.builder._refuse(node, {"this", "on", "using", "side", "kind"})
        left, before = self.relation, list(self.scope.sources)
        right = self.item(node.this)
        kind = _join_kind(node)
        on = self.using(node, kind, before[first:]) if node.args.get("using") else self.conditions(node.args.get("on"))
        if kind == "right":
            self.relation = Join(right, left, "left", on)
        elif kind in ("semi", "anti"):
            self.scope.sources = before
            self.relation = Join(left, right, kind, on)
        else:
            self.relation = Join(left, right, kind, on)

    def conditions(self, node: exp.Expression | None) -> tuple[Expr, ...]:
        if node is None:
            return ()
        env = self.env()
        exprs = conjuncts(simplify(env.convert(node)))
        if env.attachments or columns_of_all(exprs) & self.scope.outer:
            raise Unsupported("a subquery or outer column in ON")
        return tuple(expr for expr in exprs if not (isinstance(expr, Literal) and expr.value is True))

    def using(self, node: exp.Join, kind: str, mine: Sequence[Source]) -> tuple[Expr, ...]:
        """The conditions between `mine` and the sources after them."""
        theirs_from = self.scope.sources.index(mine[-1]) + 1
        if kind in ("full", "right"):
            raise Unsupported(f"USING in a {kind} join")
        on = []
        for identifier in node.args["using"]:
            name = identifier.name.lower()
            theirs = next((found for source in self.scope.sources[theirs_from:] if (found := source.find(name))), None)
            ours = next((found for source in mine if (found := source.find(name))), None)
            if ours is None or theirs is None:
                raise Unsupported(f"USING ({name})")
            self.scope.merged[name] = ours
            on.append(equals(ours, theirs))
        return tuple(on)

    # -- WHERE ---------------------------------------------------------------------------------------------------------

    def where(self, aliases: dict[str, exp.Expression]) -> None:
        clause = self.node.args.get("where")
        if clause is None:
            return
        env = self.env(aliases=aliases)
        predicates: list[Expr] = []
        for conjunct in _ast_conjuncts(clause.this):
            if not self.builder.subqueries.conjunct(conjunct, env):
                predicates.extend(conjuncts(simplify(env.convert(conjunct))))
        local = [p for p in predicates if not columns_of(p) & self.scope.outer]
        self.correlated = [p for p in predicates if columns_of(p) & self.scope.outer]
        self.relation = _filtered(_attached(self.relation, env), local)

    # -- GROUP BY, SELECT, HAVING ------------------------------------------------------------------------------------

    def select_items(self) -> list[tuple[exp.Expression | Column, str]]:
        """The select list with stars spelt out: (node, or column of a star; name)."""
        items: list[tuple[exp.Expression | Column, str]] = []
        for node in self.node.expressions:
            if _is_star(node):
                items.extend(self.star(node))
            elif isinstance(node, exp.Alias):
                items.append((node.this, node.alias))
            else:
                items.append((node, node.output_name or node.sql(dialect="duckdb")))
        return items

    def star(self, node: exp.Expression) -> list[tuple[exp.Expression | Column, str]]:
        star = node if isinstance(node, exp.Star) else node.this
        if star.args.get("replace") or star.args.get("rename"):
            raise Unsupported("REPLACE or RENAME in a star")
        excluded = {item.name.lower() for item in star.args.get("except_") or star.args.get("except") or ()}
        table = node.table.lower() if isinstance(node, exp.Column) else None
        if table is None and self.scope.merged:
            raise Unsupported("a star over USING")
        found = [
            (column, name)
            for source in self.scope.sources
            if table is None or source.alias.lower() == table
            for name, column in source.columns
            if name.lower() not in excluded
        ]
        if not found or not all(isinstance(column, Column) for column, _ in found):
            raise Unsupported("a star over nothing")
        return found  # type: ignore[return-value]

    def select(self, selects: list[tuple[exp.Expression | Column, str]], env: Env) -> Block:
        """GROUP BY to ORDER BY: convert all expressions first, then stack the operators they need."""
        node = self.node
        qualify, having = node.args.get("qualify"), node.args.get("having")
        aggregated = self.is_aggregated([item for item, _ in selects])
        if not aggregated:
            env.aggregates = None
        keys = self.group_keys(selects, env) if aggregated else _Keys()
        names = tuple(name for _, name in selects)
        exprs = [item if isinstance(item, Column) else env.convert(item) for item, _ in selects]
        having_exprs = conjuncts(env.convert(having.this)) if having is not None else ()
        qualify_exprs = conjuncts(env.convert(qualify.this)) if qualify is not None else ()
        order = _order_exprs(node, self.places(names), env)
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
        block = Block(
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

    def places(self, names: Sequence[str]) -> dict[str, int]:
        """What ORDER BY means by a name: of the aliases written out the last, else the first column called so."""
        places = {name.lower(): i for i, name in reversed(tuple(enumerate(names)))}
        place = 0
        for node in self.node.expressions:
            if _is_star(node):
                place += len(self.star(node))
            else:
                if isinstance(node, exp.Alias):
                    places[node.alias.lower()] = place
                place += 1
        return places

    def is_aggregated(self, items: Iterable[exp.Expression | Column]) -> bool:
        node = self.node
        if node.args.get("group") or node.args.get("having"):
            return True
        order = node.args.get("order")
        exprs = [item for item in items if isinstance(item, exp.Expression)]
        return any(map(has_aggregate, exprs + (order.expressions if order is not None else [])))

    def group_keys(self, selects: list[tuple[exp.Expression | Column, str]], env: Env) -> _Keys:
        group = self.node.args.get("group")
        keys = _Keys()
        if group is not None:
            if group.args.get("all"):
                raise Unsupported("GROUP BY ALL")
            plain = replace(env, aggregates=None, windows=None)
            keys.sets = _grouping_sets(group, lambda item: self.key(item, selects, plain, keys))
        for predicate in self.correlated:
            inner, outer = self.builder.subqueries.sides(predicate, self.scope.outer)
            keys.correlated.append(equals(keys.add(inner, self.builder.names), outer))
        if keys.correlated and keys.sets and len(keys.sets) > 1:
            raise Unsupported("grouping sets in a correlated subquery")
        return keys

    def key(
        self, node: exp.Expression, selects: list[tuple[exp.Expression | Column, str]], env: Env, keys: _Keys
    ) -> Column:
        position = _position(node)
        if position is not None and 1 <= position <= len(selects):
            item = selects[position - 1][0]
            return keys.add(item if isinstance(item, Column) else env.convert(item), self.builder.names)
        return keys.add(env.convert(node), self.builder.names)

    def aggregate(self, keys: _Keys, env: Env) -> None:
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

    def distinct(self, block: Block) -> Block:
        if self.node.args["distinct"].args.get("on"):
            raise Unsupported("DISTINCT ON")
        if block.correlated:
            return replace(block, distinct=True)  # EXISTS and IN ignore duplicates; a scalar subquery sees to it
        relation, columns = self.builder.project(block)
        return Block(Aggregate(relation, columns, ()), columns, block.names)


@dataclass
class _Keys:
    """GROUP BY while it is built: key expression -> its column, and the grouping sets.

    correlated: what remains of correlated predicates, between key columns and outer ones.
    """

    columns: dict[Expr, Column] = field(default_factory=dict)
    sets: list[tuple[Column, ...]] | None = None
    correlated: list[Expr] = field(default_factory=list)

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


def _grouping_sets(group: exp.Group, key: Callable[[exp.Expression], Column]) -> list[tuple[Column, ...]]:
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


def _comma_separated(node: exp.Expression, select: exp.Select) -> list[tuple[exp.Expression, list[exp.Join]]]:
    """The FROM items between commas, which bind less than any JOIN, each with the joins that follow it."""
    parts: list[tuple[exp.Expression, list[exp.Join]]] = [(node, [])]
    for join in select.args.get("joins") or ():
        if {key for key, value in join.args.items() if value} == {"this"}:
            parts.append((join.this, []))
        else:
            parts[-1][1].append(join)
    return parts


def _order_exprs(node: exp.Expression, places: Mapping[str, int], env: Env) -> list[Expr | int]:
    """The ORDER BY items over the block's own columns; its place in the select list where an item names an output
    column, by number or by name (`places`, lower-case)."""
    order = node.args.get("order")
    if order is None:
        return []
    found: list[Expr | int] = []
    for item in order.expressions:
        position = _position(item.this)
        plain = isinstance(item.this, exp.Column) and not item.this.table
        if position is not None:
            found.append(position - 1)
        elif plain and item.this.name.lower() in places:
            found.append(places[item.this.name.lower()])
        elif plain and item.this.name.upper() == "ALL":
            raise Unsupported("ORDER BY ALL")
        else:
            found.append(env.convert(item.this))
    return found


def _is_star(node: exp.Expression) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _operands(node: exp.SetOperation) -> list[exp.Expression]:
    """Operands of a set operation; a left-deep chain of the same associative one is flattened."""
    left = node.this
    while isinstance(left, exp.Subquery) and not left.alias and isinstance(left.this, exp.SetOperation):
        left = left.this
    same = (
        type(left) is type(node)
        and not isinstance(node, exp.Except)
        and bool(left.args.get("distinct")) == bool(node.args.get("distinct"))
        and not any(left.args.get(key) for key in ("order", "limit", "offset", "with_", "by_name", "side"))
    )
    return [*(_operands(left) if same else [node.this]), node.expression]


def _join_kind(node: exp.Join) -> JoinKind:
    side, kind = (node.side or "").lower(), (node.kind or "").lower()
    if node.method:
        raise Unsupported(f"a {node.method} join")
    name = side or kind or "inner"
    if name == "cross":
        return "inner"
    if name in ("inner", "left", "right", "full", "semi", "anti"):
        return name  # type: ignore[return-value]
    if name == "outer":
        raise Unsupported("OUTER JOIN without a side")
    raise Unsupported(f"a {name} join")


def _position(node: exp.Expression) -> int | None:
    return int(node.this) if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit() else None


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


def _worth_sharing(query: exp.Expression) -> bool:
    """A CTE that only filters one table is cheaper read twice than kept."""
    if not isinstance(query, exp.Select):
        return True
    heavy = ("joins", "group", "having", "distinct", "limit", "qualify")
    clause = query.args.get("from_")
    simple_from = clause is None or isinstance(clause.this, exp.Table)
    return (
        any(query.args.get(key) for key in heavy)
        or not simple_from
        or any(has_aggregate(item) or item.find(exp.Window) for item in query.expressions)
        or query.find(exp.Subquery, exp.Exists) is not None
    )


def _named(node: exp.Expression, ctes: Mapping[str, Cte]) -> list[Cte]:
    """The CTEs that a block reads, directly or through others."""
    names = {table.name.lower() for table in node.find_all(exp.Table)}
    direct = [ctes[name] for name in sorted(names & ctes.keys())]
    return [*direct, *(inner for cte in direct for inner in _named(cte.query, cte.visible))]


def _with_definitions(node: exp.Expression, ctes: dict[str, Cte]) -> str:
    """The block's text with all CTEs it may use in front."""
    text = node.sql(dialect="duckdb")
    if not ctes:
        return text
    definitions = []
    for cte in ctes.values():
        columns = f"({', '.join(map(quote, cte.columns))})" if cte.columns else ""
        definitions.append(f"{quote(cte.name)}{columns} AS ({cte.query.sql(dialect='duckdb')})")
    return f"WITH {', '.join(definitions)} SELECT * FROM ({text})"
