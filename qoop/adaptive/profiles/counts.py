"""Logs of the number of machines, with a line for each time: ``2021-12-10, 13:07:45, 80``.

Such logs are written by several hands and need not be in order of time: they are sorted, and of lines of the same
moment the last one counts.
"""

from __future__ import annotations

import re
from datetime import datetime

from qoop.adaptive.profiles.profile import CapacityProfile
from qoop.adaptive.profiles.spot import PAPER, Size, counted
from qoop.catalog.errors import ConfigError

LINE = re.compile(r"\s*(\d{4}-\d\d-\d\d)\s*,\s*(\d\d?:\d\d(?::\d\d)?)\s*,\s*(\d+)\s*")


def from_counts(text: str, size: Size = PAPER) -> CapacityProfile:
    """Read a log of counts; its first moment is 0 seconds. Raises ConfigError, naming the line.

    >>> log = "2021-12-10, 23:59:00, 8\\n2021-12-11, 00:01:00, 4\\n2021-12-11, 00:00:00, 6\\n"
    >>> [(point.at, point.machines) for point in from_counts(log).points]
    [(0.0, 8), (60.0, 6), (120.0, 4)]
    """
    read = [_read(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not read:
        raise ConfigError("there is no line in it")
    last = dict(sorted(read, key=lambda one: one[0]))
    begin, end = next(iter(last)), next(reversed(last))
    counts = (((at - begin).total_seconds(), machines) for at, machines in last.items())
    return counted(counts, (end - begin).total_seconds(), size)


def _read(number: int, line: str) -> tuple[datetime, int]:
    match = LINE.fullmatch(line)
    if match is None:
        raise ConfigError(f"line {number}: {line.strip()!r} is not a date, a time and a count, as in {_EXAMPLE!r}")
    try:
        return datetime.fromisoformat(f"{match[1]} {match[2].zfill(5)}"), int(match[3])
    except ValueError as error:
        raise ConfigError(f"line {number}: {error}") from error


_EXAMPLE = "2021-12-10, 13:07:45, 80"
