"""The sums of a join, by groups of the fact below the join. Pure.

::

    SELECT i_brand AS k0, sum(price) AS t0 FROM qoop_pieces AS s, item WHERE s.item = i_key AND price > 3 GROUP BY 1

    groups   SELECT s.item AS k0, sum(price) AS t0 FROM qoop_pieces AS s WHERE price > 3 GROUP BY 1
    joined   SELECT s.qoop_head, i_brand AS k0, sum(s.qoop_t0) AS t0
             FROM (SELECT qoop_head, k0 AS item, t0 AS qoop_t0 FROM qoop_groups) AS s, item WHERE s.item = i_key
             GROUP BY 1, 2

Rows of the fact that are equal in all columns which the rest of the query reads are joined alike. So one row with their
sums stands for them, whatever the joins multiply or drop (Yan and Larson, "Eager Aggregation and Lazy Aggregation",
VLDB 1995, eager group-by). Some joins may stay below the groups; these must be inner ones, as all others then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from sqlglot import exp, parse_one

from qoop.catalog.value import value
from qoop.programs.approximate.core import with_needed
from qoop.programs.approximate.eligibility import PIECES, Columns
from qoop.programs.approximate.growth import Measure
from qoop.programs.approximate.names import SETS, Refused, sources_of

GROUPS = "qoop_groups"
"""The name of the table of groups in a query that joins them."""

HEAD = "qoop_head"
"""Its column with the number of the part that a group is of; the sums of different parts stay apart."""

_EXACT_TYPES = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "DECIMAL", "DATE", "TIMESTAMP", "BOOLEAN", "VARCHAR", "UUID", "BLOB", "ENUM",
)  # fmt: skip
"""Types whose equal values are the same: not so 0.0 and -0.0, or a month and 30 days."""


@value
class Column:
    """A column of a source in the FROM. source: its name there, in lower case."""

    source: str
    name: str
    type: str


@value
class Cut:
    """groups_sql: the query of groups, over `PIECES`. joined_sql: the query of the sums, over `GROUPS`.

    columns: by which the groups are made. below: the sources that are joined below the groups."""

    groups_sql: str
    joined_sql: str
    columns: tuple[Column, ...]
    below: tuple[str, ...]


class SumsQuery:
    """The query of the partial groups of a view, over `PIECES`.

    measures: its aggregates, which are its columns ``t0`` … columns: of each source in its FROM, by its name there in
    lower case, in the order of the FROM. Raises Refused for a query that cannot be cut."""

    def __init__(self, text: str, measures: Sequence[Measure], columns: Mapping[str, Columns]) -> None:
        self._query = _parsed(text)
        self._measures = measures
        self._columns = {
            source: {name.lower(): Column(source, name, type_) for name, type_ in found}
            for source, found in columns.items()
        }
        self._joins: list[exp.Expression] = self._query.args.get("joins") or []
        sources = sources_of(self._query)
        self.fact = next(one.alias_or_name.lower() for one in sources if is_pieces(one))
        if any(join.args.get("method") for join in self._joins):
            raise Refused("it has a NATURAL JOIN")
        self._are_inner = not any(_is_special(join) for join in self._joins)
        where = self._query.args.get("where")
        conditions = [] if where is None else [where.this]
        if self._are_inner:
            conditions += [join.args["on"] for join in self._joins if join.args.get("on") is not None]
        self._conjuncts = [one for condition in conditions for one in _conjuncts(condition)]
        self._keys = [item for item in self._query.expressions if item.alias.startswith("k")]
        self._values = [item for item in self._query.expressions if item.alias.startswith("t")]
        self._check_names()

    def equalities(self) -> Iterator[tuple[Column, Column]]:
        """The pairs of columns that are equal in all joined rows, both ways round."""
        on = [_conjuncts(join.args["on"]) for join in self._joins if join.args.get("on") is not None]
        for one in chain(self._conjuncts, *on):
            sides = [self._owned(side) for side in (one.this, one.expression)] if isinstance(one, exp.EQ) else []
            if len(sides) == 2 and sides[0] is not None and sides[1] is not None:
                yield sides[0], sides[1]
                yield sides[1], sides[0]
        for join in self._joins:
            for name in (one.name.lower() for one in join.args.get("using") or []):
                [*firsts, last] = [found[name] for found in self._columns.values() if name in found]
                for first in firsts:
                    yield first, last
                    yield last, first

    def cut(self, below: Collection[str] = ()) -> Cut:
        """The cut with these sources below the groups, besides the fact. Raises Refused."""
        lower = {self.fact, *below}
        if len(lower) > 1 and not self._are_inner:
            raise Refused("some of its joins are not inner")
        for item, measure in zip(self._values, self._measures, strict=True):
            if not self._is_of(item, lower):
                raise Refused(f"{measure.sql} reads columns of joined tables")
        inside = [one for one in self._conjuncts if self._is_of(one, lower) and one.find(exp.Column) is not None]
        outside = [one for one in self._conjuncts if not any(one is other for other in inside)]
        columns = self._read_of(lower, [*self._keys, *outside])
        types = [f"{one.name} is of type {one.type}" for one in columns if not one.type.startswith(_EXACT_TYPES)]
        if types:
            raise Refused(f"{types[0]}, in which values that differ may be equal")
        return Cut(
            self._groups(lower, inside, columns), self._joined(lower, outside, columns), columns,
            tuple(one for one in self._columns if one in lower and one != self.fact),
        )  # fmt: skip

    # Names

    def _check_names(self) -> None:
        """Raise Refused if a name may mean something else than a column of a source, or of a subquery."""
        known = {one.alias_or_name.lower() for one in self._query.find_all(exp.Table, exp.Subquery)}
        for column in self._query.find_all(exp.Column):
            if column.args.get("db") is not None or (column.table and column.table.lower() not in known):
                raise Refused(f"{column.sql('duckdb')} may be a field of a value")
            if not column.table and column.name.lower() in self._columns:
                raise Refused(f"{column.sql('duckdb')} may be a whole row")
        if self._query.find(exp.Columns) is not None:
            raise Refused("it has COLUMNS")

    def _owned(self, node: exp.Expression | exp.Expr) -> Column | None:
        """The column that an expression outside subqueries is, if it is of one source for sure."""
        if not isinstance(node, exp.Column):
            return None
        name, table = node.name.lower(), node.table.lower()
        having = [one for one, found in self._columns.items() if name in found and table in ("", one)]
        return self._columns[having[0]][name] if len(having) == 1 else None

    def _is_of(self, expr: exp.Expression, sources: Collection[str]) -> bool:
        """True if an expression reads columns of these sources alone, and has no subquery."""
        if expr.find(exp.Query) is not None:
            return False
        owners = [self._owned(one) for one in expr.find_all(exp.Column)]
        return all(one is not None and one.source in sources for one in owners)

    def _read_of(self, lower: Collection[str], exprs: Iterable[exp.Expression]) -> tuple[Column, ...]:
        """The columns of sources that expressions, and the joins of other sources, may read."""
        ons = [join.args["on"] for join in self._joins if join.args.get("on") is not None and not self._are_inner]
        found: dict[Column, None] = {}
        for expr in (*exprs, *ons):
            inner = {one.alias_or_name.lower() for one in expr.find_all(exp.Table, exp.Subquery)}
            if inner & set(lower):
                raise Refused("a subquery has the name of a table around it")
            for node in expr.find_all(exp.Column):
                name, table = node.name.lower(), node.table.lower()
                found |= {self._columns[one][name]: None for one in lower
                          if table in ("", one) and name in self._columns[one]}  # fmt: skip
        using = {one.name.lower() for join in self._joins for one in join.args.get("using") or []}
        found |= {one: None for source in lower for name, one in self._columns[source].items() if name in using}
        if len({one.name.lower() for one in found}) < len(found):
            raise Refused("two tables below the groups have columns of one name")
        return tuple(found)

    # Texts

    def _groups(self, lower: Collection[str], inside: Sequence[exp.Expression], columns: Sequence[Column]) -> str:
        items = [exp.alias_(_column(one.source, one.name), f"k{place}") for place, one in enumerate(columns)]
        query = exp.select(*items, *(item.copy() for item in self._values))
        query = _over([one for one in sources_of(self._query) if one.alias_or_name.lower() in lower], query, inside)
        with_needed(query, self._query)
        if not columns:
            return f"{query.sql('duckdb')} HAVING count(*) > 0"  # no rows make no group
        return f"{query.sql('duckdb')} GROUP BY {_places(len(columns))}"

    def _joined(self, lower: Collection[str], outside: Sequence[exp.Expression], columns: Sequence[Column]) -> str:
        sums = range(len(self._measures))
        inner = exp.select(
            HEAD, *(exp.alias_(exp.column(f"k{place}"), one.name, quoted=True) for place, one in enumerate(columns)),
            *(exp.alias_(exp.column(f"t{place}"), f"qoop_t{place}") for place in sums),
        )  # fmt: skip
        groups = inner.from_(GROUPS).subquery(exp.to_identifier(self.fact, quoted=True))
        merged = [
            exp.alias_(
                parse_one(one.merged(_column(self.fact, f"qoop_t{place}").sql("duckdb")), read="duckdb"), f"t{place}"
            )
            for place, one in enumerate(self._measures)
        ]
        head = exp.alias_(_column(self.fact, HEAD), HEAD)
        items = [head, *(item.copy() for item in self._keys), *merged]
        if self._are_inner:
            others = [one for one in sources_of(self._query) if one.alias_or_name.lower() not in lower]
            query = _over([groups, *others], exp.select(*items), outside)
        else:
            query = self._query.copy()
            next(one for one in sources_of(query) if is_pieces(one)).replace(groups)
            for clause in ("with_", "where", "group"):
                query.set(clause, None)
            query = _where(query, outside)
            query.set("expressions", items)
        for node in query.find_all(exp.Column):
            if node.table.lower() in lower:
                node.set("table", exp.to_identifier(self.fact, quoted=True))
        with_needed(query, self._query)
        group = self._query.args.get("group")
        if group is not None and group.find(*SETS):
            return f"{query.sql('duckdb')} GROUP BY 1, {', '.join(self._sets(query, group, lower))}"
        return f"{query.sql('duckdb')} GROUP BY {_places(1 + len(self._keys))}"

    def _sets(self, query: exp.Select, group: exp.Expression, lower: Collection[str]) -> Iterator[str]:
        """The grouping sets, over the groups."""
        for one in group.expressions:
            copy = one.copy()
            for node in copy.find_all(exp.Column):
                if node.table.lower() in lower:
                    node.set("table", exp.to_identifier(self.fact, quoted=True))
            yield copy.sql("duckdb")


def is_pieces(source: exp.Expression) -> bool:
    """True for the table of pieces."""
    return isinstance(source, exp.Table) and source.name == PIECES


def _parsed(text: str) -> exp.Select:
    found = parse_one(text, read="duckdb")
    assert isinstance(found, exp.Select)
    return found


def _is_special(join: exp.Expression) -> bool:
    """True for a join whose condition may not move to WHERE."""
    return bool(join.args.get("side") or join.args.get("using")) or join.args.get("kind", "") not in (
        "", "INNER", "CROSS"
    )  # fmt: skip


def _conjuncts(condition: exp.Expression) -> list[exp.Expression]:
    inner = condition.unnest()
    if isinstance(inner, exp.And):
        return [*_conjuncts(inner.this), *_conjuncts(inner.expression)]
    return [inner] if isinstance(inner, exp.Expression) else [condition]


def _column(source: str, name: str) -> exp.Column:
    return exp.column(name, source, quoted=True)


def _places(count: int) -> str:
    return ", ".join(str(place + 1) for place in range(count))


def _over(sources: Sequence[exp.Expression], query: exp.Select, conditions: Sequence[exp.Expression]) -> exp.Select:
    """A SELECT over sources that conditions join."""
    query = query.from_(sources[0].copy())
    for source in sources[1:]:
        query = query.join(exp.Join(this=source.copy()), copy=False)
    return _where(query, conditions)


def _where(query: exp.Select, conditions: Sequence[exp.Expression]) -> exp.Select:
    return query.where(*(exp.paren(one.copy()) for one in conditions)) if conditions else query
