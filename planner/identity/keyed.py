"""Functional dependencies of a block's leaves: which of them have one row at most for given values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set

from qoop.planner.algebra.canonical_text import leaf_number, own_name, short
from qoop.planner.algebra.expr import Column, Expr
from qoop.planner.algebra.properties import equated
from qoop.planner.identity.block import Block, Leaf

Keys = Mapping[str, Collection[Set[str]]]
"""By table, in lower case: sets of columns whose values are unique together."""

KeysOf = Callable[[Leaf], Collection[Set[str]]]
"""The keys of a leaf, as the own names of its columns in lower case."""


def own_names(keys: Iterable[Set[str]]) -> list[frozenset[str]]:
    """Keys of a table as own names of a leaf's columns have them."""
    return [frozenset(short(name).lower() for name in key) for key in keys]


def has_one_partner(right: Block, on: Iterable[Expr], keys: KeysOf) -> bool:
    """True if a row has one partner at most in a block that is joined to it by these conditions.

    Columns that are equated with one of the row's have one value. A leaf of which some columns with one value are a key
    has one row, and so has one value in each column (closure of functional dependencies: Abiteboul, Hull, Vianu,
    "Foundations of Databases", 1995, section 8.2).
    """
    inner = {leaf.number for leaf in right.leaves}
    pairs = [pair for pair in map(equated, (*right.predicates, *on)) if pair is not None]
    fixed = {column for pair in pairs for column in pair if leaf_number(column) not in inner}
    missing = list(right.leaves)
    while missing:
        _follow(pairs, fixed)
        found = next((leaf for leaf in missing if _is_fixed(leaf, fixed, keys)), None)
        if found is None:
            return False
        missing.remove(found)
        fixed.update(c for pair in pairs for c in pair if leaf_number(c) == found.number)
    return True


def _follow(pairs: Iterable[tuple[Column, Column]], fixed: set[Column]) -> None:
    """Add the columns that equal those with one value."""
    rest = list(pairs)
    while True:
        new = [pair for pair in rest if not fixed.isdisjoint(pair)]
        if not new:
            return
        rest = [pair for pair in rest if pair not in new]
        fixed.update(column for pair in new for column in pair)


def _is_fixed(leaf: Leaf, fixed: Iterable[Column], keys: KeysOf) -> bool:
    own = {own_name(column).lower() for column in fixed if leaf_number(column) == leaf.number}
    return leaf.single or any(key <= own for key in keys(leaf))
