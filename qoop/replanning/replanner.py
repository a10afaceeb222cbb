"""When to think again about the plan of a running job, and what becomes of the answer.

    history of the run ──Triggers──> causes ──debounce──> Question ──planner thread──> Answer ──> Decided, switch

:class:`Replanner` is the state machine of one job: values in, values out, no thread and no clock (law 2). The
cluster turns it, has its questions answered off the critical path while the current plan keeps running, and gives
it the answers; an answer that comes too late, after the share has changed or the plan, is thrown away and the
question asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from qoop.engine.events import Command
from qoop.engine.history import (
    Decided,
    MemoryExhausted,
    MemoryRaised,
    Record,
    ShareTold,
    StageDone,
    Switched,
    size,
)
from qoop.engine.progress import Finished
from qoop.engine.run import Run
from qoop.engine.task import CheckpointKey, Content, JobId, content_of, own_islands
from qoop.planner.estimate.observed import NOTHING, Observation, Observations, observe
from qoop.planner.plan import Plan, Resources, StageId
from qoop.planner.search.candidate import Candidate, plan_name
from qoop.replanning.decision import Decision, Greedy, Option, Policy, Question, Stay, Switch, reestimate, runs, useful
from qoop.replanning.demand import on_slots, useful_room

SEARCH_SECONDS = 0.03
"""About how long the search for alternatives takes one core, for each stage of the launch plan."""

EAGER_PART = 0.02
"""Part of the estimated time that the search may take if it is made as soon as the plan starts. Where it would take
more, it is made when first there is reason to switch."""

WORTH_PART = 0.05
"""Part of what is left that the search may take then: most searches find no plan worth going over to."""

WORTH_SECONDS = 0.3
"""Estimated seconds left below which it is not worth searching again."""

MOST_OPTIONS = 32
"""Plans of a job from which on the search does not run again."""


@dataclass(frozen=True)
class Cause:
    """Why to decide. what: a clause. kind: of several causes of one kind only the last counts.

    urgent: there is nothing to wait for (no debounce).
    """

    kind: str
    what: str
    urgent: bool = False


@dataclass(frozen=True)
class Triggers:
    """Which records of a run are reasons to decide anew.

    share: fraction by which the share must have changed, in any resource, since the last decision.
    rows: factor by which the rows of a finished stage must differ from the estimate, and `least_rows` the number
        that one of both must reach to matter.
    search: factor by which the best plan known takes longer than was believed before the rows were known, from which
        on the search runs again, with what was seen in place of estimates.
    quiet: seconds without a further change after which a decision is taken; a burst of changes is one decision.
    longest: seconds after the first change when it is taken even so.
    """

    share: float = 0.10
    rows: float = 4.0
    least_rows: float = 10_000
    search: float = 2.0
    quiet: float = 0.01
    longest: float = 0.1

    def cause(self, record: Record, basis: Resources, without_a_slot: bool = False) -> Cause | None:
        """What the record gives reason for. basis: the share at the last decision; without_a_slot: it had none, though
        plans are made for one at least."""
        match record:
            case ShareTold(_, share) if changed(basis, share) > self.share:
                before = replace(basis, cpu=0.0) if without_a_slot and share.cpu > 0 else basis
                return Cause("share", f"the share {_movement(before, share)}")
            case StageDone(_, stage, _, rows, _, _, estimated) if self.misjudged(rows, estimated):
                return Cause(
                    f"rows of {stage}", f"stage {stage} had {rows:,} rows where {estimated:,.0f} were expected"
                )
            case MemoryRaised(_, stage, before, _):
                return Cause(f"memory of {stage}", f"stage {stage} ran out of {size(before)} of memory")
            case MemoryExhausted(_, stage, had):
                return Cause(f"memory of {stage}", f"stage {stage} ran out of {size(had)}, all there is", urgent=True)
        return None

    def misjudged(self, rows: float, estimated: float) -> bool:
        """True if the two numbers of rows are a reason to think again."""
        low, high = sorted((max(1.0, rows), max(1.0, estimated)))
        return high >= self.least_rows and high > self.rows * low


def changed(before: Resources, after: Resources) -> float:
    """By which fraction of what it was a share has changed, in the resource where that is most.

    >>> changed(Resources(4, 100), Resources(3, 100))
    0.25
    """
    pairs = ((before.cpu, after.cpu), (before.memory, after.memory), (before.network, after.network))
    return max((abs(new - old) / old if old else inf) if new != old else 0.0 for old, new in pairs)


def _movement(before: Resources, after: Resources) -> str:
    if before.cpu != after.cpu:
        return f"{'fell' if after.cpu < before.cpu else 'rose'} from {before.cpu:g} to {after.cpu:g} slots"
    verb = "fell" if after.memory < before.memory else "rose"
    return f"{verb} from {size(before.memory)} to {size(after.memory)} of memory"


Find = Callable[[Observations], Sequence[Candidate]]


@dataclass(frozen=True)
class Adaptive:
    """Lets a job change plan.

    find: makes the alternatives, given what is known better than when its statistics were collected. Called in
        the planner thread, at most once for the start and once for every time that no known plan is good; a pure
        function. at_once: it has them ready (a plan cache), so it is called at the start.
    room: the share that the plan was made for. settle: the scheduler is told how much room the chosen plan has a use
    for (:mod:`qoop.schedulers.settling`). begin_with: slots that are taken at most until the first decision, where that
    decides on slots, too; None: all.
    """

    find: Find
    room: Resources
    at_once: bool = False
    policy: Policy = field(default_factory=Greedy)
    triggers: Triggers = field(default_factory=Triggers)
    settle: bool = False
    begin_with: float | None = None


@dataclass(frozen=True)
class Answer:
    """A decision.

    question: with the options as they are by now; found: the alternatives are among them. served: the options as they
    were decided on, with the finished work of others built in. observed: what the options were estimated with.
    searched: what a search for plans that were not known has found; None: there was none.
    seconds: that the answer took; searching: of these, for that search. wanted: the most room that the plan which runs
    from now on has a use for, if that is to be told.
    """

    question: Question
    served: tuple[Option, ...]
    decision: Decision
    found: bool
    observed: Observations
    searched: tuple[Candidate, ...] | None
    seconds: float
    searching: float = 0.0
    wanted: Resources | None = None

    @property
    def runs(self) -> int:
        """The place of the plan that runs from now on."""
        return self.decision.plan if isinstance(self.decision, Switch) else self.question.running

    @property
    def options(self) -> tuple[Option, ...]:
        """The options from now on: the one that is switched to is as it runs."""
        return tuple(
            self.served[place] if place == self.runs else option for place, option in enumerate(self.question.options)
        )


Seen = tuple[Plan, StageId, Observation]


@dataclass(frozen=True)
class Useful:
    """What to keep of what the running plan of some options has read for the last time."""

    options: tuple[Option, ...]
    running: int
    contents: frozenset[Content]


Work = Callable[[], Answer | Useful]


class Replanner:
    """The re-planning of one job.

    `turn` is called whenever something may have happened, `due` says until when it wants to be called again at the
    latest; the work that `turn` returns is to be done anywhere, and its answer given to `take`.
    """

    def __init__(self, job: JobId, adaptive: Adaptive, run: Run, launch: Plan) -> None:
        self._job = job
        self._adaptive = adaptive
        self._run = run
        self._options: tuple[Option, ...] = (Option(plan_name(0), Candidate(launch, "launch")),)
        self._running = 0
        self._found = False
        self._basis = adaptive.room
        self._seen = 0
        self._begun = False
        self._plan = launch
        self._news: list[Seen] = []
        self._surprises = 0
        self._told = NOTHING
        self._waiting: dict[str, Cause] = {}
        self._first = self._last = 0.0
        self._asked: tuple[Cause, ...] = ()
        self._unsifted = False
        self._pinned = False
        self._shares: list[tuple[float, Resources]] = []
        self._wagers = Wagers()
        self._again = inf
        self._wanted: Resources | None = None
        self._slots = adaptive.begin_with

    @property
    def slots(self) -> float | None:
        """How many slots the job takes at most; None: all that it is given."""
        return self._slots

    @property
    def wanted(self) -> Resources | None:
        """The most room that the plan has a use for; None: not told."""
        return self._wanted

    @property
    def options(self) -> tuple[Option, ...]:
        """The plans known so far."""
        return self._options

    @property
    def due(self) -> float | None:
        """When the next question is to be asked, if one is waiting."""
        share = self._run.share
        if self._asked or self._run.ending or share is None or share.cpu <= 0:
            return None
        if not self._waiting:
            return self._again if self._again < inf else None
        if any(cause.urgent for cause in self._waiting.values()):
            return self._first
        triggers = self._adaptive.triggers
        return min(self._last + triggers.quiet, self._first + triggers.longest)

    def turn(self, now: float) -> Work | None:
        """Look at what is new; return a question to be answered, if it is time for one."""
        self._look(now)
        if now >= self._again:
            self._again = inf
            self._wait(Cause("again", "the last decision was for a time only", urgent=True), now)
        due = self.due
        if due is not None and now >= due:
            return self._ask(now)
        if self._unsifted and not self._asked:
            self._unsifted = False
            options, running = self._options, self._running
            return lambda: Useful(options, running, useful(options, running))
        return None

    def reconsider(self, why: str, now: float) -> None:
        """Have a decision taken for a reason of the caller's."""
        self._wait(Cause("request", why, urgent=True), now)

    def pin(self) -> None:
        """Rows of the root are being handed out: change only to plans that can take them over."""
        self._pinned = True

    def _as_pinned(self, answer: Answer) -> Answer:
        """The answer, staying where it would have rows made again that have been handed out."""
        decision = answer.decision
        if not self._pinned or not isinstance(decision, Switch):
            return answer
        old, new = answer.question.options[answer.question.running], answer.served[decision.plan]
        (_, before, _), (_, after, usable) = old.stages[-1], new.stages[-1]
        if usable and before == after:
            return answer
        why = "rows of the answer have been handed out, which the other plan would make again"
        return replace(answer, decision=Stay(why, decision.candidates))

    def unseen(self, answer: Answer | Useful) -> list[CheckpointKey]:
        """Outputs of plans that come with an answer, and of the one that it changes to, that the job has not got: they
        may be there, made by another process or let go of since."""
        if isinstance(answer, Useful) or self._run.ending:
            return []
        fresh = answer.question.options[len(self._options) :]
        if isinstance(answer.decision, Switch):
            fresh = (*fresh, answer.served[answer.runs])
        keys = (
            CheckpointKey(*content, part)
            for option in fresh
            for stage, content, usable in option.stages
            if usable
            for part in range(stage.width)
        )
        return self._run.lacks(dict.fromkeys(keys))

    def take(self, answer: Answer | Useful, now: float, found: int = 0) -> list[Command]:
        """Apply an answer, if it still holds; else the question is asked again.

        found: how many of the outputs that were `unseen` are there: it was decided without them.
        """
        if isinstance(answer, Useful):
            current = len(answer.options) == len(self._options) and answer.running == self._running
            return self._run.keep_only(answer.contents, now=now) if current else []
        causes, self._asked = self._asked, ()
        self._unsifted |= len(answer.question.options) != len(self._options)
        self._options, self._found, self._told = answer.question.options, answer.found, answer.observed
        share = self._run.share
        if self._run.ending or share is None:
            return []
        if found:
            self._wait(Cause("found", f"{found} outputs of other plans were found", urgent=True), now)
        if found or changed(answer.question.share, share) > self._adaptive.triggers.share:
            self._waiting = {cause.kind: cause for cause in causes} | self._waiting
            return []
        before, self._basis = self._basis, answer.question.share
        commands = self._apply(self._as_pinned(answer), " and ".join(cause.what for cause in causes), before, now)
        stuck = self._run.stuck
        if stuck is None or not self._run.exhausted <= answer.question.finished.exhausted:
            return commands  # what has run out of memory since is a question of its own
        return commands + self._run.fail(stuck, now=now)

    def _look(self, now: float) -> None:
        history = self._run.history
        while self._seen < len(history):
            record = history[self._seen]
            self._seen += 1
            match record:
                case ShareTold(at, share):
                    self._shares.append((at, share))
                    self._waiting.pop("share", None)  # it may have come back to what it was
                case Switched(_, number):
                    self._plan = self._run.plans[number - 1]
                case StageDone(_, stage, _, rows, size_of, _, estimated):
                    self._news.append((self._plan, stage, Observation(rows, size_of)))
                    self._surprises += self._adaptive.triggers.misjudged(rows, estimated)
            cause = self._adaptive.triggers.cause(record, self._basis, self._without_a_slot)
            if cause is not None:
                self._wait(cause, now)
        if not self._begun and self._run.plans and self._run.share is not None:
            self._begun = True
            searching = search_seconds(self._options[0].candidate.plan)
            if self._adaptive.at_once or searching <= EAGER_PART * self._work_left(self._run.share):
                self._wait(Cause("start", "the alternatives became known", urgent=True), now)

    @property
    def _without_a_slot(self) -> bool:
        """True if the job began without one and nothing has been decided since."""
        return self._basis is self._adaptive.room and bool(self._shares) and self._shares[0][1].cpu == 0

    def _wait(self, cause: Cause, now: float) -> None:
        if not self._waiting:
            self._first = now
        self._last = now
        self._waiting[cause.kind] = cause

    def _work_left(self, share: Resources) -> float:
        """Seconds that the launch plan takes at least on the share: cheap, for it is asked of every query."""
        stages = self._options[0].candidate.plan.stages
        return sum(stage.width * stage.estimate.task_seconds for stage in stages) / max(1.0, share.cpu)

    def _ask(self, now: float) -> Work:
        self._asked, self._waiting = tuple(self._waiting.values()), {}
        assert self._run.share is not None
        finished = self._run.finished(now)
        question = Question(
            self._options,
            self._running,
            finished,
            self._run.share,
            self._surprises,
            now - self._run.began,
            tuple(self._shares),
            self._wagers.until(finished),
        )
        news, self._news = tuple(self._news), []
        asked = Asked(question, self._told, news, self._adaptive, self._job, self._found)
        return lambda: answer(asked)

    def _apply(self, answer: Answer, cause: str, before: Resources, now: float) -> list[Command]:
        record = recorded(answer, cause, before)
        self._run.note(record, now=now)
        self._wagers = self._wagers.after(answer)
        self._again = now + answer.decision.again
        self._wanted, self._slots = answer.wanted, answer.decision.slots
        if not isinstance(answer.decision, Switch):
            return []
        self._running = answer.decision.plan
        self._options = answer.options
        self._unsifted = True
        return self._run.switch(self._options[self._running].candidate.plan, now=now)


