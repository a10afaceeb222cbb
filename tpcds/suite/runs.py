"""Results of single-query runs: one record of a query under a profile serves many figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from statistics import fmean
from typing import Any

QOOP, CLARINET, VOLCANO, HINDSIGHT = "QOOP", "Clarinet", "Volcano", "hindsight"
NO_BACKTRACKING = "QOOP without backtracking"
CLASSES = ("low", "medium", "high")
KINDS = ("spot", "shared")


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a query.

    seconds: from its start to its end, in virtual time. tasks: that ended well. lost: attempts that did not.
    switches: changes of plan; depths: how many stages back each went from what had been reached. deciding: seconds that
    decisions took while the job went on. plan: of a baseline, or of the best in hindsight, its place among those kept.
    decisions: how often the plan was thought over; tempted: how often another one was believed to end sooner at all.
    """

    seconds: float
    tasks: int = 0
    lost: int = 0
    switches: int = 0
    depths: tuple[int, ...] = ()
    deciding: float = 0.0
    plan: int | None = None
    decisions: int = 0
    tempted: int = 0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A query in one region of a profile. joins: in its text. plans: that were kept. runs: by system."""

    query: int
    kind: str
    volatility: str
    region: int
    joins: int
    plans: int
    runs: Mapping[str, Ran]

    def json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> RunRecord:
        """From JSON values."""
        runs = {name: Ran(**{**one, "depths": tuple(one["depths"])}) for name, one in kept["runs"].items()}
        return cls(**{**kept, "runs": runs})

    def gain(self, baseline: str = CLARINET, ours: str = QOOP) -> float:
        """The time of the baseline, relative to ours."""
        return self.runs[baseline].seconds / self.runs[ours].seconds


@dataclass(frozen=True)
class Suite:
    """All measurements. micro, ablation: of single queries. Others: the values of their parts, by name."""

    micro: Sequence[RunRecord] = ()
    ablation: Sequence[RunRecord] = ()
    macro: Mapping[str, Any] = field(default_factory=dict)
    toy: Mapping[str, Any] = field(default_factory=dict)
    fidelity: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """One query over the regions of a class: completion times are their means, as in the paper."""

    query: int
    joins: int
    records: Sequence[RunRecord]

    def seconds(self, system: str) -> float:
        return fmean(record.runs[system].seconds for record in self.records)

    def gain(self, baseline: str = CLARINET, ours: str = QOOP) -> float:
        """Mean completion time of the baseline over ours."""
        return self.seconds(baseline) / self.seconds(ours)

    def mean(self, what: Callable[[Ran], float], system: str = QOOP) -> float:
        return fmean(what(record.runs[system]) for record in self.records)


def of(
    records: Iterable[RunRecord], kind: str, volatility: str | None = None, ours: Sequence[str] = ()
) -> list[RunRecord]:
    """Those of a kind of profile and a class (None: all) in which all of these systems ran."""
    return [
        record
        for record in records
        if record.kind == kind and volatility in (None, record.volatility) and all(name in record.runs for name in ours)
    ]


def kinds(records: Iterable[RunRecord]) -> list[str]:
    """The kinds of profile, in order of their first run."""
    return list(dict.fromkeys(record.kind for record in records))


def by_query(records: Iterable[RunRecord]) -> list[Query]:
    """The queries with their regions, by number."""
    ordered = sorted(records, key=lambda record: (record.query, record.region))
    groups = ((number, list(group)) for number, group in groupby(ordered, key=lambda record: record.query))
    return [Query(number, group[0].joins, group) for number, group in groups]


def share(values: Sequence[float], above: float) -> float:
    """The part of the values that is above a bound."""
    return sum(value > above for value in values) / len(values)
