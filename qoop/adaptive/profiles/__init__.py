"""Capacity over time: profiles, where they come from, how much they change, and their replay on a session.

::

    profile.py       capacity over time
    loading.py       profiles by name or from files
    named.py         the names
    aws.py           spot prices of AWS
    market.py        prices made up from a seed
    prices.py        a price over time
    spot.py          from prices to machines
    counts.py        logs of numbers of machines
    nodes.py         logs of machines that came and went
    preemptions.py   logs of machines at every tick
    tables.py        profiles as CSV
    shared.py        one job's share of a shared cluster
    replaying.py     does a profile to a session
    volatility.py    how much a profile changes
    summary.py       a profile in numbers
"""

from qoop.adaptive.profiles.loading import Reading, load
from qoop.adaptive.profiles.profile import CapacityProfile, Point, Stay
from qoop.adaptive.profiles.replaying import Replay, replay
from qoop.adaptive.profiles.volatility import Region, Run, Volatility, events, regions, runs

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
