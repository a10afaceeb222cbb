"""The normal form of relations, and how it is written down in one way only.

See :mod:`qoop.planner.identity.provenance` for how a relation becomes a :class:`Block`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from qoop.catalog.value import value
from qoop.planner.algebra.canonical_text import (
    Name,
    digest_of,
    halves,
    is_plain,
    leaf_name,
    leaf_number,
    own_name,
    text_of,
)
from qoop.planner.algebra.expr import Call, Column, Expr, columns_of, columns_of_all, conjuncts, substitute, transform
from qoop.planner.algebra.facts import Facts
from qoop.planner.algebra.fold_constants import simplify
from qoop.planner.algebra.implication import essential
from qoop.planner.algebra.properties import equated, interchangeable, is_constant
from qoop.planner.algebra.relation import Aggregation, SetOp


@dataclass(frozen=True, eq=False)
class FactorSource:
    """The origin of a factor, or of a join that became a predicate, so that it can be taken apart again.

    kind: left, full, semi (joins), distinct, rows (windows' input), set (a set operation).
    blocks: the inputs; of a left or semi join only the right one. on: conditions of a join.
    args: the columns of other factors in `on`, in the order of the factor's own args.
    names: the relation's column by the own name of the factor's; of groups the keys'.
    values: of groups, the aggregations by the own name of the factor's column.
    """

    kind: str
    blocks: tuple[Block, ...]
    names: Mapping[str, Column]
    on: tuple[Expr, ...] = ()
    args: tuple[Expr, ...] = ()
    node: SetOp | None = None
    values: Mapping[str, Aggregation] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Leaf:
    """A factor of a block's product. number: distinguishes it from the others, in the names of its columns.

    digest: what it is. args: expressions over other leaves that it depends on (the left side of a left join).
    single: it has one row.
    """

    number: int
    digest: str
    args: tuple[Expr, ...] = ()
    source: FactorSource | None = None
    single: bool = False


@dataclass(frozen=True, eq=False)
class Block:
    """``SELECT columns FROM leaves WHERE predicates``; no leaves: one row."""

    leaves: tuple[Leaf, ...]
    predicates: tuple[Expr, ...]
    columns: Mapping[Column, Expr]

    @property
    def content(self) -> Hashable:
        """Blocks of equal content are the same."""
        return self.rows, frozenset(self.columns.items())

    def expr(self, expr: Expr) -> Expr:
        """An expression over the relation's columns as one over the leaves."""
        return substitute(expr, self.columns)

    @cached_property
    def rows(self) -> Hashable:
        """The identity of its rows, in whichever order its leaves and predicates were found."""
        return frozenset((leaf.number, leaf.args) for leaf in self.leaves), frozenset(self.predicates)

    @property
    def empty(self) -> bool:
        """True if no row can be in it."""
        return any(is_constant(p, False) or is_constant(p, None) for p in self.predicates)


_NOTHING = "nothing"  # where there are no rows, all columns of a type are equal


@value
class Written:
    """A block written down. core: digest of leaves and predicates. name: the canonical text of a leaf's column.

    order: numbers of the leaves in canonical order.
    """

    core: str
    name: Name
    order: tuple[int, ...] = ()

    def text(self, expr: Expr) -> str:
        return text_of(expr, self.name) if self.core != _NOTHING else "none"

    def texts(self, columns: Mapping[Column, Expr]) -> dict[Column, str]:
        return {column: self.text(expr) for column, expr in columns.items()}


def parts_of(predicate: Expr) -> tuple[Expr, ...]:
    """The conjuncts of a predicate in its simplest form, of a BETWEEN both halves; none if it is always true."""
    parts = (simplify(half) for part in conjuncts(simplify(predicate)) for half in halves(part))
    return tuple(part for part in parts if not is_constant(part, True))


def spliced(block: Block, number: int, inner: Block, exprs: Mapping[Column, Expr]) -> Block:
    """The block with another in place of one of its leaves. exprs: what the leaf's columns are in it."""
    leaves = tuple(
        replace(leaf, args=tuple(substitute(arg, exprs) for arg in leaf.args)) if leaf.args else leaf
        for leaf in block.leaves
        if leaf.number != number
    )
    predicates = (*(substitute(p, exprs) for p in block.predicates), *inner.predicates)
    columns = {column: substitute(expr, exprs) for column, expr in block.columns.items()}
    return Block(leaves + inner.leaves, tuple(dict.fromkeys(predicates)), columns)


def leaf_exprs(leaf: Leaf, block: Block, inner: Block) -> dict[Column, Expr]:
    """The columns of a leaf, as expressions of the block that replaces it."""
    assert leaf.source is not None
    args = (arg for other in block.leaves for arg in other.args)
    used = columns_of_all((*block.predicates, *block.columns.values(), *args))
    names = leaf.source.names
    return {c: inner.columns[names[own_name(c)]] for c in used if leaf_number(c) == leaf.number}


def leaf_numbers(block: Block) -> set[int]:
    return {leaf.number for leaf in block.leaves}


def only(expr: Expr, numbers: Container[int]) -> bool:
    """True if the expression reads these leaves and no others."""
    used = columns_of(expr)
    return bool(used) and all(leaf_number(column) in numbers for column in used)


@dataclass
class _Items:
    """The parts of a block that tie leaves together, each a function of how columns are named."""

    texts: list[Callable[[Name], str]] = field(default_factory=list)
    touched: list[frozenset[int]] = field(default_factory=list)

    def add(self, text: Callable[[Name], str], columns: Iterable[Column]) -> None:
        self.texts.append(text)
        self.touched.append(frozenset(map(leaf_number, columns)))


class Writer:
    """Writes blocks down, each product of leaves under the same predicates once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Written] = {}

    def write(self, block: Block, marks: Iterable[Expr]) -> Written:
        """Order the leaves and write the block; `marks` only break ties between leaves.

        marks: what is read of the block; they may hold columns of other blocks, which are written as ``?``.
        """
        key = block.rows
        if len({leaf.digest for leaf in block.leaves}) < len(block.leaves):
            marks = tuple(marks)
            key = key, frozenset(marks)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _written(block, tuple(marks))
        return known


def _written(block: Block, marks: tuple[Expr, ...]) -> Written:
    if block.empty:
        return Written(_NOTHING, lambda _: "none")
    classes, predicates = equal_columns(block.predicates)
    raw = merged_names(str, classes)
    predicates = _grouped(essential(predicates, raw), raw)
    order = _order(block, classes, predicates, marks)
    label = {number: str(place) for place, number in enumerate(order)}
    merged = merged_names(
        lambda c: f"{label[leaf_number(c)]}.{own_name(c)}" if leaf_number(c) in label else "?", classes
    )
    leaf_of = {leaf.number: leaf for leaf in block.leaves}
    leaves = [leaf_of[number].digest + repr([text_of(a, merged) for a in leaf_of[number].args]) for number in order]
    texts = sorted({text_of(predicate, merged) for predicate in predicates})
    return Written(
        digest_of("block", *leaves, "where", *texts, "equal", *sorted(set(map(merged, classes)))), merged, tuple(order)
    )


def _grouped(predicates: Sequence[Expr], name: Name) -> list[Expr]:
    """Equalities of computed values as one predicate for all that are equal, whichever pairs say so."""
    groups: dict[str, dict[str, Expr]] = {}
    others = []
    for predicate in predicates:
        if not isinstance(predicate, Call) or not _equates_values(predicate):
            others.append(predicate)
            continue
        sides = {text_of(side, name): side for side in predicate.args}
        joined = {text: expr for side in sides for text, expr in groups.get(side, {}).items()}
        whole = {**joined, **sides}
        groups.update((text, whole) for text in whole)
    distinct = {id(group): group for group in groups.values()}.values()
    return others + [Call("equal", tuple(group.values()), "", "BOOLEAN") for group in distinct]


def _equates_values(predicate: Call) -> bool:
    """True for ``a = b`` with columns on both sides, of one type whose equal values are identical."""
    if predicate.op != "=" or not is_plain(predicate, "({0} = {1})"):
        return False
    left, right = predicate.args
    return left.type == right.type and interchangeable(left.type) and all(map(columns_of, predicate.args))


def equal_columns(predicates: Sequence[Expr]) -> tuple[dict[Column, tuple[Column, ...]], list[Expr]]:
    """Classes of columns that predicates equate, by member, and the predicates that are more than that.

    Columns that equal the same computed value are equal, too.
    """
    classes: dict[Column, tuple[Column, ...]] = {}
    computed: dict[Expr, Column] = {}
    others = []
    for predicate in predicates:
        pair = equated(predicate) if is_plain(predicate, "({0} = {1})") else None
        if pair is None:
            others.append(predicate)
            pair = _same_value(predicate, computed)
        if pair is not None:
            a, b = pair
            members = tuple(dict.fromkeys((*classes.get(a, (a,)), *classes.get(b, (b,)))))
            classes.update(dict.fromkeys(members, members))
    return classes, others


def _same_value(predicate: Expr, computed: dict[Expr, Column]) -> tuple[Column, Column] | None:
    """Two columns that equal the same expression. computed: a column by the expressions seen; grows."""
    if not isinstance(predicate, Call) or not _equates_values(predicate):
        return None
    column, expr = predicate.args
    if not isinstance(column, Column):
        column, expr = expr, column
    if not isinstance(column, Column):
        return None
    known = computed.setdefault(expr, column)
    return None if known == column else (known, column)


def merged_names(name: Name, classes: Mapping[Column, tuple[Column, ...]]) -> Name:
    """Names in which the columns of a class are one: their values are equal, whichever is read."""
    cache: dict[Column, str] = {}

    def merged(column: Column) -> str:
        found = cache.get(column)
        if found is None:
            members = classes.get(column)
            found = name(column) if members is None else "{" + " ".join(sorted(map(name, members))) + "}"
            cache[column] = found
        return found

    return merged


def _order(
    block: Block, classes: Mapping[Column, tuple[Column, ...]], predicates: Sequence[Expr], marks: tuple[Expr, ...]
) -> list[int]:
    """Numbers of the leaves in canonical order."""
    colours = {leaf.number: leaf.digest for leaf in block.leaves}
    if len(set(colours.values())) == len(colours):
        return sorted(colours, key=colours.__getitem__)
    items = _items(block, classes, predicates)
    core = colours = _ranked(_refined(colours, items, classes))
    for mark in marks:
        touched = (member for c in columns_of(mark) for member in classes.get(c, (c,)))
        items.add(lambda name, mark=mark: "mark " + text_of(mark, name), touched)  # type: ignore[misc]
    while len(set((refined := _refined(colours, items, classes)).values())) < len(refined):
        ordered = sorted(refined.values())
        tied = next(colour for colour, following in pairwise(ordered) if colour == following)
        first = next(number for number, colour in refined.items() if colour == tied)
        colours = _ranked(refined)
        colours[first] += "!"
    return sorted(refined, key=lambda number: (core[number], refined[number]))


def _items(block: Block, classes: Mapping[Column, tuple[Column, ...]], predicates: Sequence[Expr]) -> _Items:
    items = _Items()
    for members in dict.fromkeys(classes.values()):
        items.add(lambda name, members=members: name(members[0]), members)  # type: ignore[misc]
    raw = merged_names(str, classes)
    for predicate in {text_of(predicate, raw): predicate for predicate in predicates}.values():
        touched = (member for c in columns_of(predicate) for member in classes.get(c, (c,)))
        items.add(lambda name, predicate=predicate: text_of(predicate, name), touched)  # type: ignore[misc]
    for leaf in block.leaves:
        if leaf.args:
            own = Column(f"{leaf.number}:", "")
            items.add(
                lambda name, leaf=leaf, own=own: name(own) + repr([text_of(a, name) for a in leaf.args]),  # type: ignore[misc]
                (own, *(member for a in leaf.args for c in columns_of(a) for member in classes.get(c, (c,)))),
            )
    return items


def _refined(colours: dict[int, str], items: _Items, classes: Mapping[Column, tuple[Column, ...]]) -> dict[int, str]:
    """Recolour the leaves by the items that touch them until no further leaf can be distinguished."""
    for _ in colours:
        sizes = Counter(colours.values())
        if len(sizes) == len(colours):
            break
        colours = {
            number: colour if sizes[colour] == 1 else _recoloured(number, colours, items, classes)
            for number, colour in colours.items()
        }
        if len(set(colours.values())) == len(sizes):
            break
    return colours


def _recoloured(
    number: int, colours: Mapping[int, str], items: _Items, classes: Mapping[Column, tuple[Column, ...]]
) -> str:
    def name(column: Column) -> str:
        mine = "*" if leaf_number(column) == number else ""
        return f"{mine}{colours.get(leaf_number(column), '?')}.{own_name(column)}"

    merged = merged_names(name, classes)
    touching = (text for text, touched in zip(items.texts, items.touched, strict=True) if number in touched)
    return digest_of(colours[number], *sorted(text(merged) for text in touching))


def _ranked(colours: Mapping[int, str]) -> dict[int, str]:
    """Short colours in the same order, so that what is refined further stays within it."""
    places = {colour: f"{place:04d}" for place, colour in enumerate(sorted(set(colours.values())))}
    return {number: places[colour] for number, colour in colours.items()}


# --- facts


def facts_of(
    block: Block, order: Sequence[int], names: Sequence[tuple[str, Column]], settings: str, ordered: bool
) -> Facts:
    """The facts of a relation of this block, whose columns are to have these names.

    order: the leaves' canonical one, in which those of equal digest are numbered.
    """
    outputs = [(name, block.columns[column]) for name, column in names]
    leaf_of = {leaf.number: leaf for leaf in block.leaves}
    called: dict[int, str] = {}
    for number in order or leaf_of:
        called[number] = _numbered(leaf_name(settings, leaf_of[number].digest), called.values())

    def renamed(expr: Expr) -> Expr:
        return transform(expr, lambda node: column_of(node) if isinstance(node, Column) else None)

    def column_of(column: Column) -> Column:
        return Column(f"{called[leaf_number(column)]}:{own_name(column)}", column.type)

    leaves = sorted((called[leaf.number], tuple(map(renamed, leaf.args))) for leaf in block.leaves)
    predicates = tuple(map(renamed, block.predicates))
    return Facts(tuple(leaves), predicates, tuple((name, renamed(expr)) for name, expr in outputs), ordered)


def _numbered(digest: str, taken: Iterable[str]) -> str:
    again = sum(name.startswith(digest) for name in taken)
    return f"{digest}#{again}"
