"""Answers that grow while kernels fail, outputs are lost, plans change, slots and memory come and go, and processes are
killed.

Every edition must be that of an undisturbed run, in its order, with none left out; the last one is DuckDB's answer.
"""

from __future__ import annotations

import math
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fault_world import checked_at_every_tick, clean_session, failing_at_random, resized_at_random
from switch_world import AtCommits, AtRandom, Plans

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.catalog.sources.pieces import Cut
from qoop.engine.history import Failed, Stopped, Switched
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate
from qoop.programs.approximate.edition import Edition
from qoop.programs.approximate.planning import RoundPlanning
from qoop.query.job import Planned
from qoop.session.session import Session

ROWS = 1_100_000
"""Pieces have at least 2048 of them: these are enough for four rounds."""

QUERIES = (
    "SELECT shop, count(*) AS n, sum(price) AS s, avg(price) AS m FROM sales JOIN shops USING (id) GROUP BY shop",
    "SELECT sum(price) / sum(amount) AS r, min(price) AS least FROM sales WHERE amount > 2",
    "SELECT amount, sum(price) AS s FROM sales, shops WHERE sales.id = shops.id AND shop <> 'b' GROUP BY amount",
)

GROWS = """
import sys
import qoop

folder, kept, text, seed = sys.argv[1:]
with qoop.connect(slots=2, memory="2GB", checkpoints=kept, reuse=True) as session:
    session.register_folder(folder)
    print("begun", flush=True)
    for _ in session.approximate(text, error=0, seed=int(seed)).editions():
        print("shown", flush=True)
"""
"""The process that is killed."""

Rows = list[tuple[object, ...]]
Grown = tuple[list[Edition], Counter[str]]


@dataclass
class World:
    """Tables, and what their queries give: editions of undisturbed runs by query and seed, and DuckDB's answers.

    plans: of rounds, by text and version of the pieces, for the search takes longer than all else.
    """

    folder: Path
    editions: dict[tuple[int, int], list[Rows]] = field(default_factory=dict)
    answers: dict[int, Rows] = field(default_factory=dict)
    plans: dict[tuple[str, str], tuple[Candidate, ...]] = field(default_factory=dict)

    @contextmanager
    def session(self, slots: int = 2, **options: object) -> Iterator[Session]:
        """A session over the tables, which must leave nothing behind."""
        with (
            tempfile.TemporaryDirectory(prefix="qoop-growing-") as spill,
            clean_session(self.folder, Path(spill), slots, **options) as session,
        ):
            yield session

    def undisturbed(self, query: int, seed: int) -> list[Rows]:
        """The rows of each edition, and of these the last ones are checked against DuckDB's."""
        if (query, seed) not in self.editions:
            with self.session() as session:
                answer = session.approximate(QUERIES[query], error=0, seed=seed)
                editions = list(answer.editions())
            assert len(editions) > 2 and [one.number for one in editions] == list(range(len(editions)))
            assert_alike(editions[-1].plain().fetchall(), self.exact(query))
            self.editions[query, seed] = [one.result.fetchall() for one in editions]
        return self.editions[query, seed]

    def exact(self, query: int) -> Rows:
        """DuckDB's answer."""
        if query not in self.answers:
            with duckdb.connect() as connection:
                for name in ("sales", "shops"):
                    connection.execute(f"CREATE VIEW {name} AS FROM '{self.folder / name}.parquet'")
                self.answers[query] = connection.execute(QUERIES[query]).fetchall()
            assert self.answers[query]
        return self.answers[query]


def world(folder: Path) -> World:
    """The tables, made again."""
    rng = np.random.default_rng(1)
    sales = pa.table({
        "id": rng.integers(0, 6, ROWS).astype(np.int32),
        "price": np.round(rng.gamma(2.0, 10.0, ROWS) * 100).astype(np.int32),
        "amount": rng.integers(1, 6, ROWS).astype(np.int16),
    })  # fmt: skip
    pq.write_table(sales, folder / "sales.parquet", row_group_size=100_000)
    pq.write_table(pa.table({"id": range(6), "shop": ["a", "b", "c", "a", "b", "c"]}), folder / "shops.parquet")
    return World(folder)


