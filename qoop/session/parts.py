"""The machines, the cluster and the trace of a session, by its configuration, and their end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.adaptive.cluster.cluster import Cluster
from qoop.adaptive.cluster.options import ClusterOptions
from qoop.adaptive.cluster.planner_thread import PlannerThread
from qoop.adaptive.cluster.sizing import Sizing
from qoop.adaptive.monitor.available import Size, whole_machine
from qoop.adaptive.monitor.cgroup import has_limited_memory
from qoop.catalog.paths import cache_directory
from qoop.catalog.user_key import chosen_key
from qoop.catalog.value import value
from qoop.engine.backends.base import LastingBackend
from qoop.engine.backends.local import LocalBackend
from qoop.engine.events import Committed
from qoop.engine.memory import Used
from qoop.engine.storage.manifest import usual_budget
from qoop.engine.storage.retention import Retention
from qoop.engine.task import CheckpointKey
from qoop.planner.plan import Resources
from qoop.query.config import Config
from qoop.query.earlier_work import StoredWork
from qoop.query.options import SCHEDULERS
from qoop.query.tables import SessionTables

if TYPE_CHECKING:
    from qoop.adaptive.cluster.arbiter import RayShare
    from qoop.adaptive.cluster.recording.trace import TraceFile
    from qoop.adaptive.schedulers.base import Scheduler
    from qoop.engine.node_queues.policy import NodeQueueing
    from qoop.programs.sweeps.named import NamedSweeps
    from qoop.programs.views.views import MaterializedViews
    from qoop.session.earlier_runs import EarlierRuns
    from qoop.session.pages import OpenPage


VIEWS = "views"
"""The tenant of the jobs that compute materialized views."""

_VIEWS_WEIGHT = 0.5
"""Its weight, unless the option `tenants` has another: people's queries have that of 1."""

LONG_SECONDS = 1.0
"""Seconds that a task should take to run in a child process by default; a process costs it some 50 ms."""

BACKGROUND_NICE = 10
"""Of two cores that run tasks, a thread of that priority gets a tenth of one."""


@value
class SessionParts:
    """All that ends with a session, also if the session is never closed; the parts have no reference to the session.

    backend: the machines that tasks run on, and the outputs that they hold. cluster: the loop that runs the jobs.
    background: plans for later runs, at a low priority, most of them while no job runs. earlier_runs: the runs of its
    folder of checkpoints.

    Threads that are inside DuckDB while the interpreter goes abort the process.
    """

    backend: LastingBackend
    cluster: Cluster
    sizing: Sizing
    trace: TraceFile | None
    tables: SessionTables
    background: PlannerThread
    earlier_runs: EarlierRuns | None = None
    pages: list[OpenPage] = field(default_factory=list)
    views: list[MaterializedViews] = field(default_factory=list)
    sweeps: list[NamedSweeps] = field(default_factory=list)

    def close(self) -> None:
        """As `Session.close`."""
        for page in self.pages:
            page.close()
        for views in self.views:
            views.stop()
        self.background.close()
        self.sizing.end()
        try:
            self.cluster.close()
        finally:
            for views in self.views:
                views.close()
            for sweeps in self.sweeps:
                sweeps.close()
            if self.earlier_runs is not None:
                self.earlier_runs.close()
            if self.trace is not None:
                self.trace.close()
            self.tables.close()

    def end(self) -> None:
        """Close them after the session is gone. The last reference may be in a thread that `close` waits for."""
        if not self.tables.creator_process.is_here:
            return
        if threading.current_thread().name.startswith("qoop-"):
            threading.Thread(target=self.close, name="qoop-end").start()
        else:
            self.close()


def made(config: Config, tables: SessionTables) -> SessionParts:
    """The parts of a session with that configuration. Raises ConfigError."""
    trace = _trace_file(config.trace) if config.trace is not None else None
    share = _share(config)
    backend = _backend(config, share)
    cluster = Cluster(
        backend,
        _scheduler(config),
        trace=trace,
        options=ClusterOptions(
            wait_for_capacity=config.wait_for_capacity,
            extra_slots=not config.ray,
            tenants={VIEWS: _VIEWS_WEIGHT, **(config.tenants or {})},
            most_jobs=config.most_jobs,
            most_queued=config.most_queued,
            queueing=_queueing(config),
            program_kinds=_program_kinds,
        ),
    )
    if share is not None:
        share.wants = cluster.demand
    opened = Size(config.slots, config.memory)
    used = backend.used_by_children if isinstance(backend, LocalBackend) else Used
    sizing = Sizing(cluster, opened, _most(config, opened), used)
    background = PlannerThread(BACKGROUND_NICE, lambda: cluster.busy)
    return SessionParts(backend, cluster, sizing, trace, tables, background, unfinished_runs(config))


