"""Subqueries in expressions become joins.

The techniques are the classical ones (Galindo-Legaria & Joshi, "Orthogonal Optimization of Subqueries and
Aggregation", SIGMOD 2001): EXISTS and IN are semi joins where they stand as a conjunct, and a flag column
brought in by a join elsewhere; NOT IN keeps SQL's three values in a mark join; a scalar aggregate correlated
by equalities is grouped by its correlated columns and joined.  Correlation of any other form is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from sqlglot import exp

from qoop.planner.algebra.expr import (
    TRUE,
    Call,
    Column,
    Expr,
    Literal,
    binary,
    columns_of,
    columns_of_all,
    equals,
    is_not_null,
    substitute,
)
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
    Join,
    Limit,
    Opaque,
    Project,
    Relation,
    SetOp,
    Shared,
    Sort,
    Window,
    walk,
)
from qoop.planner.estimate.tree_cost import equates
from qoop.planner.sql.convert import Env
from qoop.planner.sql.latest import Latest, with_all, with_latest
from qoop.planner.sql.running import with_join, with_running
from qoop.planner.sql.scope import Names, Unsupported, refuse

if TYPE_CHECKING:
    from qoop.planner.sql.build import Builder
    from qoop.planner.sql.query_block import QueryBlock

HalfJoin = OneOf["semi", "anti"]

_ZERO = Literal("0", "INTEGER", 0)
_MANY_ROWS = (
    "More than one row returned by a subquery used as an expression - "
    "scalar subqueries can only return a single row."
)  # fmt: skip


def refuse_typeof(node: exp.Expression) -> None:
    """Raise Unsupported if a correlated aggregate asks for a type: that is a constant, which DuckDB has as NULL where
    there are no rows."""
    if any(call.key == "typeof" or call.name.lower() == "typeof" for call in node.find_all(exp.Func)):
        raise Unsupported("typeof in a correlated aggregate, which DuckDB has as NULL where there are no rows")


class SubqueryJoins:
    """Joins the subqueries of one statement in. Implements :class:`qoop.planner.sql.convert.Subqueries`."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    # -- as a conjunct of WHERE ----------------------------------------------------------------------------------------

    def conjunct(self, node: exp.Expression, env: Env) -> bool:
        """Attach ``[NOT] EXISTS`` / ``[NOT] IN (subquery)`` as a join; False if the conjunct is neither."""
        negated = False
        while isinstance(node, exp.Not | exp.Paren):
            negated ^= isinstance(node, exp.Not)
            node = node.this
        if isinstance(node, exp.Exists):
            block = self.block(node.this, env)
            self._check_exists(block)
            relation, on = block.relation, block.correlated
            self._attach(env, relation, "anti" if negated else "semi", (), tuple(on))
            return True
        if isinstance(node, exp.In) and node.args.get("query") and not negated:
            block = self.block(node.args["query"], env)
            if block.single and block.correlated:
                return False  # its one row is there even where no row correlates
            relation, pairs = self._membership(node, block, env)
            self._attach(env, relation, "semi", pairs, tuple(block.correlated))
            return True
        return False

    def _attach(
        self, env: Env, right: Relation, kind: HalfJoin, pairs: tuple[Expr, ...], correlated: tuple[Expr, ...]
    ) -> None:
        names = self.builder.names
        if self.builder.as_duckdb_reads:
            env.attachments.append(lambda left: with_outer_values(left, right, kind, pairs, correlated, names))
        else:
            env.attachments.append(lambda left: Join(left, right, kind, (*pairs, *correlated)))

    def _membership(self, node: exp.In, block: QueryBlock, env: Env) -> tuple[Relation, tuple[Expr, ...]]:
        """The right side of a semi join for ``x IN (SELECT y …)``, and x = y; x may be a row."""
        outer = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        if len(outer) != len(block.exprs):
            raise Unsupported("IN over different widths")
        relation, columns = self._with_correlated(block)
        pairs = [equals(env.convert(x), y) for x, y in zip(outer, columns, strict=True)]
        return relation, tuple(pairs)

    def _with_correlated(self, block: QueryBlock) -> tuple[Relation, tuple[Column, ...]]:
        """Project the select list and, next to it, the inner columns that correlated predicates need."""
        columns = self.builder.output_columns(block.exprs, block.names)
        inner = [c for c in block.relation.columns if c in columns_of_all(block.correlated) and c not in columns]
        pairs = (*zip(columns, block.exprs, strict=True), *((c, c) for c in inner))
        return Project(block.relation, pairs), columns

    # -- anywhere in an expression ------------------------------------------------------------------------------------

    def exists(self, node: exp.Exists, env: Env) -> Expr:
        """EXISTS as a value: a flag from a left join with the distinct correlated keys."""
        block = self.block(node.this, env)
        self._check_exists(block)
        names = self.builder.names
        if not block.correlated:
            count = names.fresh("matches", "BIGINT")
            call = Call("count_star", (), "count(*)", "BIGINT")
            env.attachments.append(
                lambda left: Join(left, Aggregate(block.relation, (), (Aggregation(count, call),)), "inner", ())
            )
            return binary(">", count, _ZERO)
        inner_set = frozenset(block.relation.columns)
        keys: list[tuple[Column, Expr]] = []
        on: list[Expr] = []
        for predicate in block.correlated:
            inner, outer = _sides(predicate, inner_set)
            key = names.fresh("exists_key", inner.type)
            keys.append((key, inner))
            on.append(equals(outer, key))
        distinct = Aggregate(Project(block.relation, tuple(keys)), tuple(key for key, _ in keys), ())
        flag = names.fresh("matched", "BOOLEAN")
        flagged = Project(distinct, (*((c, c) for c in distinct.columns), (flag, TRUE)))
        env.attachments.append(lambda left: Join(left, flagged, "left", tuple(on)))
        return is_not_null(flag)

    def member(self, node: exp.In, env: Env) -> Expr:
        """``x IN (subquery)`` as a value of three: a mark join."""
        if isinstance(node.this, exp.Tuple):
            raise Unsupported("a row IN a subquery, as a value")
        block = self.block(node.args["query"], env)
        if len(block.exprs) != 1:
            raise Unsupported("IN over a subquery of several columns")
        value = env.convert(node.this)
        if block.single and block.correlated:
            return equals(value, self._grouped(block, env))
        relation, (column,) = self._with_correlated(block)
        mark = self.builder.names.fresh("mark", "BOOLEAN")
        on = (equals(value, column), *block.correlated)
        env.attachments.append(lambda left: Join(left, relation, "mark", on, mark))
        return mark

    def scalar(self, node: exp.Expression, env: Env) -> Expr:
        """A scalar subquery: one row joined to all, or one row for each value of its correlated columns."""
        block = self.block(node, env, limited=True)
        if len(block.exprs) != 1:
            raise Unsupported("a scalar subquery of several columns")
        if not block.correlated:
            return self._uncorrelated(block, env)
        if block.latest is not None:
            return self._latest(block, block.latest, env)
        if not block.grouped:
            return self._correlated_row(block, env)
        if not block.single:
            raise Unsupported("a correlated scalar subquery with GROUP BY")
        refuse_typeof(node)
        return self._grouped(block, env)

    def _grouped(self, block: QueryBlock, env: Env) -> Expr:
        """The value of a correlated aggregate: of the group with the outer row's key, or of no rows at all."""
        relation, on, running = block.relation, tuple(block.correlated), block.running
        if running is not None:
            form = with_join if self.builder.as_duckdb_reads else partial(with_running, names=self.builder.names)
            env.attachments.append(lambda left: form(left, relation, running))
            return block.exprs[0]
        env.attachments.append(lambda left: Join(left, relation, "left", on))
        filled = {
            column: Call("coalesce", (column, value), "coalesce({0}, {1})", column.type)
            for column, value in block.of_nothing.items()
        }
        return substitute(block.exprs[0], filled)

    def _latest(self, block: QueryBlock, latest: Latest, env: Env) -> Expr:
        """The value in the latest row up to the bound."""
        column = self.builder.names.fresh(block.names[0], block.exprs[0].type)
        found, names = ((column, block.exprs[0]),), self.builder.names
        if self.builder.as_duckdb_reads:
            env.attachments.append(lambda left: with_all(left, block.relation, latest, found, names))
        else:
            env.attachments.append(lambda left: with_latest(left, block.relation, latest, found, "left", names))
        return column

    def _uncorrelated(self, block: QueryBlock, env: Env) -> Expr:
        relation, (column,) = self.builder.project(block)
        if not block.single:
            relation, checked = self._first(relation, (), column)
            relation, column = Project(relation, (checked,)), checked[0]
        env.attachments.append(lambda left: Join(left, relation, "inner", ()))
        return column

    def _correlated_row(self, block: QueryBlock, env: Env) -> Expr:
        """No aggregate: at most one row for each outer row, checked at run time, and only where the value is needed."""
        inner_set = frozenset(block.relation.columns)
        names = self.builder.names
        pairs = [_sides(predicate, inner_set) for predicate in block.correlated]
        keys = tuple((names.fresh("scalar_key", inner.type), inner) for inner, _ in pairs)
        value = names.fresh(block.names[0], block.exprs[0].type)
        projected: Relation = Project(block.relation, (*keys, (value, block.exprs[0])))
        if block.distinct:
            projected = Aggregate(projected, projected.columns, ())
        relation, checked = self._first(projected, tuple(key for key, _ in keys), value)
        on = tuple(equals(outer, key) for (key, _), (_, outer) in zip(keys, pairs, strict=True))
        env.attachments.append(
            lambda left: Project(Join(left, relation, "left", on), (*((c, c) for c in left.columns), checked))
        )
        return checked[0]

    def _first(
        self, relation: Relation, keys: tuple[Column, ...], column: Column
    ) -> tuple[Relation, tuple[Column, Expr]]:
        """The groups, and over them the only value of a group; an error, as in DuckDB, where there are two."""
        names = self.builder.names
        value, count = names.fresh("first_value", column.type), names.fresh("row_count", "BIGINT")
        aggregate = Aggregate(
            relation,
            keys,
            (
                Aggregation(value, Call("min", (column,), "min({0})", column.type)),  # the only one, if all is well
                Aggregation(count, Call("count_star", (), "count(*)", "BIGINT")),
            ),
        )
        template = "CASE WHEN {1} > 1 THEN CAST(error('" + _MANY_ROWS + "') AS " + column.type + ") ELSE {0} END"
        checked = names.fresh(column.name, column.type)
        expr = Call("error", (value, count), template, column.type)
        return aggregate, (checked, expr)

    # -- parts --------------------------------------------------------------------------------------------------------

    def block(self, node: exp.Expression, env: Env, limited: bool = False) -> QueryBlock:
        """Build the subquery with the env's scope around it. limited: only its latest row may be meant."""
        while isinstance(node, exp.Subquery) and not node.args.get("with_"):
            refuse(node, {"this", "alias"})
            node = node.this
        if not isinstance(node, exp.Query):
            raise Unsupported(f"{type(node).__name__} as a subquery")
        block = self.builder.query(node, env.scope, env.ctes)
        if block.latest is not None and not limited:
            raise Unsupported("LIMIT in a correlated subquery")
        own = frozenset(block.relation.columns)
        if block.running is not None:
            own = frozenset(one.column for one in block.running.aggregations)
        if columns_of_all(block.exprs) - own:
            raise Unsupported("an outer column in a subquery's select list")
        return block

    def sides(self, predicate: Expr, outer: Collection[Column]) -> tuple[Expr, Expr]:
        """Split ``inner = outer`` of a correlated predicate, given the outer columns."""
        args = predicate.args if isinstance(predicate, Call) and predicate.op == "=" else ()
        for inner, other in (args, args[::-1]) if len(args) == 2 else ():
            if not columns_of(inner) & set(outer) and columns_of(other) and columns_of(other) <= set(outer):
                return inner, other
        raise Unsupported(f"a subquery correlated by {predicate}")

    def _check_exists(self, block: QueryBlock) -> None:
        if block.single:
            raise Unsupported("EXISTS over an aggregate without GROUP BY")
        refuse_endless(block.relation, "EXISTS")


