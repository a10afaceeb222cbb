"""The source of a transfer's keys: the smallest part of a join's side that has as few keys as the whole side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qoop.planner.algebra.expr import Column
from qoop.planner.algebra.properties import equated
from qoop.planner.algebra.relation import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    Sort,
    Window,
    with_inputs,
)
from qoop.planner.estimate.cardinality import Cardinality

MORE_KEYS = 1.2
"""Keys that a part of a side may have over those of the whole side, to stand for it."""

KeyPair = tuple[Column, Column]
"""(the target's column, the source's)."""


@dataclass(frozen=True)
class Source:
    """A part of a side whose keys include all of the side's. path: the inputs that lead to it. keys: its columns."""

    relation: Relation
    path: tuple[int, ...]
    keys: tuple[Column, ...]


def key_pairs(join: Join, side: Relation, other: Relation) -> list[KeyPair]:
    """(the side's column, the other's) of every equality of plain columns between the sides of a join."""
    mine, theirs = frozenset(side.columns), frozenset(other.columns)
    found: list[KeyPair] = []
    for a, b in filter(None, map(equated, join.on)):
        if a in mine and b in theirs:
            found.append((a, b))
        elif b in mine and a in theirs:
            found.append((b, a))
    return found


def source_of(side: Relation, keys: Sequence[Column], cardinality: Cardinality) -> Source | None:
    """The part of a side with the fewest bytes that has hardly more keys than all of it; None if it has no keys."""
    most = MORE_KEYS * cardinality.distinct(side, keys)
    parts = (part for part in _parts(side, (), tuple(keys)) if cardinality.distinct(part.relation, part.keys) <= most)
    return min(parts, key=lambda part: cardinality.bytes(part.relation), default=None)


def _parts(node: Relation, path: tuple[int, ...], keys: tuple[Column, ...]) -> Iterator[Source]:
    """The subtrees that hold all values of the keys which come out at the top; shared ones are not entered."""
    yield Source(node, path, keys)
    match node:
        case Filter() | Sort() | Window() | Join() | Aggregate():
            below: Sequence[Column | None] = keys
        case Project():
            exprs = dict(node.exprs)
            below = [expr if isinstance(expr := exprs[key], Column) else None for key in keys]
        case _:
            return
    for place, child in enumerate(node.inputs):
        held = tuple(key for key in below if key is not None and key in child.columns)
        if len(held) == len(keys):
            yield from _parts(child, (*path, place), held)


def replaced(node: Relation, path: tuple[int, ...], part: Relation) -> Relation:
    """The tree with another relation at the end of a path."""
    if not path:
        return part
    inputs = list(node.inputs)
    inputs[path[0]] = replaced(inputs[path[0]], path[1:], part)
    return with_inputs(node, tuple(inputs))
