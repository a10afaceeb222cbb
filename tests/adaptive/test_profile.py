"""Capacity profiles, and their replay on a session."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.adaptive.profiles import CapacityProfile, Point, replay
from qoop.adaptive.profiles.replaying import Replay
from qoop.adaptive.profiles.tables import from_csv, to_csv
from qoop.catalog.errors import ConfigError, SessionClosed

GB = 10**9
STEPS = CapacityProfile.of([(0, 4, 8e9), (10, 4, 8e9), (60, 1, "2GB"), (90, 0, "2GB"), (100, 4, "8GB")])


class Recorder:
    """Takes note of what a session would be told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[int | None, int | str | None, bool]] = []
        self.error = error

    def resize(self, slots: int | None = None, memory: int | str | None = None, *, notice: float = 0.0) -> None:
        if self.error is not None and self.calls:
            raise self.error
        self.calls.append((slots, memory, notice > 0))


def virtual(run: Replay) -> Replay:
    """The replay on a clock of its own, which goes on by what the replay waits."""
    now = 0.0

    def wait(seconds: float) -> bool:
        nonlocal now
        now += seconds
        return False

    run._stopping.wait = wait  # type: ignore[method-assign, assignment]
    run._seconds = lambda: now  # type: ignore[method-assign]
    return run


def test_what_there_is_at_a_time() -> None:
    assert [STEPS.at(t).slots for t in (-1, 0, 59.9, 60, 95, 1000)] == [4, 4, 4, 1, 0, 4]
    assert [point.at for point in STEPS.changes()] == [0, 60, 90, 100]
    assert [point.at for point in STEPS.compressed(10).changes()] == [0, 6, 9, 10]


def test_fractions_of_one_cluster_are_put_on_another() -> None:
    cluster = CapacityProfile.of([(0, 32, 128e9, 20), (60, 32, 128e9, 5), (70, 0, 0, 0)])
    assert cluster.at(60).all_slots == 160
    here = cluster.fractions().on(slots=2, memory=8 * GB)
    assert here == CapacityProfile((Point(0, 2, 8e9), Point(60, 0, 2e9), Point(70, 0, 0)))


@given(st.lists(st.tuples(st.floats(0.01, 50), st.integers(0, 9)), min_size=1, max_size=8), st.floats(0.1, 100))
def test_compression_changes_nothing_but_time(steps: list[tuple[float, int]], factor: float) -> None:
    at, rows = 0.0, []
    for length, slots in steps:
        rows.append((at, slots, 1e9))
        at += length
    profile = CapacityProfile.of(rows)
    for (begin, slots, _), (length, _) in zip(rows, steps, strict=True):
        middle = begin + length / 2
        assert profile.at(middle).slots == profile.compressed(factor).at(middle / factor).slots == slots


def test_a_profile_is_read_from_csv() -> None:
    text = "seconds,slots,memory,machines\n0,2,4GB,1\n1.5,2,1000,3\n"
    assert from_csv(text) == CapacityProfile((Point(0, 2, 4e9), Point(1.5, 2, 1000, 3)))
    assert from_csv(to_csv(STEPS)) == STEPS
    with pytest.raises(ConfigError, match="line 3"):
        from_csv("seconds,slots,memory\n0,2,4GB\n1,many,4GB\n")
    with pytest.raises(ConfigError, match="columns"):
        from_csv("time,slots\n0,2\n")


@pytest.mark.parametrize(
    "rows",
    [[], [(1, 2, 1e9)], [(0, 2, 1e9), (0, 1, 1e9)], [(0, -1, 1e9)], [(0, float("nan"), 1e9)], [(0, 1, "lots")]],
)
def test_profiles_that_cannot_be_are_refused(rows: list[tuple[float, float, float]]) -> None:
    with pytest.raises(ConfigError):
        CapacityProfile.of(rows)


def test_what_no_session_can_have_is_refused_before_the_start() -> None:
    with pytest.raises(ConfigError):
        replay(Recorder(), CapacityProfile.of([(0, 2, 1e9), (1, 2, 100)]))
    with pytest.raises(ConfigError):
        STEPS.compressed(0)


def test_a_replay_does_what_the_profile_says() -> None:
    session = Recorder()
    with replay(session, STEPS, compression=500) as run:
        assert session.calls == [(4, 8 * GB, False)]
        assert run.wait(60)
    assert session.calls == [(4, 8 * GB, False), (1, 2 * GB, False), (0, None, False), (4, 8 * GB, False)]
    assert all(at >= point.at for at, point in run.applied) and run.applied[-1][1].at == 0.2
    assert "qoop-replay" not in [thread.name for thread in threading.enumerate()]


def test_a_loss_of_resources_is_announced_and_more_is_not() -> None:
    session = Recorder()
    with virtual(replay(session, STEPS, compression=10, notice=30)) as run:
        assert run.wait(60)
    assert [notice for _, _, notice in session.calls] == [False, True, True, False]
    at = [seconds for seconds, _ in run.applied]
    assert at == pytest.approx([0, 3, 6, 10]), "30 s before they are due, but not before the change before"


def test_a_replay_can_be_stopped_and_ends_with_its_session() -> None:
    session = Recorder()
    with replay(session, STEPS):
        pass
    assert len(session.calls) == 1, "the next would be 60 seconds later"
    closed = replay(Recorder(SessionClosed("closed")), STEPS, compression=1e4).start()
    assert closed.wait(60)
    broken = replay(Recorder(ConfigError("no")), STEPS, compression=1e4)
    with pytest.raises(ConfigError, match="no"), broken:
        broken.wait(60)
    replay(session, STEPS).stop()  # was never started
