"""An aggregate over joins of base tables, with all expressions in the tables' own columns.

Two blocks of different texts over the same tables so compare by the text of their parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b

from qoop.catalog.value import value
from qoop.planner.algebra.canonical_text import text_of
from qoop.planner.algebra.expr import Call, Column, Expr, is_volatile, quote, substitute
from qoop.planner.algebra.properties import is_total
from qoop.planner.algebra.relation import Aggregate, Aggregation, Filter, Join, Project, Relation, Scan
from qoop.planner.algebra.two_phase import TwoPhase, two_phase
from qoop.planner.identity.block import parts_of


@value
class Leaf:
    """One use of a base table. number: of the use, among those of the same table in a block.

    types: of the table's columns that are read, by their own names.
    """

    table: str
    version: str
    number: int
    types: Mapping[str, str]

    @property
    def name(self) -> str:
        """Its name in all blocks."""
        return f"{quote(self.table)}#{self.number}"

    def column(self, own: str) -> Column:
        """A column of the table, under its name in all blocks."""
        return Column(f"{self.name}.{own}", self.types[own])


def text(expr: Expr) -> str:
    """The text of an expression over columns of leaves: equal where the values are."""
    return text_of(expr, lambda column: column.name)


def named(kind: str, content: str, type_: str) -> Column:
    """A column that is called by a digest of what it holds."""
    return Column(f"{kind}:{blake2b(content.encode(), digest_size=12).hexdigest()}", type_)


_LEAF = re.compile(r'(?:"(?:[^"]|"")*"|\w+)#\d+')


def leaf_of(column: Column) -> str:
    """The name of the leaf that a column is of.

    >>> leaf_of(Leaf("a.b#1", "v", 0, {"c": "INTEGER"}).column("c"))
    '"a.b#1"#0'
    """
    found = _LEAF.match(column.name)
    assert found is not None  # a leaf has made the name
    return found[0]


@value
class SummaryBlock:
    """``SELECT keys, aggregations FROM leaves WHERE predicates GROUP BY keys``.

    phases: the aggregate in two phases. leaves: by name. predicates: by text. exprs: the columns of the aggregate's
    input, as expressions over columns of leaves.
    """

    phases: TwoPhase
    leaves: Mapping[str, Leaf]
    predicates: Mapping[str, Expr]
    exprs: Mapping[Column, Expr]

    @cached_property
    def keys(self) -> Mapping[Column, Expr]:
        """The expressions that its partial groups are grouped by."""
        computed = dict(self.phases.computed)
        return {key: self._over_leaves(computed.get(key, key)) for key in self.phases.keys}

    @cached_property
    def partials(self) -> Mapping[Column, Aggregation]:
        """The partial aggregations over columns of leaves, by the columns that the final ones read."""
        found = {}
        for part in self.phases.partials:
            args = tuple(map(self._over_leaves, part.call.args))
            call = Call(part.call.op, args, part.call.template, part.call.type)
            condition = None if part.filter is None else self._over_leaves(part.filter)
            content = text(call) if condition is None else f"{text(call)} if {text(condition)}"
            column = named("part", content, part.column.type)
            found[part.column] = Aggregation(column, call, filter=condition)
        return found

    @property
    def is_total(self) -> bool:
        """True if nothing that it computes can fail on rows that its predicates exclude."""
        values = (expr for part in self.partials.values() for expr in part.exprs)
        exprs = (*self.predicates.values(), *self.keys.values(), *values)
        return all(is_total(expr) and not is_volatile(expr) for expr in exprs)

    def _over_leaves(self, expr: Expr) -> Expr:
        return substitute(expr, self.exprs)


def block_of(aggregate: Aggregate) -> SummaryBlock | None:
    """The block of an aggregate; None if its functions do not combine, or its input is more than inner joins of base
    tables."""
    phases = two_phase(aggregate)
    read = _Reader().read(aggregate.input) if phases is not None else None
    if phases is None or read is None:
        return None
    block = SummaryBlock(phases, *read)
    return block if block.leaves and block.is_total else None


_Read = tuple[dict[str, Leaf], dict[str, Expr], dict[Column, Expr]]


class _Reader:
    """Reads one tree of joins, from the left."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()

    def read(self, node: Relation) -> _Read | None:
        """The leaves, predicates and columns of a relation; None for operators that a block has none of."""
        match node:
            case Scan():
                return self._scan(node)
            case Filter():
                below = self.read(node.input)
                return None if below is None else _restricted(below, node.predicates)
            case Project():
                below = self.read(node.input)
                if below is None:
                    return None
                leaves, predicates, exprs = below
                return leaves, predicates, {column: substitute(expr, exprs) for column, expr in node.exprs}
            case Join(kind="inner"):
                left = self.read(node.left)
                right = self.read(node.right) if left is not None else None
                if left is None or right is None:
                    return None
                both = ({**left[0], **right[0]}, {**left[1], **right[1]}, {**left[2], **right[2]})
                return _restricted(both, node.on)
        return None

    def _scan(self, scan: Scan) -> _Read:
        number = self._uses[scan.table]
        self._uses[scan.table] += 1
        leaf = Leaf(scan.table, scan.version, number, {own: column.type for own, column in scan.fields})
        return {leaf.name: leaf}, {}, {column: leaf.column(own) for own, column in scan.fields}


def _restricted(below: _Read, predicates: tuple[Expr, ...]) -> _Read:
    leaves, known, exprs = below
    parts = (part for one in predicates for part in parts_of(substitute(one, exprs)))
    return leaves, {**known, **{text(part): part for part in parts}}, exprs