def _most(config: Config, opened: Size) -> Size:
    """The most that a session may come to have: what its user requested, else what the machine has. The limits of a
    control group that the session was opened under may rise."""
    most = whole_machine()
    return Size(
        opened.slots if "slots" in config.requested else max(opened.slots, most.slots),
        opened.memory if "memory" in config.requested else max(opened.memory, most.memory),
    )


def _program_kinds() -> tuple[type, ...]:
    from qoop.programs.kinds import program_kinds  # few sessions are traced

    return program_kinds()


def capacity(backend: LastingBackend) -> Resources:
    """The resources of all machines together."""
    return sum(backend.machines().values(), Resources())


def stored_work(backend: LastingBackend, earlier_runs: EarlierRuns | None) -> StoredWork:
    """The work of earlier runs, as planning needs it. earlier_runs: of the folder of checkpoints on this machine."""
    present = partial(_present_outputs, backend)
    if earlier_runs is None:
        return StoredWork(present)
    between = earlier_runs.seconds_between_losses()
    return StoredWork(present, earlier_runs.is_unfinished, between, earlier_runs.expected_life)


def _present_outputs(backend: LastingBackend, keys: Sequence[CheckpointKey]) -> Sequence[Committed]:
    """Those of the outputs that are present, for a plan that is being made: they may be evicted meanwhile."""
    reader = "planning"
    found = backend.present(keys, reader)
    backend.release(reader, keys)  # otherwise the outputs stay pinned until the session ends
    return found


def unfinished_runs(config: Config) -> EarlierRuns | None:
    """The unfinished runs of the folder of checkpoints; None: there is no folder on this machine."""
    if not isinstance(config.checkpoints, Path):
        return None
    from qoop.session.earlier_runs import EarlierRuns  # few sessions have one

    return EarlierRuns(config.checkpoints, chosen_key())


def _backend(config: Config, share: RayShare | None) -> LastingBackend:
    if config.ray is None:
        backend = LocalBackend(config.slots, config.memory, config.spill, _retention(config))
        if config.isolation == "process":
            backend.isolate()
        elif config.isolation == "auto" and sys.platform == "linux" and has_limited_memory():
            backend.isolate(LONG_SECONDS)
        return backend
    from qoop.engine.backends.ray.backend import RayBackend

    return RayBackend(
        config.ray, _retention(config), config.spill, config.runtime_env, share=share, tls=config.ray_tls,
        queueing=_queueing(config), exchange=config.exchange,
    )  # fmt: skip


def _trace_file(path: Path) -> TraceFile:
    from qoop.adaptive.cluster.recording.trace import TraceFile  # few sessions are traced

    return TraceFile(path)


def _queueing(config: Config) -> NodeQueueing | None:
    """The way in which granted tasks wait at the nodes of a Ray cluster; None: none does."""
    if config.ray is None or not config.node_queue:
        return None
    from qoop.engine.node_queues.policy import usual

    return usual(config.node_queue)


def _scheduler(config: Config) -> Scheduler | None:
    """None: the usual one."""
    if config.scheduler == SCHEDULERS[0]:
        return None
    from qoop.adaptive.schedulers.described import named

    return named(config.scheduler)


def _share(config: Config) -> RayShare | None:
    """The part of the machines that is left by other sessions, where there may be any."""
    if config.ray is None:
        return None
    from qoop.adaptive.cluster.arbiter import RayShare

    return RayShare(config.tenant, config.tenants, config.ray_reserve)


def _retention(config: Config) -> Retention:
    folder = config.checkpoints if isinstance(config.checkpoints, Path) else cache_directory()
    budget, strict = config.checkpoint_budget, config.checkpoint_full == "error"
    usual = budget is None and isinstance(config.checkpoints, Path)
    if budget is None and isinstance(config.checkpoints, Path):
        budget = usual_budget(config.checkpoints)
    quarantine, key = folder / "quarantine", chosen_key()
    return Retention(
        config.checkpoints, budget, config.reuse, quarantine, config.guard_always, key, config.pack, usual, strict
    )
