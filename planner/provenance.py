"""What an output *means*: its signature, and canonical names for its columns (law 1).

Two relations of equal signature have equal rows, however they are made. A relation is first brought into a
normal form that forgets how it is computed, a :class:`_Block`: a product of *leaves*, restricted by a set of
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

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count, pairwise

from qoop.planner.expr import (
    TRUE,
    Call,
    Column,
    Expr,
    Literal,
    columns_of,
    columns_of_all,
    conjuncts,
    substitute,
)
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
from qoop.planner.rules.properties import equated

__all__ = ["Provenance", "Provenances", "is_island", "provenance"]

Name = Callable[[Column], str]


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


@dataclass(frozen=True)
class _Leaf:
    """A factor of a block's product. number: tells it from the others, in the names of its columns.

    digest: what it is. args: columns of other leaves that it depends on (the left side of a left join).
    """

    number: int
    digest: str
    args: tuple[Column, ...] = ()


@dataclass(frozen=True)
class _Block:
    """``SELECT columns FROM leaves WHERE predicates``; no leaves: one row."""

    leaves: tuple[_Leaf, ...]
    predicates: tuple[Expr, ...]
    columns: Mapping[Column, Expr]

    def expr(self, expr: Expr) -> Expr:
        """An expression over the relation's columns as one over the leaves."""
        return substitute(expr, self.columns)


@dataclass(frozen=True)
class _Written:
    """A block written down. core: digest of leaves and predicates. name: the canonical text of a leaf's column."""

    core: str
    name: Name

    def text(self, expr: Expr) -> str:
        return _text(expr, self.name)


