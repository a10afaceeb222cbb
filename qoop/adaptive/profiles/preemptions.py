"""The number of machines up at each tick: ``{"metadata": {"gap_seconds": 34}, "data": [8, 8, 7]}``."""

from __future__ import annotations

import json
import math

from qoop.adaptive.profiles.profile import CapacityProfile
from qoop.adaptive.profiles.spot import PAPER, Size, counted
from qoop.catalog.errors import ConfigError


def from_preemptions(text: str, size: Size = PAPER) -> CapacityProfile:
    """Read a series of counts. Raises ConfigError, naming what is wrong and where.

    >>> series = '{"metadata": {"gap_seconds": 34}, "data": [8, 8, 7]}'
    >>> [(point.at, point.machines) for point in from_preemptions(series).points]
    [(0.0, 8), (68.0, 7), (102.0, 7)]
    """
    gap, data = _parts(json_of(text))
    counts = ((place * gap, _count(place, value)) for place, value in enumerate(data))
    return counted(counts, len(data) * gap, size)


def _count(place: int, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or not float(value).is_integer():
        raise ConfigError(f"data[{place}] is {value!r}, not a number of machines")
    return int(value)


def _parts(found: object) -> tuple[float, list[object]]:
    metadata = found.get("metadata") if isinstance(found, dict) else None
    gap = metadata.get("gap_seconds") if isinstance(metadata, dict) else None
    if isinstance(gap, bool) or not isinstance(gap, int | float) or not 0 < gap < math.inf:
        raise ConfigError(f"metadata.gap_seconds must be a number of seconds above 0, not {gap!r}")
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(data, list) or not data:
        raise ConfigError("data must be a list of the numbers of machines, with at least one")
    return float(gap), data


def json_of(text: str) -> object:
    """The value of a JSON text. Raises ConfigError, naming line and column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
