"""The re-planner of a running job: it asks when there is reason to, and acts on the answer.

    history of the run ──Triggers──> causes ──debounce──> DecisionInput ──planner thread──> Answer ──> Decided, switch

:class:`Replanner` is the state machine of one job: values in, values out, no thread and no clock (law 2). The
cluster turns it, has its questions answered off the critical path while the current plan keeps running, and gives
it the answers; an answer that comes too late, after the share has changed or the plan, is thrown away and the
question asked again.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.answers import Answer, PlannerRequest, StageNews, Useful, Work, answer, search_seconds
from qoop.adaptive.replanning.decision import AGAIN, MISSED, SHARE, START, DecisionInput, Option, Stay, Switch, useful
from qoop.adaptive.replanning.observed_seconds import ObservedSeconds
from qoop.adaptive.replanning.triggers import Cause, relative_change
from qoop.adaptive.schedulers.shares import whole_slot
from qoop.catalog.sizes import counted
from qoop.engine.events import Command
from qoop.engine.history import Coming, Decided, Record, ShareReported, StageDone, Switched
from qoop.engine.run import Run
from qoop.engine.task import CheckpointKey, JobId
from qoop.planner.estimate.observed import NOTHING, Observation
from qoop.planner.plan import Plan, Resources
from qoop.planner.search.candidate import Candidate, plan_name

EAGER_PART = 0.02
"""Part of the estimated time that the search may take if it is made as soon as the plan starts. Where it would take
more, it is made when first there is reason to switch."""


LATE = 1.0
"""Seconds after which what was expected, and has not come, is no longer waited for."""

FAR = 4.0
"""A share that should come after that many times the seconds that the work should take is no reason to decide."""

CHECK_AGAIN = 1.0
"""Seconds after which to look again at DuckDB's plan of a query, and after the same time once more; of what it does
until its end nothing else is heard."""


TRIAL_PART, LEAST_TRIAL = 0.1, 0.03
"""The part of the seconds of the known plan, and the seconds at least, after which to look at a plan on trial first.
Each time as long again, so there are few looks however long it takes."""

TRIAL = "a plan is on trial"
_AT_START = Cause(START, "the alternatives became known", urgent=True)


class Replanner:
    """The re-planning of one job.

    `tick` is called whenever something may have happened, `due` says until when it wants to be called again at the
    latest; the work that `tick` returns is to be done anywhere, and its answer given to `take`.

    slowdown: see `JobRequest`.
    """

    def __init__(self, job: JobId, adaptive: Adaptive, run: Run, launch: Plan, slowdown: float = 1.0) -> None:
        self._job = job
        self._adaptive = adaptive
        self._run = run
        self._options: tuple[Option, ...] = (Option(plan_name(0), Candidate(launch, "launch"), slowdown=slowdown),)
        self._running = 0
        self._found = False
        self._basis = adaptive.available
        self._read = 0
        self._begun = False
        self._plan = launch
        self._news: list[StageNews] = []
        self._seconds = ObservedSeconds()
        self._misestimates = 0
        self._observed = NOTHING
        self._waiting: dict[str, Cause] = {}
        self._first = self._last = 0.0
        self._requested: tuple[Cause, ...] = ()
        self._unsifted = False
        self._pinned = False
        self._first_share: Resources | None = None
        self._coming: Coming = ()  # shares that are expected
        self._counted_on: Coming = ()  # those that the last decision counts on, and that have still to come
        self._losses = 0
        self._again = inf
        self._first_check: float | None = None  # undisturbed seconds of DuckDB's plan until then
        self._search_put_off = False  # the search that was put off until then
        self._tried = False
        self._chosen_at: float | None = None  # when the plan was that runs
        self._slots = adaptive.begin_with
        self._again_at_once = False  # plans are compared again, since the quick search took its time

    @property
    def slots(self) -> float | None:
        """The most slots that the job takes; None: all that it is given."""
        return self._slots

    @property
    def options(self) -> tuple[Option, ...]:
        """The plans known so far."""
        return self._options

    @property
    def kept(self) -> tuple[Option, ...]:
        """The same, the one that runs first."""
        place = self._running
        return (self._options[place], *self._options[:place], *self._options[place + 1 :])

    @property
    def option(self) -> Option:
        """The one of them that runs, with the estimates of the last decision."""
        return self._options[self._running]

    @property
    def due(self) -> float | None:
        """The time to ask the next question, if one is waiting."""
        share = self._share
        if self._requested or self._over or share is None or share.cpu <= 0:
            return None
        if not self._waiting:
            again = min(self._again, self._late_at)
            return again if again < inf else None
        if any(cause.urgent for cause in self._waiting.values()):
            return self._first
        triggers = self._adaptive.triggers
        return min(self._last + triggers.quiet, self._first + triggers.longest)

    def tick(self, now: float) -> Work | None:
        """Look at what is new; return a question to be answered, if it is time for one."""
        self._read_news(now)
        if now >= self._again and not self._puts_off(now):
            self._again = inf
            self._wait(self._cause_of_time(), now)
        if now >= self._late_at:
            self._check_lateness(now)
        due = self.due
        if due is not None and now >= due:
            return self._request(now)
        if self._unsifted and not self._requested:
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
        if isinstance(answer, Useful) or self._over:
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
        return self._run.missing(dict.fromkeys(keys))

    def take(self, answer: Answer | Useful, now: float, found: int = 0) -> list[Command]:
        """Apply an answer, if it still holds; else the planner is requested again.

        found: how many of the outputs that were `unseen` are there: it was decided without them.
        """
        if isinstance(answer, Useful):
            current = len(answer.options) == len(self._options) and answer.running == self._running
            return self._run.keep_only(answer.contents, now=now) if current else []
        causes, self._requested = self._requested, ()
        if self._over:
            return []
        self._unsifted |= len(answer.question.options) != len(self._options)
        self._options, self._found, self._observed = answer.question.options, answer.found, answer.observed
        share = self._share
        if share is None:
            return []
        if found:
            words = f"{counted(found, 'output')} of other plans {'was' if found == 1 else 'were'} found"
            self._wait(Cause("found", words, urgent=True), now)
        late = self._late(answer)
        if found or late or self._otherwise(answer, share, now):
            self._waiting = {cause.kind: cause for cause in causes} | self._waiting
            self._again_at_once = late and answer.question.quick_search
            return []
        before, self._basis = self._basis, answer.question.share
        commands = self._apply(self._as_pinned(answer), " and ".join(cause.what for cause in causes), before, now)
        stuck = self._run.stuck
        if stuck is None or not self._run.exhausted <= answer.question.finished.exhausted:
            return commands  # what has run out of memory since is a question of its own
        return commands + self._run.fail(stuck, now=now)

    def _late(self, answer: Answer) -> bool:
        """True if DuckDB's plan has gone on, unseen, while others were searched for: it may nearly have ended, and what
        it reports by now tells more than its estimate."""
        return answer.searched is not None and self._by_duckdb and isinstance(answer.decision, Switch)

    def _otherwise(self, answer: Answer, share: Resources, now: float) -> bool:
        """True if the share, or what it should be later, has changed since the request."""
        triggers, since = self._adaptive.triggers, now - self._run.began
        moved = relative_change(answer.question.share, share) > triggers.share
        return moved or triggers.expects_otherwise(since, answer.question.coming, self._coming)

    def _read_news(self, now: float) -> None:
        """Take the records of the run that are new."""
        history, timed = self._run.history, False
        while self._read < len(history):
            record = _in_whole_slots(history[self._read])
            self._read += 1
            self._note(record)
            timed |= self._seconds.take(record, self._plan)
            cause = self._cause(record)
            if cause is not None:
                self._wait(cause, now)
        if timed:
            self._check_seconds(now)
        if not self._begun and self._run.plans and self._share is not None:
            self._begin(self._share, now)

    def _note(self, record: Record) -> None:
        """Remember what a record says of the share, the plan and the rows of stages."""
        match record:
            case ShareReported(_, share, coming):
                if self._first_share is None:
                    self._first_share = share
                self._coming = coming
                self._waiting.pop(SHARE, None)  # it may have come back to what it was
            case Switched(_, number):
                self._plan = self._run.plans[number - 1]
                if self._run.on_fallback:
                    self._end_at_fallback()
            case StageDone(_, stage, _, rows, size_of, _, estimated):
                self._news.append((self._plan, stage, Observation(rows, size_of)))
                self._misestimates += self._adaptive.triggers.misjudged(rows, estimated)

    def _cause(self, record: Record) -> Cause | None:
        """The reason to decide that a record is; None: it is none."""
        triggers = self._adaptive.triggers
        cause = triggers.cause(record, self._basis, self._without_a_slot)
        if cause is None and isinstance(record, ShareReported):
            return triggers.expectation(record, self._counted_on, self._horizon(record.at))
        return cause

    def _begin(self, share: Resources, now: float) -> None:
        """The first plan runs: search for others now, after a first look at DuckDB's plan, or when there is reason."""
        self._begun = True
        self._chosen_at = now
        left = self._work_left(share)
        at_once = self._adaptive.at_once or self._is_search_cheap(left)
        if at_once and not (self._by_duckdb and self._adaptive.search_after):
            self._wait(_AT_START, now)
        elif self._by_duckdb:
            first = self._adaptive.search_after if at_once else max(CHECK_AGAIN, 2.0 * left)
            self._first_check, self._again, self._search_put_off = first, now + first, at_once
        self._again = min(self._again, self._check_trial(now))

    def _cause_of_time(self) -> Cause:
        """The reason to decide that lies in the time alone."""
        if self._search_put_off:
            return _AT_START
        why = "DuckDB's plan has not ended" if self._by_duckdb else "the last decision was for a time only"
        return Cause(AGAIN, TRIAL if self._on_trial else why, urgent=True)

    def _puts_off(self, now: float) -> bool:
        """Put the first look at DuckDB's plan off by the time that other programs have slowed it: the search for other
        plans would take as much CPU time as the plan has had."""
        seconds, self._first_check = self._first_check, None
        if seconds is None or self._on_trial:
            return False
        later = self._run.began + seconds * self._run.slowed
        if later <= now:
            return False
        self._first_check, self._again = seconds, later
        return True

    def _is_search_cheap(self, left: float) -> bool:
        """True if the search for other plans takes little of the seconds that are left."""
        return search_seconds(self._options[0].candidate.plan) <= EAGER_PART * left

    def _check_seconds(self, now: float) -> None:
        """Functions or tables have reported their seconds. An open request may correct all estimates by itself."""
        if self._requested or self._over:
            return
        option = self._options[self._running]
        left = {stage.id: tasks for stage, tasks in self._run.left() if stage.id in option.candidate.plan.by_id}
        cause = self._adaptive.triggers.seconds_cause(option, left, self._observed | self._seconds.observed)
        if cause is not None:
            self._wait(cause, now)

    def _end_at_fallback(self) -> None:
        """The run has changed to its fallback plan, and keeps it: there is nothing to decide."""
        last = Option(plan_name(len(self._options)), Candidate(self._plan, "DuckDB"))
        self._options, self._running = (*self._options, last), len(self._options)
        self._slots = None

    @property
    def _over(self) -> bool:
        """True if the plan is not to change any more."""
        return self._run.ending or self._run.on_fallback

    @property
    def _share(self) -> Resources | None:
        """The share that plans are compared on."""
        share = self._run.share
        return share and whole_slot(share)

    @property
    def _by_duckdb(self) -> bool:
        """True while DuckDB's own plan of the query runs."""
        return self.option.by_duckdb

    @property
    def _on_trial(self) -> bool:
        """True while a plan of another kind runs than the one that is known."""
        known = self._adaptive.known
        return known is not None and known.by_duckdb != self._by_duckdb and not self._tried

    def _trial(self, now: float) -> float:
        """The part of the seconds of the known plan for which another has been on trial; 0: none is."""
        known = self._adaptive.known
        if known is None or not self._on_trial or self._chosen_at is None:
            return 0.0
        return max(1e-9, (now - self._chosen_at) / max(known.seconds * self._run.slowed, 1e-9))

    def _check_trial(self, now: float) -> float:
        """The time of the next look at a plan that is on trial; infinite: none is. One look is when it has taken as
        long as the known plan; from there on pauses are short again, and grow by half of what is over."""
        known, trial = self._adaptive.known, self._trial(now)
        if known is None or not trial:
            return inf
        seconds = known.seconds * self._run.slowed
        pause = max(LEAST_TRIAL, seconds * max(TRIAL_PART, trial if trial < 1.0 else (trial - 1.0) / 2.0))
        over = seconds * (1.0 - trial)
        return now + (over if 0.0 < over < 1.5 * pause else pause)

    @property
    def _without_a_slot(self) -> bool:
        """True if the job began without one and nothing has been decided since."""
        return self._basis is self._adaptive.available and self._first_share is not None and not self._first_share.cpu

    def _wait(self, cause: Cause, now: float) -> None:
        if not self._waiting:
            self._first = now
        self._last = now
        self._waiting[cause.kind] = cause

    def _work_left(self, share: Resources) -> float:
        """Seconds that the launch plan takes at least on the share: cheap, since every query computes it."""
        stages = self._options[0].candidate.plan.stages
        return sum(stage.width * stage.estimate.task_seconds for stage in stages) / max(1.0, share.cpu)

    def _request(self, now: float) -> Work:
        self._requested, self._waiting, self._search_put_off = tuple(self._waiting.values()), {}, False
        since = now - self._run.began
        kinds = tuple(cause.kind for cause in self._requested)
        quick, self._again_at_once = self._again_at_once and kinds == (START,), False
        assert self._share is not None
        question = DecisionInput(
            self._options,
            self._running,
            self._run.finished(now),
            self._share,
            self._misestimates,
            since,
            kinds,
            self._losses,
            tuple((at, share) for at, share in self._coming if at > since),
            quick_search=quick,
            trial=self._trial(now),
            tried=self._tried,
        )
        news, self._news = tuple(self._news), []
        request = PlannerRequest(
            question, self._observed, news, self._adaptive, self._job, self._found, self._seconds.observed
        )
        return lambda: answer(request)

    def _horizon(self, at: float) -> float:
        """The second of the job's life up to which it matters what should come, seen from another: all of it should
        have ended long before."""
        share = self._share
        return at + FAR * self._work_left(share) if share is not None else at

    @property
    def _late_at(self) -> float:
        """The time from which on what the last decision counts on is late."""
        return self._run.began + self._counted_on[0][0] + LATE if self._counted_on else inf

    def _check_lateness(self, now: float) -> None:
        """The time of what was expected is over: it has come, or plans are to be compared without it."""
        (_, expected), self._counted_on = self._counted_on[0], self._counted_on[1:]
        if self._share is not None and relative_change(expected, self._share) > self._adaptive.triggers.share:
            self._wait(Cause(MISSED, "what was expected has not come", urgent=True), now)

    def _until_check(self, answer: Answer, now: float) -> float:
        """Seconds until the next look at DuckDB's plan, which goes on: after a quick search, once it should have ended,
        for that look searches among all plans."""
        left = answer.question.remaining[answer.question.running].seconds if answer.question.quick_search else 0.0
        return max(CHECK_AGAIN, now - self._run.began, left if left < inf else 0.0)

    def _apply(self, answer: Answer, cause: str, before: Resources, now: float) -> list[Command]:
        record = recorded(answer, cause, before)
        self._run.note(record, now=now)
        if answer.question.quick_search and self._is_search_cheap(answer.question.least):
            self._wait(Cause("search", "there is time to look for more plans", urgent=True), now)
        self._again = now + answer.decision.again
        self._counted_on = answer.question.coming
        self._slots = answer.decision.slots
        if not isinstance(answer.decision, Switch):
            if self._by_duckdb:
                self._again = min(self._again, now + self._until_check(answer, now))
            self._again = min(self._again, self._check_trial(now))
            return []
        self._losses += not answer.question.quick_search and answer.question.loses(answer.decision.plan)
        was_on_trial = self._on_trial
        self._running = answer.decision.plan
        self._options = answer.options
        self._tried |= was_on_trial and not self._on_trial
        self._chosen_at = now
        self._again = min(self._again, self._check_trial(now))
        self._unsifted = True
        return self._run.switch(self._options[self._running].candidate.plan, now=now)


def _in_whole_slots(record: Record) -> Record:
    """The record with shares in whole slots, on which plans are compared."""
    if not isinstance(record, ShareReported):
        return record
    coming = tuple((at, whole_slot(share)) for at, share in record.coming)
    return replace(record, share=whole_slot(record.share), coming=coming)


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
        coming=question.coming,
    )
