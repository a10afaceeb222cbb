"""The columns whose distribution decides how many rows a filter or a join keeps, and of which only footers are known.

Footers have equal figures for evenly and unevenly spread values: a filter between two constants may keep a hundredth of
the rows, or most. Groups, and joins by a key, depend on the number of distinct values, which footers give well. A join
of two columns that are no keys depends also on values that are frequent on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter

from qoop.catalog.statistics.stats import PILOT_ROWS, TableStats
from qoop.planner.algebra.expr import Call, Expr, columns_of, conjuncts
from qoop.planner.algebra.properties import EqualExprs
from qoop.planner.algebra.relation import Filter, Join, Relation, Scan, walk
from qoop.planner.estimate.cardinality import Cardinality
from qoop.planner.estimate.observed import LEAST_ROWS
from qoop.planner.estimate.skipping import SORTED

MATTERS = 1.5
"""A filter that keeps this many times more or fewer rows than estimated may change a plan."""


def doubtful(relation: Relation, stats: Mapping[str, TableStats]) -> Mapping[str, frozenset[str]]:
    """The guessed columns, by table, that filters compare with something else than each other. stats: by table."""
    origin = _origins(relation)
    predicates = {one for node in walk(relation) if isinstance(node, Filter) for one in node.predicates}
    found: dict[str, set[str]] = {}
    for part in (part for predicate in predicates for part in conjuncts(predicate)):
        columns = {origin[column] for column in columns_of(part) if column in origin}
        if len({table for table, _ in columns}) != 1 or _counts_nulls(part):
            continue
        for table, own in columns:
            if own in stats[table].guessed:
                found.setdefault(table, set()).add(own)
    return {table: frozenset(found[table]) for table in sorted(found)}


def joined_unevenly(relation: Relation, stats: Mapping[str, TableStats]) -> Mapping[str, frozenset[str]]:
    """The guessed columns, by table, that joins of large tables equate with others of which none is a key."""
    origin, equal = _origins(relation), EqualExprs()
    for part in _equations(relation, origin):
        equal.add(*part.args)
    found: dict[str, set[str]] = {}
    for members in equal.groups():
        foreign = [origin[one] for one in members if _is_foreign(origin[one], stats)]
        for table, own in foreign if len(foreign) > 1 else ():
            if own in stats[table].guessed:
                found.setdefault(table, set()).add(own)
    return {table: frozenset(found[table]) for table in sorted(found, key=lambda name: (stats[name].rows, name))}


def narrowing(relation: Relation, stats: Mapping[str, TableStats]) -> Mapping[str, frozenset[str]]:
    """The guessed columns, by table, of tables that a pilot reads whole, which join a column that a large table is
    sorted by, or in turn each other."""
    origin = _origins(relation)
    pairs = {frozenset(origin[arg] for arg in part.args) for part in _equations(relation, origin)}
    small = {pair: {one for one in pair if stats[one[0]].rows <= PILOT_ROWS} for pair in pairs}
    found = {one for pair in pairs if any(_is_sorted(other, stats) for other in pair) for one in small[pair]}
    tables = {table for table, _ in found}
    found |= {one for pair in pairs if small[pair] == pair and tables & {name for name, _ in pair} for one in pair}
    guessed = sorted(one for one in found if one[1] in stats[one[0]].guessed)
    return {table: frozenset(own for _, own in group) for table, group in groupby(guessed, key=itemgetter(0))}


def _is_sorted(column: tuple[str, str], stats: Mapping[str, TableStats]) -> bool:
    """True for a column that a large table is sorted by. column: table and name."""
    table, own = column
    known = stats[table].columns.get(own)
    return stats[table].rows > PILOT_ROWS and known is not None and known.locality <= SORTED


def _is_foreign(column: tuple[str, str], stats: Mapping[str, TableStats]) -> bool:
    """True for a column of a large table that is no key of it. column: table and name."""
    table, own = column
    return stats[table].rows >= LEAST_ROWS and frozenset((own,)) not in stats[table].keys


def _origins(relation: Relation) -> Mapping[Expr, tuple[str, str]]:
    """The table, and the column of it, that columns of a relation come from."""
    scans = [node for node in walk(relation) if isinstance(node, Scan)]
    return {column: (scan.table, own) for scan in scans for own, column in scan.fields}


def _join_conditions(relation: Relation) -> Iterator[Expr]:
    """The conditions of filters and of joins that repeat rows."""
    for node in walk(relation):
        if isinstance(node, Join) and node.kind in ("semi", "anti", "mark"):
            continue
        conditions = node.predicates if isinstance(node, Filter) else node.on if isinstance(node, Join) else ()
        yield from (part for one in conditions for part in conjuncts(one))


def _equations(relation: Relation, origin: Mapping[Expr, tuple[str, str]]) -> Iterator[Call]:
    """The conditions of joins that equate columns of tables."""
    for part in _join_conditions(relation):
        if isinstance(part, Call) and part.op == "=" and all(arg in origin for arg in part.args):
            yield part


def _counts_nulls(part: Expr) -> bool:
    """True for predicates that footers estimate well."""
    if isinstance(part, Call) and part.op == "not":
        return _counts_nulls(part.args[0])
    return isinstance(part, Call) and part.op == "is_null"


def moved(relation: Relation, before: Mapping[str, TableStats], after: Mapping[str, TableStats]) -> bool:
    """True if a filter or a join of the relation keeps a different number of rows by the statistics of later on."""
    old, new = Cardinality(before), Cardinality(after)
    nodes = [node for node in walk(relation) if isinstance(node, Filter | Join)]
    return any(not 1 / MATTERS < max(1.0, new.rows(one)) / max(1.0, old.rows(one)) < MATTERS for one in nodes)
