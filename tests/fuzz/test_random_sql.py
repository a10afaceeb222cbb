"""A sample of what ``make fuzz`` runs: random queries against DuckDB, whole and staged in several physical forms.

A failure prints a script that shows it. ``python tests/fuzz`` runs as many as one likes.
"""

from __future__ import annotations

from fuzz_run import tried
from fuzz_shrink import script, shrunk

TEXTS = 50


def test_answers_agree() -> None:
    outcome = tried("0", range(TEXTS), both=False)
    differences = [shrunk(found) for _, found in outcome.found[:1]]
    assert not differences, f"{differences[0].difference}\n\n{script(differences[0])}"
    assert outcome.verdicts["equal"] > 0.8 * TEXTS  # else the grammar makes texts that nobody takes
