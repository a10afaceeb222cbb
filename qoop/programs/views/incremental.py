"""A query of a view that is computed by the parts of its files, and the parts of one refresh.

The query around the sums reads other queries. Each of these is computed by the parts of its own files if it has sums,
so that several tables of one view may grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from qoop.catalog.errors import ExecutionError, QueryError, SourceError
from qoop.catalog.table import has_files
from qoop.catalog.value import value
from qoop.programs.approximate.eligibility import PIECES
from qoop.programs.approximate.names import Refused, tables_of
from qoop.programs.parts import Part, Parts
from qoop.programs.views.below.choice import Chosen, choices
from qoop.programs.views.below.cut import HEAD
from qoop.programs.views.below.groups import groups_table
from qoop.programs.views.below.joining import Pair, needed
from qoop.programs.views.delta import Branch, Delta, branches_of, deltas_of
from qoop.programs.views.merging import Merging, one_after_another
from qoop.programs.views.sampling import LeafSample, estimated, interim_of, why_never
from qoop.programs.views.small_leaves import MOST_ROWS
from qoop.programs.views.tree import Digests, Leaf, Nodes, Tree, digest_of

if TYPE_CHECKING:
    from qoop.catalog.table import Columns, Table
    from qoop.planner.sql.bind import Bound
    from qoop.programs.views.planning import ViewPlanning


NO_SUMS = "it has no aggregates"

_LITTLE = 64
"""A part of the rows of a table, as one in this number: as many rows may be read again for a node of eight leaves."""

_LACKING = 8
"""The same for leaves below nodes that have no groups below joins until a dimension changes."""

_MANY = 10_000
"""Groups that are not merged again at each refresh."""

FEW_BYTES = 1 << 16
"""Groups of a node that stay as they are: the next node takes them as fast as merged ones, and a statement that merges
a few takes a millisecond."""

_NAMED = 3
"""Files of a leaf that an error names."""


@value
class PartQuery:
    """The query of the leaves of a tree, over `PIECES`. others: the tables that it reads besides. types: names and
    types of its columns."""

    sql: str
    others: tuple[str, ...]
    types: Columns


@value
class Exact:
    """A query that the query around the sums reads. inner: its computation by parts, or the reason why it has none."""

    name: str
    text: str
    tables: tuple[str, ...]
    inner: Incremental | str


@value
class Below:
    """chosen: the cut of a query of sums below joins. groups: the query of the groups there. joined_sql: the query of
    the sums over these, in the types of the sums."""

    chosen: Chosen
    groups: PartQuery
    joined_sql: str


class Incremental:
    """A query that is computed by parts. columns: of its rows. cuts: how its groups may be cut below joins, or the
    reason why they are not. below: the cut in use, or that reason. branches: the query over the other branches of
    a UNION ALL, whose sums merge with these. Not thread-safe."""

    def __init__(
        self,
        delta: Delta,
        merging: Merging,
        exact: tuple[Exact, ...],
        columns: Columns,
        cuts: tuple[Below, ...] | str,
    ) -> None:
        self.delta, self.exact, self.cuts = delta, exact, cuts
        self.below: Below | str = cuts if isinstance(cuts, str) else cuts[0]
        self.branches: tuple[Incremental, ...] = ()
        self._merging = merging
        self._columns = columns
        self._digested: dict[str, Digests] = {}  # by query
        self._sums = PartQuery(delta.leaf_sql, delta.others, merging.types)

    def close(self) -> None:
        """Release the memory."""
        self._merging.close()
        for one in self.all()[1:]:
            one.close()

    def all(self) -> list[Incremental]:
        """This query, and those that it reads."""
        inner = (one.inner for one in self.exact)
        found = [*(one for one in inner if isinstance(one, Incremental)), *self.branches]
        return [self, *(each for one in found for each in one.all())]

    def merges_with(self, other: Incremental) -> bool:
        """True if the sums of both queries have one form, and are finished alike."""
        return self._form() == other._form()

    def _form(self) -> tuple[object, ...]:
        growth = self.delta.growth
        merged = [measure.merged_by for measure in growth.measures]
        return self._merging.types, growth.terms, growth.items, growth.tail, growth.around, merged

    @property
    def read_by_leaves(self) -> tuple[str, ...]:
        """The tables, besides the fact, whose changes compute all leaves again."""
        return self.delta.others if isinstance(self.below, str) else self.below.groups.others

    @property
    def joined_again(self) -> tuple[str, ...]:
        """The tables whose changes join the groups again."""
        return () if isinstance(self.below, str) else self.below.chosen.above

    def preferred(self, changes: Mapping[str, float]) -> Below | str:
        """The cut above which most changes are. changes: weights of each table."""
        if isinstance(self.cuts, str):
            return self.cuts
        return max(self.cuts, key=lambda cut: sum(changes.get(name, 0.0) for name in cut.chosen.above))

    def rows(self, turn: Turn) -> pa.Table:
        """The rows of the query."""
        heads = [head for one in (self, *self.branches) for head in one._heads(turn)]
        exact = {one.name: _exact_part(one, turn) for one in self.exact}
        return self._merging.final(
            [head.rows for head in heads], {name: (part.rows, part.columns) for name, part in exact.items()}
        )

    def estimated(self, turn: Turn, one_in: int, max_error: float) -> tuple[pa.Table, float] | None:
        """The rows of the query, and their error, of which one of `one_in` row groups of the leaves without a part is
        read; None: exact ones are as cheap, or an interval is wider than `max_error`. See `sampling.py`."""
        exact, left = self._apart(turn)
        if not left:
            return None
        samples = [self._sample(turn, leaf, one_in) for leaf in left.values()]
        known = [sample for sample in samples if sample is not None]
        interim = interim_of(known) if len(known) == len(samples) else None
        if interim is None:
            return None
        parts = [
            self._sampled(turn, digest, sample, one_in)
            for digest, sample in zip(left, known, strict=True)
            if sample.chosen
        ]
        merged = self._merging.merged([part.rows for part in exact])
        growth, types = self.delta.growth, self._merging.types
        found = estimated(growth, interim, parts, merged, types, turn.planning.settings)
        if found is None or found.error > max_error:
            return None
        return self._merging.final([merged, found.rows], {}), found.error

    def why_never_sampled(self) -> str:
        """See `sampling.why_never`."""
        if self.branches:
            return "its sums are over a UNION ALL"
        return why_never(self.delta.growth, self._merging.types)

    def _apart(self, turn: Turn) -> tuple[list[Part], Mapping[str, Leaf]]:
        """The exact parts that are there, and by digest the leaves that have none."""
        tree = self._digests(turn, self._sums)
        turn.kept |= tree.all()
        exact, left, below = list[Part](), dict[str, Leaf](), list(tree.heads)
        while below:
            digest = below.pop()
            known = turn.parts.get(digest)
            if known is not None:
                exact.append(known)
            elif digest in tree.children:
                below += tree.children[digest]
            else:
                left[digest] = tree.leaves[digest]
        return exact, left

    def _sample(self, turn: Turn, leaf: Leaf, one_in: int) -> LeafSample | None:
        return LeafSample.of(turn.planning.take_leaf(turn.tables[self.delta.fact], leaf), dict(leaf), one_in)

    def _sampled(self, turn: Turn, leaf: str, sample: LeafSample, one_in: int) -> Part:
        """The sums of a sample. leaf: the digest of its leaf."""
        digest = digest_of("sample", str(one_in), self.delta.growth.round_sql, leaf)
        turn.kept.add(digest)
        known = turn.parts.get(digest)
        return known or turn.parts.put(digest, turn.sample(self.delta, sample))

    def part(self, turn: Turn) -> Part:
        """The same as a part."""
        return Part(self.rows(turn), self._columns)

    def mark(self, turn: Turn) -> None:
        """Keep the parts that a later refresh needs, of a query whose rows are there."""
        for query in (self._sums, *(() if isinstance(self.below, str) else (self.below.groups,))):
            turn.kept |= self._digests(turn, query).all()
        for each in (*(one.inner for one in self.exact), *self.branches):
            if isinstance(each, Incremental):
                each.mark(turn)

    def _digests(self, turn: Turn, query: PartQuery) -> Nodes:
        """The tree of a query."""
        fact = self.delta.fact
        tree, types = turn.tree(fact), repr(turn.tables[fact].columns)  # the first file decides the types of all
        text = query.sql, turn.form, types, *turn.versions(query.others)
        digests = self._digested.get(query.sql)
        if digests is None or digests.text != text:
            digests = self._digested[query.sql] = Digests(text)
        for leaf, before in turn.compacted[fact].items():
            if leaf in tree.leaves:
                self._carry(turn.parts, query.types, digests.of(leaf), [digests.of(one) for one in before])
        return digests.nodes(tree)

    def _text_of(self, query: PartQuery) -> Sequence[str]:
        """The text in the digests of a query, of the last refresh; empty: there was none."""
        return self._digested[query.sql].text if query.sql in self._digested else ()

    def _carry(self, parts: Parts, types: Columns, digest: str, before: Sequence[str]) -> None:
        """Make the part of a leaf whose files were only written again from the parts of before, if these are there."""
        found = [part for one in before if (part := parts.get(one)) is not None]
        if len(found) == len(before) and parts.get(digest) is None:
            parts.put(digest, Part(self._merged(found, types), found[0].columns))

    def _heads(self, turn: Turn) -> list[Part]:
        text_before = self._text_of(self._sums)
        tree = self._digests(turn, self._sums)
        turn.kept |= tree.all()
        if isinstance(self.below, Below):
            self._join(turn, tree, text_before not in ((), self._text_of(self._sums)))
        parts = [self._part(turn, self._sums, head, tree) for head in tree.heads]
        return self._older_as_one(turn, [head for head in tree.heads if head in tree.children], parts)

    def _older_as_one(self, turn: Turn, open_nodes: Sequence[str], parts: Sequence[Part]) -> list[Part]:
        """The parts of open nodes, of which those of many groups that stand for several leaves are merged: this stays
        until eight further leaves have come. open_nodes: the first of the parts."""
        older, newer = parts[: len(open_nodes)], parts[len(open_nodes) :]
        if len(older) < 2 or sum(len(one.rows) for one in older) < _MANY:
            return list(parts)
        digest = digest_of("older", *open_nodes)
        turn.kept.add(digest)
        known = turn.parts.get(digest)
        if known is None:
            known = turn.parts.put(digest, Part(self._merged(older, self._merging.types), older[0].columns))
        return [known, *newer]

    def _join(self, turn: Turn, sums: Nodes, others_changed: bool) -> None:
        """Make the sums that joins of groups give; none if these fail where the query does not, since they are of rows
        that its joins drop. others_changed: since the last refresh dimensions have changed, so all sums are missing:
        then the groups of all open nodes are computed, which serves the next change as well."""
        assert isinstance(self.below, Below)
        query = self.below.groups
        groups = self._digests(turn, query)
        turn.kept |= groups.all()
        missing = [pair for pair in zip(sums.heads, groups.heads, strict=True) if not turn.parts.has(pair[0])]
        try:
            pairs = missing if others_changed else self._to_join(turn, missing, sums, groups)
            parts = [self._part(turn, query, group, groups) for _, group in pairs]
        except ExecutionError as error:
            if type(error) is not ExecutionError:
                raise
            self.below = self.cuts = f"groups below its joins fail: {str(error).splitlines()[0]}"
            return
        found = turn.joined(self.below, parts, self._merging.types) if parts else []
        for (one, _), part in zip(pairs, found, strict=True):
            if len(part.rows) or not _may_have_total(self._sums.sql):
                turn.parts.put(one, part)

    def _to_join(self, turn: Turn, missing: Sequence[Pair], sums: Nodes, groups: Nodes) -> Sequence[Pair]:
        """The groups to join after changes of files. One query computes the sums of a few leaves without groups; these
        come when a dimension has changed."""
        pairs = list[Pair]()
        for head in missing:
            found = needed(head, sums, groups, turn.parts.has)
            pairs += chain.from_iterable(self._by_leaf(turn, pair, sums, groups) for pair in found.joined)
            one_in = _LITTLE if head[0] in sums.leaves else _LACKING
            if not turn.is_little(self.delta.fact, [sums.leaves[one] for one, _ in found.lacking], one_in):
                pairs += [pair for pair in found.lacking if not turn.parts.has(pair[0])]
        return pairs

    def _by_leaf(self, turn: Turn, pair: Pair, sums: Nodes, groups: Nodes) -> Iterable[Pair]:
        """The leaves of a new node of many rows, else the node: when one of its files is replaced, the node is merged
        of the sums of leaves."""
        below = [*zip(sums.children.get(pair[0], ()), groups.children.get(pair[1], ()), strict=True)]
        leaves = [sums.leaves[one] for one, _ in below if one in sums.leaves]
        is_new = len(leaves) == len(below) > 0 and not turn.parts.has(pair[1])
        return below if is_new and not turn.is_little(self.delta.fact, leaves, _LITTLE) else (pair,)

    def _part(self, turn: Turn, query: PartQuery, digest: str, tree: Nodes) -> Part:
        """A leaf or a node of the tree of a query."""
        known = turn.parts.get(digest)
        if known is not None:
            return known
        leaves = tree.leaves
        if digest not in tree.children:
            return turn.parts.put(digest, turn.leaf(self.delta.fact, query, leaves[digest]))
        below = tree.children[digest]
        together = [one for one in below if one in leaves and turn.parts.get(one) is None]
        if len(together) == 1 or not turn.is_little(self.delta.fact, [leaves[one] for one in together], _LITTLE):
            together = []
        parts = [self._part(turn, query, one, tree) for one in below if one not in together]
        if together:
            files = tuple(chain.from_iterable(leaves[one] for one in together))
            parts.append(turn.leaf(self.delta.fact, query, files))
        return turn.parts.put(digest, Part(self._merged(parts, query.types), parts[0].columns))

    def _merged(self, parts: Sequence[Part], types: Columns) -> pa.Table:
        rows = [one.rows for one in parts]
        if len(rows) > 1 and sum(one.get_total_buffer_size() for one in rows) > FEW_BYTES:
            return self._merging.merged(rows, types)
        return rows[0] if len(rows) == 1 else one_after_another(rows, types).combine_chunks()


def incremental(
    bound: Bound, tables: Mapping[str, Table], planning: ViewPlanning, cut: bool = True
) -> Incremental | str:
    """The computation of a query by parts, or the reason why it has none. planning: over these tables. cut: its groups
    may be cut below joins."""
    try:
        branches = branches_of(bound, planning.columns)
    except (Refused, QueryError) as error:
        branches, reason = [], str(error).splitlines()[0]
    else:
        reason = ""
    if branches:
        found = _over_branches(branches, tables, planning, cut)
        if isinstance(found, Incremental):
            return found
        reason = found
    for delta in deltas_of(bound, tables, planning.columns):
        if isinstance(delta, str):
            reason = reason or delta
            continue
        exact = tuple(_exact(name, text, planning, cut) for name, text in delta.exact)
        found = next((why for one in exact if (why := _reread(delta, one))), None) or _checked(
            delta, exact, bound, tables, planning, cut
        )
        if isinstance(found, Incremental):
            return found
        reason = reason or found
        for one in exact:
            if isinstance(one.inner, Incremental):
                one.inner.close()
    return reason or NO_SUMS


def _over_branches(
    branches: Sequence[Branch], tables: Mapping[str, Table], planning: ViewPlanning, cut: bool
) -> Incremental | str:
    """The computation of a query over each branch of a UNION ALL as one, or the reason why there is none."""
    made, reason = list[Incremental](), ""
    for branch in branches:
        found = incremental(branch.bound, tables, planning, cut)
        if isinstance(found, str):
            reason = found
            break
        made.append(found)
        if found.delta.fact not in branch.tables or not found.merges_with(made[0]):
            reason = "the sums over the branches of its UNION ALL are not of one form"
    if not reason:
        made[0].branches = tuple(made[1:])
        return made[0]
    for one in made:
        one.close()
    return reason


def _may_have_total(sql: str) -> bool:
    """True if a query of sums may have a row where no rows are read: the total of its grouping sets. The sums over
    groups below joins have none then."""
    return any(word in sql.upper() for word in ("ROLLUP", "CUBE", "GROUPING SETS"))


def _exact(name: str, text: str, planning: ViewPlanning, cut: bool) -> Exact:
    try:
        bound, tables = planning.bind(text)
    except QueryError as error:
        return Exact(name, text, tables_of([text]), str(error).splitlines()[0])
    return Exact(name, text, tuple(sorted(tables)), incremental(bound, tables, planning, cut))


def _reread(delta: Delta, exact: Exact) -> str:
    """The reason why a query may not be read for a delta; empty: it may."""
    if isinstance(exact.inner, Incremental) or delta.fact not in exact.tables:
        return ""
    name = delta.growth.fact.name
    return f"{name}, the table of its sums, is read in another part of the query as well, and there {exact.inner}"


def _checked(
    delta: Delta, exact: tuple[Exact, ...], bound: Bound, tables: Mapping[str, Table], planning: ViewPlanning, cut: bool
) -> Incremental | str:
    """The computation of a delta, if its rows have the columns of the query; else the reason."""
    merging: Merging | None = None
    try:
        planning.take_leaf(tables[delta.fact], ())
        merging = Merging(delta.growth, planning.columns(delta.leaf_sql), planning.merging_connection())
        found = merging.columns({one.name: planning.columns(one.text) for one in exact})
        if found == bound.columns:
            cuts = _cuts(delta, merging, tables, planning) if cut else "max_error reads samples of all joined rows"
            return Incremental(delta, merging, exact, bound.columns, cuts)
        reason = "the query around its sums has other columns over merged sums"
    except (QueryError, duckdb.Error) as error:
        reason = f"its sums cannot be taken apart: {str(error).splitlines()[0]}"
    if merging is not None:
        merging.close()
    return reason


def _cuts(
    delta: Delta, merging: Merging, tables: Mapping[str, Table], planning: ViewPlanning
) -> tuple[Below, ...] | str:
    """The cuts of the sums below joins, or the reason why there is none."""
    if not delta.others:
        return "it reads no other table"
    found = choices(delta.growth, tables, planning.columns, lambda sql: int(planning.run(sql).fetchall()[0][0]))
    if isinstance(found, str):
        return found
    try:
        return tuple(_below(one, merging, planning) for one in found)
    except QueryError as error:
        return f"its groups cannot be cut: {str(error).splitlines()[0]}"


def _below(chosen: Chosen, merging: Merging, planning: ViewPlanning) -> Below:
    """A cut with its types. Raises QueryError."""
    types = planning.columns(chosen.cut.groups_sql)
    planning.take_pieces(groups_table(types, None))
    found = [name for name, _ in planning.columns(chosen.cut.joined_sql)]
    if found != [HEAD, *(name for name, _ in merging.types)]:
        raise QueryError("its groups have other columns below the joins")
    items = ", ".join([HEAD, *(f"{name}::{type_} AS {name}" for name, type_ in merging.types)])
    joined_sql = f"SELECT {items} FROM ({chosen.cut.joined_sql}) AS joined"
    return Below(chosen, PartQuery(chosen.cut.groups_sql, chosen.below, types), joined_sql)


def _exact_part(one: Exact, turn: Turn) -> Part:
    """The rows of a query that the query around the sums reads."""
    digest = digest_of(one.text, turn.form, *turn.versions(one.tables))
    turn.kept.add(digest)
    known = turn.parts.get(digest)
    if known is not None:
        if isinstance(one.inner, Incremental):
            one.inner.mark(turn)
        return known
    if isinstance(one.inner, Incremental):
        return turn.parts.put(digest, one.inner.part(turn))
    turn.rows_read += sum(turn.tables[name].rows for name in one.tables)
    return turn.parts.put(digest, turn.planning.part(one.text))


class Turn:
    """One refresh. tables: by lower-case name. before: the trees of the edition before, by table.

    trees: those of now. compacted: by table the leaves of files that were only written again, see `Tree`.
    kept: the digests of the parts that belong to them. rows_read: of tables.
    """

    def __init__(
        self, planning: ViewPlanning, parts: Parts, tables: Mapping[str, Table], before: Mapping[str, Tree]
    ) -> None:
        self.planning, self.parts, self.tables = planning, parts, tables
        self.form = repr(planning.settings)
        self._before = before
        self._sizes: dict[str, Mapping[str, int]] = {}  # rows of files, by table
        self.trees: dict[str, Tree] = {}
        self.compacted: dict[str, Mapping[Leaf, tuple[Leaf, ...]]] = {}
        self.kept: set[str] = set()
        self.rows_read = 0

    def tree(self, fact: str) -> Tree:
        """The tree over the files of a table."""
        if fact not in self.trees:
            source = self.tables[fact].source
            assert has_files(source)
            files, sizes = source.identities(), source.file_rows()
            self._sizes[fact] = sizes
            tree, self.compacted[fact] = self._before.get(fact, Tree()).compacted(files, source.compactions)
            self.trees[fact] = tree.following(files, sizes.__getitem__)
        return self.trees[fact]

    def is_little(self, fact: str, leaves: Iterable[Leaf], one_in: int) -> bool:
        """True for at most this part of the rows of a table, which may be read again. False where compactions merge
        their parts."""
        source, sizes = self.tables[fact].source, self._sizes[fact]
        assert has_files(source)
        return (
            not source.compactable
            and sum(sizes[path] for leaf in leaves for path, _ in leaf) * one_in <= self.tables[fact].rows
        )

    def versions(self, names: Iterable[str]) -> list[str]:
        """Texts that identify the rows of tables."""
        return [f"{name} {self.tables[name].version}" for name in names]

    def sample(self, delta: Delta, sample: LeafSample) -> Part:
        """The sums over the row groups of a sample."""
        self.planning.take_pieces(sample.table(PIECES))
        self.rows_read += sample.rows_read
        return self.planning.part(sample.text(delta.growth.round_sql))

    def leaf(self, fact: str, query: PartQuery, leaf: Leaf) -> Part:
        """The partial groups of these files."""
        pieces = self.planning.take_leaf(self.tables[fact], leaf)
        self.rows_read += pieces.rows
        others = {name: self.tables[name] for name in query.others}
        rows = self.planning.small_leaves.rows(
            query.sql, pieces, others, bool(self._before) and self.rows_read <= MOST_ROWS
        )
        if rows is not None:
            return Part(rows, query.types)
        try:
            return self.planning.part(query.sql)
        except SourceError as error:
            files = ", ".join(path for path, _ in leaf[:_NAMED]) + ", …" * (len(leaf) > _NAMED)
            raise SourceError(str(error).replace(f"table {PIECES}", files)) from error

    def joined(self, below: Below, parts: Sequence[Part], types: Columns) -> list[Part]:
        """The sums of each of several parts below joins. types: of the sums."""
        groups = below.groups.types
        names = [name for name, _ in groups]
        rows = pa.concat_tables(
            part.rows.rename_columns(names).add_column(0, HEAD, pa.repeat(pa.scalar(place, pa.int32()), len(part.rows)))
            for place, part in enumerate(parts)
        )
        others = {name: self.tables[name] for name in below.chosen.joined}
        found = self.planning.joined(below.joined_sql, groups, rows, others)
        heads, sums = found.column(0), found.drop_columns([found.column_names[0]])
        return [Part(sums.filter(pc.equal(heads, place)), types) for place in range(len(parts))]
