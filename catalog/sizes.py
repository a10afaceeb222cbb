"""Sizes as people write them."""

from __future__ import annotations

import re

from qoop.catalog.errors import ConfigError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)


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
