"""Grouping sets in a cascade: the groups of a coarser set are made from those of a finer one, not from the rows.

DuckDB adds every row to a group of each set, so a ROLLUP by eight keys groups its rows nine times. Its finest groups
are mostly fewer than the rows, and those of the next set fewer again. Gray et al. ("Data Cube", 1997) start from the
smallest parent; here it is the one with the fewest keys, so that the text of a stage does not depend on estimates.
"""

from __future__ import annotations

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Column
from qoop.planner.algebra.grouping_sets import branch
from qoop.planner.algebra.relation import Aggregate, Relation, SetOp, Shared
from qoop.planner.algebra.two_phase import two_phase


@value
class Level:
    """The groups by some keys. parent: the place of the level that they are made from; None: from the rows."""

    keys: tuple[Column, ...]
    parent: int | None = None


def levels(aggregate: Aggregate) -> tuple[Level, ...]:
    """A level for each grouping set, parents first; the first groups by all keys, be it a set or not.

    >>> from qoop.planner.algebra.relation import Scan
    >>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
    >>> rollup = Aggregate(Scan("t", "1", (("a", a), ("b", b))), (a, b), (), ((a, b), (a,), ()))
    >>> [(len(level.keys), level.parent) for level in levels(rollup)]
    [(2, None), (1, 0), (0, 1)]
    """
    sets = aggregate.grouping_sets or (aggregate.keys,)
    all_keys = [aggregate.keys, *(tuple(key for key in aggregate.keys if key in keys) for keys in sets)]
    found: list[Level] = []
    for keys in sorted(dict.fromkeys(all_keys), key=len, reverse=True):
        finer = [place for place, level in enumerate(found) if set(keys) < set(level.keys)]
        found.append(Level(keys, finer[-1] if finer else None))
    return tuple(found)


def can_cascade(aggregate: Aggregate) -> bool:
    """True if there are several sets, and groups of all its functions can be made from finer groups."""
    sets = aggregate.grouping_sets or ()
    distinct = any(agg.distinct for agg in aggregate.aggregations)
    return len(sets) > 1 and not distinct and two_phase(aggregate) is not None


def cascaded(aggregate: Aggregate, name: str) -> Relation:
    """The rows of an aggregate that can cascade, as a union of its sets over shared groups.

    name: begins the names of the shared subplans.
    """
    made: list[Shared] = []
    rows: dict[frozenset[Column], Relation] = {}
    for place, level in enumerate(levels(aggregate)):
        one = branch(aggregate, (level.keys,))
        phases = two_phase(one.groups)
        assert phases is not None  # two phases depend on the functions, not on the keys
        partial = phases.partial(aggregate.input) if level.parent is None else phases.merged(made[level.parent])
        made.append(Shared(f"{name}_{place}", partial))
        whole = phases.finished if level.keys else phases.final  # no rows at all are one group without keys
        rows[frozenset(level.keys)] = one.over(whole(made[place]))
    branches = tuple(rows[frozenset(keys)] for keys in aggregate.grouping_sets or ())
    return SetOp("union", True, branches, aggregate.columns)
