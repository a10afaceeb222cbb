"""From relations to blocks: the normal form that forgets how rows are computed.

:mod:`qoop.planner.identity.provenance` describes how each operator becomes part of a block. Equivalent forms are
brought into one here:

- a left or full join under a predicate that no padded row passes becomes an inner one, whose factors join the block;
- predicates over the keys of a grouping, or over what all windows partition by, stand above it;
- predicates over the columns of a set operation stand in its branches, and branches without rows leave a UNION ALL;
- conditions of a semi join on the row alone stand next to it, and those on its partners follow for the row;
- where repeated rows do not matter (below DISTINCT, min, max, INTERSECT, EXISTS) a semi join is an inner one;
- an aggregate without keys is one row a value, each over the rows that its FILTER lets through;
- unused columns of single rows and windows are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from qoop.planner.algebra.canonical_text import digest_of, leaf_number, own_name, scan_digest, short, text_of
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
from qoop.planner.algebra.fold_constants import simplify
from qoop.planner.algebra.interning import own_part
from qoop.planner.algebra.properties import equated, strict_columns, unique_keys
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
from qoop.planner.algebra.two_phase import whole_of
from qoop.planner.identity.block import (
    Block,
    FactorSource,
    Leaf,
    Writer,
    Written,
    equal_columns,
    leaf_numbers,
    merged_names,
    only,
    parts_of,
    spliced,
)
from qoop.planner.identity.keyed import Keys, has_one_partner, own_names
from qoop.planner.rules.outer_to_inner import rejected_by
from qoop.planner.rules.semi_joins import ignores_duplicates

Exprs = Iterable[Expr]


class Blocks:
    """Blocks of the relations of one query; relations that differ in what blocks forget have the same block.

    Joins in another order, with other exchanges, are the same operator over the same blocks, and are looked at once.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._known: dict[int, tuple[Relation, Block]] = {}
        self._made: dict[Hashable, Block] = {}
        self._same: dict[Hashable, Block] = {}
        self._scans: dict[Column, int] = {}
        self._tables: dict[str, str] = {}  # by digest of the leaf
        self._writer = Writer()
        self._parts: dict[int, tuple[Expr, tuple[Expr, ...]]] = {}
        self._semi_joins: dict[str, FactorSource] = {}

    def of(self, node: Relation) -> Block:
        """The block of a relation."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = (node, self._found(node))
        return known[1]

    def write(self, block: Block, marks: Iterable[Expr]) -> Written:
        """See :meth:`Writer.write`."""
        return self._writer.write(block, marks)

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

    def with_partners(self, block: Block, keys: Keys) -> Block:
        """A block of as many rows: semi joins in which a row has one partner at most are inner ones."""

        def of_leaf(leaf: Leaf) -> list[frozenset[str]]:
            return own_names(keys.get(self._tables.get(leaf.digest, ""), ()))

        for semi in block.predicates:
            source = self._semi_joins.get(semi.template) if isinstance(semi, Call) else None
            if source is not None and isinstance(semi, Call) and has_one_partner(source.blocks[0], source.on, of_leaf):
                block = self._joined(block, semi)
        return block

    def _found(self, node: Relation) -> Block:
        """The block of the same operator over the same blocks, made if there was none."""
        if isinstance(node, Exchange | Shared | Scan):
            return self._make(node)
        key = (type(node), own_part(node), *(id(self.of(below)) for below in node.inputs))
        found = self._made.get(key)
        if found is None:
            found = self._make(node)
            if isinstance(node, Join):
                found = self._same.setdefault(found.content, found)
            self._made[key] = found
        return found

    def _make(self, node: Relation) -> Block:
        match node:
            case Scan():
                return self._scan(node)
            case Values():
                return self._values(node)
            case Opaque():
                names = {column: str(i) for i, column in enumerate(node.columns)}
                return self._leaf(digest_of("opaque", node.sql, repr(sorted(node.tables))), names)
            case Exchange() | Shared():
                return self.of(node.input)
            case Filter():
                below = self.of(node.input)
                return self._restricted(below, self._parts_in(below, node.predicates))
            case Project():
                below = self.of(node.input)
                return replace(below, columns={column: below.expr(expr) for column, expr in node.exprs})
            case Join():
                return self._join(node)
            case Aggregate():
                return self._aggregate(node) if node.keys or node.grouping_sets is not None else self._totals(node)
            case Window():
                return self._window(node)
            case Sort():
                return self._sort(node)
            case Limit():
                below = self.of(node.input)
                written = self.write(below, below.columns.values())
                digest = digest_of("limit", str(node.limit), str(node.offset), written.core)
                block = self._leaf(digest, _texts(written, below.columns))
                return _emptied(block) if below.empty or node.limit == 0 else block
            case SetOp():
                columns = zip(*(branch.columns for branch in node.branches), strict=True)
                branches = [self.of(branch) for branch in node.branches]
                exprs = [tuple(b.columns[c] for b, c in zip(branches, cs, strict=True)) for cs in columns]
                return self._set_op(node, branches, exprs)

    def _parts_in(self, block: Block, predicates: Exprs) -> list[Expr]:
        """The simple conjuncts of predicates over the relation's columns, over the leaves of its block."""
        parts = [part for predicate in predicates for part in self._split(predicate)]
        moved: list[Expr] = []
        for part in parts:
            expr = block.expr(part)
            plain = all(isinstance(block.columns.get(column), Column) for column in columns_of(part))
            moved.extend((expr,) if plain else parts_of(expr))
        return moved

    def _split(self, predicate: Expr) -> tuple[Expr, ...]:
        known = self._parts.get(id(predicate))
        if known is None:
            known = self._parts[id(predicate)] = (predicate, parts_of(predicate))
        return known[1]

    def _leaf(
        self,
        digest: str,
        texts: Mapping[Column, str],
        args: tuple[Expr, ...] = (),
        source: FactorSource | None = None,
        single: bool = False,
    ) -> Block:
        """A block of a single leaf, whose columns have these texts as own names."""
        number = next(self._numbers)
        columns = {column: Column(f"{number}:{short(text)}", column.type) for column, text in texts.items()}
        if source is not None:
            inner = source.blocks[0].columns.keys() if source.kind in ("rows", "distinct") else columns.keys()
            names = {own_name(column): outer for outer, column in columns.items() if outer in inner}
            source = replace(source, names=names)
        return Block((Leaf(number, digest, args, source, single),), (), columns)

    def _scan(self, node: Scan) -> Block:
        """A leaf. Scans that have a column in common are one place of the query, whichever columns they read."""
        known = (self._scans[column] for _, column in node.fields if column in self._scans)
        number = next(known, None)
        number = next(self._numbers) if number is None else number
        for _, column in node.fields:
            self._scans.setdefault(column, number)
        columns = {column: Column(f"{number}:{short(own)}", column.type) for own, column in node.fields}
        digest = scan_digest(node.table, node.version)
        self._tables[digest] = node.table.lower()
        return Block((Leaf(number, digest),), (), columns)

    def _values(self, node: Values) -> Block:
        if not node.columns and len(node.rows) == 1:
            return Block((), (), {})
        rows = sorted(repr([text_of(item, own_name) for item in row]) for row in node.rows)
        block = self._leaf(digest_of("values", *rows), {column: str(i) for i, column in enumerate(node.columns)})
        return block if node.rows else replace(block, predicates=(FALSE,))

    # ---- predicates

    def _restricted(self, block: Block, parts: Sequence[Expr]) -> Block:
        """The block under more predicates, which are simple conjuncts over its leaves."""
        block = replace(block, predicates=tuple(dict.fromkeys((*block.predicates, *parts))))
        opened = self._to_open(block, parts)
        while opened is not None:
            block = self._opened(block, *opened)
            opened = self._to_open(block, block.predicates)
        return block

    def _restricted_with(self, block: Block, parts: Sequence[Expr], others: Sequence[Expr]) -> tuple[Block, list[Expr]]:
        """As `_restricted`; also other expressions over the block, as they read it afterwards."""
        if not parts:
            return block, list(others)
        marks = {Column(f"mark {i}", other.type): other for i, other in enumerate(others)}
        marked = self._restricted(replace(block, columns={**block.columns, **marks}), parts)
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
            inner, columns = self._renumbered(source.blocks[0])
            exprs: dict[Column, Expr] = {**columns, **dict(zip(_columns(source.args), leaf.args, strict=True))}
            on = tuple(substitute(part, exprs) for part in source.on)
            inner = replace(inner, predicates=(*inner.predicates, *on))
        return spliced(block, leaf.number, inner, _exprs_of(leaf, block, inner))

    def _less_than_full(self, source: FactorSource, rejected: frozenset[Column]) -> Block:
        """A full join of which the rows padded on some side are rejected."""
        left, mine = self._renumbered(source.blocks[0])
        right, theirs = self._renumbered(source.blocks[1])
        on = [substitute(part, {**mine, **theirs}) for part in source.on]
        non_null = {source.names[own_name(column)] for column in rejected}
        if non_null & left.columns.keys() and non_null & right.columns.keys():
            both = Block(left.leaves + right.leaves, left.predicates, {**left.columns, **right.columns})
            return self._restricted(both, (*right.predicates, *on))
        if non_null & left.columns.keys():
            return self._dependent("left", left, right, on)
        return self._dependent("left", right, left, on)

    def _pushed(self, block: Block, leaf: Leaf, source: FactorSource, rejected: frozenset[Column]) -> Block:
        """The block with its predicates over a set operation inside of the branches."""
        own = [p for p in block.predicates if _enters(p, leaf)]
        filled = [source.names[own_name(column)] for column in rejected]
        rest = tuple(p for p in block.predicates if p not in own)
        branches = []
        assert source.node is not None
        for branch in source.blocks:
            below, _ = self._renumbered(branch)
            mapping = {Column(f"{leaf.number}:{own_name_}", c.type): below.columns[c] for own_name_, c in
                       source.names.items()}  # fmt: skip
            parts = [part for p in own for part in parts_of(substitute(p, mapping))]
            branches.append(self._rejecting(self._restricted(below, parts), filled))
        columns = [tuple(b.columns[c] for b in branches) for c in source.node.columns]
        united = self._set_op(source.node, branches, columns)
        return spliced(replace(block, predicates=rest), leaf.number, united, _exprs_of(leaf, block, united))

    # ---- joins

    def _join(self, node: Join) -> Block:
        if node.kind == "right":
            node = Join(node.right, node.left, "left", node.on)
        left, right = self.of(node.left), self.of(node.right)
        if node.kind in ("semi", "anti", "mark"):
            read = columns_of_all(node.on)
            right = self._loose(self.needed(right, [column for column in node.right.columns if column in read]))
        if not leaf_numbers(left).isdisjoint(leaf_numbers(right)):
            right, _ = self._renumbered(right)  # both sides read one shared subplan
        both = Block(left.leaves + right.leaves, left.predicates, {**left.columns, **right.columns})
        on = self._parts_in(both, node.on)
        if node.kind == "inner":
            return self._without_own_partners(self._restricted(both, (*right.predicates, *on)))
        if node.kind == "full":
            return self._full(left, right, on)
        if node.kind == "mark":
            return self._marked(node, left, right, [both.expr(predicate) for predicate in node.on])
        return self._dependent(node.kind, left, right, on)

    def _without_own_partners(self, block: Block) -> Block:
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

    def _marked(self, node: Join, left: Block, right: Block, on: list[Expr]) -> Block:
        parts = [part for predicate in on[1:] for part in parts_of(predicate)]
        inner = leaf_numbers(right)
        own = [part for part in parts if only(part, inner)]
        rest = [on[0], *(part for part in parts if part not in own)]
        right, (member, *linking) = self._restricted_with(right, own, rest)
        digest, args = _linked("mark", right, self.write(right, (member, *linking)), (member,), linking)
        assert node.mark is not None
        return replace(left, columns={**left.columns, node.mark: Call("mark", args, digest, "BOOLEAN")})

    def _dependent(self, kind: str, left: Block, right: Block, on: Sequence[Expr]) -> Block:
        """Left, semi and anti joins: for a row of the left, the rows of the right that fit."""
        if kind == "semi":
            left, on = self._divided(left, on)
        right, linking = self._divided(right, on)
        right, linking = self._filled(right, linking)
        if kind == "semi":
            left, linking = self._restricted_with(left, _carried(right, linking), linking)
        right = _without_implied(left, right, linking)
        if right.empty or any(part == FALSE for part in linking):
            return _without_partners(kind, left, right)
        written = self.write(right, linking)
        digest, args = _linked(kind, right, written, (), linking)
        source = FactorSource(kind, (right,), {}, tuple(linking), args)
        if kind == "left":
            padded = self._leaf(digest, _texts(written, right.columns), args, source)
            return Block(left.leaves + padded.leaves, left.predicates, {**left.columns, **padded.columns})
        if kind == "semi":
            self._semi_joins.setdefault(digest, source)
        return self._restricted(left, (Call(kind, args, digest, "BOOLEAN"),))

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
        return self._restricted_with(side, own, [part for part in on if part not in own])

    def _full(self, left: Block, right: Block, on: Sequence[Expr]) -> Block:
        sides = sorted(((self.write(side, on), side) for side in (left, right)), key=lambda pair: pair[0].core)
        number_to_side = {n: (f"{i}/", written) for i, (written, side) in enumerate(sides) for n in leaf_numbers(side)}

        def name(column: Column) -> str:
            prefix, written = number_to_side[leaf_number(column)]
            return prefix + written.name(column)

        condition = sorted(text_of(part, name) for part in on)
        digest = digest_of("full", *(written.core for written, _ in sides), *condition)
        texts = {
            c: f"{i}/{written.text(expr)}"
            for i, (written, side) in enumerate(sides)
            for c, expr in side.columns.items()
        }
        return self._leaf(digest, texts, source=FactorSource("full", (left, right), {}, tuple(on)))

    def _loose(self, block: Block) -> Block:
        """A block whose rows may repeat without effect: operators that only repeat or drop rows join it."""
        while True:
            semi = next((p for p in block.predicates if isinstance(p, Call) and p.template in self._semi_joins), None)
            leaf = _distinct_leaf(block)
            if semi is not None:
                block = self._joined(block, semi)
            elif leaf is not None:
                block = self._opened(block, leaf)
            else:
                return block

    def _joined(self, block: Block, semi: Call) -> Block:
        """The block with a semi join as an inner one."""
        source = self._semi_joins[semi.template]
        right, columns = self._renumbered(source.blocks[0])
        exprs: dict[Column, Expr] = {**columns, **dict(zip(_columns(source.args), semi.args, strict=True))}
        on = tuple(substitute(part, exprs) for part in source.on)
        rest = tuple(p for p in block.predicates if p != semi)
        both = Block(block.leaves + right.leaves, rest, block.columns)
        return self._restricted(both, (*right.predicates, *on))

    def _renumbered(self, block: Block) -> tuple[Block, dict[Column, Column]]:
        """The same block with leaves, and so columns, of other numbers; and the new columns by the old."""
        new = {leaf.number: next(self._numbers) for leaf in block.leaves}
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

    # ---- closed operators

    def _aggregate(self, node: Aggregate) -> Block:
        below = self.of(node.input)
        distinct = not node.aggregations and node.grouping_sets is None
        once = node.grouping_sets is None and any(key <= frozenset(node.keys) for key in unique_keys(node.input))
        early = self._early_groups(node, below)
        aggregations = node.aggregations
        if early is not None:
            aggregations, below, once = *early, False
        if distinct and once:
            return replace(below, columns={key: below.columns[key] for key in node.keys})
        used = {*node.keys, *columns_of_all(expr for agg in aggregations for expr in agg.exprs)}
        read = sorted(used, key=lambda c: c.name)
        below = self.needed(below, read)
        if ignores_duplicates(node):
            below = self._loose(below)
        if below.empty and node.keys and node.grouping_sets is None:
            return _emptied(self._leaf("", dict.fromkeys(node.columns, "")))
        keys = {below.columns[key]: key for key in _common_keys(node)}
        below, lifted = _lifted(below, keys)
        below = self.needed(below, read)
        written = self.write(below, below.columns.values())
        texts = _key_texts(node, below, written)
        sets = "" if node.grouping_sets is None else repr(sorted(sorted(texts[k] for k in s) for s in
                                                                 node.grouping_sets))  # fmt: skip
        digest = digest_of("group", written.core, sets, *sorted(set(texts.values())))
        values = {agg.column: _aggregation_text(agg, below, written, texts) for agg in aggregations}
        kind = "rows" if once else "distinct"  # for readers of keys alone, groups are distinct rows
        made = {short(values[agg.column]): agg for agg in aggregations}
        source = FactorSource(kind, (below,), {}, values=made) if node.grouping_sets is None else None
        block = self._leaf(digest, {**{k: f"key {text}" for k, text in texts.items()}, **values}, source=source)
        return self._above(block, lifted, {expr: block.columns[key] for expr, key in keys.items()})

    def _early_groups(self, node: Aggregate, below: Block) -> tuple[tuple[Aggregation, ...], Block] | None:
        """An aggregate of groups' aggregates as one of the rows that those were made of, over the block of these.

        Each group is read as often as each of its rows would have been (Yan and Larson, "Eager Aggregation and Lazy
        Aggregation", VLDB 1995). None if the aggregations are not the two phases of one, or more reads the values.
        """
        leaf = _grouped_leaf(node, below)
        if leaf is None or leaf.source is None:
            return None
        values = {column: leaf.source.values.get(own_name(expr)) for column, expr in below.columns.items()
                  if isinstance(expr, Column) and leaf_number(expr) == leaf.number}  # fmt: skip
        parts = {column: agg for column, agg in values.items() if agg is not None}
        whole = [agg if agg.call.op == "grouping" else whole_of(agg, parts) for agg in node.aggregations]
        found = tuple(agg for agg in whole if agg is not None)
        if len(found) < len(whole):
            return None
        inner, _ = self._renumbered(leaf.source.blocks[0])
        kept = replace(below, columns={key: below.columns[key] for key in node.keys})
        opened = spliced(kept, leaf.number, inner, _exprs_of(leaf, kept, inner))
        read = columns_of_all(expr for agg in found if agg.call.op != "grouping" for expr in agg.exprs)
        columns = {**{column: inner.columns[column] for column in read}, **opened.columns}
        return found, replace(opened, columns=columns)

    def _above(self, block: Block, lifted: Sequence[Expr], columns: Mapping[Expr, Expr]) -> Block:
        """The block under predicates that were lifted out of it."""
        if not lifted:
            return block
        mapping = {old: new for old, new in columns.items() if isinstance(old, Column)}
        return self._restricted(block, [substitute(part, mapping) for part in lifted])

    def _totals(self, node: Aggregate) -> Block:
        """Aggregates without keys: a row each, over the rows that their FILTER lets through."""
        whole = Block((), (), {})
        for agg in node.aggregations:
            one = self._total(node, agg)
            whole = Block(whole.leaves + one.leaves, (), {**whole.columns, **one.columns})
        return whole

    def _total(self, node: Aggregate, agg: Aggregation) -> Block:
        below = self.of(node.input)
        if agg.filter is not None:
            below = self._restricted(below, self._parts_in(below, (agg.filter,)))
        below = self.needed(below, sorted(columns_of(agg.call), key=lambda c: c.name))
        if ignores_duplicates(replace(node, aggregations=(agg,))):
            below = self._loose(below)
        written = self.write(below, below.columns.values())
        text = f"{written.text(below.expr(agg.call))} {agg.distinct} {agg.ordered}"
        return self._leaf(digest_of("total", written.core, text), {agg.column: "value"}, single=True)

    def _window(self, node: Window) -> Block:
        """Windows see all rows of their input, so it is closed first; stacked windows see the same rows."""
        below = self.of(node.input)
        shared = [frozenset(map(below.expr, call.partition_by)) for call in node.calls]
        parted = frozenset.intersection(*shared) if shared else frozenset()
        base, lifted = _lifted(below, {expr: expr for expr in parted})
        columns: Mapping[Expr, Expr] = {}
        if not _is_rows(base):
            written = self.write(base, base.columns.values())
            exprs = dict(base.columns.items())
            keys = {Column(f"by {text_of(e, str)}", e.type): e for e in parted}
            base = replace(base, columns={**exprs, **keys})
            source = FactorSource("rows", (base,), {})
            closed = self._leaf("rows " + written.core, _texts(written, base.columns), source=source)
            columns = {expr: closed.columns[column] for column, expr in base.columns.items()}
            base = replace(closed, columns={c: e for c, e in closed.columns.items() if c in exprs})
        else:
            columns = {expr: expr for expr in parted}
        number = base.leaves[0].number
        added = {
            call.column: Column(f"{number}:over {short(text_of(base.expr(call.call), own_name))}", call.column.type)
            for call in node.calls
        }
        block = replace(base, columns={**base.columns, **added})
        return self._above(block, lifted, columns)

    def _sort(self, node: Sort) -> Block:
        below = self.of(node.input)
        written = self.write(below, below.columns.values())
        keys = (f"{written.text(below.expr(k.expr))} {k.descending} {k.nulls_first}" for k in node.keys)
        block = self._leaf(digest_of("sort", written.core, *keys), _texts(written, below.columns))
        return _emptied(block) if below.empty else block

    def _set_op(self, node: SetOp, branches: Sequence[Block], columns: Sequence[tuple[Expr, ...]]) -> Block:
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
            blocks = [self._loose(block) for block in blocks]
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
        return self._leaf(digest, dict(zip(node.columns, positions, strict=True)), source=source)


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


