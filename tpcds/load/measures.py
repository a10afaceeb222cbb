"""The figures of a run: times, finish-time fairness, deadlines; and how policies compare over seeds.

ρ of a job is its time over its time alone on its even share (Mahajan et al., "Themis", NSDI 2020, section 3, with the
exact time alone). That share is the cluster divided by the tenants, and a tenant's part by its jobs, in the mean over
the life of the job. ρ of a tenant is the mean over its jobs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from statistics import fmean
from typing import Any

from qoop.tpcds.quantiles import quantile, ratio_of_sums

URGENT = 8.0
"""Priorities from here on count as urgent."""


@dataclass(frozen=True)
class Played:
    """One job of a run. at, ended: seconds. work: slot seconds. deadline: seconds that were allowed.

    alone: the seconds that it takes alone on a number of slots, with tasks that take what they really took.
    """

    tenant: str
    at: float
    ended: float
    work: float
    deadline: float
    priority: float
    alone: Callable[[float], float]

    @property
    def seconds(self) -> float:
        return self.ended - self.at

    @property
    def met(self) -> bool:
        return self.seconds <= self.deadline


@dataclass(frozen=True)
class Summary:
    """A run. mean, late: of the seconds that jobs took, the mean and the 95th percentile.

    rho: of each tenant, the mean over its jobs. rho_median, rho_late, rho_most: of jobs. fair: part of jobs
    with ρ of at most 1.05.
    rho_parts: ρ of jobs at each twentieth of them, from the least to the most.
    met, met_urgent: part of the deadlines that were met, of all and of those of urgent jobs. used: part of the slots
    that worked until the last job ended.
    """

    policy: str
    load: float
    seed: int
    jobs: int
    mean: float
    late: float
    rho: Mapping[str, float]
    rho_median: float
    rho_late: float
    rho_most: float
    fair: float
    met: float
    met_urgent: float
    used: float
    rho_parts: Sequence[float]

    @property
    def rho_tenant(self) -> float:
        """The largest of a tenant."""
        return max(self.rho.values())

    def to_json(self) -> Mapping[str, object]:
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Summary:
        return cls(**values)


def summary(policy: str, load: float, seed: int, played: Sequence[Played], slots: float) -> Summary:
    """slots: of all machines."""
    shares = even_shares(played, slots)
    rhos = [one.seconds / one.alone(share) for one, share in zip(played, shares, strict=True)]
    tenants: dict[str, list[float]] = defaultdict(list)
    for one, rho in zip(played, rhos, strict=True):
        tenants[one.tenant].append(rho)
    seconds, urgent = [one.seconds for one in played], [one for one in played if one.priority >= URGENT]
    return Summary(
        policy, load, seed, len(played), fmean(seconds), quantile(seconds, 0.95),
        {name: fmean(own) for name, own in sorted(tenants.items())},
        quantile(rhos, 0.5), quantile(rhos, 0.95), max(rhos), fmean(rho <= 1.05 for rho in rhos),
        fmean(one.met for one in played), fmean(one.met for one in urgent or played),
        sum(one.work for one in played) / (slots * max(one.ended for one in played)),
        [quantile(rhos, place / 20) for place in range(21)],
    )  # fmt: skip


def even_shares(played: Sequence[Played], slots: float) -> list[float]:
    """The slots that each job would have had, in the mean of its life, had they been divided evenly: between the
    tenants that had jobs, then between their jobs."""
    changes = sorted(
        [(one.at, 1, one.tenant) for one in played] + [(one.ended, -1, one.tenant) for one in played],
        key=lambda change: change[:2],
    )
    moments, last = [0.0], 0.0
    jobs: Counter[str] = Counter()
    held = {one.tenant: [0.0] for one in played}  # slot seconds that a job of it would have had since the beginning
    for at, step, tenant in changes:
        active = sum(count > 0 for count in jobs.values())
        for name, sums in held.items():
            sums.append(sums[-1] + (slots / (active * jobs[name]) * (at - last) if jobs[name] else 0.0))
        moments.append(at)
        last = at
        jobs[tenant] += step

    def until(tenant: str, moment: float) -> float:
        return held[tenant][bisect_right(moments, moment) - 1]

    return [(until(one.tenant, one.ended) - until(one.tenant, one.at)) / max(one.seconds, 1e-9) for one in played]


@dataclass(frozen=True)
class Compared:
    """A figure of a policy over another's, over seeds, with the 95 % interval of the bootstrap."""

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.ratio:.2f} ({self.low:.2f}-{self.high:.2f})"


def compared(known: Iterable[Summary], policy: str, base: str, figure: str) -> Compared | None:
    """`figure` of a policy over that of the base, of the seeds that both have; None if there are none."""
    of = attrgetter(figure)
    by_policy: dict[str, dict[int, Summary]] = defaultdict(dict)
    for one in known:
        by_policy[one.policy][one.seed] = one
    seeds = sorted(by_policy[policy].keys() & by_policy[base].keys())
    pairs = [(of(by_policy[policy][seed]), of(by_policy[base][seed])) for seed in seeds]
    return Compared(*ratio_of_sums([pairs])) if pairs and all(below > 0 for _, below in pairs) else None


BASE = "max-min by job"
HEADER = (
    f"load  policy                   mean s (95 %)   over {BASE}    largest rho of a tenant   jobs' 95 %  <= 1.05"
    "   met  urgent   used"
)


def lines(known: Sequence[Summary], base: str = BASE) -> list[str]:
    """A line for each load and policy: means over seeds, and ratios to the base with their intervals."""
    found = [HEADER]
    for load in sorted({one.load for one in known}):
        here = [one for one in known if one.load == load]
        for policy in dict.fromkeys(one.policy for one in here):
            own = [one for one in here if one.policy == policy]
            mean, rho = (compared(here, policy, base, figure) for figure in ("mean", "rho_tenant"))
            found.append(
                f"{load:4.1f}  {policy:24s} {_mean(own, 'mean'):6.0f} {_mean(own, 'late'):6.0f}   {mean or '-'!s:18s}"
                f" {_mean(own, 'rho_tenant'):5.2f}  {rho or '-'!s:18s} {_mean(own, 'rho_late'):6.2f}"
                f" {_mean(own, 'fair'):9.1%} {_mean(own, 'met'):6.1%} {_mean(own, 'met_urgent'):6.1%}"
                f" {_mean(own, 'used'):6.1%}"
            )
    return found


def _mean(summaries: Sequence[Summary], figure: str) -> float:
    return fmean(getattr(one, figure) for one in summaries)
