"""Shared subplans written out for every reader, with the reader's filters inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from qoop.planner.algebra.expr import Column
from qoop.planner.algebra.float_order import FloatOrder, float_order_of, with_digits
from qoop.planner.algebra.relation import Opaque, Project, Relation, Shared, walk, with_inputs
from qoop.planner.identity.determinism import is_non_deterministic

MOST_COPIES = 6
"""Readers of a shared subplan up to which it is ever written out for each."""


def inline_shared(relation: Relation) -> Relation:
    """Write shared subplans out for each of their readers, each with new columns.

    Non-deterministic subplans stay shared, as two runs of them may differ (law 12). So do subplans that hold SQL taken
    as it is, and those with more readers than :data:`MOST_COPIES`.
    """
    readers: dict[str, int] = {}
    for node in _paths(relation, 4096):
        if isinstance(node, Shared):
            readers[node.name] = readers.get(node.name, 0) + 1
    return _Inliner(readers, float_order_of(relation)).rebuild(relation)


def _paths(relation: Relation, most: int) -> Iterator[Relation]:
    """Every operator as often as it is reached from the root, up to `most` steps."""
    stack = [relation]
    while stack and most:
        most -= 1
        node = stack.pop()
        yield node
        stack.extend(node.inputs)


class _Inliner:
    def __init__(self, readers: Mapping[str, int], float_order: FloatOrder) -> None:
        self.readers = readers
        self.float_order = float_order
        self.copies = 0
        self.done: dict[int, Relation] = {}
        self.bodies: dict[int, Relation] = {}

    def rebuild(self, node: Relation) -> Relation:
        """The operator with its subplans written out. Every reader of a Shared is visited on a separate path."""
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
        """A subplan that reads one that stays shared stays shared too: that one's columns have one name each.

        So does one with sums whose last digits decide something above it: that would move into the copies, and no other
        run could use their outputs.
        """
        if self.float_order.deciding and with_digits(shared.input):
            return False
        if self.readers[shared.name] > MOST_COPIES or is_non_deterministic(shared.input, self.float_order):
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
