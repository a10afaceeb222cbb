"""From a relation with its exchanges to a Plan: one Stage for every Exchange, one for every shared subplan.

Stages are numbered in the order in which they can run.  A fragment reads tables under their own names and
other stages under their ids, so that the SQL of a stage can be read by people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple

from qoop.catalog.errors import PlanError
from qoop.planner.distribution import fragment_nodes
from qoop.planner.expr import Column, quote, substitute
from qoop.planner.form import form
from qoop.planner.observed import NOTHING, Observations
from qoop.planner.plan import Layout, Plan, Signature, Stage, StageId, StageInput, TableInput
from qoop.planner.relation import (
    Aggregate,
    Exchange,
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
from qoop.planner.sqlgen import to_sql


class Identity(NamedTuple):
    """What a relation means: its signature, a canonical name for each column, and whether it is an island.

    rows: digest of its rows without regard to columns.
    """

    signature: Signature
    names: Mapping[Column, str]
    island: bool
    rows: Signature = ""


Identify = Callable[[Relation], Identity]

_MODES = {"gather": "all", "hash": "partition", "forward": "forward"}


def cut(
    relation: Relation,
    columns: Sequence[tuple[str, str]],
    settings: Sequence[tuple[str, str]] = (),
    table_columns: Mapping[str, Sequence[str]] | None = None,
    *,
    identify: Identify,
    observed: Observations = NOTHING,
) -> Plan:
    """Return the plan of a relation made by :func:`qoop.planner.exchange.place_exchanges`.

    columns: names and DuckDB types of the result.
    settings: SET options that change results.
    table_columns: all columns by table name, for opaque fragments, which do not say what they read.
    identify: what a relation without exchanges means.
    observed: what was seen of stages of the same signature, to stand in for their estimates.
    Raises PlanError if an exchange does not know its fragment.
    """
    cutter = _Cutter(identify, table_columns or {}, observed)
    cutter.stage(_exchange(relation), root=True)
    return Plan(tuple(cutter.stages), tuple(columns), tuple(settings))


def _exchange(relation: Relation) -> Exchange:
    if not isinstance(relation, Exchange):
        raise PlanError(f"the root of a placed relation is an Exchange, not a {type(relation).__name__}")
    return relation


def _fragment(exchange: Exchange) -> Fragment:
    if exchange.fragment is None:
        raise PlanError("an exchange without a fragment: relations are cut only after place_exchanges")
    return exchange.fragment


@dataclass
class _Cutter:
    identify: Identify
    table_columns: Mapping[str, Sequence[str]]
    observed: Observations

    def __post_init__(self) -> None:
        self.stages: list[Stage] = []
        self.shared: dict[str, StageId] = {}
        self.producers: dict[int, StageId] = {}
        self.same: dict[tuple[object, ...], StageId] = {}
        self.names: dict[StageId, dict[Column, str]] = {}

    def producer(self, exchange: Exchange) -> StageId:
        """The stage whose output the exchange reads; equal content in equal parts is made once."""
        known = self.producers.get(id(exchange))
        if known is None:
            known = self.producers[id(exchange)] = self.produced(exchange)
        return known

    def produced(self, exchange: Exchange) -> StageId:
        if not isinstance(exchange.input, Shared):
            return self.stage(exchange)
        name = exchange.input.name
        if name not in self.shared:
            self.shared[name] = self.stage(exchange, whole=True)
        return self.shared[name]

    def stage(self, exchange: Exchange, whole: bool = False, root: bool = False) -> StageId:
        """Make the stage that the exchange reads. whole: not cut by its readers' keys. root: it is the result."""
        fragment, top = _fragment(exchange), exchange.input
        if isinstance(top, Shared):
            top = top.input
        inputs = self.inputs(top, fragment.width)
        identity = self.identify(top if fragment.partial else fragment.meaning)
        names = {column: Column(identity.names[column], column.type) for column in top.columns}
        ordered = top.columns if root else tuple(sorted(top.columns, key=lambda column: names[column].name))
        opaque = top if isinstance(top, Opaque) else None
        kind = "root" if root else "partial" if fragment.partial else "whole"
        stage = Stage(
            id=f"s{len(self.stages) + 1}",
            sql=self.sql(top, inputs, names, ordered, root),
            inputs=self.opaque_inputs(opaque) if opaque else tuple(dict.fromkeys(item for _, item in inputs)),
            columns=tuple((column.name if root else names[column].name, column.type) for column in ordered),
            width=fragment.width,
            signature=_signature(kind, identity.signature, [names[column] for column in ordered]),
            layout=Layout() if whole or root else _layout(exchange, names),
            cut=self.form(top) if fragment.width > 1 else "",
            slots=fragment.slots,
            estimate=fragment.estimate,
            opaque=opaque.reason if opaque else None,
            shareable=not identity.island,
            join_filters=not any(isinstance(leaf, Exchange) for leaf in _probing(top)),
            label=label(top, {id(node): item.name for node, item in inputs}, fragment.partial),
            meaning="" if fragment.partial else identity.rows,
        )
        stage = replace(stage, estimate=self.observed.estimate(stage.signature, stage.width, stage.estimate))
        return self.added(stage, {column: names[column].name for column in top.columns})

    def added(self, stage: Stage, names: Mapping[Column, str]) -> StageId:
        """The id of the stage, or of the equal one that the plan has; islands are never shared."""
        key = (stage.signature, stage.layout, stage.width, stage.cut)
        same = self.same.get(key) if stage.shareable else None
        if same is None:
            self.stages.append(stage)
            self.same[key] = same = stage.id
        self.names.setdefault(same, {}).update(names)
        return same

    def sql(
        self,
        top: Relation,
        inputs: Sequence[tuple[Relation, TableInput | StageInput]],
        names: Mapping[Column, Column],
        ordered: Sequence[Column],
        root: bool,
    ) -> str:
        """The fragment's text: reads other stages by their columns' canonical names, and puts out its own."""
        leaves = {id(node): self.read(node, item) for node, item in inputs}
        text = to_sql(top, lambda node: leaves.get(id(node)), cast=True)
        if root:
            return text
        items = ", ".join(f"{column} AS {names[column]}" for column in ordered)
        return f"SELECT {items or '1'} FROM ({text})"

    def read(self, node: Relation, item: TableInput | StageInput) -> str:
        if not isinstance(item, StageInput):
            return quote(item.name)
        names = self.names[item.stage]
        items = ", ".join(f"{quote(names[column])} AS {column}" for column in node.columns)
        return f"(SELECT {items or '1'} FROM {quote(item.name)})"

    def form(self, top: Relation) -> str:
        """Digest of how the fragment's rows fall to its tasks."""
        stages = {stage.id: stage for stage in self.stages}

        def source(exchange: Exchange) -> tuple[str, tuple[str, ...]]:
            stage = stages[self.producer(exchange)]
            names = self.names[stage.id]
            what = (stage.signature, exchange.kind, stage.layout, stage.width, stage.cut)
            return repr(what), tuple(names[column] for column in exchange.columns)

        return blake2b(form(top, source).encode(), digest_size=16).hexdigest()

    def inputs(self, top: Relation, width: int) -> list[tuple[Relation, TableInput | StageInput]]:
        """Every leaf of the fragment with its input; equal leaves have one."""
        taken: dict[str, TableInput | StageInput] = {}
        return [
            (node, _named(self.leaf(node, width), taken))
            for node in fragment_nodes(top)
            if isinstance(node, Scan | Exchange)
        ]

    def leaf(self, node: Scan | Exchange, width: int) -> TableInput | StageInput:
        if isinstance(node, Scan):
            own = tuple(dict.fromkeys(name for name, _ in node.fields))
            return TableInput(node.table, node.table, node.version, own, split=node.parts > 1 and width > 1)
        stage = self.producer(node)
        return StageInput(stage, stage, _MODES[node.kind])  # type: ignore[arg-type]

    def opaque_inputs(self, opaque: Opaque) -> tuple[TableInput, ...]:
        return tuple(
            TableInput(name, name, version, tuple(self.table_columns.get(name, ())), split=False)
            for name, version in opaque.tables
        )


def _named(item: TableInput | StageInput, taken: dict[str, TableInput | StageInput]) -> TableInput | StageInput:
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


def _rename(item: TableInput | StageInput, name: str) -> TableInput | StageInput:
    if isinstance(item, TableInput):
        return TableInput(name, item.table, item.version, item.columns, item.split)
    return StageInput(name, item.stage, item.mode)


def _probing(node: Relation, probing: bool = False) -> Iterator[Relation]:
    """The leaves on the probe side of a hash join, into whose scans DuckDB may push a filter on its keys."""
    if isinstance(node, Exchange) or not node.inputs:
        if probing:
            yield node
    elif isinstance(node, Join):
        yield from _probing(node.left, True)
        yield from _probing(node.right)
    else:
        for child in node.inputs:
            yield from _probing(child, probing)


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


_SIGNS = {"inner": "⋈", "left": "⟕", "right": "⟖", "full": "⟗", "semi": "⋉", "anti": "▷", "mark": "∈"}


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
