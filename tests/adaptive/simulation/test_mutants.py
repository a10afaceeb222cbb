"""Every way of breaking the core that we thought of is found by the schedules, and some are made short."""

from __future__ import annotations

import pytest
from sim_draw import drawn
from sim_mutants import MUTANTS, Mutant, caught
from sim_shrink import shrunk
from sim_try import failure

SEED = "mutants"
NAMES = {mutant.what: mutant for mutant in MUTANTS}


def test_there_are_enough() -> None:
    assert len(NAMES) == len(MUTANTS) >= 15


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_it_can_still_be_broken_like_this(mutant: Mutant) -> None:
    before = vars(mutant.where)[mutant.name]
    with mutant.applied():
        assert vars(mutant.where)[mutant.name] is not before
    assert vars(mutant.where)[mutant.name] is before


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_it_is_caught(mutant: Mutant) -> None:
    assert caught(mutant, SEED) is not None


def test_what_is_caught_is_made_short() -> None:
    mutant = NAMES["a lost checkpoint is forgotten"]
    found = caught(mutant, SEED, within=50)
    assert found is not None
    long = drawn(SEED, found[0])
    with mutant.applied():
        short = shrunk(long, most=300)
        assert failure(short) is not None
    assert failure(short) is None
    assert len(str(short).splitlines()) < len(str(long).splitlines()) / 5
