"""A growing answer: carries out the steps of its program (:mod:`qoop.programs.rounds`) with jobs of its session.

It has no thread. A round is a job. The thread that requests the next edition handles the end of its round, while the
job of the round after it runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from math import inf, isinf
from typing import TYPE_CHECKING, Any, Protocol

from qoop.adaptive.program import Begin, End, Show, Stop
from qoop.catalog.errors import Cancelled, QueryError
from qoop.catalog.value import value
from qoop.programs.approximate.edition import Edition, Editions, notes
from qoop.programs.approximate.estimators import unseen
from qoop.programs.approximate.estimators.interim import Interim
from qoop.programs.approximate.final_round import is_taken_over, may_run_whole
from qoop.programs.approximate.intervals import Intervals, Shown, aimed, enough_at, in_vain, interim_intervals
from qoop.programs.approximate.status import AnswerStatus, Pace, Times
from qoop.programs.approximate.target import RoundStart
from qoop.programs.approximate.totals import Totals
from qoop.programs.rounds import Finish, Message, Pause, Read, RoundEnded, Rounds, Step
from qoop.query.result import Result

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.programs.approximate.final_round import Whole
    from qoop.programs.approximate.growth import Growth
    from qoop.programs.approximate.planning import RoundPlan, RoundPlanning
    from qoop.programs.approximate.target import AnswerOptions
    from qoop.query.job import Job, Planned, Starts
    from qoop.query.statements.settings import Settings


_NO_DOUBT = Intervals({}, {}, 0.0)
"""The intervals of an exact answer."""


@value
class Growing:
    """A growing answer that is about to start. planning: makes a planning of its rounds. start: starts a job.

    plan_whole: plans the query itself. seconds_whole: its estimated seconds; raises QueryError. opened: a planning that
    exists, with a plan of the first round.
    """

    plan: RoundPlan
    options: AnswerOptions
    settings: Settings
    planning: Callable[[], RoundPlanning]
    plan_whole: Callable[[Callable[[], RoundPlanning]], Planned]
    seconds_whole: Callable[[], Whole]
    start: Starts
    opened: RoundPlanning | None = None


class Answer(Protocol):
    """An answer that may have several editions. To await it returns `result`."""

    def editions(self) -> Editions:
        """Each edition as soon as it exists, for ``for`` and ``async for``. Every call begins at the first edition.

        The last one meets the target, or is exact. Raises the errors of the jobs."""
        ...

    def last(self) -> Edition:
        """The edition that meets the target, as soon as it exists; the last edition of an answer that was stopped.
        Raises Cancelled if it was stopped before the first."""
        ...

    def result(self) -> Result:
        """The exact rows, in the columns of the query. Pieces that were read for the target are not read again. Raises
        Cancelled if the answer was stopped before it was exact."""
        ...

    def stop(self) -> Edition | None:
        """End the answer and return the last edition; None if there is none."""
        ...

    def status(self) -> AnswerStatus:
        """The progress, the seconds until the target and the exact answer, and which of both meets the deadline."""
        ...

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs so far: one a round."""
        ...

    def __await__(self) -> Generator[Any, None, Result]: ...


