"""Draws schedules: the same seed and number, the same schedule."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from sim_plans import Names, Query, drawn_plan
from sim_script import Fate, Happening, JobLine, Nodes, Schedule

STEP = 0.25
"""All times are multiples of it, so that much happens at once."""


def drawn(seed: str, number: int) -> Schedule:
    """The schedule of that number."""
    chance = random.Random(f"{seed}/{number}")
    length = chance.choice((10.0, 20.0, 40.0))
    machines = tuple(_machine(chance, f"m{place}") for place in range(1, 1 + chance.choice((1, 1, 2, 3, 4))))
    jobs = _jobs(chance, length)
    fates = tuple(fate for job in jobs for fate in _fates(chance, job))
    happenings = [*_capacity(chance, machines, length), *_asked(chance, jobs, length), *_losses(chance, jobs, length)]
    if chance.random() < 0.05:
        happenings.append(Happening(_at(chance, length), ("close",)))
        if happenings and chance.random() < 0.5:  # soon after something else
            happenings.append(Happening(chance.choice(happenings).at + STEP, ("close",)))
    fates = (*fates, *_late(chance, jobs))
    schedule = Schedule(
        machines, jobs, fates, tuple(sorted(happenings, key=lambda one: one.at)),
        scheduler=chance.choice(("max-min",) * 5 + ("drf", "tetris", "sjf", "carbyne")),
        patience=chance.choice((0, 0, 0, 2, 8)), stop=chance.choice((0.0, 0.25, 1.0, 2.0)),
        wait=chance.choice((0.0, 0.0, 0.0, 0.0, 2.0, 5.0)), think=chance.choice((0.0, 0.0, 0.25, 1.0)),
        relief=length + 20.0,
    )  # fmt: skip
    return replace(schedule, fates=(*fates, *_closed(chance, jobs)))  # last: the rest of a number stays what it was


def _machine(chance: random.Random, name: str) -> tuple[str, float, float]:
    return name, float(chance.choice((1, 2, 2, 3, 4))), float(chance.choice((2, 4, 4, 8)))


def _at(chance: random.Random, length: float) -> float:
    return STEP * chance.randrange(int(length / STEP))


def _jobs(chance: random.Random, length: float) -> tuple[JobLine, ...]:
    names, messages = Names(), iter("abcdefghijklmnopqrstuvwxyz")
    queries: list[tuple[Query, list[Nodes]]] = []
    jobs = []
    for name in "ABCDEFGH"[: chance.choice((6, 7, 8, 8))]:
        if not queries or (len(queries) < 5 and chance.random() < 0.6):
            query = Query.drawn(chance, tuple(next(messages) for _ in range(chance.choice((2, 4, 4, 4, 5)))))
            plans = [drawn_plan(chance, query, names) for _ in range(chance.choice((2, 3, 4)))]
            queries.append((query, list(dict.fromkeys(plans))))
        jobs.append(_job(chance, name, tuple(chance.choice(queries)[1]), length))
    return tuple(jobs)


def _job(chance: random.Random, name: str, plans: tuple[Nodes, ...], length: float) -> JobLine:
    adaptive = chance.random() < 0.75
    plans = tuple(chance.sample(plans, len(plans)))
    return JobLine(
        name,
        at=chance.choice((0.0, 0.0, _at(chance, length))),
        weight=chance.choice((0.5, 1.0, 1.0, 3.0)),
        timeout=chance.choice((0.0,) * 10 + (5.0, 20.0)),
        attempts=chance.choice((2, 3, 4)),
        revocations=chance.choice((1, 2, 50, 50)),
        adaptive=adaptive,
        at_once=chance.random() < 0.7,
        durable=chance.random() < 0.2,
        reuse=chance.random() < 0.4,
        keep=not adaptive and chance.random() < 0.2,
        missing=chance.random() < 0.01,
        lost=adaptive and chance.random() < 0.01,
        plans=plans if adaptive else plans[:1],
    )


_KINDS = ("fails",) * 6 + ("breaks", "unreadable", "unreadable", "slow", "slow") + (
    "again", "again", "contradicts", "contradicts", "ghost", "ghost", "ghost",
)  # fmt: skip


def _fates(chance: random.Random, job: JobLine) -> Iterator[Fate]:
    """The mishaps of a job's attempts: few in most jobs, many in some."""
    often = chance.choice((0.0, 0.1, 0.1, 0.3))
    tasks = dict.fromkeys((node.id, part) for nodes in job.plans for node in nodes for part in range(node.width))
    kinds = [kind for kind in _KINDS if kind != "breaks" or chance.random() < 0.15]
    for stage, part in tasks:
        for n in range(1, 4):
            if chance.random() < often / n:
                kind = chance.choice(kinds)
                if kind == "slow" and job.timeout and chance.random() < 0.5:
                    kind = "hangs"
                yield Fate(job.name, stage, part, n, kind, _how(chance, kind))


