"""A policy that expects the share to move as it has moved before, where greed takes it to last for ever.

    Moves so far and from a history ──chain──> expected seconds of every option ──Greedy.choose──> Stay | Switch
                                                          guard: wagered work ≥ risk × least work ──> what greed says

**The guard.** A forecast may be wrong, and the seller of the machines may know it. In the model in which greed has a
bound (paper section 5: plans i of b_i tasks of a_i units, w_i = a_i·b_i, each kept plan at most half the work of the
one kept before) let an algorithm run any kept plan it likes in some steps, its *regret*, and what greed would run, from
the state it is in, in all others; and let the units held in regret never be more than ε·w, w the least work of any
plan. It then ends before 4 + ε copies of the query on any one plan p (2 + ε where all plans halve the work):

1. Let i be the largest kept plan with a_i ≤ a_p, so i = p or w_i < 2·w_p. Only steps that offer a_p units serve p.
2. Steps in which plans larger than i run hold w_i/2 + w_i/4 + … < w_i units at most: no plan holds more than its work,
   no matter who chose it. These include the regret on larger plans.
3. In the steps of greed in which one of the plans up to i runs, it is the one with the fewest tasks left, so that this
   fewest number, never more than b_i, falls with every task, and regret never raises it: they hold less than w_i.
4. The regret on plans up to i hold at most ε·w ≤ ε·w_p.

Together less than 2·w_i + ε·w < (4 + ε)·w_p. The budget must be a part of the *least* work: a part of the work of the
plan that ends would not do, as that may be as much larger than w_p as one likes. tests/theory tries it.

With real plans, whose tasks other plans share, a second of a task is wagered only if the plan that greed wanted has no
use for it. Real tasks cannot be counted in advance, so the policy asks to be asked again when the budget may be used
up, and stops at 90 % of it.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import inf

from qoop.catalog.value import value
from qoop.engine.history import Remaining
from qoop.planner.finish import Finish
from qoop.planner.plan import Resources
from qoop.profiles import CapacityProfile
from qoop.replanning.decision import Decision, Question, Stay, runs
from qoop.replanning.greedy import Greedy
from qoop.replanning.moves import MOST_LEVELS, Chain, Moves

_NEARLY = 0.9
"""Part of the budget from which on nothing more is wagered."""

_LOOKS = 50
"""A plan that runs against the advice of greed is judged at most that many times in what is left of the query."""


@value
class Forecast:
    """The plan that ends first in the mean, if the share goes on to move as it did.

    history: what is known of such shares from before; the job's own are added to it. risk: the part of the least work
    of any plan that may be wasted against the advice of greed: 0 is greed, inf is no guard.
    steady: time without a move that every level is given before anything is seen, in times what is left of the query:
    of moves that are rarer than that a query need not know. levels: how many there are at most.

    Where somebody has said what should come, that is known better, and greed decides.
    """

    history: Moves = field(default_factory=Moves)
    risk: float = 0.5
    greedy: Greedy = field(default_factory=Greedy)
    steady: float = 1.0
    levels: int = MOST_LEVELS

    def decide(self, question: Question) -> Decision:
        greedy = self.greedy.decide(question)
        chain = self.chain(question)
        budget = self.risk * least_work(question) if self.risk < inf else inf
        if question.coming or chain.still or len(question.options) == 1 or question.wagered >= _NEARLY * budget:
            return greedy
        foreseen = self.foreseen(question, chain)
        decision = self.greedy.choose(question, foreseen)
        wanted, chosen = runs(question, greedy), runs(question, decision)
        if wanted == chosen:
            return greedy
        again = inf
        if budget < inf:
            whole = (budget - question.wagered) / max(1.0, question.share.cpu)
            again = max(whole, foreseen[chosen].seconds / _LOOKS)
        if isinstance(decision, Stay):
            decision = replace(decision, reason=f"as the share moves, {decision.reason}")
        return replace(decision, against=wanted, again=again)

    def chain(self, question: Question) -> Chain:
        """The expected moves of the share."""
        seen = Moves.of(question.shares, question.now)
        steady = self.steady * question.least if question.least < inf else 0.0
        return (self.history + seen).chain(question.share, steady, self.levels)

    def foreseen(self, question: Question, chain: Chain) -> tuple[Remaining, ...]:
        """The expected seconds until each of the options would end."""
        by_level = [
            question.remaining if place == chain.start else question.remaining_on(level)
            for place, level in enumerate(chain.levels)
        ]
        return tuple(
            Remaining(option.name, chain.expected([one[place].seconds for one in by_level], _tasks(question, place)))
            for place, option in enumerate(question.options)
        )


def fit(profile: CapacityProfile, levels: int = 2 * MOST_LEVELS) -> Moves:
    """The moves of the capacity in a profile, as of a job that has it for itself."""
    path = [(point.at, Resources(point.all_slots, point.all_memory)) for point in profile.points]
    return Moves.of(path, path[-1][0]).merged(levels)


def least_work(question: Question) -> float:
    """Seconds of tasks of the whole query, under the plan that needs fewest."""
    return min(option.candidate.finish.work() for option in question.options)


def _tasks(question: Question, place: int) -> list[tuple[float, float]]:
    """Of the work that is left of an option the part of each stage, and the seconds of its tasks."""
    finish: Finish = question.options[place].candidate.finish
    left = finish.needed(question.done[place])
    kinds = [(count, task.seconds + task.local) for count, task in zip(left, finish.tasks, strict=True) if count]
    total = sum(count * seconds for count, seconds in kinds)
    return [(count * seconds / total, seconds) for count, seconds in kinds] if total > 0 else []
