"""A job: one run of a query, from the moment it was submitted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from qoop.catalog.errors import CheckpointError, ConfigError, ExecutionError, QoopError, Timeout
from qoop.catalog.paths import absolute
from qoop.catalog.value import value
from qoop.engine.history import Decided, Record, Succeeded
from qoop.planner.estimate.observed import NOTHING, Observations
from qoop.query.result import Result, exported_schema

if TYPE_CHECKING:
    import os

    import pyarrow as pa

    from qoop.adaptive.cluster.job_handle import JobHandle
    from qoop.adaptive.cluster.job_status import JobStatus
    from qoop.adaptive.replanning.adaptive import Adaptive
    from qoop.adaptive.schedulers.terms import Terms
    from qoop.catalog.statistics.stats import TableStats
    from qoop.catalog.table import Table
    from qoop.engine.progress import Progress
    from qoop.engine.task import CheckpointKey
    from qoop.planner.algebra.relation import Relation
    from qoop.planner.estimate.cost import CostModel
    from qoop.planner.plan import Plan, Resources, Stage
    from qoop.planner.planner import Planning
    from qoop.planner.sql.bind import Bound


@value
class Prepared:
    """A bound query with the inputs of its planning.

    stats: by table. splits: the number of useful parts of each table. statistics_seconds: as in `Planned`.
    cost: the machine's constants. known: observations of stages over these tables.
    """

    bound: Bound
    tables: Mapping[str, Table]
    relation: Relation
    stats: Mapping[str, TableStats]
    splits: Mapping[str, int]
    statistics_seconds: float
    cost: CostModel
    known: Observations = NOTHING

    def planning(self, observed: Observations = NOTHING) -> Planning:
        """A planning of the query, which may make several plans. observed: takes precedence over estimates and
        `known`."""
        from qoop.planner.planner import Planning  # loads the planner, which a plan found again does not need

        return Planning(self.bound, self.relation, self.stats, self.splits, self.cost, self.known | observed)


@value
class Planned:
    """The plan made of a text.

    planning_seconds: binding and planning. statistics_seconds: collecting statistics that no query had
        collected before (afterwards they are cached, by the version of the table).
    adaptive: the parts that change the plan while it runs; None: the plan is fixed.
    available: the resources that the plan was made for, None if the caller has chosen the plan.
    last_resort: DuckDB's own plan, used once if a stage raises an evaluation error; None: there is none.
    slice_seconds: estimated, of a task from which on it is cut into slices.
    """

    bound: Bound
    plan: Plan
    tables: Mapping[str, Table]
    planning_seconds: float
    statistics_seconds: float
    adaptive: Adaptive | None = None
    available: Resources | None = None
    last_resort: Plan | None = None
    slice_seconds: float = inf


@value
class StageReport:
    """Measurements of a stage that has run.

    tasks: attempts that succeeded. rows, bytes: of its whole output. seconds: wall time of its tasks, added
    up. longest_seconds: of the longest one.
    """

    stage: Stage
    tasks: int
    rows: int
    bytes: int
    seconds: float
    longest_seconds: float

    def __str__(self) -> str:
        note = " (runs whole)" if self.stage.opaque else ""
        return (
            f"{self.stage.id}{note}: {self.rows:,} rows by {self.tasks} of {self.stage.width} tasks in "
            f"{self.seconds:.3f} s, the longest {self.longest_seconds:.3f} s"
        )


OnTimeout = Literal["go on", "cancel"]
"""The fate of a job at the timeout of its caller."""


class Job:
    """A query that runs, or has run. Made by :meth:`qoop.session.session.Session.submit`."""

    def __init__(
        self,
        handle: JobHandle,
        planned: Planned,
        take: Callable[[], pa.Table],
        read: Callable[[CheckpointKey], pa.Table],
        suspend: Callable[[Path, float, bool], None],
    ) -> None:
        self._handle = handle
        self._planned = planned
        self._take = take
        self._read = read
        self._suspend = suspend
        self._streamed = False
        self._close: Callable[[], object] | None = None
        self._lock = threading.Lock()
        self._result: Result | None = None

    @property
    def id(self) -> str:
        """Its name within the session."""
        return self._handle.id

    @property
    def number(self) -> int:
        """Its number among the jobs of the session, from 1, in the order of submission."""
        return int(self.id.removeprefix("job"))

    @property
    def text(self) -> str:
        """The text of the query."""
        return self._planned.bound.text

    @property
    def plan(self) -> Plan:
        """The plan it was started with."""
        return self._planned.plan

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the answer."""
        return exported_schema(self.plan.columns, self._planned.bound.settings)

    @property
    def at(self) -> str:
        """The value of ``now()`` in the query, as a TIMESTAMPTZ."""
        return self._planned.bound.timestamp.at

    @property
    def planning_seconds(self) -> float:
        """Seconds from text to plan, without those for statistics collected on the way."""
        return self._planned.planning_seconds

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans it has run, in order; the n-th is that of the record `Switched` with number n."""
        return self._handle.plans()

    @property
    def terms(self) -> Terms:
        """The terms of its submission: tenant, weight, priority and deadline."""
        return self._handle.terms

    @property
    def state(self) -> str:
        """The job's state: STARTING until it has a plan, QUEUED until its first task begins, RUNNING, SWITCHING to
        another plan, or how it ended: SUCCEEDED, FAILED, CANCELLED or SUSPENDED."""
        return self._handle.display_state

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most `timeout` seconds; True if it has ended."""
        return self._handle.wait(timeout)

    def result(self, timeout: float | None = None, on_timeout: OnTimeout = "go on") -> Result:
        """Wait for the answer and return it.

        on_timeout: the fate of the job after the timeout: "cancel" ends it.
        Raises Timeout if there is none after `timeout` seconds, or the error that ended it: ExecutionError,
        Cancelled, … ConfigError for another on_timeout.
        """
        if on_timeout not in get_args(OnTimeout):
            raise ConfigError(f"on_timeout is {' or '.join(map(repr, get_args(OnTimeout)))}, not {on_timeout!r}")
        if not self.wait(timeout):
            if on_timeout == "cancel":
                self.cancel()
                raise Timeout(f"job {self.id} had not ended after {timeout} s, and was cancelled")
            raise Timeout(f"job {self.id} has not ended after {timeout} s; it goes on")
        try:
            return self._outcome()
        finally:
            if self._close is not None:
                self._close()

    def _outcome(self) -> Result:
        error = self._handle.error
        if error is not None:
            self._point_at(error)
            raise error
        with self._lock:
            if self._streamed:
                raise ConfigError(f"the rows of {self.id} were handed out by batches(), and are not kept")
            if self._result is None:
                self._result = Result(self._take(), self.plan.columns, self._planned.bound.settings)
            return self._result

    def _point_at(self, error: QoopError) -> None:
        """Add to an error the place in the query that caused it."""
        from qoop.query.statements.error_location import underlined

        whole = any(plan.root.whole for plan in self.plans)  # then DuckDB has underlined it
        if isinstance(error, ExecutionError) and not whole and not getattr(error, "__notes__", ()):
            place = underlined(str(error), self.text)
            if place:
                error.add_note(f"\n{place}")

    def batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, in the order and with the types of `result`, each part of the answer
        as soon as it exists; returns with the first.

        Batches stay valid: after the first, the job switches only to plans that do not recompute them. The
        rows are not kept, so the stream can be read once, and not after `result`.

        Raises what `result` does, the reader too; ConfigError if the rows were handed out before.
        """
        import pyarrow as pa

        parts = self.parts()
        first = next(parts).batches()
        rest = (batch for part in parts for batch in part.batches())
        return pa.RecordBatchReader.from_batches(first.schema, chain(first, rest))

    def parts(self) -> Iterator[Result]:
        """The parts of the answer, at least one, each as soon as it exists; otherwise as `batches`."""
        self._handle.check()
        with self._lock:
            if self._streamed or self._result is not None:
                raise ConfigError(f"the rows of {self.id} were handed out before")
            self._streamed = True
        return self._parts()

    def _parts(self) -> Iterator[Result]:
        for output in self._handle.stream():
            yield Result(self._read(output.key), self.plan.columns, self._planned.bound.settings)
        self._handle.release()
        if self._close is not None:
            self._close()

    def __await__(self) -> Generator[Any, None, Result]:
        """Wait for the answer without blocking the event loop; cancelling the wait cancels the job."""
        return self._awaited().__await__()

    async def _awaited(self) -> Result:
        from asyncio import CancelledError, get_running_loop

        loop = get_running_loop()
        ended = loop.create_future()

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(lambda: None if ended.done() else ended.set_result(None))

        self.when_ended(tell)
        try:
            await ended
        except CancelledError:
            self.cancel()
            raise
        return self.result()

    def follow(
        self,
        progress: Callable[[JobStatus], object] | None = None,
        decided: Callable[[Decided], object] | None = None,
        every: float = 0.2,
    ) -> None:
        """Report the progress of the job from a separate thread; returns at once.

        progress: called at this interval in seconds, and once at the end. decided: called for each decision about the
        plan (`Decided.switched` is its outcome). An error in a callback ends the reports and is logged; the job
        continues.
        """
        threading.Thread(
            target=self._follow, args=(progress, decided, every), name=f"qoop-follow-{self.id}", daemon=True
        ).start()

    def _follow(
        self,
        progress: Callable[[JobStatus], object] | None,
        decided: Callable[[Decided], object] | None,
        every: float,
    ) -> None:
        reported, ended = 0, False
        try:
            while not ended:
                ended = self.wait(every)
                history = self.history()
                for record in history[reported:]:
                    if decided is not None and isinstance(record, Decided):
                        decided(record)
                reported = len(history)
                if progress is not None:
                    progress(self.status())
        except Exception:
            logging.getLogger(__name__).exception("a callback of %s has failed", self.id)

    def cancel(self) -> None:
        """Stop it; running kernels end within 0.2 s. No effect on a job that has ended."""
        self._handle.cancel()

    def stop(self, seconds: float) -> None:
        """Cancel it once its running tasks have ended, or after these seconds; no new ones start.

        Returns when it has ended. The outputs of these tasks are kept as others are."""
        with suppress(ConfigError, CheckpointError), self._handle.pinned(f"stop-{self.id}", seconds):
            self._handle.cancel()  # an error: it has ended, or its outputs are not needed to be known
        self._handle.cancel()
        self._handle.wait()

    def forget(self) -> None:
        """Cancel the job if it runs, and release its outputs: the answer is no longer required."""
        self._handle.cancel()
        self._handle.when_ended(self._handle.release)

    def suspend(self, path: str | os.PathLike[str], grace: float = 0.0, copies: bool = True) -> None:
        """Stop it and write its state to the folder `path`, to continue elsewhere or with other resources; see
        :func:`qoop.resume`. Afterwards it is SUSPENDED, and `result` raises Suspended.

        grace: seconds for which running tasks may continue before they are stopped; no new ones start.
        copies: whether it may continue over copies of its local files. To recognise these, the files of its tables
        are read after the bundle is complete; a process that ends meanwhile leaves a complete bundle.

        Raises ConfigError if it has ended, is a round of a growing answer, or `path` exists; DiskFull if
        the bundle cannot be written: then the job continues.
        """
        self._suspend(absolute(path), grace, copies)

    def when_ended(self, then: Callable[[], object]) -> None:
        """Call `then`, in any thread, when the job has ended; at once if it already has."""
        self._handle.when_ended(then)

    def close_after(self, close: Callable[[], object]) -> None:
        """Call `close`, of the session that the job alone uses, when the result is taken."""
        self._close = close

    def progress(self) -> Progress:
        """The progress of the job: stages and tasks done, running and waiting."""
        return self._handle.progress()

    def status(self) -> JobStatus:
        """The status for people: progress, share, slots in use, and the range of times in which it should end."""
        return self._handle.status()

    def history(self) -> Sequence[Record]:
        """The events and their reasons, in order; each record prints as a sentence."""
        return self._handle.history()

    def timeline(self, path: str | os.PathLike[str]) -> Path:
        """Draw its tasks, slots, share and switches of plan over time; return the path.

        The ending of the name chooses the format: ``.svg``, ``.png`` (with the extra ``plot``), ``.html`` (with the
        history in words), or ``.json`` for Perfetto and chrome://tracing. Raises ConfigError for another ending, or if
        the file cannot be written.
        """
        from qoop.query.drawing.timeline import save_timeline, timeline  # few jobs are drawn

        text = " ".join(self.text.split())
        title = f"{self.id}: {text if len(text) <= 90 else text[:89] + '…'}"
        return save_timeline(timeline(self.history(), self.plans), path, title)

    def stage_reports(self) -> list[StageReport]:
        """The measurements of each stage, in the plan's order."""
        return stage_reports(self.plan, self.history())

    def _repr_html_(self) -> str:
        from qoop.query.drawing.html import job_html

        return job_html(self)

    def __repr__(self) -> str:
        text = " ".join(self.text.split())
        return f"<Job {self.id} {self.state}: {text if len(text) <= 60 else text[:57] + '...'}>"