class Provenances:
    """Provenance of many relations that share parts, such as the stages of one query's plans.

    Remembers by object identity, and keeps what it has seen alive; use one for the planning of one query.
    """

    def __init__(self, settings: tuple[tuple[str, str], ...] = ()) -> None:
        self._settings = repr(sorted(settings))
        self._numbers = count()
        self._blocks: dict[int, tuple[Relation, _Block]] = {}
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
            core = _write(self._block(relation), ()).core
            known = self._rows[id(relation)] = (relation, _digest("rows", self._settings, core))
        return known[1]

    def _provenance(self, relation: Relation) -> Provenance:
        block = self._block(relation)
        outputs = {column: block.columns[column] for column in relation.columns}
        written = _write(block, outputs.values())
        texts = {column: f"{written.text(expr)}:{column.type}" for column, expr in outputs.items()}
        signature = _digest("output", self._settings, written.core, *sorted(texts.values()))
        return Provenance(signature, _names(texts))

    def _block(self, node: Relation) -> _Block:
        known = self._blocks.get(id(node))
        if known is None:
            known = self._blocks[id(node)] = (node, self._make_block(node))
        return known[1]

    def _make_block(self, node: Relation) -> _Block:
        match node:
            case Scan():
                names = {column: own for own, column in node.fields}
                return self._leaf(_digest("scan", node.table, node.version), names)
            case Values():
                return self._values(node)
            case Opaque():
                names = {column: str(i) for i, column in enumerate(node.columns)}
                return self._leaf(_digest("opaque", node.sql, repr(sorted(node.tables))), names)
            case Exchange() | Shared():
                return self._block(node.input)
            case Filter():
                below = self._block(node.input)
                return replace(below, predicates=_added(below, map(below.expr, node.predicates)))
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
                written = _write(below, below.columns.values())
                digest = _digest("limit", str(node.limit), str(node.offset), written.core)
                return self._leaf(digest, _texts(written, below.columns))
            case SetOp():
                return self._set_op(node)

    def _leaf(self, digest: str, texts: Mapping[Column, str], args: tuple[Column, ...] = ()) -> _Block:
        """A block of a single leaf, whose columns have these texts as own names."""
        number = next(self._numbers)
        columns = {column: Column(f"{number}:{_short(text)}", column.type) for column, text in texts.items()}
        return _Block((_Leaf(number, digest, args),), (), columns)

    def _values(self, node: Values) -> _Block:
        if not node.columns and len(node.rows) == 1:
            return _Block((), (), {})
        rows = sorted(repr([_text(item, _own_name) for item in row]) for row in node.rows)
        return self._leaf(_digest("values", *rows), {column: str(i) for i, column in enumerate(node.columns)})

    def _join(self, node: Join) -> _Block:
        if node.kind == "right":
            node = Join(node.right, node.left, "left", node.on)
        left, right = self._block(node.left), self._block(node.right)
        if not {leaf.number for leaf in left.leaves}.isdisjoint(leaf.number for leaf in right.leaves):
            right = self._renumbered(right)  # both sides read one shared subplan
        both = _Block(left.leaves + right.leaves, left.predicates, {**left.columns, **right.columns})
        on = tuple(both.expr(predicate) for predicate in node.on)
        if node.kind == "inner":
            return replace(both, predicates=_added(both, (*right.predicates, *on)))
        if node.kind == "full":
            return self._full(left, right, on)
        return self._dependent(node, left, right, on)

    def _dependent(self, node: Join, left: _Block, right: _Block, on: tuple[Expr, ...]) -> _Block:
        """Left, semi, anti and mark joins: for a row of the left, the rows of the right that fit."""
        fixed = on[:1] if node.kind == "mark" else ()
        inner = frozenset(_numbers(right))
        parts = [part for predicate in on[len(fixed) :] for part in conjuncts(predicate)]
        own = [part for part in parts if _only(part, inner)]
        right = replace(right, predicates=_added(right, own))
        linking = [part for part in parts if part not in own]
        written = _write(right, (*fixed, *linking))
        args: dict[Column, int] = {}

        def name(column: Column) -> str:
            if _number(column) in inner:
                return written.name(column)
            return f"?{args.setdefault(column, len(args))}"

        anonymous = _Written(written.core, lambda c: written.name(c) if _number(c) in inner else "?")
        linking.sort(key=anonymous.text)
        condition = [_text(part, name) for part in (*fixed, *linking)]
        digest = _digest(node.kind, written.core, *condition[: len(fixed)], *sorted(condition[len(fixed) :]))
        if node.kind == "left":
            padded = self._leaf(digest, _texts(written, right.columns), tuple(args))
            return _Block(left.leaves + padded.leaves, left.predicates, {**left.columns, **padded.columns})
        term = Call(node.kind, tuple(args), digest, "BOOLEAN")
        if node.mark is not None:
            return replace(left, columns={**left.columns, node.mark: term})
        return replace(left, predicates=_added(left, (term,)))

    def _full(self, left: _Block, right: _Block, on: tuple[Expr, ...]) -> _Block:
        sides = sorted(((_write(side, on), side) for side in (left, right)), key=lambda pair: pair[0].core)
        number_to_side = {n: (f"{i}/", written) for i, (written, side) in enumerate(sides) for n in _numbers(side)}

        def name(column: Column) -> str:
            prefix, written = number_to_side[_number(column)]
            return prefix + written.name(column)

        condition = sorted(_text(part, name) for predicate in on for part in conjuncts(predicate))
        digest = _digest("full", *(written.core for written, _ in sides), *condition)
        texts = {
            c: f"{i}/{written.text(expr)}"
            for i, (written, side) in enumerate(sides)
            for c, expr in side.columns.items()
        }
        return self._leaf(digest, texts)

    def _aggregate(self, node: Aggregate) -> _Block:
        below = self._block(node.input)
        used = columns_of_all((*node.keys, *(expr for agg in node.aggregations for expr in agg.exprs)))
        written = _write(below, [below.columns[c] for c in sorted(used, key=lambda c: c.name)])
        keys = _key_texts(node, below, written)
        sets = (
            "" if node.grouping_sets is None else repr(sorted(sorted(keys[k] for k in s) for s in node.grouping_sets))
        )
        digest = _digest("group", written.core, sets, *sorted(set(keys.values())))
        texts = {agg.column: _aggregation_text(agg, below, written, keys) for agg in node.aggregations}
        return self._leaf(digest, {**{key: f"key {text}" for key, text in keys.items()}, **texts})

    def _window(self, node: Window) -> _Block:
        """Windows see all rows of their input, so it is closed first; stacked windows see the same rows."""
        below = self._block(node.input)
        if not _is_rows(below):
            written = _write(below, below.columns.values())
            below = self._leaf("rows " + written.core, _texts(written, below.columns))
        number = below.leaves[0].number
        added = {
            call.column: Column(f"{number}:{_short(_text(below.expr(call.call), _own_name))}", call.column.type)
            for call in node.calls
        }
        return replace(below, columns={**below.columns, **added})

    def _sort(self, node: Sort) -> _Block:
        below = self._block(node.input)
        written = _write(below, below.columns.values())
        keys = (f"{written.text(below.expr(k.expr))} {k.descending} {k.nulls_first}" for k in node.keys)
        return self._leaf(_digest("sort", written.core, *keys), _texts(written, below.columns))

    def _set_op(self, node: SetOp) -> _Block:
        branches = []
        for branch in node.branches:
            block = self._block(branch)
            written = _write(block, [block.columns[column] for column in branch.columns])
            branches.append((written.core, [f"{written.text(block.columns[c])}:{c.type}" for c in branch.columns]))
        fixed = 1 if node.kind == "except" else 0
        branches = branches[:fixed] + sorted(branches[fixed:])
        positions = [repr([texts[i] for _, texts in branches]) for i in range(len(node.columns))]
        compared = () if node.kind == "union" and node.all else sorted(set(positions))
        digest = _digest(node.kind, str(node.all), *(core for core, _ in branches), "by", *compared)
        return self._leaf(digest, dict(zip(node.columns, positions, strict=True)))

    def _renumbered(self, block: _Block) -> _Block:
        """The same block with leaves, and so columns, of other numbers."""
        new = {leaf.number: next(self._numbers) for leaf in block.leaves}
        used = columns_of_all((*block.predicates, *block.columns.values(), *(a for x in block.leaves for a in x.args)))
        columns = {c: Column(f"{new[_number(c)]}:{_own_name(c)}", c.type) for c in used}
        leaves = tuple(_Leaf(new[x.number], x.digest, tuple(columns[a] for a in x.args)) for x in block.leaves)
        predicates = tuple(substitute(p, columns) for p in block.predicates)
        return _Block(leaves, predicates, {c: substitute(e, columns) for c, e in block.columns.items()})


