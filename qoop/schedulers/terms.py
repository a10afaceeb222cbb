"""The terms of a job: whom it is for, and how soon and how badly its answer is needed; the course of its program.

A program does what it does with one job after the other: a growing answer, a step that is repeated. It tells with each
how far it is, for :mod:`qoop.schedulers.quality`. Gains are in one unit: 1 is the way from the first quality to the
last. Of programs that repeat a step it is the largest fall of the loss that was seen (SLAQ, section 3.1), since nobody
knows the last one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

USUAL_PRIORITY = 5.0


@value
class Terms:
    """tenant: shares are of tenants first; jobs that name none are for the same one.

    weight: within its tenant, above 0.
    priority: 1 to 10, the more the more urgent, for schedulers that ask.
    deadline: seconds from its submission by which the answer is needed; infinite: at no time. It ends nothing.
    Raises ConfigError.
    """

    tenant: str = ""
    weight: float = 1.0
    priority: float = USUAL_PRIORITY
    deadline: float = math.inf

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf:
            raise ConfigError(f"the weight of a job must be above 0, not {self.weight}")
        if not self.deadline > 0:
            raise ConfigError(f"deadline must be above 0 seconds, not {self.deadline}")
        if not 1 <= self.priority <= 10:
            raise ConfigError(f"priority must be from 1 to 10, not {self.priority}")

    def later(self, seconds: float) -> Terms:
        """These of a job that is submitted so much later, for an answer that is needed at the same moment.

        >>> Terms(deadline=5.0).later(2.0).deadline, Terms(deadline=5.0).later(6.0).deadline
        (3.0, 0.001)
        """
        return replace(self, deadline=max(_AT_ONCE, self.deadline - seconds))


_AT_ONCE = 0.001
"""Seconds from its submission by which a job is needed that is late already."""


def tenant_weights(name: str, given: Mapping[str, float] | str) -> dict[str, float]:
    """The weights of tenants, of a mapping or a text. Raises ConfigError.

    >>> tenant_weights("tenants", "dashboards=2, night=0.5")
    {'dashboards': 2.0, 'night': 0.5}
    """
    try:
        if isinstance(given, str):
            pairs = [part.rsplit("=", 1) for part in given.split(",") if part.strip()]
            given = {tenant.strip(): float(weight) for tenant, weight in pairs}
        found = {str(tenant): float(weight) for tenant, weight in given.items()}
    except (ValueError, TypeError, AttributeError):
        found = {"": math.nan}
    if not all(0 < weight < math.inf for weight in found.values()):
        raise ConfigError(f"{name} must be names with weights above 0, such as 'dashboards=2,night=1', not {given!r}")
    return found


@value
class Sampled:
    """The course of a growing answer when one of its rounds begins.

    error: the largest half-width of its intervals, relative to the estimate; infinite: some have none yet.
    first: that of the first edition in which all had one. goal: what `error` is to become; 0: the exact answer.
    drawn, after: pieces read before the round and after it, of `pieces` in all. start: of the first round.
    """

    error: float
    first: float
    goal: float
    drawn: int
    after: int
    pieces: int
    start: int

    def predicted(self, drawn: int) -> float:
        """The error once that number of pieces is read: it falls as the square root of 1/n - 1/N does (Cochran,
        Sampling Techniques, 3rd ed., 1977, equation 2.22).

        >>> round(Sampled(0.08, 0.08, 0.01, 64, 128, 1024, 64).predicted(256), 4)
        0.0358
        """
        return self.error * math.sqrt(_spread(drawn, self.pieces) / _spread(self.drawn, self.pieces))

    @property
    def gain(self) -> float:
        """The part of the way to the goal that the round will go; a first edition counts as all of it.

        The way is that of the variance, which is the square of the error: from the first edition to the goal.
        """
        if self.drawn == 0:
            return 1.0
        if math.isinf(self.error) or math.isinf(self.first):
            left = _spread(self.drawn, self.pieces) - _spread(self.after, self.pieces)
            return min(1.0, left / _spread(self.start, self.pieces))
        return max(0.0, self._left(self.error) - self._left(self.predicted(self.after)))

    def _left(self, error: float) -> float:
        whole = self.first**2 - self.goal**2
        return min(1.0, max(0.0, error**2 - self.goal**2) / whole) if whole > 0 else 0.0


def _spread(drawn: int, pieces: int) -> float:
    return 1 / drawn - 1 / pieces


@value
class Stepped:
    """The course of a program that repeats a step. fall: of the loss, that is predicted for the next step.

    largest: fall of the loss that any step brought; 0: none as yet.
    """

    fall: float
    largest: float

    @property
    def gain(self) -> float:
        """The predicted fall as a part of the largest; 1 as long as that is unknown."""
        return min(1.0, max(0.0, self.fall / self.largest)) if self.largest > 0 else 1.0


Course = Sampled | Stepped
