"""Some statements of `make soak-reuse`, and proof that a stale answer is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from soak_reuse import FILE_TEXTS, pair, perform


@pytest.mark.usefixtures("as_installed")
def test_no_answer_is_from_before_a_change(tmp_path: Path, seed: int) -> None:
    perform(tmp_path, 100, seed).check()


@pytest.mark.usefixtures("as_installed")
def test_an_answer_from_before_a_change_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soak_reuse.TEXTS", [text for text in FILE_TEXTS if "read_csv" in text])
    monkeypatch.setattr("qoop.query.duckdb_plans.is_steady", lambda text: True)  # even one that calls read_csv
    with pair(tmp_path, 1) as both:
        for _ in range(4):
            both.write_csv()
            for _ in range(8):
                both.step()
    with pytest.raises(AssertionError, match="not"):
        both.report.check()
