"""Texts and names that nobody would write: mutated queries, odd names, odd parameters.

Whatever comes in, qoop answers, or raises an error of its own (or what DuckDB raises when it is interrupted).  Every
32nd mutated query that is answered is compared with DuckDB's answer, where a text has but one.
"""

from __future__ import annotations

import os
import random
import string
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from attack_outcome import Outcome

import qoop
from qoop.interfaces import dbapi

SEEDS = (
    "SELECT a, sum(b) AS s FROM t WHERE c LIKE 'x%' GROUP BY a HAVING count(*) > 1 ORDER BY s DESC, a LIMIT 5",
    "SELECT t.a, u.d FROM t LEFT JOIN u ON t.a = u.a AND u.d > DATE '2020-01-01' WHERE t.b IN (1, 2.5, NULL)",
    "WITH w(x) AS (SELECT a + 1 FROM t), v AS MATERIALIZED (FROM w) SELECT * FROM v WHERE x = (SELECT max(x) FROM w)",
    "SELECT E'it\\'s', $$a ? b$$, 'x''y', \"a\" AS \"odd name\", /* /* nested */ */ 1e2+3 FROM t -- end",
    "SELECT a, row_number() OVER (PARTITION BY c ORDER BY b, a) AS n FROM t QUALIFY n <= 2",
    "SELECT CASE WHEN a > 2 THEN 'big' WHEN a IS NULL THEN NULL ELSE c END AS k, avg(b) FROM t GROUP BY ALL",
    "FROM t SELECT a::VARCHAR || c, [a, 2][1], {'k': a, 'l': [c]}.l[1], MAP {'a': a}['a']",
    "SELECT a FROM t UNION ALL SELECT a FROM u EXCEPT SELECT 3 INTERSECT (VALUES (1), (2)) ORDER BY 1",
    "SELECT * EXCLUDE (b) REPLACE (a * 2 AS a) FROM t WHERE NOT EXISTS (FROM u WHERE u.a = t.a) AND a BETWEEN 1 AND 9",
    "SELECT x.a, y.n FROM t AS x, LATERAL (SELECT count(*) AS n FROM u WHERE u.a < x.a) AS y",
    "SELECT unnest(range(3)) AS r, list_transform([1, 2], lambda z: z + a) FROM t",
    "PIVOT t ON c IN ('x', 'y') USING sum(b) GROUP BY a",
    "SELECT sum(b) FILTER (WHERE a % 2 = 0), count(DISTINCT c), GROUPING(a) FROM t GROUP BY ROLLUP (a)",
    "SELECT * FROM (VALUES (1, 'one'), (2, NULL)) AS v(n, word) JOIN t ON n = a ASOF JOIN u ON t.a >= u.a",
    "SELECT interval '1' day + DATE '2021-02-03', strftime(d, '%Y'), extract(month FROM d), epoch(d) FROM u",
    "SELECT union_value(num := a), a::DECIMAL(10, 3) / 7, b ** 2, ~a, a // 2, a << 1 FROM t",
    "SELECT '{\"k\": [1]}'::JSON -> '$.k', regexp_replace(c, '(x)', '\\1\\1'), c COLLATE nocase FROM t",
    "SELECT count(*) FROM t TABLESAMPLE 50% WHERE random() < 2",
    "SUMMARIZE t",
    "DESCRIBE SELECT * FROM t, u",
    "EXPLAIN ALTERNATIVES SELECT a FROM t JOIN u USING (a)",
    "EXPLAIN ANALYZE SELECT count(*) FROM t",
    "CREATE OR REPLACE VIEW vw(p) AS SELECT a FROM t; FROM vw; DROP VIEW IF EXISTS vw",
    "CREATE OR REPLACE TABLE made AS SELECT a, c FROM t; SELECT * FROM made; DROP TABLE made",
    "COPY (SELECT a FROM t) TO 'out.csv' (FORMAT csv, HEADER)",
    "SET TimeZone = 'Asia/Tokyo'; SELECT now() > TIMESTAMPTZ '2020-01-01'; RESET TimeZone",
    "SHOW TABLES",
    "SELECT * FROM 'data.parquet' WHERE p > 1 UNION ALL BY NAME FROM 'data.parquet'",
    "SELECT * FROM read_csv('data.csv', header = true), glob('*.csv')",
    "FROM query_table('t') POSITIONAL JOIN u",
)
FRAGMENTS = (
    "'", '"', "$$", "$a$", "E'", "\\'", "/*", "*/", "--", ";", "(", ")", "[", "]", "{", "}", ",", ".", "..", ":", "::",
    ":=", "=>", "->", "->>", "?", "$1", "$x", "@", "#1", "%", "~", "!", "\0", "\n", "\t", "\xa0", "\u3000",
    "é", "\U0001f600",
    "\ud800", "NULL", "1e2+3", "1e999", "9999999999999999999999", "0x1F", "1_0", "-", "- -1", "SELECT", "FROM", "WHERE",
    "WITH", "RECURSIVE", "UNION", "AS", "IN", "NOT", "OVER ()", "GROUP BY", "ORDER BY", "LIMIT", "text",
    "self", "t", "u",
    "t.a", "main.t", "'data.parquet'", '"../x"', "nothing", "*", "COLUMNS('.')", "now()", "random()", "1 / 0", "x'0'",
    "INTERVAL", "ARRAY[1]", "CAST(", "::UNION(k INT)", "row(1, 2)", "DISTINCT", "USING", "LATERAL", "VALUES (1)", "ALL",
    "DESCRIBE", "EXPLAIN", "SET", "DROP TABLE t", "PRAGMA", "CALL", "ATTACH ':memory:' AS m", "query('FROM t')",
    "duckdb_tables()", "getenv('HOME')", "a" * 300, "(" * 50, "1+" * 300,
)  # fmt: skip
NAMES = (
    "", " ", "a b", "select", "T", "é", "\U0001f600", "../x", "/etc/passwd", "a/b", "a\\b", "C:\\x", "con",
    "nul.txt", ".",
    "..", ".hidden", "_draft", "a.b", "a.b.c", "main.t", 'a"b', '"', "'", "a'b", "a;b", "a--b", "a*b", "a?b",
    "[x]", "a=b",
    "s3://b/k", "file:///x", "x.parquet", "\n", "\t", "\0", "a\0b", "\ud800", "$1", "?", "%s", "{}", "~", "n" * 300,
    "é" * 200, "\u202e", "\ufeff", "self", "text", "duckdb_tables", "sqlite_master", "information_schema",
    "-1", "1", "null",
)  # fmt: skip

