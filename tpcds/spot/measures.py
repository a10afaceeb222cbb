"""The measures, computed from the events of a run alone: anyone can compute them again from the file of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from qoop.tpcds.spot.course import Event

RESAMPLES = 1_000
_LOSSES = ("lost", "killed")
_LAST = ("ended", "stopped", "broken")


@dataclass(frozen=True, slots=True)
class Life:
    """One life of the machine. ready: None: it was lost before. done: times of replies."""

    start: float
    ready: float | None
    end: float
    lost: bool
    done: Sequence[float]


def lives(events: Sequence[Event]) -> list[Life]:
    """The lives in a run, in order."""
    found: list[Life] = []
    begun: list[int] = [place for place, event in enumerate(events) if event.what == "started"]
    for first, last in pairwise([*begun, len(events)]):
        own = events[first:last]
        ready = next((event.at for event in own if event.what == "ready"), None)
        done = [event.at for event in own if event.what in ("done", "failed")]
        ends = [event for event in own if event.what in (*_LOSSES, *_LAST)]
        end = ends[0] if ends else own[-1]
        found.append(Life(own[0].at, ready, end.at, end.what in _LOSSES, done))
    return found


def finish(events: Sequence[Event]) -> float:
    """The seconds of a run: to its last reply, or to the limit where that stopped it."""
    replies = [event.at for event in events if event.what in ("done", "failed")]
    return replies[-1] if any(event.what == "ended" for event in events) else events[-1].at


def machine_seconds(events: Sequence[Event]) -> float:
    """The seconds in which the machine was up, idle and starting included, until the answer."""
    end = finish(events)
    return sum(min(life.end, end) - life.start for life in lives(events))


def losses(events: Sequence[Event]) -> int:
    """The number of losses, and of kills for want of memory."""
    return sum(event.what in _LOSSES for event in events)


def start_seconds(events: Sequence[Event]) -> list[float]:
    """Of each life after the first, the seconds until the adapter was ready, or until the loss."""
    return [(life.end if life.ready is None else life.ready) - life.start for life in lives(events)[1:]]


def credited(events: Sequence[Event], cold_start: float) -> float:
    """The seconds of a run without the starts after the first, each worth at most the measured cold start."""
    return finish(events) - sum(min(start, cold_start) for start in start_seconds(events))


def recovery(events: Sequence[Event]) -> list[float]:
    """Of each loss that was followed by a reply, the seconds from the return of the machine to it, start apart."""
    return [life.done[0] - life.ready for life in lives(events)[1:] if life.ready is not None and life.done]


def until_busy(events: Sequence[Event]) -> list[float | None]:
    """Of each time that the machine got more CPUs, the seconds until all were busy; None: they were not, until the
    next size or the end of a life. CPUs that come while the adapter starts do not count."""
    found: list[float | None] = []
    grown = 0.0
    for event in events:
        if event.what == "grown":
            found.append(None)
            grown = event.at
        elif event.what == "busy":
            found[-1] = event.at - grown
    return found


def lateness(events: Sequence[Event]) -> float:
    """By how much the latest of the kills missed its second."""
    return max((event.at - float(event.detail) for event in events if event.what == "lost"), default=0.0)


def survival(events: Sequence[Event]) -> float:
    """The longest time that a process of a killed adapter lived on, and its machine took to be empty."""
    return max((b.at - a.at for a, b in pairwise(events) if b.what == "gone"), default=0.0)


def waits(events: Sequence[Event]) -> Mapping[str, float]:
    """The seconds from the arrival of each text that was sent to its last reply, or to the end of the run."""
    arrived: dict[str, float] = {}
    for event in events:
        if event.what == "sent":
            arrived.setdefault(event.work, float(event.detail or event.at))
    replied = {event.work: event.at for event in events if event.what in ("done", "failed")}
    return {work: replied.get(work, events[-1].at) - at for work, at in arrived.items()}


def break_even(best: float, seconds: float) -> float:
    """The discount from which on spot pays. best: the least machine-seconds undisturbed of any entrant.

    >>> break_even(10.0, 40.0)
    0.75
    """
    return 1.0 - best / seconds


def waste(undisturbed: float, used: float) -> float:
    """The part of processor seconds that was for nothing.

    >>> waste(3.0, 12.0)
    0.75
    """
    return 1.0 - undisturbed / used


Cell = tuple[float, float]
"""A pair of figures of one text and window: the numerator's and the denominator's."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of sums over paired runs, and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} – {self.high:.2f})"


def ratio(cells: Mapping[tuple[str, str], Cell]) -> Ratio | None:
    """The ratio of pairs by (text, window); the bootstrap draws texts, and windows. None: no pairs."""
    if not cells:
        return None
    import numpy as np

    rows, columns = (sorted(set(names)) for names in zip(*cells, strict=True))
    sums = np.zeros((2, len(rows), len(columns)))
    for (row, column), pair in cells.items():
        sums[:, rows.index(row), columns.index(column)] = pair
    chance = np.random.default_rng(1)
    drawn = [chance.multinomial(size, [1 / size] * size, RESAMPLES) for size in sums.shape[1:]]
    above, below = np.einsum("dr,xrc,dc->xd", drawn[0], sums, drawn[1])
    low, high = np.quantile(above[below > 0] / below[below > 0], [0.025, 0.975])
    total = sums.sum(axis=(1, 2))
    return Ratio(float(total[0] / total[1]), float(low), float(high))
