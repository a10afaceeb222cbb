"""Detects that the machine slept: the lid of a laptop was closed, or a guest was paused.

Two clocks of the kernel cannot be set: one stands still while the machine sleeps (CLOCK_MONOTONIC), one goes on
(CLOCK_BOOTTIME). Paces are measured by the first, ends that were announced by the second. The time of day decides
nothing: it may be set back.
"""

from __future__ import annotations

import time

_LEAST = 1.0
"""Seconds of sleep that count; the clocks are read one after the other."""


def boot_seconds() -> float:
    """Seconds of a clock that runs while the machine sleeps; where there is none, of the monotonic clock."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class SleepMeter:
    """Measures how long the machine slept."""

    def __init__(self) -> None:
        self._apart = _seconds_apart()

    def slept(self) -> float:
        """Seconds of sleep since the last call; 0: less than one."""
        seconds = _seconds_apart() - self._apart
        if seconds < _LEAST:
            return 0.0
        self._apart += seconds
        return seconds


def _seconds_apart() -> float:
    return boot_seconds() - time.monotonic()
