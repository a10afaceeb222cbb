"""The choices a planner makes, as values: each :class:`Variant` leads the same query to another plan.

A variant is a preference, not a promise: where it finds nothing to do, the plan is the usual one.  All variants
are sound for every query; which of them is fast depends on the data and on the share of the resources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from math import inf
from typing import Any

from qoop.planner.digits import Digits, digits_of
from qoop.planner.exchange_cost import USUAL, Thresholds
from qoop.planner.expr import Column
from qoop.planner.island import is_island
from qoop.planner.join_order import MEMORY, NETWORK, RESULTS, WORK, Aim
from qoop.planner.plan import Resources
from qoop.planner.relation import Opaque, Project, Relation, Shared, walk, with_inputs
from qoop.planner.rules.eager_aggregation import LEAST_GAIN

MOST_COPIES = 6
"""Readers of a shared subplan up to which it is ever written out for each."""


@dataclass(frozen=True)
class Logical:
    """Choices about the relation, before it is known how many tasks there will be.

    eager_gain: estimated gain from which on aggregates are pushed below joins: 0 always, infinite never.
    reduce_facts: whether large sides of joins are reduced by the keys of the other side.
    loosen: whether inner joins that only ask for a partner become semi joins.
    inline: whether shared subplans are written out for every reader, with the reader's filters inside.
    bushy: False: one side of every join is a single relation.
    aim: what the order of joins is to save beside work.
    """

    eager_gain: float = LEAST_GAIN
    reduce_facts: bool = False
    loosen: bool = True
    inline: bool = False
    bushy: bool = True
    aim: Aim = WORK


@dataclass(frozen=True)
class Variant:
    """A set of choices under a name.

    limits: choices about exchanges and tasks. slots: the least and the most slots of a room that it is tried in.
    """

    name: str = "usual"
    logical: Logical = Logical()
    limits: Thresholds = USUAL
    slots: tuple[float, float] = (1.0, inf)

    def on(self, room: Resources, threads: int, machine: int) -> Variant:
        """The variant with thresholds that suit a room of machines of so many slots, `threads` of them for a task.

        As many hash partitions as there are slots, so that all of them have work; a room of no more slots than
        one plan for one machine uses changes nothing.
        """
        slots = int(room.cpu)
        parts = self.limits.most_parts if slots <= self.limits.most_parts else slots
        limits = replace(self.limits, most_threads=threads, machine_slots=machine, most_parts=parts)
        return replace(self, limits=limits)


_USUAL = Logical()
_HASH = replace(USUAL, broadcast_factor=8.0, single_seconds=0.05)
_LEAN = replace(USUAL, table_factor=16.0, task_seconds=0.06, most_parts=256, single_seconds=0.1)
_BROADCAST = replace(USUAL, broadcast_factor=0.125, table_factor=1.0, single_seconds=2.0)
_NETWORK = replace(_USUAL, aim=NETWORK)
_FEW, _SOME, _MANY = (1.0, 100.0), (2.0, 100.0), (30.0, inf)  # slots: up to a few machines; a machine or more

VARIANTS: tuple[Variant, ...] = (
    Variant(),
    Variant("broadcast", limits=_BROADCAST, slots=_FEW),
    Variant("lean", limits=_LEAN, slots=_SOME),
    Variant("lazy", replace(_USUAL, eager_gain=inf)),
    Variant("eager", replace(_USUAL, eager_gain=0.0)),
    Variant("inline", replace(_USUAL, inline=True)),
    Variant("linear", replace(_USUAL, bushy=False), slots=_FEW),
    Variant("small moves", _NETWORK, slots=_SOME),
    Variant("small results", replace(_USUAL, aim=RESULTS)),
    Variant("small builds", replace(_USUAL, aim=MEMORY), slots=_FEW),
    Variant("reduced facts", replace(_USUAL, reduce_facts=True)),
    Variant("lean eager", replace(_USUAL, eager_gain=0.0), _LEAN),
    Variant("linear hash", replace(_USUAL, bushy=False), _HASH, slots=_MANY),
    Variant("small moves hash", _NETWORK, _HASH),
)
"""The variants that are tried, in the order in which ties between equal plans are settled.

On the cluster of the paper, with statistics of TPC-DS at scale 500, each is needed: without it the best plan of the
pool would be 7 % slower, or up to many times slower, for some query on some share.
"""

RARE = (Variant("hash", limits=_HASH), Variant("strict joins", replace(_USUAL, loosen=False)))
"""Variants that add nothing to those, 2 % at most for one query: only a full search tries them."""


def inline_shared(relation: Relation) -> Relation:
    """Write shared subplans out for each of their readers, with columns of their own.

    Islands stay shared, as two runs of them may differ (law 12); so do subplans that hold SQL taken as it is, and
    those with more readers than :data:`MOST_COPIES`.
    """
    readers: dict[str, int] = {}
    for node in _paths(relation, 4096):
        if isinstance(node, Shared):
            readers[node.name] = readers.get(node.name, 0) + 1
    return _Inliner(readers, digits_of(relation)).rebuild(relation)


def _paths(relation: Relation, most: int) -> Iterator[Relation]:
    """Every operator as often as it is reached from the root, up to `most` steps."""
    stack = [relation]
    while stack and most:
        most -= 1
        node = stack.pop()
        yield node
        stack.extend(node.inputs)


class _Inliner:
    def __init__(self, readers: Mapping[str, int], digits: Digits) -> None:
        self.readers = readers
        self.digits = digits
        self.copies = 0
        self.done: dict[int, Relation] = {}
        self.bodies: dict[int, Relation] = {}

    def rebuild(self, node: Relation) -> Relation:
        """The operator with its subplans written out. Every reader of a Shared is met on a path of its own."""
        if isinstance(node, Shared):
            body = self.body(node)
            return body if isinstance(body, Shared) else self.copy(body)
        known = self.done.get(id(node))
        if known is None:
            known = with_inputs(node, tuple(map(self.rebuild, node.inputs))) if node.inputs else node
            self.done[id(node)] = known
        return known

    def body(self, shared: Shared) -> Relation:
        if id(shared) not in self.bodies:
            inner = self.rebuild(shared.input)
            self.bodies[id(shared)] = inner if self.may_copy(shared, inner) else with_inputs(shared, (inner,))
        return self.bodies[id(shared)]

    def may_copy(self, shared: Shared, body: Relation) -> bool:
        """A subplan that reads one that stays shared stays shared too: that one's columns have one name each."""
        if self.readers[shared.name] > MOST_COPIES or is_island(shared.input, self.digits):
            return False
        return not any(isinstance(node, Opaque | Shared) for node in walk(body))

    def copy(self, body: Relation) -> Relation:
        self.copies += 1
        fresh: Relation = _renamed(body, f":copy{self.copies}", {})
        back = zip(body.columns, fresh.columns, strict=True)
        return Project(fresh, tuple(back))


def _renamed(value: Any, suffix: str, done: dict[int, Any]) -> Any:
    """A relation, or any part of one, with every column under another name."""
    if isinstance(value, Column):
        return Column(value.name + suffix, value.type)
    if isinstance(value, tuple):
        return tuple(_renamed(item, suffix, done) for item in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    known = done.get(id(value))
    if known is None:
        parts = {item.name: _renamed(getattr(value, item.name), suffix, done) for item in fields(value) if item.init}
        known = done[id(value)] = replace(value, **parts)
    return known
