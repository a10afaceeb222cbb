"""Profiles as CSV: a header, and the columns seconds, slots, memory and, if there are several, machines."""

from __future__ import annotations

import csv
import io

from qoop.adaptive.profiles.profile import CapacityProfile, point_of
from qoop.catalog.errors import ConfigError

COLUMNS = ("seconds", "slots", "memory", "machines")


def from_csv(text: str) -> CapacityProfile:
    """Read a table; memory may be "2GB". Raises ConfigError, naming the line.

    >>> from_csv("seconds,slots,memory,machines\\n0,30,128GB,4\\n60,30,128GB,2").at(60).machines
    2
    """
    reader = csv.DictReader(io.StringIO(text))
    if not set(COLUMNS[:3]) <= set(reader.fieldnames or ()):
        raise ConfigError(f"the columns seconds, slots and memory are needed; there are {reader.fieldnames}")
    points = []
    for row in reader:
        try:
            points.append(point_of(row["seconds"], row["slots"], row["memory"], row.get("machines") or 1))
        except (TypeError, ValueError, ConfigError) as error:
            raise ConfigError(f"line {reader.line_num}: {error}") from error
    return CapacityProfile(tuple(points))


def to_csv(profile: CapacityProfile) -> str:
    """The profile as a table that `from_csv` reads. Which machine is there when is not kept, only how many are."""
    rows = (f"{point.at!r},{point.slots!r},{point.memory!r},{point.machines}" for point in profile.points)
    return "\n".join((",".join(COLUMNS), *rows)) + "\n"