def _is_rows(block: _Block) -> bool:
    return len(block.leaves) == 1 and block.leaves[0].digest.startswith("rows ") and not block.predicates


def _added(block: _Block, predicates: Iterable[Expr]) -> tuple[Expr, ...]:
    new = (part for predicate in predicates for part in conjuncts(predicate) if part != TRUE)
    return tuple(dict.fromkeys((*block.predicates, *(half for part in new for half in _halves(part)))))


def _halves(predicate: Expr) -> tuple[Expr, ...]:
    """``x BETWEEN a AND b`` as two comparisons."""
    if isinstance(predicate, Call) and predicate.op == "between" and _plain(predicate, "({0} BETWEEN {1} AND {2})"):
        x, low, high = predicate.args
        return (
            Call("<=", (low, x), "({0} <= {1})", "BOOLEAN"),
            Call("<=", (x, high), "({0} <= {1})", "BOOLEAN"),
        )
    return (predicate,)


def _texts(written: _Written, columns: Mapping[Column, Expr]) -> dict[Column, str]:
    return {column: written.text(expr) for column, expr in columns.items()}


def _key_texts(node: Aggregate, below: _Block, written: _Written) -> dict[Column, str]:
    """Texts of the keys. Grouping sets make keys of equal value differ (one may be set to NULL): they are numbered."""
    texts = {key: written.text(below.columns[key]) for key in node.keys}
    if node.grouping_sets is None or len(set(texts.values())) == len(texts):
        return texts
    return {key: f"{text} #{place}" for place, (key, text) in enumerate(texts.items())}


def _aggregation_text(agg: Aggregation, block: _Block, written: _Written, keys: Mapping[Column, str]) -> str:
    if agg.call.op == "grouping":
        return "grouping" + repr([keys[arg] for arg in agg.call.args if isinstance(arg, Column)])
    condition = "" if agg.filter is None else written.text(block.expr(agg.filter))
    return f"{written.text(block.expr(agg.call))} {agg.distinct} {agg.ordered} where {condition}"