def assert_alike(found: Rows, wanted: Rows) -> None:
    """The same rows, in any order, but for the rounding of sums of floats."""
    assert wanted and len(found) == len(wanted), f"{len(found)} rows where {len(wanted)} should be"
    for mine, theirs in zip(sorted(found, key=repr), sorted(wanted, key=repr), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            same = math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
            assert same, f"{mine} where {theirs} should be"


@dataclass(frozen=True)
class Schedule:
    """The draw for a run. answers: (query, seed, editions after which it is stopped or None). killed: lines of `GROWS`
    after which its process is killed, and seconds more; None: there is no such process."""

    seed: int
    slots: int
    scheduler: str
    answers: tuple[tuple[int, int, int | None], ...]
    pause: float | None
    notice: bool
    failures: float
    often: float
    killed: tuple[int, float] | None


def schedule(seed: str, place: int) -> Schedule:
    """The run at a place."""
    chance = random.Random(f"{seed}/{place}")
    answers = tuple(
        (chance.randrange(len(QUERIES)), chance.randrange(2), chance.choice((None, None, None, 1, 2)))
        for _ in range(chance.choice((1, 1, 1, 2)))
    )
    return Schedule(
        chance.randrange(2**32), chance.choice((1, 2, 3)), chance.choice(("quality", "quality", "max_min")), answers,
        chance.choice((None, 0.005, 0.02)), chance.random() < 0.3, chance.choice((0.0, 0.05, 0.15)),
        chance.choice((0.0, 0.5, 1.0)),
        (chance.randrange(1, 5), chance.random() / 10) if chance.random() < 0.1 else None,
    )  # fmt: skip


def perform(drawn: Schedule, known: World) -> Counter[str]:
    """Do a run; what has happened in it. Raises AssertionError for what may not be."""
    return _disturbed(drawn, known) if drawn.killed is None else _killed(drawn, known, *drawn.killed)


def _killed(drawn: Schedule, known: World, lines: int, seconds: float) -> Counter[str]:
    """An answer grows in a process that is killed; a session goes on from what that has kept."""
    query, seed, _ = drawn.answers[0]
    right = known.undisturbed(query, seed)
    with tempfile.TemporaryDirectory(prefix="qoop-growing-kept-") as kept:
        command = [sys.executable, "-c", GROWS, str(known.folder), kept, QUERIES[query], str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            begun = [process.stdout.readline() for _ in range(lines)]
            time.sleep(seconds)
            process.kill()
        assert begun[0] and process.returncode in (0, -signal.SIGKILL)
        with known.session(drawn.slots, scheduler=drawn.scheduler, checkpoints=Path(kept), reuse=True) as session:
            editions, told = _grow(session, query, seed, None)
    _judge(editions, right, None)
    assert_alike(editions[-1].plain().fetchall(), known.exact(query))
    return told + Counter({"editions": len(editions), "processes killed": int(process.returncode != 0)})


def _disturbed(drawn: Schedule, known: World) -> Counter[str]:
    """Answers grow in one session, whose kernels fail."""
    happened: Counter[str] = Counter()
    wanted = [known.undisturbed(query, seed) for query, seed, _ in drawn.answers]
    with ExitStack() as opened:
        opened.enter_context(checked_at_every_tick())
        faults = opened.enter_context(failing_at_random(drawn.seed, drawn.failures))
        opened.enter_context(_rounds_that_switch(drawn, known))
        session = opened.enter_context(known.session(drawn.slots, scheduler=drawn.scheduler))
        with ExitStack() as resizing:
            if drawn.pause is not None:
                resizing.enter_context(resized_at_random(session, drawn.seed, drawn.pause, drawn.notice))
            with ThreadPoolExecutor(len(wanted)) as pool:
                grown = [pool.submit(_grow, session, *one) for one in drawn.answers]
                found = [_waited_for(one) for one in grown]
    for (query, _, stop), right, (editions, told) in zip(drawn.answers, wanted, found, strict=True):
        happened += told
        _judge(editions, right, stop)
        if stop is None:
            assert_alike(editions[-1].plain().fetchall(), known.exact(query))
        happened["editions"] += len(editions)
    happened["failures injected"] += faults.interrupted
    happened["outputs lost"] += faults.lost
    return happened


def _waited_for(one: Future[Grown]) -> Grown:
    """The outcome of an answer. Raises TimeoutError after two minutes; a pause of the whole process (SIGSTOP) counts as
    a second of these at most, for nothing hangs then."""
    for _ in range(120):
        done, _ = wait([one], 1.0)
        if done:
            return one.result()
    raise TimeoutError("an answer has not ended")


def _grow(session: Session, query: int, seed: int, stop: int | None) -> Grown:
    """Let an answer grow until it is exact, or is stopped."""
    answer, editions = session.approximate(QUERIES[query], error=0, seed=seed), []
    for edition in answer.editions():
        editions.append(edition)
        if stop is not None and len(editions) == stop:
            answer.stop()
    assert all(job.wait(60) for job in answer.jobs)
    records = [record for job in answer.jobs for record in job.history()]
    told: Counter[str] = Counter()
    for kind, name in ((Switched, "plans taken"), (Failed, "attempts failed"), (Stopped, "attempts stopped")):
        told[name] += sum(isinstance(record, kind) for record in records)
    told["switches of plan"] += told.pop("plans taken") - len(answer.jobs)
    told["rounds taken over"] += sum(not any(one.tasks for one in job.stage_reports()) for job in answer.jobs)
    return editions, told


def _judge(editions: list[Edition], right: list[Rows], stop: int | None) -> None:
    assert [one.number for one in editions] == list(range(len(editions))), "an edition was lost, or came twice"
    assert len(editions) == (len(right) if stop is None else stop)
    for edition, rows in zip(editions, right, strict=False):
        assert_alike(edition.result.fetchall(), rows)


@contextmanager
def _rounds_that_switch(drawn: Schedule, known: World) -> Iterator[None]:
    """Rounds go from plan to plan, whatever that costs."""
    plan, chance = RoundPlanning.plan, Random(drawn.seed)

    def forced(rounds: RoundPlanning, text: str, cut: Cut, chosen: Sequence[int], rest: bool = False) -> Planned:
        planned = plan(rounds, text, cut, chosen, rest)
        key = text, cut.of(chosen).version
        if key not in known.plans:
            known.plans[key] = tuple(rounds._planning.alternatives(cut.text(text, chosen)).kept)
        options = known.plans[key]
        policy = AtRandom(Random(chance.random()), drawn.often)
        ready = Adaptive(Plans(options), Resources(2, 2e9), at_once=True, policy=policy, triggers=AtCommits())
        return replace(planned, plan=chance.choice(options).plan, adaptive=ready)

    with pytest.MonkeyPatch.context() as patch:
        if drawn.often:
            patch.setattr(RoundPlanning, "plan", forced)
        yield
