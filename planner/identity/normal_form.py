"""Operations on blocks that keep them in their normal form, so that equal blocks are written alike.

A predicate that is added to a block may take a leaf apart: a left join under a predicate that rejects its padded rows
becomes an inner one, predicates over a set operation enter its branches. :mod:`qoop.planner.identity.blocks` names
these rules and applies them to relations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from qoop.planner.algebra.canonical_text import digest_of, leaf_number, own_name, short, text_of
from qoop.planner.algebra.expr import (
    FALSE,
    Call,
    Column,
    Expr,
    Literal,
    columns_of,
    columns_of_all,
    is_volatile,
    substitute,
)
from qoop.planner.algebra.properties import equated, strict_columns
from qoop.planner.algebra.relation import SetOp
from qoop.planner.identity.block import (
    Block,
    FactorSource,
    Leaf,
    Writer,
    Written,
    equal_columns,
    leaf_exprs,
    leaf_numbers,
    merged_names,
    only,
    parts_of,
    spliced,
)
from qoop.planner.identity.keyed import KeysOf, has_one_partner
from qoop.planner.rules.outer_to_inner import rejected_by

Exprs = Iterable[Expr]

MOST_LOOSE = 16
"""Leaves of a block that semi joins may still join as inner ones: those of a chain, each over the one before twice,
would double them with each."""


class NormalForm:
    """The operations on the blocks of one query. The numbers of leaves are unique within it."""

    def __init__(self) -> None:
        self._numbers = count()
        self._writer = Writer()
        self._semi_joins: dict[str, FactorSource] = {}

    def new_number(self) -> int:
        """The number of a new leaf."""
        return next(self._numbers)

    def write(self, block: Block, marks: Iterable[Expr]) -> Written:
        """See :meth:`Writer.write`."""
        return self._writer.write(block, marks)

    def leaf(
        self,
        digest: str,
        texts: Mapping[Column, str],
        args: tuple[Expr, ...] = (),
        source: FactorSource | None = None,
        single: bool = False,
    ) -> Block:
        """A block of a single leaf, whose columns have these texts as own names."""
        number = self.new_number()
        columns = {column: Column(f"{number}:{short(text)}", column.type) for column, text in texts.items()}
        if source is not None:
            inner = source.blocks[0].columns.keys() if source.kind in ("rows", "distinct") else columns.keys()
            names = {own_name(column): outer for outer, column in columns.items() if outer in inner}
            source = replace(source, names=names)
        return Block((Leaf(number, digest, args, source, single),), (), columns)

    def needed(self, block: Block, columns: Iterable[Column]) -> Block:
        """The block with only these columns, and without what does not matter to them and to the number of rows."""
        kept = {column: block.columns[column] for column in columns}
        block = Block(block.leaves, block.predicates, kept)
        optional = [leaf for leaf in block.leaves if leaf.single or (leaf.source and leaf.source.kind == "rows")]
        if not optional:
            return block
        args = (arg for leaf in block.leaves for arg in leaf.args)
        used = columns_of_all((*block.predicates, *kept.values(), *args))
        for leaf in optional:
            mine = [column for column in used if leaf_number(column) == leaf.number]
            if leaf.single and not mine:
                block = replace(block, leaves=tuple(other for other in block.leaves if other is not leaf))
            elif leaf.source and all(own_name(column) in leaf.source.names for column in mine):
                block = self._opened(block, leaf)
        return block

    def with_partners(self, block: Block, keys: KeysOf) -> Block:
        """A block of as many rows: semi joins in which a row has one partner at most are inner ones."""
        for semi in block.predicates:
            source = self._semi_joins.get(semi.template) if isinstance(semi, Call) else None
            if source is not None and isinstance(semi, Call) and has_one_partner(source.blocks[0], source.on, keys):
                block = self._joined(block, semi)
        return block

    # ---- predicates

    def restricted(self, block: Block, parts: Sequence[Expr]) -> Block:
        """The block under more predicates, which are simple conjuncts over its leaves."""
        block = replace(block, predicates=tuple(dict.fromkeys((*block.predicates, *parts))))
        opened = self._to_open(block, parts)
        while opened is not None:
            block = self._opened(block, *opened)
            opened = self._to_open(block, block.predicates)
        return block

    def restricted_with(self, block: Block, parts: Sequence[Expr], others: Sequence[Expr]) -> tuple[Block, list[Expr]]:
        """As `restricted`; also other expressions over the block, as they read it afterwards."""
        if not parts:
            return block, list(others)
        marks = {Column(f"mark {i}", other.type): other for i, other in enumerate(others)}
        marked = self.restricted(replace(block, columns={**block.columns, **marks}), parts)
        columns = {column: expr for column, expr in marked.columns.items() if column not in marks}
        return replace(marked, columns=columns), [marked.columns[mark] for mark in marks]

    def _to_open(self, block: Block, parts: Sequence[Expr]) -> tuple[Leaf, frozenset[Column]] | None:
        """A leaf that these predicates allow to be taken apart, and its columns in which they reject NULL."""
        leaves = {leaf.number: leaf for leaf in block.leaves if leaf.source and leaf.source.kind in _OPENING}
        if not leaves or not parts:
            return None
        touching = [part for part in parts if any(leaf_number(column) in leaves for column in columns_of(part))]
        rejected = frozenset[Column]().union(*map(self._rejected, touching))
        for number, leaf in leaves.items():
            mine = frozenset(column for column in rejected if leaf_number(column) == number)
            if _is_set(leaf):
                if any(_enters(part, leaf) for part in touching) or self._rejects_within(leaf, mine):
                    return leaf, mine
            elif mine:
                return leaf, mine
        return None

    def _rejects_within(self, leaf: Leaf, rejected: frozenset[Column]) -> bool:
        """True if a branch of a set operation pads rows with a NULL that is rejected."""
        assert leaf.source is not None
        columns = [leaf.source.names[own_name(column)] for column in rejected]
        return any(self._padded(branch, columns) is not None for branch in leaf.source.blocks) if columns else False

    def _padded(self, block: Block, columns: Iterable[Column]) -> tuple[Leaf, frozenset[Column]] | None:
        """A leaf of padded rows, in none of which these columns of the block are all filled."""
        return _padded_leaf(
            block, frozenset[Column]().union(*(strict_columns(block.columns[column]) for column in columns))
        )

    def _rejecting(self, block: Block, columns: Sequence[Column]) -> Block:
        """The block for readers that take no row with a NULL in one of these columns."""
        padded = self._padded(block, columns)
        while padded is not None:
            block = self._opened(block, *padded)
            padded = self._padded(block, columns)
        return block

    def _rejected(self, predicate: Expr) -> frozenset[Column]:
        """Columns for which a NULL keeps the predicate from being true."""
        source = self._semi_joins.get(predicate.template) if isinstance(predicate, Call) else None
        if source is None or not isinstance(predicate, Call):
            return rejected_by((predicate,))
        known = rejected_by(source.on)
        pairs = zip(source.args, predicate.args, strict=True)
        return frozenset(arg for inner, arg in pairs if inner in known and isinstance(arg, Column))

    def _opened(self, block: Block, leaf: Leaf, rejected: frozenset[Column] = frozenset()) -> Block:
        """The block with a leaf taken apart. rejected: columns of it in which a NULL passes no predicate."""
        assert leaf.source is not None
        source = leaf.source
        if source.kind == "set":
            return self._pushed(block, leaf, source, rejected)
        if source.kind == "full":
            inner = self._less_than_full(source, rejected)
        else:
            inner, columns = self.renumbered(source.blocks[0])
            exprs: dict[Column, Expr] = {**columns, **dict(zip(_columns(source.args), leaf.args, strict=True))}
            on = tuple(substitute(part, exprs) for part in source.on)
            inner = replace(inner, predicates=(*inner.predicates, *on))
        return spliced(block, leaf.number, inner, leaf_exprs(leaf, block, inner))

    def _less_than_full(self, source: FactorSource, rejected: frozenset[Column]) -> Block:
        """A full join of which the rows padded on some side are rejected."""
        left, mine = self.renumbered(source.blocks[0])
        right, theirs = self.renumbered(source.blocks[1])
        on = [substitute(part, {**mine, **theirs}) for part in source.on]
        non_null = {source.names[own_name(column)] for column in rejected}
        if non_null & left.columns.keys() and non_null & right.columns.keys():
            both = Block(left.leaves + right.leaves, left.predicates, {**left.columns, **right.columns})
            return self.restricted(both, (*right.predicates, *on))
        if non_null & left.columns.keys():
            return self.dependent("left", left, right, on)
        return self.dependent("left", right, left, on)

    def _pushed(self, block: Block, leaf: Leaf, source: FactorSource, rejected: frozenset[Column]) -> Block:
        """The block with its predicates over a set operation inside of the branches."""
        own = [p for p in block.predicates if _enters(p, leaf)]
        filled = [source.names[own_name(column)] for column in rejected]
        rest = tuple(p for p in block.predicates if p not in own)
        branches = []
        assert source.node is not None
        for branch in source.blocks:
            below, _ = self.renumbered(branch)
            mapping = {Column(f"{leaf.number}:{own_name_}", c.type): below.columns[c] for own_name_, c in
                       source.names.items()}  # fmt: skip
            parts = [part for p in own for part in parts_of(substitute(p, mapping))]
            branches.append(self._rejecting(self.restricted(below, parts), filled))
        columns = [tuple(b.columns[c] for b in branches) for c in source.node.columns]
        united = self.set_operation(source.node, branches, columns)
        return spliced(replace(block, predicates=rest), leaf.number, united, leaf_exprs(leaf, block, united))

    # ---- joins

    def dependent(self, kind: str, left: Block, right: Block, on: Sequence[Expr]) -> Block:
        """Left, semi and anti joins: for a row of the left, the rows of the right that fit."""
        if kind == "semi":
            left, on = self._divided(left, on)
        right, linking = self._divided(right, on)
        right, linking = self._filled(right, linking)
        if kind == "semi":
            left, linking = self.restricted_with(left, _carried(right, linking), linking)
        right = _without_implied(left, right, linking)
        if right.empty or any(part == FALSE for part in linking):
            return _without_partners(kind, left, right)
        written = self.write(right, linking)
        digest, args = linked(kind, right, written, (), linking)
        source = FactorSource(kind, (right,), {}, tuple(linking), args)
        if kind == "left":
            padded = self.leaf(digest, written.texts(right.columns), args, source)
            return Block(left.leaves + padded.leaves, left.predicates, {**left.columns, **padded.columns})
        if kind == "semi":
            self._semi_joins.setdefault(digest, source)
        return self.restricted(left, (Call(kind, args, digest, "BOOLEAN"),))

    def _filled(self, right: Block, linking: list[Expr]) -> tuple[Block, list[Expr]]:
        """A right side without padded rows of which a NULL finds no partner, and the conditions that say so."""
        marks = {Column(f"mark {i}", other.type): other for i, other in enumerate(linking)}
        block = replace(right, columns={**right.columns, **marks})
        while True:
            linking = [block.columns[mark] for mark in marks]
            opened = _padded_leaf(block, rejected_by(tuple(linking)))
            if opened is None:
                return replace(block, columns={c: e for c, e in block.columns.items() if c not in marks}), linking
            block = self._opened(block, *opened)

    def _divided(self, side: Block, on: Sequence[Expr]) -> tuple[Block, list[Expr]]:
        """A side under those conditions that read nothing else, and the other conditions."""
        inner = leaf_numbers(side)
        own = [part for part in on if all(leaf_number(column) in inner for column in columns_of(part))]
        return self.restricted_with(side, own, [part for part in on if part not in own])

    def without_own_partners(self, block: Block) -> Block:
        """The block without semi joins whose partner each row has in itself (semi-join reductions)."""
        semis = [p for p in block.predicates if isinstance(p, Call) and p.template in self._semi_joins]
        if not semis:
            return block
        classes, others = equal_columns(block.predicates)
        name = merged_names(str, classes)
        texts = {text_of(predicate, name) for predicate in others}
        implied = {semi for semi in semis if self._is_own_partner(semi, block, texts, classes)}
        return replace(block, predicates=tuple(p for p in block.predicates if p not in implied)) if implied else block

    def _is_own_partner(
        self, semi: Call, block: Block, texts: set[str], classes: Mapping[Column, tuple[Column, ...]]
    ) -> bool:
        """True if the factors of a semi join's right side are among the block's own, as restricted and so joined.

        texts: texts of the block's predicates. classes: its columns that are equal, and so not NULL.
        """
        name = merged_names(str, classes)
        source = self._semi_joins[semi.template]
        right = source.blocks[0]
        mine = {(leaf.number, leaf.args) for leaf in block.leaves}
        if not mine.issuperset((leaf.number, leaf.args) for leaf in right.leaves):
            return False
        outer = dict(zip(_columns(source.args), semi.args, strict=True))
        for part in (*right.predicates, *(substitute(part, outer) for part in source.on)):
            if is_volatile(part) or not (_is_equated(part, classes) or text_of(part, name) in texts):
                return False
        return True

    def loose(self, block: Block) -> Block:
        """A block whose rows may repeat without effect: operators that only repeat or drop rows join it."""
        while len(block.leaves) <= MOST_LOOSE:
            semi = next((p for p in block.predicates if isinstance(p, Call) and p.template in self._semi_joins), None)
            leaf = _distinct_leaf(block)
            if semi is not None:
                block = self._joined(block, semi)
            elif leaf is not None:
                block = self._opened(block, leaf)
            else:
                return block
        return block

    def _joined(self, block: Block, semi: Call) -> Block:
        """The block with a semi join as an inner one."""
        source = self._semi_joins[semi.template]
        right, columns = self.renumbered(source.blocks[0])
        exprs: dict[Column, Expr] = {**columns, **dict(zip(_columns(source.args), semi.args, strict=True))}
        on = tuple(substitute(part, exprs) for part in source.on)
        rest = tuple(p for p in block.predicates if p != semi)
        both = Block(block.leaves + right.leaves, rest, block.columns)
        return self.restricted(both, (*right.predicates, *on))

    def renumbered(self, block: Block) -> tuple[Block, dict[Column, Column]]:
        """The same block with leaves, and so columns, of other numbers; and the new columns by the old."""
        new = {leaf.number: self.new_number() for leaf in block.leaves}
        args = (arg for leaf in block.leaves for arg in leaf.args)
        used = columns_of_all((*block.predicates, *block.columns.values(), *args))
        columns = {
            c: Column(f"{new[leaf_number(c)]}:{own_name(c)}", c.type) for c in used if leaf_number(c) in new
        }  # fmt: skip
        leaves = tuple(
            replace(x, number=new[x.number], args=tuple(substitute(a, columns) for a in x.args)) for x in block.leaves
        )
        predicates = tuple(substitute(p, columns) for p in block.predicates)
        outputs = {c: substitute(e, columns) for c, e in block.columns.items()}
        return Block(leaves, predicates, outputs), columns

    # ---- set operations

    def set_operation(self, node: SetOp, branches: Sequence[Block], columns: Sequence[tuple[Expr, ...]]) -> Block:
        """columns: by place, what each branch puts out."""
        blocks = []
        for place, branch in enumerate(branches):
            outputs = {c: exprs[place] for c, exprs in zip(node.columns, columns, strict=True)}
            blocks.append(self.needed(Block(branch.leaves, branch.predicates, outputs), node.columns))
        if node.kind == "union" and node.all:
            blocks = [block for block in blocks if not block.empty] or blocks[:1]
            if len(blocks) == 1:
                return blocks[0]
        if not node.all:
            blocks = [self.loose(block) for block in blocks]
        pairs = []
        for block in blocks:
            written = self.write(block, [block.columns[column] for column in node.columns])
            texts = [f"{written.text(block.columns[c])}:{c.type}" for c in node.columns]
            pairs.append((written.core, texts))
        fixed = 1 if node.kind == "except" else 0
        ordered = pairs[:fixed] + sorted(pairs[fixed:])
        positions = [repr([texts[i] for _, texts in ordered]) for i in range(len(node.columns))]
        compared = () if node.kind == "union" and node.all else sorted(set(positions))
        digest = digest_of(node.kind, str(node.all), *(core for core, _ in ordered), "by", *compared)
        source = FactorSource("set", tuple(blocks), {}, node=node)
        return self.leaf(digest, dict(zip(node.columns, positions, strict=True)), source=source)


_OPENING = ("left", "full", "set")


def _padded_leaf(block: Block, rejected: frozenset[Column]) -> tuple[Leaf, frozenset[Column]] | None:
    """A leaf of padded rows that has some of these columns, and which."""
    if not rejected:
        return None
    for leaf in block.leaves:
        mine = frozenset(column for column in rejected if leaf_number(column) == leaf.number)
        if mine and leaf.source is not None and leaf.source.kind in ("left", "full"):
            return leaf, mine
    return None


def _enters(predicate: Expr, leaf: Leaf) -> bool:
    """True if a predicate is to stand in the branches of a set operation."""
    if isinstance(predicate, Call) and predicate.op in ("semi", "anti"):
        return False  # stays a join of this block, which may yet become an inner one
    return only(predicate, {leaf.number}) and not is_volatile(predicate)


def _is_set(leaf: Leaf) -> bool:
    return leaf.source is not None and leaf.source.kind == "set"


def _distinct_leaf(block: Block) -> Leaf | None:
    """Groups of which only the keys are read."""
    groups = [leaf for leaf in block.leaves if leaf.source and leaf.source.kind == "distinct"]
    if not groups:
        return None
    args = (arg for leaf in block.leaves for arg in leaf.args)
    used = columns_of_all((*block.predicates, *block.columns.values(), *args))
    for leaf in groups:
        names = leaf.source.names if leaf.source else {}
        if all(own_name(column) in names for column in used if leaf_number(column) == leaf.number):
            return leaf
    return None


def _is_equated(predicate: Expr, classes: Mapping[Column, tuple[Column, ...]]) -> bool:
    """True for an equality of two columns of a class."""
    pair = equated(predicate)
    return pair is not None and pair[1] in classes.get(pair[0], ())


def _columns(exprs: Exprs) -> tuple[Column, ...]:
    return tuple(expr for expr in exprs if isinstance(expr, Column))


def _without_partners(kind: str, left: Block, right: Block) -> Block:
    """A join whose right side has no rows."""
    if kind == "semi":
        return replace(left, predicates=(*left.predicates, FALSE))
    if kind == "anti":
        return left
    nulls = {column: Literal(f"CAST(NULL AS {column.type})", column.type) for column in right.columns}
    return replace(left, columns={**left.columns, **nulls})


def linked(
    kind: str, right: Block, written: Written, fixed: Sequence[Expr], linking: list[Expr]
) -> tuple[str, tuple[Expr, ...]]:
    """The digest of a dependent join, and the columns that it depends on. Brings `linking` into canonical order."""
    inner = frozenset(leaf_numbers(right))
    args: dict[Expr, int] = {}

    def name(column: Column) -> str:
        if leaf_number(column) in inner:
            return written.name(column)
        return f"?{args.setdefault(column, len(args))}"

    anonymous = Written(written.core, lambda c: written.name(c) if leaf_number(c) in inner else "?")
    linking.sort(key=anonymous.text)
    condition = [text_of(part, name) for part in (*fixed, *linking)]
    digest = digest_of(kind, written.core, *condition[: len(fixed)], *sorted(condition[len(fixed) :]))
    return digest, tuple(args)


def _partners(linking: Exprs, inner: frozenset[int]) -> dict[Column, Column]:
    """By column of the right side one of the left that the conditions equate it with."""
    found: dict[Column, Column] = {}
    for pair in map(equated, linking):
        if pair is not None and (leaf_number(pair[0]) in inner) != (leaf_number(pair[1]) in inner):
            mine, theirs = pair if leaf_number(pair[0]) in inner else pair[::-1]
            found.setdefault(mine, theirs)
    return found


def _over_left(right: Block, linking: Exprs) -> list[tuple[Expr, Expr]]:
    """Predicates of the right side that can be said of the left columns it is equated with: (as is, said so)."""
    partners = _partners(linking, frozenset(leaf_numbers(right)))
    if not partners or not right.predicates:
        return []
    classes, others = equal_columns(right.predicates)
    known: dict[Column, Expr] = dict(partners)
    for column, partner in partners.items():
        known.update(dict.fromkeys(classes.get(column, ()), partner))
    return [(p, substitute(p, known)) for p in others if columns_of(p) and columns_of(p) <= known.keys()]


def _carried(right: Block, linking: Exprs) -> list[Expr]:
    """The conditions on a semi join's partners that hold for the row itself, too."""
    return [over_left for predicate, over_left in _over_left(right, linking) if not is_volatile(predicate)]


def _without_implied(left: Block, right: Block, linking: Sequence[Expr]) -> Block:
    """The right side without predicates that the left one fulfils in the columns that they are joined by."""
    conditions = _over_left(right, linking)
    if not conditions:
        return right
    classes, others = equal_columns(left.predicates)
    name = merged_names(str, classes)
    known = {text_of(predicate, name) for predicate in (*others, *linking)}
    implied = {predicate for predicate, over_left in conditions if text_of(over_left, name) in known}
    return replace(right, predicates=tuple(p for p in right.predicates if p not in implied)) if implied else right
