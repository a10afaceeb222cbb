"""Tests wait for what must happen as long as a busy machine may need."""

from __future__ import annotations

from pathlib import Path

import pytest
from house_seconds import short_bounds


def test_no_test_gives_up_sooner_than_a_busy_machine_may_need() -> None:
    """`waits.until` waits for an event; where there is none, the bound is `waits.PATIENCE`."""
    assert list(short_bounds()) == []


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("assert job.wait(5)", True),
        ("found = job.result(timeout=20)", True),
        ("end = time.monotonic() + 5", True),
        ("assert time.monotonic() - begun < 1.5", True),
        ("assert job.wait(60)", False),
        ("assert not job.wait(0.1)", False),
        ("assert time.monotonic() - begun >= 0.2", False),
        ("job = session.submit(text, timeout=7)", False),
        ('PROGRAM = """\\nassert time.monotonic() - begun < 1.5"""', True),
        ('TEXT = """\\nis no program < 1.5"""', False),
    ],
)
def test_bounds_that_are_found(tmp_path: Path, line: str, short: bool) -> None:
    (tmp_path / "test_some.py").write_text(line)
    assert bool(list(short_bounds(tmp_path))) == short
