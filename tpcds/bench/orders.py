"""``qoop bench orders DIR``: how much the time of a query depends on the order in which its text names the tables.

The items of FROM between commas, which may stand in any order, are shuffled; each order is a new text to a session, and
runs on both sides one after the other. An optimiser that any order suits has a ratio of longest over shortest of 1.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import sqlglot
from sqlglot import exp

from qoop.catalog.errors import ConfigError, QoopError
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.quantiles import quantile
from qoop.tpcds.queries import parse_selection, texts
from qoop.tpcds.results import Results

T = TypeVar("T")

MOST_JOINS = 20
"""The number of queries that are chosen if none is named: those with the most joins between commas."""


@dataclass(frozen=True, slots=True)
class OrdersOptions:
    """queries: None: those with the most joins. orders: of each query. runs: of each order, of which the shortest time
    counts. slots, memory: of both sides. results: the file that keeps each query."""

    directory: Path
    queries: tuple[int, ...] | None = None
    orders: int = 50
    runs: int = 2
    slots: int = 2
    memory: str = "4GB"
    seed: int = 1
    results: Path | None = None


@dataclass(frozen=True, slots=True)
class OrdersResult:
    """Seconds of a query by order, of both sides. wrong: the answers that are not DuckDB's."""

    query: int
    qoop: tuple[float, ...]
    duckdb: tuple[float, ...]
    wrong: int = 0

    def line(self) -> str:
        ours, theirs = (f"{min(side):8.3f} {max(side):8.3f} {spread(side):6.2f}" for side in (self.qoop, self.duckdb))
        return f"{self.query:5} {ours}   {theirs}" + (f"  {self.wrong} WRONG" if self.wrong else "")


def spread(seconds: Sequence[float]) -> float:
    """The longest over the shortest.

    >>> spread([2.0, 1.0, 3.0])
    3.0
    """
    return max(seconds) / min(seconds)


def shuffled(text: str, seed: int) -> str:
    """The query with the items between the commas of each FROM in another order.

    A block whose select list has a star keeps its order, which is that of its columns.

    >>> shuffled("SELECT a FROM t, u JOIN v ON b = c, w WHERE d = e", 1)
    'SELECT a FROM u JOIN v ON b = c, w, t WHERE d = e'
    """
    random_ = random.Random(seed)
    tree = sqlglot.parse_one(text, dialect="duckdb")
    for block in tree.find_all(exp.Select):
        parts = _parts(block)
        if len(parts) > 1 and not block.is_star:
            random_.shuffle(parts)
            _put(block, parts)
    return tree.sql(dialect="duckdb")


def joins(text: str) -> int:
    """The commas between items of FROM, in blocks that :func:`shuffled` changes."""
    blocks = sqlglot.parse_one(text, dialect="duckdb").find_all(exp.Select)
    return sum(max(0, len(_parts(block)) - 1) for block in blocks if not block.is_star)


def _parts(block: exp.Select) -> list[list[exp.Expression]]:
    """The items between commas: each an item of FROM, and the joins that follow it."""
    clause = block.args.get("from_")
    if clause is None:
        return []
    parts = [[clause.this]]
    for join in block.args.get("joins") or ():
        if {key for key, value in join.args.items() if value} == {"this"}:
            parts.append([join.this])
        else:
            parts[-1].append(join)
    return parts


def _put(block: exp.Select, parts: Sequence[Sequence[exp.Expression]]) -> None:
    (first, *more), *others = parts
    block.set("from_", exp.From(this=first))
    rest = [join for item, *behind in others for join in (exp.Join(this=item), *behind)]
    block.set("joins", [*more, *rest])


def chosen(every: Mapping[int, str], queries: tuple[int, ...] | None) -> tuple[int, ...]:
    """The queries that are run, by number. Raises ConfigError for one that has no other order."""
    known = {number: joins(text) for number, text in every.items()}
    if queries is None:
        return tuple(sorted(sorted(known, key=lambda number: (-known[number], number))[:MOST_JOINS]))
    alone = [number for number in queries if not known[number]]
    if alone:
        raise ConfigError(f"query {alone[0]} has no two items of FROM between commas")
    return queries


