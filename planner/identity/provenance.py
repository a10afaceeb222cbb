"""The *meaning* of an output: its signature, and canonical names for its columns (law 1).

Two relations of equal signature have equal rows, however they are made. A relation is first brought into a
normal form that forgets how it is computed, a :class:`~qoop.planner.identity.block.Block`: a product of *leaves*,
restricted by a set of predicates, with every column an expression over the leaves. Filters, projections and
inner joins only add to their input's block, so their order and nesting leave no trace. The other operators close
the blocks below them and become leaves, or terms, of the next one:

- a left join keeps the left block and adds a leaf whose rows depend on it: the partners of a row, or one
  padded row. So filters and inner joins commute with it.
- a semi or anti join is a predicate on the left block, a mark join an expression over it.
- an aggregate, a window, a set operation, a full join, a Limit or a Sort is a separate leaf.

To write a block down, its leaves are ordered by colour refinement: every leaf starts with its own digest and
is recoloured by the predicates it takes part in (B. Weisfeiler and A. Leman, 1968) until equal colours mean
interchangeable leaves, of which any may come first. The text names columns by leaf number and own name,
columns that are equated count as one, terms of commutative operators are sorted; its blake2b digest is the
signature. A wrong choice between leaves makes signatures differ that could be equal, never the reverse,
since the text is always complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from qoop.catalog.value import value
from qoop.planner.algebra.canonical_text import digest_of, readable_names
from qoop.planner.algebra.expr import Column
from qoop.planner.algebra.facts import Facts
from qoop.planner.algebra.relation import Exchange, Filter, Limit, Project, Relation, Shared, Sort
from qoop.planner.identity.block import facts_of
from qoop.planner.identity.blocks import Blocks
from qoop.planner.identity.determinism import is_non_deterministic
from qoop.planner.identity.keyed import Keys
from qoop.planner.plan import Signature

__all__ = ["Provenance", "Provenances", "is_non_deterministic", "provenance"]


@value
class Provenance:
    """signature: digest of the meaning of the rows. columns: a canonical name for every column of the relation.

    In relations of equal signature, columns of the same canonical name hold the same values.
    """

    signature: Signature
    columns: Mapping[Column, str]


def provenance(relation: Relation, settings: tuple[tuple[str, str], ...] = ()) -> Provenance:
    """Return the provenance of one relation; `settings` are the session's options that change results.

    >>> from qoop.planner.algebra.expr import Call
    >>> from qoop.planner.algebra.relation import Join, Scan
    >>> a, b = Column("a", "INTEGER"), Column("b", "INTEGER")
    >>> t, u = Scan("t", "1", (("a", a),)), Scan("u", "1", (("b", b),))
    >>> same = Call("=", (b, a), "({0} = {1})", "BOOLEAN")
    >>> provenance(Join(t, u, "inner", (same,))).signature == provenance(
    ...     Filter(Join(u, t, "inner", ()), (same,))
    ... ).signature
    True
    """
    return Provenances(settings).of(relation)


class Provenances:
    """Provenance of many relations that share parts, such as the stages of one query's plans.

    Caches by object identity, and keeps the objects alive; use one for the planning of one query.

    keys: known or estimated keys of tables; numbers of rows depend on them, signatures do not.
    """

    def __init__(self, settings: tuple[tuple[str, str], ...] = (), keys: Keys = MappingProxyType({})) -> None:
        self._settings = repr(sorted(settings))
        self._keys = keys
        self._blocks = Blocks()
        self._known: dict[int, tuple[Relation, Provenance]] = {}
        self._rows: dict[int, tuple[Relation, Signature]] = {}

    def of(self, relation: Relation) -> Provenance:
        """Return the provenance of the relation."""
        known = self._known.get(id(relation))
        if known is None:
            known = self._known[id(relation)] = (relation, self._provenance(relation))
        return known[1]

    def rows(self, relation: Relation) -> Signature:
        """Digest of the rows of the relation, independent of its columns: equal digests, equally many rows.

        A semi join by a key has as many rows as the inner one, so an observation of either holds for both. An estimate
        that used it for one of them alone would favour plans with the other.
        """
        known = self._rows.get(id(relation))
        if known is None:
            block = self._blocks.with_partners(self._blocks.form.needed(self._blocks.of(relation), ()), self._keys)
            core = self._blocks.form.write(block, ()).core
            known = self._rows[id(relation)] = (relation, digest_of("rows", self._settings, core))
        return known[1]

    def facts(self, relation: Relation, names: Sequence[tuple[str, Column]]) -> Facts:
        """The facts about the relation. names: for its columns."""
        block = self._blocks.form.needed(self._blocks.of(relation), [column for _, column in names])
        order = self._blocks.form.write(block, block.columns.values()).order
        return facts_of(block, order, names, self._settings, _is_ordered(relation))

    def _provenance(self, relation: Relation) -> Provenance:
        block = self._blocks.form.needed(self._blocks.of(relation), relation.columns)
        outputs = {column: block.columns[column] for column in relation.columns}
        written = self._blocks.form.write(block, outputs.values())
        texts = {column: f"{written.text(expr)}:{column.type}" for column, expr in outputs.items()}
        signature = digest_of("output", self._settings, written.core, *sorted(texts.values()))
        return Provenance(signature, readable_names(texts))


def _is_ordered(relation: Relation) -> bool:
    while isinstance(relation, Project | Filter | Limit | Exchange | Shared):
        relation = relation.input
    return isinstance(relation, Sort)
