"""The JSON of the page: an overview of all jobs, and one job in full.

Pure functions of a job's progress and a snapshot of the cluster. docs/page.md and the JavaScript name the same shapes.
Seconds count from the opening of the session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from qoop.adaptive.cluster.tenants import TenantStatus
from qoop.adaptive.replanning.decision import Option
from qoop.adaptive.schedulers.terms import Terms
from qoop.catalog.value import value
from qoop.engine.history import Decided, Record
from qoop.engine.task import TaskProfile, content_of
from qoop.interfaces.page.job_progress import JobProgress, Parts, Task, done_of, fraction_of
from qoop.interfaces.page.snapshot import Expected, MachineNow, Snapshot
from qoop.planner.plan import Plan, Resources, Stage

if TYPE_CHECKING:
    from qoop.programs.views.history import LagHistory

Json = dict[str, Any]

_TEXT = 300  # characters of a query in the list


@value
class JobFacts:
    """A job with its progress. offset: seconds of the session at which its history begins. options: the plans that it
    may run. expected: of a running job. rho: of an ended one."""

    id: str
    text: str
    terms: Terms
    submitted: float
    offset: float
    progress: JobProgress
    plans: Sequence[Plan] = ()
    options: Sequence[Option] = ()
    expected: Expected = Expected()
    rho: float | None = None

    @property
    def plan(self) -> Plan | None:
        """The running plan, or the last that ran."""
        place = min(self.progress.plan, len(self.plans) - 1)
        return self.plans[place] if place >= 0 else None

    @property
    def state(self) -> str:
        """The state on the page, which separates QUEUED from RUNNING."""
        progress = self.progress
        waits = self.expected.place is not None or progress.waits
        return "QUEUED" if progress.ended is None and waits else progress.state


@value
class Powers:
    """The changes that a page may make."""

    cancel: bool = False
    suspend: bool = False
    resize: bool = False


def overview(
    head: Json,
    now: Snapshot,
    lines: Iterable[Json],
    powers: Powers,
    span: tuple[float, float] | None = None,
    views: Sequence[Json] = (),
    sweeps: Sequence[Json] = (),
) -> Json:
    """All jobs, the machines, the tenants, the views and the sweeps. head: name, version and wall time of the session.
    lines: `job_line` of each job. views: `view_lags` of each materialized view. sweeps: `sweep_view` of each."""
    return {
        **head,
        "now": _number(now.at),
        "span": span,
        "can": {"cancel": powers.cancel, "suspend": powers.suspend, "resize": powers.resize},
        "machines": [_machine(one) for one in now.machines],
        "capacity": [[_number(at), _number(size.cpu), _number(size.memory)] for at, size in now.sizes if at <= now.at],
        "tenants": [_tenant(one) for one in now.tenants],
        "views": list(views),
        "sweeps": list(sweeps),
        "jobs": list(_folded(sorted(lines, key=lambda line: (line["ended"] is not None, -line["submitted"])))),
    }


def _folded(lines: Iterable[Json]) -> Iterator[Json]:
    """The lines with the first one alone of each group of jobs."""
    groups: set[str] = set()
    for line in lines:
        if line["group"] not in groups:
            yield line
        if line["group"]:
            groups.add(line["group"])


def view_lags(view: LagHistory, opened: float) -> Json:
    """A materialized view, with the seconds and the lag of each refresh. opened: the wall time of the session."""
    return {
        "name": view.name,
        "goal": view.goal,
        "incremental": view.incremental,
        "error": view.error,
        "refreshes": [[_number(one.at - opened), _number(one.lag)] for one in view.refreshes],
        "since": None if view.behind_since is None else _number(view.behind_since - opened),
        "sampling_error": view.sampling_error,
    }


def job_line(job: JobFacts) -> Json:
    """A job as a line of the list."""
    progress, expected, plan = job.progress, job.expected, job.plan
    share, left = progress.replay.shares[-1][1].cpu if progress.replay.shares else None, expected.left
    fraction = 0.0
    if progress.state == "SUCCEEDED":
        fraction = 1.0
    elif expected.fraction is not None:
        fraction = expected.fraction
    elif plan is not None:
        fraction = fraction_of(progress, plan, done_of(progress, plan, over=False))
    return {
        "id": job.id,
        "text": job.text[:_TEXT],
        "state": job.state,
        "tenant": job.terms.tenant,
        "group": job.terms.group,
        "submitted": _number(job.submitted),
        "started": _number(progress.replay.first_began, job.offset),
        "ended": _number(progress.ended, job.offset),
        "fraction": round(fraction, 4),
        "share_slots": _number(share),
        "used_slots": progress.used.cpu,
        "queued_tasks": sum(task.state == "QUEUED" for task in progress.running.values()),
        "left": None if left is None else {
            "likely": _number(left.likely), "least": _number(left.least), "most": _number(left.most)
        },
        "deadline": _number(job.terms.deadline, job.submitted),
        "late": _number(expected.late),
        "helps": list(expected.helps),
        "rho": _number(job.rho if progress.ended is not None else expected.rho),
        "place": expected.place,
        "plan": progress.names[-1] if progress.names else "A",
        "switches": max(0, progress.plan),
        "error": None if progress.error is None else str(progress.error),
        "whole": plan is not None and any(stage.whole for stage in plan.stages),
    }  # fmt: skip


def job_view(job: JobFacts, plan_map: Json | None = None, since: int | None = None) -> Json:
    """A job in full. since: a version of its progress; only the tasks that changed after it are listed."""
    progress = job.progress
    progress.carry(job.plans)
    after = -1 if since is None else since
    tasks = [task for task in progress.tasks.values() if task.version > after]
    return {
        **job_line(job),
        "sql": job.text,
        "plans": _plans(job),
        "running": progress.names[-1] if progress.names else "A",
        "stages": [view for place in range(len(progress.names)) for view in _stages(job, place)],
        "tasks": [_task(task, job) for task in tasks],
        "since": since,
        "version": progress.version,
        "decisions": [_decision(one, job.offset) for one in progress.decisions],
        "events": [_event(one, job.offset) for one in progress.events],
        "shares": [
            [_number(at, job.offset), _number(share.cpu), _number(share.memory)] for at, share in progress.replay.shares
        ],
        "map": plan_map,
    }


def _plans(job: JobFacts) -> list[Json]:
    """The plans that the job may run and has run, by name. seconds: until each would end, by the last decision; of the
    running plan, by the current expectation."""
    progress = job.progress
    known = {one.name: one.candidate.plan for one in job.options}
    origins = {one.name: one.candidate.origin for one in job.options}
    ran = dict(zip(progress.names, job.plans, strict=False))
    seconds = {one.plan: one.seconds for one in progress.decisions[-1].candidates} if progress.decisions else {}
    if progress.names and job.expected.left is not None:
        seconds[progress.names[-1]] = job.expected.left.likely
    return [
        {
            "name": name,
            "seconds": _number(seconds.get(name)),
            "kept": name in known,
            "stages": [stage.id for stage in plan.stages],
            "what": _what(plan, origins.get(name, "")),
        }
        for name, plan in {**ran, **known, **ran}.items()
    ]


def _what(plan: Plan, origin: str) -> str:
    if any(stage.whole for stage in plan.stages):
        return "DuckDB's own plan of the whole query"
    tasks = sum(stage.width for stage in plan.stages)
    made = f", {origin}" if origin and origin != "launch" else ""
    return f"{len(plan.stages)} stages, {tasks} tasks{made}"


def _stages(job: JobFacts, place: int) -> list[Json]:
    """The stages of one of the plans that ran."""
    if place >= len(job.plans):
        return []
    progress, plan = job.progress, job.plans[place]
    over = progress.state == "SUCCEEDED" and place == progress.plan
    done = done_of(progress, plan, over)
    running = Counter(task.key.content for task in progress.running.values())
    queued = Counter(task.key.content for task in progress.running.values() if task.state == "QUEUED")
    views = []
    for stage in plan.stages:
        content = content_of(stage)
        parts = progress.parts.get(content)
        views.append(
            {
                **_fixed(stage),
                "plan": progress.names[place],
                "done": done[stage.id],
                "running": running[content] - queued[content],
                "queued": queued[content],
                **_made(parts),
                **_profiled(parts.profile if parts is not None else None),
                "carried": place > 0 and parts is not None and parts.plan < place and bool(parts.present),
            }
        )
    return views


def _fixed(stage: Stage) -> Json:
    """The fields of a stage that never change."""
    return {
        "id": stage.id,
        "label": stage.label,
        "inputs": [item.stage for item in stage.stage_inputs],
        "tables": [item.table for item in stage.table_inputs],
        "tasks": stage.width,
        "rows_estimated": _number(stage.estimate.rows),
        "seconds_estimated": _number(stage.width * stage.estimate.task_seconds),
        "whole": stage.whole,
        "opaque": stage.opaque,
        "sql": stage.sql,
    }


def _made(parts: Parts | None) -> Json:
    if parts is None or not parts.seconds:
        return {"rows": None, "bytes": None, "seconds": None}
    return {
        "rows": parts.rows,
        "bytes": parts.bytes,
        "seconds": _number(parts.seconds),
    }


def _profiled(profile: TaskProfile | None) -> Json:
    """The profile of a task or a stage, under EXPLAIN ANALYZE."""
    if profile is None:
        return {"peak_memory": None, "spilled": None, "read": None, "cpu_seconds": None}
    return {
        "peak_memory": profile.peak_memory, "spilled": profile.spilled, "read": profile.read,
        "cpu_seconds": _number(profile.cpu_seconds),
    }  # fmt: skip


def _task(task: Task, job: JobFacts) -> Json:
    success, id = task.success, task.attempt.task
    made = success.committed if success is not None else None
    return {
        "key": str(task.attempt),
        "stage": id.stage,
        "plan": job.progress.names[task.plan] if job.progress.names else "A",
        "task": id.part,
        "machine": task.machine,
        "slots": task.resources.cpu,
        "memory": task.resources.memory,
        "start": _number(task.begun, job.offset),
        "end": _number(task.ended, job.offset),
        "state": task.state,
        "account": _spent(task),
        **_profiled(success.profile if success is not None else None),
        "rows": sum(made.rows) if made is not None else None,
        "bytes": sum(made.bytes) if made is not None else None,
        "fraction": _number(task.fraction),
        "error": task.error,
    }


def _spent(task: Task) -> Json | None:
    """The seconds of a task by their use."""
    account = task.success.account if task.success is not None else None
    if account is None:
        return None
    return {
        "waited": _number(account.waited), "read": _number(account.read), "computed": _number(account.computed),
        "wrote": _number(account.wrote),
    }  # fmt: skip


def _decision(one: Decided, offset: float) -> Json:
    return {
        "at": _number(one.at, offset),
        "cause": one.cause,
        "before": _pair(one.before),
        "after": _pair(one.after),
        "running": one.running,
        "chosen": one.chosen,
        "switched": one.switched,
        "reason": one.reason,
        "candidates": [{"plan": each.plan, "seconds": _number(each.seconds)} for each in one.candidates],
        "kept": list(one.kept),
        "words": str(one),
        "planner_seconds": _number(one.planner_seconds),
    }


def _event(record: Record, offset: float) -> Json:
    kind = type(record).__name__
    _, _, words = str(record).partition(" s ")
    return {"at": _number(record.at, offset), "kind": kind, "words": words}


def _machine(one: MachineNow) -> Json:
    return {
        "id": one.id,
        "slots": _number(one.capacity.cpu),
        "memory": _number(one.capacity.memory),
        "used_slots": _number(one.used.cpu),
        "used_memory": _number(one.used.memory),
        "why": one.why,
    }


def _tenant(one: TenantStatus) -> Json:
    return {
        "name": one.name,
        "weight": one.weight,
        "share_slots": _number(one.share.cpu),
        "used_slots": one.used.cpu,
        "jobs": one.running + one.waiting,
        "queued": one.waiting,
        "done": one.done,
        "rho": _number(one.rho),
    }


def _pair(resources: Resources | None) -> list[float | None] | None:
    return None if resources is None else [_number(resources.cpu), _number(resources.memory)]


def _number(number: float | None, offset: float = 0.0) -> float | None:
    """A number for JSON: rounded to a tenth of a millisecond, None for infinity."""
    return None if number is None or not isfinite(number) else round(number + offset, 4)


def changed(view: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """True if any field but the time differs."""
    if before is None:
        return True
    return any(view[name] != before.get(name) for name in view if name not in ("now", "since"))
