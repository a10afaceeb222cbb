"""The options of a cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.adaptive.program_log import ProgramKinds
    from qoop.engine.node_queues.policy import NodeQueueing


@value
class ClusterOptions:
    """The options of a cluster.

    wait_for_capacity: seconds that a job waits while there is no slot at all, after which it fails with NoCapacity.
    extra_slots: a job that waits with nothing running gets a slot beyond the capacity
        (:mod:`qoop.adaptive.cluster.granting.extra_slots`).
    tenants: weights, above 0; those of others are 1.
    watch_deadlines: jobs are warned when they will miss their deadlines.
    most_jobs: the jobs that run at a time; others queue (:mod:`qoop.adaptive.cluster.admission`).
    most_queued: the jobs that queue; more are refused.
    queueing: how granted tasks wait at machines, if the backend can have them wait; None: they begin at once.
    program_kinds: loads the classes of programs that a trace may name (:mod:`qoop.adaptive.program_log`).
    """

    wait_for_capacity: float = math.inf
    extra_slots: bool = False
    tenants: Mapping[str, float] = field(default_factory=dict)
    watch_deadlines: bool = True
    most_jobs: float = math.inf
    most_queued: float = math.inf
    queueing: NodeQueueing | None = None
    program_kinds: ProgramKinds = tuple
