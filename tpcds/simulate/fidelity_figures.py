"""The figures of real runs against their simulation, as values, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations, groupby
from statistics import median
from typing import Any

from qoop.tpcds.quantiles import quantile, quantile_if_any

PROFILES = ("steady", "dip", "memory", "together")
_DIFFERENT = 0.10
"""Two plans are ordered if their real times differ by more than this part."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One run, real and simulated. plan: its place among the kept plans, None: as the re-planner would have it."""

    profile: str
    query: int
    plan: int | None
    real: float
    simulated: float
    fitted: bool = False

    @property
    def error(self) -> float:
        """The error of the simulated time, as a fraction of the real one."""
        return abs(self.simulated / self.real - 1.0)


@dataclass(frozen=True)
class Fidelity:
    """All pairs. machine: what was found out about it, by name. failed: why, by name of run."""

    pairs: tuple[Pair, ...]
    machine: Mapping[str, float]
    failed: Mapping[str, str]

    @cached_property
    def judged(self) -> tuple[Pair, ...]:
        """Those that nothing was fitted to."""
        return tuple(pair for pair in self.pairs if not pair.fitted)

    @property
    def queries(self) -> int:
        """The number of queries that there are runs of."""
        return len({pair.query for pair in self.pairs})

    @property
    def median_error(self) -> float | None:
        """Of all completion times; None if nothing ran."""
        return quantile_if_any([pair.error for pair in self.judged], 0.5)

    def orders(self) -> tuple[int, int]:
        """Of pairs of plans of one query whose real times differ by more than 10 %: how many the simulator has in the
        same order, of how many. As with errors only runs count that nothing was fitted to."""
        steady = sorted((pair for pair in self.judged if pair.profile == "steady"), key=lambda pair: pair.query)
        right = every = 0
        for _, plans in groupby(steady, key=lambda pair: pair.query):
            for one, other in combinations(plans, 2):
                if max(one.real, other.real) > (1.0 + _DIFFERENT) * min(one.real, other.real):
                    every += 1
                    right += (one.real < other.real) == (one.simulated < other.simulated)
        return right, every


def table(found: Fidelity) -> str:
    """The report: what was found of the machine, errors by profile, the order of plans."""
    lines = [
        "of the machine: " + ", ".join(f"{name} {value:.3g}" for name, value in found.machine.items()),
        f"{'profile':<9} {'runs':>5} {'median error':>13} {'90th percentile':>16} {'simulated/real':>15}",
    ]
    lines += [_line(name, [pair for pair in found.judged if pair.profile == name]) for name in PROFILES]
    lines.append(_line("all", found.judged))
    right, every = found.orders()
    error = found.median_error
    lines.append(_verdict("median error", error, "at most 10%", error is not None and error <= 0.10))
    share = right / every if every else None
    kept = share is not None and share >= 0.90
    lines.append(_verdict(f"order of {every} pairs of plans kept", share, "at least 90%", kept))
    lines += [f"{name} failed: {why}" for name, why in found.failed.items()]
    return "\n".join(lines)


def _line(name: str, pairs: Sequence[Pair]) -> str:
    if not pairs:
        return f"{name:<9} {0:>5}"
    errors = [pair.error for pair in pairs]
    ratio = median(pair.simulated / pair.real for pair in pairs)
    return f"{name:<9} {len(pairs):>5} {median(errors):>13.1%} {quantile(errors, 0.9):>16.1%} {ratio:>15.2f}"


def _verdict(what: str, value: float | None, target: str, met: bool) -> str:
    shown = "unknown" if value is None else f"{value:.1%}"
    return f"{what}: {shown} (target: {target}): {'met' if met else 'not met'}"


def to_json(found: Fidelity) -> dict[str, Any]:
    """The figures as JSON values."""
    right, every = found.orders()
    return {
        "pairs": [{**asdict(pair), "error": pair.error} for pair in found.pairs],
        "median_error": found.median_error,
        "orders": {"right": right, "of": every},
        "machine": dict(found.machine),
        "failed": dict(found.failed),
    }
