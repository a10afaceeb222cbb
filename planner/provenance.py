"""What an output *means*: its signature, and canonical names for its columns (law 1).

Two relations of equal signature have equal rows, however they are made. A relation is first brought into a
normal form that forgets how it is computed, a :class:`Block`: a product of *leaves*, restricted by a set of
predicates, with every column an expression over the leaves. Filters, projections and inner joins only add to
their input's block, so their order and nesting leave no trace. The other operators close the blocks below
them and become leaves, or terms, of the next one:

- a left join keeps the left block and adds a leaf whose rows depend on it: the partners of a row, or one
  padded row. So filters and inner joins commute with it.
- a semi or anti join is a predicate on the left block, a mark join an expression over it.
- an aggregate, a window, a set operation, a full join, a Limit or a Sort is a leaf of its own.

To write a block down, its leaves are ordered by colour refinement: every leaf starts with its own digest and
is recoloured by the predicates it takes part in (B. Weisfeiler and A. Leman, 1968) until equal colours mean
interchangeable leaves, of which any may come first. The text names columns by leaf number and own name,
columns that are equated count as one, terms of commutative operators are sorted; its blake2b digest is the
signature. A wrong choice between leaves makes signatures differ that could be equal, never the reverse,
since the text always says all there is to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from qoop.planner.block import Block, Leaf, Written, added, facts_of, is_rows, leaf_numbers, only, write
from qoop.planner.canonical_text import digest_of, leaf_number, own_name, readable_names, short, text_of
from qoop.planner.expr import Call, Column, Expr, columns_of_all, conjuncts, substitute
from qoop.planner.facts import Facts
from qoop.planner.island import is_island
from qoop.planner.plan import Signature
from qoop.planner.relation import (
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

__all__ = ["Provenance", "Provenances", "is_island", "provenance"]


@dataclass(frozen=True)
class Provenance:
    """signature: digest of what the rows mean. columns: a canonical name for every column of the relation.

    In relations of equal signature, columns of the same canonical name hold the same values.
    """

    signature: Signature
    columns: Mapping[Column, str]


def provenance(relation: Relation, settings: tuple[tuple[str, str], ...] = ()) -> Provenance:
    """Return the provenance of one relation; `settings` are the session's options that change results.

    >>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
    >>> t, u = Scan("t", "1", (("a", a),)), Scan("u", "1", (("b", b),))
    >>> same = Call("=", (b, a), "({0} = {1})", "BOOLEAN")
    >>> provenance(Join(t, u, "inner", (same,))).signature == provenance(
    ...     Filter(Join(u, t, "inner", ()), (same,))
    ... ).signature
    True
    """
    return Provenances(settings).of(relation)


class Provenances:
    """Provenance of many relations that share parts, such as the stages of one query's plans.

    Remembers by object identity, and keeps what it has seen alive; use one for the planning of one query.
    """

    def __init__(self, settings: tuple[tuple[str, str], ...] = ()) -> None:
        self._settings = repr(sorted(settings))
        self._numbers = count()
        self._blocks: dict[int, tuple[Relation, Block]] = {}
        self._known: dict[int, tuple[Relation, Provenance]] = {}
        self._rows: dict[int, tuple[Relation, Signature]] = {}

    def of(self, relation: Relation) -> Provenance:
        """Return the provenance of the relation."""
        known = self._known.get(id(relation))
        if known is None:
            known = self._known[id(relation)] = (relation, self._provenance(relation))
        return known[1]

    def rows(self, relation: Relation) -> Signature:
        """Digest of which rows the relation has, whatever its columns: equal digests, equally many rows."""
        known = self._rows.get(id(relation))
        if known is None:
            core = write(self._block(relation), ()).core
            known = self._rows[id(relation)] = (relation, digest_of("rows", self._settings, core))
        return known[1]

    def facts(self, relation: Relation, names: Sequence[tuple[str, Column]]) -> Facts:
        """What the relation is made of. names: what its columns are to be called."""
        return facts_of(self._block(relation), names, self._settings, _is_ordered(relation))

    def _provenance(self, relation: Relation) -> Provenance:
        block = self._block(relation)
        outputs = {column: block.columns[column] for column in relation.columns}
        written = write(block, outputs.values())
        texts = {column: f"{written.text(expr)}:{column.type}" for column, expr in outputs.items()}
        signature = digest_of("output", self._settings, written.core, *sorted(texts.values()))
        return Provenance(signature, readable_names(texts))

    def _block(self, node: Relation) -> Block:
        known = self._blocks.get(id(node))
        if known is None:
            known = self._blocks[id(node)] = (node, self._make_block(node))
        return known[1]

    def _make_block(self, node: Relation) -> Block:
        match node:
            case Scan():
                names = {column: own for own, column in node.fields}
                return self._leaf(digest_of("scan", node.table, node.version), names)
            case Values():
                return self._values(node)
            case Opaque():
                names = {column: str(i) for i, column in enumerate(node.columns)}
                return self._leaf(digest_of("opaque", node.sql, repr(sorted(node.tables))), names)
            case Exchange() | Shared():
                return self._block(node.input)
            case Filter():
                below = self._block(node.input)
                return replace(below, predicates=added(below, map(below.expr, node.predicates)))
            case Project():
                below = self._block(node.input)
                return replace(below, columns={column: below.expr(expr) for column, expr in node.exprs})
            case Join():
                return self._join(node)
            case Aggregate():
                return self._aggregate(node)
            case Window():
                return self._window(node)
            case Sort():
                return self._sort(node)
            case Limit():
                below = self._block(node.input)
                written = write(below, below.columns.values())
                digest = digest_of("limit", str(node.limit), str(node.offset), written.core)
                return self._leaf(digest, _texts(written, below.columns))
            case SetOp():
                return self._set_op(node)

    def _leaf(self, digest: str, texts: Mapping[Column, str], args: tuple[Column, ...] = ()) -> Block:
        """A block of a single leaf, whose columns have these texts as own names."""
        number = next(self._numbers)
        columns = {column: Column(f"{number}:{short(text)}", column.type) for column, text in texts.items()}
        return Block((Leaf(number, digest, args),), (), columns)

    def _values(self, node: Values) -> Block:
        if not node.columns and len(node.rows) == 1:
            return Block((), (), {})
        rows = sorted(repr([text_of(item, own_name) for item in row]) for row in node.rows)
        return self._leaf(digest_of("values", *rows), {column: str(i) for i, column in enumerate(node.columns)})

    def _join(self, node: Join) -> Block:
        if node.kind == "right":
            node = Join(node.right, node.left, "left", node.on)
        left, right = self._block(node.left), self._block(node.right)
        if not {leaf.number for leaf in left.leaves}.isdisjoint(leaf.number for leaf in right.leaves):
            right = self._renumbered(right)  # both sides read one shared subplan
        both = Block(left.leaves + right.leaves, left.predicates, {**left.columns, **right.columns})
        on = tuple(both.expr(predicate) for predicate in node.on)
        if node.kind == "inner":
            return replace(both, predicates=added(both, (*right.predicates, *on)))
        if node.kind == "full":
            return self._full(left, right, on)
        return self._dependent(node, left, right, on)

    def _dependent(self, node: Join, left: Block, right: Block, on: tuple[Expr, ...]) -> Block:
        """Left, semi, anti and mark joins: for a row of the left, the rows of the right that fit."""
        fixed = on[:1] if node.kind == "mark" else ()
        inner = frozenset(leaf_numbers(right))
        parts = [part for predicate in on[len(fixed) :] for part in conjuncts(predicate)]
        own = [part for part in parts if only(part, inner)]
        right = replace(right, predicates=added(right, own))
        linking = [part for part in parts if part not in own]
        written = write(right, (*fixed, *linking))
        args: dict[Column, int] = {}

        def name(column: Column) -> str:
            if leaf_number(column) in inner:
                return written.name(column)
            return f"?{args.setdefault(column, len(args))}"

        anonymous = Written(written.core, lambda c: written.name(c) if leaf_number(c) in inner else "?")
        linking.sort(key=anonymous.text)
        condition = [text_of(part, name) for part in (*fixed, *linking)]
        digest = digest_of(node.kind, written.core, *condition[: len(fixed)], *sorted(condition[len(fixed) :]))
        if node.kind == "left":
            padded = self._leaf(digest, _texts(written, right.columns), tuple(args))
            return Block(left.leaves + padded.leaves, left.predicates, {**left.columns, **padded.columns})
        term = Call(node.kind, tuple(args), digest, "BOOLEAN")
        if node.mark is not None:
            return replace(left, columns={**left.columns, node.mark: term})
        return replace(left, predicates=added(left, (term,)))

    def _full(self, left: Block, right: Block, on: tuple[Expr, ...]) -> Block:
        sides = sorted(((write(side, on), side) for side in (left, right)), key=lambda pair: pair[0].core)
        number_to_side = {n: (f"{i}/", written) for i, (written, side) in enumerate(sides) for n in leaf_numbers(side)}

        def name(column: Column) -> str:
            prefix, written = number_to_side[leaf_number(column)]
            return prefix + written.name(column)

        condition = sorted(text_of(part, name) for predicate in on for part in conjuncts(predicate))
        digest = digest_of("full", *(written.core for written, _ in sides), *condition)
        texts = {
            c: f"{i}/{written.text(expr)}"
            for i, (written, side) in enumerate(sides)
            for c, expr in side.columns.items()
        }
        return self._leaf(digest, texts)

    def _aggregate(self, node: Aggregate) -> Block:
        below = self._block(node.input)
        used = columns_of_all((*node.keys, *(expr for agg in node.aggregations for expr in agg.exprs)))
        written = write(below, [below.columns[c] for c in sorted(used, key=lambda c: c.name)])
        keys = _key_texts(node, below, written)
        sets = (
            "" if node.grouping_sets is None else repr(sorted(sorted(keys[k] for k in s) for s in node.grouping_sets))
        )
        digest = digest_of("group", written.core, sets, *sorted(set(keys.values())))
        texts = {agg.column: _aggregation_text(agg, below, written, keys) for agg in node.aggregations}
        return self._leaf(digest, {**{key: f"key {text}" for key, text in keys.items()}, **texts})

    def _window(self, node: Window) -> Block:
        """Windows see all rows of their input, so it is closed first; stacked windows see the same rows."""
        below = self._block(node.input)
        if not is_rows(below):
            written = write(below, below.columns.values())
            below = self._leaf("rows " + written.core, _texts(written, below.columns))
        number = below.leaves[0].number
        added = {
            call.column: Column(f"{number}:{short(text_of(below.expr(call.call), own_name))}", call.column.type)
            for call in node.calls
        }
        return replace(below, columns={**below.columns, **added})

    def _sort(self, node: Sort) -> Block:
        below = self._block(node.input)
        written = write(below, below.columns.values())
        keys = (f"{written.text(below.expr(k.expr))} {k.descending} {k.nulls_first}" for k in node.keys)
        return self._leaf(digest_of("sort", written.core, *keys), _texts(written, below.columns))

    def _set_op(self, node: SetOp) -> Block:
        branches = []
        for branch in node.branches:
            block = self._block(branch)
            written = write(block, [block.columns[column] for column in branch.columns])
            branches.append((written.core, [f"{written.text(block.columns[c])}:{c.type}" for c in branch.columns]))
        fixed = 1 if node.kind == "except" else 0
        branches = branches[:fixed] + sorted(branches[fixed:])
        positions = [repr([texts[i] for _, texts in branches]) for i in range(len(node.columns))]
        compared = () if node.kind == "union" and node.all else sorted(set(positions))
        digest = digest_of(node.kind, str(node.all), *(core for core, _ in branches), "by", *compared)
        return self._leaf(digest, dict(zip(node.columns, positions, strict=True)))

    def _renumbered(self, block: Block) -> Block:
        """The same block with leaves, and so columns, of other numbers."""
        new = {leaf.number: next(self._numbers) for leaf in block.leaves}
        used = columns_of_all((*block.predicates, *block.columns.values(), *(a for x in block.leaves for a in x.args)))
        columns = {c: Column(f"{new[leaf_number(c)]}:{own_name(c)}", c.type) for c in used}
        leaves = tuple(Leaf(new[x.number], x.digest, tuple(columns[a] for a in x.args)) for x in block.leaves)
        predicates = tuple(substitute(p, columns) for p in block.predicates)
        return Block(leaves, predicates, {c: substitute(e, columns) for c, e in block.columns.items()})


def _is_ordered(relation: Relation) -> bool:
    while isinstance(relation, Project | Filter | Limit | Exchange | Shared):
        relation = relation.input
    return isinstance(relation, Sort)


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
    condition = "" if agg.filter is None else written.text(block.expr(agg.filter))
    return f"{written.text(block.expr(agg.call))} {agg.distinct} {agg.ordered} where {condition}"
