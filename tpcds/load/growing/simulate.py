"""Growing answers and exact queries of several tenants on a simulated cluster, under one scheduler."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import mean

import numpy as np

from qoop.adaptive.schedulers.described import made
from qoop.adaptive.schedulers.reserving import Reserving
from qoop.adaptive.schedulers.terms import Terms
from qoop.adaptive.simulation import Fleet, SimulatedJob, simulate
from qoop.planner.plan import Resources
from qoop.tpcds.load.growing.answers import DrawnAnswer, Grown, plan_of

SLOTS = 40
TENANTS = ("a", "b", "c")
MEAN_WORK = 300.0
"""Slot seconds of a query, on average."""

EXACT = 0.2
"""The part of the queries that are exact."""

POLICIES = {
    "max-min": "MaxMin()",
    "shortest first": "SJF()",
    "quality": "Quality()",
    "quality, oracle": "Quality()",
}


@dataclass(frozen=True)
class Drawing:
    """The arrivals. load: work offered, as a part of what the slots can do. seconds: in which it arrives.

    stop: the part of the answers that end at their goal; the others go on until they are exact."""

    load: float
    seed: int
    seconds: float = 900.0
    tenants: int = 3
    stop: float = 0.5


@dataclass(frozen=True)
class Outcome:
    """Means over the answers or queries, in seconds since their arrival.

    first: until the first edition. to_90, to_95: until 90 and 95 % of the way from the first error to the goal, in
    variance. ended: until the last edition. exact: the queries that do not grow. area: the area under the error over
    time until the goal, as a part of the way.
    """

    policy: str
    load: float
    seed: int
    answers: int
    first: float
    to_90: float
    to_95: float
    ended: float
    exact: float
    area: float


def drawn(drawing: Drawing) -> tuple[list[DrawnAnswer], list[SimulatedJob]]:
    """The answers that are to grow, and the exact queries."""
    chance = np.random.default_rng(drawing.seed)
    answers, exact, offered, numbers = [], [], 0.0, count()
    while offered < drawing.load * SLOTS * drawing.seconds:
        number, at = next(numbers), float(chance.uniform(0.0, drawing.seconds))
        tenant = TENANTS[int(chance.integers(drawing.tenants))]
        work = MEAN_WORK * float(chance.lognormal(0.0, 0.6)) / math.exp(0.18)
        if chance.random() < EXACT:
            exact.append(SimulatedJob(f"e{number}", at, plan_of(f"e{number}", work), terms=Terms(tenant)))
            offered += work
            continue
        one = DrawnAnswer(
            f"g{number}", tenant, at, work, float(chance.lognormal(math.log(0.08), 0.7)),
            float(chance.choice([0.01, 0.02, 0.05])), bool(chance.random() >= drawing.stop),
            int(chance.choice([1024, 2048, 4096])), float(chance.uniform(0.2, 1.0)), int(chance.integers(2**32)),
        )  # fmt: skip
        answers.append(one)
        offered += work_done(one)
    return answers, exact


def work_done(one: DrawnAnswer) -> float:
    """Slot seconds until it ends."""
    if one.exact:
        return one.work
    pieces = zip(one.errors, one.rounds.ends, strict=True)
    end = next((end for error, end in pieces if 0 < error <= one.goal), one.pieces)
    return one.work * end / one.pieces


def play(policy: str, drawing: Drawing) -> Outcome:
    """Let all that was drawn run under a policy of `POLICIES`."""
    answers, exact = drawn(drawing)
    grown = [Grown(one, oracle="oracle" in policy) for one in answers]
    jobs = sorted([*(one.begin() for one in grown), *exact], key=lambda job: (job.at, job.name))
    fleet = Fleet.uniform(SLOTS // 4, Resources(4, 16 * 2**30))
    ran = simulate(fleet, jobs, scheduler=Reserving(made(POLICIES[policy])))
    ends = {job.name: job.ended for job in ran.jobs}
    growing = [one for one in grown if one.shown[0][1] > one.drawn.goal]
    return Outcome(
        policy, drawing.load, drawing.seed, len(growing),
        mean(one.shown[0][0] - one.drawn.at for one in grown),
        mean(reached(one, 0.1) for one in growing),
        mean(reached(one, 0.05) for one in growing),
        mean(one.ended - one.drawn.at for one in grown),
        mean(ends[job.name] - job.at for job in exact),
        mean(area(one) for one in growing),
    )  # fmt: skip


def left(one: Grown) -> Iterator[tuple[float, float]]:
    """By second since its arrival: the part of the way to the goal that is left."""
    first, goal = one.shown[0][1] ** 2, one.drawn.goal**2
    for at, error in one.shown:
        yield at - one.drawn.at, max(0.0, error**2 - goal) / (first - goal)


def reached(one: Grown, part: float) -> float:
    """Seconds until no more of the way was left than that part."""
    return next(at for at, rest in left(one) if rest <= part)


def area(one: Grown) -> float:
    """The part of the way that was left, added up over the seconds until there was none."""
    total, before, rest = 0.0, 0.0, 1.0
    for at, now in left(one):
        total += rest * (at - before)
        before, rest = at, now
    return total


def compared(outcomes: Sequence[Outcome], base: str = "max-min") -> Iterator[str]:
    """A table: each policy over all seeds, by load."""
    heads = " ".join(f"{name:>16}" for name in ("to 90 %", "to 95 %", "end", "exact"))
    yield f"{'load':>4} {'policy':16} {'first':>7} {heads} {'area':>7}"
    for load in sorted({one.load for one in outcomes}):
        usual = [one for one in outcomes if one.load == load and one.policy == base]
        for policy in dict.fromkeys(one.policy for one in outcomes):
            some = [one for one in outcomes if one.load == load and one.policy == policy]
            yield (
                f"{load:4.1f} {policy:16} {mean(one.first for one in some):7.1f} "
                + " ".join(_against(some, usual, name) for name in ("to_90", "to_95", "ended", "exact"))
                + f" {mean(one.area for one in some):7.1f}"
            )


def _against(some: Sequence[Outcome], usual: Sequence[Outcome], name: str) -> str:
    mine = mean(getattr(one, name) for one in some)
    if not usual:
        return f"{mine:7.1f}         "
    theirs = mean(getattr(one, name) for one in usual)
    return f"{mine:7.1f} ({mine / theirs - 1:+6.1%})"
