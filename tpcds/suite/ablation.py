"""The worth of each part of re-planning: the same queries and regions with one thing changed at a time.

Numbers are swept (figures 2.14, 2.15 and the share threshold), parts are taken away or added. So is what the simulation
otherwise leaves out: that a change of plan takes time, that equal tasks do not all take the same, and that
estimates err for each stage in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qoop.adaptive.replanning.baselines import NO_ROW_COUNTS
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.replanning.triggers import Triggers
from qoop.tpcds.simulate.ground_truth import GroundTruth, Straggling, distorted
from qoop.tpcds.suite import micro
from qoop.tpcds.suite.figures import (
    CLARINET_ERROR,
    CLARINET_STAGE_ERRORS,
    CLARINET_STRAGGLING,
    ERROR,
    HYSTERESIS,
    STAGE_ERRORS,
    STRAGGLING,
    THRESHOLD,
    variant,
)
from qoop.tpcds.suite.micro import SWITCH_SECONDS, Scenario
from qoop.tpcds.suite.runs import CLARINET, HINDSIGHT, QOOP, Ran
from qoop.tpcds.suite.situations import Situation

HYSTERESES = (0, 5, 10, 15, 20, 25, 35, 50)
"""Percent."""
ERRORS = (-25, -15, -5, 5, 15, 25)
"""Percent by which demands and durations are misjudged, those of all stages alike, as in figure 2.14: which hardly
changes what plan is the best."""
STAGE_ERROR = 25
"""The largest percentage by which each stage is misjudged, each by its own amount."""
THRESHOLDS = (1, 5, 20, 40)
"""Percent by which the share must change."""
NO_ROWS, BOLD = "QOOP without row counts", "QOOP not careful"

SWITCHING = {f"QOOP switching takes {seconds:g} s": seconds for seconds in (SWITCH_SECONDS, 100 * SWITCH_SECONDS)}
"""The seconds that a change of plan takes: as measured, and a hundred times that."""

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    NO_ROWS: {"triggers": NO_ROW_COUNTS},
    BOLD: {"policy": Greedy(careful=False)},
    **{variant(THRESHOLD, percent): {"triggers": Triggers(share=percent / 100)} for percent in THRESHOLDS},
}
"""The settings in which each differs from the default."""


def measure(situation: Situation) -> dict[str, Any]:
    """One record, as JSON values: QOOP, Clarinet, everything that differs in one thing, and the best in hindsight."""
    here = micro.scenario(situation)
    runs: dict[str, Ran] = {QOOP: here.adaptive(), CLARINET: here.pinned(here.launch), HINDSIGHT: here.hindsight()}
    runs |= _hysteresis(here)
    runs |= {name: here.adaptive(**more) for name, more in VARIANTS.items()}
    runs |= {variant(THRESHOLD, 10): runs[QOOP]}
    runs |= {variant(ERROR, 0): runs[QOOP], variant(CLARINET_ERROR, 0): runs[CLARINET]}
    for percent in ERRORS:
        wrong = micro.scenario(situation, percent)
        runs |= {variant(ERROR, percent): wrong.adaptive()}
        runs |= {variant(CLARINET_ERROR, percent): wrong.pinned(wrong.launch)}
    runs |= _as_it_may_be(
        here, micro.known_ground_truth(situation.ground.directory, situation.query), situation.ground.seed
    )
    return micro.record(here, situation, runs).json()


def _hysteresis(here: Scenario) -> dict[str, Ran]:
    """By hysteresis. Where a run without any never switches, none does: it only ever says no."""
    without = here.adaptive(policy=Greedy.asking(0.0))
    return {
        variant(HYSTERESIS, percent): here.adaptive(policy=Greedy.asking(percent / 100))
        if percent and without.switches
        else without
        for percent in HYSTERESES
    }


def _as_it_may_be(here: Scenario, ground_truth: GroundTruth, seed: int) -> dict[str, Ran]:
    """With what is left out otherwise. Where no run changes plan, a change may take what it will."""
    ours = here.adaptive()
    slow = {
        name: Scenario(here.query, here.fleet, here.ground_truth, seconds).adaptive() if ours.switches else ours
        for name, seconds in SWITCHING.items()
    }
    uneven = Scenario(here.query, here.fleet, Straggling(ground_truth, seed=seed))
    wrong = Scenario(here.query, here.fleet, distorted(ground_truth, STAGE_ERROR, seed))
    return slow | {
        STRAGGLING: uneven.adaptive(),
        CLARINET_STRAGGLING: uneven.pinned(uneven.launch),
        STAGE_ERRORS: wrong.adaptive(),
        CLARINET_STAGE_ERRORS: wrong.pinned(wrong.launch),
    }
