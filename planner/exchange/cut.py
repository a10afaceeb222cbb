"""From a relation with its exchanges to a Plan: one Stage for every Exchange, one for every shared subplan.

Stages are numbered in the order in which they can run.  A fragment reads tables under their own names and
other stages under their ids, so that the SQL of a stage can be read by people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from hashlib import blake2b
from typing import NamedTuple

from qoop.catalog.errors import PlanError
from qoop.catalog.value import value
from qoop.planner.algebra.expr import Column, columns_of_all, quote, substitute
from qoop.planner.algebra.facts import NO_FACTS, Facts, LazyFacts
from qoop.planner.algebra.relation import (
    Aggregate,
    Exchange,
    Filter,
    Fragment,
    Join,
    Limit,
    Opaque,
    Relation,
    Scan,
    SetOp,
    Shared,
    Sort,
    Window,
)
from qoop.planner.algebra.types import NULL_TYPE
from qoop.planner.estimate.observed import NOTHING, Observations
from qoop.planner.exchange.distribution import fragment_nodes
from qoop.planner.exchange.sqlgen import to_sql
from qoop.planner.identity.canonical_form import form
from qoop.planner.plan import Layout, Plan, Signature, Stage, StageId, StageInput, TableInput, read_table


class Identity(NamedTuple):
    """The meaning of a relation: its signature, a canonical name for each column, and its determinism.

    rows: digest of its rows without regard to columns. by_digits: as in `Stage`.
    facts: what its rows are made of, under these names for its columns; None if that is not known.
    """

    signature: Signature
    names: Mapping[Column, str]
    non_deterministic: bool
    rows: Signature = ""
    facts: Callable[[Sequence[tuple[str, Column]]], Facts] | None = None
    by_digits: bool = False


Identify = Callable[[Relation], Identity]

_MODES = {"gather": "all", "hash": "partition", "forward": "forward"}


def _exchange(relation: Relation) -> Exchange:
    if not isinstance(relation, Exchange):
        raise PlanError(f"the root of a placed relation is an Exchange, not a {type(relation).__name__}")
    return relation


def _fragment(exchange: Exchange) -> Fragment:
    if exchange.fragment is None:
        raise PlanError("an exchange without a fragment: relations are cut only after place_exchanges")
    return exchange.fragment


Leaf = Scan | Exchange
Input = TableInput | StageInput


@value
class _Content:
    """A fragment as far as it does not depend on the plan it is part of.

    stage: the stage but for its id, inputs, text and label. top: the fragment's operators.
    names: its columns under their canonical names. ordered: its columns in the order of the stage's.
    root: it puts out the result.
    """

    exchange: Exchange
    top: Relation
    leaves: tuple[Leaf, ...]
    names: Mapping[Column, Column]
    ordered: tuple[Column, ...]
    root: bool
    stage: Stage

    @property
    def partial(self) -> bool:
        return _fragment(self.exchange).partial

    @cached_property
    def shielded(self) -> frozenset[Column]:
        """Columns of other stages that DuckDB might push a filter on the keys of a join down to."""
        return frozenset(_pushed_to(self.top, frozenset()))

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Stages of one plan that agree on this are one."""
        return self.stage.signature, self.stage.layout, self.stage.width, self.stage.cut