def _grouped_leaf(node: Aggregate, below: Block) -> Leaf | None:
    """Groups whose values all aggregations read, and nothing else does."""
    measures = (agg for agg in node.aggregations if agg.call.op != "grouping")
    read = {leaf_number(column) for agg in measures for column in columns_of_all(map(below.expr, agg.exprs))}
    leaf = next((leaf for leaf in below.leaves if read == {leaf.number}), None)
    if leaf is None or leaf.source is None or not leaf.source.values:
        return None
    args = (arg for other in below.leaves for arg in other.args)
    others = columns_of_all((*below.predicates, *(below.columns[key] for key in node.keys), *args))
    keys = leaf.source.names
    return leaf if all(own_name(c) in keys for c in others if leaf_number(c) == leaf.number) else None


def _is_equated(predicate: Expr, classes: Mapping[Column, tuple[Column, ...]]) -> bool:
    """True for an equality of two columns of a class."""
    pair = equated(predicate)
    return pair is not None and pair[1] in classes.get(pair[0], ())


def _columns(exprs: Exprs) -> tuple[Column, ...]:
    return tuple(expr for expr in exprs if isinstance(expr, Column))


def _exprs_of(leaf: Leaf, block: Block, inner: Block) -> dict[Column, Expr]:
    """The columns of a leaf, as expressions of the block that replaces it."""
    assert leaf.source is not None
    args = (arg for other in block.leaves for arg in other.args)
    used = columns_of_all((*block.predicates, *block.columns.values(), *args))
    names = leaf.source.names
    return {c: inner.columns[names[own_name(c)]] for c in used if leaf_number(c) == leaf.number}


