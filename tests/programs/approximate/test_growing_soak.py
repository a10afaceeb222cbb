"""Some schedules of kills, switches and resizes while answers grow. `make soak-growing` does 500."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from growing_soak import World, assert_alike, perform, schedule, world

FIRST, MOST = (10, 1), 50
"""Runs in which, by the usual seed, all happens that is to, and a kill; and those after which it surely has."""
EXPECTED = ("editions", "switches of plan", "failures injected")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder: Path = tmp_path_factory.mktemp("growing")
    return world(folder)


@pytest.mark.timeout(300)
def test_no_edition_is_wrong_or_lost_whatever_goes_wrong(known: World, seed: int) -> None:
    happened = Counter[str]()
    for number, place in enumerate(dict.fromkeys((*FIRST, *range(MOST)))):
        if number >= len(FIRST) and all(happened[what] for what in EXPECTED):
            break
        print(f"make soak-growing SEED={seed} FIRST={place} RUNS=1")
        happened += perform(schedule(str(seed), place), known)
    print(happened)
    for what in EXPECTED:
        assert happened[what] > 0, f"nothing of that: {what}"


def test_the_judge_sees_a_wrong_figure(known: World) -> None:
    right = known.undisturbed(0, 0)
    with pytest.raises(AssertionError, match="should be"):
        assert_alike(right[0], right[1])
    assert_alike(right[0][::-1], right[0])
