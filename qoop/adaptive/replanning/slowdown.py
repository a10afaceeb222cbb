"""The slowdown of a job: by which factor its tasks take longer than estimated, and the end, and how far it is, by that.

One estimate for all that tells of an end: the decisions, the header of the live view, deadlines and the page. All count
on the shares that are expected. The factor is the machine's as much as the plan's, so it holds for every plan of a job
alike; that of DuckDB's own plan in part (`slowdown_of_others`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, inf, log, pow, sqrt

from qoop.adaptive.replanning.end_seconds import EndSeconds
from qoop.engine.events import WorkObserved
from qoop.engine.history import Record
from qoop.engine.progress import Finished
from qoop.engine.replay import JobReplay
from qoop.engine.task import Content
from qoop.planner.finish import OVERDUE, Done, Finish
from qoop.planner.packing import on_threads
from qoop.planner.plan import Plan, Resources, StageId

TRUST, TRIAL_TRUST = 0.15, 0.03
"""The part of a plan's estimated work that must have been done for its slowdown to count as much as the estimate; where
another plan is known to take less than this one may."""

NEVER_OVER = 0.95
"""The part of a task of a stage that is over at most while it still runs."""

CARRIED = 0.5
"""The part (of its logarithm) of the error of one plan's estimate that the other plans of its query have, too, as they
stand on the same rows: by regression over 50 pairs of DuckDB's plan and one of ours it is 0.4 (1.5.5) and 0.6 (2.0)."""

STAGE_ERR, TASK_ERR, PACE_ERR = 0.5, 0.5, 0.4
"""Standard deviations of the logarithm of seconds over estimates: of a stage next to the others of its plan, before any
of its tasks has ended; of a task next to the others of its stage; of all stages alike, before any has ended.

Fitted to 12 runs of the even ones of 16 long queries of TPC-DS at scale 10, idle and next to two busy programs: there
the end lies in the range in 96 and 94 of 100 moments, and on the odd queries in 87 and 90."""

EARLY = 0.3
"""The logarithm by which a plan in stages ends sooner than its slowdown tells, before any stage has ended: the first
tasks of a plan are slower than the others, as they read files for the first time."""

_JOBS, _DOUBT = 16, 0.5
"""The number of the last jobs whose slowdowns are believed of the next one, and the weight, in jobs, of what is
believed before any has told."""

_TELLING = 0.1
"""Seconds that the tasks of a job must take to tell its slowdown."""

_SHORT = 0.02
"""Seconds that a task should take to tell anything: less is mostly its start, which estimates leave out."""

_MOST_SLOWDOWN = 4.0
"""A job that went further from its estimates, in either direction, tells no more than that."""


def slowdown(
    plan: Plan,
    contents: Mapping[StageId, Content],
    done: Done,
    finished: Finished,
    believed: float = 1.0,
    trust: float = TRUST,
) -> float:
    """By which factor the tasks of the plan that runs take longer than estimated, believed the more the more there are.

    Tasks that run longer than estimated tell as much as those that are done, and the longer they are overdue, the
    longer they will be. For DuckDB's own plan see `duckdb_slowdowns`.

    contents: of the plan's stages. done: its progress. believed: the factor before any of them has told: that of the
    session's jobs before (:class:`MachineSlowdown`), and of a plan that the job has gone over to that of the plan
    before, or the end would change with the plan that it was chosen for. trust: the part of the work that counts as
    much.
    """
    thought = took = total = 0.0
    for stage in plan.stages:
        seconds = on_threads(stage.estimate.task_seconds, done.slots.get(stage.id, stage.slots))
        total += stage.width * seconds
        spent = finished.spent.get(contents[stage.id], 0.0)
        if spent > 0:
            thought += done.parts.get(stage.id, 0) * seconds
            took += spent
        running = done.running.get(stage.id, ())
        thought += sum(min(one, seconds) for one in running)
        took += sum(one + OVERDUE * max(0.0, one - seconds) for one in running)
    first = trust * total
    return (took + first * believed) / (thought + first) if first > 0 else believed


def duckdb_slowdowns(
    finish: Finish, done: Done, share: Resources, report: WorkObserved | None, parts: Sequence[float] = (0.5,)
) -> Sequence[float]:
    """By which factor DuckDB's own plan takes longer than estimated at most, to its end, with each of these
    probabilities.

    done: its progress. report: what it has reported of that.
    """
    spent = max((max(one) for one in done.running.values() if one), default=0.0)
    whole = finish.seconds(share, replace(done, running=dict.fromkeys(done.running, (0.0,))))
    if not 0 < whole < inf:
        return [1.0 for _ in parts]
    seconds = EndSeconds.of(whole, finish.plan.root.estimate.doubt, spent, report)
    return [seconds.at(part) / whole for part in parts]