def with_outer_values(
    left: Relation,
    right: Relation,
    kind: HalfJoin,
    pairs: tuple[Expr, ...],
    correlated: tuple[Expr, ...],
    names: Names,
) -> Relation:
    """A semi or anti join as DuckDB makes it of a subquery that is correlated by more than equalities, for the cost of
    its plan: the outer values that the subquery reads are joined with its rows, and the outer rows with these pairs.

    pairs: equalities of IN, which hold between the outer rows and the pairs.
    """
    mine, theirs = frozenset(left.columns), frozenset(right.columns)
    outer = tuple(column for column in left.columns if column in columns_of_all(correlated))
    if not outer or all(equates(predicate, mine, theirs) for predicate in correlated):
        return Join(left, right, kind, (*pairs, *correlated))
    shared = Shared(names.fresh("outer_rows", "").name, left)
    read, values = (
        {column: names.fresh(column.name, column.type) for column in columns} for columns in (left.columns, outer)
    )
    distinct = Aggregate(
        Project(shared, tuple((mine, column) for column, mine in values.items())), (*values.values(),), ()
    )
    found = Join(distinct, right, "inner", tuple(substitute(predicate, values) for predicate in correlated))
    on = (
        *(substitute(pair, read) for pair in pairs),
        *(equals(read[column], values[column]) for column in outer),
    )
    joined = Join(Project(shared, tuple((mine, column) for column, mine in read.items())), found, kind, on)
    return Project(joined, tuple((column, read[column]) for column in left.columns))


