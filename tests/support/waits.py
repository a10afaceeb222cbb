"""Waiting for what another thread or process does: until it happens, or a busy machine has had time enough for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 60.0
"""Seconds after which something that must happen counts as missing. A test that passes never waits for them to pass."""

T = TypeVar("T")


def until(happens: Callable[[], T], otherwise: object = "it has not happened") -> T:
    """Call `happens` until it returns something true, and return that.

    otherwise: the message where that does not happen, or a function that makes it.
    """
    end = time.monotonic() + PATIENCE
    while not (found := happens()):
        assert time.monotonic() < end, otherwise() if callable(otherwise) else otherwise
        time.sleep(0.002)
    return found
