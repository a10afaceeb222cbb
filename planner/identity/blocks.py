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

from qoop.planner.algebra.canonical_text import digest_of, leaf_number, own_name, scan_digest, short, text_of
from qoop.planner.algebra.expr import (
    FALSE,
    Call,
    Column,
    Expr,
    columns_of,
    columns_of_all,
    is_volatile,
    outgrows,
    substitute,
)
from qoop.planner.algebra.fold_constants import simplify
from qoop.planner.algebra.interning import own_part
from qoop.planner.algebra.properties import equated, unique_keys
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
    Written,
    equal_columns,
    leaf_exprs,
    leaf_numbers,
    only,
    parts_of,
    spliced,
)
from qoop.planner.identity.keyed import Keys, own_names
from qoop.planner.identity.normal_form import NormalForm, linked
from qoop.planner.rules.semi_joins import ignores_duplicates

Exprs = Iterable[Expr]

MOST_REPEATED = 8
"""Leaves of a shared subplan that each of its readers has as its own. Where each query of a WITH joins the one before
with itself, they double with each query."""


class Blocks:
    """Blocks of the relations of one query; relations that differ in what blocks forget have the same block.

    Joins in another order, with other exchanges, are the same operator over the same blocks, and are read once.
    form: the operations on these blocks.
    """

    def __init__(self) -> None:
        self.form = NormalForm()
        self._known: dict[int, tuple[Relation, Block]] = {}
        self._made: dict[Hashable, Block] = {}
        self._same: dict[Hashable, Block] = {}
        self._scans: dict[Column, int] = {}
        self._tables: dict[str, str] = {}  # by digest of the leaf
        self._parts: dict[int, tuple[Expr, tuple[Expr, ...]]] = {}

    def of(self, node: Relation) -> Block:
        """The block of a relation."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = (node, self._found(node))
        return known[1]

    def with_partners(self, block: Block, keys: Keys) -> Block:
        """A block of as many rows: semi joins in which a row has one partner at most are inner ones."""

        def of_leaf(leaf: Leaf) -> list[frozenset[str]]:
            return own_names(keys.get(self._tables.get(leaf.digest, ""), ()))

        return self.form.with_partners(block, of_leaf)

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
                return self.form.leaf(digest_of("opaque", node.sql, repr(sorted(node.tables))), names)
            case Exchange():
                return self.of(node.input)
            case Shared():
                return self._shared(node)
            case Filter():
                below = self.of(node.input)
                return self.form.restricted(below, self._parts_in(below, node.predicates))
            case Project():
                return self._project(node)
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
                written = self.form.write(below, below.columns.values())
                digest = digest_of("limit", str(node.limit), str(node.offset), written.core)
                block = self.form.leaf(digest, written.texts(below.columns))
                return _emptied(block) if below.empty or node.limit == 0 else block
            case SetOp():
                columns = zip(*(branch.columns for branch in node.branches), strict=True)
                branches = [self.of(branch) for branch in node.branches]
                exprs = [tuple(b.columns[c] for b, c in zip(branches, cs, strict=True)) for cs in columns]
                return self.form.set_operation(node, branches, exprs)

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

    def _scan(self, node: Scan) -> Block:
        """A leaf. Scans that have a column in common are one place of the query, whichever columns they read."""
        known = (self._scans[column] for _, column in node.fields if column in self._scans)
        number = next(known, None)
        number = self.form.new_number() if number is None else number
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
        block = self.form.leaf(digest_of("values", *rows), {column: str(i) for i, column in enumerate(node.columns)})
        return block if node.rows else replace(block, predicates=(FALSE,))

    def _project(self, node: Project) -> Block:
        """The block of computed columns; closed where they have become large, for what reads them makes them larger."""
        below = self.of(node.input)
        block = replace(below, columns={column: below.expr(expr) for column, expr in node.exprs})
        if any(outgrows(block.columns[column], expr) for column, expr in node.exprs):
            return self._closed("computed", block)
        return block

    def _shared(self, node: Shared) -> Block:
        """The block of a shared subplan; one of many leaves is closed, since each of its readers would repeat them."""
        below = self.of(node.input)
        if len(below.leaves) <= MOST_REPEATED:
            return below
        return self._closed("shared", replace(below, columns={one: below.columns[one] for one in node.columns}))

    def _closed(self, kind: str, block: Block) -> Block:
        """The block as one leaf."""
        written = self.form.write(block, block.columns.values())
        leaf = self.form.leaf(digest_of(kind, written.core), written.texts(block.columns))
        return _emptied(leaf) if block.empty else leaf

    # ---- joins

    def _join(self, node: Join) -> Block:
        if node.kind == "right":
            node = Join(node.right, node.left, "left", node.on)
        left, right = self.of(node.left), self.of(node.right)
        if node.kind in ("semi", "anti", "mark"):
            read = columns_of_all(node.on)
            right = self.form.loose(
                self.form.needed(right, [column for column in node.right.columns if column in read])
            )
        if not leaf_numbers(left).isdisjoint(leaf_numbers(right)):
            right, _ = self.form.renumbered(right)  # both sides read one shared subplan
        both = Block(left.leaves + right.leaves, left.predicates, {**left.columns, **right.columns})
        on = self._parts_in(both, node.on)
        if node.kind == "inner":
            return self.form.without_own_partners(self.form.restricted(both, (*right.predicates, *on)))
        if node.kind == "full":
            return self._full(left, right, on)
        if node.kind == "mark":
            return self._marked(node, left, right, [both.expr(predicate) for predicate in node.on])
        return self.form.dependent(node.kind, left, right, on)

    def _marked(self, node: Join, left: Block, right: Block, on: list[Expr]) -> Block:
        parts = [part for predicate in on[1:] for part in parts_of(predicate)]
        inner = leaf_numbers(right)
        own = [part for part in parts if only(part, inner)]
        rest = [on[0], *(part for part in parts if part not in own)]
        right, (member, *linking) = self.form.restricted_with(right, own, rest)
        digest, args = linked("mark", right, self.form.write(right, (member, *linking)), (member,), linking)
        assert node.mark is not None
        return replace(left, columns={**left.columns, node.mark: Call("mark", args, digest, "BOOLEAN")})

    def _full(self, left: Block, right: Block, on: Sequence[Expr]) -> Block:
        sides = sorted(((self.form.write(side, on), side) for side in (left, right)), key=lambda pair: pair[0].core)
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
        return self.form.leaf(digest, texts, source=FactorSource("full", (left, right), {}, tuple(on)))

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
        below = self.form.needed(below, read)
        if ignores_duplicates(node):
            below = self.form.loose(below)
        if below.empty and node.keys and node.grouping_sets is None:
            return _emptied(self.form.leaf("", dict.fromkeys(node.columns, "")))
        keys = {below.columns[key]: key for key in _common_keys(node)}
        below, lifted = _lifted(below, keys)
        below = self.form.needed(below, read)
        written = self.form.write(below, below.columns.values())
        texts = _key_texts(node, below, written)
        sets = "" if node.grouping_sets is None else repr(sorted(sorted(texts[k] for k in s) for s in
                                                                 node.grouping_sets))  # fmt: skip
        digest = digest_of("group", written.core, sets, *sorted(set(texts.values())))
        values = {agg.column: _aggregation_text(agg, below, written, texts) for agg in aggregations}
        kind = "rows" if once else "distinct"  # for readers of keys alone, groups are distinct rows
        made = {short(values[agg.column]): agg for agg in aggregations}
        source = FactorSource(kind, (below,), {}, values=made) if node.grouping_sets is None else None
        block = self.form.leaf(digest, {**{k: f"key {text}" for k, text in texts.items()}, **values}, source=source)
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
        inner, _ = self.form.renumbered(leaf.source.blocks[0])
        kept = replace(below, columns={key: below.columns[key] for key in node.keys})
        opened = spliced(kept, leaf.number, inner, leaf_exprs(leaf, kept, inner))
        read = columns_of_all(expr for agg in found if agg.call.op != "grouping" for expr in agg.exprs)
        columns = {**{column: inner.columns[column] for column in read}, **opened.columns}
        return found, replace(opened, columns=columns)

    def _above(self, block: Block, lifted: Sequence[Expr], columns: Mapping[Expr, Expr]) -> Block:
        """The block under predicates that were lifted out of it."""
        if not lifted:
            return block
        mapping = {old: new for old, new in columns.items() if isinstance(old, Column)}
        return self.form.restricted(block, [substitute(part, mapping) for part in lifted])

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
            below = self.form.restricted(below, self._parts_in(below, (agg.filter,)))
        below = self.form.needed(below, sorted(columns_of(agg.call), key=lambda c: c.name))
        if ignores_duplicates(replace(node, aggregations=(agg,))):
            below = self.form.loose(below)
        written = self.form.write(below, below.columns.values())
        text = f"{written.text(below.expr(agg.call))} {agg.distinct} {agg.ordered}"
        return self.form.leaf(digest_of("total", written.core, text), {agg.column: "value"}, single=True)

    def _window(self, node: Window) -> Block:
        """Windows see all rows of their input, so it is closed first; stacked windows see the same rows."""
        below = self.of(node.input)
        shared = [frozenset(map(below.expr, call.partition_by)) for call in node.calls]
        parted = frozenset.intersection(*shared) if shared else frozenset()
        base, lifted = _lifted(below, {expr: expr for expr in parted})
        columns: Mapping[Expr, Expr] = {}
        if not _is_rows(base):
            written = self.form.write(base, base.columns.values())
            exprs = dict(base.columns.items())
            keys = {Column(f"by {text_of(e, str)}", e.type): e for e in parted}
            base = replace(base, columns={**exprs, **keys})
            source = FactorSource("rows", (base,), {})
            closed = self.form.leaf("rows " + written.core, written.texts(base.columns), source=source)
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
        written = self.form.write(below, below.columns.values())
        keys = (f"{written.text(below.expr(k.expr))} {k.descending} {k.nulls_first}" for k in node.keys)
        block = self.form.leaf(digest_of("sort", written.core, *keys), written.texts(below.columns))
        return _emptied(block) if below.empty else block


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


def _emptied(block: Block) -> Block:
    return replace(block, predicates=(FALSE,))


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
