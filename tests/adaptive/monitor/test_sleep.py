"""A machine that slept: ends that were announced come in time, and nothing else changes."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
from waits import until

import qoop
from qoop.adaptive.monitor import sleep
from qoop.adaptive.monitor.sleep import SleepMeter, boot_seconds
from qoop.engine.notices import Slept
from qoop.session.stops import Stops

NOTICE = "the machine slept for 3:00:00"


class Boot:
    """A clock since the boot, of a machine that sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept = 0.0
        for module in ("adaptive.monitor.sleep", "session.stops", "programs.views.owner"):
            monkeypatch.setattr(f"qoop.{module}.boot_seconds", lambda: time.monotonic() + self.slept)


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> Boot:
    return Boot(monkeypatch)


def test_the_clock_since_the_boot_runs() -> None:
    assert boot_seconds() <= boot_seconds() and SleepMeter().slept() == 0.0


def test_sleep_is_measured_once(boot: Boot) -> None:
    meter = SleepMeter()
    boot.slept = 0.9
    assert meter.slept() == 0.0
    boot.slept = 3 * 3600.0
    assert meter.slept() == pytest.approx(3 * 3600.0, abs=0.1) and meter.slept() == 0.0


def test_a_clock_of_the_kernel_is_missing_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert abs(sleep.boot_seconds() - time.monotonic()) < 1.0


def test_a_query_sleeps_with_its_machine(boot: Boot, caplog: pytest.LogCaptureFixture) -> None:
    with qoop.connect(slots=1) as session, caplog.at_level(logging.INFO, "qoop.job"):
        session.register("t", pa.table({"a": [1, 2]}))
        session.resize(slots=0)  # they cannot end before
        needed = session.submit("SELECT sum(a) AS s FROM t", deadline=4 * 3600)
        limited = session.submit("SELECT max(a) AS m FROM t", timeout=3600)
        before = needed.status()
        until(lambda: session.cluster._limits._timeouts, "the loop has not taken the job with a timeout")
        boot.slept = 3 * 3600.0
        with pytest.raises(qoop.Timeout, match=r"did not end within 3[0-9.]+ seconds"):
            limited.result()
        status = needed.status()
        assert before.deadline is not None and status.deadline is not None
        assert before.deadline - status.deadline == pytest.approx(3 * 3600.0, abs=60)
        assert status.elapsed < 60, "paces do not count it"
        session.resize(slots=1)
        assert needed.result().fetchall() == [(3,)]
        assert [record.notice for record in needed.history() if isinstance(record, Slept)] == [NOTICE]
    assert any(NOTICE in line for line in caplog.messages)


def test_the_announced_end_of_a_process_comes_in_time(boot: Boot) -> None:
    stops = Stops()
    stops.announce("the end of its time", 4 * 3600.0)
    boot.slept = 3 * 3600.0
    assert stops.first is not None and stops.first[1] == pytest.approx(3600.0, abs=10)


def test_a_view_is_refreshed_though_the_time_of_day_is_set_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from qoop.programs.views import owner

    back, real, compared = [0.0], time.time, list[float]()

    class Views:
        def targets(self) -> dict[str, owner.Target]:
            return {"v": owner.Target(0.5)}

        def last(self, name: str) -> owner.Refreshment:
            return owner.Refreshment(0)

        def comparing_once(self) -> nullcontext[set[str]]:
            return nullcontext(set())

        def behind(self, name: str) -> None:
            compared.append(time.monotonic())

        def losing(self, tables: object) -> set[str]:
            return set()

        def changes_of(self, name: str) -> tuple[float, ...]:
            return ()

        def refresh_view(self, name: str, full: bool = False, one_in: int = 1) -> bool:
            raise AssertionError

        def note_error(self, name: str, error: Exception) -> None:
            raise AssertionError from error

    monkeypatch.setattr(owner.time, "time", lambda: real() - back[0])
    views = owner.Owner(Views(), lambda: None)
    views.wake()
    try:
        until(lambda: compared)
        back[0] = 3 * 3600.0
        seen = len(compared)
        until(lambda: len(compared) > seen + 3)
    finally:
        views.close()
