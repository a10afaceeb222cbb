"""The tree of partial results of a view. Pure.

A leaf stands for files that came together. Eight consecutive leaves make a node, eight nodes a node above. An edition
merges the open nodes: those without a node above, at most seven a level. The digest of a leaf is one of its query and
its files, the digest of a node one of its children; so a changed file changes its leaf and the nodes above, no others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import chain

from qoop.catalog.sources.file_stamp import different
from qoop.catalog.table import Compaction
from qoop.catalog.value import value

WIDTH = 8
"""The children of a node."""

LEAF_ROWS, LEAST_LEAF = 1_000_000, 50_000
"""The most and the least rows from which files that came together make several leaves: a replaced file costs its leaf
again, and 64 leaves are two levels of nodes."""

FILE_ROWS = 1_500
"""The rows whose reading takes as long as it takes to open a file; they count as rows of it."""

File = tuple[str, str]
"""The path of a file, and the text that identifies its rows."""

Leaf = tuple[File, ...]

_Changes = tuple[frozenset[str], frozenset[str]]

_MOST = 16
_last: OrderedDict[tuple[int, int], tuple[Mapping[str, str], Mapping[str, str], _Changes]] = OrderedDict()
"""The last changes, by the objects of the states. These are kept, so no others have their addresses."""


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> _Changes:
    """The files that are gone or others now, and those that have come or are others now. A refresh needs them several
    times, as does each view of the table with the same states. Safe in several threads.

    before, now: identities by path; these mappings never change.

    >>> gone, came = changes({"a": "1", "b": "1", "c": "1"}, {"b": "1", "c": "2", "d": "1"})
    >>> sorted(gone), sorted(came)
    (['a', 'c'], ['c', 'd'])
    """
    known = _last.get((id(before), id(now)))
    if known is not None:
        return known[2]
    came = different(now, before)
    there = came & before.keys()
    gone = there if len(now) - len(came) + len(there) == len(before) else different(before, now)
    _last[id(before), id(now)] = before, now, (gone, came)
    if len(_last) > _MOST:
        with suppress(KeyError):  # another thread took the last one
            _last.popitem(last=False)
    return gone, came


class Losses:
    """The files of tables at the last comparison, to find those that were replaced or removed since."""

    def __init__(self) -> None:
        self._files: dict[str, Mapping[str, str]] = {}

    def since_last(self, table: str, files: Mapping[str, str]) -> bool:
        """True if files that the table had at the last call are others or gone. files: its identities by path.

        >>> losses = Losses()
        >>> [losses.since_last("t", one) for one in ({"a": "1"}, {"a": "1", "b": "1"}, {"a": "2", "b": "1"})]
        [False, False, True]
        """
        before, self._files[table] = self._files.get(table, files), files
        return before is not files and bool(changes(before, files)[0])


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
        known = self._files
        gone, came = changes(known, files)
        kept = [_present(leaf, files, gone) for leaf in self.leaves] if gone else list(self.leaves)
        if sum(map(bool, kept)) * 2 < len(kept):
            kept = [leaf for leaf in kept if leaf]
        new = [(path, files[path]) for path in (sorted(came - gone) if known else files)]
        made = Tree((*kept, *_leaves(new, rows)))
        vars(made)["_files"] = files
        return made

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """Identities by path, of the files of all leaves."""
        return dict(chain.from_iterable(self.leaves))

    def compacted(
        self, files: Mapping[str, str], compactions: Sequence[Compaction]
    ) -> tuple[Tree, Mapping[Leaf, tuple[Leaf, ...]]]:
        """The tree after files were written again as others, and by leaf the leaves of before that have its rows.

        files: identities by path, of the files now. A compaction of files that are not all in the tree is a change.

        >>> tree = Tree(((("a", "1"), ("b", "1")), (("c", "1"), ("d", "1")), (("e", "1"),)))
        >>> tree, made_of = tree.compacted({"p": "2", "d": "1", "e": "1"}, [Compaction(("a", "b", "c"), ("p",))])
        >>> tree.leaves
        ((('p', '2'), ('d', '1')), (), (('e', '1'),))
        >>> made_of
        {(('p', '2'), ('d', '1')): ((('a', '1'), ('b', '1')), (('c', '1'), ('d', '1')))}
        """
        if not compactions:
            return self, {}
        leaves = list(self.leaves)
        made_of: dict[Leaf, tuple[Leaf, ...]] = {}
        for compaction in compactions:
            gone = set(compaction.gone)
            touched = [place for place, leaf in enumerate(leaves) if any(path in gone for path, _ in leaf)]
            known = [file for place in touched for file in leaves[place]]
            if not touched or not gone <= {path for path, _ in known}:
                continue
            came = [(path, files.get(path, "")) for path in compaction.came]
            made = (*came, *(file for file in known if file[0] not in gone))
            made_of[made] = tuple(one for place in touched for one in made_of.pop(leaves[place], (leaves[place],)))
            for place in touched:
                leaves[place] = ()
            leaves[touched[0]] = made
        return Tree(tuple(leaves)), made_of


def _present(leaf: Leaf, files: Mapping[str, str], changed: Set[str]) -> Leaf:
    """The files of a leaf as they are now; the leaf itself if they have not changed."""
    if changed.isdisjoint(dict(leaf)):
        return leaf
    return tuple([(path, files[path]) for path, _ in leaf if path in files])


@value
class Nodes:
    """A tree by digests. heads: the open nodes. children: by node those below it. leaves: the files of each leaf."""

    heads: tuple[str, ...]
    children: Mapping[str, tuple[str, ...]]
    leaves: Mapping[str, Leaf]

    def all(self) -> set[str]:
        """The digests of leaves and nodes."""
        return {*self.children, *self.leaves}


class Digests:
    """Digests of the leaves of one query. text: what they depend on besides their files."""

    def __init__(self, text: Sequence[str]) -> None:
        self.text = text
        self._known: dict[int, tuple[Leaf, str]] = {}  # by object of the leaf, which is kept

    def of(self, leaf: Leaf) -> str:
        """The digest of a leaf; empty: it has no files."""
        found = self._known.get(id(leaf))
        if found is None:
            digest = digest_of(*self.text, *[identity for _, identity in leaf]) if leaf else ""
            found = self._known[id(leaf)] = leaf, digest
        return found[1]

    def nodes(self, tree: Tree) -> Nodes:
        """The tree by digests."""
        digests = list(map(self.of, tree.leaves))
        if len(self._known) > 2 * len(digests):  # most are of leaves that are gone
            self._known = {id(leaf): (leaf, one) for leaf, one in zip(tree.leaves, digests, strict=True)}
        return Nodes(*nodes(digests), dict(zip(digests, tree.leaves, strict=True)))


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
    found = _digest_of_node(parts)
    children[found] = parts
    return found


@lru_cache(maxsize=20_000)
def _digest_of_node(parts: tuple[str, ...]) -> str:
    return digest_of(*parts)


def _leaves(files: Sequence[File], rows: Callable[[str], int]) -> list[Leaf]:
    """Consecutive files as about 64 leaves, of `LEAST_LEAF` to `LEAF_ROWS` rows or less."""
    found: list[list[File]] = []
    left = 0
    sizes = [rows(path) + FILE_ROWS for path, _ in files]
    most = min(LEAF_ROWS, max(LEAST_LEAF, sum(sizes) // WIDTH**2))
    for file, size in zip(files, sizes, strict=True):
        if not found or left < size:
            found.append([])
            left = most
        found[-1].append(file)
        left -= size
    return [tuple(leaf) for leaf in found]


def digest_of(*parts: str) -> str:
    """The digest of texts."""
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
