"""The ceiling: the best schedule of plans with the whole future known.

    capacity over time, true durations ──beam over its changes──> schedules ──the real core──> the shortest run

The beam is an approximation, since the number of schedules is that of plans to the power of changes. It advances by
the completion time estimate with true durations, in which tasks that run at a change begin again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import pairwise
from math import inf

from qoop.adaptive.replanning.decision import Decision, DecisionInput, Option, Stay, switch_to
from qoop.catalog.value import value
from qoop.engine.task import Content
from qoop.planner.finish import Done
from qoop.planner.plan import Resources
from qoop.planner.search.candidate import Candidate

WIDTH, BEST = 8, 3
"""States that are kept at each change; schedules that are tried on the core."""
MOST_CHANGES = 20
"""Changes at which the beam thinks about the plan; from the last of them on the plan is kept."""

Schedule = tuple[tuple[float, int], ...]
"""From which second on which plan runs, by its place among the candidates."""


@value
class Scripted:
    """Runs the plans that a schedule names, at the first decision from each of its times on.

    launch: the place of the plan that the run begins with, which is the first of a job's options; the others follow in
    their order.
    """

    schedule: Schedule
    launch: int

    def decide(self, question: DecisionInput) -> Decision:
        scheduled = self._place([place for at, place in self.schedule if at <= question.now][-1])
        if scheduled == question.running or scheduled >= len(question.options):
            return Stay("as the schedule has it", question.remaining)
        return switch_to(question, scheduled)

    def _place(self, candidate: int) -> int:
        return 0 if candidate == self.launch else candidate + (candidate < self.launch)


@value
class _State:
    """A way through the changes so far. present: outputs that are there, by content; own: those of the running plan."""

    schedule: Schedule
    present: Mapping[Content, int]
    own: Done
    ended: float = inf

    @property
    def running(self) -> int:
        return self.schedule[-1][1]


class Beam:
    """The schedules for one query and one course of capacity. candidates: with true estimates."""

    def __init__(self, candidates: Sequence[Candidate], shares: Sequence[tuple[float, Resources]]) -> None:
        self.options = [Option(str(place), one) for place, one in enumerate(candidates)]
        self.shares = list(shares)
        self.rest = _mean([share for _, share in shares])

    def schedules(self) -> list[Schedule]:
        """The best, soonest first."""
        states = [_State(((0.0, place),), {}, Done()) for place in range(len(self.options))]
        for (since, share), (until, _) in pairwise(self.shares[: MOST_CHANGES + 1]):
            if all(state.ended < inf for state in states):
                break
            grown = [self._advanced(state, share, since, until) for state in states]
            states = self._best([one for state in grown for one in self._branches(state, until)], until)
        ends = [(self._end(state), state.schedule) for state in states]
        return list(dict.fromkeys(schedule for _, schedule in nsmallest(BEST, ends)))

    def _advanced(self, state: _State, share: Resources, since: float, until: float) -> _State:
        if state.ended < inf:
            return state
        option = self.options[state.running]
        finish = option.candidate.finish
        left = finish.seconds(share, state.own)
        if since + left <= until:
            return _State(state.schedule, state.present, state.own, since + left)
        own = finish.after(share, until - since, state.own)
        made = {content: own.parts.get(stage.id, 0) for stage, content, usable in option.stages if usable}
        present = {key: max(made.get(key, 0), state.present.get(key, 0)) for key in {*made, *state.present}}
        return _State(state.schedule, present, own)

    def _branches(self, state: _State, at: float) -> Iterable[_State]:
        yield state
        if state.ended < inf:
            return
        for place, option in enumerate(self.options):
            if place != state.running:
                own = Done(
                    {stage.id: state.present.get(content, 0) for stage, content, usable in option.stages if usable}
                )
                yield _State((*state.schedule, (at, place)), state.present, own)

    def _best(self, states: list[_State], at: float) -> list[_State]:
        coming = next(share for since, share in reversed(self.shares) if since <= at)
        later = [share for since, share in self.shares if since > at]
        rest = _mean([coming, *later])
        return nsmallest(WIDTH, states, key=lambda state: (self._judged(state, rest, at), len(state.schedule)))

    def _judged(self, state: _State, rest: Resources, at: float) -> float:
        if state.ended < inf:
            return state.ended
        return at + self.options[state.running].candidate.finish.seconds(rest, state.own)

    def _end(self, state: _State) -> float:
        since, share = self.shares[min(len(self.shares) - 1, MOST_CHANGES)]
        return self._judged(state, share, since)


def _mean(shares: Sequence[Resources]) -> Resources:
    total = sum(shares, Resources())
    part = 1.0 / len(shares)
    return Resources(total.cpu * part, total.memory * part, total.disk * part, total.network * part)
