"""Universe sampling: a join of large tables is read by buckets of its key, on all sides at once.

A row whose key is k is in bucket ``hash(k) % BUCKETS``, in any table. So the join of the rows of some buckets is the
part of the join whose keys are in these. Pieces that are drawn independently on each side would hardly form a pair
(Chaudhuri, Motwani and Narasayya, On random sampling over joins, SIGMOD 1999). Vengerov, Menck, Zait and Chakkappen,
Join size estimation subject to filter conditions (VLDB 2015) call it correlated sampling; Kandula and others, Quickr
(SIGMOD 2016), the universe sampler, which may stand below a GROUP BY of its key, too. Buckets are the drawn
units, so the estimators for pieces apply, with buckets as clusters of rows.

Vengerov and others, section 3.2: with each key in the sample with probability p, the observed total divided by p has
the variance ``(1/p - 1)`` times the sum over all keys of the square of a key's total. The sum of squares by key takes
as long as the join. Totals of buckets are enough: keys fall into N buckets by chance, so the mean variance between
buckets is the sum of the squares over N. With p = n / N, Cochran's variance of a total of n buckets
(:mod:`qoop.programs.approximate.estimators.total`) equals the one above. Skewed keys make buckets uneven; the rules of
:mod:`qoop.programs.approximate.estimators.skewness` apply as they do for pieces.

Every round reads and hashes the rows of all buckets; with pieces, it reads only some rows. So buckets pay where the
work after reading the other tables takes more than reading the largest one. `compared` decides by the machine's
constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one

from qoop.catalog.errors import QueryError
from qoop.catalog.sources.pieces import PIECE, PIECE_ROWS
from qoop.catalog.value import value
from qoop.planner.exchange.distribution import hash_type
from qoop.programs.approximate.names import has_aggregates, sources_of
from qoop.programs.approximate.round_sql import MEASURED

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.planner.estimate.cost import CostModel
    from qoop.programs.approximate.names import Names

BUCKETS = 1024
"""The buckets of a key: the fewest pieces of a table."""

_LEAST_PART = 0.05
"""The fewest rows of a source that is read by buckets, as a part of those of the fact."""

_BYTES = 8
"""The bytes of a value: of most numbers, dates and keys."""

_NOT_HASHED = ("FLOAT", "DOUBLE", "STRUCT", "MAP", "UNION")
"""The beginnings of the names of types whose equal values may hash differently (0.0 and -0.0), or may do so."""

Column = tuple[str, str]
"""The names of a source in the FROM and of a column of it, in lower case."""

Columns = tuple[tuple[str, str], ...]


@value
class Keyed:
    """A source in the FROM by its name, and its key columns, in the same order as the keys of the others.

    tables: the rows and the number of needed columns of each table that it reads. grouped: it is a SELECT with groups.
    """

    alias: str
    keys: tuple[str, ...]
    tables: tuple[tuple[float, int], ...]
    grouped: bool = False

    @property
    def rows(self) -> float:
        """The rows of its tables."""
        return sum(rows for rows, _ in self.tables)


@value
class Universe:
    """A join that can be read by buckets. fact: the table that could be read by pieces. others: sources by the same
    key.

    types: the type that each column of the key is cast to.
    """

    fact: Keyed
    others: tuple[Keyed, ...]
    types: tuple[str, ...]


@value
class Buckets:
    """The buckets of a universe. table: the name of its fact. salt: selects the hash function.

    The hash function draws the buckets, so rounds read them in order.
    """

    universe: Universe
    table: str
    salt: int

    in_row_groups = rest_is_less = False

    @property
    def count(self) -> int:
        """Number of buckets."""
        return BUCKETS

    def text(self, round_sql: str, buckets: Sequence[int]) -> str:
        """The query of a round over whole tables, for consecutive buckets. round_sql: the query over pieces."""
        query = parse_one(round_sql.replace(PIECE_ROWS, "1"), read="duckdb")
        within = per_piece(query)
        keyed = {one.alias: one for one in (self.universe.fact, *self.universe.others)}
        for source in sources_of(within):
            one = keyed.get(source.alias_or_name.lower())
            if one is not None:
                source.replace(self._chosen(source, one, buckets))
        return query.sql("duckdb")

    def _chosen(self, source: exp.Expression, keyed: Keyed, buckets: Sequence[int]) -> exp.Expression:
        """The rows of the buckets, of what stands in the FROM, by the name that it has there."""
        alias, read, columns = source.alias_or_name, source.copy(), "*"
        bucket = self._bucket(alias, keyed)
        if keyed is self.universe.fact:
            read.set("this", exp.to_identifier(self.table, quoted=True))
            columns = f"*, ({bucket})::INTEGER AS {PIECE}"
        where = f"{bucket} BETWEEN {buckets[0]} AND {buckets[-1]}"
        made = parse_one(f"SELECT {columns} WHERE {where}", read="duckdb")
        assert isinstance(made, exp.Select)
        return made.from_(read).subquery(exp.to_identifier(alias, quoted=True))

    def _bucket(self, alias: str, keyed: Keyed) -> str:
        keys = (
            f"CAST({exp.column(name, alias, quoted=True).sql('duckdb')} AS {type_})"
            for name, type_ in zip(keyed.keys, self.universe.types, strict=True)
        )
        return f"hash(hash({', '.join(keys)}, {self.salt})) % {BUCKETS}"  # twice: the salt alone only renames buckets


def per_piece(query: exp.Expr) -> exp.Select:
    """The SELECT in the query of a round that reads the table: see `qoop.programs.approximate.round_sql.round_sql`."""
    within = query.args["from_"].this.this
    source = within.args["from_"].this
    found = source.this if source.alias == MEASURED else within
    assert isinstance(found, exp.Select)
    return found


def universes(
    select: exp.Select,
    fact: tuple[Table, str],
    tables: Mapping[str, Table],
    names: Names,
    describe: Callable[[str], Columns],
) -> tuple[Universe, ...]:
    """The ways to read the join of a SELECT by buckets: the fact with one source, with two …, as long as they share a
    column of the key. fact: with its name in the SELECT. describe: the columns of a text.
    """
    table, alias = fact[0], fact[1].lower()
    classes = Classes()
    classes.read(select, names)
    mine = {classes.of((alias, name)): name for name in (one.lower() for one, _ in table.columns)}
    shared = {one: name for one, name in mine.items() if one is not None}
    own = Keyed(alias, (), ((table.rows, _needed(select, alias)),))
    found: list[Universe] = []
    kept: list[tuple[Keyed, Mapping[int, Column]]] = []
    types = {name.lower(): type_ for name, type_ in table.columns}
    agreed = {one: types[name] for one, name in shared.items()}
    large = _others(select, alias, _LEAST_PART * table.rows, tables, describe)
    for keyed, columns in sorted(large, key=lambda item: -item[0].rows):
        by = {classes.of((keyed.alias, name)): (name, type_) for name, type_ in columns}
        common = {one: _type(agreed[one], by[one][1]) for one in agreed if one in by}
        usable = {one: type_ for one, type_ in common.items() if type_}
        if not usable:
            continue
        agreed = usable
        kept.append((keyed, {one: by[one] for one in by if one is not None}))
        order = sorted(agreed)
        others = tuple(_with_keys(one, [known[place][0] for place in order]) for one, known in kept)
        fact_ = _with_keys(own, [shared[place] for place in order])
        found.append(Universe(fact_, others, tuple(agreed[place] for place in order)))
    return tuple(found)


def _with_keys(keyed: Keyed, keys: Sequence[str]) -> Keyed:
    return Keyed(keyed.alias, tuple(keys), keyed.tables, keyed.grouped)


def _type(left: str, right: str) -> str:
    """The type in which equal keys have equal hashes; empty: there is none."""
    found = hash_type(left, right) or ""
    return "" if found.startswith(_NOT_HASHED) or found.endswith("]") else found


def _others(
    select: exp.Select, fact: str, least: float, tables: Mapping[str, Table], describe: Callable[[str], Columns]
) -> Iterator[tuple[Keyed, Columns]]:
    """The other sources in the FROM with a least number of rows, and their columns."""
    for source in sources_of(select):
        alias = source.alias_or_name.lower()
        if alias == fact or not alias:
            continue
        if isinstance(source, exp.Table):
            table = None if source.args.get("db") else tables.get(source.name.lower())
            if table is None or table.rows < least or source.alias_column_names:
                continue
            keyed = Keyed(alias, (), ((table.rows, _needed(select, alias)),))
            yield keyed, tuple((name.lower(), type_) for name, type_ in table.columns)
        elif isinstance(source, exp.Subquery):
            read = [tables[one.name.lower()] for one in source.find_all(exp.Table) if one.name.lower() in tables]
            if sum(one.rows for one in read) < least:
                continue
            grouped = any(map(has_aggregates, source.find_all(exp.Select)))
            keyed = Keyed(alias, (), tuple((one.rows, _needed(source, "")) for one in read), grouped)
            yield from ((keyed, columns) for columns in _columns(select, source, describe))


def _columns(select: exp.Select, source: exp.Subquery, describe: Callable[[str], Columns]) -> Iterator[Columns]:
    """The columns of a SELECT in the FROM; none if it refers to other sources."""
    query = exp.select("*").from_(source.copy())
    if select.args.get("with_") is not None:
        query.set("with_", select.args["with_"].copy())
    try:
        yield tuple((name.lower(), type_) for name, type_ in describe(query.sql("duckdb")))
    except QueryError:
        return


def _needed(node: exp.Expression, alias: str) -> int:
    """The number of columns that a node needs of a source, or of all sources."""
    names = {one.name.lower() for one in node.find_all(exp.Column) if one.table.lower() in ("", alias) or not alias}
    return max(1, len(names))


class Classes:
    """Columns of a FROM that are equal in each of its rows, unless one belongs to a row that is filled with NULLs."""

    def __init__(self) -> None:
        self._class: dict[Column, int] = {}

    def of(self, column: Column) -> int | None:
        """The number of the class of a column; None: it equals no other column."""
        return self._class.get(column)

    def read(self, select: exp.Select, names: Names) -> None:
        """Add the equalities of a SELECT."""
        outer: list[tuple[str, exp.Expression]] = []
        where = select.args.get("where")
        conditions = [where.this] if where is not None else []
        for join in select.args.get("joins") or []:
            inner = not join.args.get("side") and str(join.args.get("kind") or "").upper() in ("", "INNER", "CROSS")
            on = join.args.get("on")
            if on is not None:
                (conditions if inner else []).append(on)
                outer += [] if inner else [(join.this.alias_or_name.lower(), on)]
            for name in join.args.get("using") or []:
                self._using(name.name.lower(), join.this.alias_or_name.lower(), names, inner)
        for condition in conditions:
            for left, right in _equalities(condition, names):
                self._unite(left, right)
        for alias, on in outer:
            for left, right in _equalities(on, names):
                self._follow(alias, left, right)

    def _using(self, name: str, alias: str, names: Names, inner: bool) -> None:
        owners = [one for one in names.owners(name) if one != alias]
        if len(owners) == 1 and alias in names.owners(name):
            left, right = (owners[0], name), (alias, name)
            if inner:
                self._unite(left, right)
            else:
                self._follow(alias, left, right)

    def _unite(self, left: Column, right: Column) -> None:
        new, old = self._number(left), self._number(right)
        for column, number in self._class.items():
            if number == old:
                self._class[column] = new

    def _follow(self, alias: str, left: Column, right: Column) -> None:
        """Add an equality of an outer join: its own columns are equal where it found a row, and do not make others
        equal."""
        for mine, theirs in ((left, right), (right, left)):
            if mine[0] == alias and theirs[0] != alias and mine not in self._class:
                self._class[mine] = self._number(theirs)

    def _number(self, column: Column) -> int:
        return self._class.setdefault(column, len(self._class))


def _equalities(condition: exp.Expression, names: Names) -> Iterator[tuple[Column, Column]]:
    """The equalities of two columns in a condition."""
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        one = part.unnest() if isinstance(part, exp.Expression) else part
        if isinstance(one, exp.And):
            yield from _equalities(one, names)
        elif isinstance(one, exp.EQ):
            left, right = names.column_of(one.this), names.column_of(one.expression)
            if left is not None and right is not None and left[0] != right[0]:
                yield left, right


@value
class Ways:
    """The seconds of all rounds before the last, on one thread. universe: the best one."""

    universe: Universe
    by_pieces: float
    by_buckets: float


def compared(found: Sequence[Universe], ends: Sequence[int], cost: CostModel) -> Ways | None:
    """The best way to read by buckets, compared with pieces of the fact. ends: pieces or buckets after each round, of
    which the last reads the rest."""
    if not found:
        return None
    shares = [(end - begin) / ends[-1] for begin, end in pairwise((0, *ends[:-1]))]
    everything = found[-1].others
    ways = [
        Ways(one, sum(_by_pieces(one.fact, everything, share, cost) for share in shares),
             sum(_by_buckets(one, everything, share, cost) for share in shares))
        for one in found
    ]  # fmt: skip
    return min(ways, key=lambda way: way.by_buckets)


def _by_pieces(fact: Keyed, others: Sequence[Keyed], share: float, cost: CostModel) -> float:
    read = _reading(fact, cost) * share
    return read + sum(_reading(one, cost) + _joining(fact.rows * share, one, 1.0, cost) for one in others)


def _by_buckets(universe: Universe, others: Sequence[Keyed], share: float, cost: CostModel) -> float:
    fact, keyed = universe.fact, {one.alias for one in universe.others}
    hashing = cost.filter_row * (len(universe.types) + _HASHING)
    seconds = _reading(fact, cost) + fact.rows * hashing
    for one in others:
        part = share if one.alias in keyed else 1.0
        seconds += _reading(one, cost) + _joining(fact.rows * share, one, part, cost)
        seconds += one.rows * hashing if one.alias in keyed else 0.0
    return seconds


_HASHING = 3
"""The functions per row that find its bucket, besides the hash of its key: hash, remainder, comparison."""


def _reading(keyed: Keyed, cost: CostModel) -> float:
    return sum(rows * (cost.scan_row + cost.scan_byte * _BYTES * columns) for rows, columns in keyed.tables)


def _joining(mine: float, other: Keyed, share: float, cost: CostModel) -> float:
    """The seconds after reading, for a part of the other rows: their groups or joins, and the join."""
    theirs, within = other.rows * share, 0.0
    if other.grouped:
        within = theirs * (cost.aggregate_row + cost.group_row)
    elif len(other.tables) > 1:
        rows = sorted(rows * share for rows, _ in other.tables)
        within = sum(map(_one_join(cost), rows, accumulate(rows[1:])))
    return within + _one_join(cost)(mine, theirs)


def _one_join(cost: CostModel) -> Callable[[float, float], float]:
    def seconds(left: float, right: float) -> float:
        build, probe = sorted((left, right))
        return cost.build(build, _BYTES) + cost.probe(probe, build)

    return seconds
