"""``qoop bench shapes``: a dozen small queries of shapes that optimisers are known to get wrong.

DuckDB's public issue threads name the shapes; the texts and the data are our own. Each text runs once on DuckDB and
once on a session with default options that does not know it, one after the other, on the same files.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa

from qoop.catalog import arrow_output
from qoop.catalog.errors import ConfigError, QoopError
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle

T = TypeVar("T")

LEAST_ROWS = 1000
FACTOR = 2.0
"""The factor by which qoop should be faster."""

TABLES: Mapping[str, str] = {
    "fact": """SELECT i AS id, (random() * 10)::INT AS few, (random() * 10000)::INT AS more,
        (random() * 1000000)::INT AS many, random() * 100 AS v, (i * 7919 % {n} // 12)::INT AS customer,
        DATE '2020-01-01' + (random() * 1000)::INT AS day FROM range({n}) t(i)""",
    "dim_few": "SELECT 1 + i % 5 AS k FROM range(10) t(i)",
    "dim_more": "SELECT (i * 2)::INT AS k FROM range(3000) t(i)",
    "dim_many": "SELECT (i * 1000)::INT AS k FROM range(100) t(i)",
    "rules": """SELECT (i % 10)::INT AS few, CASE WHEN i % 100 > 0 THEN (i * 3)::INT END AS more
        FROM range(3000) t(i)""",
    "people": """SELECT i AS id, (random() * 30000)::INT AS phone, (random() * 30000)::INT AS mail
        FROM range({n} // 100) t(i)""",
    "leads": """SELECT (random() * 30000)::INT AS phone, (random() * 30000)::INT AS mail, i % 7 AS source
        FROM range({n} // 200) t(i)""",
    "quotes": """SELECT (random() * 2000)::INT AS sym, TIMESTAMP '2024-01-01' + INTERVAL (i) SECOND AS ts,
        random() * 100 AS price FROM range({n} // 2) t(i)""",
    "trades": """SELECT (random() * 2000)::INT AS sym, (random() * 1000)::INT AS amount,
        TIMESTAMP '2024-01-01' + INTERVAL ((random() * {n} / 2)::INT) SECOND AS ts FROM range({n} // 30) t(i)""",
}  # fmt: skip
"""The tables, as queries; {n}: the rows of the largest."""

SHAPES: Mapping[str, str] = {
    "anti join with OR": """SELECT count(*), sum(id) FROM people p
        WHERE NOT EXISTS (SELECT 1 FROM leads l WHERE l.phone = p.phone OR l.mail = p.mail)""",
    "inner join with OR": """SELECT source, count(*), sum(id) FROM people p
        JOIN leads l ON l.phone = p.phone OR l.mail = p.mail GROUP BY source""",
    "left join with OR": """SELECT count(*), count(l.source) FROM people p
        LEFT JOIN leads l ON l.phone = p.phone OR p.mail = l.mail AND p.mail > 5""",
    "rules with a wildcard": """SELECT count(*), sum(v) FROM fact f
        JOIN rules r ON r.few = f.few AND (r.more = f.more OR r.more IS NULL)""",
    "latest time before, correlated": """SELECT count(m), max(m) FROM (SELECT
        (SELECT max(q.ts) FROM quotes q WHERE q.sym = t.sym AND q.ts <= t.ts) AS m FROM trades t)""",
    "latest row before, lateral": """SELECT count(*), sum(amount * price) FROM trades t, LATERAL (
        SELECT price FROM quotes q WHERE q.sym = t.sym AND q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1) l""",
    "totals up to each row, by a join": """SELECT count(*), max(total) FROM (
        SELECT t.sym, t.ts, count(*) AS quotes, sum(price) AS total
        FROM trades t JOIN quotes q ON q.sym = t.sym AND q.ts <= t.ts GROUP BY t.sym, t.ts)""",
    "NOT IN, correlated": """SELECT count(*) FROM people p
        WHERE p.phone NOT IN (SELECT l.phone FROM leads l WHERE l.mail > p.mail)""",
    "computed keys, the selective join last": """SELECT count(*), sum(v) FROM fact f
        JOIN dim_few a ON a.k = f.few + 1 - 1 JOIN dim_more b ON b.k = f.more + 1 - 1
        JOIN dim_many c ON c.k = f.many + 1 - 1""",
    "NOT IN, correlated by an equality": """SELECT count(*) FROM people p
        WHERE p.phone NOT IN (SELECT l.phone FROM leads l WHERE l.source = p.id % 7)""",
    "latest row, as none is later": """SELECT count(*), sum(v) FROM fact f
        WHERE NOT EXISTS (SELECT 1 FROM fact l WHERE l.customer = f.customer AND l.day > f.day)""",
    "EXISTS with another value": """SELECT count(*), sum(id) FROM fact f
        WHERE EXISTS (SELECT 1 FROM fact o WHERE o.customer = f.customer AND o.few <> f.few)""",
}


@dataclass(frozen=True, slots=True)
class ShapesOptions:
    """rows: of the largest table. limit: seconds after which DuckDB is stopped. slots, memory: of both sides."""

    rows: int = 6_000_000
    limit: float = 60.0
    slots: int = 2
    memory: str = "4GB"


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """Seconds of both sides. stopped: DuckDB did not end in time. error: of qoop, or how its answer differs."""

    name: str
    duckdb: float
    qoop: float
    stopped: bool = False
    error: str = ""

    @property
    def factor(self) -> float:
        """DuckDB's seconds over qoop's; at least that, if DuckDB was stopped."""
        return self.duckdb / self.qoop

    def line(self) -> str:
        least = ">" if self.stopped else " "
        figures = f"{least}{self.duckdb:8.2f} {self.qoop:8.2f} {least}{self.factor:7.1f}"
        return f"{self.name:40} {figures}  {self.error}".rstrip()


def run(options: ShapesOptions, progress: Callable[[str], None] = print) -> list[ShapeResult]:
    """Run all shapes, on data in a folder of their own."""
    progress(f"{'shape':40}  DuckDB s   qoop s   factor")
    with tempfile.TemporaryDirectory(prefix="qoop-shapes-") as folder:
        make(Path(folder), options.rows)
        with (
            Oracle(folder, options.slots, options.memory) as oracle,
            connect(folder, slots=options.slots, memory=options.memory) as session,
        ):
            session.sql("SELECT count(*) FROM dim_few JOIN dim_more USING (k)").arrow()  # loads what all need
            done = []
            for name, text in SHAPES.items():
                expected, theirs = _timed(partial(_limited, oracle, text, options.limit))
                found, ours = _timed(partial(_answer, session, text))
                error = _error(oracle, text, found, expected)
                done.append(ShapeResult(name, theirs, ours, expected is None, error))
                progress(done[-1].line())
    return done


def make(folder: Path, rows: int) -> None:
    """Write the tables as Parquet files; the same for the same number of rows."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SELECT setseed(0.5)")
        for name, text in TABLES.items():
            connection.execute(f"COPY ({text.format(n=rows)}) TO '{folder / name}.parquet' (FORMAT parquet)")


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    begun = time.perf_counter()
    return call(), time.perf_counter() - begun


def _limited(oracle: Oracle, text: str, limit: float) -> pa.Table | None:
    """DuckDB's answer; None if it takes longer than that."""
    with oracle.cursor() as connection:
        timer = threading.Timer(limit, connection.interrupt)
        timer.start()
        try:
            return arrow_output.table(connection, text)
        except duckdb.InterruptException:
            return None
        finally:
            timer.cancel()


def _answer(session: Session, text: str) -> pa.Table | str:
    """The answer, or the error in its place."""
    try:
        return session.sql(text).arrow()
    except QoopError as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


def _error(oracle: Oracle, text: str, found: pa.Table | str, expected: pa.Table | None) -> str:
    if isinstance(found, str):
        return found
    return "" if expected is None else str(oracle.judge(text, found, expected) or "")


def table(done: Sequence[ShapeResult]) -> str:
    """The number of shapes that are faster by the factor, and of answers that differ."""
    faster, wrong = sum(one.factor >= FACTOR for one in done), sum(bool(one.error) for one in done)
    return f"\n{faster} of {len(done)} faster by {FACTOR:g} times or more; wrong answers and errors: {wrong}"


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    what = "A dozen shapes of queries that optimisers are known to get wrong: qoop, DuckDB"
    parser = commands.add_parser("shapes", description=f"{what}. It makes its data.")
    usual = ShapesOptions()
    parser.add_argument(
        "--rows", type=int, default=usual.rows, metavar="N", help=f"of the largest table ({usual.rows})"
    )
    parser.add_argument(
        "--limit", type=float, default=usual.limit, metavar="SECONDS", help=f"of DuckDB for a text ({usual.limit:g})"
    )
    parser.add_argument("--slots", type=int, default=usual.slots, metavar="N", help=f"tasks at a time ({usual.slots})")
    parser.add_argument("--memory", default=usual.memory, metavar="SIZE", help=f"of each side ({usual.memory})")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.rows < LEAST_ROWS or options.limit <= 0 or options.slots < 1:
        raise ConfigError(f"--rows must be at least {LEAST_ROWS}, --limit above 0 and --slots at least 1")
    done = run(
        ShapesOptions(options.rows, options.limit, options.slots, options.memory), lambda line: print(line, flush=True)
    )
    print(table(done))
    return 1 if any(one.error for one in done) else 0
