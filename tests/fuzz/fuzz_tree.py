"""The text of a random query as a tree, so that what differs can be shrunk by grammar.

The grammar writes plain texts in which it marks what may be made smaller: :func:`optional` parts, :func:`items` of a
list, of which one must stay, and :func:`node` of a kind, in whose place a smaller one of its kind may stand.
:func:`plain` is the text without the marks, :func:`smaller` gives all texts with one thing less, the smallest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_OPEN, _HEAD, _CLOSE = "\x01", "\x02", "\x03"
_OPTIONAL, _ITEM, _LIST = "?", "item", "list:"


@dataclass(frozen=True)
class Tree:
    """A marked part of a text: its kind, and what is in it."""

    kind: str
    parts: tuple[Tree | str, ...]


def node(kind: str, text: str) -> str:
    """A text of a kind, that another of the kind may stand for."""
    return f"{_OPEN}{kind}{_HEAD}{text}{_CLOSE}"


def optional(text: str) -> str:
    """A text that may be left out."""
    return node(_OPTIONAL, text) if text else ""


def items(separator: str, texts: Sequence[str]) -> str:
    """A list of which any item may be left out, but not all."""
    return node(_LIST + separator, "".join(node(_ITEM, text) for text in texts))


def plain(text: str) -> str:
    """The text without its marks."""
    return _rendered(parsed(text), marked=False)


def smaller(text: str, least: Mapping[str, str]) -> Iterator[str]:
    """Marked texts that have one thing less, those with the most left out first.

    least: for a kind the smallest text of it.
    """
    found = {_rendered(one, marked=True) for one in _smaller(parsed(text), least)} - {text}
    yield from sorted(found, key=lambda one: (len(plain(one)), one))


def parsed(text: str) -> Tree:
    """The tree of a marked text."""
    stack: list[tuple[str, list[Tree | str]]] = [("", [])]
    for piece in _pieces(text):
        if piece.startswith(_OPEN):
            stack.append((piece[1:], []))
        elif piece == _CLOSE:
            kind, parts = stack.pop()
            stack[-1][1].append(Tree(kind, tuple(parts)))
        else:
            stack[-1][1].append(piece)
    return Tree("", tuple(stack[0][1]))


def _pieces(text: str) -> Iterator[str]:
    """The marks, each with its kind, and the texts between."""
    for part in text.split(_OPEN)[:1]:
        yield from _closed(part)
    for part in text.split(_OPEN)[1:]:
        kind, rest = part.split(_HEAD, 1)
        yield _OPEN + kind
        yield from _closed(rest)


def _closed(text: str) -> Iterator[str]:
    first, *rest = text.split(_CLOSE)
    yield from [first] if first else []
    for part in rest:
        yield _CLOSE
        yield from [part] if part else []


def _rendered(tree: Tree | str, marked: bool) -> str:
    if isinstance(tree, str):
        return tree
    separator = tree.kind.removeprefix(_LIST) if tree.kind.startswith(_LIST) and not marked else ""
    text = separator.join(_rendered(part, marked) for part in tree.parts)
    return node(tree.kind, text) if marked and tree.kind else text


def _smaller(tree: Tree, least: Mapping[str, str]) -> Iterator[Tree]:
    for at, part in enumerate(tree.parts):
        if isinstance(part, str):
            continue
        others = [*_instead(part, least), *_smaller(part, least)]
        is_list = tree.kind.startswith(_LIST)
        if part.kind == _OPTIONAL or (is_list and len(tree.parts) > 1):
            yield Tree(tree.kind, (*tree.parts[:at], *tree.parts[at + 1 :]))
        for other in others:
            yield Tree(tree.kind, (*tree.parts[:at], other, *tree.parts[at + 1 :]))


def _instead(part: Tree, least: Mapping[str, str]) -> Iterator[Tree]:
    """Replacements of a part: the least of its kind, and the parts of its kind inside it."""
    if part.kind in least and part.parts != (least[part.kind],):
        yield Tree(part.kind, (least[part.kind],))
    if part.kind not in (_OPTIONAL, _ITEM) and not part.kind.startswith(_LIST):
        yield from _inside(part, part.kind)


def _inside(tree: Tree, kind: str) -> Iterator[Tree]:
    for part in tree.parts:
        if isinstance(part, Tree):
            if part.kind == kind:
                yield part
            yield from _inside(part, kind)
