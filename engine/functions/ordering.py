"""The order of expensive predicates, found while they run.

The planner prints a filter with several predicates that call Python as ``/*in any order:*/ p /*or*/ AND q /*.*/``.
Their costs and the rows that they leave are unknown beforehand, so the kernel has DuckDB ask for an order with
every vector of 2048 rows, and counts what goes into each predicate and what comes out:

    CASE order() WHEN 0 THEN p, then q of what is left WHEN 1 THEN q, then p of what is left
                 WHEN 2 THEN as 0, and count ELSE as 1, and count END

Counting takes as long as calling a quick function, so it is done for the first vectors, and then for one in
:data:`COUNTED`. DuckDB asks again for each WHEN, so the order that is known to be the best stands first. A filter of
nothing but plain calls is one call instead, which counts for next to nothing
(:mod:`~qoop.engine.functions.fused_filter`).

The best order is that of the rank (selectivity - 1) / cost (Hellerstein and Stonebraker 1993); with numbers that are
taken for independent it is the order of the least expected cost, which `best` takes. The rows are the same in any
order, and so is the signature.

Whatever raises in another order than that of the text might not have been called in that: the task is then run again in
the text's order, and so are all later ones of that filter (law 12).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import permutations

from qoop.catalog.value import value
from qoop.planner.plan import MARKS

_BEGIN, _AND, _END = MARKS
ORDER, PASSED = "order of predicates", "rows that pass"
"""The names of the functions by which DuckDB reads an order, and reports what a predicate has left."""

_FILTER = re.compile(re.escape(_BEGIN) + "(.*?)" + re.escape(_END), re.S)
_ALL_ORDERS = 3
AT_FIRST, COUNTED = 6, 8
"""Vectors that are counted at first, and how many later ones come to each that is counted."""

_FORGET = 65_536
"""Rows of a predicate after which what was seen before counts half: data may change along a table."""

Order = tuple[int, ...]

_NONE_FUSED: Mapping[int, str] = {}


def filters_of(sql: str) -> list[tuple[str, ...]]:
    """The predicates of each filter of a stage whose predicates may run in any order, as the text has them.

    >>> filters_of("SELECT a FROM t WHERE b AND /*in any order:*/ f(a) /*or*/ AND g(a) /*.*/")
    [('f(a)', 'g(a)')]
    """
    return [tuple(text.split(_AND)) for text in _FILTER.findall(sql)]


def orders_of(count: int, best: Order | None = None) -> list[Order]:
    """The orders that can be chosen among for each vector, that of the text among them. best: as far as is known; it is
    the first.

    >>> orders_of(2), orders_of(2, (1, 0))
    ([(0, 1), (1, 0)], [(1, 0), (0, 1)])
    """
    text = tuple(range(count))
    known = best or text
    if count <= _ALL_ORDERS:
        return list(dict.fromkeys([known, *permutations(text)]))
    return list(dict.fromkeys([known, text, *((*known[place:], *known[:place]) for place in text)]))


def in_orders(sql: str, orders: Sequence[Sequence[Order]], fused: Mapping[int, str] = _NONE_FUSED) -> str:
    """The SQL of a stage with its filters in the orders that can be chosen among, each filter by its number: first all
    orders as they are, then all of them with what they count. fused: those that are one call."""
    numbers = iter(range(len(orders)))

    def printed(found: re.Match[str]) -> str:
        number = next(numbers)
        if number in fused:
            return fused[number]
        predicates = found.group(1).split(_AND)
        chains = [_chain(predicates, order) for order in orders[number]]
        whens = [f'"{PASSED}"({number}::INTEGER, {place}::INTEGER, {one})' for place, one in enumerate(predicates)]
        chains += [_chain(whens, order) for order in orders[number]]
        *first, last = chains
        cases = " ".join(f"WHEN {place} THEN {chain}" for place, chain in enumerate(first)) + f" ELSE {last}"
        return f'(CASE "{ORDER}"({number}::INTEGER) {cases} END)'

    return _FILTER.sub(printed, sql)


def _chain(predicates: Sequence[str], order: Order) -> str:
    text = "true"
    for place in reversed(order):
        text = f"CASE WHEN {predicates[place]} THEN {text} ELSE false END"
    return text


@value
class PredicateCounts:
    """One predicate: rows that it was called for, and rows that it passed. seconds: a row; None: not known."""

    rows: float
    passed: float
    seconds: float | None

    @property
    def selectivity(self) -> float:
        """The part of the rows that it passes; of none it is taken for a half."""
        return (self.passed + 1.0) / (self.rows + 2.0)


def best(orders: Sequence[Order], observed: Sequence[PredicateCounts]) -> int:
    """The place of the order that should cost least for a row; of equals the first.

    >>> cheap, dear = PredicateCounts(1000, 900, 1e-6), PredicateCounts(1000, 10, 1e-3)
    >>> best([(0, 1), (1, 0)], [cheap, dear]), best([(0, 1), (1, 0)], [dear, cheap])
    (0, 1)
    """
    known = [one.seconds for one in observed if one.seconds is not None]
    usual = sum(known) / len(known) if known else 1.0
    costs = [one.seconds if one.seconds is not None else usual for one in observed]
    return min(range(len(orders)), key=lambda place: _cost(orders[place], costs, [one.selectivity for one in observed]))


def _cost(order: Order, costs: Sequence[float], selectivities: Sequence[float]) -> float:
    """Expected seconds for a row: each predicate is called for what those before it leave."""
    total, left = 0.0, 1.0
    for place in order:
        total += left * costs[place]
        left *= selectivities[place]
    return total


class Counter:
    """Rows that one predicate was called for and that it passed, the last ones counting most."""

    __slots__ = ("passed", "rows")

    def __init__(self, rows: float = 0.0, passed: float = 0.0) -> None:
        self.rows, self.passed = rows, passed

    def add(self, rows: int, passed: int) -> None:
        """Count a vector."""
        if self.rows > _FORGET:
            self.rows, self.passed = self.rows / 2, self.passed / 2
        self.rows += rows
        self.passed += passed