def _emptied(block: Block) -> Block:
    return replace(block, predicates=(FALSE,))


def _without_partners(kind: str, left: Block, right: Block) -> Block:
    """A join whose right side has no rows."""
    if kind == "semi":
        return replace(left, predicates=(*left.predicates, FALSE))
    if kind == "anti":
        return left
    nulls = {column: Literal(f"CAST(NULL AS {column.type})", column.type) for column in right.columns}
    return replace(left, columns={**left.columns, **nulls})


def _linked(
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


def _lifted(below: Block, keys: Mapping[Expr, object]) -> tuple[Block, list[Expr]]:
    """Predicates that read keys alone, in terms of them, and the block without these."""
    own = {key for key in keys if isinstance(key, Column)}
    if not own or not below.predicates:
        return below, []
    classes, _ = equal_columns(below.predicates)
    lifted, rest = [], []
    for predicate in below.predicates:
        key_of = _in_keys(predicate, own, classes)
        if key_of is None or is_volatile(predicate):
            rest.append(predicate)
        else:
            lifted.append(substitute(predicate, key_of))
    return (replace(below, predicates=tuple(rest)), lifted) if lifted else (below, [])


def _in_keys(
    predicate: Expr, keys: set[Column], classes: Mapping[Column, tuple[Column, ...]]
) -> dict[Column, Column] | None:
    """For each column of the predicate the key that is equal to it; None if one has none."""
    if equated(predicate) is not None:  # only where nothing else rests on the class that it makes
        used = columns_of(predicate)
        return {c: c for c in used} if all(set(classes[c]) <= keys for c in used) else None
    found: dict[Column, Column] = {}
    for column in columns_of(predicate):
        key = column if column in keys else next((c for c in classes.get(column, ()) if c in keys), None)
        if key is None:
            return None
        found[column] = key
    return found


def _common_keys(node: Aggregate) -> list[Column]:
    """Keys that every grouping groups by."""
    sets = node.grouping_sets if node.grouping_sets is not None else (node.keys,)
    return [key for key in node.keys if all(key in keys for keys in sets)]


def _is_rows(block: Block) -> bool:
    return len(block.leaves) == 1 and block.leaves[0].digest.startswith("rows ") and not block.predicates


def _texts(written: Written, columns: Mapping[Column, Expr]) -> dict[Column, str]:
    return {column: written.text(expr) for column, expr in columns.items()}


def _key_texts(node: Aggregate, below: Block, written: Written) -> dict[Column, str]:
    """Texts of the keys. Grouping sets make keys of equal value differ (one may be set to NULL): they are numbered."""
    texts = {key: written.text(below.columns[key]) for key in node.keys}
    if node.grouping_sets is None or len(set(texts.values())) == len(texts):
        return texts
    return {key: f"{text} #{place}" for place, (key, text) in enumerate(texts.items())}


def _aggregation_text(agg: Aggregation, block: Block, written: Written, keys: Mapping[Column, str]) -> str:
    if agg.call.op == "grouping":
        return "grouping" + repr([keys[arg] for arg in agg.call.args if isinstance(arg, Column)])
    condition = "" if agg.filter is None else written.text(block.expr(simplify(agg.filter)))
    return f"{written.text(block.expr(agg.call))} {agg.distinct} {agg.ordered} where {condition}"
