"""Random SQL in several physical forms against DuckDB.

A failure prints the seed, the text and the plan. ``QOOP_FUZZ=N`` runs N more texts than a plain run, from the
seed ``QOOP_FUZZ_SEED`` on (``make test-all`` sets N); one text alone runs with
``QOOP_FUZZ=1 QOOP_FUZZ_SEED=<its seed>`` and ``-k long -m slow``.
"""

from __future__ import annotations

import os

import pytest
from fuzz_grammar import random_query
from fuzz_world import World

PART = 20  # texts of one test
SHORT = 100
FIRST = int(os.environ.get("QOOP_FUZZ_SEED", "100000"))
LONG = int(os.environ.get("QOOP_FUZZ", "1500"))


@pytest.mark.parametrize("first", range(0, SHORT, PART))
def test_answers_agree(world: World, first: int) -> None:
    accepted = check(world, range(first, first + PART))
    assert accepted >= PART // 2  # else the grammar makes texts that nobody takes


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST, FIRST + LONG, PART))
def test_answers_agree_on_a_long_run(world: World, first: int) -> None:
    check(world, range(first, min(first + PART, FIRST + LONG)))


def check(world: World, seeds: range) -> int:
    """How many of the texts DuckDB accepted; fails with the first that differs."""
    accepted = 0
    for seed in seeds:
        print(f"seed {seed}")
        forms = ("usual", "hash" if seed % 2 else "split", f"random {seed}")
        accepted += world.check(random_query(str(seed)), forms)
    return accepted
