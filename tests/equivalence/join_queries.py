"""Random join queries for hypothesis: :func:`join_queries` draws texts over the tables of :data:`TABLES`.

Facts with dimensions, of which some have no unique key, all with NULLs: joins of every kind, subqueries of every kind,
grouping, windows, shared subplans, ORDER BY with LIMIT whose last rows may tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from hypothesis import strategies as st

TABLES = """
create table sales as select i as id, case when i % 17 = 0 then null else (i * 7) % 23 end as item,
  case when i % 11 = 0 then null else (i * 5) % 13 end as shop, (i * 3) % 31 as day, (i * 13) % 9 as quantity,
  case when i % 7 = 0 then null else ((i * 37) % 500 / 100)::decimal(7, 2) end as price, 'c' || i % 4 as code
  from range(260) t(i);
create table refunds as select (i * 3) % 300 as id, case when i % 9 = 0 then null else (i * 4) % 25 end as item,
  (i * 7) % 31 as day, i % 6 as quantity, ((i * 41) % 300 / 100)::decimal(7, 2) as price, 'c' || i % 5 as code
  from range(110) t(i);
create table items as select i as item, case when i % 8 = 0 then null else i % 5 end as brand, i % 3 as class,
  'n' || i % 6 as code from range(21) t(i);
create table shops as select case when i = 12 then null else i end as shop, i % 4 as town, 'c' || i % 3 as code
  from range(13) t(i);
