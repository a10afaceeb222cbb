"""What each part of re-planning is worth: the same queries and regions with one thing changed at a time.

Numbers that are swept (figures 2.14, 2.15 and the share threshold) and parts that are taken away or added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qoop.adaptive import Triggers
from qoop.baselines import NO_ROW_COUNTS
from qoop.replanner import Greedy
from qoop.tpcds.suite import beyond, micro
from qoop.tpcds.suite.figures import CLARINET_ERROR, ERROR, HYSTERESIS, THRESHOLD, variant
from qoop.tpcds.suite.runs import CLARINET, QOOP, Met, Ran
from qoop.tpcds.suite.situations import Situation

HYSTERESES = (0, 5, 10, 15, 20, 25, 35, 50)
"""Percent."""
ERRORS = (-25, -15, -5, 5, 15, 25)
"""Percent by which demands and durations are misjudged."""
THRESHOLDS = (1, 5, 20, 40)
"""Percent by which the share must change."""
NO_ROWS = "QOOP without row counts"

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    NO_ROWS: {"triggers": NO_ROW_COUNTS},
    **{variant(HYSTERESIS, percent): {"policy": Greedy(hysteresis=percent / 100)} for percent in HYSTERESES},
    **{variant(THRESHOLD, percent): {"triggers": Triggers(share=percent / 100)} for percent in THRESHOLDS},
}
"""How each differs from the default."""


def measure(situation: Situation) -> dict[str, Any]:
    """One record, as JSON values: QOOP, Clarinet, and everything that differs in one thing."""
    here = micro.arena(situation)
    runs: dict[str, Ran] = {QOOP: here.adaptive(), CLARINET: here.pinned(here.launch)}
    runs |= {name: here.adaptive(**more) for name, more in VARIANTS.items()}
    runs |= {name: here.adaptive(policy=policy) for name, policy in beyond.policies(situation.kind).items()}
    runs |= {variant(THRESHOLD, 10): runs[QOOP]}
    runs |= {variant(ERROR, 0): runs[QOOP], variant(CLARINET_ERROR, 0): runs[CLARINET]}
    for percent in ERRORS:
        wrong = micro.arena(situation, percent)
        runs |= {variant(ERROR, percent): wrong.adaptive()}
        runs |= {variant(CLARINET_ERROR, percent): wrong.pinned(wrong.launch)}
    return Met(
        situation.query, situation.kind, situation.volatility, situation.region, here.query.joins,
        len(here.query.candidates), runs,
    ).json()  # fmt: skip
