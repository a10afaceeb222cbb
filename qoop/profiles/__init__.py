"""Capacity over time: profiles, where they come from, how much they change, and their replay on a session."""

from qoop.profiles.loading import Reading, load
from qoop.profiles.profile import CapacityProfile, Point, Stay
from qoop.profiles.replaying import Replay, replay
from qoop.profiles.volatility import Region, Run, Volatility, events, regions, runs

__all__ = [
    "CapacityProfile",
    "Point",
    "Reading",
    "Region",
    "Replay",
    "Run",
    "Stay",
    "Volatility",
    "events",
    "load",
    "regions",
    "replay",
    "runs",
]
