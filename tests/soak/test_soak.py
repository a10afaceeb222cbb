"""Some runs of the soak, and proof that it bites. `make soak` does thousands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from soak_plans import Subjects
from soak_run import TICKS, Happened, perform, scenario

from qoop.catalog.errors import GuardMismatch
from qoop.engine.kernel import Kernel
from qoop.engine.storage.growing import Made
from qoop.session.session import Session

PLACES = tuple(TICKS * (number - 1) + number % TICKS for number in (1, 7, 15, 25, 42, 51))


@pytest.mark.timeout(300)
def test_some_runs_go_well_though_all_goes_wrong(
    benchmark_texts: None, benchmark_data: Callable[[str, float], Path], tmp_path: Path, seed: int
) -> None:
    happened = Happened()
    with Subjects(partial(benchmark_data, "tpcds")) as subjects:
        for place in PLACES:
            print(f"make soak SEED={seed} FIRST={place} RUNS=1")
            happened.add(perform(scenario(str(seed), place), subjects, tmp_path))
    print(happened)
    for what in ("switches of plan", "changes of slots and memory", "answers equal to DuckDB's"):
        assert happened.times[what] > 0, f"nothing of that: {what}"


def test_the_soak_finds_rows_that_are_missing(
    benchmark_texts: None, benchmark_data: Callable[[str, float], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Kernel.run

    def lossy(kernel: Kernel, *arguments: object) -> Made:
        made = run(kernel, *arguments)  # type: ignore[arg-type]
        return replace(made, tables=tuple(table.slice(1) for table in made.tables))

    monkeypatch.setattr(Kernel, "run", lossy)
    with Subjects(partial(benchmark_data, "tpcds")) as subjects, pytest.raises((AssertionError, GuardMismatch)):
        perform(scenario("lossy", 2 * TICKS), subjects, tmp_path)


def test_the_soak_finds_what_is_not_let_go(
    benchmark_texts: None, benchmark_data: Callable[[str, float], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waits.PATIENCE", 0.5)
    monkeypatch.setattr(Session, "_take", lambda session, handle, _: session.backend.read(handle.outputs()[0].key))
    with Subjects(partial(benchmark_data, "tpcds")) as subjects, pytest.raises(AssertionError, match="are held"):
        perform(scenario("7", 2 * TICKS), subjects, tmp_path)
