"""Forced switches at random points between plans of the TPC-DS queries: the answer is always DuckDB's.

The plans are those of the whole pool, not only those worth keeping, and the switches come whatever they cost, back
and forth; every one is taken right after a task has committed. The seed, QOOP_SEED, is part of every message. `make
test` runs a sample, `make test-all` all 99 queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from switch_world import switched
from waits import until

from qoop.engine.history import Decided
from qoop.planner.search.alternatives import pool
from qoop.planner.search.candidate import Candidate, local_grid
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle, is_empty_answer
from qoop.tpcds.queries import text

SAMPLE = (1, 39, 54, 75, 97)  # 23 goes through all pairs of its plans
TRIES = 12
"""Runs until a switch comes about: in some the moment drawn comes too late."""


def candidates(session: Session, number: int) -> tuple[Candidate, ...]:
    """All plans of a query that differ."""
    return pool(session.prepare(text(number)).planning(), local_grid(session.available)).candidates


@pytest.fixture(scope="module")
def session(benchmark_texts: None, tpcds_test: Path) -> Iterator[Session]:
    with connect(slots=2, memory="4GB") as made:
        made.register_folder(tpcds_test)
        yield made


def check(session: Session, oracle: Oracle, number: int, runs: int, seed: int) -> int:
    """Run a query that many times from plans in turn; returns how many switches there were."""
    plans = candidates(session, number)
    theirs = oracle.answer(text(number))
    random = Random(seed + number)
    switches = 0
    for run in range(runs if len(plans) > 1 else 1):
        launch = plans[run % len(plans)]
        others = tuple(random.sample(plans, min(3, len(plans))))
        own = random.randrange(2**32)
        job = switched(session, session.planning.plan(text(number)), launch, others, own)
        story = f"query {number}, QOOP_SEED={seed} (run {run}, seed {own})"
        difference = oracle.judge(text(number), job.result(60).arrow(), theirs)
        assert difference is None, f"{story}: {difference}\n" + "\n".join(map(str, job.history()))
        job._handle._run.check()
        until(
            lambda: not session.backend.store._entries,
            lambda: "\n".join((f"{story}: outputs are left", *map(str, job.history()))),  # noqa: B023
        )
        switches += sum(isinstance(record, Decided) and record.switched for record in job.history())
    assert not is_empty_answer(theirs) or number not in SAMPLE
    return switches


def check_pairs(session: Session, oracle: Oracle, number: int, seed: int) -> list[str]:
    """Go over from every plan worth keeping to every other one, at a random moment; returns what never came about."""
    kept = session.alternatives(text(number)).kept
    theirs, random, missed = oracle.answer(text(number)), Random(seed + number), []
    for launch, other in permutations(kept, 2):
        name = f"query {number}, QOOP_SEED={seed}, from plan {kept.index(launch)} to {kept.index(other)}"
        for _ in range(TRIES):
            job = switched(session, session.planning.plan(text(number)), launch, (other,), random.randrange(2**32))
            difference = oracle.judge(text(number), job.result(60).arrow(), theirs)
            assert difference is None, f"{name}: {difference}\n" + "\n".join(map(str, job.history()))
            if any(isinstance(record, Decided) and record.switched for record in job.history()):
                break
        else:
            missed.append(name)
    return missed


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [9, pytest.param(23, marks=pytest.mark.slow)])
def test_a_sample_of_queries_survives_every_pair_of_plans(
    number: int, session: Session, tpcds_oracle: Oracle, seed: int
) -> None:
    assert check_pairs(session, tpcds_oracle, number, seed) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(1, 100))
def test_every_query_survives_every_pair_of_plans(
    number: int, session: Session, tpcds_oracle: Oracle, seed: int
) -> None:
    assert check_pairs(session, tpcds_oracle, number, seed) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", SAMPLE)
def test_a_sample_of_queries_survives_switches_anywhere(
    number: int, session: Session, tpcds_oracle: Oracle, seed: int
) -> None:
    tries = (check(session, tpcds_oracle, number, runs=3, seed=seed + 1000 * more) for more in range(5))
    assert any(tries), f"QOOP_SEED={seed}: no switch came about"  # three moments may all come too late


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(1, 100))
def test_every_query_survives_switches_anywhere(number: int, session: Session, tpcds_oracle: Oracle, seed: int) -> None:
    print(f"QOOP_SEED={seed}")
    check(session, tpcds_oracle, number, runs=8, seed=seed)
