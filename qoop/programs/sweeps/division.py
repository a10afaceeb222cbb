"""The slots that promising trials deserve: the division of POP (HyperDrive, Middleware 2017, section 4).

Slots that are desired fall with the confidence that a trial must have to be promising; those that are deserved rise
with it. The crossing gives both the least confidence and the slots.
"""

from __future__ import annotations

from collections.abc import Sequence

from qoop.catalog.value import value


@value
class Division:
    """threshold: the least confidence of a promising trial; infinite: there is none. slots: for these trials; less
    than 1: that part of the time of a slot. The others share the rest in turn."""

    threshold: float
    slots: float


def division(confidences: Sequence[float], slots: float) -> Division:
    """The division of slots, by each active trial's confidence of reaching the target in time.

    >>> division([0.9, 0.8, 0.2, 0.1], 4), division([0.04, 0.03, 0.02], 4)
    (Division(threshold=0.8, slots=2.0), Division(threshold=0.04, slots=0.16))
    """
    ranked = sorted(confidences, reverse=True)
    effective = [min(float(place), slots * p) for place, p in enumerate(ranked, start=1)]
    if not effective:
        return Division(float("inf"), 0.0)
    most = max(effective)
    return Division(ranked[effective.index(most)], most)
