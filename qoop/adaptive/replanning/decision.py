"""A decision on the plan to run from here on, with progress carried over to every plan (paper sections 3 to 5).

    Finished ──propagate──> Done of each option ──finish time on the share──> Remaining ──policy──> Stay | Switch

All values and pure functions: requests, their times, and what is done with replies are the part of
:mod:`~qoop.adaptive.replanning.replanner`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from math import expm1, inf, log2
from typing import TYPE_CHECKING, Protocol

from qoop.adaptive.replanning.slowdown import (
    TRIAL_TRUST,
    TRUST,
    duckdb_slowdowns,
    finish_time,
    slowdown,
    slowdown_of_others,
)
from qoop.catalog.value import value
from qoop.engine.history import Coming, Remaining
from qoop.engine.progress import Finished
from qoop.engine.task import Content, content_of
from qoop.planner.estimate.observed import Errors, Joined, Observations, Tables
from qoop.planner.finish import NOTHING, Done
from qoop.planner.plan import Plan, Resources, Stage, StageId, read_by
from qoop.planner.search.candidate import Candidate

if TYPE_CHECKING:
    from qoop.planner.search.reuse import FinishedStage

START, SHARE, MISSED, AGAIN = "start", "share", "missed", "again"
"""Kinds of causes: the other plans became known at the start, the share has changed, a share that was expected has not
come, and time has passed."""


LOSS_PART = 0.1
"""The part of the work of a job that a change of plan leaves out at least, to count as a loss."""

_MOST_RESTARTS = 20.0
"""The logarithm of times by which expected interruptions lengthen a task: longer than that is never, but a number."""


@value
class Option:
    """A plan that a job may run, with what every decision needs of it worked out once.

    name: A is the plan it was started with, B, C … those that came later.
    candidate: the plan, with the job's own non-deterministic stages, and its finish times.
    planned: the plan with the estimates it was planned with, where they have been put right since.
    known: the tables over which something was seen when it was planned, whose joins it does not misjudge as others do.
    slowdown: by which factor tasks took longer than estimated when the job went over to it; of the first plan, those of
        the session's jobs before.
    """

    name: str
    candidate: Candidate
    planned: Plan | None = None
    known: frozenset[Tables] = frozenset()
    slowdown: float = 1.0

    @property
    def as_planned(self) -> Plan:
        """The plan with the estimates it was planned with."""
        return self.planned or self.candidate.plan

    @property
    def by_duckdb(self) -> bool:
        """True of DuckDB's own plan of the query."""
        return self.candidate.plan.root.whole

    @property
    def content(self) -> Content:
        """The content of the answer."""
        return content_of(self.candidate.plan.root)

    @cached_property
    def stages(self) -> tuple[tuple[Stage, Content, bool], ...]:
        """Every stage, what names its outputs, and whether outputs made under another plan may be taken for its
        own: not where they depend on a non-deterministic stage (law 12)."""
        dependent: dict[StageId, bool] = {}
        for stage in self.candidate.plan.stages:
            dependent[stage.id] = not stage.shareable or any(dependent[item.stage] for item in stage.stage_inputs)
        return tuple((stage, content_of(stage), not dependent[stage.id]) for stage in self.candidate.plan.stages)

    @cached_property
    def contents(self) -> frozenset[Content]:
        """The finished work of other plans that may be taken over."""
        return frozenset(content for _, content, usable in self.stages if usable)

    @cached_property
    def made_of(self) -> Mapping[Content, frozenset[str]]:
        """The inputs of each of them (:func:`~qoop.planner.plan.read_by`)."""
        plan = self.candidate.plan
        return {content: read_by(stage, plan) for stage, content, _ in reversed(self.stages)}

    @cached_property
    def readers(self) -> Mapping[StageId, tuple[StageId, ...]]:
        """The readers of each stage."""
        found: dict[StageId, list[StageId]] = {stage.id: [] for stage in self.candidate.plan.stages}
        for stage in self.candidate.plan.stages:
            for item in stage.stage_inputs:
                found[item.stage].append(stage.id)
        return {id: tuple(readers) for id, readers in found.items()}


