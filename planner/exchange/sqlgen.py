"""Relation -> DuckDB SQL.

A fragment prints in its planned shape. Joins keep their sides, since the kernel switches DuckDB's join ordering off. A
chain of Project, Filter and Join is one SELECT, and a leaf (Scan, Exchange) is the name of an input.  All column names
of a query differ, so no table alias is ever needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from qoop.catalog.errors import PlanError
from qoop.planner.algebra.cascade import can_cascade, cascaded
from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    columns_of,
    is_movable_call,
    quote,
)
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
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
)
from qoop.planner.exchange.distribution import fragment_nodes
from qoop.planner.exchange.top_ranks import without_others
from qoop.planner.plan import MARKS

LeafName = Callable[[Relation], str | None]

_JOIN_WORD = {
    "inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}  # fmt: skip


def to_sql(relation: Relation, leaf: LeafName | None = None, cast: bool = False) -> str:
    """Return a SELECT whose columns are `relation.columns`, in order and under their names.

    leaf: gives the input name of a relation that is read rather than computed, None for all others; by default
        a Scan reads the table's own name and nothing else is a leaf.
    cast: cast every computed column to its planned type (done at stage borders, where Arrow may carry another).
    """
    printer = _Printer(leaf or _table_name)
    text = printer.query(relation, cast)
    if printer.shared:
        definitions = ", ".join(f"{name} AS MATERIALIZED ({sql})" for name, sql in printer.shared.items())
        return f"WITH {definitions} {text}"
    return text


def in_any_order(predicates: Sequence[Expr]) -> list[str]:
    """The texts of predicates that all must hold; several that call Python are marked as one part, whose order the
    kernel finds (:mod:`qoop.engine.functions.ordering`).

    >>> from qoop.planner.algebra.expr import PYTHON, equals
    >>> a = Column("a", "BIGINT")
    >>> f, g = (Call(PYTHON, (a,), f"{name}({{0}})", "BOOLEAN") for name in "fg")
    >>> in_any_order([f, equals(a, a), g])
    ['(a = a)', '/*in any order:*/ f(a) /*or*/ AND g(a) /*.*/']
    """
    costly = [str(one) for one in predicates if is_movable_call(one)]
    if len(costly) < 2 or any("/*" in text for text in costly):
        return list(map(str, predicates))
    others = [str(one) for one in predicates if not is_movable_call(one)]
    begin, between, end = MARKS
    return [*others, begin + between.join(costly) + end]


def _table_name(relation: Relation) -> str | None:
    return quote(relation.table) if isinstance(relation, Scan) else None


class _Printer:
    def __init__(self, leaf: LeafName) -> None:
        self.leaf = leaf
        self.shared: dict[str, str] = {}
        self.cascades = 0

    def query(self, relation: Relation, cast: bool = False) -> str:
        """A SELECT statement for the relation."""
        name = self.leaf(relation)
        if name is not None:
            return f"SELECT {_leaf_items(relation)} FROM {name}"
        match relation:
            case Project():
                return f"SELECT {_items(relation.exprs, cast)}{self.tail(relation.input)}"
            case Aggregate():
                return self.cascade(relation, cast) if relation.cascade else self.aggregate(relation, cast)
            case Window(first=int()):
                return self.query(without_others(relation), cast)
            case Window():
                calls = ((call.column, call.call) for call in relation.calls)
                items = [*map(str, relation.input.columns), *(_item(c, e, cast) for c, e in calls)]
                return f"SELECT {', '.join(items)}{self.tail(relation.input)}"
            case Sort():
                keys = ", ".join(map(str, relation.keys))
                return f"{self.plain(relation.input)} ORDER BY {keys}"
            case Limit():
                return self.limit(relation)
            case SetOp():
                return self.set_operation(relation)
            case Join(mark=mark) if mark is not None:
                member = f"{_membership(relation, self.members(relation))} AS {mark}"
                names = [*map(str, relation.left.columns), member]
                return f"SELECT {', '.join(names)}{self.tail(relation.left)}"
            case Opaque():
                return f"SELECT * FROM ({relation.sql}\n) AS o({_names(relation.columns)})"
            case _:
                return f"SELECT {_names(relation.columns)}{self.tail(relation)}"

    def plain(self, relation: Relation) -> str:
        """A SELECT that an ORDER BY can follow without seeing more than the relation's columns."""
        return f"SELECT {_names(relation.columns)} FROM {self.source(relation)}"

    def tail(self, relation: Relation) -> str:
        """`` FROM … WHERE …`` for a chain of Filters over a source."""
        predicates: list[Expr] = []
        while isinstance(relation, Filter):
            predicates[:0] = relation.predicates
            relation = relation.input
        where = f" WHERE {' AND '.join(in_any_order(predicates))}" if predicates else ""
        if isinstance(relation, Values) and not relation.columns and len(relation.rows) == 1:
            return where and f" FROM (SELECT 1){where}"
        return f" FROM {self.source(relation)}{where}"

    def source(self, relation: Relation) -> str:
        """A FROM item for the relation."""
        name = self.leaf(relation)
        if name is not None and not isinstance(relation, Scan):
            return name
        match relation:
            case Join(mark=None):
                condition = " AND ".join(map(str, relation.on))
                if relation.kind == "inner" and not condition:
                    return f"{self.source(relation.left)} CROSS JOIN {self.operand(relation.right)}"
                word = _JOIN_WORD[relation.kind]
                left, right = self.source(relation.left), self.operand(relation.right)
                return f"{left} {word} {right} ON {condition or 'true'}"
            case Shared():
                return self.share(relation)
            case Values():
                return self.values(relation)
            case _:
                return f"({self.query(relation)})"

    def operand(self, relation: Relation) -> str:
        """The right side of a join: a nested join keeps its parentheses, which are its shape."""
        text = self.source(relation)
        return f"({text})" if isinstance(relation, Join) and relation.mark is None else text

    def share(self, relation: Shared) -> str:
        name = quote(relation.name)
        if name not in self.shared:
            text = self.query(relation.input)  # may itself define shared subplans, which come first
            self.shared[name] = text
        return name

    def members(self, relation: Join) -> str:
        """The right side of a mark join.

        Where it is correlated it stands for itself: DuckDB cannot take every join apart inside a correlated subquery.
        """
        text = self.source(relation.right)
        if len(relation.on) == 1 or not any(isinstance(node, Join) for node in fragment_nodes(relation.right)):
            return text
        name = quote(f"{relation.mark.name}:members") if relation.mark is not None else ""
        self.shared[name] = f"SELECT {_names(relation.right.columns)} FROM {text}"
        return name

    def aggregate(self, relation: Aggregate, cast: bool) -> str:
        items = [*map(str, relation.keys), *(_aggregation(agg, cast) for agg in relation.aggregations)]
        group = ""
        if relation.grouping_sets is not None:
            sets = ", ".join(f"({', '.join(map(str, keys))})" for keys in relation.grouping_sets)
            group = f" GROUP BY GROUPING SETS ({sets})"
        elif relation.keys:
            group = f" GROUP BY {_names(relation.keys)}"
        elif not relation.aggregations:
            group = " GROUP BY ()"
        nothing = "1" if relation.grouping_sets is None else "count(*)"  # else DuckDB takes several () for one
        return f"SELECT {', '.join(items) or nothing}{self.tail(relation.input)}{group}"

    def cascade(self, relation: Aggregate, cast: bool) -> str:
        """Grouping sets made from each other; in one go where its functions do not allow for that."""
        if not can_cascade(relation):
            return self.aggregate(relation, cast)
        self.cascades += 1
        union = cascaded(relation, f"level_{self.cascades}")
        made = [f"CAST({agg.column} AS {agg.column.type}) AS {agg.column}" for agg in relation.aggregations]
        items = [*map(str, relation.keys), *made] if cast else map(str, relation.columns)
        return f"SELECT {', '.join(items)} FROM ({self.query(union)})"

    def limit(self, relation: Limit) -> str:
        under = relation.input
        text = self.query(under) if isinstance(under, Sort) else self.plain(under)
        if relation.limit is not None:
            text += f" LIMIT {relation.limit}"
        return text + (f" OFFSET {relation.offset}" if relation.offset else "")

    def set_operation(self, relation: SetOp) -> str:
        word = f" {relation.kind.upper()} ALL " if relation.all else f" {relation.kind.upper()} "
        branches = word.join(f"({self.query(branch)})" for branch in relation.branches)
        return f"SELECT * FROM ({branches}) AS u({_names(relation.columns)})"

    def values(self, relation: Values) -> str:
        if not relation.columns:
            return f"(SELECT 1 FROM range({len(relation.rows)}))"
        types = [column.type for column in relation.columns]
        rows = [
            "(" + ", ".join(f"CAST({e} AS {t})" for e, t in zip(row, types, strict=True)) + ")" for row in relation.rows
        ]
        if rows:  # two of one name are ambiguous in a semi or anti join
            name = quote(f"{relation.columns[0].name}:rows")
            return f"(VALUES {', '.join(rows)}) AS {name}({_names(relation.columns)})"
        nulls = ", ".join(f"CAST(NULL AS {column.type}) AS {column}" for column in relation.columns)
        return f"(SELECT {nulls} WHERE false)"


