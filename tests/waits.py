"""How tests wait for what another thread or process does: for the event itself, as long as a busy machine may need."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 60.0
"""Seconds after which something that must happen counts as missing. A test that passes never waits for them to pass."""

T = TypeVar("T")


def until(happens: Callable[[], T], otherwise: object = "it has not happened") -> T:
    """What `happens` returns as soon as that is true. `otherwise`: said, or called to say it, where it stays false."""
    end = time.monotonic() + PATIENCE
    while not (found := happens()):
        assert time.monotonic() < end, otherwise() if callable(otherwise) else otherwise
        time.sleep(0.002)
    return found
