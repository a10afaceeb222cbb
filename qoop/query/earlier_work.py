"""The outputs, answers and plans that earlier runs of a query have left, and the losses of processes that outputs
survive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pyarrow as pa

from qoop.adaptive.replanning.observations import done_parts
from qoop.catalog.value import value
from qoop.engine.backends.local import LocalBackend
from qoop.engine.events import Committed
from qoop.engine.storage.guard import Origin
from qoop.engine.task import checkpoint_key
from qoop.planner.finish import Done
from qoop.planner.search.candidate import Candidate
from qoop.query.output_losses import BETWEEN_LOSSES, OutputLosses

if TYPE_CHECKING:
    from qoop.adaptive.cluster.job_handle import JobHandle
    from qoop.engine.backends.base import Backend
    from qoop.engine.task import CheckpointKey
    from qoop.planner.estimate.cost import CostModel
    from qoop.planner.plan import Plan, Resources
    from qoop.planner.search.candidate import Grid
    from qoop.query.job import Planned, Prepared
    from qoop.query.job_lessons import Present
    from qoop.query.plan_store import SessionPlans

LEAST_LIFE = 0.1
"""Seconds of a shorter life that plans are made for."""

SHORTER = 0.7
"""The part of the life that a plan was made for, below which another is made: the median of lives moves a little."""

_LARGE_PART = 1 / 16
"""Answers that take more than this part of the memory for outputs that no job needs are not kept."""


@value
class StoredWork:
    """present: finds outputs in memory and in the folder of checkpoints. unfinished: true for a text of which a run has
    not ended there; None: there is no such folder on this machine. between_losses: seconds that queries run between two
    losses of processes. expected_life: seconds that a process may live, for a text of which a run was killed; infinite:
    none was."""

    present: Present = lambda _: ()
    unfinished: Callable[[str], bool] | None = None
    between_losses: float = BETWEEN_LOSSES
    expected_life: Callable[[str], float] = lambda _: inf


class EarlierWork:
    """The work of earlier runs, for the plans of a session.

    survive: outputs are to survive a process. reuse: queries may use outputs that exist. losses: of processes.
    life_is_shorter: see `in_life`.
    """

    def __init__(self, stored: StoredWork, plans: SessionPlans, survive: bool, reuse: bool, cost: CostModel) -> None:
        self.stored = stored
        self.losses = OutputLosses(survive, between=stored.between_losses)
        self.life_is_shorter = True
        self._lock, self._within = threading.Lock(), 0
        self._plans, self._reuse, self._cost = plans, reuse, cost

    @property
    def goes_on(self) -> bool:
        """True if queries take over what other processes have left, and leave outputs to them."""
        return self.losses.survive and self._reuse

    @contextmanager
    def in_life(self, seconds: float, shorter: bool) -> Iterator[None]:
        """Within the block queries are planned for processes that last about that long; infinite: not known.

        shorter: a plan of an earlier process was made for longer ones, so it goes on only if its tasks end in time.
        """
        with self._lock:
            self._within += 1
            self.losses = replace(self.losses, life=max(LEAST_LIFE, seconds))
            self.life_is_shorter = shorter
        try:
            yield
        finally:
            with self._lock:
                self._within -= 1
                if not self._within:  # blocks of several threads are of one process, so of one life
                    self.losses = replace(self.losses, life=None)

    def expected_life(self, text: str) -> float:
        """The seconds that this process may live, for a text that was killed with an earlier one; inf: not known."""
        if self.losses.life is not None:
            return self.losses.life
        return self.stored.expected_life(text) if self.goes_on else inf

    def is_shorter(self, text: str, life: float) -> bool:
        """True if the stored plans of a text are for much longer lives than this."""
        return life < SHORTER * self._plans.begun_for(text)

    def did_not_end(self, text: str) -> bool:
        """True if a run of the query was killed, or failed: it may be longer than its footers say."""
        return self.stored.unfinished is not None and self.stored.unfinished(text)

    def has_answer(self, plan: Plan) -> bool:
        """True if the answer of DuckDB's plan is present, and the query may take it over."""
        return self._reuse and plan.root.shareable and bool(self.stored.present([checkpoint_key(plan.root, 0)]))

    def found(self, keys: Sequence[CheckpointKey]) -> Sequence[Committed]:
        """Those of the outputs that are present, if the query may take them over."""
        return self.stored.present(keys) if self.goes_on else ()

    def plans(self, text: str, grid: Grid) -> list[Candidate]:
        """The plans of earlier runs, which may have had other resources: where outputs survive, theirs may exist."""
        plans = self._plans.begun(text) if self.goes_on else ()
        return [Candidate(plan, "begun", grid.machine, self._cost) for plan in plans]

    def note_begin(self, text: str, prepared: Prepared, plan: Plan, life: float = inf) -> None:
        """Store the plan of a run that begins, for runs that go on from its outputs. life: seconds of a process that it
        was made for."""
        if self.goes_on:
            self._plans.add_begun(text, prepared, plan, life)

    def with_most_done(self, text: str, plan: Plan, share: Resources, grid: Grid) -> Plan:
        """The plan that should end first with the outputs that exist: this one, or that of an earlier run."""
        begun = self.plans(text, grid)
        if not begun:
            return plan
        from qoop.query.quick_plans import best_of, keys_of

        present = {one.key for one in self.found(keys_of(begun))}
        usual = Candidate(plan, "usual", grid.machine, self._cost)
        return best_of([usual, *begun], share, doubted=False, present=present).candidate.plan if present else plan

    def first_to_end(self, candidates: Sequence[Candidate], share: Resources) -> tuple[OutputLosses, Candidate, Done]:
        """The candidate that ends first with the outputs that exist, with these; and the losses by which it does."""
        from qoop.query.quick_plans import keys_of

        made = {one.key: one.seconds for one in self.found(keys_of(candidates))}
        losses = self.losses.slowed(candidates, share, made)
        done = [Done(done_parts(one.plan, made)) for one in candidates]
        first = losses.first_to_end(candidates, share, done)
        return losses, candidates[first], done[first]


def keep_answer(backend: Backend, handle: JobHandle, planned: Planned, parts: Sequence[pa.Table]) -> None:
    """Keep the answer of stages as that of DuckDB's own plan, with which the text begins the next time.

    Stages name an answer by what it means, and one with ties at a LIMIT by its job alone. DuckDB's plan names it by the
    text and the versions of tables, so any right answer may stand there.
    """
    own = planned.last_resort
    if own is None or not own.root.shareable or not isinstance(backend, LocalBackend):
        return
    if handle.plans()[-1].root.whole or not _of_same_tables(own, planned):
        return
    key, store, size = checkpoint_key(own.root, 0), backend.store, sum(part.nbytes for part in parts)
    if size > _LARGE_PART * store.retained_most or store.has(key):
        return
    answer, stage = pa.concat_tables(parts), own.root
    seconds = handle.status().elapsed
    committed = Committed(key, (answer.num_rows,), (size,), seconds, width=1, maker=handle.id)
    store.put(committed, handle.id, (answer,), origin=Origin(stage, planned.bound.settings))
    store.release(handle.id, [key])


def _of_same_tables(own: Plan, planned: Planned) -> bool:
    """True if DuckDB's plan and the one that ran read the same versions."""
    versions = {name.lower(): table.version for name, table in planned.tables.items()}
    return all(versions.get(item.table.lower(), item.version) == item.version for item in own.root.table_inputs)
