"""The records of a benchmark: one for each run, with all its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from qoop.tpcds.spot import measures
from qoop.tpcds.spot.course import Event
from qoop.tpcds.spot.tasks import BATCH, LOAD

VERSION = 1
"""Of the specification, docs/spotbench.md."""
LIMIT = 10.0
"""Times the undisturbed time of the reference after which a run is stopped."""
NONE = "none"
"""The market of undisturbed runs."""
BUSY = 0.05
"""The part of a CPU that other programs may use in a run that counts."""


@dataclass(frozen=True, slots=True)
class RunKey:
    """A run: an engine, a class of work and a task in it, a market and its pressure, a window, seconds of notice."""

    engine: str
    work_class: str
    task: str
    market: str
    pressure: float
    window: int
    notice: float = 0.0

    def __str__(self) -> str:
        notice = f" notice {self.notice:g}" if self.notice else ""
        return f"run {self.work_class} {self.task} {self.market} {self.pressure:g} {self.window}{notice} {self.engine}"


@dataclass(frozen=True)
class Run:
    """The record of a run. reference: undisturbed seconds of the reference, of which the limit is ten.

    cpu: processor seconds of the adapter and all its children; others: CPUs that other programs used; durable: the
    most bytes in the durable folder. answers: of each judged text with a reply, the reason why it is wrong; None: it
    is right. works: the number of judged texts. durable_end: the bytes in the durable folder after the last life; None:
    an earlier version has not measured them.
    """

    key: RunKey
    reference: float
    events: Sequence[Event]
    cpu: float
    others: float
    durable: int
    answers: Mapping[str, str | None]
    works: int
    durable_end: int | None = None

    def json(self) -> Mapping[str, Any]:
        """As a JSON value."""
        events = [[round(one.at, 4), one.what, one.work, one.detail] for one in self.events]
        return {**asdict(self), "events": events}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Run:
        """From such a value. Raises TypeError, KeyError."""
        events = [Event(*one) for one in value["events"]]
        return cls(**{**value, "key": RunKey(**value["key"]), "events": events})

    @cached_property
    def seconds(self) -> float:
        """To the last reply; the limit where there is none, or, but in a batch, where an answer is not right. Of *load*
        the sum of what all texts waited; one without a right answer waited for the limit."""
        if self.key.work_class == LOAD:
            return sum(self.waits)
        if self.key.work_class != BATCH and self.right < self.works and self.key.market != NONE:
            return LIMIT * self.reference
        return measures.finish(self.events)

    @cached_property
    def waits(self) -> Sequence[float]:
        """The seconds that each text waited from its arrival to its right answer, or the limit."""
        found = measures.waits(self.events)
        answered = [seconds for work, seconds in found.items() if self.answers.get(work, "none") is None]
        limit = LIMIT * self.reference or measures.finish(self.events)
        return [*answered, *[limit] * (self.works - len(answered))]

    @property
    def span(self) -> float:
        """To the last reply, or the limit: the time for which the machine is needed."""
        return measures.finish(self.events) if self.key.work_class == LOAD else self.seconds

    @cached_property
    def machine_seconds(self) -> float:
        return measures.machine_seconds(self.events)

    @property
    def right(self) -> int:
        """The number of right answers within the limit."""
        return sum(reason is None for reason in self.answers.values())

    @property
    def wrong(self) -> Mapping[str, str]:
        """Wrong answers, with the reason."""
        return {work: reason for work, reason in self.answers.items() if reason is not None}

    @property
    def failures(self) -> Mapping[str, str]:
        """Texts that the engine refused, and the end of an adapter, each with its message."""
        return {event.work or "adapter": event.detail for event in self.events if event.what in ("failed", "broken")}

    @property
    def disturbed(self) -> bool:
        """True if other programs used too much of a CPU: the run does not count."""
        return self.others > BUSY


def runs(values: Mapping[str, Any]) -> Iterator[Run]:
    """The runs among the values of a file of results."""
    return (Run.of(value) for name, value in values.items() if name.startswith("run "))
