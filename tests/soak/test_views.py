"""A few kills of processes that refresh views, and proof that they bite. `make soak-views` has a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest
import soak_views
import views
from soak_views import Report, Views, perform


def test_every_edition_is_of_the_files_that_it_names(tmp_path: Path) -> None:
    report = perform(Views(tmp_path, rounds=1))
    report.check()
    assert report.counts["editions compared"] == 2 * len(soak_views.VIEWS)


def test_an_edition_of_other_rows_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = soak_views._answer
    monkeypatch.setattr(soak_views, "_answer", lambda *all_: answers(*all_) + soak_views._rounded([("more",)]))
    with pytest.raises(AssertionError, match="not DuckDB's answer"):
        perform(Views(tmp_path, rounds=1)).check()


def test_a_run_goes_on_after_its_last_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[int]()

    def performed(run: Views, say: object) -> Report:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(run.seed)
        return Report(views.Counter({"kills": 2 * run.rounds, "new editions": 1}))

    monkeypatch.setattr(views, "perform", performed)
    words = ["--kills", "250", "--seed", "5", "--results", str(tmp_path / "results.jsonl")]
    with pytest.raises(KeyboardInterrupt):
        views.main(words)
    made.pop(0)
    assert views.main(words) == 0 and made == [105, 205]