def ends_of_stages(finish: Finish, done: Done) -> EndSeconds:
    """The seconds that a plan in stages has left, for each that its slowdown tells.

    Stages err each in its own way: the errors of many even out, and that of a long last one does not. Tasks that have
    ended tell of the other tasks of their stage, and of the slowdown of the plan.
    """
    left = squares = total = untold = 0.0
    for stage, count in zip(finish.plan.stages, finish.needed(done), strict=True):
        seconds = on_threads(stage.estimate.task_seconds, done.slots.get(stage.id, stage.slots))
        running = done.running.get(stage.id, ())
        rest = sum(max(OVERDUE * one, seconds - one) for one in running) + max(0, count - len(running)) * seconds
        total += stage.width * seconds
        untold += count * seconds
        left += rest
        squares += rest * rest * (STAGE_ERR**2 * count / stage.width + TASK_ERR**2 / max(1, count))
    part = untold / total if total > 0 else 1.0
    own = squares / (left * left) if left > 0 else STAGE_ERR**2 + TASK_ERR**2
    return EndSeconds(-EARLY * part, sqrt(PACE_ERR**2 * part + own), 0.0)


def slowdown_of_others(slowdown: float, slowed: float) -> float:
    """By which factor the other plans of a query take longer than estimated, where DuckDB's own plan, which runs,
    takes `slowdown` times as long.

    What the machine is to blame for holds for all of them; the rest is the error of an estimate, and holds in part
    (`CARRIED`). slowed: the factor by which other programs slow the threads of this process.

    >>> slowdown_of_others(9.0, 1.0), slowdown_of_others(9.0, 9.0), slowdown_of_others(2.0, 8.0)
    (3.0, 9.0, 4.0)
    """
    return slowed * pow(slowdown / slowed, CARRIED)


class MachineSlowdown:
    """The slowdown that is believed of a job before any of its work is done: that of the jobs before it. Not
    thread-safe.

    Estimates are of machines that were measured once; those at hand may be three times as slow, or shared. All plans of
    a job take as many times longer, so the plan it begins with is the same. But when it ends, and whether a task that
    runs is nearly done or should be left, hangs on it, as does what shares are worth that should come at some time.
    """

    def __init__(self) -> None:
        self._logs: deque[float] = deque(maxlen=_JOBS)

    @property
    def value(self) -> float:
        """The factor: the geometric mean of the last jobs', nearer to 1 the fewer there are."""
        return exp(sum(self._logs) / (len(self._logs) + _DOUBT))

    def learn(self, plan: Plan, history: Iterable[Record]) -> None:
        """A job has run, by that plan alone. DuckDB's own plan, stages that call functions of Python, and tasks whose
        slots have changed tell nothing.

        plan: with its estimates put right by the rows that were seen, or the errors of these would count as the
            slowdown.
        """
        believed = took = 0.0
        for one, end in JobReplay.of(history).succeeded():
            stage = plan.by_id[one.attempt.task.stage]
            is_measure = not stage.whole and not stage.estimate.calls and stage.estimate.task_seconds >= _SHORT
            if is_measure and one.kept_its_slots:
                believed += on_threads(stage.estimate.task_seconds, one.resources.cpu)
                took += end.committed.seconds
        if 0 < believed < inf and took >= _TELLING:
            self._logs.append(log(min(max(took / believed, 1.0 / _MOST_SLOWDOWN), _MOST_SLOWDOWN)))


def finish_time(
    finish: Finish, done: Done, share: Resources, slowdown: float, coming: Sequence[tuple[float, Resources]] = ()
) -> float:
    """Seconds until a plan ends on a share, if its tasks take `slowdown` times as long as estimated.

    coming: (seconds from now, share), those that take its place.
    """
    if slowdown != 1.0:
        running = {stage: tuple(one / slowdown for one in spent) for stage, spent in done.running.items()}
        done = replace(done, running=running)
    if not coming:
        return slowdown * finish.seconds(share, done)
    return slowdown * finish.through([(0.0, share), *((at / slowdown, later) for at, later in coming)], done)
