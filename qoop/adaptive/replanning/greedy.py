"""The greedy choice: the plan that ends first on the present share (paper section 5), and on the announced ones,
if it is ahead by enough."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from qoop.adaptive.replanning.decision import Decision, DecisionInput, Stay, switch_to
from qoop.catalog.value import value
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate

LONG_SECONDS = 1.0
"""A query that DuckDB's plan should take longer for than this on its share begins in stages, unless that plan is
believed to win by more than estimates err: stages leave outputs behind that any other plan, or run, goes on from."""

BOTH_ERR = 1.3
"""The factor by which the estimates of DuckDB's plan and of one of many tasks err against each other: over the 20 long
queries of TPC-DS at scale 10, on both versions of DuckDB, plans of many tasks take 0.9 of their estimates next to
DuckDB's, and 0.75 next to those of plans of one task, with a standard deviation of a factor of 1.5."""

FEW_TASKS = 0.5
"""A plan leaves little behind before its end where one task takes more than this part of its time."""

MOST_LOSSES = 10
"""Changes of plan that lost work, at most, each of which doubles the gain that the next change needs."""


def held_to_take(candidate: Candidate, share: Resources, seconds: float) -> float:
    """The seconds by which a plan is compared with DuckDB's, if it should take some by estimate: less where it leaves
    outputs behind."""
    leaves = candidate.longest_task(share) <= FEW_TASKS * candidate.finish.seconds(share)
    return seconds / BOTH_ERR if leaves else seconds


NEARLY_OVER = 0.2
"""A plan on trial that has taken as long as the known one goes on if it needs only that part of it yet."""

EARLY_TRIAL = 0.25
"""The part of the known plan's seconds up to which a trial can be ended at little cost: until then it goes on only if
its whole time should be less than that of the known plan, and not only what is left of it."""


