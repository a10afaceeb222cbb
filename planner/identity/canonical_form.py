"""A text of how a fragment computes its rows; it is the same for fragments that differ in names only.

A signature says what an output means; which of its rows the i-th of several tasks puts out depends on how it
is computed: which scan is split, which input is read by partition.  Two fragments of equal form put out equal
rows task by task, so their checkpoints can stand for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from qoop.planner.algebra.expr import Column, Expr, substitute
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
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
)


def form(relation: Relation, source: Callable[[Exchange], tuple[str, tuple[str, ...]]]) -> str:
    """Return the form of a fragment.

    source: what an exchange reads: a text that says which rows each task gets, and the names under which the
        producer knows the exchange's columns.
    """
    return _Form(source).of(relation)


class _Form:
    def __init__(self, source: Callable[[Exchange], tuple[str, tuple[str, ...]]]) -> None:
        self.source = source
        self.numbers: dict[Column, Expr] = {}
        self.defined_as: dict[Column, str] = {}

    def of(self, node: Relation) -> str:
        """The text of an operator over its inputs; columns are numbered where they first appear."""
        match node:
            case Scan():
                own = " ".join(f"{own}={self.define(column)}" for own, column in node.fields)
                return f"scan({node.table}@{node.version} {'split' if node.parts > 1 else 'whole'} {own})"
            case Exchange():
                what, names = self.source(node)
                read = " ".join(
                    f"{name}={self.define(column)}" for name, column in zip(names, node.columns, strict=True)
                )
                return f"read({what} {read})"
            case Opaque():
                return f"opaque({node.sql} {node.tables} {self.defined(node.columns)})"
            case Values():
                rows = ";".join(self.all(row) for row in node.rows)
                return f"values({rows} {self.defined(node.columns)})"
        inputs = ",".join(map(self.of, node.inputs))
        return f"{type(node).__name__.lower()}({self.detail(node)}|{inputs})"

    def detail(self, node: Relation) -> str:
        match node:
            case Filter():
                return self.all(node.predicates)
            case Project():
                texts = [self.text(expr) for _, expr in node.exprs]
                return " ".join(
                    f"{text}={self.define(column)}" for text, (column, _) in zip(texts, node.exprs, strict=True)
                )
            case Join():
                mark = f" {self.define(node.mark)}" if node.mark is not None else ""
                return f"{node.kind} {self.all(node.on)}{mark}"
            case Aggregate():
                sets = None if node.grouping_sets is None else [self.all(keys) for keys in node.grouping_sets]
                return f"{self.all(node.keys)} {sets} {' '.join(map(self.aggregation, node.aggregations))}"
            case Window():
                return " ".join(f"{self.text(call.call)}={self.define(call.column)}" for call in node.calls)
            case Sort():
                keys = (f"{self.text(key.expr)} {key.descending} {key.nulls_first}" for key in node.keys)
                return ",".join(keys)
            case Limit():
                return f"{node.limit} {node.offset}"
            case SetOp():
                return f"{node.kind} {node.all} {self.defined(node.columns)}"
            case Shared():
                return ""
        raise AssertionError(f"{type(node).__name__} has no form")

    def aggregation(self, agg: Aggregation) -> str:
        condition = f" where {self.text(agg.filter)}" if agg.filter is not None else ""
        return f"{self.text(agg.call)}{condition}={self.define(agg.column)}"

    def define(self, column: Column) -> str:
        known = self.defined_as.get(column)
        if known is None:
            number = self.numbers[column] = Column(f"#{len(self.numbers)}", column.type)
            known = self.defined_as[column] = f"{number}:{column.type}"
        return known

    def defined(self, columns: Iterable[Column]) -> str:
        return " ".join(map(self.define, columns))

    def text(self, expr: Expr) -> str:
        return str(substitute(expr, self.numbers))

    def all(self, exprs: Iterable[Expr]) -> str:
        return ",".join(map(self.text, exprs))
