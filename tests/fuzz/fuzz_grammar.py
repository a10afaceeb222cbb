"""Random SQL over the tables of :mod:`fuzz_tables`: :func:`random_query` gives the marked text for a seed.

Expressions are typed by kinds, so DuckDB accepts most of the texts; what it refuses is a test too. Every LIMIT but the
outermost stands over an order that is total; ties of the outermost are the comparison's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from fuzz_sources import Columns, Sources, Tables
from fuzz_templates import FAMILIES, MOMENT, NESTED, NUMBER, PAIR, TEXT, TRUTH, WINDOWS
from fuzz_tree import items, node, optional, plain
from fuzz_values import Named, Names

from qoop.planner.algebra.expr import quote

_SETS = ("UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "CROSS JOIN",
          ",", "LATERAL", "ASOF JOIN")  # fmt: skip
_KEYS = ("k", "id", "s", "d")
_OVER_NAMED = ("sum({n}) OVER win", "row_number() OVER win", "lag({n}) OVER win", "count({any}) OVER bare",
               "max({n}) OVER (bare ORDER BY {total})", "last_value({n}) OVER win")  # fmt: skip


@dataclass(frozen=True)
class Query:
    """A marked text and its output columns (name, kind)."""

    sql: str
    columns: Columns


def random_query(seed: str, tables: Tables) -> str:
    """The marked text of a seed. tables: name -> columns, each with its kind."""
    return Grammar(Random(seed), tables).statement()


class Grammar(Sources):
    """Queries; the outermost of them may have what only a comparison of answers sees."""

    def __init__(self, rng: Random, tables: Tables) -> None:
        super().__init__(rng)
        self.tables = tables

    def statement(self) -> str:
        depth = self.rng.choice((0, 0, 1, 1, 2))
        shape = self.rng.random()
        if shape < 0.4:
            return self.outermost(depth)
        query = self.with_ctes(Names(), depth)
        if shape < 0.7:
            return query.sql
        if shape < 0.8:
            return self.distinct_on(query).sql
        if shape < 0.88:
            return self.starred(query)
        if shape < 0.91:
            return self.free_pivot(query.sql, query.columns)
        if shape < 0.925:
            other = self.query(Names(), depth)
            word = self.rng.choice(("UNION", "UNION ALL"))
            return node("query", f"({query.sql}) {word} BY NAME ({other.sql})")
        if shape < 0.94:
            other = self.query(Names(), depth, [kind for _, kind in query.columns])
            return node("query", f"({query.sql}) {self.rng.choice(_SETS)} ({other.sql}) ORDER BY {self.total(query)}")
        return self.ordered(query, limit=self.chance(0.5)).sql

    # -- the outermost block ----------------------------------------------------------------------------------

    def outermost(self, depth: int) -> str:
        """A block with values of any type, names that hide columns, and an order that leaves ties."""
        names = Names()
        text = self.from_(names, depth)
        where = optional(f" WHERE {self.truth(names, depth, 2)}") if names.columns and self.chance(0.5) else ""
        grouped = bool(names.columns) and self.chance(0.25)
        chosen: list[tuple[str, str]] = []
        for _ in range(self.rng.randint(1, 4)):
            chosen.append(self.outer_item(names, grouped, [name for _, name in chosen if name]))
        distinct = optional("DISTINCT ") if not grouped and self.chance(0.15) else ""
        select = f"SELECT {distinct}{items(', ', [sql for sql, _ in chosen])}"
        selected = f"{text.lstrip()} {select}{where}" if text and self.chance(0.05) else f"{select}{text}{where}"
        return node(
            "query", selected + self.loose_order(names, [name for _, name in chosen], grouped or bool(distinct))
        )

    def outer_item(self, names: Names, grouped: bool, before: Sequence[str]) -> tuple[str, str]:
        """A value and its name, if it is given one. before: the names given in front of it."""
        tables = sorted({column.sql.rpartition(".")[0] for column in names.columns} - {""})
        if tables and not grouped and self.chance(0.06):
            star = self.rng.choice((".*", ".*", "", ".* EXCLUDE (k)", ".* REPLACE (1 AS k)"))
            return self.rng.choice(tables) + star, ""
        value = self.inexact(names) if grouped else self.output(names)
        if before and self.chance(0.12):
            shapes = ("{}", "({} IS NULL)", "{}::VARCHAR", "[{}]", "-{}", "{} || 'x'")
            value = self.rng.choice(shapes).replace("{}", self.rng.choice(before))
        if self.chance(0.2):
            return value, ""
        own = [column.sql.rpartition(".")[2] for column in names.columns]
        name = self.rng.choice(own) if own and self.chance(0.4) else quote(self.fresh("o"))
        return f"{value} AS {name}", name

    def loose_order(self, names: Names, outputs: Sequence[str], closed: bool) -> str:
        keys = [name for name in outputs if name and self.chance(0.5)]
        if not closed and names.columns and self.chance(0.5):
            keys.append(self.value(self.rng.choice(FAMILIES), names, 0, 1))
        if not keys or self.chance(0.3):
            return ""
        order = f" ORDER BY {items(', ', [key + self.direction() for key in keys])}"
        return optional(order + (self.limit() if self.chance(0.5) else ""))

    def starred(self, query: Query) -> str:
        """All columns but some, or with some replaced."""
        name, kind = self.rng.choice(query.columns)
        inside = Names([Named(quote(column), kind) for column, kind in query.columns])
        shapes = [f"* REPLACE ({self.value(kind, inside, 0, 1)} AS {quote(name)})", f"*, {quote(name)} AS again",
                  "DISTINCT *", "COLUMNS(*)", "*, count(*) OVER () AS n", f"* RENAME ({quote(name)} AS again)",
                  "max(COLUMNS(*))", "COLUMNS('[ks]')", "COLUMNS(c -> c LIKE '%1')", "COLUMNS(*) AS again",
                  "* LIKE '%1'", f"COLUMNS(['{name}'])", "coalesce(*COLUMNS(*)) AS again"]  # fmt: skip
        if len(query.columns) > 1:
            shapes.append(f"* EXCLUDE ({quote(name)})")
            shapes.append(f"* EXCLUDE ({quote(name.upper())})")
        shapes.append(f"*, unnest({self.value(PAIR, inside, 0, 1)})")
        shapes.append(f"unnest({self.value(NESTED, inside, 0, 1)}, recursive := true), *")
        return node("query", f"SELECT {self.rng.choice(shapes)} FROM ({query.sql}) {self.fresh('q')}")

    # -- queries ----------------------------------------------------------------------------------------------

    def with_ctes(self, names: Names, depth: int) -> Query:
        if not self.chance(0.3) or depth < 1:
            return self.query(names, depth)
        inside = Names(list(names.columns), list(names.outer), dict(names.ctes))
        definitions = [self.definition(inside, depth) for _ in range(self.rng.randint(1, 2))]
        query = self.query(inside, depth)
        recursive = "RECURSIVE " if any("count_up" in one or "recur" in one for one in definitions) else ""
        return Query(node("query", f"WITH {recursive}{items(', ', definitions)} {query.sql}"), query.columns)

    def definition(self, inside: Names, depth: int) -> str:
        if self.chance(0.1):
            name = self.fresh("count_up")
            inside.ctes = {**inside.ctes, name: [("n", NUMBER)]}
            return f"{name}(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM {name} WHERE n < {self.rng.randint(1, 9)})"
        if self.chance(0.07):
            name = self.fresh("recur")
            text, columns = self.recurring(inside, name)
            inside.ctes = {**inside.ctes, name: columns}
            return text
        name = self.rng.choice([*inside.ctes, *"abce"]) if self.chance(0.15) else self.fresh("w")
        query = self.query(Names(ctes=inside.ctes), depth - 1)
        renamed = [(f"{name}c{i}", kind) for i, (_, kind) in enumerate(query.columns)]
        inside.ctes = {**inside.ctes, name: renamed}
        hint = self.rng.choice(("", "", "", "MATERIALIZED ", "NOT MATERIALIZED "))
        return f"{name}({', '.join(c for c, _ in renamed)}) AS {optional(hint)}({query.sql})"

    def query(self, names: Names, depth: int, kinds: Sequence[str] | None = None) -> Query:
        if depth > 0 and self.chance(0.17):
            return self.set_operation(names, depth, kinds)
        return self.select(names, depth, kinds)

    def set_operation(self, names: Names, depth: int, kinds: Sequence[str] | None) -> Query:
        kinds = kinds or [self.kind(Names()) for _ in range(self.rng.randint(1, 3))]
        inside = Names(ctes=names.ctes)
        parts = [self.query(inside, depth - 1, kinds) for _ in range(self.rng.choice((2, 2, 3)))]
        if self.chance(0.1):
            return Query(node("query", f"({parts[0].sql}) UNION ALL BY NAME ({parts[0].sql})"), parts[0].columns)
        sql = f"({parts[0].sql})"
        for part in parts[1:]:
            sql = f"{sql}{optional(f' {self.rng.choice(_SETS)} ({part.sql})')}"
        return Query(node("query", f"SELECT * FROM ({sql}) {self.fresh('q')}"), parts[0].columns)

    def total(self, query: Query) -> str:
        positions = list(range(1, len(query.columns) + 1))
        self.rng.shuffle(positions)
        return ", ".join(f"{p}{self.direction()}" for p in positions)

    def ordered(self, query: Query, limit: bool) -> Query:
        """The query's rows in a total order, perhaps cut."""
        order = "ALL" if self.chance(0.1) else self.total(query)
        sql = f"SELECT * FROM ({query.sql}) {self.fresh('q')} ORDER BY {order}{self.limit() if limit else ''}"
        return Query(node("query", sql), query.columns)

    def limit(self) -> str:
        cut = self.rng.choice((f" LIMIT {self.rng.choice((0, 1, 5, 30))}", "", " LIMIT 10", " LIMIT 3", " LIMIT 20%"))
        offset = self.rng.choice(("", "", f" OFFSET {self.rng.choice((0, 1, 7, 500))}"))
        return optional(cut) + optional(offset if "%" not in cut else "")

    def distinct_on(self, query: Query) -> Query:
        keys = self.rng.sample(range(1, len(query.columns) + 1), 1)
        names = ", ".join(quote(query.columns[key - 1][0]) for key in keys)
        sql = f"SELECT DISTINCT ON ({names}) * FROM ({query.sql}) {self.fresh('q')} ORDER BY {self.total(query)}"
        return Query(node("query", sql), query.columns)

    # -- blocks -----------------------------------------------------------------------------------------------

    def select(self, names: Names, depth: int, kinds: Sequence[str] | None = None) -> Query:
        inside = Names([], [*names.columns, *names.outer], names.ctes)
        text = self.from_(inside, depth)
        if not inside.columns:
            return self.constants(names, kinds)
        text += optional(f" WHERE {self.truth(inside, depth, 2)}") if self.chance(0.6) else ""
        shape = self.rng.random()
        if shape < 0.35:
            return self.grouped(inside, depth, text, kinds)
        if shape < 0.5 and not inside.outer:
            return self.windowed(inside, text, kinds)
        kinds = kinds or [self.kind(inside) for _ in range(self.rng.randint(1, 4))]
        columns = [(self.output_name(), kind) for kind in kinds]
        distinct = optional("DISTINCT ") if self.chance(0.2) else ""
        listed = self.listed(columns, [self.value(kind, inside, depth, 2) for kind in kinds])
        return Query(node("query", f"SELECT {distinct}{listed}{text}"), columns)

    def listed(self, columns: Columns, values: Sequence[str]) -> str:
        return items(", ", [f"{sql} AS {quote(name)}" for sql, (name, _) in zip(values, columns, strict=True)])

    def rows_of(self, kinds: Sequence[str]) -> list[str]:
        """Some rows of constants, each once: of equal rows no window says which comes first."""
        return list(dict.fromkeys(self.several(1, 4, lambda: f"({', '.join(self.literal(kind) for kind in kinds)})")))

    def constants(self, names: Names, kinds: Sequence[str] | None) -> Query:
        kinds = kinds or [self.kind(Names())]
        columns = [(self.fresh("o"), kind) for kind in kinds]
        if self.chance(0.4):
            rows = self.rows_of(kinds)
            heads = ", ".join(name for name, _ in columns)
            sql = f"SELECT * FROM (VALUES {items(', ', rows)}) AS {self.fresh('v')}({heads})"
            return Query(node("query", sql), columns)
        return Query(
            node("query", f"SELECT {self.listed(columns, [self.value(kind, Names(), 0, 1) for kind in kinds])}"),
            columns,
        )

    def output_name(self) -> str:
        """Mostly new, sometimes the name of a base column, so that aliases hide columns."""
        stem = self.rng.choice(("k", "s", "d", "v", "id", "Group", "K"))
        return stem if self.chance(0.15) else self.fresh(stem)

    # -- FROM -------------------------------------------------------------------------------------------------

    def from_(self, names: Names, depth: int) -> str:
        if self.chance(0.03):
            return ""
        text = f" FROM {self.source(names, depth)}"
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 1, 2))):
            text += optional(self.join(names, depth))
        return text

    def source(self, names: Names, depth: int, big: bool = True) -> str:
        alias = self.fresh("r")
        if depth > 0 and self.chance(0.25):
            inner = self.with_ctes(Names(ctes=names.ctes), depth - 1)
            if self.chance(0.25):
                inner = self.ordered(inner, True) if self.chance(0.6) else self.distinct_on(inner)
            names.columns += [Named(f"{alias}.{quote(c)}", kind) for c, kind in inner.columns]
            return f"({inner.sql}) AS {alias}"
        if self.chance(0.03):
            names.columns.append(Named(f"{alias}.u", NUMBER))
            numbers = dict.fromkeys(("1", "2", "NULL", str(self.literal(NUMBER))))
            return f"(SELECT unnest([{', '.join(numbers)}]) AS u) AS {alias}"
        if self.chance(0.04):
            names.columns.append(Named(f"{alias}.u", NUMBER))
            made = self.rng.choice(("range(4)", "range(-1, 6, 2)", "generate_series(0, 3)", "range(0)"))
            return f"{made} AS {alias}(u)"
        if self.chance(0.04):
            kinds = [self.kind(Names()) for _ in range(self.rng.randint(1, 2))]
            rows = self.rows_of(kinds)
            names.columns += [Named(f"{alias}.v{place}", kind) for place, kind in enumerate(kinds)]
            return f"(VALUES {items(', ', rows)}) AS {alias}({', '.join(f'v{place}' for place in range(len(kinds)))})"
        if self.chance(0.06):
            text = self.rng.choice((self.positional, self.unpivoted, self.pivoted))(names, alias)
            if text:
                return text
        known = {**self.tables, **names.ctes}
        if self.chance(0.5):
            known = {name: columns for name, columns in known.items() if name not in names.ctes} or known
        name = self.rng.choice([name for name in known if big or name != "wide"])
        names.columns += [Named(f"{alias}.{quote(c)}", kind) for c, kind in known[name]]
        return f"{name} AS {alias}{' TABLESAMPLE 100%' if self.chance(0.02) else ''}"

    def join(self, names: Names, depth: int) -> str:
        left = list(names.columns)
        word = self.rng.choice(_JOINS)
        if word in ("CROSS JOIN", ","):
            return f" {word} {self.source(names, 0, big=False)}"
        if word == "LATERAL":
            return self.lateral(names)
        right_names = Names(ctes=names.ctes)
        right = self.source(right_names, depth)
        if word == "ASOF JOIN":
            return self.asof(names, right, right_names)
        if self.chance(0.12) and (shared := self.shared(left, right_names.columns)):
            names.columns += right_names.columns
            names.columns += [Named(column, kind) for column, kind in shared]
            side = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"))
            if self.chance(0.25):
                return f" NATURAL {side} {right}"
            return f" {side} {right} USING ({items(', ', [column for column, _ in shared])})"
        condition = self.condition(left, right_names.columns)
        if word not in ("SEMI JOIN", "ANTI JOIN"):
            names.columns += right_names.columns
        return f" {word} {right} ON {condition}"

    def lateral(self, names: Names) -> str:
        """A subquery for each row of what is left of it, or the values of a list of the row."""
        alias = self.fresh("r")
        if self.chance(0.35):
            kind, of = self.rng.choice(((NUMBER, "INTEGER[]"), (TEXT, "VARCHAR[]"), ("INTEGER[]", "INTEGER[][]")))
            values = self.value(of, names, 0, 1)
            names.columns.append(Named(f"{alias}.v", kind))
            side = self.rng.choice((", ", " CROSS JOIN ", ", LATERAL ", " LEFT JOIN "))
            return f"{side}unnest({values}) AS {alias}(v){' ON true' if 'LEFT' in side else ''}"
        kind = self.kind(names)
        inner = self.correlated(names, 0, [kind], "v")
        side = self.rng.choice((", LATERAL", " CROSS JOIN LATERAL", " LEFT JOIN LATERAL"))
        names.columns.append(Named(f"{alias}.v", kind))
        return f"{side} ({inner}) AS {alias}(v){' ON true' if 'LEFT' in side else ''}"

    def asof(self, names: Names, right: str, right_names: Names) -> str:
        """The nearest row of another table by its id, which has no ties."""
        ids = [column for column in right_names.columns if column.sql.endswith(".id") and " " not in right]
        numbers = [column for column in names.columns if column.kind == NUMBER]
        unique = right.split(" AS ")[0] in self.tables.keys() - names.ctes.keys()
        if not ids or not numbers or not unique:
            names.columns += right_names.columns
            return f" JOIN {right} ON {self.condition(names.columns, right_names.columns)}"
        side = self.rng.choice(("ASOF JOIN", "ASOF LEFT JOIN"))
        comparison = f"{self.rng.choice(numbers).sql} {self.rng.choice(('>=', '>', '<=', '<'))} {ids[0].sql}"
        if self.chance(0.4):
            comparison = items(" AND ", [self.equality(names.columns, right_names.columns), comparison])
        names.columns += right_names.columns
        return f" {side} {right} ON {comparison}"

    def shared(self, left: list[Named], right: list[Named]) -> Columns:
        """One or two columns that exactly one item on each side has, for USING."""

        def once(columns: list[Named]) -> Columns:
            named = [(column.sql.rpartition(".")[2], column.kind) for column in columns]
            known = [name for name, _ in named]
            return [(name, kind) for name, kind in named if known.count(name) == 1]

        both = sorted(set(once(left)) & set(once(right)))
        return self.rng.sample(both, min(len(both), self.rng.choice((1, 1, 2))))

    def condition(self, left: list[Named], right: list[Named]) -> str:
        both = Names([*left, *right])
        parts = [self.equality(left, right)]
        if self.chance(0.25):
            parts.append(self.equality(left, right))
        if self.chance(0.25):
            parts.append(self.truth(both, 0, 1))
        if self.chance(0.06):
            parts = [self.comparison(both), f"({items(' OR ', [parts[0], self.comparison(both)])})"]
        return items(" AND ", parts)

    def equality(self, left: list[Named], right: list[Named]) -> str:
        pairs = [(a, b) for a in left for b in right if a.kind == b.kind and a.kind != TRUTH]
        keys = [(a, b) for a, b in pairs if _is_key(a) and _is_key(b)]
        if not pairs:
            return "true"
        a, b = self.rng.choice(keys if keys and self.chance(0.7) else pairs)
        if a.kind == NUMBER and self.chance(0.1):
            return f"{a.sql} + 1 = {b.sql}"
        if self.chance(0.06):
            return f"{a.sql} IS NOT DISTINCT FROM {b.sql}"
        return f"{a.sql} = {b.sql}" if self.chance(0.7) else f"{b.sql} = {a.sql}"

    # -- GROUP BY ---------------------------------------------------------------------------------------------

    def grouped(self, names: Names, depth: int, tail: str, kinds: Sequence[str] | None) -> Query:
        local = Names(names.columns, [], names.ctes)
        keys = self.group_keys(local)
        sets = self.grouping(keys)
        kinds = list(kinds) if kinds else [self.kind(names) for _ in range(self.rng.randint(1, 4))]
        columns = [(self.output_name(), kind) for kind in kinds]
        values = [self.group_value(kind, local, keys, bool(sets)) for kind in kinds]
        listed = self.listed(columns, values)
        having = optional(f" HAVING {self.group_truth(local, keys, depth)}") if self.chance(0.25) else ""
        plain_keys = self.plain_keys(keys, columns, values)
        group = f" GROUP BY {sets or plain_keys}" if keys else ""
        return Query(node("query", f"SELECT {listed}{tail}{group}{having}"), columns)

    def plain_keys(self, keys: Columns, columns: Columns, values: Sequence[str]) -> str:
        """The keys as they are, or some by the place or the name that they have in the select list."""
        if self.chance(0.1):
            return "ALL"
        listed = []
        for sql, _ in keys:
            places = [place for place, value in enumerate(values) if plain(value) == plain(sql)]
            name = quote(columns[places[0]][0]) if places else ""
            told = self.rng.choice((sql, str(places[0] + 1), name)) if places and self.chance(0.4) else sql
            listed.append(told)
        return items(", ", listed)

    def group_keys(self, names: Names) -> Columns:
        kinds = [self.kind(names) for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3)))]
        keys = {plain(sql): kind for kind in kinds for sql in [self.value(kind, names, 0, int(self.chance(0.3)))]}
        return [(sql, kind) for sql, kind in keys.items() if any(column.sql in sql for column in names.columns)]

    def grouping(self, keys: Columns) -> str:
        if not keys or not self.chance(0.25):
            return ""
        own = [sql for sql, _ in keys]
        shape = self.rng.random()
        if shape < 0.3:
            return f"ROLLUP ({items(', ', own)})"
        if shape < 0.55:
            return f"CUBE ({items(', ', own)})"
        if shape < 0.7 and len(own) > 1:
            return f"{own[0]}, ROLLUP ({items(', ', own[1:])})"
        sets = [f"({', '.join(self.rng.sample(own, self.rng.randint(0, len(own))))})" for _ in range(3)]
        return f"GROUPING SETS ({items(', ', [*sets, '(' + ', '.join(own) + ')'])})"

    def group_value(self, kind: str, names: Names, keys: Columns, sets: bool) -> str:
        fitting = [sql for sql, own in keys if own == kind]
        if fitting and self.chance(0.5):
            return node(kind, self.rng.choice(fitting))
        if sets and kind == NUMBER and self.chance(0.3):
            return node(kind, f"GROUPING({self.rng.choice(keys)[0]})")
        if kind == NUMBER and keys and self.chance(0.06):
            return node(kind, self.window_of_groups(names, [sql for sql, _ in keys]))
        return self.aggregate(kind, names)

    def window_of_groups(self, names: Names, keys: Sequence[str]) -> str:
        """A window over the groups, which is the same for groups that tie."""
        part = optional(f"PARTITION BY {self.rng.choice(keys)}") if self.chance(0.4) else ""
        own = self.aggregate(NUMBER, names)
        order = f"ORDER BY {self.rng.choice((own, *keys))}{self.direction()}"
        return self.rng.choice((f"rank() OVER ({part} {order})", f"sum({own}) OVER ({part})",
                                f"max({own}) OVER ({part} {order})", f"count(*) OVER ({part} {order})"))  # fmt: skip

    def group_truth(self, names: Names, keys: Columns, depth: int) -> str:
        kind = self.rng.choice((NUMBER, NUMBER, TEXT, MOMENT))
        left = self.group_value(kind, names, keys, False)
        if depth > 0 and self.chance(0.2):
            return node(TRUTH, f"{left} > {self.subquery_value(kind, Names(ctes=names.ctes), depth)}")
        text = node(TRUTH, f"{left} {self.rng.choice(('=', '<>', '<', '>='))} {self.literal(kind)}")
        return f"{text} OR count(*) > {self.rng.randint(1, 9)}" if self.chance(0.3) else text

    # -- windows ----------------------------------------------------------------------------------------------

    def windowed(self, names: Names, tail: str, kinds: Sequence[str] | None) -> Query:
        local = Names(names.columns, [], names.ctes)
        kinds = list(kinds) if kinds else [self.rng.choice(FAMILIES) for _ in range(self.rng.randint(1, 3))]
        columns = [(self.output_name(), kind) for kind in kinds]
        values = [
            self.window(kind, local) if kind in WINDOWS and self.chance(0.8) else self.value(kind, local, 0, 1)
            for kind in kinds
        ]
        named = ""
        if self.chance(0.12):
            columns.append((self.fresh("w"), NUMBER))
            values.append(self.filled(self.rng.choice(_OVER_NAMED), NUMBER, local))
            named = self.filled(" WINDOW win AS ({part} ORDER BY {total} {frame}), bare AS ({part})", NUMBER, local)
        qualify = f" QUALIFY {self.window(NUMBER, local)} <= {self.rng.randint(1, 9)}" if self.chance(0.3) else ""
        text = f"SELECT {self.listed(columns, values)}{tail}{named}{optional(qualify)}"
        return Query(node("query", text), columns)

    # -- subqueries in expressions ----------------------------------------------------------------------------

    def subquery_truth(self, names: Names, depth: int) -> str:
        shape = self.rng.random()
        inside = Names(names.columns, [], names.ctes) if self.chance(0.7) else Names(ctes=names.ctes)
        if shape < 0.4:
            return f"{self.rng.choice(('', 'NOT '))}EXISTS ({self.correlated(inside, depth - 1, None)})"
        kind = self.kind(names) if self.chance(0.2) else self.rng.choice((NUMBER, NUMBER, TEXT, MOMENT))
        left = self.value(kind, names, 0, 0)
        if shape < 0.8:
            word = self.rng.choice(("IN", "IN", "NOT IN"))
            return f"{left} {word} ({self.correlated(inside, depth - 1, [kind])})"
        if shape < 0.85:
            other = self.value(TEXT, names, 0, 0)
            query = self.correlated(inside, depth - 1, [kind, TEXT])
            return f"({left}, {other}) {self.rng.choice(('IN', 'NOT IN'))} ({query})"
        operator = self.rng.choice(("=", "<>", "<", ">="))
        if shape < 0.9:
            quantified = self.rng.choice(("ANY", "ALL"))
            return f"{left} {operator} {quantified} ({self.correlated(inside, depth - 1, [kind])})"
        return f"{left} {operator} {self.subquery_value(kind, inside, depth)}"

    def correlated(self, outer: Names, depth: int, kinds: Sequence[str] | None, name: str = "") -> str:
        """A subquery; it has conditions on columns of the block around it if that has any."""
        if not outer.columns or self.chance(0.15):
            return self.query(Names(ctes=outer.ctes), depth, kinds).sql
        inner = Names([], outer.columns if self.chance(0.2) else [], outer.ctes)
        text = self.from_(inner, 0)
        if not inner.columns:
            return self.query(Names(ctes=outer.ctes), 0, kinds).sql
        parts = [self.equality(outer.columns, inner.columns)]
        if self.chance(0.3):
            parts.append(self.truth(inner, depth, 1))
        if self.chance(0.12):
            parts.append(self.comparison(Names([*inner.columns, *outer.columns])))
        source = inner if self.chance(0.9) else Names([*inner.columns, *outer.columns])
        aggregated = self.chance(0.15)
        chosen = [
            self.aggregate(kind, inner) if aggregated else self.value(kind, source, 0, 1) for kind in kinds or [NUMBER]
        ]
        distinct = optional("DISTINCT ") if self.chance(0.1) else ""
        where = optional(f" WHERE {items(' AND ', parts)}")
        return node("query", f"SELECT {distinct}{', '.join(chosen)}{text}{where}")

    def subquery_value(self, kind: str, names: Names, depth: int) -> str:
        """A scalar subquery of one row: an aggregate."""
        inner = Names([], [], names.ctes)
        text = self.from_(inner, max(0, depth - 1))
        if not inner.columns:
            return f"(SELECT {self.literal(kind)})"
        parts = [self.truth(inner, 0, 1)] if self.chance(0.4) else []
        if names.columns and self.chance(0.7):
            parts.append(self.equality(names.columns, inner.columns))
        where = optional(f" WHERE {items(' AND ', parts)}") if parts else ""
        if self.chance(0.15):
            order = f"ORDER BY 1{self.direction()} LIMIT 1{optional(' OFFSET 1')}"
            return f"(SELECT {self.value(kind, inner, 0, 0)}{text}{where} {order})"
        if kind == "INTEGER[]" or (kind == NUMBER and self.chance(0.05)):
            values = f"ARRAY(SELECT TRY_CAST({self.value(NUMBER, inner, 0, 0)} AS INTEGER){text}{where} ORDER BY 1)"
            return values if kind == "INTEGER[]" else f"len({values})"
        return f"(SELECT {self.aggregate(kind, inner)}{text}{where})"


def _is_key(column: Named) -> bool:
    return column.sql.rpartition(".")[2].strip('"') in _KEYS
