"""A sweep: carries out the orders of its program (:mod:`qoop.programs.sweeps.sweep`) with jobs of its session.

A thread of its own plans and starts steps, and takes their ends as messages. Predictions run in another one, so that
no step waits for those of other trials.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Literal, Protocol

from qoop.adaptive.program import Begin, End, Show, Stop
from qoop.catalog.errors import Cancelled, ExecutionError, QoopError, QueryError, SessionClosed
from qoop.catalog.value import value
from qoop.programs.sweeps.messages import (
    Abandoned,
    Due,
    Predict,
    ReadPieces,
    RunStep,
    RunWhole,
    Share,
    TrialFailed,
    TrialStepEnded,
    WholeEnded,
)
from qoop.programs.sweeps.prospects import predicted
from qoop.programs.sweeps.race import Race
from qoop.programs.sweeps.report import StepSpan, TrialStatus
from qoop.programs.sweeps.sweep import OPEN
from qoop.programs.sweeps.texts import parted

if TYPE_CHECKING:
    import pandas

    from qoop.adaptive.cluster.job_group import JobGroup
    from qoop.adaptive.program_log import MessageLog
    from qoop.adaptive.schedulers.terms import Terms
    from qoop.programs.iterate.planning import StepPlanning
    from qoop.programs.sweeps.contest import ContestQueries
    from qoop.programs.sweeps.journal import Journal
    from qoop.programs.sweeps.messages import Message, Order
    from qoop.programs.sweeps.optuna_source import OptunaSource
    from qoop.programs.sweeps.race import Racer
    from qoop.programs.sweeps.ray_scheduler import RayScheduler
    from qoop.programs.sweeps.space import Setting
    from qoop.programs.sweeps.sweep import Sweep, Trial, Why
    from qoop.programs.sweeps.texts import SweepTexts
    from qoop.query.job import Job, Planned
    from qoop.query.result import Result

_STATES = {
    "waiting": "WAITING", "running": "RUNNING", "predicting": "RUNNING", "parked": "WAITING", "complete": "COMPLETE",
    "pruned": "PRUNED", "failed": "FAIL",
}  # fmt: skip
Direction = Literal["maximize", "minimize"]
Prune = Literal["park", "kill"]
_RELEASE_SECONDS = 10.0
"""Seconds that a session waits for the end of a sweep, whose last step may be in the middle of a message."""
_OF_ALL = -1
"""In place of a trial: a query for several trials of a race."""
SIGNS: Mapping[Direction, float] = {"maximize": 1.0, "minimize": -1.0}
"""The factors from metrics to scores, of which the higher is better."""


@value
class StudyParts:
    """The parts of a sweep.

    steps: of each trial as `texts` reads them, or why one cannot be read.
    planning: of early steps, or of others. start: begins a job on the terms of the group.
    contest: the queries of a race; None: trials have steps, or run exactly, by `reason`.
    log: takes the messages to the program, see `Cluster.program_log`.
    judge: decides about trials, in place of predictions. source: proposes the settings of trials when they begin; then
    steps has only the first.
    """

    texts: SweepTexts
    steps: Sequence[str | QueryError]
    settings: Sequence[Setting]
    planning: Callable[[bool], StepPlanning]
    metric: str
    direction: Direction
    start: StartsOnTerms
    group: JobGroup
    contest: ContestQueries | None
    reason: str
    journal: Journal | None
    log: MessageLog | None
    judge: RayScheduler | None
    source: OptunaSource | None


class StartsOnTerms(Protocol):
    """Starts a planned query on terms and returns at once. follows: it continues another one, and does not queue."""

    def __call__(self, planned: Planned, /, *, terms: Terms, follows: bool = False) -> Job: ...


class Study:
    """A sweep that runs, made by :meth:`qoop.session.session.Session.sweep`. Thread-safe."""

    def __init__(
        self, parts: StudyParts, program: Sweep | Race, earlier: Sequence[Message], close: Callable[[], None]
    ) -> None:
        """earlier: the messages of processes before. close: releases what the sweep holds; called once, at its end."""
        self.name = "sweep"  # by which the session knows it
        self._parts, self._close = parts, close
        self._sign = SIGNS[parts.direction]
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._shown: list[TrialStatus] = []
        self._spans: list[StepSpan] = []
        self._answers: dict[int, Result] = {}  # of the last step of each trial
        self._texts: dict[int, str] = {}  # of the steps of trials that have begun
        self._best: Result | None = None
        self._running: dict[int, Job] = {}
        self._error: BaseException | None = None
        self._program, self._ended = program, False
        for message in earlier:
            self._program, _ = self._program.after(message)
        self._begun = time.monotonic() - self._program.at
        self._predicting = ThreadPoolExecutor(1, "qoop-prospects")
        parts.group.changed = partial(self._events.put, self._share_out)
        self._thread = threading.Thread(target=self._run, args=(bool(earlier),), name="qoop-sweep", daemon=True)
        self._thread.start()

    def events(self) -> Iterator[TrialStatus]:
        """The trials as their steps end, from the first on. Raises the error that ended the sweep."""
        place = 0
        while found := self._shown_from(place):
            yield from found
            place += len(found)
        self._raise()

    def _shown_from(self, place: int) -> list[TrialStatus]:
        with self._changed:
            self._changed.wait_for(lambda: place < len(self._shown) or self._ended)
            return self._shown[place:]

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most `timeout` seconds; True if the sweep has ended. Raises the error that ended it."""
        with self._changed:
            ended = self._changed.wait_for(lambda: self._ended, timeout)
        if ended:
            self._raise()
        return ended

    def stop(self) -> None:
        """End the sweep; what it has found stays. Returns when it has ended."""
        self._events.put(partial(self._send, Stop()))
        self._thread.join()

    def end_with_session(self) -> None:
        """End the sweep without an outcome: another session can go on with it. Returns when it has released its folder,
        or after some seconds."""
        self._events.put(_session_closed)
        if threading.current_thread() is not self._thread:
            self._thread.join(_RELEASE_SECONDS)

    @property
    def trials(self) -> list[TrialStatus]:
        """Each trial as it is now."""
        program = self._program
        kept = program.promising
        return [self._status(program, number, kept) for number in range(len(program.trials))]

    @property
    def best_params(self) -> Setting:
        """The setting with the best metric so far. Raises ExecutionError if no step has ended."""
        return self._parts.settings[self._best_number()]

    @property
    def best_value(self) -> float:
        """The best metric so far. Raises as `best_params`."""
        return self._sign * self._program.trials[self._best_number()].best

    def best_result(self) -> Result:
        """The rows of the step with the best metric so far. Raises as `best_params`."""
        self._best_number()
        if self._best is None:
            raise ExecutionError("no trial of the race is exact so far")
        return self._best

    def trials_dataframe(self) -> pandas.DataFrame:
        """A row a trial: its status, and a column `params_…` for each parameter."""
        from qoop.programs.sweeps.report import trials_frame

        return trials_frame(self.trials)

    @property
    def slots(self) -> int:
        """The steps that may run at once: as the share of the sweep is."""
        return self._program.slots

    @property
    def best_number(self) -> int | None:
        """The trial with the best metric so far; None: no step has ended."""
        return self._program.best if self._program.best >= 0 else None

    @property
    def direction(self) -> Direction:
        """ "maximize" or "minimize" the metric."""
        return self._parts.direction

    @property
    def target(self) -> float | None:
        """The metric that ends the sweep; None: there is none."""
        return self._metric(self._program.target)

    @property
    def curves(self) -> list[list[float]]:
        """The metrics of each trial's steps, in order."""
        return [[self._sign * score for score in trial.scores] for trial in self._program.trials]

    @property
    def spans(self) -> Sequence[StepSpan]:
        """The steps that have ended in this process, in the order of their ends."""
        return tuple(self._spans)

    @property
    def reason(self) -> str:
        """The reason not to race, for trials that are one query; empty: they race, or they have steps."""
        return self._parts.reason

    @property
    def why(self) -> Why:
        """The reason of the end; empty: the sweep goes on."""
        return self._program.why

    def __repr__(self) -> str:
        from qoop.programs.sweeps.report import summary

        return f"<Study {summary(self)}>"

    def _repr_html_(self) -> str:
        from qoop.programs.sweeps.report import study_html

        return study_html(self)

    # Inside: all of this runs in the thread of the sweep

    def _run(self, goes_on: bool) -> None:
        try:
            if goes_on and self._parts.journal is not None:
                self._go_on(self._parts.journal)
            else:
                self._send(Share(self._program.slots))  # the journal goes on in a process that may have other slots
                self._send(Begin())
            self._share_out()
            while self._program.state != "ended":
                try:
                    self._events.get(timeout=self._left())()
                except queue.Empty:
                    self._send(Due())
            if all(trial.state == "failed" for trial in self._program.trials):
                raise ExecutionError(f"all trials have failed, the first by: {self._program.trials[0].why}")
        except BaseException as error:
            self._error = error
        finally:
            self._end()

    def _end(self) -> None:
        for job in self._running.values():
            job.cancel()
        for job in self._running.values():
            job.wait()
        self._predicting.shutdown(cancel_futures=True)
        try:
            if self._parts.source is not None:
                self._parts.source.end(self)
        except BaseException as error:  # of the storage of an Optuna study
            self._error = self._error or error
        self._close()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _go_on(self, journal: Journal) -> None:
        """Order again what earlier processes had not done."""
        program = self._program
        if isinstance(program, Race):
            self._load_race(program, journal)
        else:
            self._load_steps(program, journal)
        for order in program.pending:
            self._do(order)

    def _load_steps(self, program: Sweep, journal: Journal) -> None:
        for number, trial in enumerate(program.trials):
            if trial.scores and trial.state in OPEN:
                self._answers[number] = journal.answer(number, len(trial.scores) - 1)
        if program.best >= 0:
            best = program.trials[program.best]
            self._best = journal.answer(program.best, best.scores.index(best.best, best.estimated))

    def _load_race(self, program: Race, journal: Journal) -> None:
        if self._parts.contest is not None and program.phase == "reading":
            for number in range(program.number):
                self._parts.contest.add(journal.answer(_OF_ALL, number).arrow())
        if program.best >= 0 and program.trials[program.best].state == "complete":
            self._best = journal.answer(program.best, len(program.trials[program.best].scores) - 1)

    def _share_out(self) -> None:
        """Report the slots of the group to the program, where these are others."""
        if self._parts.group.slots != self._program.slots:
            self._send(Share(self._parts.group.slots))

    def _left(self) -> float | None:
        within = self._program.within
        return None if within is None else max(0.0, within - self._now())

    def _now(self) -> float:
        return time.monotonic() - self._begun

    def _send(self, message: Message) -> None:
        if self._parts.log is not None:
            self._parts.log(self._program, message)
        self._program, orders = self._program.after(message)
        if self._parts.journal is not None:
            self._parts.journal.write(message)
        for order in orders:
            self._do(order)

    def _do(self, order: Order) -> None:
        match order:
            case RunStep():
                self._start_step(order)
            case Predict() if self._parts.judge is not None:
                status, last = self.trials[order.trial], self._sign * self._program.trials[order.trial].scores[-1]
                self._events.put(partial(self._send, self._parts.judge.decided(order, status, last)))
            case ReadPieces() | RunWhole():
                self._start_contest(order)
            case Predict():
                self._predicting.submit(self._predict, order, self._program.trials[order.trial].scores)
            case Show() | End():
                pass

    def _start_step(self, order: RunStep) -> None:
        trial, number = order.trial, order.number
        planning = self._parts.planning(order.early)
        before = self._answers.get(trial, self._parts.texts.former)
        try:
            planned = planning.plan(before, self._text(trial), self._slots_of_step())
            job = self._parts.start(planned, terms=self._parts.group.terms, follows=number > 0)
        except SessionClosed:
            raise  # the trial can go on in another session
        except QoopError as error:
            self._send(TrialFailed(trial, str(error), self._now()))
            return
        self._running[trial] = job
        begun = time.monotonic()
        job.when_ended(lambda: self._events.put(partial(self._step_ended, order, planning, job, begun)))

    def _slots_of_step(self) -> int:
        """The slots of one step, if as many run at once as the program holds slots for. To change the slots of a task
        while it runs takes longer than a short step."""
        return max(1, self._program.slots // max(1, self._program.busy))

    def _text(self, trial: int) -> str:
        """The step of a trial, with its metric. Raises QueryError."""
        if trial not in self._texts:
            self._texts[trial] = self._parts.texts.measured(self._step(trial))
        return self._texts[trial]

    def _step(self, trial: int) -> str:
        texts, source = self._parts.texts, self._parts.source
        if source is not None:
            source.learn(self)
            return texts.read(texts.written(source.propose(trial)))
        step = self._parts.steps[trial]
        if isinstance(step, QueryError):
            raise step
        return step

    def _start_contest(self, order: ReadPieces | RunWhole) -> None:
        """Start a query for several trials of a race."""
        contest = self._parts.contest
        assert contest is not None
        try:
            if isinstance(order, ReadPieces):
                planned = contest.plan_round(order.number, order.trials)
            else:
                planned = contest.plan_whole(order.trials)
            job = self._parts.start(planned, terms=self._parts.group.terms)
        except SessionClosed:
            raise
        except QoopError as error:
            self._send(Abandoned(str(error), self._now()))
            return
        self._running[_OF_ALL], begun = job, time.monotonic()
        job.when_ended(lambda: self._events.put(partial(self._contest_ended, order, job, begun)))

    def _contest_ended(self, order: ReadPieces | RunWhole, job: Job, begun: float) -> None:
        if self._running.pop(_OF_ALL, None) is not job or self._program.state == "ended":
            return
        contest, seconds = self._parts.contest, time.monotonic() - begun
        assert contest is not None
        try:
            rows = job.result()
            if isinstance(order, RunWhole):
                message: Message = WholeEnded(order.trials, contest.scores(rows.arrow()), seconds, self._now())
            else:
                if self._parts.journal is not None:
                    self._parts.journal.keep_answer(_OF_ALL, order.number, rows)
                contest.add(rows.arrow())
                message = contest.compared(order.number, order.trials, seconds, self._now())
        except (Cancelled, SessionClosed):
            raise  # the race can go on in another session
        except QoopError as error:
            message = Abandoned(str(error), self._now())
        self._send(message)
        for trial in order.trials:
            self._tell(trial, begun, seconds, 1 / len(order.trials))

    def _step_ended(self, order: RunStep, planning: StepPlanning, job: Job, begun: float) -> None:
        trial, number = order.trial, order.number
        if self._running.pop(trial, None) is not job or self._program.state == "ended":
            return
        seconds = time.monotonic() - begun
        try:
            result, metric = parted(job.result(), self._parts.metric)
            planning.ended(job)
        except (Cancelled, SessionClosed):
            raise  # the trial can go on in another session
        except QoopError as error:
            self._send(TrialFailed(trial, str(error), self._now()))
        else:
            self._keep(trial, number, result, self._sign * metric)
            self._send(TrialStepEnded(trial, number, self._sign * metric, seconds, self._now()))
        self._tell(trial, begun, seconds)

    def _keep(self, trial: int, number: int, result: Result, score: float) -> None:
        """Keep the answer of a step for the next one, and the best of all."""
        journal, before = self._parts.journal, self._program.trials[trial]
        if journal is not None:
            journal.keep_answer(trial, number, result)
            journal.drop_answers(trial, before.scores, before.estimated)
        self._answers[trial] = result
        if self._program.is_best(trial, number, score):
            self._best = result

    def _predict(self, order: Predict, scores: Sequence[float]) -> None:
        """Runs in the thread of predictions."""
        self._events.put(partial(self._send, predicted(order, scores)))

    def _tell(self, number: int, begun: float, seconds: float, slots: float = 1.0) -> None:
        status = self._status(self._program, number, self._program.promising)
        with self._changed:
            self._shown.append(status)
            first = begun - self._begun
            self._spans.append(StepSpan(number, first, first + seconds, status.kind, slots))
            self._changed.notify_all()

    def _status(self, program: Sweep | Race, number: int, kept: set[int]) -> TrialStatus:
        trial: Trial | Racer = program.trials[number]
        kind = "poor" if trial.state in ("parked", "pruned") else "promising" if number in kept else "opportunistic"
        return TrialStatus(
            number, _STATES[trial.state], self._parts.settings[number],
            self._metric(trial.best if trial.scores else None), len(trial.scores), trial.seconds,
            trial.p if trial.p >= 0 else None, kind if trial.p >= 0 else "", trial.why, self._metric(trial.estimate),
        )  # fmt: skip

    def _metric(self, score: float | None) -> float | None:
        return None if score is None or score == -inf else self._sign * score

    def _best_number(self) -> int:
        if self._program.best < 0:
            self._raise()
            begun = any(trial.scores for trial in self._program.trials)
            raise ExecutionError(f"{'all metrics are estimates' if begun else 'no step of the sweep has ended'} so far")
        return self._program.best

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error


def _session_closed() -> None:
    raise SessionClosed("the session is closed")
