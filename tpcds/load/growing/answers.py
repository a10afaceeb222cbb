"""Growing answers without data: the engine's own program of rounds, over errors that are drawn.

The error of an edition is that of a sample of pieces whose variance is estimated from the sample. It is the error of
the closed form, times the root of a variance estimate with a chi-square distribution. `effect` makes it wider, as where
pieces differ much (cluster sampling). Draws depend on the answer alone, so every scheduler has the same rounds, errors
and ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from qoop.adaptive.program import Begin, End, Show
from qoop.adaptive.schedulers.terms import Terms
from qoop.adaptive.simulation import SimulatedJob
from qoop.planner.plan import Estimate, Plan, Stage
from qoop.programs.approximate.schedule import Schedule, schedule
from qoop.programs.approximate.target import RoundStart
from qoop.programs.rounds import Finish, Pause, Read, RoundEnded, Rounds, Step

TASK = 1.0
"""Slot seconds of a task."""

_COLUMNS = (("x", "INTEGER"),)


@dataclass(frozen=True)
class DrawnAnswer:
    """An answer that will grow. at: the second of its arrival. work: slot seconds of the exact answer.

    first: the error after its first round if the variance were known. goal: the error at which it ends. exact: its user
    then requests the exact answer. pieces: of its table. effect: the degrees of freedom of a piece, 1 or less.
    """

    name: str
    tenant: str
    at: float
    work: float
    first: float
    goal: float
    exact: bool
    pieces: int
    effect: float
    seed: int

    @cached_property
    def rounds(self) -> Schedule:
        """The pieces of each round."""
        return schedule(self.pieces, self.seed)

    @cached_property
    def errors(self) -> tuple[float, ...]:
        """The error after each round."""
        chance, begun, whole, found = np.random.default_rng(self.seed), 0, 0.0, []
        for end in self.rounds.ends:
            freedom = max(1.0, (end - begun) * self.effect)
            whole += (end - begun) * chance.chisquare(freedom) / freedom
            found.append(self.true_error(end) * math.sqrt(whole / end))
            begun = end
        return tuple(found)

    def true_error(self, drawn: int) -> float:
        """The error of a look after that number of pieces, were the variance known."""
        whole = self.pieces
        return self.first * math.sqrt(max(0.0, 1 / drawn - 1 / whole) / (1 / self.rounds.ends[0] - 1 / whole))


@dataclass
class Grown:
    """An answer as it grows. oracle: whether its scheduler hears the true errors in place of estimates.

    shown: (second, error) of each edition. ended: when nothing more came.
    """

    drawn: DrawnAnswer
    oracle: bool = False
    shown: list[tuple[float, float]] = field(default_factory=list)
    ended: float = math.inf
    _program: Rounds = field(init=False)

    def begin(self) -> SimulatedJob:
        """The job of the first round."""
        self._program, steps = Rounds(len(self.drawn.rounds.ends), self.drawn.goal).after(Begin())
        job = self._do(steps, self.drawn.at)
        assert job is not None
        return job

    def _round_ended(self, now: float) -> SimulatedJob | None:
        error = 0.0 if self._program.rest else self.drawn.errors[self._program.number]
        self._program, steps = self._program.after(RoundEnded(self._program.number, error))
        self.shown.append((now, error))
        return self._do(steps, now)

    def _do(self, steps: tuple[Step, ...], now: float) -> SimulatedJob | None:
        job = None
        for step in steps:
            match step:
                case Read(number, rest):
                    job = self._job(number, rest, now)
                case Pause() if self.drawn.exact:
                    self._program, more = self._program.after(Finish())
                    job = self._do(more, now)
                case Pause() | End():
                    self.ended = now
                case Show():
                    pass
        return job

    def _job(self, number: int, rest: bool, now: float) -> SimulatedJob:
        ends = self.drawn.rounds.ends
        before, after = (ends[number - 1] if number else 0), (self.drawn.pieces if rest else ends[number])
        name = f"{self.drawn.name} {number}"
        plan = plan_of(name, self.drawn.work * (after - before) / self.drawn.pieces)
        return SimulatedJob(
            name, now, plan, terms=Terms(self.drawn.tenant), gain=self._gain(number, before, after),
            then=self._round_ended,
        )  # fmt: skip

    def _gain(self, number: int, before: int, after: int) -> float:
        drawn, goal = self.drawn, 0.0 if self._program.finishing else self.drawn.goal
        errors = tuple(map(drawn.true_error, drawn.rounds.ends)) if self.oracle else drawn.errors
        error = errors[number - 1] if number else math.inf
        first = errors[0] if number else math.inf
        return RoundStart(error, first, goal, before, after, drawn.pieces, drawn.rounds.ends[0]).gain


def plan_of(name: str, work: float) -> Plan:
    """A plan of that work in slot seconds, in tasks that run next to each other."""
    tasks = max(1, round(work / TASK))
    estimate = Estimate(task_seconds=work / tasks)
    return Plan((Stage("s", "", (), _COLUMNS, tasks, name, estimate=estimate),), _COLUMNS)