@value
class Greedy:
    """The plan that ends first on the share as it is now (paper section 5), whatever finished work that leaves out,
    of those that end sooner than the running one by enough.

    hysteresis: another plan must end sooner than the running one by this fraction of its time, since estimates
        err, and a plan that is left for little is soon gone back to. Measured, plans believed to gain less than the
        default gained nothing (docs/benchmarks.md).
    share_hysteresis: the fraction where only the share has changed, and nothing was misestimated: all plans rest
        on the estimates that the last decision rested on, so no more caution is called for than a change costs.
    careful: elsewhere the fraction is of all that only one of the two plans would still do, if that is more than the
        running plan's time. Estimates of work that plans share err alike; of other work they err each in its own way.
        It is also of the seconds for which a running task that would be stopped has run: they are spent for certain,
        and the gain is an estimate.
    least_gain: and by this many seconds: less is not worth stopping attempts for.
    backtracking: it may go back to before what the running plan has reached; without (for comparison, figure 2.13),
        only plans count that use every finished stage which the running plan has still to read.
    deadline: seconds from the start of the job by which its answer is needed; None: at no time. Where the running plan
        would miss it and another would not, `least_gain` is enough: caution does not help a job that is late. That is
        over with the first change that left out a good part of the work.

    Of many estimates the lowest is the likeliest to be too low, so a query that is misjudged would be led from one
    plan that looks better than it is to the next. So each misestimate takes the hysteresis off what is left of the
    running plan's time once more, and so does it that nothing of the query has been seen at all. So does each time that
    DuckDB's own plan takes twice as long as estimated, where no other program slows it. Where only the share has
    changed, no estimate is news.

    A plan on trial goes on only while it should end before the known plan would, begun now, and at first before that
    would if it had been begun in its place: of that plan the seconds are no guess. After a trial there is no other,
    whatever the estimates say.

    Where another share is to come, and nothing has been done, the running plan has nothing to be said for it: it was
    chosen a moment ago by the same estimates, for a share that will not last. `least_gain` is enough then.

    A share that oscillates in less time than the query takes would have it change plan for ever, and begin again
    each time. So, if careful, each change that left out a good part of the work doubles how often the hysteresis is
    taken off: what the next one may lose is bounded by ever larger gains (exponential back-off).
    """

    hysteresis: float = 0.15
    share_hysteresis: float = 0.10
    least_gain: float = 0.02
    backtracking: bool = True
    careful: bool = True
    deadline: float | None = None

    @classmethod
    def asking(cls, hysteresis: float) -> Greedy:
        """One that asks for the same gain whatever the cause."""
        return cls(hysteresis, hysteresis)

    def decide(self, question: DecisionInput) -> Decision:
        remaining = question.remaining
        mine = remaining[question.running].seconds
        if question.quick_search and question.now + mine >= LONG_SECONDS and len(remaining) > 1:
            return self._begin(question, mine)
        if question.trial >= 1.0:
            mine /= NEARLY_OVER
        elif question.trial <= EARLY_TRIAL:
            mine /= 1.0 - question.trial
        others = (place for place in self._allowed(question) if place != question.running)
        sooner = [place for place in others if remaining[place].seconds < mine]
        if not sooner:
            return Stay("no other plan would end sooner" if len(remaining) > 1 else "there is no other plan", remaining)
        sooner.sort(key=lambda place: (remaining[place].seconds, place))
        for place in sooner:  # the first may have little in common with the running plan, and the next nearly all
            theirs = remaining[place].seconds
            saved = self._saves(question, mine, theirs)
            if not mine - theirs < (self.least_gain if saved else self.gain_needed(question, place, mine)) < inf:
                return switch_to(question, place)
        needed, apart = self._needed(question), self._doubtful(question, sooner[0], mine) > mine
        least = f"{needed:.0%} of what only one of both would do" if apart else f"{needed:.0%}"
        return Stay(f"the gain is less than {least} or {self.least_gain * 1e3:.0f} ms", remaining)

    def _begin(self, question: DecisionInput, mine: float) -> Decision:
        """DuckDB's plan, which takes `mine`, or another (:func:`held_to_take`)."""
        remaining = question.remaining
        held = {
            place: held_to_take(option.candidate, question.share, remaining[place].seconds)
            for place, option in enumerate(question.options)
            if place != question.running
        }
        best = min(held, key=held.__getitem__)
        if held[best] <= mine:
            return switch_to(question, best)
        return Stay(f"DuckDB's plan should win by more than estimates err, {BOTH_ERR - 1:.0%}", remaining)

    def _saves(self, question: DecisionInput, mine: float, theirs: float) -> bool:
        """True if a plan that ends after `theirs` seconds would meet the deadline, and the running plan would not."""
        return self.deadline is not None and not question.losses and theirs <= self.deadline - question.now < mine

    def gain_needed(self, question: DecisionInput, place: int, mine: float) -> float:
        """Seconds by which an option must end before the running plan, which would take `mine`."""
        if question.trial and question.is_other_kind(place):
            return self.least_gain
        part = self._needed(question)
        return max(self.least_gain, part * self._doubtful(question, place, mine)) if part else self.least_gain

    def _needed(self, question: DecisionInput) -> float:
        """The part of the seconds in doubt that a gain must come to."""
        if question.unfitted:
            return 0.0
        once, doubts = self.share_hysteresis, 0.0
        if not question.by_share:
            once = self.hysteresis
            doubts = question.misestimates + (not question.finished.present) + question.misjudged
        losses = question.losses if self.careful else 0
        times = (1 + doubts) * 2.0 ** min(losses, MOST_LOSSES)
        return float(1.0 - (1.0 - once) ** times)

    def _doubtful(self, question: DecisionInput, place: int, mine: float) -> float:
        """Seconds of estimates that the gain is to be held against."""
        if not self.careful or mine == inf:
            return mine
        lost = question.lost(place)
        return max(mine, lost) if question.by_share else max(mine, lost, question.apart(place))

    def _allowed(self, question: DecisionInput) -> Sequence[int]:
        places: Sequence[int] = range(len(question.options))
        if question.tried:
            places = [place for place in places if not question.is_other_kind(place)]
        if self.backtracking:
            return places
        return [place for place in places if place == question.running or not question.stages_back(place)]
