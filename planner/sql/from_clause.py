"""FROM: its items, and the joins between them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from sqlglot import exp

from qoop.planner.algebra.expr import (
    Call,
    Column,
    Expr,
    Literal,
    columns_of_all,
    conjuncts,
    equals,
    is_volatile,
    substitute,
)
from qoop.planner.algebra.fold_constants import simplify
from qoop.planner.algebra.relation import Filter, Join, JoinKind, Project, Relation, Scan, Values
from qoop.planner.algebra.types import type_of
from qoop.planner.identity.determinism import is_non_deterministic
from qoop.planner.sql.convert import Env
from qoop.planner.sql.latest import with_all, with_latest
from qoop.planner.sql.query_block import QueryBlock
from qoop.planner.sql.scope import Cte, FromItem, Scope, Unsupported, parts_of, refuse, unlike_names
from qoop.planner.sql.subquery import refuse_typeof

if TYPE_CHECKING:
    from qoop.planner.sql.build import Builder


NO_SOURCE = Values((), ((),))
"""The one row of a SELECT without FROM."""


class FromClause:
    """The FROM of one block. `relation` grows item by item."""

    def __init__(self, builder: Builder, scope: Scope, ctes: dict[str, Cte]) -> None:
        self.builder = builder
        self.scope = scope
        self.ctes = ctes
        self.relation: Relation = NO_SOURCE

    def build(self, node: exp.Select) -> Relation:
        """The rows of FROM; enters their columns into the scope."""
        clause = node.args.get("from_")
        if clause is None:
            if node.args.get("joins"):
                raise Unsupported("joins without FROM")
            return self.relation
        if node.args.get("sample"):
            return self.sampled(node)
        if _reads_files(clause.this) and not node.args.get("joins"):  # DuckDB reads no more than the block asks for
            raise Unsupported(f"the table function {_name_of(clause.this)}")
        first, *others = _comma_separated(clause.this, node)
        self.relation = self.chain(*first)
        for item, joins in others:
            correlated = self.correlated(item)
            if correlated is not None:
                if any(_join_kind(join) in ("right", "full") for join in joins):  # they keep rows for each row before
                    raise Unsupported("a right or full join with LATERAL")
                self.relation = self.lateral(correlated, "inner", ())
                self.join_all(joins, len(self.scope.sources) - 1)
            elif all(_join_kind(join) == "inner" for join in joins):  # then any order is right
                before = len(self.scope.sources)
                self.relation = Join(self.relation, self.item(item), "inner", ())
                self.join_all(joins, before)
            else:
                self.relation = Join(self.relation, self.chain(item, joins), "inner", ())
        return self.relation

    def sampled(self, node: exp.Select) -> Relation:
        """USING SAMPLE, which comes before WHERE: DuckDB draws the rows, the rest is planned."""
        if node.args.get("joins") or node.args["from_"].this.args.get("joins"):
            raise Unsupported("a sample of a join")
        item = node.args["from_"].this
        drawn = exp.select("*")
        drawn.set("from_", exp.From(this=item.copy()))
        drawn.set("sample", node.args["sample"].copy())
        opaque, names = self.builder.closed(drawn, self.ctes, "a sample")
        pairs = tuple(zip(unlike_names(names), opaque.columns, strict=True))
        self.scope.sources.append(FromItem(item.alias_or_name, pairs, opaque))
        return opaque

    def chain(self, node: exp.Expression, joins: Sequence[exp.Join]) -> Relation:
        """A FROM item and its joins, separate from the items joined so far."""
        before = len(self.scope.sources)
        outer, self.relation = self.relation, self.item(node)
        self.join_all(joins, before)
        built, self.relation = self.relation, outer
        return built

    def join_all(self, joins: Iterable[exp.Join], first: int) -> None:
        """Join one item after the other to those from the `first` source on."""
        for join in joins:
            self.join(join, first)

    def item(self, node: exp.Expression) -> Relation:
        """A FROM item: enters its columns into the scope, returns its relation."""
        before = len(self.scope.sources)
        if _is_parenthesised(node):
            relation = self.item(node.this)
        else:
            built = self.source(node)
            self.scope.sources.append(built)
            relation = built.relation
        outer, self.relation = self.relation, relation
        self.join_all(node.args.get("joins") or (), before)
        relation, self.relation = self.relation, outer
        return relation

    def source(self, node: exp.Expression) -> FromItem:
        alias = node.args.get("alias")
        renamed = tuple(column.name for column in alias.columns) if alias is not None else ()
        why = _only_duckdb(node, self.builder.bound.tables, self.ctes)
        if why is not None:
            return self.leaf(node, why)
        match node:
            case exp.Table():
                built = self.table(node)
            case exp.Subquery() | exp.Values():
                if isinstance(node, exp.Subquery):
                    refuse(node, {"this", "alias", "with_", "joins"})
                inner = node if isinstance(node, exp.Values) else node.this
                ctes = self.builder.with_(node, self.ctes)
                relation, columns, names = self.builder.derived(inner, ctes)
                built = FromItem(node.alias, tuple(zip(names, columns, strict=True)), relation)
            case _:
                raise Unsupported(f"{type(node).__name__} in FROM")
        if len(renamed) > len(built.columns):
            raise Unsupported(f"more names than columns in {node.alias}")
        called = unlike_names([*renamed, *(name for name, _ in built.columns[len(renamed) :])])
        pairs = tuple((name, expr) for name, (_, expr) in zip(called, built.columns, strict=True))
        return FromItem(node.alias or built.alias, pairs, built.relation)

    def leaf(self, node: exp.Expression, reason: str) -> FromItem:
        """An item that DuckDB runs, where it needs nothing of those before it. Raises Unsupported for others."""
        alone = node.copy()
        alone.set("joins", None)
        query = exp.select("*")
        query.set("from_", exp.From(this=alone))
        opaque, names = self.builder.closed(query, self.ctes, reason)
        opaque = replace(opaque, rows=_rows_of(node))
        pairs = tuple(zip(unlike_names(names), opaque.columns, strict=True))
        return FromItem(node.alias or _name_of(node), pairs, opaque)

    def correlated(self, node: exp.Expression) -> exp.Expression | None:
        """A LATERAL item; to DuckDB every derived table may read the items before it."""
        if _lateral(node) is not None or not (isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query)):
            return node if _lateral(node) is not None else None
        aliases = {source.alias.lower() for source in self.scope.sources}
        if not any(column.table.lower() in aliases for column in node.this.find_all(exp.Column)):
            return None
        inner: exp.Expression = node.args["this"]
        plain = set(parts_of(node)) == {"this", "alias"}
        if not plain or self.builder.is_closed(inner, self.ctes):
            return None
        return exp.Lateral(this=exp.Subquery(this=inner.copy()), alias=node.args["alias"].copy())

    def lateral(self, node: exp.Expression, kind: JoinKind, joins: Sequence[exp.Join]) -> Relation:
        """The items so far joined with a derived table that reads its columns: a join on the correlated columns."""
        inner = _lateral(node)
        if inner is None or kind not in ("inner", "left") or any(join.args.get("using") for join in joins):
            raise Unsupported(f"{_with_article(kind)} join with LATERAL")
        block = self.builder.query(inner, self.scope, self.ctes)
        if kind == "left" and block.single and block.correlated:
            refuse_typeof(inner)
        names, fresh = unlike_names(block.names), self.builder.names.fresh
        alias = node.args.get("alias")
        renamed = [column.name for column in alias.columns] if alias is not None else []
        columns = tuple(fresh(name, expr.type) for name, expr in zip(names, block.exprs, strict=True))
        pairs = tuple(zip(unlike_names([*renamed, *names[len(renamed) :]]), columns, strict=True))
        joined = self.latest(block, columns, kind) or joined_laterally(self.relation, block, columns, kind)
        self.scope.sources.append(FromItem(node.alias, pairs, joined))
        on = tuple(one for join in joins for one in self.conditions(join.args.get("on")))
        if on and kind == "left":
            raise Unsupported("LEFT JOIN LATERAL with a condition")
        return Filter(joined, on) if on else joined

    def latest(self, block: QueryBlock, columns: Sequence[Column], kind: OneOf["inner", "left"]) -> Relation | None:
        """The items so far, each row with its latest row of the block; None if the block has all rows up to a bound."""
        if block.latest is None:
            return None
        pairs, names = tuple(zip(columns, block.exprs, strict=True)), self.builder.names
        if self.builder.as_duckdb_reads:
            return with_all(self.relation, block.relation, block.latest, pairs, names)
        return with_latest(self.relation, block.relation, block.latest, pairs, kind, names)

    def table(self, node: exp.Table) -> FromItem:
        refuse(node, {"this", "alias", "joins"})
        name = node.name.lower()
        if name in self.ctes:
            return self.builder.cte(self.ctes[name])
        known = self.builder.bound.tables.get(name)
        if known is None or not isinstance(node.this, exp.Identifier):
            raise Unsupported(f"the table {node.sql(dialect='duckdb')}")
        version, typed = known
        fields = tuple((own, self.builder.names.fresh(own, type_)) for own, type_ in typed)
        return FromItem(node.name, fields, Scan(name, version, fields))

    def join(self, node: exp.Join, first: int) -> None:
        """Join the next item to those from the `first` source on."""
        correlated = self.correlated(node.this)
        if correlated is not None:
            self.relation = self.lateral(correlated, _join_kind(node), (node,))
            return
        left, before = self.relation, list(self.scope.sources)
        right = self.item(node.this)
        kind = _join_kind(node)
        shared = self.shared_names(node, before[first:], self.scope.sources[len(before) :])
        same = self.using(shared, before[first:], self.scope.sources[len(before) :])
        on = tuple(equals(*pair) for pair in same.values()) if shared else self.conditions(node.args.get("on"))
        if kind == "right":
            self.relation = Join(right, left, "left", on)
        elif kind in ("semi", "anti"):
            self.scope.sources = before
            self.relation = Join(left, right, kind, on)
        else:
            self.relation = Join(left, right, kind, on)
        self.merge(kind, same)

    def conditions(self, node: exp.Expression | None) -> tuple[Expr, ...]:
        if node is None:
            return ()
        builder = self.builder
        about, bound = (self.scope, builder.names, builder.subqueries), builder.bound
        env = Env(*about, bound.timestamp, ctes=self.ctes, functions=bound.functions)
        exprs = conjuncts(simplify(env.convert(node)))
        if env.attachments or columns_of_all(exprs) & self.scope.outer:
            raise Unsupported("a subquery or outer column in ON")
        return tuple(expr for expr in exprs if not (isinstance(expr, Literal) and expr.value is True))

    def shared_names(self, node: exp.Join, mine: Sequence[FromItem], theirs: Sequence[FromItem]) -> list[str]:
        """The names, in lower case, of the columns that USING or NATURAL makes one."""
        if (node.method or "").upper() != "NATURAL":
            return [identifier.name.lower() for identifier in node.args.get("using") or ()]
        others = {name.lower() for source in theirs for name, _ in source.columns}
        return list(dict.fromkeys(
            name.lower() for source in mine for name, _ in source.columns if name.lower() in others
        ))  # fmt: skip

    def using(
        self, names: Sequence[str], mine: Sequence[FromItem], theirs: Sequence[FromItem]
    ) -> dict[str, tuple[Column, Column]]:
        """The columns of each name on either side."""
        found = {}
        for name in names:
            ours = [column for source in mine if (column := source.find(name)) is not None]
            others = [column for source in theirs if (column := source.find(name)) is not None]
            ours, others = ([*dict.fromkeys(self.scope.same.get(c, c) for c in side)] for side in (ours, others))
            if len(ours) != 1 or len(others) != 1:
                raise Unsupported(f"USING ({name})")
            found[name] = ours[0], others[0]
        return found

    def merge(self, kind: str, pairs: Mapping[str, tuple[Column, Column]]) -> None:
        """Merge the columns that USING joins by: the value of the outer side, for a full join that of either."""
        both = {}
        for name, (ours, theirs) in pairs.items():
            shown = theirs if kind == "right" else ours
            if kind == "full":
                template = "coalesce({0}, {1})"
                either = Call("coalesce", (ours, theirs), template, type_of(template, (ours, theirs)))
                shown = self.builder.names.fresh(name, either.type)
                both[shown] = either
            self.scope.merge(name, ours, theirs, shown)
        if both:
            kept = tuple((column, column) for column in self.relation.columns)
            self.relation = Project(self.relation, (*kept, *both.items()))


def _lateral(node: exp.Expression) -> exp.Expression | None:
    """The query of a LATERAL item."""
    if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
        refuse(node, {"this", "alias"})
        refuse(node.this, {"this", "with_"})
        return node.this.this if not node.this.args.get("with_") else node.this
    return None


def _is_parenthesised(node: exp.Expression) -> bool:
    """True for parentheses around a FROM item, which change nothing."""
    around = isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Query | exp.Summarize)
    return around and set(parts_of(node)) <= {"this", "joins"}


def _only_duckdb(node: exp.Expression, tables: Collection[str], ctes: Collection[str]) -> str | None:
    """The reason for which DuckDB has to run a FROM item, None if there is none."""
    for key, reason in (("pivots", "a PIVOT or UNPIVOT"), ("sample", "a sample")):
        if node.args.get(key):
            return reason
    match node:
        case exp.Table() if isinstance(node.this, exp.Func):
            return f"the table function {_name_of(node)}"
        case exp.Unnest():
            return "unnest"
        case exp.Subquery() if isinstance(node.this, exp.Summarize):
            return "SUMMARIZE"
    return None


def _reads_files(node: exp.Expression) -> bool:
    """True for a table function over files, which has filters and columns pushed into it."""
    return isinstance(node, exp.Table) and isinstance(node.this, exp.Func) and bool(_OVER_FILES.match(_name_of(node)))


def _rows_of(node: exp.Expression) -> int | None:
    """The number of rows that a FROM item spells out, None where it does not."""
    call = node.this if isinstance(node, exp.Table) else node
    match call:
        case exp.GenerateSeries():
            places = [_integer(call.args[key]) for key in ("start", "end", "step") if call.args.get(key) is not None]
            if None in places or 0 in places[2:]:
                return None
            first, last, *step = (place for place in places if place is not None)
            return len(range(first, last + (not call.args.get("is_end_exclusive")), *step)) if not step else None
        case exp.Unnest(expressions=[exp.Array() as listed]) if not call.args.get("offset"):
            return len(listed.expressions) if all(_is_plain(item) for item in listed.expressions) else None
    return None


def _integer(node: exp.Expression) -> int | None:
    sign, inner = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    return sign * int(inner.this) if isinstance(inner, exp.Literal) and inner.this.isdigit() else None


def _is_plain(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal | exp.Null) or (isinstance(node, exp.Neg) and _is_plain(node.this))


_OVER_FILES = re.compile(r"read_|parquet_|sniff_|glob$|\w+_scan$")
_NAMES: dict[type, str] = {exp.Unnest: "unnest", exp.ReadCSV: "read_csv", exp.ReadParquet: "read_parquet"}


def _name_of(node: exp.Expression) -> str:
    """The name that DuckDB gives to a FROM item without an alias."""
    call = node.this if isinstance(node, exp.Table) else node
    if isinstance(call, exp.GenerateSeries):
        return "range" if call.args.get("is_end_exclusive") else "generate_series"
    if type(call) in _NAMES:
        return _NAMES[type(call)]
    return str(call.name).lower()


def _comma_separated(node: exp.Expression, select: exp.Select) -> list[tuple[exp.Expression, list[exp.Join]]]:
    """The FROM items between commas, which bind less than any JOIN, each with the joins that follow it."""
    parts: list[tuple[exp.Expression, list[exp.Join]]] = [(node, [])]
    for join in select.args.get("joins") or ():
        if set(parts_of(join)) == {"this"}:
            parts.append((join.this, []))
        else:
            parts[-1][1].append(join)
    return parts


def _with_article(name: str) -> str:
    """A name behind its article.

    >>> _with_article("ASOF"), _with_article("positional")
    ('an ASOF', 'a positional')
    """
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _join_kind(node: exp.Join) -> JoinKind:
    side, kind = (node.side or "").lower(), (node.kind or "").lower()
    if node.method and node.method.upper() != "NATURAL":
        raise Unsupported(f"{_with_article(node.method)} join")
    name = side or kind or "inner"
    if name == "cross":
        return "inner"
    if name in ("inner", "left", "right", "full", "semi", "anti"):
        return name  # type: ignore[return-value]
    if name == "outer":
        raise Unsupported("OUTER JOIN without a side")
    raise Unsupported(f"{_with_article(name)} join")


# A derived table that reads columns of the items before it, as a join.
#
# The predicates that correlate the two are the condition of the join: a row of the left meets the rows of the derived
# table that it would have seen. An aggregate without GROUP BY has a row for each of the left: that is a left join.


def joined_laterally(left: Relation, block: QueryBlock, columns: Sequence[Column], kind: JoinKind) -> Relation:
    """The rows of `left` with those of the block, whose select list becomes these columns. kind: inner or left.

    Raises Unsupported where that is no join.
    """
    if block.distinct:
        raise Unsupported("DISTINCT in a correlated LATERAL")
    if block.running is not None:
        raise Unsupported("LATERAL with an aggregate over the rows up to a value of the left")
    known = frozenset(left.columns) | frozenset(block.relation.columns)
    if columns_of_all((*block.correlated, *block.exprs)) - known:
        raise Unsupported("LATERAL that reads columns of farther away")
    if any(map(is_volatile, block.exprs)) or is_non_deterministic(block.relation):
        raise Unsupported("LATERAL over non-deterministic rows")
    on = tuple(block.correlated)
    kept = tuple((column, column) for column in left.columns)
    if block.single and on:
        exprs = [_filled(expr, block) for expr in block.exprs]
        return Project(Join(left, block.relation, "left", on), (*kept, *zip(columns, exprs, strict=True)))
    if kind == "inner" or (block.single and not on):
        return Project(Join(left, block.relation, "inner", on), (*kept, *zip(columns, block.exprs, strict=True)))
    if columns_of_all(block.exprs) - frozenset(block.relation.columns):
        raise Unsupported("LEFT JOIN LATERAL that computes with columns of the left")
    own = tuple((column, column) for column in block.relation.columns)
    computed = Project(block.relation, (*own, *zip(columns, block.exprs, strict=True)))
    joined = Join(left, computed, "left", on)
    return Project(joined, (*kept, *((column, column) for column in columns)))


def _filled(expr: Expr, block: QueryBlock) -> Expr:
    """The expression where no row was found: counts are 0 then."""
    return substitute(expr, {
        column: Call("coalesce", (column, value), "coalesce({0}, {1})", column.type)
        for column, value in block.of_nothing.items()
    })  # fmt: skip
