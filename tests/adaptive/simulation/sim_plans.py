"""Random plans of one query: join trees over the same relations, which share what their stages mean.

A query is some relations with filters. A plan of it joins them in some order, applies a filter where it scans or
later, cuts what it exchanges in as many parts as it likes, and may limit what it has somewhere (a non-deterministic
stage). A stage's name says what it puts out and how that is cut, so equal names in any plans of any job are equal
stages.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from sim_script import Node, Nodes


@dataclass(frozen=True)
class Query:
    """The stages to join.

    truth, limits: by what a stage means, how it differs from what is believed of it, and whether it is limited, which
    makes it a non-deterministic stage. islands: how often one is; deep: what rests on one is one, too, as in plans of
    the planner.
    streams: the answer comes in as many parts as the last join has, which can be handed out one after the other.
    """

    relations: tuple[str, ...]
    filters: tuple[str, ...]
    truth: dict[str, dict[str, float]]
    limits: dict[str, bool]
    non_deterministic: float
    deep: bool
    width: int
    streams: bool

    @classmethod
    def drawn(cls, chance: random.Random, relations: tuple[str, ...]) -> Query:
        filters = tuple(f"{name}{number}" for name in relations for number in range(1, 1 + chance.choice((0, 0, 1))))
        return cls(
            relations,
            filters,
            {},
            {},
            chance.choice((0.0, 0.0, 0.1, 0.3)),
            chance.random() < 0.7,
            chance.choice((4, 5, 6, 7)),
            chance.random() < 0.4,
        )


@dataclass
class Names:
    """Names of stages by what they put out and how it is cut, over all plans there are."""

    known: dict[tuple[str, str, int, int, str], str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def of(self, means: str, *content: object) -> str:
        key = (means, *map(str, content))
        if key not in self.known:  # type: ignore[comparison-overlap]
            name = means if means not in self.used else f"{means}~{len(self.known)}"
            self.used.add(name)
            self.known[key] = name  # type: ignore[index]
        return self.known[key]  # type: ignore[index]


@dataclass(frozen=True)
class _Part:
    """A subtree: what it joins, and its stages but for how the last is cut for its reader."""

    relations: frozenset[str]
    filters: frozenset[str]
    width: int
    cut: str
    inputs: tuple[tuple[str, _Part], ...]
    limited: str = ""
    island: bool = False

    @property
    def means(self) -> str:
        words = [name + "".join(f[len(name) :] for f in sorted(self.filters) if f[: len(name)] == name)
                 for name in sorted(self.relations)]  # fmt: skip
        return "".join(words) + self.limited


def drawn_plan(chance: random.Random, query: Query, names: Names) -> Nodes:
    """A plan of the query."""
    late = frozenset(name for name in query.filters if chance.random() < 0.4)
    parts = [_scan(chance, query, name, late) for name in query.relations]
    if len(parts) > 1 and chance.random() < 0.25:  # a relation that is reduced by what another one has
        parts[0] = _Part(
            parts[0].relations, parts[0].filters, parts[0].width, f"by-{parts[1].means}", (("all", parts[1]),),
            f"<{parts[1].means}",
        )  # fmt: skip
    while len(parts) > 1:
        one = parts.pop(chance.randrange(len(parts)))
        other = parts.pop(chance.randrange(len(parts)))
        parts.append(_join(chance, query, one, other))
    return _nodes(chance, query, parts[0], names)


def _scan(chance: random.Random, query: Query, name: str, late: frozenset[str]) -> _Part:
    filters = frozenset(f for f in query.filters if f[:-1] == name and f not in late)
    width = chance.randint(1, query.width)
    return _limited(chance, query, _Part(frozenset({name}), filters, width, f"1/{width}", ()))


def _join(chance: random.Random, query: Query, one: _Part, other: _Part) -> _Part:
    relations, filters = one.relations | other.relations, one.filters | other.filters
    if relations == set(query.relations) or chance.random() < 0.5:
        filters |= {f for f in query.filters if f[:-1] in relations}
    limited = one.limited + other.limited
    width = chance.randint(1, query.width)
    if width == 1 or chance.random() < 0.3:
        width, inputs, cut = 1, (("all", one), ("all", other)), ""
    elif chance.random() < 0.5:
        inputs, cut = (("partition", one), ("partition", other)), f"k%{width}"
    else:  # one of them as it is cut already, or by a key; the other one everywhere
        how = "forward" if chance.random() < 0.6 else "partition"
        width = one.width if how == "forward" else width
        inputs, cut = ((how, one), ("all", other)), one.cut if how == "forward" else f"k%{width}"
    joined = _Part(relations, filters, width, cut if width > 1 else "", inputs, limited)
    return _limited(chance, query, joined)


def _limited(chance: random.Random, query: Query, part: _Part) -> _Part:
    """The part, or some of its rows; mostly the same parts of all plans are limited."""
    if part.means not in query.limits or chance.random() < 0.1:
        query.limits[part.means] = chance.random() < query.non_deterministic
    if not query.limits[part.means]:
        return part
    return _Part(part.relations, part.filters, part.width, part.cut, part.inputs, f"{part.limited}!", True)


def _nodes(chance: random.Random, query: Query, root: _Part, names: Names) -> Nodes:
    done: dict[str, Node] = {}

    def add(part: _Part, parts: int) -> str:
        inputs = tuple((mode, add(source, part.width if mode == "partition" else 1)) for mode, source in part.inputs)
        # forward readers take what is cut by parts of the source, whatever its own partitions
        name = names.of(part.means, part.width, parts, part.cut, part.island)
        if name not in done:
            done[name] = _node(chance, query, part, name, parts, inputs)
        return name

    last = add(root, 1)
    name, island = "answer" + "".join(query.relations), query.deep and "!" in root.means
    if query.streams and root.width > 1:
        name, means = f"{name}/{root.width}{root.cut}", name
        answer = Node(
            name, root.width, (("forward", last),), t=1.5, m=1.0, means=means, cut=root.cut, island=island
        )  # fmt: skip
    else:
        answer = Node(name, 1, (("all", last),), t=0.5, island=island)
    return (*done.values(), answer)


def _node(
    chance: random.Random, query: Query, part: _Part, name: str, parts: int, inputs: tuple[tuple[str, str], ...]
) -> Node:
    truth = query.truth.setdefault(part.means, _truth(chance))
    facts = "" if part.limited else "+".join(sorted(part.relations)) + "|" + ",".join(sorted(part.filters))
    means = part.means if part.means != name else ""
    island = part.island or (query.deep and "!" in part.means)
    return Node(
        name, part.width, inputs, t=truth["t"], m=truth["m"], slots=int(truth["slots"]), means=means, parts=parts,
        cut=part.cut, island=island, rows=int(truth["rows"]), expected=int(truth["expected"]), needs=truth["needs"],
        pace=truth["pace"], facts=facts,
    )  # fmt: skip


def _truth(chance: random.Random) -> dict[str, float]:
    memory = chance.choice((0.1, 0.1, 0.5, 1.0, 2.0))
    expected = chance.choice((10, 1_000, 20_000))
    return {
        "t": chance.choice((0.25, 0.5, 1.0, 1.0, 2.0)),
        "m": memory,
        "slots": chance.choice((1, 1, 1, 1, 2, 3)),
        "rows": expected * chance.choice((1, 1, 1, 10)) // chance.choice((1, 1, 10)),
        "expected": expected,
        "needs": chance.choice((0.0,) * 20 + (1.0, 1.0, 3.0, 9.0)),
        "pace": chance.choice((1.0, 1.0, 1.0, 0.5, 3.0)),
    }