@dataclass(frozen=True)
class Wagers:
    """What was run against the advice of greed.

    wasted: seconds of tasks, up to the last decision. useful: what the plan that greed wanted then can use of what was
    run since; None: it has its way. spent: seconds of tasks of each content at the last decision.
    """

    wasted: float = 0.0
    useful: frozenset[Content] | None = None
    spent: Mapping[Content, float] = field(default_factory=dict)

    def until(self, finished: Finished) -> float:
        """Seconds of tasks by now that the plan which greed wanted has no use for."""
        if self.useful is None:
            return self.wasted
        new = (
            max(0.0, seconds - self.spent.get(content, 0.0))
            for content, seconds in finished.worked.items()
            if content not in self.useful
        )
        return self.wasted + sum(new)

    def after(self, answer: Answer) -> Wagers:
        """With a decision."""
        question, against = answer.question, answer.decision.against
        useful = answer.served[against].contents if against is not None else None
        return Wagers(self.until(question.finished), useful, question.finished.worked if useful is not None else {})


def recorded(answer: Answer, cause: str, before: Resources) -> Decided:
    """The answer as it goes down in the history of the job."""
    question, decision = answer.question, answer.decision
    switch = decision if isinstance(decision, Switch) else None
    return Decided(
        at=0.0,
        cause=cause,
        before=before,
        after=question.share,
        running=question.options[question.running].name,
        chosen=question.options[answer.runs].name,
        reason=decision.reason if isinstance(decision, Stay) else "",
        candidates=decision.candidates,
        kept=switch.keep if switch is not None else (),
        work_left_out=switch.work_left_out if switch is not None else 0.0,
        planner_seconds=answer.seconds,
        search_seconds=answer.searching,
        stages_back=switch.stages_back if switch is not None else 0,
    )


