"""Ways to pull rows between real Ray nodes with shaped links, and nodes that join and die: `qoop bench ray-links DIR`.

The nodes are processes on this machine, whose loopback says nothing about networks: so answers between them wait for
the tokens of links (`shaped`). Every way answers the same queries, in turn; every answer is compared with DuckDB's.
Outputs may be kept in a bucket whose requests are counted and take their time (`bucket`).
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.job import Job
from qoop.planner.plan import Plan, Resources
from qoop.planner.variants import USUAL, Variant
from qoop.session import Session, connect
from qoop.tpcds.links.bucket import counted_bucket
from qoop.tpcds.links.shaped import Shape
from qoop.tpcds.on_ray.ray_nodes import LocalNodes
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.quantiles import ratio_of_sums

QUERIES: Mapping[str, str] = {
    "group": (
        "SELECT count(*) AS groups, sum(paid) AS paid, max(many) AS many FROM (SELECT ss_ticket_number, ss_item_sk, "
        "ss_customer_sk, ss_sold_date_sk, sum(ss_net_paid) AS paid, count(*) AS many FROM store_sales GROUP BY ALL)"
    ),
    "join": (
        "SELECT count(*) AS pairs, sum(one.ss_net_paid) AS paid, sum(other.ss_list_price) AS listed FROM store_sales "
        "AS one JOIN store_sales AS other ON one.ss_ticket_number = other.ss_ticket_number AND one.ss_item_sk = "
        "other.ss_item_sk"
    ),
    "compute": (
        "SELECT ss_store_sk, sum(sin(ss_list_price) * cos(ss_net_paid) + ln(1 + ss_quantity) * sqrt(ss_item_sk) + "
        "length(md5(concat(ss_ticket_number, md5(concat(ss_item_sk, ss_customer_sk)))))) AS worked FROM store_sales "
        "GROUP BY ALL ORDER BY ALL"
    ),
}
"""Two that move most of what they read, and one that works."""

WAYS: Mapping[str, tuple[str, int]] = {
    "in-turn": ("in-turn", 0),
    "at-once": ("at-once", 0),
    "critical-path": ("critical-path", 0),
    "critical-path-ahead": ("critical-path", 2),
}
"""By name: `exchange` and `node_queue` of the session."""

_APART = Variant("apart", limits=replace(USUAL, single_seconds=0.0, gather_rows=0.0, broadcast_factor=100.0))
"""Rows are hashed over the tasks of all nodes, however few there are: else one link would bring in all of them."""

_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class RayLinksOptions:
    """queries, ways: names. repeat: timed runs of each. nodes: of one CPU. rate: bytes a second of a link. slow: one
    has half of it. chaos: runs of each query while nodes join and die, by the last of the ways. store: outputs are kept
    in a bucket with requests that take that many seconds; None: in a folder."""

    directory: Path
    queries: tuple[str, ...]
    ways: tuple[str, ...]
    repeat: int = 2
    nodes: int = 4
    rate: float = 10e6
    latency: float = 0.005
    slow: bool = False
    chaos: int = 1
    seed: int = 1
    store: float | None = None


@dataclass(frozen=True, slots=True)
class Timed:
    """A query by a way. moved: bytes between processes in the last run."""

    query: str
    way: str
    seconds: tuple[float, ...]
    moved: int


@dataclass(frozen=True, slots=True)
class RayLinksResult:
    """timed: all pairs. chaos: answers that were right, by query; joined, died: nodes meanwhile. requests: to the
    bucket, by kind."""

    timed: tuple[Timed, ...]
    chaos: Mapping[str, int]
    joined: int = 0
    died: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)

    def line(self, one: Timed) -> str:
        """A query by a way, against pulls in turn."""
        text = f"{one.query:>8} {one.way:>20}: median {median(one.seconds):6.2f} s, {one.moved / 1e6:6.1f} MB moved"
        base = next((other for other in self.timed if (other.query, other.way) == (one.query, "in-turn")), one)
        if base is one:
            return text
        ratio, low, high = ratio_of_sums([list(zip(base.seconds, one.seconds, strict=True))])
        return f"{text}, {ratio:.2f} x faster than in turn ({low:.2f} to {high:.2f})"


def run(options: RayLinksOptions, told: Callable[[str], None] = print) -> RayLinksResult:
    """Measure. Raises ConfigError without Ray, or data; ExecutionError for a wrong answer."""
    for name, known in (*((one, QUERIES) for one in options.queries), *((one, WAYS) for one in options.ways)):
        if name not in known:
            raise ConfigError(f"there is no {name!r}; there are {', '.join(known)}")
    seconds: dict[tuple[str, str], list[float]] = {}
    moved: dict[tuple[str, str], int] = {}
    with _outputs(options) as (place, requests), LocalNodes() as nodes, Oracle(options.directory) as oracle:
        nodes.be(options.nodes)
        for _ in range(options.repeat):
            for way in options.ways:
                for query, taken, bytes_ in _round(options, way, nodes, oracle, place):
                    seconds.setdefault((query, way), []).append(taken)
                    moved[query, way] = bytes_
        timed = tuple(Timed(*key, tuple(taken), moved[key]) for key, taken in seconds.items())
        done = RayLinksResult(timed, {})
        for one in timed:
            told(done.line(one))
        if options.chaos:
            done = _chaos(options, nodes, oracle, timed, place)
            told(f"chaos: {sum(done.chaos.values())} answers right, {done.joined} nodes joined, {done.died} died")
        if requests:
            told("requests: " + ", ".join(f"{count} {kind}" for kind, count in sorted(requests.items())))
        return replace(done, requests=dict(requests))


@contextmanager
def _outputs(options: RayLinksOptions) -> Iterator[tuple[str | None, Mapping[str, int]]]:
    """The place of outputs, None: a folder of each session; and the requests there."""
    if options.store is None:
        yield None, {}
        return
    with counted_bucket(options.store) as found:
        yield found


@contextmanager
def _session(
    options: RayLinksOptions, way: str, nodes: LocalNodes, place: str | None
) -> Iterator[tuple[Session, Shape]]:
    exchange, queued = WAYS[way]
    before, os.environ["QOOP_EXCHANGE"] = os.environ.get("QOOP_EXCHANGE"), exchange
    try:
        with TemporaryDirectory() as folder:
            shape = Shape(options.rate, options.latency, folder, options.slow)
            with connect(
                ray=nodes.address, replan=False, reuse=False, staged=True, node_queue=queued,
                checkpoints=place or Path(folder) / "checkpoints", runtime_env=shape.runtime_env(),
            ) as session:  # fmt: skip
                session.register_folder(options.directory)
                _await(session, len(nodes.there))
                yield session, shape
    finally:
        del os.environ["QOOP_EXCHANGE"]
        if before is not None:
            os.environ["QOOP_EXCHANGE"] = before


def _await(session: Session, count: int) -> None:
    deadline = time.monotonic() + _WAIT
    while session.available.cpu < count:
        if time.monotonic() > deadline:
            raise ExecutionError(f"there are {session.available.cpu:g} nodes instead of {count}")
        time.sleep(0.05)


def _round(
    options: RayLinksOptions, way: str, nodes: LocalNodes, oracle: Oracle, place: str | None
) -> Iterator[tuple[str, float, int]]:
    """Each query once to warm up, and once on the clock: its name, seconds, and bytes between processes."""
    with _session(options, way, nodes, place) as (session, shape):
        for query in options.queries:
            plan = _plan(session, query, options)
            _answer(session.submit(QUERIES[query], plan=plan), query, oracle)
            before, began = shape.given(), time.perf_counter()
            job = session.submit(QUERIES[query], plan=plan)
            job.result()
            taken = time.perf_counter() - began
            _answer(job, query, oracle)
            yield query, taken, shape.given() - before


def _plan(session: Session, query: str, options: RayLinksOptions) -> Plan:
    """A plan whose exchanges are between all nodes."""
    planning = session.prepare(QUERIES[query]).planning()
    return planning.plan(_APART, Resources(options.nodes, 1e9 * options.nodes))


def _answer(job: Job, query: str, oracle: Oracle) -> None:
    """Raises ExecutionError if it is not DuckDB's, or empty."""
    rows = job.result().arrow()
    difference = oracle.judge(QUERIES[query], rows)
    if difference is not None or not rows.num_rows:
        raise ExecutionError(f"the answer of {query} is wrong: {difference or 'it has no rows'}")


