"""The inputs of an attempt that waits, fetched from other machines before it begins."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FetchedAhead(Generic[K, V]):
    """Values by key that one thread fetches and another takes.

    >>> ahead = FetchedAhead(lambda: {"a": 1})
    >>> ahead.fetch()
    >>> ahead.take()
    {'a': 1}
    """

    def __init__(self, fetch: Callable[[], Mapping[K, V]]) -> None:
        self._fetch = fetch
        self._found: Mapping[K, V] = {}
        self._over = threading.Event()

    def fetch(self) -> None:
        """Fetch it. What fails is left out: the attempt asks for that itself, and reports what it meets."""
        try:
            with contextlib.suppress(Exception):
                self._found = self._fetch()
        finally:
            self._over.set()

    def take(self) -> Mapping[K, V]:
        """All that was found, once that is known."""
        self._over.wait()
        return self._found