def run(options: OrdersOptions, progress: Callable[[str], None] = print) -> list[OrdersResult]:
    """Run all orders of all queries. Queries whose results are kept are not run again."""
    every = texts("tpcds", options.directory)
    queries = chosen(every, options.queries)
    kept = Results(options.results, {
        "directory": str(options.directory.resolve()), "orders": options.orders, "runs": options.runs,
        "slots": options.slots, "memory": options.memory, "seed": options.seed,
    })  # fmt: skip
    progress(f"{'query':5} {'qoop s':>8} {'longest':>8} {'ratio':>6}   {'DuckDB s':>8} {'longest':>8} {'ratio':>6}")
    done = []
    with (
        Oracle(options.directory, options.slots, options.memory) as oracle,
        connect(options.directory, slots=options.slots, memory=options.memory, reuse=False) as session,
    ):
        for number in queries:
            known = kept.get(str(number))
            if known is None:
                found = _query(number, every[number], options, oracle, session)
                kept.put(str(number), {"qoop": found.qoop, "duckdb": found.duckdb, "wrong": found.wrong})
            else:
                found = OrdersResult(number, tuple(known["qoop"]), tuple(known["duckdb"]), known["wrong"])
            done.append(found)
            progress(found.line())
    return done


def _query(number: int, text: str, options: OrdersOptions, oracle: Oracle, session: Session) -> OrdersResult:
    expected = oracle.answer(text)
    _answer(session, text)  # statistics of its tables are collected once
    ours, theirs, wrong = [], [], 0
    for order in range(options.orders):
        other = shuffled(text, options.seed + order)
        runs = [_timed(lambda: _answer(session, other)) for _ in range(options.runs)]  # noqa: B023
        ours.append(min(seconds for _, seconds in runs))
        theirs.append(min(_timed(lambda: oracle.answer(other))[1] for _ in range(options.runs)))  # noqa: B023
        wrong += any(isinstance(found, str) or oracle.judge(text, found, expected) is not None for found, _ in runs)
    return OrdersResult(number, tuple(ours), tuple(theirs), wrong)


def _answer(session: Session, text: str) -> pa.Table | str:
    """The answer, or the error in its place."""
    try:
        return session.sql(text).arrow()
    except QoopError as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    begun = time.perf_counter()
    return call(), time.perf_counter() - begun


def table(done: Sequence[OrdersResult]) -> str:
    """The 90th percentile of the ratios, of both sides."""
    ours, theirs = (quantile([spread(side) for side in sides], 0.9) for sides in (
        [one.qoop for one in done], [one.duckdb for one in done],
    ))  # fmt: skip
    wrong = sum(one.wrong for one in done)
    return (
        f"\nlongest over shortest, 90th percentile of {len(done)} queries: qoop {ours:.2f}, DuckDB {theirs:.2f}; "
        f"wrong answers and errors: {wrong}"
    )


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    what = "The tables of each FROM in random orders: longest over shortest time of a query, qoop and DuckDB"
    parser = commands.add_parser("orders", description=what)
    usual = OrdersOptions(Path())
    parser.add_argument("dir", type=Path, metavar="DIR", help="a folder of `qoop tpcds generate`")
    parser.add_argument("--queries", metavar="LIST", help=f"such as 1,3,7-9 (the {MOST_JOINS} with the most joins)")
    parser.add_argument("--orders", type=int, default=usual.orders, metavar="N", help=f"of a query ({usual.orders})")
    what = f"of an order, of which the shortest time counts ({usual.runs})"
    parser.add_argument("--runs", type=int, default=usual.runs, metavar="N", help=what)
    parser.add_argument("--slots", type=int, default=usual.slots, metavar="N", help=f"tasks at a time ({usual.slots})")
    parser.add_argument("--memory", default=usual.memory, metavar="SIZE", help=f"of each side ({usual.memory})")
    parser.add_argument("--seed", type=int, default=usual.seed, metavar="N", help=f"of the first order ({usual.seed})")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keeps each query; a broken-off run goes on")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.orders < 1 or options.runs < 1 or options.slots < 1:
        raise ConfigError("--orders, --runs and --slots must be at least 1")
    queries = None if options.queries is None else parse_selection(options.queries)
    chosen_options = OrdersOptions(
        options.dir, queries, options.orders, options.runs, options.slots, options.memory, options.seed, options.results
    )
    done = run(chosen_options, lambda line: print(line, flush=True))
    print(table(done))
    return 1 if any(one.wrong for one in done) else 0