def _chaos(
    options: RayLinksOptions, nodes: LocalNodes, oracle: Oracle, timed: Sequence[Timed], place: str | None
) -> RayLinksResult:
    """Answers while nodes join and die at random, one to twice as many as are wanted at a time."""
    rng, right, joined, died = random.Random(f"chaos {options.seed}"), dict.fromkeys(options.queries, 0), 0, 0
    with _session(options, options.ways[-1], nodes, place) as (session, _):
        for query in options.queries * options.chaos:
            job = session.submit(QUERIES[query], plan=_plan(session, query, options))
            while not job.wait(rng.uniform(0.2, 1.5)):
                if len(nodes.there) > 1 and (rng.random() < 0.5 or len(nodes.there) >= 2 * options.nodes):
                    nodes.kill(rng.choice(nodes.there))
                    died += 1
                else:
                    nodes.add()
                    joined += 1
            _answer(job, query, oracle)
            right[query] += 1
    return RayLinksResult(tuple(timed), right, joined, died)


def to_json(done: RayLinksResult) -> dict[str, Any]:
    """The figures, for programs."""
    return {
        "timed": [asdict(one) for one in done.timed], "chaos": dict(done.chaos), "joined": done.joined,
        "died": done.died, "requests": dict(done.requests),
    }  # fmt: skip


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], write: Callable[[Any, str | None], None]
) -> None:
    """Add `ray-links`. write: puts figures into a file, if one is named."""
    what = "Ways to pull rows between Ray nodes of this machine with shaped links, and nodes that join and die"
    parser = commands.add_parser("ray-links", help=what, description=f"{what}.")
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables")
    parser.add_argument("--queries", default=",".join(QUERIES), metavar="A,B", help=f"of {', '.join(QUERIES)}")
    parser.add_argument("--ways", default=",".join(WAYS), metavar="A,B", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--repeat", type=int, default=2, metavar="N", help="timed runs of each, in turn (2)")
    parser.add_argument("--nodes", type=int, default=4, metavar="N", help="of one CPU each (4)")
    parser.add_argument("--rate", type=float, default=10.0, metavar="MB", help="a second, of a link (10)")
    parser.add_argument("--latency", type=float, default=5.0, metavar="MS", help="of an answer (5)")
    parser.add_argument("--slow", action="store_true", help="one node's links have half the rate")
    parser.add_argument("--chaos", type=int, default=1, metavar="N", help="runs of each while nodes join and die (1)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of joining and dying (1)")
    parser.add_argument("--store", type=float, metavar="MS", help="keep outputs in a bucket, whose requests take that")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")

    def command(options: argparse.Namespace) -> int:
        if min(options.repeat, options.nodes) < 1 or options.rate <= 0 or min(options.latency, options.chaos) < 0:
            raise ConfigError("--repeat and --nodes must be 1 or more, --rate above 0, --latency and --chaos not below")
        asked = RayLinksOptions(
            Path(options.directory), tuple(options.queries.split(",")), tuple(options.ways.split(",")),
            options.repeat, options.nodes, options.rate * 1e6, options.latency / 1e3, options.slow, options.chaos,
            options.seed, None if options.store is None else options.store / 1e3,
        )  # fmt: skip
        write(to_json(run(asked, lambda text: print(text, flush=True))), options.json)
        return 0

    parser.set_defaults(run=command)
