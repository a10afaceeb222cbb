"""The groups that are joined for the sums of a tree. Pure.

The sums of a view and its groups below joins are kept as two trees of one form. A replaced file takes its leaf, and the
nodes above it, out of both. Groups may be many, so these nodes are merged of sums: those of the leaf, by its files, and
those of the leaves and nodes next to it, whose groups are joined once. Their own groups stay missing.

::

    groups: missing             sums: merged of these
       ├─ known  ──joined once──>  ├─ new
       ├─ known  ──joined once──>  ├─ new
       └─ missing                  └─ by its files
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from qoop.catalog.value import value

Pair = tuple[str, str]
"""The digests of the sums and of the groups of a leaf or a node."""


class Nodes(Protocol):
    """A tree by digests. children: by node those below it. leaves: by their digests."""

    @property
    def children(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def leaves(self) -> Mapping[str, object]: ...


@value
class Needed:
    """joined: the groups to join, for sums that are missing. lacking: the leaves without groups, but those that
    `joined` computes."""

    joined: tuple[Pair, ...] = ()
    lacking: tuple[Pair, ...] = ()


def needed(pair: Pair, sums: Nodes, groups: Nodes, known: Callable[[str], bool]) -> Needed:
    """The groups that the sums of a node need. A node of leaves of which none has groups is new: all are computed.

    known: True for the digest of sums or of groups that are there.

    >>> from types import SimpleNamespace as Tree
    >>> sums = Tree(children={"abc": ("a", "b", "c")}, leaves={"a": (), "b": (), "c": ()})
    >>> groups = Tree(children={"ABC": ("A", "B", "C")}, leaves={})
    >>> needed(("abc", "ABC"), sums, groups, {"a", "A", "B"}.__contains__)
    Needed(joined=(('b', 'B'),), lacking=(('c', 'C'),))
    >>> needed(("abc", "ABC"), sums, groups, {"a", "b"}.__contains__)
    Needed(joined=(('abc', 'ABC'),), lacking=())
    """
    return _needed(pair, sums, groups, known, is_missing=True)[0]


def _needed(
    pair: Pair, sums: Nodes, groups: Nodes, known: Callable[[str], bool], is_missing: bool
) -> tuple[Needed, bool]:
    """The same; and True if some of its groups are there. is_missing: the sums of the node above are."""
    one, group = pair
    is_missing = is_missing and not known(one)
    if known(group):
        return Needed(joined=(pair,) if is_missing else ()), True
    if one in sums.leaves:
        return Needed(lacking=(pair,)), False
    below = list(zip(sums.children[one], groups.children[group], strict=True))
    found = [_needed(each, sums, groups, known, is_missing) for each in below]
    has_groups = any(has for _, has in found)
    if is_missing and not has_groups and all(each in sums.leaves for each, _ in below):
        return Needed(joined=(pair,)), False
    joined = tuple(each for needs, _ in found for each in needs.joined)
    return Needed(joined, tuple(each for needs, _ in found for each in needs.lacking)), has_groups
