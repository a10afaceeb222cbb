"""A few kills of processes that refresh views, and proof that they bite. `make soak-views` has a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest
import soak_views
from soak_views import Views, perform


def test_every_edition_is_of_the_files_that_it_names(tmp_path: Path) -> None:
    report = perform(Views(tmp_path, rounds=1))
    report.check()
    assert report.counts["editions compared"] == 2 * len(soak_views.VIEWS)


def test_an_edition_of_other_rows_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = soak_views._answer
    monkeypatch.setattr(soak_views, "_answer", lambda *all_: answers(*all_) + soak_views._rounded([("more",)]))
    with pytest.raises(AssertionError, match="not DuckDB's answer"):
        perform(Views(tmp_path, rounds=1)).check()