def _membership(join: Join, right: str) -> str:
    """``x IN (SELECT y FROM right WHERE …)`` for a mark join whose right side prints as `right`."""
    membership, *rest = join.on
    if not isinstance(membership, Call) or len(membership.args) != 2:
        raise PlanError(f"a mark join needs x = y first, not {membership}")
    outer_side, inner_side = membership.args
    if columns_of(outer_side) & frozenset(join.right.columns):
        outer_side, inner_side = inner_side, outer_side
    where = f" WHERE {' AND '.join(map(str, rest))}" if rest else ""
    return f"({outer_side} IN (SELECT {inner_side} FROM {right}{where}))"


def _leaf_items(relation: Relation) -> str:
    if isinstance(relation, Scan):
        pairs = [str(column) if own == column.name else f"{quote(own)} AS {column}" for own, column in relation.fields]
        return ", ".join(pairs) or "1"
    return _names(relation.columns)


def _names(columns: Iterable[Column]) -> str:
    return ", ".join(map(str, columns)) or "1"


def _items(exprs: tuple[tuple[Column, Expr], ...], cast: bool) -> str:
    return ", ".join(_item(column, expr, cast) for column, expr in exprs) or "1"


def _item(column: Column, expr: Expr, cast: bool) -> str:
    if isinstance(expr, Column):
        return str(column) if expr == column else f"{expr} AS {column}"
    return f"CAST({expr} AS {column.type}) AS {column}" if cast else f"{expr} AS {column}"


def _aggregation(agg: Aggregation, cast: bool) -> str:
    text = str(agg.call)
    if agg.filter is not None:
        text += f" FILTER (WHERE {agg.filter})"
    return f"CAST({text} AS {agg.column.type}) AS {agg.column}" if cast else f"{text} AS {agg.column}"