def _how(chance: random.Random, kind: str) -> float:
    if kind in ("again", "contradicts", "ghost"):
        return chance.choice((0.0, STEP, 1.0, 4.0, 12.0))
    return chance.choice((0.5, 1.0, 2.0)) if kind != "slow" else chance.choice((2.0, 4.0, 8.0))


def _capacity(
    chance: random.Random, machines: tuple[tuple[str, float, float], ...], length: float
) -> Iterator[Happening]:
    """Machines that come, go, shrink and grow, some of it announced."""
    alone = len(machines) == 1
    names = [name for name, _, _ in machines] + ([] if alone else ["m8"])
    for _ in range(chance.choice((0, 3, 6, 12))):
        at, name = _at(chance, length), chance.choice(names)
        slots, memory = str(chance.choice((0, 1, 1, 2, 2, 3, 4))), str(chance.choice((1, 2, 4, 4, 8)))
        notice = STEP * chance.choice((0, 0, 1, 4, 8))
        kind = chance.choice(("resize", "resize", "slots", "lose")) if alone else chance.choice(("slots", "slots", "lose", "join"))  # noqa: E501  # fmt: skip
        match kind:
            case "resize":
                yield Happening(at, ("resize", slots, memory, f"{notice:g}"))
            case "slots":
                if notice:
                    yield Happening(at, ("notice", name, slots, memory, f"{notice:g}"))
                yield Happening(at + notice * chance.choice((1, 1, 1, 0.5, 2)), ("slots", name, slots, memory))
            case "lose":
                if notice:
                    yield Happening(at, ("notice", name, "0", "0", f"{notice:g}"))
                yield Happening(at + notice, ("lose", name))
                yield Happening(at + notice + STEP * chance.randrange(12), ("join", name, slots, memory))
            case "join":
                yield Happening(at, ("join", name, slots, memory))


def _late(chance: random.Random, jobs: tuple[JobLine, ...]) -> Iterator[Fate]:
    """An output made of a non-deterministic stage's rows comes late, while the same is made of its second
    making's rows: seldom by chance alone."""
    for job in jobs:
        known = {node.id: node for nodes in job.plans for node in nodes}
        read = [(node, known[name]) for node in known.values() for _, name in node.inputs if known[name].island]
        if read and chance.random() < 0.3:
            reader, island = chance.choice(read)
            again = island.t * island.pace + chance.choice((0.25, 0.5, 0.75)) * reader.t * reader.pace
            yield Fate(job.name, reader.id, chance.randrange(reader.width), 1, "spoiled", STEP * round(again / STEP))


def _closed(chance: random.Random, jobs: tuple[JobLine, ...]) -> Iterator[Fate]:
    """The session is closed while a job that has its answer waits for what it began again to stop: seldom by chance
    alone."""
    job = chance.choice(jobs)
    if chance.random() < 0.02:
        root = chance.choice(job.plans)[-1]
        yield Fate(job.name, root.id, chance.randrange(root.width), 1, "closed", STEP)


def _asked(chance: random.Random, jobs: tuple[JobLine, ...], length: float) -> Iterator[Happening]:
    """The requests of owners of jobs."""
    for job in jobs:
        since = length - job.at
        if chance.random() < 0.15:
            yield from _ended(chance, job, job.at + _at(chance, since + 1))
        if chance.random() < 0.3:
            yield Happening(job.at + _at(chance, 2 * length), ("release", job.name))
        if job.adaptive:
            for _ in range(chance.choice((0, 1, 2, 4))):
                plan = str(chance.randrange(len(job.plans)))
                yield Happening(job.at + _at(chance, min(8.0, since + 1)), ("switch", job.name, plan))
            if chance.random() < 0.2:
                yield Happening(job.at + _at(chance, since + 1), ("reconsider", job.name))
        if chance.random() < 0.5:
            plan = str(chance.randrange(len(job.plans)))
            yield Happening(job.at + _at(chance, min(4.0, since + 1)), ("pin", job.name, plan))


def _ended(chance: random.Random, job: JobLine, at: float) -> Iterator[Happening]:
    """A job is cancelled, or moved elsewhere, or both; or it cannot be moved, and goes on."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        if chance.random() < 0.5:
            yield Happening(at, ("cancel", job.name))
        else:
            kind, seconds = chance.choice(("suspend", "suspend", "pause")), STEP * chance.choice((0, 2, 8, 32))
            yield Happening(at, (kind, job.name, f"{seconds:g}"))
        if chance.random() < 0.2:
            yield Happening(at, ("pin", job.name, "0"))
        at += STEP * chance.randrange(4)


def _losses(chance: random.Random, jobs: tuple[JobLine, ...], length: float) -> Iterator[Happening]:
    """Outputs that cannot be read any more."""
    for _ in range(chance.choice((0, 0, 2, 6, 12))):
        job = chance.choice(jobs)
        node = chance.choice(chance.choice(job.plans))
        at = job.at + _at(chance, min(10.0, length))
        yield Happening(at, ("drop", job.name, f"{node.id}.{chance.randrange(node.width)}"))
