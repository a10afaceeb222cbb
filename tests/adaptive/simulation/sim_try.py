"""Performs a schedule and says what came of it, as a value that can pass between processes."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sim_cover import Cell
from sim_draw import drawn
from sim_script import Schedule
from sim_world import World


@dataclass(frozen=True)
class Failure:
    """A failure. kind: the error and the place where it was found, which distinguish failures."""

    kind: tuple[str, ...]
    message: str


@dataclass
class Tried:
    """The outcome of some schedules. events: by schedule, those that came to the cluster from outside. jobs: as many as
    each has. counts: of records in the histories, and of the states that jobs ended in."""

    events: list[int] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    hits: Counter[Cell] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[int, Failure] = field(default_factory=dict)

    def add(self, more: Tried) -> None:
        """Take in what came of others."""
        self.events += more.events
        self.jobs += more.jobs
        self.hits += more.hits
        self.counts += more.counts
        self.failures |= more.failures


def tried(schedule: Schedule, number: int = 0) -> Tried:
    """The outcome of a schedule."""
    result = Tried()
    watch = None
    try:
        world = World(schedule)
        watch = world.watch
        world.run()
    except Exception as error:
        result.failures[number] = _failure(error)
    if watch is not None:
        result.events.append(watch.events)
        result.jobs.append(len(watch.jobs))
        result.hits += watch.cover.hits
        result.counts += Counter(job.run.state.value for job in watch.jobs.values())
        result.counts += Counter(
            f"with {type(e).__name__}" for j in watch.jobs.values() if (e := j.run.error) is not None
        )
    return result


def tried_all(task: tuple[str, Iterable[int]]) -> Tried:
    """The outcome of the schedules of a seed and these numbers."""
    seed, numbers = task
    found = Tried()
    for number in numbers:
        found.add(tried(drawn(seed, number), number))
    return found


def failure(schedule: Schedule) -> Failure | None:
    """The failure of a schedule; None if there is none."""
    return tried(schedule).failures.get(0)


def _failure(error: Exception) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    message = "".join(traceback.format_exception_only(error)).strip()
    return Failure((type(error).__name__, last.name, str(last.line)), message)