class GrowingAnswer:
    """An answer that grows; see `Answer`. Thread-safe."""

    def __init__(self, growing: Growing) -> None:
        self._growing, self._plan, self._options = growing, growing.plan, growing.options
        self._runs_whole = may_run_whole(self._plan.growth, self._plan.cut)  # as far as is known
        self._schedule = self._plan.schedule
        self._rounds = Rounds(len(self._schedule.ends), self._options.target.error)
        self._needed_at = time.monotonic() + self._options.deadline
        self._found = Intervals({}, {}, None), 0  # of the last round that has ended, and the pieces read by then
        self._changing = threading.Lock()  # the state of the program
        self._advancing = threading.Lock()  # its holder waits for the round
        self._planning = growing.opened
        self._editions: list[Edition] = []
        self._made: Edition | None = None
        self._jobs: list[Job] = []
        self._error = self._first_error = inf  # of the last edition, and of the first that had one
        self._exact = self._begin_exact()
        self._send(Begin())
        self._totals = Totals(self._plan.growth, growing.settings)  # now that the first round runs

    def editions(self) -> Editions:
        """See `Answer.editions`."""
        return Editions(self._nth)

    def last(self) -> Edition:
        """See `Answer.last`."""
        for _ in self.editions():
            pass
        if not self._editions:
            raise Cancelled("the answer was stopped before its first edition")
        return self._editions[-1]

    def result(self) -> Result:
        """See `Answer.result`."""
        self._send(Finish())
        for _ in self.editions():
            pass
        if not self._editions or not self._editions[-1].exact:
            raise Cancelled("the answer was stopped before it was exact")
        return self._editions[-1].plain()

    def stop(self) -> Edition | None:
        """See `Answer.stop`."""
        self._send(Stop())
        return self._editions[-1] if self._editions else None

    def status(self) -> AnswerStatus:
        """See `Answer.status`."""
        with self._changing:
            rounds, jobs = self._rounds, tuple(self._jobs)
            edition, found = self._editions[-1] if self._editions else None, self._found
        to_goal, to_exact = self._left(rounds, jobs, *found)
        if edition is not None and edition.exact:
            to_goal = to_exact = 0.0
        share, error = (0.0, None) if edition is None else (edition.share, edition.error)
        return AnswerStatus(
            share, error, self._options.target.error, to_goal, to_exact, _seconds_until(self._needed_at)
        )

    @property
    def jobs(self) -> tuple[Job, ...]:
        """See `Answer.jobs`."""
        return tuple(self._jobs)

    def __await__(self) -> Generator[Any, None, Result]:
        return awaited(self).__await__()

    # Inside

    def _nth(self, number: int) -> Edition | None:
        while len(self._editions) <= number and self._rounds.state == "reading":
            self._advance(number)
        return self._editions[number] if number < len(self._editions) else None

    def _advance(self, known: int) -> None:
        """Wait for the running round and handle its end, unless another thread has. known: editions of the caller."""
        with self._advancing:
            if len(self._editions) > known or self._rounds.state != "reading":
                return
            number = self._rounds.number
            try:
                result = self._jobs[number].result()
                if self._rounds.rest and self._runs_whole:
                    found, self._made = _NO_DOUBT, self._whole(number, result)
                else:
                    found, self._made = self._estimated(number, result)
                self._found = found, self._interim(number).drawn
                self._error = inf if found.worst is None else found.worst
                self._first_error = self._error if isinf(self._first_error) else self._first_error
            except BaseException:
                if self._ended():
                    return
                self._send(Stop())
                raise
            busy = self._options.busy
            interim, target = self._interim(number), self._options.target
            vain = not interim.is_whole and (
                in_vain(found, self._schedule, interim.drawn, target) if target.error else self._has_one_interim_edition
            )
            if not interim.is_whole:
                self._schedule = aimed(found, self._schedule, interim.drawn, number + 1, target)
            self._send(RoundEnded(number, found.worst, busy is None or busy(), vain))

    def _ended(self) -> bool:
        return self._rounds.state == "ended"

    def _send(self, message: Message) -> None:
        with self._changing:
            if self._options.log is not None:
                self._options.log(self._rounds, message)
            self._rounds, steps = self._rounds.after(message)
            for step in steps:
                self._do(step)

    def _do(self, step: Step) -> None:
        match step:
            case Read(number, rest):
                self._jobs.append(self._read(number, rest))
            case Show():
                assert self._made is not None
                self._editions.append(self._made)
            case Pause():
                self._forget_plans()
                if self._options.ended_early is not None:
                    self._options.ended_early(1.0 - self._editions[-1].share)
            case End():
                for job in (*self._exact.values(), *self._jobs[-1:]):
                    job.cancel()
                self._forget_plans()

    def _begin_exact(self) -> dict[str, Job]:
        """Start the parts of the query around the sums that do not depend on them."""
        around = self._plan.growth.around
        if around is None:
            return {}
        plans = self._plans()
        return {name: self._growing.start(plans.plan_whole(text)) for name, text in around.exact}

    def _plans(self) -> RoundPlanning:
        if self._planning is None:
            self._planning = self._growing.planning()
        return self._planning

    def _read(self, number: int, rest: bool) -> Job:
        growing, gain = self._growing, self._gain(number, rest)
        self._runs_whole = self._runs_whole and not (rest and self._is_taken_over(number))
        if rest and self._runs_whole:
            return growing.start(growing.plan_whole(self._plans), follows=number > 0, gain=gain)
        text = self._plan.growth.rest_sql if rest else self._plan.growth.round_sql
        planned = self._plans().plan(text, self._plan.cut, self._schedule.pieces_of(number, rest), rest)
        return growing.start(planned, follows=number > 0, gain=gain)

    @property
    def _has_one_interim_edition(self) -> bool:
        """True if the exact answer may reuse nothing of an interim edition, so that one edition is enough."""
        return may_run_whole(self._plan.growth, self._plan.cut)

    def _is_taken_over(self, number: int) -> bool:
        """True if the last round reads the pieces that are left."""
        growing = self._growing
        try:
            whole = growing.seconds_whole()
        except QueryError:
            return False  # a table is gone; the plan of the whole query knows what to do
        left = self._schedule.pieces_of(number, rest=True)
        return is_taken_over(
            self._plan.growth, self._plan.cut, left, whole, [job.status().elapsed for job in self._jobs]
        )

    def _gain(self, number: int, rest: bool) -> float:
        """The predicted gain of a round: a part of the way to the target."""
        schedule, target = self._schedule, 0.0 if self._rounds.finishing else self._options.target.error
        drawn, pieces = schedule.ends[number - 1] if number else 0, len(schedule.order)
        after = pieces if rest else schedule.ends[number]
        return RoundStart(self._error, self._first_error, target, drawn, after, pieces, schedule.ends[0]).gain

    def _left(self, rounds: Rounds, jobs: Sequence[Job], found: Intervals, drawn: int) -> Times:
        schedule, target, whole = self._schedule, self._options.target, self._runs_whole
        pieces, read = len(schedule.order), schedule.ends[rounds.number - 1] if rounds.number else 0
        end = pieces if rounds.rest else schedule.ends[rounds.number]
        pace = _pace(jobs, read, pieces if rounds.rest and whole else end - read)
        if pace is None or rounds.state == "ended":
            return None, None
        exact = pace.left if rounds.rest else pace.until(pieces if whole else pieces - end)
        if rounds.state == "paused":
            return 0.0, exact
        if rounds.rest or rounds.finishing or not target.error:
            return exact, exact
        if not drawn:
            return None, exact
        enough = enough_at(found, schedule, drawn, target)
        return (exact if enough is None else pace.until(enough - end)), exact

    def _forget_plans(self) -> None:
        if self._planning is not None:
            self._planning.close()
            self._planning = None

    def _interim(self, number: int) -> Interim:
        schedule = self._schedule
        drawn = len(schedule.order) if self._rounds.rest else schedule.ends[number]
        return schedule.interim(drawn)

    def _estimated(self, number: int, result: Result) -> tuple[Intervals, Edition]:
        for name, job in self._exact.items():
            part = job.result()
            self._totals.add_table(name, part.lossless(), list(zip(part.columns, part.types, strict=True)))
        self._exact = {}
        self._totals.add(result.lossless(), list(zip(result.columns, result.types, strict=True)))
        growth, interim, schedule = self._plan.growth, self._interim(number), self._schedule
        if interim.is_whole:
            rows, _ = self._totals.answer(interim)
            exact = self._totals.exact(rows, [type_ for _, type_ in growth.columns])
            return _NO_DOUBT, self._edition(number, exact, _NO_DOUBT)
        rows, groups = self._totals.answer(interim)
        shown = None if groups is None else Shown(groups[groups >= 0], growth.chosen)
        found = interim_intervals(growth.bounded, self._totals, schedule, interim.drawn, self._options.target, shown)
        if self._totals.lacks(rows, groups):
            found = replace(found, worst=None)
        bounded = self._totals.bounded(rows, groups, found, interim.share)
        return found, self._edition(number, bounded, found)

    def _whole(self, number: int, found: Result) -> Edition:
        """The exact edition, from the rows of the query itself."""
        growth = self._plan.growth
        rows = self._totals.exact(found.lossless(), found.types)
        result = Result(rows, edition_columns(growth), self._growing.settings)
        groups = max(self._totals.groups, len(rows))
        return Edition(result, number, 1.0, True, groups, 0.0, 0.0, "", (), tuple(growth.shown))

    def _edition(self, number: int, rows: pa.Table, found: Intervals) -> Edition:
        growth, interim = self._plan.growth, self._interim(number)
        result = Result(rows, edition_columns(growth), self._growing.settings)
        left = unseen.most(interim.drawn, interim.pieces, 1 - self._options.target.confidence) if growth.keys else 0.0
        share, groups, shown = interim.share, self._totals.groups, tuple(growth.shown)
        remarks = () if interim.is_whole else notes(growth, found)
        return Edition(result, number, share, interim.is_whole, groups, left, found.worst, "", remarks, shown)


