"""Facts that later plans use, from jobs that have ended: rows of stages, seconds of functions, slowdown of the
machine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from qoop.adaptive.cluster.job_handle import JobHandle
from qoop.adaptive.replanning.observations import SessionObservations, committed, misestimate, outputs
from qoop.adaptive.replanning.observed_seconds import ObservedSeconds
from qoop.adaptive.replanning.slowdown import MachineSlowdown
from qoop.catalog.value import value
from qoop.engine.events import Committed
from qoop.engine.history import Record
from qoop.engine.task import CheckpointKey, checkpoint_keys
from qoop.planner.estimate.observed import MISJUDGED, Observations
from qoop.planner.plan import Plan, Resources
from qoop.query.duckdb_plans import DuckDBPlans
from qoop.query.job import Planned

_log = logging.getLogger(__name__)

Present = Callable[[Sequence[CheckpointKey]], Sequence[Committed]]
"""Those of the keys that are committed."""


@value
class Misplanned:
    """A text whose plan, for some resources, was made by estimates that were far off."""

    text: str
    share: Resources


class JobLessons:
    """The facts from the jobs of one session. Thread-safe.

    observations: of the stages of its jobs. slowdown: the factor by which tasks took longer than estimated.
    """

    def __init__(self, duckdb_plans: DuckDBPlans) -> None:
        self.observations = SessionObservations()
        self._duckdb_plans = duckdb_plans
        self._machine_slowdown = MachineSlowdown()
        self._lock = threading.Lock()
        self._running: list[tuple[Planned, JobHandle]] = []

    @property
    def slowdown(self) -> float:
        """The factor by which the tasks of the session's jobs have taken longer than estimated."""
        with self._lock:
            return self._machine_slowdown.value

    def started(self, planned: Planned, job: JobHandle) -> None:
        """A job runs a plan; its facts are collected after its end."""
        with self._lock:
            self._running.append((planned, job))

    def learn(self) -> Sequence[Misplanned]:
        """Take the facts from the jobs that have ended. Returns the texts whose plans they show to be wrong."""
        with self._lock:
            ended = [item for item in self._running if item[1].done.done()]
            names = {handle.id for _, handle in ended}
            self._running = [item for item in self._running if item[1].id not in names]
        misplanned: list[Misplanned] = []
        for planned, handle in ended:
            try:
                misplanned += self._learn_of(planned, handle)
            except Exception:  # the query that is planned now is another one
                _log.exception("nothing is learned of %s", handle.id)
        return misplanned

    def add_outputs(self, plan: Plan, present: Present) -> tuple[int, bool]:
        """Take the facts from the outputs of a plan that are present.

        Returns the number of stages with some, and True if the estimates were far off.
        """
        observed = outputs(plan, present(checkpoint_keys(*plan.stages)))
        self.observations.add(plan, observed)
        return len(observed), misestimate(plan, observed) > MISJUDGED

    def row_seconds(self) -> Mapping[str, float]:
        """The seconds that functions of Python have taken for a row, by their keys."""
        return self.observations.calls()

    def _learn_of(self, planned: Planned, handle: JobHandle) -> Sequence[Misplanned]:
        self._duckdb_plans.learn(planned.bound, handle)
        self.observations.add_calls(ObservedSeconds.of(handle.history()).calls if planned.bound.functions else {})
        plans = handle.plans()
        staged = [plan for plan in (planned.plan, *plans[1:]) if not plan.root.whole]
        history = handle.history() if staged else ()
        facts = committed(history)
        if staged and len(plans) == 1:
            self._learn_slowdown(plans[0], history, facts)
        observed = [(plan, outputs(plan, facts)) for plan in staged]
        for plan, rows in observed:
            self.observations.add(plan, rows)
        share = planned.available or (planned.adaptive.available if planned.adaptive is not None else None)
        if share is not None and any(misestimate(plan, rows) > MISJUDGED for plan, rows in observed):
            return (Misplanned(planned.bound.text, share),)
        return ()

    def _learn_slowdown(self, plan: Plan, history: Sequence[Record], facts: Sequence[Committed]) -> None:
        """A job has run by one plan. facts: of its outputs."""
        from qoop.planner.estimate.reestimate import reestimated  # few plans are of stages

        rows = outputs(plan, facts)
        corrected = reestimated(
            plan, Observations({stage.signature: rows[stage.id] for stage in plan.stages if stage.id in rows})
        )
        with self._lock:
            self._machine_slowdown.learn(corrected, history)
