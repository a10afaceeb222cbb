"""A policy that launches the plan which is good on all shares that are likely, not on the one at hand alone.

Likely.around ──> time of every option on each share, over the best there ──> regret ──> the launch plan
                                                                 later questions ──> Greedy, or nobody
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import inf

from qoop.catalog.value import value
from qoop.planner.plan import Resources
from qoop.replanning.decision import Decision, Option, Question, Stay, switch_to, whole_slots
from qoop.replanning.greedy import Greedy
from qoop.replanning.likely import Likely, Weighted


@value
class Robust:
    """At the start the plan of the least regret over likely shares: its time on a share relative to the best plan's.

    likely: the shares. loss: the part by which the plan may take longer on the share at hand than the best one there,
        so that nobody notices where nothing changes; inf: any plan will do.
    worst: the largest regret counts (minimax), rather than the mean.
    then: decides from there on, and at the start, too, where somebody has said what should come, which is known better
        than what is likely; None: nobody, the plan is kept.
    """

    likely: Likely = field(default_factory=Likely)
    loss: float = 0.02
    worst: bool = False
    then: Greedy | None = field(default_factory=Greedy)

    def decide(self, question: Question) -> Decision:
        if question.at_launch and (self.then is None or not question.coming):
            return self._launch(question)
        if self.then is not None:
            return self.then.decide(question)
        if question.remaining[question.running].seconds == inf:
            return switch_to(question, min(range(len(question.options)), key=lambda i: question.remaining[i].seconds))
        return Stay("the plan is kept that was chosen at launch", question.remaining)

    def _launch(self, question: Question) -> Decision:
        most = max(option.candidate.available.cpu for option in question.options)
        share = whole_slots(question.share)
        regret = self.regrets(question.options, share, self.likely.around(share, most))
        best = min(range(len(regret)), key=lambda place: (regret[place], place != question.running, place))
        if best == question.running:
            return Stay("no other plan is better over the likely shares", question.remaining)
        return switch_to(question, best)

    def regrets(self, options: Sequence[Option], at_hand: Resources, shares: Weighted) -> tuple[float, ...]:
        """Of each option its regret over the shares; infinite for those that are too slow on the share at hand."""
        seconds = [[_seconds(option, share, at_hand) for share, _ in shares] for option in options]
        least = [min(column) for column in zip(*seconds, strict=True)]
        now = [_seconds(option, at_hand, at_hand) for option in options]
        most = (1.0 + self.loss) * min(now)
        return tuple(
            inf if mine > most else self._regret([a / max(b, 1e-9) for a, b in zip(row, least, strict=True)], shares)
            for mine, row in zip(now, seconds, strict=True)
        )

    def _regret(self, ratios: Sequence[float], shares: Weighted) -> float:
        if self.worst:
            return max(ratios)
        return sum(weight * ratio for ratio, (_, weight) in zip(ratios, shares, strict=True))


def _seconds(option: Option, share: Resources, at_hand: Resources) -> float:
    """Seconds of the whole plan on a share. DuckDB's plan does not take slots that come while it runs."""
    candidate = option.candidate
    stuck = candidate.plan.root.whole and share.cpu > at_hand.cpu
    return candidate.finish.seconds(at_hand if stuck else share)