def observed_errors(options: Iterable[Option], observed: Observations) -> Errors:
    """The errors in the number of joined rows that the plans have in common, which nothing was known of."""
    from qoop.planner.estimate.join_errors import join_errors  # as the modules below: few jobs change plan
    from qoop.planner.estimate.reestimate import observation_of

    found: dict[Joined, float] = {}
    for option in options:
        plan = option.as_planned
        pairs = ((stage.id, observation_of(stage, observed)) for stage in plan.stages)
        errors = join_errors(plan, {id: one for id, one in pairs if one is not None})
        found.update((joined, error) for joined, error in errors.items() if joined.tables not in option.known)
    return found


def reestimate(option: Option, observed: Observations, memory: Mapping[Content, float]) -> Option:
    """The option with estimates put right by what was seen. memory: bytes that tasks of a content are known to need."""
    from qoop.planner.estimate.reestimate import reestimated

    needed = {stage.id: memory[content] for stage, content, _ in option.stages if content in memory}
    first = option.as_planned
    own = {joined: error for joined, error in observed.errors.items() if joined.tables not in option.known}
    plan = reestimated(first, observed, needed, own)
    pairs = zip(plan.stages, option.candidate.plan.stages, strict=True)
    if all(new.estimate == old.estimate for new, old in pairs):
        return option
    return replace(option, candidate=replace(option.candidate, plan=plan), planned=first)


def propagate(option: Option, finished: Finished, by: Option) -> Done:
    """The progress of a plan, given the work done under others: paper section 3, at any depth.

    A stage has all parts that are present under its own signature and layout, whichever plan they were made for. That
    what a finished stage reads need not be done follows in the estimate. It also has the attempts of the plan that runs
    (by) where that makes the same of the same: one task that reads tables and puts out the answer says nothing of a
    plan in which many read the tables and the last only adds up, although that puts out the answer, too.
    """
    parts: dict[StageId, int] = {}
    running: dict[StageId, tuple[float, ...]] = {}
    for stage, content, usable in option.stages:
        if usable and content in finished.present:
            parts[stage.id] = finished.present[content]
        if usable and content in finished.running and by.made_of.get(content) == option.made_of[content]:
            running[stage.id] = finished.running[content]
    return Done(parts, running)


def own_progress(option: Option, finished: Finished) -> Done:
    """The progress of the plan that runs, as its run says, which knows what was released because nothing needs it."""
    running = {stage.id: finished.running[c] for stage, c, _ in option.stages if c in finished.running}
    slots = {stage.id: finished.slots[c] for stage, c, _ in option.stages if c in finished.slots}
    return Done(finished.done, running, slots)


def slowdown_of(option: Option, finished: Finished, share: Resources, trust: float = TRUST) -> float:
    """By which factor the tasks of the plan that runs take longer than estimated. trust: see `slowdown`."""
    if option.by_duckdb:
        [factor] = slowdowns_of_duckdb(option, finished, share, (0.5,))
        return factor
    contents = {stage.id: content for stage, content, _ in option.stages}
    slowed = finished.slowed if finished.slowed > 1.0 else option.slowdown  # 1: by nothing
    believed = max(option.slowdown, slowed)  # jobs before were slowed, too
    return slowdown(option.candidate.plan, contents, own_progress(option, finished), finished, believed, trust)


def slowdowns_of_duckdb(
    option: Option, finished: Finished, share: Resources, parts: Sequence[float]
) -> Sequence[float]:
    """See :func:`~qoop.adaptive.replanning.slowdown.duckdb_slowdowns`: of DuckDB's own plan, which runs."""
    done, report = own_progress(option, finished), finished.observed.get(option.content)
    return duckdb_slowdowns(option.candidate.finish, done, whole_slots(share), report, parts)


def left_out(old: Option, new: Option, finished: Finished) -> float:
    """Seconds of finished work of the old plan that the new one has no use for.

    The work of a stage is of use where the new plan has the stage, or has a finished stage that was made of it.
    """
    kept = {stage.id: content in new.contents for stage, content, usable in old.stages if usable}
    total = 0.0
    for stage, content, _ in reversed(old.stages):
        whole = [id for id in old.readers[stage.id] if finished.done.get(id, 0) == old.candidate.plan.by_id[id].width]
        kept[stage.id] = kept.get(stage.id, False) or any(kept[id] for id in whole)
        if not kept[stage.id]:
            total += finished.spent.get(content, 0.0)
    return total


