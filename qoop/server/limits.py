"""Limits of a user or of a tenant: of one query, of queries at a time, and of requests a minute."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import fields

from qoop.catalog.errors import ConfigError, TooOften
from qoop.catalog.value import value
from qoop.options import memory

MINUTE = 60.0


@value
class Limits:
    """longest_query: in seconds. rows: of an answer. queries: that may run at a time. rate: requests a minute. Of a
    tenant alone are slots, and memory in bytes: those that its tasks may hold at a time."""

    longest_query: float = math.inf
    rows: float = math.inf
    queries: float = math.inf
    rate: float = math.inf
    slots: float = math.inf
    memory: float = math.inf

    @classmethod
    def of(cls, place: str, table: Mapping[str, object]) -> Limits:
        """Those of a table of TOML; a limit that is not there is none. Raises ConfigError, which names the place."""
        return cls(**{name: _limit(place, name, table) for name in LIMITS})


LIMITS = tuple(field.name for field in fields(Limits))
OF_USERS = tuple(name for name in LIMITS if name not in ("slots", "memory"))


def _limit(place: str, option: str, table: Mapping[str, object]) -> float:
    told = table.get(option, math.inf)
    if option == "memory" and option in table:
        return _memory(place, told)
    if isinstance(told, bool) or not isinstance(told, int | float) or not told > 0:
        raise ConfigError(f"{place}: {option} must be a number above 0, not {told!r}")
    return float(told)


def _memory(place: str, told: object) -> float:
    try:
        return memory("it", told)  # type: ignore[arg-type]  # it says so
    except ConfigError as error:
        raise ConfigError(f"{place}: memory: {error}") from error


class Rates:
    """Requests by who makes them, each let in or refused: a bucket of tokens for each.

    A minute's requests may come at once; then they come as they are made up for. Source: the token bucket, Turner, "New
    Directions in Communications", 1986. Not for several threads.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}  # requests that may come now, as of when

    def take(self, who: str, rate: float) -> None:
        """Let one request in. rate: requests a minute. Raises TooOften.

        >>> rates = Rates(lambda: 0.0)
        >>> rates.take("ana", 1)
        >>> rates.take("ana", 1)
        Traceback (most recent call last):
        qoop.catalog.errors.TooOften: ana may ask 1 times a minute: the next in 60 s
        """
        if rate == math.inf:
            return
        now, most = self._clock(), max(1.0, rate)
        left, since = self._left.get(who, (most, now))
        left = min(most, left + (now - since) * rate / MINUTE)
        if left < 1.0:
            self._left[who] = left, now
            error = TooOften(f"{who} may ask {rate:g} times a minute: the next in {_seconds(left, rate):.2g} s")
            error.wait = _seconds(left, rate)
            raise error
        self._left[who] = left - 1.0, now


def _seconds(left: float, rate: float) -> float:
    """The seconds until one more may come."""
    return (1.0 - left) * MINUTE / rate