# --- writing a block down


@dataclass
class _Items:
    """The parts of a block that tie leaves together, each a function of how columns are named."""

    texts: list[Callable[[Name], str]] = field(default_factory=list)
    touched: list[frozenset[int]] = field(default_factory=list)

    def add(self, text: Callable[[Name], str], columns: Iterable[Column]) -> None:
        self.texts.append(text)
        self.touched.append(frozenset(map(_number, columns)))


def _write(block: _Block, marks: Iterable[Expr]) -> _Written:
    """Order the leaves and write the block; `marks` only break ties between leaves.

    marks: what is read of the block; they may hold columns of other blocks, which are written as ``?``.
    """
    classes, predicates = _equal_columns(block.predicates)
    order = _order(block, classes, predicates, tuple(marks) if len(block.leaves) > 1 else ())
    label = {number: str(place) for place, number in enumerate(order)}
    merged = _merged_names(lambda c: f"{label[_number(c)]}.{_own_name(c)}" if _number(c) in label else "?", classes)
    leaf_of = {leaf.number: leaf for leaf in block.leaves}
    leaves = [leaf_of[number].digest + repr([merged(a) for a in leaf_of[number].args]) for number in order]
    texts = sorted({_text(predicate, merged) for predicate in predicates})
    return _Written(_digest("block", *leaves, "where", *texts, "equal", *sorted(set(map(merged, classes)))), merged)


def _equal_columns(predicates: Sequence[Expr]) -> tuple[dict[Column, tuple[Column, ...]], list[Expr]]:
    """Classes of columns that predicates equate, by member, and the other predicates."""
    classes: dict[Column, tuple[Column, ...]] = {}
    others = []
    for predicate in predicates:
        pair = equated(predicate)
        if pair is None or not _plain(predicate, "({0} = {1})"):
            others.append(predicate)
            continue
        a, b = pair
        members = tuple(dict.fromkeys((*classes.get(a, (a,)), *classes.get(b, (b,)))))
        classes.update(dict.fromkeys(members, members))
    return classes, others


def _merged_names(name: Name, classes: Mapping[Column, tuple[Column, ...]]) -> Name:
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
    block: _Block, classes: Mapping[Column, tuple[Column, ...]], predicates: Sequence[Expr], marks: tuple[Expr, ...]
) -> list[int]:
    """Numbers of the leaves in canonical order."""
    colours = {leaf.number: leaf.digest for leaf in block.leaves}
    if len(set(colours.values())) == len(colours):
        return sorted(colours, key=colours.__getitem__)
    items = _items(block, classes, predicates)
    core = colours = _ranked(_refined(colours, items, classes))
    for mark in marks:
        touched = (member for c in columns_of(mark) for member in classes.get(c, (c,)))
        items.add(lambda name, mark=mark: "mark " + _text(mark, name), touched)  # type: ignore[misc]
    while len(set((refined := _refined(colours, items, classes)).values())) < len(refined):
        ordered = sorted(refined.values())
        tied = next(colour for colour, following in pairwise(ordered) if colour == following)
        first = next(number for number, colour in refined.items() if colour == tied)
        colours = _ranked(refined)
        colours[first] += "!"
    return sorted(refined, key=lambda number: (core[number], refined[number]))


def _items(block: _Block, classes: Mapping[Column, tuple[Column, ...]], predicates: Sequence[Expr]) -> _Items:
    items = _Items()
    for members in dict.fromkeys(classes.values()):
        items.add(lambda name, members=members: name(members[0]), members)  # type: ignore[misc]
    raw = _merged_names(str, classes)
    for predicate in {_text(predicate, raw): predicate for predicate in predicates}.values():
        touched = (member for c in columns_of(predicate) for member in classes.get(c, (c,)))
        items.add(lambda name, predicate=predicate: _text(predicate, name), touched)  # type: ignore[misc]
    for leaf in block.leaves:
        if leaf.args:
            own = Column(f"{leaf.number}:", "")
            items.add(
                lambda name, leaf=leaf, own=own: name(own) + repr([name(a) for a in leaf.args]),  # type: ignore[misc]
                (own, *(member for a in leaf.args for member in classes.get(a, (a,)))),
            )
    return items