def stages_back(old: Option, new: Option, finished: Finished) -> int:
    """The number of finished stages, one above the other, by which the new plan goes back behind the old one.

    What a plan has reached are its finished stages that something unfinished reads. A plan that uses all of them goes
    on from there: 0. Where it does not use one, it starts from what that was made of (1), or from further down: the
    depth of backtracking (figure 2.12). Unfinished stages do not count, for there is nothing to go back to.
    """
    stages = old.candidate.plan.by_id
    whole = {id for id, stage in stages.items() if finished.done.get(id, 0) == stage.width}
    usable = {stage.id for stage, content, usable in old.stages if usable and content in new.contents}
    depth: dict[StageId, int] = {}
    for stage in old.candidate.plan.stages:
        below = [depth[item.stage] for item in stage.stage_inputs]
        depth[stage.id] = 0 if stage.id in usable or stage.id not in whole else 1 + max(below, default=0)
    reached = (id for id in whole if any(reader not in whole for reader in old.readers[id]))
    return max((depth[id] for id in reached), default=0)


def useful(options: Sequence[Option], running: int) -> frozenset[Content]:
    """The outputs another plan than the running one could use, by containment and re-partitioning, too: the rest need
    not outlive its last reader."""
    from qoop.planner.search.reuse import finished_stages

    own = options[running]
    stages = finished_stages(own.candidate.plan, [stage.id for stage, _, usable in own.stages if usable])
    others = [option for place, option in enumerate(options) if place != running]
    return frozenset().union(*(served_by(option, stages, NOTHING).contents | option.contents for option in others))


def complete(options: Sequence[Option], finished: Finished) -> tuple[FinishedStage, ...]:
    """The stages of any of the plans that are present as a whole."""
    from qoop.planner.search.reuse import finished_stages

    found: dict[Content, FinishedStage] = {}
    for option in options:
        for stage, content, usable in option.stages:
            if usable and content not in found and finished.present.get(content) == stage.width:
                (found[content],) = finished_stages(option.candidate.plan, [stage.id])
    return tuple(found.values())


def served_by(option: Option, stages: Sequence[FinishedStage], done: Done) -> Option:
    """The option with whatever finished stages serve it, also where they hold more than it asks for or are cut
    otherwise (:mod:`~qoop.planner.search.reuse`)."""
    from qoop.planner.search.reuse import reuse

    plan = reuse(option.candidate.plan, stages, done)
    if plan is option.candidate.plan:
        return option
    planned = None if option.planned is None else _as_planned(plan, option.planned)
    return replace(option, candidate=replace(option.candidate, plan=plan), planned=planned)


def _as_planned(plan: Plan, planned: Plan) -> Plan:
    """The plan with the estimates of another where that has the same stages."""
    first = {(stage.id, stage.signature): stage.estimate for stage in planned.stages}
    stages = (replace(one, estimate=first.get((one.id, one.signature), one.estimate)) for one in plan.stages)
    return replace(plan, stages=tuple(stages))


def whole_slots(share: Resources) -> Resources:
    """The share with one slot at least: slots are lent whole, for a part of the time."""
    return replace(share, cpu=max(1.0, share.cpu))


