"""Limits of a user or of a tenant: of one query, of queries at a time, of the queue, and of requests a minute."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial

from qoop.catalog.errors import ConfigError, TooMuch, TooOften
from qoop.catalog.faults import Faults
from qoop.catalog.sizes import memory_of, parse_bytes
from qoop.catalog.value import value

MINUTE = 60.0
_REMEMBERED = 10_000
"""Names and addresses whose requests are counted; then those are forgotten that have asked nothing for a while."""


@value
class Limits:
    """longest_query: in seconds. rows: of an answer. result_bytes: of an answer, as Arrow. queries: that may run at a
    time. queue: that may wait besides. rate: requests a minute. slots, memory in bytes: those that its tasks may hold
    at a time. isolated: all its queries run in child processes."""

    longest_query: float = math.inf
    rows: float = math.inf
    result_bytes: float = math.inf
    queries: float = math.inf
    queue: float = 0.0
    rate: float = math.inf
    slots: float = math.inf
    memory: float = math.inf
    isolated: bool = False

    @classmethod
    def of(cls, place: str, table: Mapping[str, object]) -> Limits:
        """Those of a table of TOML; a limit that is not there is none. Raises ConfigError, which names each fault."""
        faults = Faults()
        limits = {name: faults.read(partial(_limit, place, name, table), _DEFAULTS[name]) for name in _DEFAULTS}
        isolated = faults.read(partial(_isolated, place, table), False)
        faults.check()
        return cls(**limits, isolated=isolated)


_ISOLATION, _PROCESS = "isolation", "process"
_NUMBERS = [field for field in fields(Limits) if field.name != "isolated"]
_DEFAULTS: Mapping[str, float] = {field.name: field.default for field in _NUMBERS}  # type: ignore[misc]
LIMITS = (*_DEFAULTS, _ISOLATION)
_SIZES = ("result_bytes", "memory")


def _isolated(place: str, table: Mapping[str, object]) -> bool:
    if table.get(_ISOLATION, _PROCESS) != _PROCESS:
        raise ConfigError(f'{place}: {_ISOLATION} must be "{_PROCESS}", not {table[_ISOLATION]!r}')
    return _ISOLATION in table


def _limit(place: str, option: str, table: Mapping[str, object]) -> float:
    if option not in table:
        return _DEFAULTS[option]
    limit = table[option]
    if option in _SIZES:
        return _size(place, option, limit)
    number = float(limit) if isinstance(limit, int | float) and not isinstance(limit, bool) else math.nan
    if not (number > 0 or (option == "queue" and number == 0)):
        least = "of at least 0" if option == "queue" else "above 0"
        raise ConfigError(f"{place}: {option} must be a number {least}, not {limit!r}")
    return number


def _size(place: str, option: str, amount: object) -> float:
    try:
        if option == "memory":
            return memory_of("it", amount)  # type: ignore[arg-type]  # it says so
        return parse_bytes(amount)  # type: ignore[arg-type]
    except ConfigError as error:
        raise ConfigError(f"{place}: {option}: {error}") from error


class Rates:
    """Counts the requests of each source, a user or an address: a bucket of tokens admits or refuses each.

    A minute's requests may come at once; then they come as they are made up for. Source: the token bucket, Turner, "New
    Directions in Communications", 1986. Not for several threads.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}  # requests that may come now, as of when

    def take(self, source: str, rate: float) -> None:
        """Let one request in. rate: requests a minute. Raises TooOften.

        >>> rates = Rates(lambda: 0.0)
        >>> rates.take("ana", 1)
        >>> rates.take("ana", 1)
        Traceback (most recent call last):
        qoop.catalog.errors.TooOften: ana may ask 1 times a minute: the next in 60 s
        """
        if rate == math.inf:
            return
        left = self.check(source, rate)
        if len(self._left) >= _REMEMBERED:
            self._left = {one: known for one, known in self._left.items() if known[1] > self._clock() - 2 * MINUTE}
        self._left[source] = left - 1.0, self._clock()

    def check(self, source: str, rate: float) -> float:
        """The requests that may come now, at least one; none is let in yet. Raises TooOften."""
        now, most = self._clock(), max(1.0, rate)
        left, since = self._left.get(source, (most, now))
        left = min(most, left + (now - since) * rate / MINUTE)
        if left < 1.0:
            self._left[source] = left, now
            error = TooOften(f"{source} may ask {rate:g} times a minute: the next in {_seconds(left, rate):.2g} s")
            error.wait = _seconds(left, rate)
            raise error
        return left


class TextQuota:
    """A quota of the texts that users keep in the server, such as prepared statements. Thread-safe.

    texts, size: of each user at most, in number and in bytes.

    >>> quota = TextQuota(texts=9, size=3)
    >>> quota.take("ana", 2), quota.take("ben", 2), quota.leave("ana", 2), quota.take("ana", 3)
    (None, None, None, None)
    >>> quota.take("ana", 1)
    Traceback (most recent call last):
    qoop.catalog.errors.TooMuch: the statements that ana keeps have at most 3 bytes together, and are 9 at most
    """

    def __init__(self, texts: int = 10_000, size: int = 32 << 20) -> None:
        self._texts, self._size = texts, size
        self._lock = threading.Lock()
        self._taken: dict[str, tuple[int, int]] = {}

    def take(self, user: str, size: int) -> None:
        """Keep a text of that many bytes. Raises TooMuch."""
        with self._lock:
            texts, taken = self._taken.get(user, (0, 0))
            if texts >= self._texts or taken + size > self._size:
                most = f"at most {self._size:,} bytes together, and are {self._texts:,} at most"
                raise TooMuch(f"the statements that {user} keeps have {most}")
            self._taken[user] = texts + 1, taken + size

    def leave(self, user: str, size: int) -> None:
        """Keep a text of that many bytes no more."""
        with self._lock:
            texts, taken = self._taken.pop(user)
            if texts > 1:
                self._taken[user] = texts - 1, taken - size


def _seconds(left: float, rate: float) -> float:
    """The seconds until one more may come."""
    return (1.0 - left) * MINUTE / rate
