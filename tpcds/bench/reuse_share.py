"""The part of finished work that serves after a switch, and the part that would if only identical subtrees matched.

A query is run from its launch plan. At seeded moments it is asked, of every other plan worth keeping, which of the
outputs finished so far the rest of it would rest on: in three ways,

- finished: everything that is there;
- used: what is taken by qoop's own ways: by meaning and layout, by containment, by re-partitioning;
- identical: what would be taken if an output served only the very same stage on top of the very same stages, as in
  an engine that knows its plans but not what they mean.

An output is taken if the new plan reads it, or keeps it as part of a stage under way, or if it went into one that is.

By default in virtual time, by the estimates of sizes; or with the moments and bytes of one real run of each query.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path

from qoop.engine.history import Succeeded
from qoop.engine.progress import Finished
from qoop.engine.task import content_of
from qoop.planner.finish import Done
from qoop.planner.plan import Plan, Resources, Stage, StageId, StageInput
from qoop.planner.search.alternatives import keep, pool
from qoop.planner.search.candidate import Candidate, local_grid, plan_name
from qoop.replanning.answers import with_candidates
from qoop.replanning.decision import Option, Question, propagate
from qoop.session import Session, connect
from qoop.tpcds.estimates.alternatives import at_scale
from qoop.tpcds.queries import text

MEMORY = 4e9
"""Bytes of memory a slot of the machine that is planned for."""


@dataclass(frozen=True, slots=True)
class ReuseShareOptions:
    """The runs to look at. points: moments of each run. slots: of the machine. stats_scale: rows as at that scale, for
    data of scale 1, in virtual time. real: run each query once instead, here; then the scale is that of the data.
    """

    directory: Path
    queries: tuple[int, ...]
    points: int = 5
    seed: int = 1
    slots: int = 16
    stats_scale: float = 100.0
    real: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """The bytes at one moment for one other plan: finished; of these, used; and used by identical subtrees alone."""

    at: float
    plan: str
    finished: float
    used: float
    identical: float


@dataclass(frozen=True)
class QueryResult:
    """One query. plans: that are worth keeping, with the launch plan."""

    query: int
    plans: int
    taken: Sequence[Taken]

    @property
    def finished(self) -> float:
        return sum(one.finished for one in self.taken)

    @property
    def used(self) -> float:
        return sum(one.used for one in self.taken)

    @property
    def identical(self) -> float:
        return sum(one.identical for one in self.taken)

    def line(self) -> str:
        head = f"{self.query:5d} {self.plans:5d} {len(self.taken):8d} {self.finished / 1e6:11.1f}"
        if not self.finished:
            return f"{head}        -         -"
        return f"{head} {self.used / self.finished:8.1%} {self.identical / self.finished:9.1%}"


HEADER = "query plans switches finished MB     used identical"


def run(options: ReuseShareOptions, told: Callable[[str], None] = print) -> list[QueryResult]:
    """Look at each query. Raises ConfigError or SourceError if it cannot begin, QueryError or ExecutionError if a run
    fails."""
    told(HEADER)
    done = []
    with connect(slots=options.slots if options.real else None, replan=False, reuse=False, staged=True) as session:
        session.register_folder(options.directory)
        for number in options.queries:
            one = _query(session, options, number)
            told(one.line())
            done.append(one)
    return done


def _query(session: Session, options: ReuseShareOptions, number: int) -> QueryResult:
    chance = random.Random(options.seed * 1000 + number)
    points = sorted(chance.random() for _ in range(options.points))
    plans, share = (_planned_here if options.real else _planned_at_scale)(session, options, number)
    launch = Option(plan_name(0), plans[0])
    choices = with_candidates((launch,), plans, "reuse")
    if options.real:
        progress = _measured(session, text(number, directory=options.directory), plans[0].plan, points)
    else:
        progress = [_estimated(plans[0], share, point) for point in points]
    taken = [one for point in progress for one in compared(choices, share, point)]
    return QueryResult(number, len(choices), taken)


def _planned_here(session: Session, options: ReuseShareOptions, number: int) -> tuple[tuple[Candidate, ...], Resources]:
    """The launch plan and the others worth keeping, for this machine and these tables."""
    found = keep(
        pool(session.prepare(text(number, directory=options.directory)).planning(), local_grid(session.available))
    )
    return (found.pool.candidates[0], *found.kept), session.available


def _planned_at_scale(
    session: Session, options: ReuseShareOptions, number: int
) -> tuple[tuple[Candidate, ...], Resources]:
    prepared = at_scale(session.prepare(text(number, directory=options.directory)), options.stats_scale)
    available = Resources(options.slots, options.slots * MEMORY)
    found = keep(pool(prepared.planning(), local_grid(available)))
    return (found.pool.candidates[0], *found.kept), available


@dataclass(frozen=True)
class SwitchPoint:
    """The progress of the launch plan. at: fraction of its time. done: parts by stage. sizes: bytes of those parts."""

    at: float
    done: Mapping[StageId, int]
    sizes: Mapping[StageId, float]


def _estimated(launch: Candidate, share: Resources, at: float) -> SwitchPoint:
    """In virtual time, every task taking as long and putting out as much as is believed."""
    done = launch.finish.after(share, at * launch.finish.seconds(share)).parts
    sizes = {stage.id: stage.estimate.bytes * done[stage.id] / stage.width for stage in launch.plan.stages}
    return SwitchPoint(at, done, sizes)


def _measured(session: Session, query: str, launch: Plan, points: Sequence[float]) -> list[SwitchPoint]:
    """In one run of the launch plan."""
    job = session.submit(query, plan=launch)
    job.result()
    history = job.history()
    ended = history[-1].at
    return [
        _passed([one for one in history if isinstance(one, Succeeded) and one.at < at * ended], at, launch)
        for at in points
    ]


def _passed(outputs: Sequence[Succeeded], at: float, launch: Plan) -> SwitchPoint:
    done, sizes = dict.fromkeys(launch.by_id, 0), dict.fromkeys(launch.by_id, 0.0)
    for output in outputs:
        done[output.attempt.task.stage] += 1
        sizes[output.attempt.task.stage] += sum(output.committed.bytes)
    return SwitchPoint(at, done, sizes)


def compared(options: Sequence[Option], share: Resources, point: SwitchPoint) -> list[Taken]:
    """The bytes that every other plan than the first, which runs, would take over at a moment."""
    launch = options[0]
    present = {
        content: point.done[stage.id] for stage, content, usable in launch.stages if usable and point.done[stage.id]
    }
    finished = Finished(present, {}, {}, point.done)
    served = Question(tuple(options), 0, finished, share).with_reuse().options
    result = []
    for plain, option in zip(options[1:], served[1:], strict=True):
        used = _sources(launch, option, propagate(option, finished, launch).parts)
        same = _sources(launch, plain, _identical(launch, plain, point.done))
        sizes = (sum(point.sizes[stage] for stage in stages) for stages in (point.sizes, used, same))
        result.append(Taken(point.at, option.name, *sizes))
    return result


def _sources(launch: Option, option: Option, parts: Mapping[StageId, int]) -> frozenset[StageId]:
    """The stages of the launch plan that what is left of the other one rests on, given what it has of its own."""
    plan = option.candidate.plan
    needed = option.candidate.finish.needed(Done(parts))
    left = [stage for stage, tasks in zip(plan.stages, needed, strict=True) if tasks]
    taken = {stage.id for stage in left} | {item.stage for stage in left for item in stage.stage_inputs}
    contents = {content_of(plan.by_id[name]) for name in taken if parts.get(name)}
    return _with_all_below(launch.candidate.plan, {s.id for s, content, _ in launch.stages if content in contents})


def _with_all_below(plan: Plan, chosen: Collection[StageId]) -> frozenset[StageId]:
    found = set(chosen)
    for stage in reversed(plan.stages):
        if stage.id in found:
            found.update(item.stage for item in stage.stage_inputs)
    return frozenset(found)


def _identical(launch: Option, option: Option, done: Mapping[StageId, int]) -> dict[StageId, int]:
    """By stage of a plan the parts that the launch plan has of the very same stage."""
    there = structures(launch.candidate.plan)
    parts = {there[stage.id]: done[stage.id] for stage, _, usable in launch.stages if usable}
    here = structures(option.candidate.plan)
    return {stage.id: parts[here[stage.id]] for stage, _, usable in option.stages if usable and here[stage.id] in parts}


def structures(plan: Plan) -> dict[StageId, str]:
    """By stage a digest of what it does, and all stages below it do: text, inputs, cut. Not how stages are called."""
    found: dict[StageId, str] = {}
    for stage in plan.stages:
        found[stage.id] = blake2b(repr(_structure(stage, found)).encode(), digest_size=16).hexdigest()
    return found


def _structure(stage: Stage, below: Mapping[StageId, str]) -> tuple[object, ...]:
    inputs = [
        (below[item.stage], item.mode) if isinstance(item, StageInput) else replace(item, name="")
        for item in stage.inputs
    ]
    places = {item.name: f"input {place}" for place, item in enumerate(stage.inputs)}
    names = "|".join(re.escape(name) for name in sorted(places, key=len, reverse=True))
    sql = re.sub(rf"(?<!\w)({names})(?!\w)", lambda match: places[match[1]], stage.sql) if names else stage.sql
    return sql, inputs, stage.columns, stage.width, stage.layout, stage.cut


def table(done: Sequence[QueryResult]) -> str:
    """The shares over all queries, and how they are spread."""
    some = [one for one in done if one.finished]
    if not some:
        return "\nno query has another plan to change to"
    taken = [one for result in some for one in result.taken if one.finished]
    finished = sum(one.finished for one in some)
    lines = [
        "",
        f"{len(some)} of {len(done)} queries have other plans; {len(taken)} changes of plan with something finished",
    ]
    for name in ("used", "identical"):
        shares = sorted(getattr(one, name) / one.finished for one in taken)
        lines.append(
            f"{name:9} {sum(getattr(one, name) for one in some) / finished:6.1%} of all bytes finished; "
            f"of a change: mean {sum(shares) / len(shares):.1%}, median {shares[len(shares) // 2]:.1%}, "
            f"nothing in {sum(share == 0 for share in shares) / len(shares):.0%}"
        )
    return "\n".join(lines)


def to_json(done: Sequence[QueryResult]) -> dict[str, object]:
    """The figures as JSON values."""
    names = ("finished", "used", "identical")
    return {"bytes": {n: sum(getattr(one, n) for one in done) for n in names}, "queries": [asdict(one) for one in done]}