class Cutter:
    """Cuts the placed relations of one query into plans; objects that several share are processed once.

    identify: the identity of a relation without exchanges.
    table_columns: all columns by table name, for opaque fragments, whose columns are unknown.
    observed: observations of stages of the same signature, which replace their estimates.
    """

    def __init__(
        self, identify: Identify, table_columns: Mapping[str, Sequence[str]], observed: Observations = NOTHING
    ) -> None:
        self.identify = identify
        self.table_columns = table_columns
        self.observed = observed
        self._contents: dict[tuple[int, bool], _Content] = {}
        self._stages: dict[tuple[object, ...], Stage] = {}
        self._forms: dict[int, tuple[Relation, str]] = {}
        self._items: dict[tuple[int, frozenset[Column]], tuple[Exchange, str]] = {}

    def cut(
        self, relation: Relation, columns: Sequence[tuple[str, str]], settings: Sequence[tuple[str, str]] = ()
    ) -> Plan:
        """The plan of a relation made by :func:`qoop.planner.exchange.exchange.place_exchanges`.

        columns: names and DuckDB types of the result. settings: SET options that change results.

        Raises PlanError if an exchange does not know its fragment.
        """
        return Plan(tuple(self._numbered(relation).stages), tuple(columns), tuple(settings))

    def exchanges(self, relation: Relation) -> tuple[Exchange, ...]:
        """The exchanges that the stages of the plan were cut from, in its order."""
        return tuple(self._numbered(relation).exchanges)

    def _numbered(self, relation: Relation) -> _Numbered:
        numbered = _Numbered(self)
        numbered.add(self.content(_exchange(relation), root=True))
        return numbered

    def content(self, exchange: Exchange, root: bool = False) -> _Content:
        """The content of the stage below the exchange. root: it is the result."""
        known = self._contents.get((id(exchange), root))
        if known is None:
            known = self._contents[id(exchange), root] = self._content(exchange, root)
        return known

    def _content(self, exchange: Exchange, root: bool) -> _Content:
        fragment, top = _fragment(exchange), exchange.input
        shared = isinstance(top, Shared)  # not cut by its readers' keys
        if isinstance(top, Shared):
            top = top.input
        leaves = tuple(node for node in fragment_nodes(top) if isinstance(node, Scan | Exchange))
        identity = self.identify(top if fragment.partial else fragment.meaning)
        names = {column: Column(identity.names[column], column.type) for column in top.columns}
        ordered = top.columns if root else tuple(sorted(top.columns, key=lambda column: names[column].name))
        kind = "root" if root else "partial" if fragment.partial else "whole"
        signature = _signature(kind, identity.signature, [names[column] for column in ordered])
        stage = Stage(
            id="",
            sql="",
            inputs=(),
            columns=tuple((column.name if root else names[column].name, column.type) for column in ordered),
            width=fragment.width,
            signature=signature,
            layout=Layout() if shared or root else _layout(exchange, names),
            cut=self._form(top) if fragment.width > 1 else "",
            slots=fragment.slots,
            estimate=self.observed.estimate(signature, fragment.width, fragment.estimate, self._read_by(leaves)),
            opaque=top.reason if isinstance(top, Opaque) else None,
            shareable=not identity.non_deterministic,
            by_digits=identity.by_digits,
            join_filters=not _joins_limited(top),
            meaning="" if fragment.partial else identity.rows,
            facts=NO_FACTS if fragment.partial else _facts(identity, names, ordered, root),
        )
        return _Content(exchange, top, leaves, names, ordered, root, stage)

    def _read_by(self, leaves: Iterable[Scan | Exchange]) -> frozenset[str]:
        """See :func:`~qoop.planner.plan.read_by`; nothing where nothing was observed."""
        if not self.observed.by_signature:
            return frozenset()
        return frozenset(
            read_table(leaf.table, leaf.version) if isinstance(leaf, Scan) else self.content(leaf).stage.signature
            for leaf in leaves
        )

    def _form(self, top: Relation) -> str:
        """Digest of how the fragment's rows fall to its tasks."""
        known = self._forms.get(id(top))
        if known is None:
            known = self._forms[id(top)] = (top, self._formed(top))
        return known[1]

    def _formed(self, top: Relation) -> str:
        def source(exchange: Exchange) -> tuple[str, tuple[str, ...]]:
            below = self.content(exchange)
            stage = below.stage
            return repr((stage.signature, exchange.kind, *_deciding_cut(stage, exchange.kind))), tuple(
                below.names[column].name for column in exchange.columns
            )

        return blake2b(form(top, source).encode(), digest_size=16).hexdigest()

    def stage(self, content: _Content, name: StageId, inputs: Sequence[Input]) -> Stage:
        """The stage under a name, with an input for each of its leaves."""
        key = (id(content), name, *((item.name, getattr(item, "stage", "")) for item in inputs))
        known = self._stages.get(key)
        if known is None:
            opaque = content.top if isinstance(content.top, Opaque) else None
            known = self._stages[key] = replace(
                content.stage,
                id=name,
                sql=self._sql(content, inputs),
                inputs=self._opaque_inputs(opaque) if opaque else tuple(dict.fromkeys(inputs)),
                label=label(content.top, _by_leaf(content, [item.name for item in inputs]), content.partial),
            )
        return known

    def _sql(self, content: _Content, inputs: Sequence[Input]) -> str:
        """The fragment's text: reads other stages by their columns' canonical names, and puts out its own."""
        pairs = zip(content.leaves, inputs, strict=True)
        shielded = content.shielded
        leaves = _by_leaf(content, [self._read(node, item, shielded) for node, item in pairs])
        text = to_sql(content.top, lambda node: leaves.get(id(node)), cast=True)
        if content.root:
            return text
        items = ", ".join(f"{column} AS {content.names[column]}" for column in content.ordered)
        return f"SELECT {items or '1'} FROM ({text})"

    def _read(self, node: Leaf, item: Input, shielded: frozenset[Column]) -> str:
        if isinstance(node, Scan):
            return quote(item.name)
        key = id(node), shielded.intersection(node.columns)
        known = self._items.get(key)
        if known is None:
            names = self.content(node).names
            items = (f"{_as_read(names[c], c.type, c in key[1])} AS {c}" for c in node.columns)
            known = self._items[key] = (node, ", ".join(items))
        return f"(SELECT {known[1] or '1'} FROM {quote(item.name)})"

    def _opaque_inputs(self, opaque: Opaque) -> tuple[TableInput, ...]:
        return tuple(
            TableInput(name, name, version, tuple(self.table_columns.get(name, ())), split=False)
            for name, version in opaque.tables
        )