@value
class DecisionInput:
    """The facts that a policy decides on.

    options: the plans; `running` is the place of the one that runs. share: what the job is promised.
    misestimates: how many stages so far had far more or far fewer rows than was expected.
    now: seconds since the job began.
    causes: the kinds of what the decision is about (:class:`~qoop.adaptive.replanning.triggers.Cause`).
    losses: how many changes of plan so far left out a good part of the work (:meth:`loses`).
    coming: what the job should be promised later, as far as anybody has said.
    quick_search: DuckDB's plan has only just begun, to lose no time, and is compared with others for the first time.
    trial: the seconds for which the plan that runs has been on trial, as a part of those of the known plan of the other
    kind (:class:`~qoop.adaptive.replanning.adaptive.Known`); 0: it is on none. tried: a trial has ended: the known plan
    runs.
    """

    options: tuple[Option, ...]
    running: int
    finished: Finished
    share: Resources
    misestimates: int = 0
    now: float = 0.0
    causes: tuple[str, ...] = ()
    losses: int = 0
    coming: Coming = ()
    quick_search: bool = False
    trial: float = 0.0
    tried: bool = False

    def is_other_kind(self, place: int) -> bool:
        """True if one of an option and the running plan is DuckDB's own, and the other is not."""
        return self.options[place].by_duckdb != self.options[self.running].by_duckdb

    def with_reuse(self) -> DecisionInput:
        """The question with every option but the running one as it would be switched to: served by finished stages."""
        stages = complete(self.options, self.finished)
        if not stages:
            return self
        options = tuple(
            option if place == self.running else served_by(option, stages, self.done[place])
            for place, option in enumerate(self.options)
        )
        return replace(self, options=options)

    @property
    def by_share(self) -> bool:
        """True if only the share has changed: the estimates are those of the last decision, and none was far off."""
        return not self.misestimates and bool(self.causes) and set(self.causes) <= {SHARE, MISSED}

    @property
    def by_duckdb(self) -> bool:
        """True if DuckDB's own plan runs."""
        return self.options[self.running].by_duckdb

    @property
    def at_launch(self) -> bool:
        """True if nothing is done, and nothing was under way for any time, or the job has only just begun."""
        finished = self.finished
        spent = any(seconds for one in finished.running.values() for seconds in one)
        return not any(finished.present.values()) and (not spent or START in self.causes)

    @property
    def unfitted(self) -> bool:
        """True if another share is to come before the end, and nothing has been done yet by the plan, which was chosen
        for this one. DuckDB's own plan is not chosen for a share.
        """
        if not self.coming or not self.at_launch or self.by_duckdb:
            return False
        return self.coming[0][0] - self.now < self.remaining[self.running].seconds

    @property
    def least(self) -> float:
        """The seconds of the option that would end first."""
        return min(one.seconds for one in self.remaining)

    @cached_property
    def done(self) -> tuple[Done, ...]:
        """The progress of each option."""
        own = self.options[self.running]
        return tuple(
            own_progress(own, self.finished) if place == self.running else propagate(option, self.finished, own)
            for place, option in enumerate(self.options)
        )

    @cached_property
    def slowdown(self) -> float:
        """By which factor the tasks of the plan that runs take longer than estimated."""
        trust = TRIAL_TRUST if self.trial else TRUST
        return slowdown_of(self.options[self.running], self.finished, self.share, trust)

    @cached_property
    def slowdown_of_others(self) -> float:
        """The same of plans that the job may change to: what slows one slows all."""
        if not self.by_duckdb:
            return self.slowdown
        return slowdown_of_others(self.slowdown, self.finished.slowed)

    @property
    def misjudged(self) -> float:
        """The times that DuckDB's own plan takes twice as long as estimated, other programs aside; 0 under another."""
        return max(0.0, log2(self.slowdown / self.finished.slowed)) if self.by_duckdb else 0.0

    @cached_property
    def remaining(self) -> tuple[Remaining, ...]:
        """The seconds until each option would end on the share, and on those that are coming, if nothing else
        changed."""
        share, coming = whole_slots(self.share), tuple((at - self.now, share) for at, share in self.coming)
        return tuple(Remaining(one.name, self._seconds(place, share, coming)) for place, one in enumerate(self.options))

    def keep(self, place: int) -> tuple[StageId, ...]:
        """Stages of an option of which something finished would be used."""
        parts = self.done[place].parts
        return tuple(stage.id for stage, _, _ in self.options[place].stages if parts.get(stage.id))

    def left_out(self, place: int) -> float:
        """See :func:`left_out`: what is lost by going over to an option."""
        return left_out(self.options[self.running], self.options[place], self.finished)

    def loses(self, place: int) -> bool:
        """True if going over to an option leaves out a good part of all work done so far, also of tasks that run."""
        begun = sum(self._begun_in_vain(place))
        return self.left_out(place) + begun > LOSS_PART * sum(self.finished.worked.values())

    def lost(self, place: int) -> float:
        """Seconds for which the longest of the running tasks has run that going over to an option would stop."""
        return max(self._begun_in_vain(place), default=0.0)

    def _begun_in_vain(self, place: int) -> Iterator[float]:
        """The seconds of running tasks of which an option has no use."""
        kept = self.options[place].contents
        return chain.from_iterable(spent for content, spent in self.finished.running.items() if content not in kept)

    def stages_back(self, place: int) -> int:
        """See :func:`stages_back`: how deep going over to an option goes back."""
        return stages_back(self.options[self.running], self.options[place], self.finished)

    def apart(self, place: int) -> float:
        """Seconds that the running plan and an option would still take for what only one of them does."""
        mine, theirs = self._work_left(self.running), self._work_left(place)
        both = sum(min(seconds, theirs[content]) for content, seconds in mine.items() if content in theirs)
        return sum(
            self.remaining[where].seconds * (1.0 - both / max(both, sum(work.values()), 1e-9))
            for where, work in ((self.running, mine), (place, theirs))
        )

    def _work_left(self, place: int) -> dict[Content, float]:
        """By what stages put out, the seconds of one thread that they would still take."""
        option = self.options[place]
        finish = option.candidate.finish
        seconds = finish.thread_seconds()
        needed = zip(option.stages, finish.needed(self.done[place]), strict=True)
        return {content: seconds[stage.id] / stage.width * left for (stage, content, _), left in needed if left}

    def _seconds(self, place: int, share: Resources, coming: Sequence[tuple[float, Resources]]) -> float:
        option, done = self.options[place], self.done[place]
        if self.finished.exhausted and self._meets_exhausted(option, done):
            return inf
        seconds = finish_time(option.candidate.finish, done, share, self._slowdown_of(place), coming)
        if not option.by_duckdb:
            return seconds  # the output of each of its tasks is kept
        return seconds_with_restarts(seconds, self.finished.interrupted.get(option.content, ()), self.now)

    def _slowdown_of(self, place: int) -> float:
        if place == self.running:
            return self.slowdown
        measured = self.trial and self.is_other_kind(place)  # it has run: only the machine can be another
        return self.finished.slowed if measured else self.slowdown_of_others

    def _meets_exhausted(self, option: Option, done: Done) -> bool:
        needed = option.candidate.finish.needed(done)
        return any(
            left and (content, option.made_of[content]) in self.finished.exhausted
            for left, (_, content, _) in zip(needed, option.stages, strict=True)
        )