def _refined(colours: dict[int, str], items: _Items, classes: Mapping[Column, tuple[Column, ...]]) -> dict[int, str]:
    """Recolour the leaves by the items that touch them until no further leaf can be told apart."""
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
        mine = "*" if _number(column) == number else ""
        return f"{mine}{colours.get(_number(column), '?')}.{_own_name(column)}"

    merged = _merged_names(name, classes)
    touching = (text for text, touched in zip(items.texts, items.touched, strict=True) if number in touched)
    return _digest(colours[number], *sorted(text(merged) for text in touching))


def _ranked(colours: Mapping[int, str]) -> dict[int, str]:
    """Short colours in the same order, so that what is refined further stays within it."""
    places = {colour: f"{place:04d}" for place, colour in enumerate(sorted(set(colours.values())))}
    return {number: places[colour] for number, colour in colours.items()}


# --- text of expressions and names

_MIRRORED = {">": "<", ">=": "<="}
_COMMUTATIVE = frozenset({"=", "<>", "+", "*"})


def _text(expr: Expr, name: Name) -> str:
    """Canonical text of an expression: terms of commutative operators sorted, comparisons turned to < and <=."""
    if isinstance(expr, Column):
        return name(expr)
    if isinstance(expr, Literal):
        return f"<{expr.sql!r}:{expr.type}>"
    args = [_text(arg, name) for arg in expr.args]
    op = expr.op
    if op in ("and", "or"):
        return f"{op}({','.join(_flattened(expr, name))})"
    if _plain(expr, f"({{0}} {op.upper()} {{1}})"):
        if op in _MIRRORED:
            op, args = _MIRRORED[op], args[::-1]
        if op in _COMMUTATIVE and not expr.type.endswith("]"):  # + joins lists
            args.sort()
        return f"({op}:{expr.type} {','.join(args)})"
    if op == "in" and expr.template.startswith("({0} IN ({1}"):
        return f"in({args[0]};{','.join(sorted(set(args[1:])))})"
    return f"{op}[{expr.template!r}:{expr.type}]({','.join(args)})"


def _flattened(expr: Expr, name: Name) -> list[str]:
    op = getattr(expr, "op", "")

    def parts(node: Expr) -> Iterable[str]:
        if isinstance(node, Call) and node.op == op:
            for arg in node.args:
                yield from parts(arg)
        else:
            yield _text(node, name)

    return sorted(set(parts(expr)))


def _plain(expr: Expr, template: str) -> bool:
    """True if the call prints as the operator does and holds nothing else (such as a COLLATE)."""
    return isinstance(expr, Call) and expr.template == template


def _number(column: Column) -> int:
    return int(column.name.partition(":")[0])


def _own_name(column: Column) -> str:
    return column.name.partition(":")[2]


def _numbers(block: _Block) -> set[int]:
    return {leaf.number for leaf in block.leaves}


def _only(expr: Expr, numbers: frozenset[int]) -> bool:
    used = columns_of(expr)
    return bool(used) and all(_number(column) in numbers for column in used)


def _digest(*parts: str) -> str:
    digest = blake2b(digest_size=20)
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


def _names(texts: Mapping[Column, str]) -> dict[Column, str]:
    """Readable names that depend on the canonical texts alone; columns of one text (and value) are numbered."""
    taken: dict[str, int] = {}
    names: dict[Column, str] = {}
    for column in sorted(texts, key=lambda column: texts[column]):
        base = f"{_readable(texts[column])}_{_digest(texts[column])[:10]}"
        taken[base] = taken.get(base, 0) + 1
        names[column] = base if taken[base] == 1 else f"{base}_{taken[base]}"
    return names


_LONGEST = 96
_WORD = re.compile(r"^(?:key |[^a-z_])*([a-z_][a-z0-9_]*)")


def _short(text: str) -> str:
    """The text, or its digest with a readable start, so that names do not grow with the depth of the query."""
    return text if len(text) <= _LONGEST else f"{_readable(text)} {_digest(text)}"


def _readable(text: str) -> str:
    """The first word of the text: a column's own name or a function."""
    found = _WORD.match(text.lower())
    return found[1][:32] if found else "column"