class ExactAnswer:
    """The answer to a query that does not grow, for a reason; see `Answer`."""

    def __init__(self, job: Job, reason: str) -> None:
        self._job, self._reason = job, reason
        self._lock = threading.Lock()
        self._made: Edition | None = None

    def editions(self) -> Editions:
        """See `Answer.editions`."""
        return Editions(lambda number: None if number else self.last())

    def last(self) -> Edition:
        """See `Answer.last`."""
        with self._lock:
            if self._made is None:
                self._made = self._edition(self._job.result())
            return self._made

    def _edition(self, found: Result) -> Edition:
        import pyarrow as pa

        rows = found.lossless()
        rows = rows.append_column("share_read", pa.array([1.0] * len(rows), pa.float64()))
        columns = (*zip(found.columns, found.types, strict=True), ("share_read", "DOUBLE"))
        return Edition(Result(rows, columns, found.settings), 0, 1.0, True, len(rows), 0.0, 0.0, self._reason)

    def result(self) -> Result:
        """See `Answer.result`."""
        return self._job.result()

    def stop(self) -> Edition | None:
        """See `Answer.stop`."""
        self._job.cancel()
        return self._made

    def status(self) -> AnswerStatus:
        """See `Answer.status`."""
        found, ended = self._job.status(), self._job.wait(0.0)
        if ended:
            left = 0.0 if self._job.state == "SUCCEEDED" else None
        else:
            left = None if found.left is None else found.left.likely
        exact = ended and left is not None
        return AnswerStatus(float(exact), 0.0 if exact else None, 0.0, left, left, found.deadline)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """See `Answer.jobs`."""
        return (self._job,)

    def __await__(self) -> Generator[Any, None, Result]:
        return awaited(self).__await__()


async def awaited(answer: Answer) -> Result:
    """The exact answer, without blocking the event loop. To cancel the wait stops the answer."""
    from asyncio import CancelledError, to_thread

    try:
        return await to_thread(answer.result)
    except CancelledError:
        answer.stop()
        raise


def _pace(jobs: Sequence[Job], read: int, reads: int) -> Pace | None:
    """The pace of the jobs of the rounds. read: pieces that all but the last job read. reads: pieces of the last."""
    *before, last = (job.status() for job in jobs)
    left = 0.0 if jobs[-1].wait(0.0) else None if last.left is None else last.left.likely
    return Pace.of(sum(one.elapsed for one in before), read, last.elapsed, left, reads)


def _seconds_until(end: float) -> float | None:
    return None if isinf(end) else end - time.monotonic()


def edition_columns(growth: Growth) -> tuple[tuple[str, str], ...]:
    """Names and types of the columns of an edition."""
    columns = []
    for place, (name, type_) in enumerate(growth.columns):
        columns.append((name, type_))
        if place in growth.shown:
            columns += [(f"{name}_low", "DOUBLE"), (f"{name}_high", "DOUBLE")]
    return (*columns, ("share_read", "DOUBLE"))