def _by_leaf(content: _Content, texts: Sequence[str]) -> dict[int, str]:
    return {id(node): text for node, text in zip(content.leaves, texts, strict=True)}


class _Numbered:
    """The stages of one plan, numbered in the order in which they can run."""

    def __init__(self, cutter: Cutter) -> None:
        self.cutter = cutter
        self.stages: list[Stage] = []
        self.exchanges: list[Exchange] = []
        self.shared: dict[str, StageId] = {}
        self.producers: dict[int, StageId] = {}
        self.same: dict[tuple[object, ...], StageId] = {}

    def add(self, content: _Content) -> StageId:
        """The id of the stage, or of the equal one that the plan has; non-deterministic stages are never shared."""
        inputs = self.inputs(content)
        same = self.same.get(content.key) if content.stage.shareable else None
        if same is None:
            same = f"s{len(self.stages) + 1}"
            self.stages.append(self.cutter.stage(content, same, inputs))
            self.exchanges.append(content.exchange)
            self.same[content.key] = same
        return same

    def inputs(self, content: _Content) -> list[Input]:
        """An input for every leaf of the fragment; equal leaves have one."""
        taken: dict[str, Input] = {}
        return [_named(self.leaf(node, content.stage.width), taken) for node in content.leaves]

    def leaf(self, node: Leaf, width: int) -> Input:
        if isinstance(node, Scan):
            own = tuple(dict.fromkeys(name for name, _ in node.fields))
            return TableInput(node.table, node.table, node.version, own, split=node.parts > 1 and width > 1)
        stage = self.producer(node)
        return StageInput(stage, stage, _MODES[node.kind])  # type: ignore[arg-type]

    def producer(self, exchange: Exchange) -> StageId:
        """The stage whose output the exchange reads; equal content in equal parts is made once."""
        known = self.producers.get(id(exchange))
        if known is None:
            known = self.producers[id(exchange)] = self.produced(exchange)
        return known

    def produced(self, exchange: Exchange) -> StageId:
        if not isinstance(exchange.input, Shared):
            return self.add(self.cutter.content(exchange))
        name = exchange.input.name
        if name not in self.shared:
            self.shared[name] = self.add(self.cutter.content(exchange))
        return self.shared[name]


def _deciding_cut(stage: Stage, kind: str) -> tuple[object, ...]:
    """The parts of a stage's cut that decide which rows a reader's task gets."""
    match kind:
        case "gather":
            return ()
        case "hash":
            return (stage.layout,)
    return stage.width, stage.cut


def _facts(identity: Identity, names: Mapping[Column, Column], ordered: Sequence[Column], root: bool) -> LazyFacts:
    if identity.facts is None or identity.non_deterministic:
        return NO_FACTS
    called = [((column if root else names[column]).name, column) for column in ordered]
    return LazyFacts(partial(identity.facts, called))


def _named(item: Input, taken: dict[str, Input]) -> Input:
    """The input under a name that no other input of the fragment has."""
    for name in _names(item.name):
        renamed = _rename(item, name)
        if taken.setdefault(name.lower(), renamed) == renamed:
            return renamed
    raise AssertionError("names never run out")