create table days as select i as day, i // 7 as week, i % 7 as weekday from range(29) t(i);
create table towns as select i % 4 as town, case when i = 5 then null else i % 2 end as state from range(6) t(i);
create table nothing as select 1 as item, 1 as shop, 1 as day, 1 as quantity where false;
"""

NUMBERS = {
    "sales": ("id", "item", "shop", "day", "quantity"), "refunds": ("id", "item", "day", "quantity"),
    "items": ("item", "brand", "class"), "shops": ("shop", "town"), "days": ("day", "week", "weekday"),
    "towns": ("town", "state"), "nothing": ("item", "shop", "day", "quantity"),
}  # fmt: skip
KEYS = ("id", "item", "shop", "day", "town")
PRICED = ("sales", "refunds")
CODED = ("sales", "refunds", "items", "shops")


@dataclass(frozen=True)
class Source:
    """A table under an alias."""

    alias: str
    table: str

    @property
    def numbers(self) -> list[str]:
        """Its columns of integers, as a query writes them."""
        return [f"{self.alias}.{name}" for name in NUMBERS[self.table]]


class Writer:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.aliases = count()

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) >= 100 - percent  # shrinks towards without

    def pick(self, items: list[str] | tuple[str, ...]) -> str:
        return self.draw(st.sampled_from(items))

    def source(self, tables: tuple[str, ...] = ()) -> Source:
        usual = tuple(table for table in NUMBERS if table != "nothing")
        table = "nothing" if not tables and self.chance(3) else self.pick(tables or usual)
        return Source(f"r{next(self.aliases)}", table)

    # -- FROM

    def joined(self, most: int) -> tuple[str, list[Source]]:
        """A FROM clause of up to `most` joins, and what it shows."""
        first = self.source(("sales", "sales", "refunds", "items"))
        text, shown = f"{first.table} {first.alias}", [first]
        for _ in range(self.draw(st.integers(1, most))):
            other = self.source()
            kind = self.pick(("join", "join", "join", "left join", "semi join", "anti join", "right join", "full join"))
            parts = [self.key(shown, other)]
            if self.chance(12):
                parts.append(self.key(shown, other))
            if self.chance(12) and kind != "full join":
                parts.append(self.predicate([*shown, other]))
            text += f" {kind} {other.table} {other.alias} on {' and '.join(parts)}"
            if kind not in ("semi join", "anti join"):
                shown.append(other)
        return text, shown

    def key(self, shown: list[Source], other: Source) -> str:
        """An equality with the other source, by columns of one name where there are such."""
        pairs = [
            (f"{source.alias}.{name}", f"{other.alias}.{name}")
            for source in shown
            for name in NUMBERS[source.table]
            if name in KEYS and name in NUMBERS[other.table]
        ]
        if pairs and not self.chance(10):
            left, right = self.draw(st.sampled_from(pairs))
        else:
            left, right = self.number(shown), self.pick(other.numbers)
        return f"{left} is not distinct from {right}" if self.chance(4) else f"{left} = {right}"

    def number(self, shown: list[Source]) -> str:
        return self.pick([column for source in shown for column in source.numbers])

    # -- WHERE

    def where(self, shown: list[Source]) -> str:
        parts = [self.condition(shown) for _ in range(self.draw(st.sampled_from((0, 1, 1, 2, 2, 3))))]
        return f" where {' and '.join(parts)}" if parts else ""

    def condition(self, shown: list[Source]) -> str:
        if self.chance(30):
            return self.subquery(shown)
        if self.chance(20):
            return f"({self.predicate(shown)} or {self.predicate(shown)})"
        return self.predicate(shown)

    def predicate(self, shown: list[Source]) -> str:
        column = self.number(shown)
        value = self.draw(st.integers(0, 12))
        return self.pick(
            (
                f"{column} < {value + 6}", f"{column} >= {value - 8}", f"{column} = {value}", f"{column} <> {value}",
                f"{column} >= 1", f"{column} < {value * 20}",
                f"{column} between {value} and {value + 9}", f"{column} in ({value}, {value + 1}, {value + 5})",
                f"{column} is null", f"{column} is not null", f"{column} <= {self.number(shown)}",
                f"coalesce({column}, 3) < {value + 3}", f"not ({column} > {value} and {self.number(shown)} > 2)",
            )
        )  # fmt: skip

    def subquery(self, shown: list[Source]) -> str:
        """A condition with a subquery, mostly correlated."""
        inner = self.source()
        link = f" where {self.key(shown, inner)}" if self.chance(70) else ""
        rest = f"{' and' if link else ' where'} {self.predicate([inner])}" if self.chance(50) else ""
        body = f"from {inner.table} {inner.alias}{link}{rest}"
        mine, theirs = self.number(shown), self.pick(inner.numbers)
        return self.pick(
            (
                f"exists (select 1 {body})", f"not exists (select 1 {body})", f"{mine} in (select {theirs} {body})",
                f"{mine} not in (select {theirs} {body})", f"{mine} >= (select avg({theirs}) {body})",
                f"{mine} > (select count(*) {body})", f"(select max({theirs}) {body}) is null",
            )
        )  # fmt: skip

    # -- SELECT

    def block(self, most: int = 4, width: int | None = None) -> tuple[str, int]:
        """A SELECT without order, and how many columns it has. All columns are numbers if `width` is given."""
        text, shown = self.joined(most)
        tail = f" from {text}{self.where(shown)}"
        if self.chance(60):
            return self.grouped(shown, tail, width)
        columns = [self.number(shown) for _ in range(width or self.draw(st.integers(1, 4)))]
        if width is None and self.chance(20):
            columns.append(self.window(shown))
        distinct = "distinct " if self.chance(20) else ""
        return f"select {distinct}{self.named(columns)}{tail}", len(columns)

    def named(self, columns: list[str]) -> str:
        return ", ".join(f"{column} as c{place}" for place, column in enumerate(columns))

    def grouped(self, shown: list[Source], tail: str, width: int | None) -> tuple[str, int]:
        least = 0 if width is None else 1
        keys = list(dict.fromkeys(self.number(shown) for _ in range(self.draw(st.integers(least, 2)))))
        wanted = (width or self.draw(st.integers(len(keys) + 1, len(keys) + 3))) - len(keys)
        columns = [*keys, *(self.aggregate(shown, width is not None) for _ in range(max(0, wanted)))][: width or 9]
        by = self.pick(("{}", "{}", "{}", "rollup ({})")) if len(keys) > 1 else "{}"
        group = f" group by {by.format(', '.join(keys))}" if keys else ""
        having = self.pick(("", "", f" having count(*) > {self.draw(st.integers(0, 4))}")) if keys else ""
        return f"select {self.named(columns)}{tail}{group}{having}", len(columns)

    def aggregate(self, shown: list[Source], whole: bool) -> str:
        column = self.number(shown)
        choices = ["count(*)", f"count({column})", f"min({column})", f"max({column})", f"count(distinct {column})"]
        prices = [f"{source.alias}.price" for source in shown if source.table in PRICED]
        if not whole:
            choices += [f"sum({column})", f"avg({column})", f"count(*) filter (where {self.predicate(shown)})"]
            choices += [f"{function}({price})" for price in prices for function in ("sum", "avg", "max")]
            codes = [f"{source.alias}.code" for source in shown if source.table in CODED]
            choices += [f"max({code})" for code in codes]
        return self.pick(choices)

    def window(self, shown: list[Source]) -> str:
        by, order = self.number(shown), self.number(shown)
        return self.pick(
            (f"rank() over (partition by {by} order by {order})", f"sum({order}) over (partition by {by})",
             f"count(*) over (order by {order})")
        )  # fmt: skip

    # -- statements

    def statement(self) -> str:
        text, width = self.pick_statement()
        if self.chance(40):
            keys = self.draw(st.lists(st.integers(1, width), min_size=1, max_size=width, unique=True))
            text = f"select * from ({text}) q order by {', '.join(map(str, keys))}"
            if self.chance(70):
                text += f" limit {self.draw(st.integers(1, 12))}"
        return text

    def pick_statement(self) -> tuple[str, int]:
        shape = self.draw(st.integers(0, 9))
        if shape == 9:
            word = self.pick(("union", "union all", "intersect", "except"))
            return f"({self.block(2, 2)[0]}) {word} ({self.block(2, 2)[0]})", 2
        if shape == 8:
            body, _ = self.block(3, 2)
            reader = self.pick(("a.c0 = b.c0", "a.c0 = b.c1 and a.c1 > 1", "a.c0 = b.c0 and b.c1 < 9"))
            kind = self.pick(("join", "left join"))
            return f"with c as ({body}) select a.c0, b.c1 as d from c a {kind} c b on {reader}", 2
        return self.block()


@st.composite
def join_queries(draw: st.DrawFn) -> str:
    """The text of a query that DuckDB takes."""
    return Writer(draw).statement()


@st.composite
def related_queries(draw: st.DrawFn) -> tuple[str, str]:
    """Two queries over one FROM clause, of which the second mostly asks for less: some of its rows can be taken from
    what the first has left behind. Each is read twice, which makes its rows a stage of their own."""
    writer = Writer(draw)
    text, shown = writer.joined(3)
    common = [writer.predicate(shown) for _ in range(draw(st.integers(0, 2)))]
    columns = list(dict.fromkeys(writer.number(shown) for _ in range(draw(st.integers(1, 5)))))
    keys = writer.pick(("", "", "group"))
    found = []
    for place in range(2):
        more = [writer.condition(shown) for _ in range(draw(st.integers(0, 2 if place else 0)))]
        dropped = common[1:] if place and writer.chance(15) else common
        where = f" where {' and '.join([*dropped, *more])}" if [*dropped, *more] else ""
        mine = columns[: draw(st.integers(1, len(columns)))] if place else columns
        if keys:
            having = f" having {writer.pick(mine)} < {draw(st.integers(1, 20))}" if place and writer.chance(50) else ""
            by = columns if writer.chance(70) or not place else mine
            body = f"select {writer.named([*mine, 'count(*)'])} from {text}{where} group by {', '.join(by)}{having}"
        else:
            body = f"select {writer.named(mine)} from {text}{where}"
        outside = f" where c0 <= {draw(st.integers(0, 15))}" if place and writer.chance(30) else ""
        found.append(f"with q as ({body}) select * from q{outside} union all select * from q")
    return found[0], found[1]
