"""One object for equal relations, so that results for one plan of a query serve the others.

Estimates, meanings and stages are remembered by object.  The plans of different variants and resources have most
parts in common, but each is built again; interned, the equal parts are the same object ("hash consing": Filliâtre and
Conchon, "Type-Safe Modular Hash-Consing", ML Workshop 2006).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from qoop.planner.algebra.relation import (
    Aggregate,
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
    with_inputs,
)

_OWN: dict[type, Callable[[Relation], object]] = {
    Scan: attrgetter("table", "version", "fields", "parts"),
    Values: attrgetter("columns", "rows"),
    Filter: attrgetter("predicates"),
    Project: attrgetter("exprs"),
    Join: attrgetter("kind", "on", "mark"),
    Aggregate: attrgetter("keys", "aggregations", "grouping_sets", "cascade"),
    Window: attrgetter("calls", "first"),
    Sort: attrgetter("keys"),
    Limit: attrgetter("limit", "offset"),
    SetOp: attrgetter("kind", "all", "columns"),
    Shared: attrgetter("name"),
    Opaque: attrgetter("sql", "tables", "columns", "reason", "rows"),
}


def own_part(relation: Relation) -> object:
    """The arguments of an operator other than Exchange, without its inputs."""
    return _OWN[type(relation)](relation)


class Interner:
    """Gives equal relations as one object, the first of them that it was shown.

    What was decided for an Exchange's fragment counts, although ``==`` does not compare it. Keeps its
    relations alive; use one for the planning of one query.

    >>> one, two = Scan("t", "1", ()), Scan("t", "1", ())
    >>> interner = Interner()
    >>> interner.of(one) is interner.of(two)
    True
    """

    def __init__(self) -> None:
        self._interned: dict[int, tuple[Relation, Relation]] = {}
        self._by_content: dict[tuple[object, ...], Relation] = {}

    def of(self, relation: Relation) -> Relation:
        """The one object for relations equal to this one."""
        known = self._interned.get(id(relation))
        if known is None:
            inputs = tuple(map(self.of, relation.inputs))
            own = self._fragment(relation) if isinstance(relation, Exchange) else own_part(relation)
            key = (type(relation), own, *map(id, inputs))
            found = self._by_content.get(key)
            if found is None:
                found = self._by_content[key] = with_inputs(relation, inputs) if inputs else relation
            known = self._interned[id(relation)] = (relation, found)
            self._interned[id(found)] = (found, found)
        return known[1]

    def _fragment(self, exchange: Exchange) -> tuple[object, ...]:
        own, fragment = (exchange.kind, exchange.keys, exchange.parts), exchange.fragment
        if fragment is None:
            return own
        meaning = id(self.of(fragment.meaning))
        return (*own, meaning, fragment.partial, fragment.width, fragment.slots, fragment.estimate)
