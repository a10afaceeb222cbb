"""The parts that go beyond greed, as policies that single-query runs can be made with, by name.

What a forecast knows of a market, or of a cluster's other jobs, is fitted to profiles of the same kind that no run is
made on: their seeds are above those that situations draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import inf

from qoop.replanning.decision import Policy
from qoop.replanning.forecast import Forecast, fit
from qoop.replanning.moves import Moves
from qoop.tpcds.suite.situations import MAKERS

FORECAST, LEARNING, UNGUARDED = "forecast from history", "forecast learned", "forecast without guard"
PARTS = (FORECAST, LEARNING, UNGUARDED)
_PAST = (2_000_001, 2_000_002, 2_000_003)


def policies(kind: str) -> Mapping[str, Policy]:
    """The policies of each part for runs under profiles of a kind; of an unknown kind they learn from what they see."""
    known = history(kind) if kind in MAKERS else Moves()
    return {FORECAST: Forecast(known), LEARNING: Forecast(), UNGUARDED: Forecast(known, risk=inf)}


@lru_cache(maxsize=8)
def history(kind: str) -> Moves:
    """The moves that three profiles of a kind show."""
    return sum((fit(MAKERS[kind](seed)) for seed in _PAST), Moves()).merged(12)
