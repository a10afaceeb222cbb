"""From a relation with its exchanges to a Plan: one Stage for every Exchange, one for every shared subplan.

Stages are numbered in the order in which they can run.  A fragment reads tables under their own names and
other stages under their ids, so that the SQL of a stage can be read by people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from qoop.catalog.errors import PlanError
from qoop.planner.distribution import fragment_nodes
from qoop.planner.expr import quote
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

Identify = Callable[[Relation], tuple[Signature, bool]]

_MODES = {"gather": "all", "hash": "partition", "forward": "forward"}


def cut(
    relation: Relation,
    columns: Sequence[tuple[str, str]],
    settings: Sequence[tuple[str, str]] = (),
    table_columns: Mapping[str, Sequence[str]] | None = None,
    *,
    identify: Identify,
) -> Plan:
    """Return the plan of a relation made by :func:`qoop.planner.exchange.place_exchanges`.

    columns: names and DuckDB types of the result.
    settings: SET options that change results.
    table_columns: all columns by table name, for opaque fragments, which do not say what they read.
    identify: the signature of a relation without exchanges, and whether it is an island (law 12).
    Raises PlanError if an exchange does not know its fragment.
    """
    cutter = _Cutter(identify, table_columns or {})
    cutter.stage(_exchange(relation), Layout())
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

    def __post_init__(self) -> None:
        self.stages: list[Stage] = []
        self.shared: dict[str, StageId] = {}

    def producer(self, exchange: Exchange) -> StageId:
        """The stage whose output the exchange reads; a shared subplan's is made for its first reader."""
        if not isinstance(exchange.input, Shared):
            return self.stage(exchange, _layout(exchange))
        name = exchange.input.name
        if name not in self.shared:
            self.shared[name] = self.stage(exchange, Layout())
        return self.shared[name]

    def stage(self, exchange: Exchange, layout: Layout) -> StageId:
        fragment, top = _fragment(exchange), exchange.input
        if isinstance(top, Shared):
            top = top.input
        inputs = self.inputs(top, fragment.width)
        names = {id(node): quote(item.name) for node, item in inputs}
        signature, island = self.identify(fragment.meaning)
        opaque = top if isinstance(top, Opaque) else None
        stage = Stage(
            id=f"s{len(self.stages) + 1}",
            sql=to_sql(top, lambda node: names.get(id(node)), cast=True),
            inputs=self.opaque_inputs(opaque) if opaque else tuple(dict.fromkeys(item for _, item in inputs)),
            columns=tuple((column.name, column.type) for column in top.columns),
            width=fragment.width,
            signature=_partial(signature, top) if fragment.partial else signature,
            layout=layout,
            slots=fragment.slots,
            estimate=fragment.estimate,
            opaque=opaque.reason if opaque else None,
            shareable=not island,
            label=label(top, names, fragment.partial),
        )
        self.stages.append(stage)
        return stage.id

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


def _layout(exchange: Exchange) -> Layout:
    if exchange.kind != "hash":
        return Layout()
    return Layout(tuple(str(key) for key in exchange.keys), exchange.parts)


def _partial(signature: Signature, top: Relation) -> Signature:
    """Unfinished rows are another content than the finished ones, and their form is part of it."""
    form = ",".join(column.type for column in top.columns)
    return blake2b(f"partial|{form}|{signature}".encode(), digest_size=16).hexdigest()


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
