"""The program of a sweep: which trial runs its next step. Pure: a message in, the next orders out.

===========  =======================================  ====================================================
trial        message                                  orders and next state
===========  =======================================  ====================================================
waiting      a slot is free, and its turn has come    `RunStep`; running
running      `TrialStepEnded`, between boundaries     `RunStep` the next one; running
running      the same, with fewer slots than before   the lowest chances wait
running      `TrialStepEnded` at the target           `Show`, `End`; complete
running      `TrialStepEnded`, the last step          complete
running      `TrialStepEnded` at a boundary           by its policy: `Predict` and predicting, or as below
predicting   `Predicted`                              by its policy: running, waiting, parked or pruned
running      `TrialFailed`                            failed
parked       a slot is free, and no other waits       `RunStep`; running
===========  =======================================  ====================================================

Early steps read some pieces of a table. Two of the first trial's are whole ones, to compare the seconds (`Probe`):
where early steps do not pay, all that follow are whole.

The sweep ends at the target, at `Due` or `Stop`, or when no trial has a step left. A trial that waits costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from math import inf
from typing import Literal

from qoop.adaptive.program import Begin, End, Show, Stop
from qoop.catalog.value import value
from qoop.programs.sweeps.messages import (
    Due,
    Message,
    Order,
    Predict,
    Predicted,
    RunStep,
    Share,
    TrialFailed,
    TrialStepEnded,
)
from qoop.programs.sweeps.policies import POLICIES, promising

TrialState = Literal["waiting", "running", "predicting", "parked", "complete", "pruned", "failed"]
Fate = Literal["running", "waiting", "parked", "pruned"]
"""The fate of a trial at a boundary."""
Why = Literal["", "the target was reached", "the time was over", "it was stopped", "all trials have ended"]

OPEN = ("waiting", "running", "predicting", "parked")
"""The states of trials that have steps left."""
_BUSY: tuple[TrialState, ...] = ("running", "predicting")
"""Of those that hold a slot."""
_RISE = 0.01
"""Without a target, the next one is the best score and this part of it."""


@value
class Trial:
    """One setting. scores: of its steps that have ended. seconds: of slots. turn: trials that wait go by it, the lowest
    first. p: its chance of the target; negative: not predicted. ahead: the expected steps until then. estimated: its
    first steps that read only some rows, so that their scores are estimates."""

    state: TrialState = "waiting"
    turn: int = 0
    scores: tuple[float, ...] = ()
    seconds: float = 0.0
    p: float = -1.0
    ahead: float = 0.0
    why: str = ""
    estimated: int = 0

    @property
    def best(self) -> float:
        """The highest score of a step that has read all rows."""
        return max(self.scores[self.estimated :], default=-inf)

    @property
    def highest(self) -> float:
        """The highest score of a step, estimates among them."""
        return max(self.scores, default=-inf)

    @property
    def estimate(self) -> float | None:
        """The last score, as long as no step has read all rows."""
        return self.scores[-1] if 0 < len(self.scores) <= self.estimated else None


_PROBES = 2
"""Whole steps of the first trial after its first early one; the first of these is slower, as it is planned."""
_PAYS = 2.0
"""Early steps pay where a whole one takes this many times their seconds: with them a sweep needs 0.9 to 3 times the
steps. Logistic regression over 100,000 rows has 1.1 to 1.3, over 1,000,000 rows 2.8 to 4.4; k-means 11 to 32."""


@value
class Probe:
    """The seconds of early steps, and of the whole ones among them."""

    early: tuple[float, ...] = ()
    whole: tuple[float, ...] = ()

    @property
    def is_over(self) -> bool:
        """True if there are enough of both."""
        return len(self.whole) >= _PROBES < len(self.early)

    @property
    def pays(self) -> bool:
        """True if early steps are short enough."""
        return min(self.whole) >= _PAYS * min(self.early)


@value
class Sweep:
    """The state of a sweep.

    policy: see :mod:`qoop.programs.sweeps.policies`. slots: steps that may run at once. every: the steps from one
    boundary to the next. most: steps of a trial. target: the score that ends the sweep; None: the best within the time.
    within: seconds; None: no limit. hopeless: a trial with no score above it in the last `every` steps is poor.
    kill: poor trials end, in place of running when no other waits. at: the time of the last message.

    >>> from qoop.adaptive.program import Begin
    >>> at, orders = Sweep(policy="none", trials=(Trial(turn=0), Trial(turn=1)), most=2, target=0.9).after(Begin())
    >>> orders
    (RunStep(trial=0, number=0, early=False),)
    >>> at, orders = at.after(TrialStepEnded(0, 0, 0.95, 1.0, 1.0)); orders, at.why
    ((Show(number=0), End()), 'the target was reached')
    """

    policy: str
    trials: tuple[Trial, ...]
    slots: int = 1
    every: int = 10
    most: int = 120
    target: float | None = None
    within: float | None = None
    hopeless: float | None = None
    kill: bool = False
    state: Literal["new", "running", "ended"] = "new"
    why: Why = ""
    turns: int = 0
    best: int = -1
    at: float = 0.0
    probe: Probe = field(default_factory=Probe)

    def after(self, message: Message) -> tuple[Sweep, tuple[Order, ...]]:
        """The next state, and the orders to carry out."""
        match self.state, message:
            case "new", Share(slots):
                return replace(self, slots=slots), ()
            case "new", Begin():
                return replace(self, state="running", turns=len(self.trials))._filled(())
            case (("new" | "running"), Stop()):
                return self._ended("it was stopped")
            case "running", Due():
                return self._ended("the time was over")
            case "running", Share(slots):
                return replace(self, slots=slots)._filled(())
            case "running", TrialStepEnded():
                return self._step_ended(message)
            case "running", TrialFailed(number, why, at):
                failed = replace(self.trials[number], state="failed", why=why)
                return replace(self, at=at)._with(number, failed)._filled(())
            case "running", Predicted():
                return self._predicted(message)
        return self, ()

    @property
    def pending(self) -> tuple[Order, ...]:
        """The orders that have no answer yet: a process that goes on carries them out again."""
        return *map(self._step, self.numbers("running")), *filter(
            None, map(self._prediction, self.numbers("predicting"))
        )

    # What policies see

    @property
    def highest(self) -> float:
        """The best score of all trials; as long as no step has read all rows, the best estimate."""
        if self.best >= 0:
            return self.trials[self.best].best
        return max((trial.highest for trial in self.trials), default=-inf)

    @property
    def level(self) -> float:
        """The score to reach: the target, or a little more than the best one so far."""
        return self.target if self.target is not None else self.highest + max(_RISE * abs(self.highest), 1e-12)

    @property
    def promising(self) -> set[int]:
        """The trials that deserve slots of their own."""
        return promising(self)

    @property
    def busy(self) -> int:
        """The trials that hold a slot."""
        return sum(trial.state in _BUSY for trial in self.trials)

    def numbers(self, state: TrialState) -> Iterator[int]:
        """The trials in a state."""
        return (number for number, trial in enumerate(self.trials) if trial.state == state)

    def steps_left(self, trial: Trial) -> int:
        """The further steps that a trial can do: until its last one, and in the time."""
        left = self.most - len(trial.scores)
        if self.within is None or not trial.scores:
            return left
        step = trial.seconds / len(trial.scores)
        return min(left, int(max(0.0, self.within - self.at) / step)) if step else left

    def is_best(self, number: int, step: int, score: float) -> bool:
        """True if the score of a trial's step, which has read all rows, is above those of all such steps before."""
        return step >= self.trials[number].estimated and (self.best < 0 or score > self.highest)

    # Inside

    def _step_ended(self, ended: TrialStepEnded) -> tuple[Sweep, tuple[Order, ...]]:
        trial = self.trials[ended.trial]
        if trial.state != "running" or ended.number != len(trial.scores):
            return self, ()
        trial = replace(trial, scores=(*trial.scores, ended.score), seconds=trial.seconds + ended.seconds)
        best = ended.trial if self.is_best(ended.trial, ended.number, ended.score) else self.best
        now = replace(self, at=ended.at, best=best)._with(ended.trial, trial)._probed(ended)
        trial = now.trials[ended.trial]
        if self.target is not None and ended.score >= self.target and ended.number >= trial.estimated:
            now, orders = now._with(ended.trial, replace(trial, state="complete"))._ended("the target was reached")
            return now, (Show(ended.trial), *orders)
        if self.within is not None and ended.at >= self.within:
            return now._ended("the time was over")
        if len(trial.scores) >= self.most:
            return now._with(ended.trial, replace(trial, state="complete"))._filled((Show(ended.trial),))
        return now._at_boundary(ended.trial)

    def _at_boundary(self, number: int) -> tuple[Sweep, tuple[Order, ...]]:
        policy, trial = POLICIES[self.policy], self.trials[number]
        if not policy.is_boundary(self, number):
            return self._decided(number, "running")
        prediction = self._prediction(number)
        if prediction is None:
            return self._decided(number, policy.fate(self, number))
        return self._with(number, replace(trial, state="predicting")), (prediction,)

    def _prediction(self, number: int) -> Predict | None:
        """The prediction that a trial's fate depends on, if it does."""
        level, trial = POLICIES[self.policy].level(self, number), self.trials[number]
        if level is None:
            return None
        return Predict(number, len(trial.scores), level, max(1, self.steps_left(trial)))

    def _predicted(self, found: Predicted) -> tuple[Sweep, tuple[Order, ...]]:
        trial = self.trials[found.trial]
        if trial.state != "predicting" or found.number != len(trial.scores):
            return self, ()
        now = self._with(found.trial, replace(trial, p=found.p, ahead=found.steps))
        return now._decided(found.trial, POLICIES[self.policy].fate(now, found.trial))

    def _decided(self, number: int, fate: Fate) -> tuple[Sweep, tuple[Order, ...]]:
        trial = self.trials[number]
        if fate == "running" and self._is_one_too_many(number):
            fate = "waiting"
        if fate == "running":
            return self._with(number, replace(trial, state="running")), (self._step(number),)
        return replace(self._with(number, replace(trial, state=fate, turn=self.turns)), turns=self.turns + 1)._filled(
            ()
        )

    def _is_one_too_many(self, number: int) -> bool:
        """True if there are fewer slots than trials that hold one: those with the lowest chances have to wait."""
        busy = [one for state in _BUSY for one in self.numbers(state)]
        lower = sum(self.trials[one].p < self.trials[number].p for one in busy if one != number)
        return lower < len(busy) - self.slots

    def _filled(self, orders: tuple[Order, ...]) -> tuple[Sweep, tuple[Order, ...]]:
        """The state in which every slot has a step, as far as trials wait."""
        now, policy = self, POLICIES[self.policy]
        busy = now.busy
        while busy < self.slots and (number := policy.next(now)) is not None:
            now = now._with(number, replace(now.trials[number], state="running"))
            orders = (*orders, now._step(number))
            busy += 1
        if not any(trial.state in OPEN for trial in now.trials):
            now, ending = now._ended("all trials have ended")
            return now, (*orders, *ending)
        return now, orders

    def _step(self, number: int) -> RunStep:
        """The order for the next step of a trial."""
        done = len(self.trials[number].scores)
        return RunStep(number, done, done < self.trials[number].estimated and not _is_probe(number, done))

    def _probed(self, ended: TrialStepEnded) -> Sweep:
        """The state after an early step, or a whole one in its place; without early steps from now on if they do not
        pay."""
        probe = self.probe
        if probe.is_over or ended.number >= self.trials[ended.trial].estimated:
            return self
        if _is_probe(ended.trial, ended.number):
            probe = replace(probe, whole=(*probe.whole, ended.seconds))
        else:
            probe = replace(probe, early=(*probe.early, ended.seconds))
        if not probe.is_over or probe.pays:
            return replace(self, probe=probe)
        trials = tuple(
            replace(trial, estimated=min(trial.estimated, len(trial.scores) + self._runs(number, ended)))
            for number, trial in enumerate(self.trials)
        )
        return replace(self, probe=probe, trials=trials)

    def _runs(self, number: int, ended: TrialStepEnded) -> bool:
        """True if a trial has a step that runs, now that another one has ended."""
        return number != ended.trial and self.trials[number].state == "running"

    def _ended(self, why: Why) -> tuple[Sweep, tuple[Order, ...]]:
        return replace(self, state="ended", why=why), (End(),)

    def _with(self, number: int, trial: Trial) -> Sweep:
        return replace(self, trials=(*self.trials[:number], trial, *self.trials[number + 1 :]))


def _is_probe(number: int, step: int) -> bool:
    """True for the early steps of the first trial that are whole, to measure."""
    return number == 0 and 0 < step <= _PROBES