Attack = Callable[[], object]


def texts(folder: Path, seed: int, count: int) -> Iterator[Outcome]:
    """Mutated texts, and names: of tables, columns, paths, options and parameters. count: how many tries."""
    before = os.getcwd()
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    try:
        with World(folder) as world:
            for number in range(count):
                yield world.tried(seed, number)
    finally:
        os.chdir(before)


class World:
    """A session that all is tried on, and a DuckDB with the same tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables = {
            "t": pa.table({"a": [1, 2, 3, 4, None, 6], "b": [1.5, 2.5, None, 4.0, 5.0, 6.0], "c": [*"xyxyx", None]}),
            "u": pa.table({"a": [1, 2, 2, 9], "d": [date(2020, 1, 1) + timedelta(40 * n) for n in range(4)]}),
        }
        pq.write_table(pa.table({"p": [1, 2, 3]}), folder / "data.parquet")
        (folder / "data.csv").write_text("p,q\n1,x\n2,y\n")
        self.open()

    def open(self) -> None:
        self.session = qoop.connect(slots=2, memory="500MB", tables=self.folder / "kept")
        self.oracle = duckdb.connect(config={"threads": 1, "python_enable_replacements": False})
        for name, rows in self.tables.items():
            self.oracle.register(name, rows)
        self.repair()

    def repair(self) -> None:
        """Bring back what a text has dropped or replaced."""
        for name, rows in self.tables.items():
            self.session.register(name, rows)
        for view in self.session.views():
            self.session.sql(f"DROP VIEW {quoted(view)}")
        for option in ("TimeZone", "default_null_order", "default_order"):
            self.session.set(option, None)
        self.session.resize(slots=2, memory="500MB")

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()
        self.oracle.close()

    def tried(self, seed: int, number: int) -> Outcome:
        """One try: what it does depends on seed and number alone."""
        draw = random.Random(f"{seed}/{number}")
        names = draw.random() < 0.25
        told, attack = self.of_names(draw) if names else self.of_text(draw, compare=number % 32 == 0)
        fault = self.fault(attack)
        self.session.resize(slots=2)  # without a slot a query waits for ten minutes
        if number % 20 == 0 or fault:
            fault = fault or self.fault(self.repair)
        if fault or not self.alive():
            self.session.close()
            self.open()
        series = "names" if names else "mutated texts"
        return Outcome(series, fault is None, f"seed {seed}, try {number}: {told}{': ' + fault if fault else ''}")

    def fault(self, attack: Attack) -> str | None:
        """The fault in the way in which an attack ended."""
        try:
            wrong = attack()
        except (qoop.QoopError, dbapi.Error, duckdb.InterruptException):
            return None
        except Exception as error:
            return f"raised {type(error).__name__}: {str(error)[:200]}"
        return wrong if isinstance(wrong, str) else None

    def alive(self) -> bool:
        return self.fault(lambda: None if self.session.sql("SELECT 1 AS x").fetchall() == [(1,)] else "dead") is None

    # What is tried

    def of_text(self, draw: random.Random, compare: bool) -> tuple[str, Attack]:
        text = mutated(draw)
        parameters = draw.choice(
            [(), (), (), [1], {"x": "it's"}, [value(draw)], [value(draw), value(draw)], None, 5, "ab"]
        )
        ways: list[tuple[str, Attack]] = [
            ("sql", lambda: read(self.session.sql(text, parameters))),
            ("sql", lambda: read(self.session.sql(text))),
            ("submit", lambda: read(self.session.submit(text, parameters=parameters).result(60))),
            ("describe", lambda: void(self.session.describe(text))),
            ("explain", lambda: void(self.session.explain(text))),
            ("alternatives", lambda: void(self.session.alternatives(text))),
            ("dbapi", lambda: void(dbapi.connect(session=self.session).execute(text, parameters).fetchmany(3))),
        ]
        if compare:
            return f"compare {text!r}", lambda: self.differs(text)
        way, attack = draw.choice(ways)
        return f"{way} {text!r} with {parameters!r}", attack

    def of_names(self, draw: random.Random) -> tuple[str, Attack]:
        name = draw.choice(NAMES) if draw.random() < 0.7 else "".join(draw.choices(ODD, k=draw.randint(1, 12)))
        quote, path, rows = quoted(name), name.replace("'", "''"), pa.table({"a": [1]})
        column = pa.table({name.encode(errors="replace").decode(): [1], "another": ["x"]})
        session = self.session
        ways: list[tuple[str, Attack]] = [
            (
                "CREATE TABLE",
                lambda: read(session.sql(f"CREATE OR REPLACE TABLE {quote} AS SELECT 1 AS a; FROM {quote}")),
            ),
            (
                "CREATE VIEW",
                lambda: read(session.sql(f"CREATE OR REPLACE VIEW {quote} AS SELECT 1 AS a; FROM {quote}")),
            ),
            ("DROP TABLE", lambda: read(session.sql(f"DROP TABLE {quote}"))),
            ("DROP VIEW", lambda: read(session.sql(f"DROP VIEW IF EXISTS {quote}"))),
            ("FROM name", lambda: read(session.sql(f"FROM {quote}"))),
            ("FROM path", lambda: read(session.sql(f"FROM '{path}.parquet'"))),
            ("COPY TO", lambda: read(session.sql(f"COPY (SELECT 1 AS a) TO 'copies{path}.csv'"))),
            ("SET", lambda: read(session.sql(f"SET {quote} = '{path}'"))),
            ("set", lambda: void(session.set(name, name))),
            ("set slots", lambda: void(session.set("slots", name))),
            ("TimeZone", lambda: void(session.set("TimeZone", name))),
            ("alias", lambda: read(session.sql(f"SELECT a AS {quote} FROM t ORDER BY {quote}"))),
            ("WITH", lambda: read(session.sql(f"WITH {quote} AS (FROM t) SELECT count(*) FROM {quote}"))),
            ("parameter", lambda: read(session.sql("SELECT $x", {name: 1, "x": 2}))),
            ("struct", lambda: read(session.sql("SELECT ?", [{name: 1}]))),
            ("register", lambda: self.registered(name, rows)),
            ("columns", lambda: self.registered("odd", column)),
            ("register path", lambda: void(session.register("p", name))),
            ("register_path", lambda: void(session.register_path(name))),
            ("register_folder", lambda: void(session.register_folder(name))),
            ("register_database", lambda: void(session.register_database(name))),
            ("statistics", lambda: void(session.statistics(name))),
            ("resume", lambda: void(session.resume(f"nothing{name}"))),
            ("copy_to", lambda: void(session.sql("SELECT 1 AS a").copy_to(f"copies{name}.csv"))),
            ("copy_to options", lambda: void(session.sql("SELECT 1 AS a").copy_to("copied.csv", name))),
            ("connect", lambda: qoop.connect(slots=1, memory="300MB", tables=f"kept{name}").close()),
            ("memory", lambda: qoop.connect(slots=1, memory=name).close()),
            ("dbapi", lambda: dbapi.connect(name, slots=1, memory="300MB").close()),
        ]
        way, attack = draw.choice(ways)
        return f"{way} {name!r}", attack

    def registered(self, name: str, rows: pa.Table) -> str | None:
        self.session.register(name, rows)
        found = self.session.sql(f"SELECT * FROM {quoted(name)}").fetchall()
        return None if len(found) == 1 else f"{found} in place of one row"

    def differs(self, text: str) -> str | None:
        """The difference of the answer to DuckDB's; compares only rows in any order, of texts with one answer."""
        found = self.session.sql(text)
        rows = sorted(map(repr, found.fetchall()))
        lower = text.lower()
        if ";" in text or not lower.lstrip().startswith(("select", "from", "with", "values")):
            return None
        if any(
            word in lower
            for word in ("random", "limit", "now()", "row_number", "sample", "query", "duckdb", "glob", "uuid")
        ):
            return None
        try:
            expected = sorted(map(repr, self.oracle.execute(text).fetchall()))
        except duckdb.Error as error:
            return f"answered {rows[:3]}, and DuckDB raised {str(error)[:200]}"
        return None if rows == expected else f"answered {rows[:5]} in place of {expected[:5]}"