def seconds_with_restarts(seconds: float, interrupted: Sequence[float], now: float) -> float:
    """The expected seconds of a task that starts from zero whenever it is interrupted, as often as it was so far.

    Source: with interruptions at a constant rate r, a task of t seconds ends after (exp(r t) - 1) / r seconds in the
    mean. The first interruption does not count: there may be no other. interrupted: the seconds for which its attempts
    had run; it takes longer than each. now: seconds since the job began.

    >>> seconds_with_restarts(10.0, (4.0,), 20.0), round(seconds_with_restarts(10.0, (4.0, 12.0, 2.0), 20.0), 1)
    (10.0, 23.2)
    """
    again = len(interrupted) - 1
    if again < 1 or now <= 0:
        return seconds
    rate = again / now
    return expm1(min(_MOST_RESTARTS, rate * max(seconds, *interrupted))) / rate


@value
class Stay:
    """The running plan goes on.

    reason: why, as a clause.
    again: seconds after which the question is to be asked again, even if nothing happens. slots: how many to take at
    most; None: all that can be had.
    """

    reason: str
    candidates: tuple[Remaining, ...]
    again: float = inf
    slots: float | None = None


@value
class Switch:
    """Another plan follows.

    plan: its place among the options. keep: its stages of which something finished is used.
    work_left_out: seconds of finished work that it has no use for. stages_back: see :func:`stages_back`. again, slots:
    as in :class:`Stay`.
    """

    plan: int
    keep: tuple[StageId, ...]
    work_left_out: float
    candidates: tuple[Remaining, ...]
    stages_back: int = 0
    again: float = inf
    slots: float | None = None


Decision = Stay | Switch


def switch_to(question: DecisionInput, place: int) -> Switch:
    """The decision for an option, with all that there is to say about it."""
    left_out, back = question.left_out(place), question.stages_back(place)
    return Switch(place, question.keep(place), left_out, question.remaining, back)


class Policy(Protocol):
    """Decides on a question. Returns a value and applies nothing (law 6); must be a pure function."""

    def decide(self, question: DecisionInput) -> Decision: ...