def _names(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def _rename(item: Input, name: str) -> Input:
    if item.name == name:
        return item
    if isinstance(item, TableInput):
        return TableInput(name, item.table, item.version, item.columns, item.split)
    return StageInput(name, item.stage, item.mode)


def _pushed_to(node: Relation, keys: frozenset[Column]) -> Iterator[Column]:
    """The columns of exchanges below that a join filters by its keys, or a join above by these."""
    match node:
        case Exchange():
            yield from keys.intersection(node.columns)
        case Join():
            yield from _pushed_to(node.left, keys | columns_of_all(node.on))
            yield from _pushed_to(node.right, frozenset())
        case Filter() | Sort():
            yield from _pushed_to(node.input, keys)
        case _:  # which may call a column otherwise
            for child in node.inputs:
                yield from _pushed_to(child, frozenset(child.columns) if keys else keys)


def _shield(column: Column) -> str:
    """The column's value through a call that stops pushed filters: the cheapest one that changes nothing.

    pyarrow holds the output of another stage, and would get the filter. It takes five times as long as DuckDB, and
    refuses Bloom filters with an error. Scans of tables in the same fragment keep their filters.
    """
    return f"greatest({column})"


def _as_read(column: Column, type_: str, shielded: bool) -> str:
    """A column of another stage's output. In Arrow an ENUM is a text, which has another order, and an untyped NULL an
    integer."""
    if "ENUM(" in type_ or type_ == NULL_TYPE:
        return f"CAST({column} AS {type_})"
    return _shield(column) if shielded else str(column)


def _joins_limited(top: Relation, joined: bool = False) -> bool:
    """True if a LIMIT lies below a join of the fragment, which a filter on the join's keys must not pass."""
    if isinstance(top, Exchange):
        return False
    if isinstance(top, Limit) and joined:
        return True
    return any(_joins_limited(child, joined or isinstance(top, Join)) for child in top.inputs)


def _layout(exchange: Exchange, names: Mapping[Column, Column]) -> Layout:
    if exchange.kind != "hash":
        return Layout()
    return Layout(tuple(str(substitute(key, names)) for key in exchange.keys), exchange.parts)


def _signature(kind: str, signature: Signature, columns: Sequence[Column]) -> Signature:
    """Unfinished rows are another content than finished ones; the set of columns is part of the content.

    The columns of a root are in the order of the result, and so part of it.
    """
    form = ",".join(f"{column.name}:{column.type}" for column in columns)
    return blake2b(f"{kind}|{form}|{signature}".encode(), digest_size=16).hexdigest()


def label(top: Relation, names: Mapping[int, str], partial: bool = False) -> str:
    """A few words on what a fragment does: its sources, then its operators from the bottom up.

    names: what the leaves are called, by id of the object.

    >>> label(Scan("item", "1", ()), {})
    'scan item'
    """
    words = list(dict.fromkeys(_operators(top)))
    if partial and words:
        words[-1] = "partial " + words[-1]
    return ", ".join([_sources(top, names), *words])


def _sources(node: Relation, names: Mapping[int, str]) -> str:
    match node:
        case Scan():
            return f"scan {node.table}"
        case Exchange():
            return f"read {names.get(id(node), 'exchange')}"
        case Opaque():
            return "opaque"
        case Join():
            return f"{_sources(node.left, names)} {_SIGNS[node.kind]} {_inner_sources(node.right, names)}"
        case SetOp():
            return f" {node.kind} ".join(_inner_sources(branch, names) for branch in node.branches)
    return _sources(node.inputs[0], names) if node.inputs else "values"


_SIGNS = {
    "inner": "⋈", "left": "left ⋈", "right": "right ⋈", "full": "full ⋈", "semi": "⋉", "anti": "▷", "mark": "∈",
}  # fmt: skip
"""Those for outer joins are in few fonts."""


def _inner_sources(node: Relation, names: Mapping[int, str]) -> str:
    text = _sources(node, names).removeprefix("scan ").removeprefix("read ")
    return f"({text})" if any(f" {sign} " in text for sign in _SIGNS.values()) else text


def _operators(node: Relation) -> Iterator[str]:
    if isinstance(node, Exchange):
        return
    for child in node.inputs:
        yield from _operators(child)
    match node:
        case Aggregate():
            yield ", ".join(dict.fromkeys(agg.call.op for agg in node.aggregations)) or "distinct"
        case Window():
            yield "window"
        case Sort():
            yield "sort"
        case Limit():
            yield f"top {node.limit}" if isinstance(node.input, Sort) else f"limit {node.limit}"