ODD = string.printable + "éß\u3000\u202e\U0001f600'\"/\\."


def mutated(draw: random.Random) -> str:
    """A text with some of its pieces moved, doubled, left out or replaced."""
    pieces = list(draw.choice(SEEDS)) if draw.random() < 0.3 else draw.choice(SEEDS).split(" ")
    glue = "" if all(len(piece) == 1 for piece in pieces) else " "
    other = draw.choice(SEEDS).split(" ")
    for _ in range(draw.choice([0, 1, 1, 2, 3, 6])):
        at = draw.randrange(len(pieces) + 1)
        match draw.randrange(6):
            case 0:
                pieces[at:at] = [draw.choice(FRAGMENTS)]
            case 1:
                del pieces[at : at + draw.randint(1, 3)]
            case 2:
                pieces[at : at + 1] = [draw.choice(FRAGMENTS)]
            case 3:
                pieces[at:at] = pieces[at : at + 4]
            case 4:
                start = draw.randrange(len(other))
                pieces[at:at] = other[start : start + draw.randint(1, 5)]
            case _:
                pieces = pieces[:at] if draw.random() < 0.3 else pieces[at:] + pieces[:at]
    return glue.join(pieces)


def value(draw: random.Random) -> object:
    """A value for a parameter, allowed or not."""
    return draw.choice([
        None, True, 0, -1, 2**31, 2**63, 2**127, 2**200, 1.5, float("nan"), float("inf"), -0.0,
        Decimal("1.50"), Decimal("NaN"),
        Decimal("1E+60"), "", "it's", "\0", "\ud800", "?", "'; DROP TABLE t; --", b"", b"\0'", date(1, 1, 1),
        timedelta(-1),
        [], [1, None], ["a", 1], [[1], [2]], (1, 2), {}, {"a": 1}, {"a": 1, "A": 2}, {1: 2}, {"": 1}, object(),
        print, ...,
        1j, {1, 2}, range(3), bytearray(b"x"), pa.scalar(1),
    ])  # fmt: skip


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read(result: qoop.Result) -> None:
    """Use an answer in the ways that there are."""
    result.fetchall()
    result.arrow()
    str(result)
    result._repr_html_()


def void(_: object) -> None:
    """Ignore a result."""
