"""Random SQL over the tables of :mod:`fuzz_data`: :func:`random_query` gives the text for a seed.

Texts are typed by four kinds (number, text, moment, truth), so most are accepted by DuckDB; what it refuses is a test
too. Every LIMIT stands over an order that is total, and functions whose value depends on the order of rows are given a
total one, so that there is one right answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from fuzz_data import TABLES

from qoop.planner.algebra.expr import quote

NUMBER, TEXT, MOMENT, TRUTH = "number", "text", "moment", "truth"
KINDS = (NUMBER, TEXT, MOMENT, TRUTH)


def kind_of(type_: str) -> str:
    return {"VARCHAR": TEXT, "DATE": MOMENT, "TIMESTAMP": MOMENT, "BOOLEAN": TRUTH}.get(type_, NUMBER)


@dataclass(frozen=True)
class Named:
    """A column as a query may write it."""

    sql: str
    kind: str


@dataclass
class Names:
    """What an expression may refer to. outer: of the blocks around. ctes: name -> columns."""

    columns: list[Named] = field(default_factory=list)
    outer: list[Named] = field(default_factory=list)
    ctes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Query:
    """A text and its output columns (name, kind)."""

    sql: str
    columns: list[tuple[str, str]]


def random_query(seed: str) -> str:
    """The query of a seed."""
    return Grammar(Random(seed)).statement()


class Grammar:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.count = 0

    def statement(self) -> str:
        query = self.with_ctes(Names(), self.rng.choice((0, 0, 1, 1, 2)))
        sql = query.sql
        if self.chance(0.4):
            sql = self.ordered(query, limit=self.chance(0.5)).sql
        return sql

    # -- small things -----------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def several(self, least: int, most: int, make: Callable[[], str]) -> list[str]:
        return [make() for _ in range(self.rng.randint(least, most))]

    # -- queries ----------------------------------------------------------------------------------------------

    def with_ctes(self, names: Names, depth: int) -> Query:
        if not self.chance(0.3) or depth < 1:
            return self.query(names, depth)
        inside = Names(list(names.columns), list(names.outer), dict(names.ctes))
        definitions = []
        for _ in range(self.rng.randint(1, 2)):
            name = self.fresh("w")
            query = self.query(Names(ctes=inside.ctes), depth - 1)
            renamed = [(f"{name}c{i}", kind) for i, (_, kind) in enumerate(query.columns)]
            heads = f"({', '.join(c for c, _ in renamed)})"
            hint = self.rng.choice(("", "", "", "MATERIALIZED ", "NOT MATERIALIZED "))
            definitions.append(f"{name}{heads} AS {hint}({query.sql})")
            inside.ctes = {**inside.ctes, name: renamed}
        query = self.query(inside, depth)
        return Query(f"WITH {', '.join(definitions)} {query.sql}", query.columns)

    def query(self, names: Names, depth: int, kinds: Sequence[str] | None = None) -> Query:
        if depth > 0 and self.chance(0.15):
            return self.set_operation(names, depth, kinds)
        return self.select(names, depth, kinds)

    def set_operation(self, names: Names, depth: int, kinds: Sequence[str] | None) -> Query:
        kinds = kinds or [self.rng.choice(KINDS) for _ in range(self.rng.randint(1, 3))]
        inside = Names(ctes=names.ctes)
        parts = [self.query(inside, depth - 1, kinds) for _ in range(self.rng.choice((2, 2, 3)))]
        sql = f"({parts[0].sql})" if self.chance(0.5) or " ORDER BY " in parts[0].sql else parts[0].sql
        for part in parts[1:]:
            word = self.rng.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
            sql = f"{sql} {word} ({part.sql})"
            if len(parts) > 2 and self.chance(0.3):
                sql = f"({sql})"
        return Query(f"SELECT * FROM ({sql}) {self.fresh('q')}", parts[0].columns)

    def ordered(self, query: Query, limit: bool) -> Query:
        """The query's rows in a total order, perhaps cut."""
        positions = list(range(1, len(query.columns) + 1))
        self.rng.shuffle(positions)
        suffixes = ("", " DESC", " NULLS FIRST", " DESC NULLS LAST", " ASC NULLS LAST", " DESC NULLS FIRST")
        keys = ", ".join(f"{p}{self.rng.choice(suffixes)}" for p in positions)
        sql = f"SELECT * FROM ({query.sql}) {self.fresh('q')} ORDER BY {keys}"
        if limit:
            sql += self.rng.choice((f" LIMIT {self.rng.choice((0, 1, 5, 30))}", "", " LIMIT 10"))
            sql += self.rng.choice(("", "", f" OFFSET {self.rng.choice((0, 1, 7, 500))}"))
        return Query(sql, query.columns)

    def select(self, names: Names, depth: int, kinds: Sequence[str] | None = None) -> Query:
        inside = Names([], [*names.columns, *names.outer], names.ctes)
        text = self.from_(inside, depth)
        if not inside.columns:
            return self.constants(names, kinds)
        where = f" WHERE {self.ground_truth(inside, depth, 2)}" if self.chance(0.6) else ""
        shape = self.rng.random()
        if shape < 0.35:
            return self.grouped(inside, depth, f"{text}{where}", kinds)
        if shape < 0.47 and not inside.outer:
            return self.windowed(inside, depth, f"{text}{where}", kinds)
        kinds = kinds or [self.rng.choice(KINDS) for _ in range(self.rng.randint(1, 4))]
        columns, items = [], []
        for kind in kinds:
            name = self.output_name()
            items.append(f"{self.value(kind, inside, depth, 2)} AS {quote(name)}")
            columns.append((name, kind))
        distinct = "DISTINCT " if self.chance(0.2) else ""
        sql = f"SELECT {distinct}{', '.join(items)}{text}{where}"
        return Query(sql, columns)

    def constants(self, names: Names, kinds: Sequence[str] | None) -> Query:
        kinds = kinds or [self.rng.choice(KINDS)]
        columns = [(self.fresh("o"), kind) for kind in kinds]
        if self.chance(0.4):
            rows = ", ".join(
                f"({', '.join(self.literal(kind) for kind in kinds)})" for _ in range(self.rng.randint(1, 4))
            )
            heads = ", ".join(name for name, _ in columns)
            return Query(f"SELECT * FROM (VALUES {rows}) AS {self.fresh('v')}({heads})", columns)
        items = (f"{self.value(kind, Names(), 0, 1)} AS {name}" for name, kind in columns)
        return Query(f"SELECT {', '.join(items)}", columns)

    def output_name(self) -> str:
        """Mostly new, sometimes the name of a base column, so that aliases hide columns."""
        return self.rng.choice(("k", "s", "dt", "v", "id")) + ("" if self.chance(0.1) else str(self.next()))

    def next(self) -> int:
        self.count += 1
        return self.count

    # -- FROM -------------------------------------------------------------------------------------------------

    def from_(self, names: Names, depth: int) -> str:
        if self.chance(0.03):
            return ""
        text = f" FROM {self.source(names, depth)}"
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 1, 2))):
            text += self.join(names, depth)
        return text

    def source(self, names: Names, depth: int, big: bool = True) -> str:
        alias = self.fresh("r")
        if depth > 0 and self.chance(0.25):
            inner = self.query(Names(ctes=names.ctes), depth - 1)
            if self.chance(0.15):
                inner = self.ordered(inner, True)
            names.columns += [Named(f"{alias}.{quote(c)}", kind) for c, kind in inner.columns]
            return f"({inner.sql}) AS {alias}"
        if names.ctes and self.chance(0.5):
            name = self.rng.choice(sorted(names.ctes))
            names.columns += [Named(f"{alias}.{c}", kind) for c, kind in names.ctes[name]]
            return f"{name} AS {alias}"
        tables = ["t1", "t1", "t2", "t2", "t3", "t3", "t4", "nothing"] if big else ["t3", "t4", "t4", "nothing"]
        name = self.rng.choice(tables)
        names.columns += [Named(f"{alias}.{quote(c)}", kind_of(type_)) for c, type_ in TABLES[name]]
        return f"{name} AS {alias}"

    def join(self, names: Names, depth: int) -> str:
        left = list(names.columns)
        kind = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN",
                                "ANTI JOIN", "CROSS JOIN", ","))  # fmt: skip
        if kind in ("CROSS JOIN", ","):
            return f" {kind} {self.source(names, 0, big=False)}"
        right_names = Names(ctes=names.ctes)
        right = self.source(right_names, depth)
        if self.chance(0.12) and (shared := self.shared(left, right_names.columns)):
            names.columns += right_names.columns
            names.columns += [Named(column, kind) for column, kind in shared]
            side = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"))
            return f" {side} {right} USING ({', '.join(column for column, _ in shared)})"
        condition = self.condition(left, right_names.columns)
        if kind not in ("SEMI JOIN", "ANTI JOIN"):
            names.columns += right_names.columns
        return f" {kind} {right} ON {condition}"

    def shared(self, left: list[Named], right: list[Named]) -> list[tuple[str, str]]:
        """One or two columns that exactly one item on each side has, for USING."""

        def once(columns: list[Named]) -> dict[tuple[str, str], int]:
            names = [(column.sql.rpartition(".")[2], column.kind) for column in columns]
            return {name: names.count(name) for name in names}

        mine, theirs = once(left), once(right)
        both = sorted(
            name for name in mine if mine[name] == 1 == theirs.get(name) and name[0] in ("k", "s", "dt", "id")
        )
        return self.rng.sample(both, min(len(both), self.rng.choice((1, 1, 2))))

    def condition(self, left: list[Named], right: list[Named]) -> str:
        both = Names([*left, *right])
        parts = [self.equality(left, right)]
        if self.chance(0.25):
            parts.append(self.equality(left, right))
        if self.chance(0.25):
            parts.append(self.ground_truth(both, 0, 1))
        if self.chance(0.06):
            parts = [self.comparison(both, 0, 0), f"({parts[0]} OR {self.comparison(both, 0, 0)})"]
        return " AND ".join(parts)

    def equality(self, left: list[Named], right: list[Named]) -> str:
        pairs = [(a, b) for a in left for b in right if a.kind == b.kind and a.kind != TRUTH]
        keys = [(a, b) for a, b in pairs if _is_key(a) and _is_key(b)]
        if not pairs:
            return "true"
        a, b = self.rng.choice(keys if keys and self.chance(0.8) else pairs)
        if a.kind == NUMBER and self.chance(0.1):
            return f"{a.sql} + 1 = {b.sql}"
        if self.chance(0.04):
            return f"{a.sql} IS NOT DISTINCT FROM {b.sql}"
        return f"{a.sql} = {b.sql}" if self.chance(0.7) else f"{b.sql} = {a.sql}"

    # -- GROUP BY ---------------------------------------------------------------------------------------------

    def grouped(self, names: Names, depth: int, tail: str, kinds: Sequence[str] | None) -> Query:
        local = Names(names.columns, [], names.ctes)
        keys = []
        for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3))):
            kind = self.rng.choice(KINDS)
            keys.append((self.value(kind, local, 0, 1 if self.chance(0.3) else 0), kind))
        keys = list(dict(keys).items())
        keys = [(sql, kind) for sql, kind in keys if any(c.sql in sql for c in names.columns)]
        wanted = list(kinds) if kinds else [self.rng.choice(KINDS) for _ in range(self.rng.randint(1, 4))]
        items, columns = [], []
        sets = self.grouping(keys)
        for kind in wanted:
            name = self.output_name()
            items.append(f"{self.group_value(kind, local, keys, bool(sets), depth)} AS {quote(name)}")
            columns.append((name, kind))
        having = ""
        if self.chance(0.25):
            having = f" HAVING {self.group_truth(local, keys, depth)}"
        group = f" GROUP BY {sets or ', '.join(sql for sql, _ in keys)}" if keys else ""
        return Query(f"SELECT {', '.join(items)}{tail}{group}{having}", columns)

    def grouping(self, keys: list[tuple[str, str]]) -> str:
        if not keys or not self.chance(0.25):
            return ""
        plain = [sql for sql, _ in keys]
        shape = self.rng.random()
        if shape < 0.3:
            return f"ROLLUP ({', '.join(plain)})"
        if shape < 0.55:
            return f"CUBE ({', '.join(plain)})"
        if shape < 0.7 and len(plain) > 1:
            return f"{plain[0]}, ROLLUP ({', '.join(plain[1:])})"
        sets = [f"({', '.join(self.rng.sample(plain, self.rng.randint(0, len(plain))))})" for _ in range(3)]
        return f"GROUPING SETS ({', '.join([*sets, '(' + ', '.join(plain) + ')'])})"

    def group_value(self, kind: str, names: Names, keys: list[tuple[str, str]], sets: bool, depth: int) -> str:
        fitting = [sql for sql, own in keys if own == kind]
        if fitting and self.chance(0.5):
            return self.rng.choice(fitting)
        if sets and kind == NUMBER and self.chance(0.3):
            return f"GROUPING({self.rng.choice(keys)[0]})"
        return self.aggregate(kind, names, depth)

    def group_truth(self, names: Names, keys: list[tuple[str, str]], depth: int) -> str:
        kind = self.rng.choice((NUMBER, NUMBER, TEXT, MOMENT))
        left = self.group_value(kind, names, keys, False, depth)
        if depth > 0 and self.chance(0.2):
            return f"{left} > {self.scalar(kind, Names(ctes=names.ctes), depth)}"
        text = f"{left} {self.operator()} {self.literal(kind)}"
        return f"{text} OR count(*) > {self.rng.randint(1, 9)}" if self.chance(0.3) else text

    def aggregate(self, kind: str, names: Names, depth: int) -> str:
        argument = self.value(kind, names, 0, 1)
        number = self.value(NUMBER, names, 0, 1)
        text = self.value(TEXT, names, 0, 0)
        anything = self.value(self.rng.choice(KINDS), names, 0, 0)
        distinct = "DISTINCT " if self.chance(0.15) else ""
        choices = {
            NUMBER: [
                "count(*)", f"count({distinct}{anything})", f"sum({distinct}{number})", f"sum({number})",
                f"avg({distinct}{number})", f"avg({number})", f"min({number})", f"max({number})",
                f"count_if({self.comparison(names, 0, 0)})", f"stddev_samp({number})", f"median({number})",
                f"count({distinct}{anything}) * 2 + 1", f"coalesce(sum({number}), 0)", f"var_pop({number})",
            ],
            TEXT: [
                f"min({argument})", f"max({argument})", f"string_agg({distinct}{text}, ',' ORDER BY {text})",
                f"string_agg({text}, ';' ORDER BY {text} DESC NULLS LAST)", f"upper(max({text}))",
            ],
            MOMENT: [f"min({argument})", f"max({argument})"],
            TRUTH: [
                f"bool_and({argument})", f"bool_or({argument})", f"min({argument})", "count(*) > 3",
                f"max({number}) IS NULL",
            ],
        }[kind]  # fmt: skip
        chosen = self.rng.choice(choices)
        plain = chosen.endswith(")") and " + " not in chosen and not chosen.startswith(("coalesce", "upper"))
        if plain and self.chance(0.15):
            chosen += f" FILTER (WHERE {self.comparison(names, 0, 0)})"
        return chosen

    # -- windows ----------------------------------------------------------------------------------------------

    def windowed(self, names: Names, depth: int, tail: str, kinds: Sequence[str] | None) -> Query:
        local = Names(names.columns, [], names.ctes)
        kinds = list(kinds) if kinds else [self.rng.choice(KINDS) for _ in range(self.rng.randint(1, 3))]
        items, columns = [], []
        for kind in kinds:
            name = self.output_name()
            text = self.window(local) if kind == NUMBER and self.chance(0.8) else self.value(kind, local, 0, 1)
            items.append(f"{text} AS {quote(name)}")
            columns.append((name, kind))
        qualify = f" QUALIFY {self.window(local)} <= {self.rng.randint(1, 9)}" if self.chance(0.3) else ""
        return Query(f"SELECT {', '.join(items)}{tail}{qualify}", columns)

    def window(self, names: Names) -> str:
        number = self.value(NUMBER, names, 0, 0)
        partition = [self.rng.choice(names.columns).sql for _ in range(self.rng.randint(0, 2))]
        over = f"PARTITION BY {', '.join(partition)}" if partition else ""
        order = self.rng.choice(names.columns).sql
        every = ", ".join(column.sql for column in names.columns)
        shape = self.rng.randint(0, 6)
        if shape == 0:
            return f"sum({number}) OVER ({over})"
        if shape == 1:
            return f"count(*) OVER ({over} ORDER BY {order} {self.rng.choice(('', 'DESC', 'NULLS FIRST'))})"
        if shape == 2:
            return f"{self.rng.choice(('rank', 'dense_rank'))}() OVER ({over} ORDER BY {order})"
        if shape == 3:
            return f"min({number}) OVER ({over} ORDER BY {order} RANGE UNBOUNDED PRECEDING)"
        if shape == 4:
            return f"row_number() OVER ({over} ORDER BY {every})"
        if shape == 5:
            return f"sum({number}) OVER ({over} ORDER BY {every} ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)"
        return f"lag({number}, {self.rng.choice((1, 2))}) OVER ({over} ORDER BY {every})"

    # -- predicates -------------------------------------------------------------------------------------------

    def ground_truth(self, names: Names, depth: int, nesting: int) -> str:
        shape = self.rng.random()
        if nesting and shape < 0.35:
            word = self.rng.choice((" AND ", " AND ", " OR "))
            return "(" + word.join(self.several(2, 3, lambda: self.ground_truth(names, depth, nesting - 1))) + ")"
        if nesting and shape < 0.42:
            return f"NOT ({self.ground_truth(names, depth, nesting - 1)})"
        if depth > 0 and shape < 0.58:
            return self.subquery_truth(names, depth)
        return self.comparison(names, depth, 1)

    def comparison(self, names: Names, depth: int, nesting: int) -> str:
        kind = self.rng.choice((NUMBER, NUMBER, NUMBER, TEXT, MOMENT, TRUTH))
        left = self.value(kind, names, depth if self.chance(0.1) else 0, nesting)
        shape = self.rng.random()
        if kind == TRUTH:
            return self.rng.choice((left, f"NOT {left}", f"{left} IS NULL", f"{left} IS NOT TRUE"))
        if shape < 0.1:
            return f"{left} IS {self.rng.choice(('', 'NOT '))}NULL"
        if shape < 0.2:
            items = [self.literal(kind) for _ in range(self.rng.randint(1, 4))]
            if self.chance(0.2):
                items.append("NULL")
            return f"{left} {self.rng.choice(('', '', 'NOT '))}IN ({', '.join(items)})"
        if shape < 0.3:
            return f"{left} {self.rng.choice(('', 'NOT '))}BETWEEN {self.literal(kind)} AND {self.literal(kind)}"
        if shape < 0.45 and kind == TEXT:
            pattern = self.rng.choice(("a%", "%b%", "_", "%", "x!%%", "A%", ""))
            word = self.rng.choice(("LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"))
            escape = " ESCAPE '!'" if pattern == "x!%%" and "ILIKE" not in word else ""
            return f"{left} {word} '{pattern}'{escape}"
        if shape < 0.5:
            return f"{left} IS {self.rng.choice(('', 'NOT '))}DISTINCT FROM {self.value(kind, names, 0, 0)}"
        right = self.literal(kind) if self.chance(0.6) else self.value(kind, names, 0, nesting)
        return f"{left} {self.operator()} {right}"

    def operator(self) -> str:
        return self.rng.choice(("=", "=", "<>", "<", "<=", ">", ">="))

    def subquery_truth(self, names: Names, depth: int) -> str:
        shape = self.rng.random()
        inside = Names(names.columns, [], names.ctes) if self.chance(0.7) else Names(ctes=names.ctes)
        if shape < 0.4:
            return f"{self.rng.choice(('', 'NOT '))}EXISTS ({self.correlated(inside, depth - 1, None)})"
        kind = self.rng.choice((NUMBER, NUMBER, TEXT, MOMENT))
        left = self.value(kind, names, 0, 0)
        if shape < 0.8:
            word = self.rng.choice(("IN", "IN", "NOT IN"))
            return f"{left} {word} ({self.correlated(inside, depth - 1, [kind])})"
        if shape < 0.85:
            other = self.value(TEXT, names, 0, 0)
            query = self.correlated(inside, depth - 1, [kind, TEXT])
            return f"({left}, {other}) {self.rng.choice(('IN', 'NOT IN'))} ({query})"
        if shape < 0.9:
            quantified = self.rng.choice(("ANY", "ALL"))
            return f"{left} {self.operator()} {quantified} ({self.correlated(inside, depth - 1, [kind])})"
        return f"{left} {self.operator()} {self.scalar(kind, inside, depth)}"

    def correlated(self, outer: Names, depth: int, kinds: Sequence[str] | None) -> str:
        """A subquery; it has conditions on columns of the block around it if that has any."""
        if not outer.columns or self.chance(0.15):
            return self.query(Names(ctes=outer.ctes), depth, kinds).sql
        inner = Names([], [], outer.ctes)
        text = self.from_(inner, 0)
        if not inner.columns:
            return self.query(Names(ctes=outer.ctes), 0, kinds).sql
        parts = [self.equality(outer.columns, inner.columns)]
        if self.chance(0.3):
            parts.append(self.ground_truth(inner, depth, 1))
        if self.chance(0.12):
            parts.append(self.comparison(Names([*inner.columns, *outer.columns]), 0, 0))
        kinds = kinds or [NUMBER]
        if self.chance(0.15):
            items = ", ".join(self.aggregate(kind, inner, 0) for kind in kinds)
        else:
            source = inner if self.chance(0.9) else Names([*inner.columns, *outer.columns])
            items = ", ".join(self.value(kind, source, 0, 1) for kind in kinds)
        distinct = "DISTINCT " if self.chance(0.1) else ""
        return f"SELECT {distinct}{items}{text} WHERE {' AND '.join(parts)}"

    def scalar(self, kind: str, outer: Names, depth: int) -> str:
        """A scalar subquery of one row: an aggregate, or a row found by its key."""
        inner = Names([], [], outer.ctes)
        text = self.from_(inner, max(0, depth - 1))
        if not inner.columns:
            return f"(SELECT {self.literal(kind)})"
        parts = [self.ground_truth(inner, 0, 1)] if self.chance(0.4) else []
        if outer.columns and self.chance(0.7):
            parts.append(self.equality(outer.columns, inner.columns))
        where = f" WHERE {' AND '.join(parts)}" if parts else ""
        return f"(SELECT {self.aggregate(kind, inner, 0)}{text}{where})"

    # -- values -----------------------------------------------------------------------------------------------

    def value(self, kind: str, names: Names, depth: int, nesting: int) -> str:
        fitting = [column.sql for column in names.columns if column.kind == kind]
        outer = [column.sql for column in names.outer if column.kind == kind]
        if depth > 0 and self.chance(0.08):
            return self.scalar(kind, names, depth)
        if outer and self.chance(0.03):
            return self.rng.choice(outer)
        if nesting and self.chance(0.4):
            return self.compound(kind, names, depth, nesting - 1)
        return self.rng.choice(fitting) if fitting and self.chance(0.93) else self.literal(kind)

    def compound(self, kind: str, names: Names, depth: int, nesting: int) -> str:
        def value(of: str = kind) -> str:
            return self.value(of, names, depth, nesting)

        if self.chance(0.3):
            return self.any_kind(value, names, depth)
        number = value(NUMBER)
        choices = {
            NUMBER: [
                f"({number} + {value()})", f"({number} - {value()})", f"({number} * {self.rng.randint(0, 3)})",
                f"(- {number})", f"abs({number})", f"length({value(TEXT)})", f"year({value(MOMENT)})",
                f"day({value(MOMENT)})", f"CAST({number} AS DECIMAL(12,3))", f"CAST({number} AS DOUBLE)",
                f"CAST({number} AS BIGINT)", f"({number} % 3)", f"({number} / 0)", f"({number} / {value()})",
                f"TRY_CAST({value(TEXT)} AS INTEGER)", f"CAST({value(TRUTH)} AS INTEGER)", f"({number} // 2)",
                f"round({number}, 1)", f"CAST({number} AS SMALLINT)",
                f"date_diff('day', {value(MOMENT)}, DATE '2020-03-01')",
            ],
            TEXT: [
                f"({value()} || {value()})", f"upper({value()})", f"substr({value()}, 1, 2)", f"trim({value()})",
                f"CAST(CAST({number} AS INTEGER) AS VARCHAR)", f"concat({value()}, '-', {value()})",
                f"CAST({value(TRUTH)} AS VARCHAR)", f"replace({value()}, 'a', 'o')", f"left({value()}, 1)",
                f"strftime({value(MOMENT)}, '%Y-%m')", f"CAST(CAST({value(MOMENT)} AS DATE) AS VARCHAR)",
            ],
            MOMENT: [
                f"({value()} + INTERVAL 1 DAY)", f"CAST({value()} AS DATE)", f"CAST({value()} AS TIMESTAMP)",
                f"date_trunc('month', {value()})", f"({value()} - INTERVAL '2' DAY)", f"last_day({value()})",
                f"(CAST({value()} AS DATE) + 1)",
            ],
            TRUTH: [
                f"({self.comparison(names, 0, 0)})", f"(NOT {value()})", f"({value()} AND {value()})",
                f"({value()} OR {value()})",
            ],
        }[kind]  # fmt: skip
        return self.rng.choice(choices)

    def any_kind(self, value: Callable[[], str], names: Names, depth: int) -> str:
        shape = self.rng.randint(0, 4)
        if shape == 0:
            return f"coalesce({value()}, {value()})"
        if shape == 1:
            return f"nullif({value()}, {value()})"
        if shape == 2:
            return f"greatest({value()}, {value()})"
        test = self.ground_truth(names, depth, 0)
        if shape == 3:
            return f"CASE WHEN {test} THEN {value()} END"
        return f"CASE WHEN {test} THEN {value()} WHEN {self.comparison(names, 0, 0)} THEN {value()} ELSE {value()} END"

    def literal(self, kind: str) -> str:
        if self.chance(0.04):
            return "NULL"
        return self.rng.choice({
            NUMBER: ("0", "1", "2", "3", "5", "-1", "1.5", "2.00", "1e0", "7"),
            TEXT: ("''", "'a'", "'A'", "'ab'", "'zoë'", "'2'", "'x%'"),
            MOMENT: ("DATE '2020-02-28'", "TIMESTAMP '2020-02-29 12:00:00'", "DATE '2020-03-01'", "DATE '2020-02-29'",
                     "TIMESTAMP '2020-02-28 00:00:00'"),
            TRUTH: ("true", "false"),
        }[kind])  # fmt: skip


def _is_key(column: Named) -> bool:
    return column.sql.endswith((".k", ".id", ".dt", ".s"))
