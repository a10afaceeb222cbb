"""The outputs of a plan that are worth writing to a place where they outlive the process.

Writing costs seconds of a slot; not writing costs the work that is done again if the process ends in mid-query. With
failures at the rate λ, few in the time of a query, what a set of written stages costs is to the first order

    C = Σ seconds to write + λ · ∫ work to be done again if the process ended at t  dt

as in Young ("A First Order Approximation to the Optimum Checkpoint Interval", 1974; Daly, "A Higher Order Estimate of
the Optimum Checkpoint Interval for Restart Dumps", 2006), where for work that can be cut anywhere the best interval is
√(2 · seconds to write / λ). A query can be cut at the ends of its stages only, and what a stage puts out is worth more
than its own seconds where nothing below it is written; so the set is found by hill climbing over the stages from "all
of them". (On a chain of stages dynamic programming would be exact: Toueg and Babaoğlu, "On the Optimum Checkpoint
Selection Problem", 1984; plans are no chains.)

What is beyond that is still written while all writing takes at most `free` of the work, the most seconds of work for a
second of writing first: that is hardly noticed, and the rate λ is a guess.

What may be lost stays bounded by a promise that does not depend on λ being right: by the plan's estimates the work to
be done again never exceeds `most_lost` slot seconds. What is beyond that is written whatever it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from qoop.catalog.value import value
from qoop.planner.finish import Finish
from qoop.planner.plan import Plan, Resources, StageId

_PASSES = 3


@value
class Worthwhile:
    """Write what costs less to write than to go without.

    every: seconds between failures in the mean (an hour: a laptop that is closed, a spot machine). most_lost: slot
    seconds of work that a failure may cost at most, by the estimates. byte_seconds: to write a byte and sum it;
    output_seconds: for every output (the file, its manifest). free: the part of the work that writing may take anyway.
    """

    every: float = 3600.0
    most_lost: float = 60.0
    byte_seconds: float = 1e-9
    output_seconds: float = 0.002
    free: float = 0.03

    def stages(self, plan: Plan, share: Resources) -> frozenset[StageId]:
        """The stages of a plan whose outputs are to be written, if it runs on a share."""
        course = Course.of(plan, share)
        writing = [
            stage.width * self.output_seconds + stage.estimate.bytes * self.byte_seconds for stage in plan.stages
        ]
        written = self._with_free(course, writing, self._climbed(course, writing))
        while (lost := course.most_lost(written))[0] > self.most_lost:
            written |= {max(lost[1], key=lambda place: course.work[place])}
        return frozenset(plan.stages[place].id for place in written)

    def _climbed(self, course: Course, writing: Sequence[float]) -> frozenset[int]:
        written = frozenset(range(len(writing)))
        best = self._cost(course, writing, written)
        for _ in range(_PASSES):
            before = best
            for place in sorted(range(len(writing)), key=lambda i: -writing[i]):
                tried = written ^ {place}
                cost = self._cost(course, writing, tried)
                if cost < best:
                    written, best = tried, cost
            if best == before:
                break
        return written

    def _with_free(self, course: Course, writing: Sequence[float], written: frozenset[int]) -> frozenset[int]:
        left = self.free * sum(course.work) - sum(writing[place] for place in written)
        rest = (place for place, work in enumerate(course.work) if place not in written and work > writing[place])
        for place in sorted(rest, key=lambda place: writing[place] / course.work[place]):
            if writing[place] <= left:
                left -= writing[place]
                written |= {place}
        return written

    def _cost(self, course: Course, writing: Sequence[float], written: frozenset[int]) -> float:
        return sum(writing[place] for place in written) + course.at_risk(written) / self.every


@value
class Course:
    """A plan as it is expected to run, by places in it.

    work: slot seconds of the stages. sources: what each reads. begins, ends: when, in seconds from the start.
    """

    work: tuple[float, ...]
    sources: tuple[tuple[int, ...], ...]
    begins: tuple[float, ...]
    ends: tuple[float, ...]

    @classmethod
    def of(cls, plan: Plan, share: Resources) -> Course:
        """Stages end as their longest paths do, stretched to the time that the share allows."""
        finish = Finish(plan)
        seconds = finish.thread_seconds()
        work = tuple(seconds[stage.id] for stage in plan.stages)
        sources = tuple(tuple(source for source, _ in of) for of in finish.sources)
        begins: list[float] = []
        ends: list[float] = []
        for stage, of, own in zip(plan.stages, sources, work, strict=True):
            begins.append(max((ends[source] for source in of), default=0.0))
            ends.append(begins[-1] + own / max(1.0, min(share.cpu, stage.width * stage.slots)))
        stretch = max(1.0, sum(work) / max(1.0, share.cpu) / ends[-1]) if ends[-1] > 0 else 1.0
        return cls(work, sources, tuple(one * stretch for one in begins), tuple(one * stretch for one in ends))

    def lost(self, written: frozenset[int], at: float) -> frozenset[int]:
        """The stages that have ended and would have to run again if the process ended just after that time.

        Those that are not written and that something reads which is still to run, or would have to run again.
        """
        again: set[int] = set()
        missing = [place for place, end in enumerate(self.ends) if end > at]
        while missing:
            for source in self.sources[missing.pop()]:
                if self.ends[source] <= at and source not in written and source not in again:
                    again.add(source)
                    missing.append(source)
        return frozenset(again)

    def at_risk(self, written: frozenset[int]) -> float:
        """Slot seconds to be done again, by the second in which the process may end, added up over the whole run.

        Of a stage that runs, half is done in the mean; its outputs, too, are kept as they come if it is written.
        """
        total = 0.0
        for begin, end in pairwise(sorted({0.0, *self.ends})):
            total += (end - begin) * sum(self.work[place] for place in self.lost(written, begin))
        for place, (begin, end) in enumerate(zip(self.begins, self.ends, strict=True)):
            if place not in written:
                total += (end - begin) * self.work[place] / 2.0
        return total

    def most_lost(self, written: frozenset[int]) -> tuple[float, frozenset[int]]:
        """The most slot seconds that a failure would cost, and the stages that it would cost them for.

        What runs and is not written counts whole.
        """
        moments = sorted({0.0, *self.ends})[:-1]
        sets = [self.lost(written, at) | self._running(at) - written for at in moments]
        costs = [sum(self.work[place] for place in places) for places in sets]
        most = max(range(len(sets)), key=costs.__getitem__)
        return costs[most], sets[most]

    def _running(self, at: float) -> frozenset[int]:
        spans = enumerate(zip(self.begins, self.ends, strict=True))
        return frozenset(place for place, (begin, end) in spans if begin <= at < end)
