"""A relation in one line, for doctests and for messages of failing tests."""

from __future__ import annotations

from collections.abc import Iterable

from qoop.planner.algebra.expr import Column, Expr
from qoop.planner.algebra.relation import (
    Aggregate,
    Aggregation,
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
    Values,
    Window,
)


def outline(relation: Relation) -> str:
    """Return the relation as nested calls, operators outermost first.

    >>> a = Column("a", "INTEGER")
    >>> outline(Filter(Scan("t", "v", (("a", a),)), (a,)))
    'filter[a](t[a])'
    """
    inside = ", ".join(map(outline, relation.inputs))
    detail = _detail(relation)
    word: str
    match relation:
        case Scan():
            return f"{relation.table}[{detail}]"
        case Join():
            word = "cross" if relation.kind == "inner" and not relation.on else relation.kind
        case SetOp():
            word = relation.kind + ("_all" if relation.all else "")
        case _:
            word = type(relation).__name__.lower()
    return word + (f"[{detail}]" if detail else "") + f"({inside})"


def _detail(relation: Relation) -> str:
    match relation:
        case Scan() | Values():
            return _list(relation.columns)
        case Filter():
            return _list(relation.predicates)
        case Project():
            return _list(str(c) if c == e else f"{c}: {e}" for c, e in relation.exprs)
        case Join():
            return _list(relation.on) + (f" as {relation.mark}" if relation.mark else "")
        case Aggregate():
            sets = "" if relation.grouping_sets is None else f" in {len(relation.grouping_sets)} sets"
            sets += " in a cascade" if relation.cascade else ""
            return _list(relation.keys) + sets + "".join(f"; {_aggregation(a)}" for a in relation.aggregations)
        case Window():
            first = "" if relation.first is None else f" of the first {relation.first}, the others left out before"
            return _list(f"{call.column}: {call.call}" for call in relation.calls) + first
        case Sort():
            return _list(map(str, relation.keys))
        case Limit():
            return f"{relation.limit}" + (f" from {relation.offset}" if relation.offset else "")
        case Shared():
            return relation.name
        case Exchange():
            return _list((relation.kind, *relation.keys))
    return ""


def _aggregation(agg: Aggregation) -> str:
    return f"{agg.column}: {agg.call}" + (f" where {agg.filter}" if agg.filter is not None else "")


def _list(items: Iterable[Column | Expr | str]) -> str:
    return ", ".join(map(str, items))
