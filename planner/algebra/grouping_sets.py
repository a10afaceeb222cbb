"""Grouping sets in two branches: those whose groups lie whole in one task, and the others.

Rows hashed by some keys bring every group of a set that groups by all of these keys into one task. A ROLLUP has such
keys for most of its sets and for none of the last, ``()``. So the *fine* sets, those with the keys, are grouped in the
tasks that have the rows. The few groups of the *coarse* ones are made in two phases and finished in one task (Gray et
al., "Data Cube", 1997: a coarser grouping is computed from the parts of a finer one).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Expr, Literal
from qoop.planner.algebra.relation import Aggregate, Aggregation, Project, Relation, with_inputs
from qoop.planner.algebra.two_phase import TwoPhase, two_phase

Set = tuple[Column, ...]


@value
class Branch:
    """Some of the grouping sets of an aggregate, with all of its columns.

    rows: an Aggregate by the keys of these sets; a Project over it where a key is in none of them.
    """

    rows: Aggregate | Project

    @property
    def groups(self) -> Aggregate:
        """The grouping itself."""
        groups = self.rows.input if isinstance(self.rows, Project) else self.rows
        assert isinstance(groups, Aggregate)
        return groups

    def over(self, groups: Relation) -> Relation:
        """The branch where its groups come as they are made here."""
        return with_inputs(self.rows, (groups,)) if isinstance(self.rows, Project) else groups


@value
class SplitSets:
    """An aggregate in two branches, which are together all of its rows.

    keys: the rows are hashed by them. coarse_phases: the two phases of the coarse branch's groups. fine_phases: those
    of the fine branch, which needs them only for input that is partly grouped already.
    """

    keys: tuple[Column, ...]
    fine: Branch
    coarse: Branch
    fine_phases: TwoPhase
    coarse_phases: TwoPhase

    @cached_property
    def coarse_part(self) -> Aggregate:
        """The groups, in part, of the coarse branch, were all rows in one task."""
        return self.coarse_phases.partial(self.coarse.groups.input)

    def fine_of(self, rows: Relation, partial: bool) -> Relation:
        """The fine branch over the rows of a task. partial: these are groups in part, of the whole aggregate."""
        groups = self.fine_phases.final(rows) if partial else with_inputs(self.fine.groups, (rows,))
        return self.fine.over(groups)

    def coarse_part_of(self, rows: Relation, partial: bool) -> Relation:
        """The groups, in part, of the coarse branch, from the rows of a task."""
        return self.coarse_phases.merged(rows) if partial else self.coarse_phases.partial(rows)

    def coarse_of(self, parts: Relation) -> Relation:
        """The coarse branch from the groups in part of all tasks."""
        return self.coarse.over(self.coarse_phases.final(parts))


def split_sets(aggregate: Aggregate) -> Iterator[SplitSets]:
    """Every way to take the sets that have some keys apart from the others, if the functions allow for two phases."""
    sets = aggregate.grouping_sets or ()
    for keys in _common(sets):
        fine = tuple(each for each in sets if set(keys) <= set(each))
        coarse = tuple(each for each in sets if not set(keys) <= set(each))
        if coarse:
            split = _split(aggregate, keys, fine, coarse)
            if split is not None:
                yield split


def _split(aggregate: Aggregate, keys: Set, fine: Sequence[Set], coarse: Sequence[Set]) -> SplitSets | None:
    first, second = branch(aggregate, fine), branch(aggregate, coarse)
    phases = two_phase(first.groups), two_phase(second.groups)
    if phases[0] is None or phases[1] is None:
        return None
    return SplitSets(keys, first, second, phases[0], phases[1])


def _common(sets: Sequence[Set]) -> Iterator[Set]:
    """Common keys of some of the sets: each set, and the intersection of each two."""
    found = dict.fromkeys(frozenset(each) for each in sets)
    found |= dict.fromkeys(a & b for a, b in combinations(tuple(found), 2))
    order = tuple(dict.fromkeys(column for each in sets for column in each))
    for keys in found:
        if keys:
            yield tuple(column for column in order if column in keys)


def branch(aggregate: Aggregate, sets: Sequence[Set]) -> Branch:
    """The rows of some of an aggregate's grouping sets.

    Keys that are in none of them are NULL, with the same GROUPING() as next to the other sets.

    >>> from qoop.planner.algebra.relation import Scan
    >>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
    >>> rollup = Aggregate(Scan("t", "1", (("a", a), ("b", b))), (a, b), (), ((a, b), (a,), ()))
    >>> branch(rollup, ((a,), ())).groups.keys == (a,)
    True
    """
    keys = tuple(key for key in aggregate.keys if any(key in each for each in sets))
    kept = [agg for agg in aggregate.aggregations if agg.call.op != "grouping"]
    if keys == aggregate.keys and len(sets) > 1:
        return Branch(replace(aggregate, grouping_sets=tuple(sets)))
    bits = _Bits(sets)
    values: dict[Column, Expr] = {key: key if key in keys else _null(key) for key in aggregate.keys}
    for agg in aggregate.aggregations:
        values[agg.column] = bits.value(agg) if agg.call.op == "grouping" else agg.column
    plain = len(sets) == 1 and set(sets[0]) == set(keys)
    kept_sets, cascade = (None, False) if plain else (tuple(sets), aggregate.cascade)
    groups = Aggregate(aggregate.input, keys, (*kept, *bits.aggregations), kept_sets, cascade)
    exprs = tuple((column, values[column]) for column in aggregate.columns)
    if all(column == expr for column, expr in exprs) and groups.columns == aggregate.columns:
        return Branch(groups)
    return Branch(Project(groups, exprs))


def _null(column: Column) -> Literal:
    return Literal(f"CAST(NULL AS {column.type})", column.type)


class _Bits:
    """GROUPING() of keys some of which are in all of the sets, or in none: a sum of the bits of each key."""

    def __init__(self, sets: Sequence[Set]) -> None:
        self.sets = sets
        self.aggregations: list[Aggregation] = []

    def value(self, agg: Aggregation) -> Expr:
        """The value of GROUPING() in these sets; the first key has the highest bit."""
        type_, places = agg.call.type, range(len(agg.call.args) - 1, -1, -1)
        weights = [(1 << place, arg) for place, arg in zip(places, agg.call.args, strict=True)]
        constant = sum(weight for weight, arg in weights if not self._has(arg))
        varying = [(weight, arg) for weight, arg in weights if self._has(arg) and not self._always(arg)]
        terms = [f"{constant}", *(f"{weight} * {{{i}}}" for i, (weight, _) in enumerate(varying))]
        args = tuple(self._bit(agg, arg) for _, arg in varying)
        return Call("grouping_bits", args, f"CAST({' + '.join(terms)} AS {type_})", type_)

    def _has(self, key: Expr) -> bool:
        return any(key in each for each in self.sets)

    def _always(self, key: Expr) -> bool:
        return all(key in each for each in self.sets)

    def _bit(self, agg: Aggregation, key: Expr) -> Column:
        column = Column(f"{agg.column.name}:bit{len(self.aggregations)}", agg.call.type)
        self.aggregations.append(Aggregation(column, Call("grouping", (key,), "GROUPING({0})", agg.call.type)))
        return column
