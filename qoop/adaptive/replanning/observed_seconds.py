"""The seconds of a job that no estimate could know: of functions of Python, and of tables that have to be waited for.

    attempts that run or have ended ──records──> ObservedSeconds ──Observations──> what is left of every plan

Of a function an attempt tells rows and seconds, while it runs and at its end; all attempts of a job together give its
seconds a row, whatever stage and plan they belong to. Table read times are not reported, but a task that reads its
part of one, does little work and takes long has waited: for a network, or a slow disk. The other parts, and every other
plan that reads the table, will wait as long. A busy machine makes tasks wait, too, in proportion to their work, so only
what is far beyond that counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from qoop.engine.events import Committed
from qoop.engine.functions.measured import FunctionCalls
from qoop.engine.history import Called, Record, Succeeded
from qoop.engine.task import AttemptId
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Plan, read_table

LEAST_WAIT = 0.1
"""Seconds that a task has waited at least, to count."""

BUSY = 4.0
"""Times the processor seconds of a task that it may take on a machine that others use."""


@dataclass
class ObservedSeconds:
    """The seconds so far of one job. by_attempt: calls. waited: by table, the seconds of each task that waited and how
    many such tasks there are."""

    by_attempt: dict[AttemptId, tuple[FunctionCalls, ...]] = field(default_factory=dict)
    waited: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def of(cls, history: Iterable[Record]) -> ObservedSeconds:
        """The calls of a job that has ended."""
        found = cls()
        for record in history:
            found.take(record)
        return found

    def take(self, record: Record, plan: Plan | None = None) -> bool:
        """Take note of a record; True if it says anything new. plan: that the attempt belongs to, if that is known."""
        match record:
            case Called(_, attempt, called) if called:
                self.by_attempt[attempt] = called
                return True
            case Succeeded(_, attempt, committed):
                if committed.called:
                    self.by_attempt[attempt] = committed.called
                return self._waited(attempt, committed, plan) or bool(committed.called)
        return False

    @property
    def calls(self) -> Mapping[str, float]:
        """Seconds a row of each function that was called."""
        rows: dict[str, float] = {}
        seconds: dict[str, float] = {}
        for one in (call for called in self.by_attempt.values() for call in called):
            rows[one.function] = rows.get(one.function, 0.0) + one.rows
            seconds[one.function] = seconds.get(one.function, 0.0) + one.seconds
        return {function: seconds[function] / count for function, count in sorted(rows.items())}

    @property
    def observed(self) -> Observations:
        """All that was seen."""
        waits = {table: sum(seconds) / len(seconds) for table, seconds in sorted(self.waited.items())}
        return Observations(calls=self.calls, waits=waits)

    def _waited(self, attempt: AttemptId, committed: Committed, plan: Plan | None) -> bool:
        """The wait of a task that reads one table. What functions take is not waiting, wherever they spend it."""
        stage = plan.by_id.get(attempt.task.stage) if plan is not None else None
        if stage is None or len(stage.inputs) != 1 or not stage.table_inputs or not committed.cpu_seconds:
            return False
        [item] = stage.table_inputs
        beyond = committed.seconds - sum(one.seconds for one in committed.called)
        wait = beyond - max(committed.cpu_seconds, stage.estimate.task_seconds)
        table = read_table(item.table, item.version)
        if wait < LEAST_WAIT or beyond < BUSY * committed.cpu_seconds:
            if table in self.waited:  # the wait was another one's, or is over
                self.waited[table].append(0.0)
            return table in self.waited
        self.waited.setdefault(table, []).append(wait * (stage.width if item.split else 1))
        return True
