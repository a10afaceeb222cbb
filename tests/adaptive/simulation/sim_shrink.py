"""Makes a schedule that fails as short as it can be: delta debugging over its jobs, plans, stages and happenings
(Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on Software Engineering
2002).

Every line of a schedule can be left out, so each of its lists is tried with fewer; then numbers are made plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TypeVar

from sim_script import JobLine, Node, Nodes, Schedule, plan_of
from sim_try import failure

from qoop.catalog.errors import PlanError

T = TypeVar("T")
Still = Callable[[Schedule], bool]


def shrunk(schedule: Schedule, most: int = 1500) -> Schedule:
    """The schedule, shorter, that fails at the same place. most: how many are tried."""
    found = failure(schedule)
    if found is None:
        return schedule
    left = most

    def still(one: Schedule) -> bool:
        nonlocal left
        left -= 1
        if left < 0 or not _whole(one):
            return False
        other = failure(one)
        return other is not None and other.kind == found.kind

    before = None
    while before != schedule and left > 0:
        before = schedule
        for step in (_fewer_jobs, _fewer_lines, _fewer_plans, _fewer_stages, _narrower, _plainer):
            schedule = step(schedule, still)
    last = failure(schedule)
    return replace(schedule, comment=(last or found).message.splitlines()[0][:300])


def _whole(schedule: Schedule) -> bool:
    """True if its plans are plans."""
    try:
        for job in schedule.jobs:
            for nodes in job.plans:
                plan_of(nodes)
    except (PlanError, KeyError):
        return False
    return True


def fewer(items: Sequence[T], still: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """As few of the items, in their order, as still do it: none can be left out alone.

    >>> fewer(range(100), lambda some: 7 in some and 50 in some)
    (7, 50)
    """
    kept, size = tuple(items), max(1, len(items) // 2)
    while kept:
        place, shorter = 0, False
        while place < len(kept):
            some = kept[:place] + kept[place + size :]
            if still(some):
                kept, shorter = some, True
            else:
                place += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return kept


def _fewer_jobs(schedule: Schedule, still: Still) -> Schedule:
    def only(jobs: tuple[JobLine, ...]) -> Schedule:
        names = {job.name for job in jobs}
        fates = tuple(fate for fate in schedule.fates if fate.job in names)
        gone = {job.name for job in schedule.jobs} - names
        happenings = tuple(one for one in schedule.happenings if not gone & set(one.words[1:2]))
        return replace(schedule, jobs=jobs, fates=fates, happenings=happenings)

    return only(fewer(schedule.jobs, lambda jobs: still(only(jobs))))


def _fewer_lines(schedule: Schedule, still: Still) -> Schedule:
    happenings = fewer(schedule.happenings, lambda some: still(replace(schedule, happenings=some)))
    schedule = replace(schedule, happenings=happenings)
    fates = fewer(schedule.fates, lambda some: still(replace(schedule, fates=some)))
    schedule = replace(schedule, fates=fates)
    machines = fewer(schedule.machines, lambda some: still(replace(schedule, machines=some)))
    return replace(schedule, machines=machines)


def _fewer_plans(schedule: Schedule, still: Still) -> Schedule:
    for place in range(len(schedule.jobs)):
        schedule = _fewer_plans_of(place, schedule, still)
    return schedule


def _fewer_plans_of(place: int, schedule: Schedule, still: Still) -> Schedule:
    def only(plans: tuple[Nodes, ...]) -> Schedule:
        return _with_job(schedule, place, replace(schedule.jobs[place], plans=plans))

    return only(fewer(schedule.jobs[place].plans, lambda plans: bool(plans) and still(only(plans))))


def _with_job(schedule: Schedule, place: int, job: JobLine) -> Schedule:
    return replace(schedule, jobs=(*schedule.jobs[:place], job, *schedule.jobs[place + 1 :]))


Change = Callable[[Node], Node | None]


def _names(schedule: Schedule) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node.id for job in schedule.jobs for nodes in job.plans for node in nodes))


def _changed(schedule: Schedule, change: Change) -> Schedule:
    """The schedule with every stage as `change` makes it; None: without it."""

    def within(old: Nodes) -> Nodes:
        some = [node for node in map(change, old) if node is not None]
        names = {node.id for node in some}
        return tuple(
            replace(node, inputs=tuple((mode, name) for mode, name in node.inputs if name in names)) for node in some
        )

    jobs = tuple(replace(job, plans=tuple(filter(None, map(within, job.plans)))) for job in schedule.jobs)
    return replace(schedule, jobs=jobs)


def _fewer_stages(schedule: Schedule, still: Still) -> Schedule:
    def only(names: tuple[str, ...]) -> Schedule:
        return _changed(schedule, lambda node: node if node.id in names else None)

    return only(fewer(_names(schedule), lambda names: still(only(names))))


def _narrower(schedule: Schedule, still: Still) -> Schedule:
    for most in (1, 2):
        tried = _changed(schedule, partial(_narrowed, most))
        if tried != schedule and still(tried):
            return tried
    return schedule


def _narrowed(most: int, node: Node) -> Node:
    return replace(node, width=min(node.width, most), parts=min(node.parts, most))


def _plainer(schedule: Schedule, still: Still) -> Schedule:
    """Every number and word that does not matter as it is by default."""
    changed = True
    while changed:
        changed = False
        for tried in _plain(schedule):
            if tried != schedule and still(tried):
                schedule, changed = tried, True
                break
    return schedule


def _plain(schedule: Schedule) -> Iterator[Schedule]:
    for item in fields(schedule):
        if item.name in ("scheduler", "patience", "stop", "wait", "think"):
            yield replace(schedule, **{item.name: item.default})
    for place, job in enumerate(schedule.jobs):
        for item in fields(job):
            if item.name not in ("name", "plans") and getattr(job, item.name) != item.default:
                yield _with_job(schedule, place, replace(job, **{item.name: item.default}))
    for item in fields(Node):
        if item.name not in ("id", "width", "inputs", "parts"):
            yield _changed(schedule, partial(_reset, item.name, item.default, ""))
            for id in _names(schedule):
                yield _changed(schedule, partial(_reset, item.name, item.default, id))
    for place, one in enumerate(schedule.machines):
        plain = (*schedule.machines[:place], (one[0], 2.0, 4.0), *schedule.machines[place + 1 :])
        yield replace(schedule, machines=plain)


def _reset(name: str, value: object, id: str, node: Node) -> Node:
    """The stage with a field as it is by default, if it is the one that is meant, or all are."""
    return replace(node, **{name: value}) if id in ("", node.id) else node
