"""The observed rows of relations of equal meaning in earlier runs, for the planning of one query."""

from __future__ import annotations

from qoop.planner.algebra.relation import Opaque, Relation, Scan
from qoop.planner.estimate.join_errors import filtered_columns, most_alike
from qoop.planner.estimate.observed import Observations, Tables
from qoop.planner.identity.provenance import Provenances
from qoop.planner.plan import Signature


class ObservedRows:
    """Looks relations up in observations. `provenances` are those of the query (they hold its settings).

    Caches by object identity and keeps the objects alive; use one for the planning of one query.
    """

    def __init__(self, observations: Observations, provenances: Provenances) -> None:
        self._observations = observations
        self._provenances = provenances
        self._tables: dict[int, tuple[Relation, Tables]] = {}
        self._following: dict[Signature, float] = {}
        self._followed: set[Tables] = set()

    @property
    def table_sets(self) -> frozenset[Tables]:
        """The sets of tables with an observation, or with a misjudged join."""
        return self._observations.tables.union(one.tables for one in self._observations.errors)

    def error(self, relation: Relation) -> float | None:
        """The factor by which the relation, a join, has more rows than estimated; None if unknown."""
        errors, tables = self._observations.errors, self.tables(relation)
        known = [one for one in errors if one.tables == tables]
        return most_alike(known, filtered_columns(self._provenances.facts(relation, ())), errors) if known else None

    def rows(self, relation: Relation) -> float | None:
        """The number of rows that the relation put out when it ran; None if it has not been observed."""
        if self.tables(relation) not in self._observations.tables:
            return None
        observation = self._observations.by_signature.get(self._provenances.rows(relation))
        return None if observation is None else observation.rows

    def follows(self, relation: Relation, rows: float) -> None:
        """Record the rows of a relation that follow from observations of others with the same assumptions."""
        self._followed.add(self.tables(relation))
        self._following[self._provenances.rows(relation)] = rows

    def known_rows(self, relation: Relation) -> float | None:
        """The observed rows of the relation, or else those that follow from other observations; None: neither."""
        rows = self.rows(relation)
        if rows is None and self.tables(relation) in self._followed:
            return self._following.get(self._provenances.rows(relation))
        return rows

    def tables(self, relation: Relation) -> Tables:
        """The tables that the relation reads."""
        known = self._tables.get(id(relation))
        if known is None:
            own = _own_tables(relation)
            known = (relation, own.union(*map(self.tables, relation.inputs)))
            self._tables[id(relation)] = known
        return known[1]


def _own_tables(relation: Relation) -> Tables:
    if isinstance(relation, Scan):
        return frozenset({(relation.table, relation.version)})
    return frozenset(relation.tables) if isinstance(relation, Opaque) else frozenset()
