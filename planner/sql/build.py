"""sqlglot AST -> Relation.

``build`` is the entry. :class:`Builder` builds one statement: its CTEs, set operations, VALUES, ORDER BY and LIMIT.
:mod:`qoop.planner.sql.select_block` builds each SELECT, clause by clause, and :mod:`qoop.planner.sql.subquery` joins
its subqueries in. A part that cannot be decomposed becomes an :class:`~qoop.planner.algebra.relation.Opaque` fragment
of the smallest block that is closed (law 11).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from qoop.catalog.errors import BindError, PlanError, QueryError
from qoop.planner.algebra.expr import Column, Expr, Literal, cast, columns_of_all, null_of
from qoop.planner.algebra.relation import (
    Limit,
    Opaque,
    Project,
    Relation,
    SetKind,
    SetOp,
    Shared,
    Sort,
    SortKey,
    Values,
)
from qoop.planner.algebra.types import common_type, type_of
from qoop.planner.identity.determinism import is_non_deterministic
from qoop.planner.sql.bind import Bound, TypedName
from qoop.planner.sql.convert import Env
from qoop.planner.sql.latest import is_ordered, latest_of
from qoop.planner.sql.parts import check_parts, has_aggregate
from qoop.planner.sql.query_block import QueryBlock, order_exprs, order_items
from qoop.planner.sql.scope import Cte, FromItem, Names, Scope, Unsupported, count_uses, named_item, parts_of, refuse
from qoop.planner.sql.select_block import SelectBlock
from qoop.planner.sql.select_list import has_own_names
from qoop.planner.sql.sources import MOST_LISTED, is_long, tables_mentioned
from qoop.planner.sql.subquery import SubqueryJoins, refuse_endless
from qoop.planner.sql.unions import has_unions
from qoop.planner.sql.unique_cte_names import unique_cte_names

MOST_NESTED = 100  # every level takes frames of Python's stack, of which there are 1000; TPC-DS has up to 19

# Settings that change the value of an expression, which the planner computes in a DuckDB without them.
_CHANGING_EXPRESSIONS = frozenset(
    """error_on_division_by_zero ieee_floating_point_ops integer_division legacy_disable_null_type old_implicit_casting
    order_by_non_integer_literal regex_match_operator_semantics scalar_subquery_error_on_multiple_rows""".split()  # noqa: SIM905
)

Describe = Callable[[str], tuple[TypedName, ...]]


def build(bound: Bound, describe: Describe, as_duckdb_reads: bool = False, falls_back: bool = True) -> Relation:
    """Return the relation of a bound query; its columns are the result's, in order and of DuckDB's types.

    describe: names and types of the result of a SQL text (the binder's), for opaque blocks. as_duckdb_reads: the
    relation is for the cost of DuckDB's own plan, so subqueries become the joins that DuckDB makes of them. falls_back:
    where an expression raises an error, DuckDB's plan takes the place of stages.
    """
    if bound.ast is None and is_long(bound.text):
        return whole(bound, f"the text lists more than {MOST_LISTED} values, which DuckDB takes in faster")
    if bound.ast is None:
        return whole(bound, "only DuckDB can parse the text as it is meant")
    changed = [name for name, _ in bound.settings if name in _CHANGING_EXPRESSIONS]
    if changed:
        return whole(bound, f"expressions mean something else under {changed[0]}")
    if _depends_on_order_settings(bound):
        return whole(bound, "ORDER BY under a changed default order")
    if bound.ast.find(exp.Collate) is not None or "default_collation" in dict(bound.settings):
        return whole(bound, "texts that are equal in a collation hash differently")
    if has_unions(bound):
        return whole(bound, "a checkpoint loses which member of a UNION a NULL is of")
    if _nesting(bound.ast) > MOST_NESTED:
        return whole(bound, f"expressions nested deeper than {MOST_NESTED} levels")
    try:
        return Builder(bound, describe, as_duckdb_reads, falls_back).root(bound.ast)
    except (Unsupported, PlanError, BindError, RecursionError) as reason:
        return whole(bound, str(reason))


def whole(bound: Bound, reason: str) -> Opaque:
    """The query as one opaque fragment."""
    return Builder(bound, lambda _: ()).opaque(bound.text, bound.columns, reason)


def _nesting(ast: exp.Expression) -> int:
    """The depth of the tree, counted without recursion; chains of AND and OR, which the rules flatten, count as one."""
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

    def __init__(
        self, bound: Bound, describe: Describe, as_duckdb_reads: bool = False, falls_back: bool = True
    ) -> None:
        self.bound = bound
        self.describe = describe
        self.as_duckdb_reads = as_duckdb_reads
        self.falls_back = falls_back and not bound.functions
        self.names = Names()
        self.uses: dict[str, int] = {}
        self.subqueries = SubqueryJoins(self)

    def root(self, ast: exp.Expression) -> Relation:
        ast = unique_cte_names(ast)
        self.uses = count_uses(ast)
        block = self.query(ast, None, {})
        if has_own_names(ast) and [*block.names] != [name for name, _ in self.bound.columns]:
            raise Unsupported(f"the select list is called {', '.join(block.names)} here, but not in DuckDB")
        relation, columns = self.project(block)
        if [c.type for c in columns] == [t for _, t in self.bound.columns] and relation.columns == columns:
            return relation
        if len(columns) != len(self.bound.columns):
            raise Unsupported("the select list has a different width than in DuckDB")
        exprs = tuple(
            (column, column) if column.type == type_ else (self.names.fresh(column.name, type_), cast(column, type_))
            for column, (_, type_) in zip(columns, self.bound.columns, strict=True)
        )
        return Project(relation, exprs)  # rows keep the order that a Sort below gave them

    def opaque(self, sql: str, columns: Sequence[TypedName], reason: str) -> Opaque:
        read = tables_mentioned(sql, self.bound.tables)
        tables = tuple((name, version) for name, (version, _) in sorted(self.bound.tables.items()) if name in read)
        fresh = tuple(self.names.fresh(name, type_) for name, type_ in columns)
        return Opaque(sql, tables, fresh, reason)

    def query(self, node: exp.Expression, parent: Scope | None, ctes: dict[str, Cte]) -> QueryBlock:
        """Build a SELECT, set operation, VALUES or a parenthesised one of these."""
        check_parts(node)
        ctes = self.with_(node, ctes)
        match node:
            case exp.Subquery():
                refuse(node, {"this", "alias", "with_"})
                return self.query(node.this, parent, ctes)
            case exp.Select():
                return SelectBlock(self, node, Scope(parent), ctes).build()
            case exp.SetOperation():
                return self.set_operation(node, parent, ctes)
            case exp.Values():
                return self.values(node)
        raise Unsupported(f"{type(node).__name__} as a query")

    def project(self, block: QueryBlock) -> tuple[Relation, tuple[Column, ...]]:
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
        visible = dict(ctes)
        for item in clause.expressions:
            name = item.alias.lower()
            columns = tuple(column.name for column in item.args["alias"].columns)
            inlined = item.args.get("materialized") is False
            reads_itself = _reads(item.this, name) or bool(item.args.get("key_expressions"))
            recursive = bool(clause.args.get("recursive")) and reads_itself
            visible[name] = Cte(name, item, columns, dict(visible), self.uses.get(name, 0), inlined, recursive)
        return visible

    def cte(self, cte: Cte) -> FromItem:
        """One use of a CTE: shared where it is used more than once and worth computing once, or may vary."""
        if cte.shared is None:
            if cte.recursive:
                relation, columns, names = self.recursive(cte)
            else:
                relation, columns, names = self.derived(cte.query, cte.visible)
            varies = is_non_deterministic(relation)
            if cte.uses < 2 or (cte.inlined if varies else not _worth_sharing(cte.query)):
                return named_item(cte.name, cte.columns or names, columns, relation)
            if relation.columns != columns:
                relation = Project(relation, tuple((c, c) for c in columns))
            cte.shared = (Shared(self.names.fresh(f"cte_{cte.name}", "").name, relation), cte.columns or names)
        shared, names = cte.shared
        fresh = tuple(self.names.fresh(column.name, column.type) for column in shared.columns)
        reader = Project(shared, tuple(zip(fresh, shared.columns, strict=True)))
        return named_item(cte.name, names, fresh, reader)

    def recursive(self, cte: Cte) -> tuple[Relation, tuple[Column, ...], tuple[str, ...]]:
        """A CTE that reads itself: DuckDB runs it, and what reads it is planned."""
        if any(other.uses > 1 and self._varies(other) for other in _named(cte.query, cte.visible)):
            raise Unsupported("a recursive CTE over one with non-deterministic rows")
        sql = with_definitions(exp.select("*").from_(exp.to_identifier(cte.name)), {**cte.visible, cte.name: cte})
        try:
            opaque = self.opaque(sql, self.describe(sql), "a recursive CTE")
        except QueryError as error:
            raise Unsupported("a recursive CTE") from error
        return opaque, opaque.columns, tuple(name for name, _ in self.describe(sql))

    def _varies(self, cte: Cte) -> bool:
        """True if all of its readers must have the rows of one evaluation."""
        if cte.recursive:
            raise Unsupported("a recursive CTE that is read several times, also by an opaque part")
        return not cte.inlined and is_non_deterministic(self.derived(cte.query, cte.visible)[0])

    def derived(
        self, node: exp.Expression, ctes: dict[str, Cte]
    ) -> tuple[Relation, tuple[Column, ...], tuple[str, ...]]:
        """A closed query in FROM or WITH; opaque where it cannot be taken apart."""
        try:
            block = self.query(node, None, ctes)
            relation, columns = self.project(block)
            return relation, columns, block.names if has_own_names(node) else self._names(node, ctes)
        except (Unsupported, PlanError, BindError) as reason:
            opaque, names = self.closed(node, ctes, reason)
            return opaque, opaque.columns, names

    def closed(
        self, node: exp.Expression, ctes: dict[str, Cte], reason: Exception | str
    ) -> tuple[Opaque, tuple[str, ...]]:
        """A query as an opaque fragment, and the names of its outputs. Raises Unsupported if it is not closed."""
        if any(cte.uses > 1 and self._varies(cte) for cte in _named(node, ctes)):
            raise Unsupported(f"{reason}, over a CTE with non-deterministic rows")
        sql = with_definitions(node, ctes)
        try:
            typed = self.describe(sql)
        except QueryError:
            raise Unsupported(str(reason)) from None  # not closed: the block around it is opaque
        return self.opaque(sql, typed, str(reason)), tuple(name for name, _ in typed)

    def is_closed(self, node: exp.Expression, ctes: dict[str, Cte]) -> bool:
        """True if a query reads nothing of what is around it."""
        try:
            self.describe(with_definitions(node, ctes))
        except QueryError:
            return False
        return True

    def _names(self, node: exp.Expression, ctes: dict[str, Cte]) -> tuple[str, ...]:
        """The names that DuckDB gives to the outputs of a closed query."""
        try:
            return tuple(name for name, _ in self.describe(with_definitions(node, ctes)))
        except QueryError as reason:
            raise Unsupported(f"the names of {node.sql(dialect='duckdb')[:60]}") from reason

    # -- VALUES, set operations --------------------------------------------------------------------------------------

    def values(self, node: exp.Values) -> QueryBlock:
        env = Env(Scope(None), self.names, self.subqueries, self.bound.timestamp, functions=self.bound.functions)
        rows = [tuple(env.convert(item) for item in row.expressions) for row in node.expressions]
        if not rows or env.attachments:
            raise Unsupported("VALUES with a subquery")
        types = [_listed_type([row[i] for row in rows]) for i in range(len(rows[0]))]
        names = tuple(f"col{i}" for i in range(len(types)))
        columns = tuple(self.names.fresh(name, type_) for name, type_ in zip(names, types, strict=True))
        return QueryBlock(Values(columns, tuple(rows)), columns, names)

    def set_operation(self, node: exp.SetOperation, parent: Scope | None, ctes: dict[str, Cte]) -> QueryBlock:
        kind: SetKind = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}[type(node)]  # type: ignore[assignment]
        keep_duplicates = not node.args.get("distinct")
        blocks = [self.query(part, parent, ctes) for part in _operands(node)]
        branches = [self.project(block) for block in blocks]
        names = blocks[0].names
        if node.args.get("by_name"):
            names, branches = self._by_name([block.names for block in blocks], branches)
        width = len(branches[0][1])
        if any(len(columns) != width for _, columns in branches):
            raise Unsupported("set operation over different widths")
        types = [common_type([columns[i].type for _, columns in branches]) for i in range(width)]
        aligned = tuple(self._aligned(relation, columns, types) for relation, columns in branches)
        columns = tuple(self.names.fresh(name, type_) for name, type_ in zip(names, types, strict=True))
        union = SetOp(kind, keep_duplicates, aligned, columns)
        scope = Scope(None, [FromItem("", tuple(zip(names, columns, strict=True)), union)])
        places = {name.lower(): i for i, name in reversed(tuple(enumerate(names)))}
        env = Env(scope, self.names, self.subqueries, self.bound.timestamp, functions=self.bound.functions)
        order = order_exprs(node, len(names), places, env)
        return self.order_and_limit(node, QueryBlock(union, columns, names), columns, order)

    def _by_name(
        self, called: Sequence[Sequence[str]], branches: Sequence[tuple[Relation, tuple[Column, ...]]]
    ) -> tuple[tuple[str, ...], list[tuple[Relation, tuple[Column, ...]]]]:
        """UNION BY NAME: all names in the order in which they come, and branches that have each, NULL where they had
        none."""
        names = {name.lower(): name for names in reversed(called) for name in names}
        order = list(dict.fromkeys(name.lower() for names in called for name in names))
        found = [
            {name.lower(): column for name, column in zip(names, columns, strict=True)}
            for names, (_, columns) in zip(called, branches, strict=True)
        ]
        types = {name: common_type([one[name].type for one in found if name in one]) for name in order}
        return tuple(names[name] for name in order), [
            self._with_all(relation, columns, types) for (relation, _), columns in zip(branches, found, strict=True)
        ]

    def _with_all(
        self, relation: Relation, columns: Mapping[str, Column], types: Mapping[str, str]
    ) -> tuple[Relation, tuple[Column, ...]]:
        """The branch with a column of each name, in their order."""
        pairs = tuple(
            (columns[name], columns[name]) if name in columns else (self.names.fresh(name, type_), null_of(type_))
            for name, type_ in types.items()
        )
        return Project(relation, pairs), tuple(column for column, _ in pairs)

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
        self, node: exp.Expression, block: QueryBlock, originals: Sequence[Expr], order: Sequence[Expr | int]
    ) -> QueryBlock:
        """Apply ORDER BY, LIMIT and OFFSET to a block whose select list is final.

        originals: the select list as it was written (before DISTINCT made columns of it).
        order: the ORDER BY items, a place in the select list where an item names an output column.
        """
        limit = self._limit(node)
        if not order and limit is None:
            return block
        if block.correlated:
            return block if limit is None else self._latest(node, block, originals, order, limit)
        columns = self.output_columns(block.exprs, block.names)
        hidden: list[tuple[Column, Expr]] = []
        keys = self._sort_keys(node, columns, originals, order, hidden)
        distinct = node.args.get("distinct")
        if hidden and isinstance(distinct, exp.Distinct) and not distinct.args.get("on"):  # of a set operation, a bool
            raise Unsupported("ORDER BY of an expression outside SELECT DISTINCT")
        relation: Relation = Project(block.relation, (*zip(columns, block.exprs, strict=True), *hidden))
        if keys:
            relation = Sort(relation, keys)
        if limit is not None and limit[0] is not None:
            refuse_endless(relation, "a LIMIT")
        if limit is not None:
            relation = Limit(relation, *limit)
        if hidden:
            relation = Project(relation, tuple((column, column) for column in columns))
        return QueryBlock(relation, columns, block.names, single=block.single)

    def _latest(
        self,
        node: exp.Expression,
        block: QueryBlock,
        originals: Sequence[Expr],
        order: Sequence[Expr | int],
        limit: tuple[int | None, int],
    ) -> QueryBlock:
        """A correlated block of which only the first row is meant, by an order that begins with its bound."""
        if limit != (1, 0) or block.grouped or block.distinct or not self.falls_back:
            raise Unsupported("LIMIT in a correlated subquery")
        items = order_items(node, len(block.exprs))
        places = [item for item in order if isinstance(item, int)]
        if not all(0 <= place < len(originals) for place in places):
            raise Unsupported("a place in ORDER BY that the select list does not have")
        by = [originals[item] if isinstance(item, int) else item for item in order]
        read = frozenset(block.relation.columns)
        if columns_of_all((*block.exprs, *by)) - read or not all(map(is_ordered, (e.type for e in block.exprs))):
            raise Unsupported("outer columns, or values without an order, in a correlated subquery with LIMIT")
        keys = [
            SortKey(expr, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
            for item, expr in zip(items, by, strict=True)
        ]
        return replace(block, latest=latest_of(block.relation, block.correlated, keys))

    def _sort_keys(
        self,
        node: exp.Expression,
        columns: tuple[Column, ...],
        originals: Sequence[Expr],
        order: Sequence[Expr | int],
        hidden: list[tuple[Column, Expr]],
    ) -> tuple[SortKey, ...]:
        keys = []
        for item, expr in zip(order_items(node, len(columns)), order, strict=True):
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
        if isinstance(limit, exp.Fetch):
            raise Unsupported("FETCH")
        count = self._integer(limit.expression) if limit is not None else None
        return count, self._integer(offset.expression) if offset is not None else 0

    def _integer(self, node: exp.Expression) -> int:
        expr = Env(
            Scope(None), self.names, self.subqueries, self.bound.timestamp, functions=self.bound.functions
        ).convert(node)
        if isinstance(expr, Literal) and isinstance(expr.value, int) and expr.value >= 0:
            return expr.value
        raise Unsupported(f"LIMIT {node.sql(dialect='duckdb')}")


def _listed_type(values: Sequence[Expr]) -> str:
    """The type of a column of VALUES. Literals take on the types of others, so DuckDB sees them as they are."""
    types = {value.type for value in values}
    if len(types) == 1:
        return types.pop()
    rows = ", ".join(f"({value})" for value in values)
    return type_of("{0}", (Literal(f"(SELECT v FROM (VALUES {rows}) AS t(v))", ""),))


def _operands(node: exp.SetOperation) -> list[exp.Expression]:
    """Operands of a set operation; a left-deep chain of the same associative one is flattened."""
    left = node.this
    while isinstance(left, exp.Subquery) and {*parts_of(left)} == {"this"} and isinstance(left.this, exp.SetOperation):
        left = left.this
    same = (
        type(left) is type(node)
        and not node.args.get("by_name")
        and not isinstance(node, exp.Except)
        and bool(left.args.get("distinct")) == bool(node.args.get("distinct"))
        and not any(left.args.get(key) for key in ("order", "limit", "offset", "with_", "by_name", "side"))
    )
    return [*(_operands(left) if same else [node.this]), node.expression]


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


def _reads(query: exp.Expression, name: str) -> bool:
    return any(table.name.lower() == name for table in query.find_all(exp.Table))


def _named(node: exp.Expression, ctes: Mapping[str, Cte]) -> list[Cte]:
    """The CTEs that a block reads, directly or through others; one that reads itself once."""
    names = {table.name.lower() for table in node.find_all(exp.Table)}
    direct = [ctes[name] for name in sorted(names & ctes.keys())]
    return [*direct, *(inner for cte in direct for inner in _named(cte.query, cte.visible))]


def with_definitions(node: exp.Expression, ctes: dict[str, Cte]) -> str:
    """The block's text with all CTEs it may use in front."""
    text = node.sql(dialect="duckdb")
    if not ctes:
        return text
    definitions = ", ".join(cte.item.sql(dialect="duckdb") for cte in ctes.values())
    recursive = "RECURSIVE " if any(cte.recursive for cte in ctes.values()) else ""
    return f"WITH {recursive}{definitions} SELECT * FROM ({text})"
