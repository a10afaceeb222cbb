"""A short run of many clients, and proof that it bites. `make soak-clients` takes ten minutes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import soak_clients
from soak_clients import TENANTS, Clients, Report, Sample, perform

from qoop.engine.history import ShareReported
from qoop.planner.plan import Resources
from qoop.query.job import Job


def clients(folder: Path, spill: Path, seconds: float) -> Clients:
    return Clients(folder, spill / "spill", number=10, seconds=seconds)


def test_nothing_is_lost_when_many_ask_at_once(
    benchmark_texts: None, benchmark_data: Callable[[str, float], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too short to tell whether memory grows, and how fair shares are."""
    monkeypatch.setattr(soak_clients, "QUERIES", (3, 42, 52, 96))
    monkeypatch.setattr(soak_clients, "GROWTH", 1.0)
    monkeypatch.setattr(soak_clients, "UNFAIR", 10.0)
    report = perform(clients(benchmark_data("tpcds", 0.01), tmp_path, 1.5))
    report.check()
    assert report.times["answers compared with DuckDB's"] > 0 and set(report.waits) <= set(TENANTS)
    assert "slot seconds" in "\n".join(report.lines())


def test_a_job_that_never_ends_an_unfair_share_and_memory_that_grows_are_found(
    benchmark_texts: None, benchmark_data: Callable[[str, float], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fair = Report()
    fair.times.update({"submitted": 2, "answers": 2})
    fair.slot_seconds.update({name: 10 * weight for name, weight in TENANTS.items()})
    fair.samples += [Sample(at, 100, 1, 1, 1) for at in range(10)]
    fair.check()
    fair.slot_seconds["many"] += 20
    with pytest.raises(AssertionError, match="of its share"):
        fair.check()
    fair.samples += [Sample(at, 120, 1, 1, 1) for at in range(10, 15)]
    with pytest.raises(AssertionError, match="memory grew"):
        fair.check()
    monkeypatch.setattr(soak_clients, "QUERIES", (96,))
    monkeypatch.setattr(Job, "history", lambda job: [ShareReported(0.0, Resources())])
    assert perform(clients(benchmark_data("tpcds", 0.01), tmp_path, 0.1)).problems