@dataclass(frozen=True)
class Asked:
    """A question with what its answer takes. told: what was observed when the options were estimated; news: since
    then. found: the alternatives are among the options."""

    question: Question
    told: Observations
    news: tuple[Seen, ...]
    adaptive: Adaptive
    job: JobId
    found: bool

    @cached_property
    def observed(self) -> Observations:
        """All that was observed."""
        observed = self.told
        for plan, stage, observation in self.news:
            observed = observed | observe(plan, {stage: observation})
        return observed


def answer(asked: Asked) -> Answer:
    """Decide on a question; makes the alternatives first, if that was not done and there is time for it.

    Pure, and the only place where planning takes time: this runs in the planner thread.
    """
    begun = time.perf_counter()
    question = reestimate_all(asked.question, asked.observed)
    left = question.remaining[question.running].seconds
    launch = question.options[0].candidate.plan
    found = asked.found or asked.adaptive.at_once or search_seconds(launch) <= WORTH_PART * left
    candidates, searching = None, 0.0
    if found and (not asked.found or _none_is_good(asked, question)):
        since = time.perf_counter()
        candidates = tuple(asked.adaptive.find(asked.observed))
        question = searched(asked, question, candidates)
        searching = time.perf_counter() - since
    served = question.with_reuse() if found else question
    little = Stay("too little is left to make other plans", question.remaining)
    decision = asked.adaptive.policy.decide(served) if found else little
    wanted = wanted_by(served, decision) if asked.adaptive.settle and found else None
    seconds = time.perf_counter() - begun
    return Answer(question, served.options, decision, found, asked.observed, candidates, seconds, searching, wanted)


