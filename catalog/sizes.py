"""Sizes and lengths of time as people write them."""

from __future__ import annotations

import math
import re

from qoop.catalog.errors import ConfigError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)

LEAST_MEMORY = 16 * 2**20
"""Bytes: less runs nothing."""

_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*", re.IGNORECASE)


def parse_bytes(value: int | str) -> int:
    """Bytes of a size such as 500_000_000, "500MB" (10**6) or "2GiB" (2**30).

    >>> parse_bytes("2GB"), parse_bytes("1.5 MiB"), parse_bytes(7)
    (2000000000, 1572864, 7)

    Raises ConfigError for anything else.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ConfigError(f'{value!r} is not a size: write bytes, or a number with a unit, such as "500MB" or "2GiB"')
    return int(float(match[1]) * _UNITS[(match[2] or "").lower()])


def parse_seconds(value: float | str) -> float:
    """Seconds of a length of time such as 30, "30", "30 s", "500 ms", "2 min" (or "2m"), "1.5 h" or "1 d"; or infinity.

    >>> parse_seconds("30 s"), parse_seconds("2min"), parse_seconds(7), parse_seconds("inf")
    (30.0, 120.0, 7.0, inf)

    Raises ConfigError for anything else, and for less than 0.
    """
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    try:
        found = float(match[1]) * _SECONDS[match[2].lower()] if match is not None else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(value, bool) or not found >= 0:
        raise ConfigError(
            f"{value!r} is not a length of time: write seconds, at least 0 (inf: for ever), or a number with a unit"
            ' (ms, s, min, h, d), such as "30 s"'
        )
    return found


def slots_of(name: str, value: int | str, least: int = 1) -> int:
    """A number of slots. Raises ConfigError."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if isinstance(value, bool | float) or number < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return number


def memory_of(name: str, value: int | str) -> int:
    """Bytes that are enough to run anything. Raises ConfigError."""
    found = parse_bytes(value)
    if found < LEAST_MEMORY:
        raise ConfigError(f"{name} must be at least 16MiB, not {value!r}")
    return found


def available_of(slots: int | None, memory: int | str | None) -> tuple[int | None, int | None]:
    """Slots, which may be 0, and bytes that a session is to have from now on; None: as it is. Raises ConfigError.

    >>> available_of(0, "1GB")
    (0, 1000000000)
    """
    return (
        None if slots is None else slots_of("slots", slots, least=0),
        None if memory is None else memory_of("memory", memory),
    )


def counted(number: int, what: str) -> str:
    """A number of things in words.

    >>> counted(1, "stage"), counted(2000, "row")
    ('1 stage', '2,000 rows')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def size(number: float) -> str:
    """Bytes for people, in the units in which they are given: 1 GB is 10**9.

    >>> size(1536), size(3 * 10**9), size(999_999_999)
    ('1.54 KB', '3 GB', '1 GB')
    """
    for unit in ("bytes", "KB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def span(seconds: float) -> str:
    """A time for people.

    >>> span(0.0123), span(9.84)
    ('12 ms', '9.8 s')
    """
    return f"{seconds * 1e3:.0f} ms" if 0 < seconds < 1 else f"{seconds:.1f} s"