def stage_reports(plan: Plan, history: Sequence[Record]) -> list[StageReport]:
    """Add up the records of each stage's tasks that succeeded."""
    done: dict[str, list[Succeeded]] = {stage.id: [] for stage in plan.stages}
    for record in history:
        if isinstance(record, Succeeded) and record.used and record.attempt.task.stage in done:
            done[record.attempt.task.stage].append(record)
    return [_report(stage, done[stage.id]) for stage in plan.stages]


def _report(stage: Stage, outputs: Sequence[Succeeded]) -> StageReport:
    seconds = [output.committed.seconds for output in outputs]
    return StageReport(
        stage,
        len(outputs),
        sum(sum(output.committed.rows) for output in outputs),
        sum(sum(output.committed.bytes) for output in outputs),
        sum(seconds),
        max(seconds, default=0.0),
    )


class Starts(Protocol):
    """Starts a job. follows: it continues the work of another job. gain: see `JobRequest`."""

    def __call__(self, planned: Planned, *, follows: bool = False, gain: float | None = None) -> Job: ...


def answer(job: Job, watch: Callable[[Job], object] | None) -> Result:
    """Wait for the answer of a job that only this caller holds; Ctrl-C cancels it. watch: is called with it first."""
    try:
        if watch is not None:
            watch(job)
        return job.result()
    except KeyboardInterrupt:
        job.cancel()
        job.wait(5.0)  # kernels end within 0.2 s; what is left over dies with the session
        raise