def _sides(predicate: Expr, inner: frozenset[Column]) -> tuple[Expr, Expr]:
    args = predicate.args if isinstance(predicate, Call) and predicate.op == "=" else ()
    for ours, theirs in (args, args[::-1]) if len(args) == 2 else ():
        if columns_of(ours) and columns_of(ours) <= inner and not columns_of(theirs) & inner:
            return ours, theirs
    raise Unsupported(f"a subquery correlated by {predicate}")


# Rows that a query reads in part: LIMIT and EXISTS stop their producer, which may be endless.
#
# DuckDB makes the rows of a recursion or of ``range(1e11)`` as they are read. A stage puts out all of its rows before
# the next one begins, so such a fragment belongs into the stage that stops it.

MOST_ROWS = 1_000_000
"""Rows that a fragment may put out though only a part of them is read."""


def refuse_endless(relation: Relation, reader: str) -> None:
    """Raise Unsupported if a fragment that may make rows without end is read row by row. reader: stops to read."""
    for node in walk(relation, _reads_in_part):
        if isinstance(node, Opaque) and (node.rows is None or node.rows > MOST_ROWS):
            raise Unsupported(f"{reader} of {node.reason}, which may make more rows than are read")


def _reads_in_part(node: Relation) -> bool:
    """True for an operator that stops to read its input once its own reader does."""
    return not isinstance(node, Aggregate | Sort | Window | Limit) and not (isinstance(node, SetOp) and not node.all)
