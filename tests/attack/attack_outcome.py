"""The outcome of one try of an attack."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """One try.

    series: what was attacked, such as "corrupted files". held: qoop answered rightly, or refused with an error of its
    own. told: what was tried, how to try it again, and what happened.
    """

    series: str
    held: bool
    told: str
