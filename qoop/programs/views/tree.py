"""The tree of partial results of a view. Pure.

A leaf stands for files that came together. Eight consecutive leaves make a node, eight nodes a node above. An edition
merges the open nodes: those without a node above, at most seven a level. The digest of a leaf is one of its query and
its files, the digest of a node one of its children; so a changed file changes its leaf and the nodes above, no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from qoop.catalog.value import value

WIDTH = 8
"""The children of a node."""

LEAF_ROWS = 1_000_000
"""The rows from which files that came together make several leaves: a replaced file costs its leaf again."""

File = tuple[str, str]
"""The path of a file, and the text that identifies its rows."""

Leaf = tuple[File, ...]


@value
class Tree:
    """leaves: in the order in which their files came; some are empty, where all files are gone."""

    leaves: tuple[Leaf, ...] = ()

    def following(self, files: Mapping[str, str], rows: Callable[[str], int]) -> Tree:
        """The tree over these files, of which many are in this one. rows: of a file.

        >>> one = Tree().following({"a": "1", "b": "1"}, lambda path: 10)
        >>> one.leaves
        ((('a', '1'), ('b', '1')),)
        >>> one.following({"b": "2", "c": "1"}, lambda path: 10).leaves
        ((('b', '2'),), (('c', '1'),))
        """
        known = {path for leaf in self.leaves for path, _ in leaf}
        kept = [tuple((path, files[path]) for path, _ in leaf if path in files) for leaf in self.leaves]
        if sum(map(bool, kept)) * 2 < len(kept):
            kept = [leaf for leaf in kept if leaf]
        new = [(path, identity) for path, identity in files.items() if path not in known]
        return Tree((*kept, *_leaves(new, rows)))


def nodes(leaves: Sequence[str]) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
    """The digests of the open nodes, and by the digest of each node those of its children. leaves: the digests of the
    leaves of a tree; an empty one has no part in a node.

    >>> heads, children = nodes([str(place) for place in range(17)])
    >>> len(heads), heads[-1], sorted(map(len, children.values()))
    (3, '16', [8, 8])
    """
    children: dict[str, tuple[str, ...]] = {}
    level, heads = list(leaves), list[str]()
    while len(level) >= WIDTH:
        whole = len(level) // WIDTH * WIDTH
        heads = [*level[whole:], *heads]
        level = [_node(level[first : first + WIDTH], children) for first in range(0, whole, WIDTH)]
    return tuple(one for one in [*level, *heads] if one), children


def _node(below: Sequence[str], children: dict[str, tuple[str, ...]]) -> str:
    parts = tuple(one for one in below if one)
    if len(parts) < 2:
        return parts[0] if parts else ""
    found = digest_of(*parts)
    children[found] = parts
    return found


def _leaves(files: Sequence[File], rows: Callable[[str], int]) -> list[Leaf]:
    """Consecutive files as leaves of about `LEAF_ROWS` rows or less."""
    found: list[list[File]] = []
    left = 0
    for file in files:
        size = rows(file[0])
        if not found or left < size:
            found.append([])
            left = LEAF_ROWS
        found[-1].append(file)
        left -= size
    return [tuple(leaf) for leaf in found]


def digest_of(*parts: str) -> str:
    """The digest of texts."""
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
