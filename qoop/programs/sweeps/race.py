"""The program of a race between queries whose answers grow. Pure: a message in, the next orders out.

=========  =============================================  ========================================================
state      message                                        orders and next state
=========  =============================================  ========================================================
new        `Begin`                                        `ReadPieces` of the first round, for all trials; reading
reading    `Compared`, several trials are left            `ReadPieces` of the next round for these; reading
reading    the same, after the last round                 `RunWhole` for these: one query; whole
reading    `Compared`, one is left or reaches the target  `RunStep`: its own query; exact
whole      `WholeEnded`                                   `RunStep` for the best; exact
reading    `Abandoned`: a query for all failed            `RunStep` for each that is left, by slots; exact
exact      `TrialStepEnded` or `TrialFailed`              `RunStep` for the next one; or `End`
=========  =============================================  ========================================================

Trials that are beaten are pruned. The winner's own query gives its exact value and its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf, isnan
from typing import Literal

from qoop.adaptive.program import Begin, End, Show, Stop
from qoop.catalog.value import value
from qoop.programs.sweeps.messages import (
    Abandoned,
    Compared,
    Due,
    Message,
    Order,
    ReadPieces,
    RunStep,
    RunWhole,
    Share,
    TrialFailed,
    TrialStepEnded,
    WholeEnded,
)
from qoop.programs.sweeps.sweep import TrialState, Why


@value
class Racer:
    """A trial. scores: its estimates by round, and at last its exact value. half: half the width of the last one's
    interval; infinite: it has none. p: its chance to be better than the leader, or of the target."""

    state: TrialState = "waiting"
    scores: tuple[float, ...] = ()
    half: float = inf
    seconds: float = 0.0
    p: float = -1.0
    why: str = ""

    estimated = 0  # no steps before its own query
    estimate = None  # `best` is one while it races

    @property
    def best(self) -> float:
        """The last score."""
        return self.scores[-1] if self.scores and not isnan(self.scores[-1]) else -inf


@value
class Race:
    """The state of a race. rounds: before the exact one. slots: own queries that may run at once.

    >>> from qoop.adaptive.program import Begin
    >>> race, orders = Race((Racer(), Racer()), 4).after(Begin()); orders
    (ReadPieces(number=0, trials=(0, 1)),)
    >>> race, orders = race.after(Compared(0, (0, 1), (3.0, 5.0), (0.1, 0.1), (0.0, 0.5), (0,), 1.0, 1.0)); orders
    (RunStep(trial=1, number=1, early=False),)
    >>> race.after(TrialStepEnded(1, 1, 5.1, 1.0, 2.0))[1]
    (Show(number=1), End())
    """

    trials: tuple[Racer, ...]
    rounds: int
    slots: int = 1
    target: float | None = None
    within: float | None = None
    state: Literal["new", "running", "ended"] = "new"
    phase: Literal["reading", "whole", "exact"] = "reading"
    number: int = 0
    why: Why = ""
    at: float = 0.0

    def after(self, message: Message) -> tuple[Race, tuple[Order, ...]]:
        """The next state, and the orders to carry out."""
        match self.state, message:
            case "new", Share(slots):
                return replace(self, slots=slots), ()
            case "new", Begin():
                return replace(self, state="running")._reading(0)
            case (("new" | "running"), Stop()):
                return self._ended("it was stopped")
            case "running", Due():
                return self._ended("the time was over")
            case "running", Share(slots):
                now = replace(self, slots=slots)
                return now._filled(()) if self.phase == "exact" else (now, ())
            case "running", Compared(number) if self.phase == "reading" and number == self.number:
                return self._compared(message)
            case "running", WholeEnded() if self.phase == "whole":
                return self._whole_ended(message)
            case "running", Abandoned() if self.phase != "exact":
                return replace(self, phase="exact", at=message.at)._with(self.left, state="waiting")._filled(())
            case "running", TrialStepEnded(trial) if self.trials[trial].state == "running" and self.phase == "exact":
                return self._own_ended(message)
            case "running", TrialFailed(trial, why, at) if self.trials[trial].state == "running":
                return replace(self, at=at)._with((trial,), state="failed", why=why)._filled(())
        return self, ()

    @property
    def pending(self) -> tuple[Order, ...]:
        """The orders that have no answer yet."""
        running = tuple(self._numbers("running"))
        if self.phase == "reading":
            return (ReadPieces(self.number, running),)
        if self.phase == "whole":
            return (RunWhole(running),)
        return tuple(RunStep(one, len(self.trials[one].scores)) for one in running)

    @property
    def busy(self) -> int:
        """The own queries that run."""
        return sum(trial.state == "running" for trial in self.trials)

    @property
    def left(self) -> tuple[int, ...]:
        """The trials that are neither beaten nor ended."""
        return tuple(self._numbers("running", "waiting"))

    @property
    def promising(self) -> set[int]:
        """The same trials."""
        return set(self.left)

    @property
    def best(self) -> int:
        """The trial that leads, an exact one before others; -1: there is none."""
        known = [one for one in self._numbers("running", "waiting", "complete") if self.trials[one].best > -inf]
        return max(known, key=lambda one: (self.trials[one].state == "complete", self.trials[one].best), default=-1)

    @property
    def highest(self) -> float:
        """The best exact score."""
        return max((self.trials[one].best for one in self._numbers("complete")), default=-inf)

    def is_best(self, number: int, step: int, score: float) -> bool:
        """True if an exact score is above those before."""
        return score > self.highest

    # Inside

    def _numbers(self, *states: TrialState) -> Iterator[int]:
        return (number for number, trial in enumerate(self.trials) if trial.state in states)

    def _reading(self, number: int) -> tuple[Race, tuple[Order, ...]]:
        left = self.left
        return replace(self, number=number)._with(left, state="running"), (ReadPieces(number, left),)

    def _compared(self, found: Compared) -> tuple[Race, tuple[Order, ...]]:
        trials = list(self.trials)
        for place, number in enumerate(found.trials):
            trial = trials[number]
            trials[number] = replace(
                trial, scores=(*trial.scores, found.scores[place]), half=found.halves[place], p=found.chances[place],
                seconds=trial.seconds + found.seconds / len(found.trials),
            )  # fmt: skip
        now = replace(self, trials=tuple(trials), at=found.at)._with(found.beaten, state="pruned")
        if self.within is not None and found.at >= self.within:
            return now._ended("the time was over")
        leader = now.trials[now.best] if now.best >= 0 else None
        reaches = self.target is not None and leader is not None and leader.best - leader.half >= self.target
        if len(now.left) == 1 or reaches:
            return now._alone()
        if self.number + 1 < self.rounds:
            return now._reading(self.number + 1)
        return replace(now, phase="whole"), (RunWhole(now.left),)

    def _alone(self) -> tuple[Race, tuple[Order, ...]]:
        """The leader runs its own query. The others wait: they go on if it fails."""
        best = self.best if self.best >= 0 else self.left[0]
        now = replace(self, phase="exact")._with(self.left, state="waiting")._with((best,), state="running")
        return now, (RunStep(best, len(now.trials[best].scores)),)

    def _whole_ended(self, found: WholeEnded) -> tuple[Race, tuple[Order, ...]]:
        trials, each = list(self.trials), found.seconds / len(found.trials)
        for number, score in zip(found.trials, found.scores, strict=True):
            trial = trials[number]
            trials[number] = replace(trial, scores=(*trial.scores, score), half=0.0, seconds=trial.seconds + each)
        return replace(self, trials=tuple(trials), at=found.at)._alone()

    def _own_ended(self, ended: TrialStepEnded) -> tuple[Race, tuple[Order, ...]]:
        trial = self.trials[ended.trial]
        scores, seconds = (*trial.scores, ended.score), trial.seconds + ended.seconds
        done = replace(trial, state="complete", scores=scores, half=0.0, seconds=seconds)
        trials = (*self.trials[: ended.trial], done, *self.trials[ended.trial + 1 :])
        now = replace(self, trials=trials, at=ended.at)
        shown = Show(ended.trial)
        if self.target is not None and ended.score >= self.target:
            now, orders = now._ended("the target was reached")
            return now, (shown, *orders)
        return now._filled((shown,))

    def _filled(self, orders: tuple[Order, ...]) -> tuple[Race, tuple[Order, ...]]:
        """Own queries run while a trial that is left may still be the best."""
        now = self
        while len(list(now._numbers("running"))) < now.slots:
            waiting = [one for one in now._numbers("waiting") if now._may_be_best(one)]
            if not waiting:
                break
            number = max(waiting, key=lambda one: now.trials[one].best)
            now = now._with((number,), state="running")
            orders = (*orders, RunStep(number, len(now.trials[number].scores)))
        if list(now._numbers("running")):
            return now, orders
        now, ending = now._with(now.left, state="pruned")._ended("all trials have ended")
        return now, (*orders, *ending)

    def _may_be_best(self, number: int) -> bool:
        """False for a trial whose interval ends below an exact value."""
        trial = self.trials[number]
        return self.highest == -inf or trial.half == inf or trial.best + trial.half > self.highest

    def _with(self, numbers: Iterable[int], state: TrialState, why: str = "") -> Race:
        changed = set(numbers)
        trials = (replace(one, state=state, why=why) if at in changed else one for at, one in enumerate(self.trials))
        return replace(self, trials=tuple(trials))

    def _ended(self, why: Why) -> tuple[Race, tuple[Order, ...]]:
        return replace(self, state="ended", why=why), (End(),)
