"""Observations of earlier runs, by signature: true rows, bytes, seconds and memory in place of estimates.

An :class:`Observation` is filed under two digests of the stage it was made of:

* its *signature*, which identifies rows and columns; a stage of the same signature in a new plan takes rows, bytes,
  seconds and memory from it (:meth:`Observations.estimate`);
* its *meaning*, which identifies rows alone. A relation of the same meaning, in any join order and with any columns,
  takes the number of rows from it (:class:`~qoop.planner.estimate.observed_rows.ObservedRows`, used by
  :class:`~qoop.planner.estimate.cardinality.Cardinality` and by the join search).

The meaning of a relation costs about as much to compute as its estimate, so it is computed only for relations over
exactly the tables of some observed stage. Everything here is a value or a pure function. A caller that watches runs, or
finds checkpoints under the signatures of a plan's stages, makes Observations with :func:`observe` and plans again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from qoop.catalog.value import value
from qoop.planner.plan import Estimate, Plan, Signature, StageId, read_by

Tables = frozenset[tuple[str, str]]
"""Tables as (name, version)."""


@value
class Joined:
    """Joins over exactly these tables. filtered: the columns that filters of single tables compare, by names that all
    queries have for them."""

    tables: Tables
    filtered: frozenset[str] = frozenset()


Errors = Mapping[Joined, float]
"""True rows over estimated ones (:mod:`qoop.planner.estimate.join_errors`)."""

MISJUDGED = 4.0
"""A plan one of whose stages had that many times more or fewer rows than estimated is not used again as it is. Less is
left to chance, and is no news to the search for a join order: to find out for every relation whether something was seen
of it costs more than a somewhat better estimate is worth."""

LEAST_ROWS = 1_000.0
"""Of fewer rows than that it does not matter how many."""


@value
class Observation:
    """The measured facts of a stage that ran.

    rows, bytes: of its whole output. seconds: of one thread, of all its tasks together. memory: peak bytes of the task
    that took most. None: not known. reads: its inputs (`plan.read_by`); seconds and memory only apply to a
    stage with the same inputs, None: to any.
    """

    rows: float
    bytes: float | None = None
    seconds: float | None = None
    memory: float | None = None
    reads: frozenset[str] | None = None


@value
class Observations:
    """Observations by signature and by meaning. tables: those of each observed meaning.

    calls: seconds a row of functions of Python, by their keys. waits: seconds beyond all estimates that reading a table
    (`plan.read_table`) takes, once and as a whole. errors: of joins without a similar earlier observation.
    """

    by_signature: Mapping[Signature, Observation] = field(default_factory=dict)
    tables: frozenset[Tables] = frozenset()
    calls: Mapping[str, float] = field(default_factory=dict)
    waits: Mapping[str, float] = field(default_factory=dict)
    errors: Errors = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.by_signature or self.calls or self.waits or self.errors)

    def __or__(self, newer: Observations) -> Observations:
        """Both; where they differ the newer holds.

        >>> (Observations({"s": Observation(1)}) | Observations({"s": Observation(2)})).by_signature
        {'s': Observation(rows=2, bytes=None, seconds=None, memory=None, reads=None)}
        """
        return Observations(
            {**self.by_signature, **newer.by_signature},
            self.tables | newer.tables,
            {**self.calls, **newer.calls},
            {**self.waits, **newer.waits},
            {**self.errors, **newer.errors},
        )

    def estimate(
        self, signature: Signature, width: int, planned: Estimate, reads: frozenset[str] = frozenset()
    ) -> Estimate:
        """The observed estimate of a stage with `width` tasks, else the planned one.

        reads: its inputs. The last of many stages has the same output as one stage that does all the work.
        """
        observation = self.by_signature.get(signature)
        if observation is None:
            return planned
        size = planned.bytes if observation.bytes is None else observation.bytes
        known = replace(planned, rows=observation.rows, bytes=size)
        if observation.reads is not None and observation.reads != reads:
            return known
        if observation.seconds is not None:
            known = replace(known, task_seconds=observation.seconds / width)
        return known if observation.memory is None else replace(known, task_memory=observation.memory, task_wants=0.0)


NOTHING = Observations()


def observe(plan: Plan, observations: Mapping[StageId, Observation]) -> Observations:
    """File the observations of some stages of a plan.

    Non-deterministic stages (law 12) are left out, since another run of them may put out other rows. Unfinished rows
    (partial groups) count only for a stage of exactly the same signature.
    """
    by_signature: dict[Signature, Observation] = {}
    tables: set[Tables] = set()
    below = tables_below(plan)
    for stage in plan.stages:
        observation = observations.get(stage.id)
        if observation is None or not stage.shareable:
            continue
        observation = replace(observation, reads=read_by(stage, plan))
        by_signature[stage.signature] = observation
        if stage.meaning:
            by_signature[stage.meaning] = observation
            tables.add(below[stage.id])
    return Observations(by_signature, frozenset(tables))


def tables_below(plan: Plan) -> dict[StageId, Tables]:
    """The tables that each stage reads, itself or through others."""
    below: dict[StageId, Tables] = {}
    for stage in plan.stages:
        own = frozenset((item.table, item.version) for item in stage.table_inputs)
        below[stage.id] = own.union(*(below[item.stage] for item in stage.stage_inputs))
    return below


def q_error(estimated: float, observed: float) -> float:
    """The factor between an estimate and the truth, at least 1; less than a row counts as one.

    >>> q_error(10, 1000), q_error(1000, 10), q_error(0.1, 0)
    (100.0, 100.0, 1.0)
    """
    low, high = sorted((max(1.0, estimated), max(1.0, observed)))
    return high / low