def wanted_by(question: Question, decision: Decision) -> Resources:
    """The most room that the plan which is decided for has a use for."""
    if decision.slots is not None:
        return on_slots(question.share, decision.slots)
    place = runs(question, decision)
    return useful_room(question.options[place].candidate.finish, question.done[place], question.share)


def search_seconds(launch: Plan) -> float:
    """About how long the search for alternatives of a launch plan takes."""
    return SEARCH_SECONDS * len(launch.stages)


def searched(asked: Asked, question: Question, found: Sequence[Candidate]) -> Question:
    """The question with the plans that a search found, given all that was observed."""
    options = with_candidates(question.options, found, asked.job)
    return reestimate_all(replace(question, options=options), asked.observed)


def reestimate_all(question: Question, observed: Observations) -> Question:
    """The question with the estimates of its options put right."""
    if not observed.by_signature and not question.finished.memory:
        return question
    options = tuple(reestimate(option, observed, question.finished.memory) for option in question.options)
    same = all(new is old for new, old in zip(options, question.options, strict=True))
    return question if same else replace(question, options=options)


def _none_is_good(asked: Asked, question: Question) -> bool:
    """True if even the best option takes much longer than was believed before the news."""
    if len(question.options) >= MOST_OPTIONS or question is asked.question or question.least < WORTH_SECONDS:
        return False
    return question.least > asked.adaptive.triggers.search * asked.question.least


def with_candidates(options: tuple[Option, ...], found: Sequence[Candidate], job: JobId) -> tuple[Option, ...]:
    """The options and those of the found plans that are not among them, with islands of the job's own."""
    if len(options) == 1 and found:  # of the launch plan only the plan was known, not the machine it is judged by
        options = (replace(options[0], candidate=replace(found[0], plan=options[0].candidate.plan, origin="launch")),)
    known = {_sketch(option.candidate.plan) for option in options}
    result = list(options)
    for candidate in found:
        plan = own_islands(candidate.plan, job)
        if _sketch(plan) not in known:
            known.add(_sketch(plan))
            result.append(Option(plan_name(len(result)), replace(candidate, plan=plan)))
    return tuple(result)


def _sketch(plan: Plan) -> tuple[object, ...]:
    """What makes two plans of one query the same: what their stages put out and how many slots a task has."""
    return tuple((content_of(stage), stage.slots) for stage in plan.stages)
