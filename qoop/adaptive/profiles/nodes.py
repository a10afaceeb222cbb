"""Logs of machines that come and go, with a line for each event: ``60000,add,node19`` (milliseconds, event, name).

The names of the machines that go are kept: see `qoop.adaptive.profiles.CapacityProfile.stays`.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate

from qoop.adaptive.profiles.profile import CapacityProfile, Stay
from qoop.adaptive.profiles.spot import PAPER, Size, counted
from qoop.catalog.errors import ConfigError

LINE = re.compile(r"\s*(\d+)\s*,\s*(add|remove)\s*,\s*([^\s,]+)\s*")


def from_node_log(text: str, size: Size = PAPER) -> CapacityProfile:
    """Read a log of nodes; lines out of order are sorted. Raises ConfigError, naming the line.

    >>> profile = from_node_log("0,add,a\\n0,add,b\\n60000,remove,a\\n")
    >>> profile.at(60).machines, profile.stays()[0]
    (1, Stay(machine='a', begin=0.0, end=60.0))
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not lines:
        raise ConfigError("there is no line in it")
    moves = sorted((_read(number, line) for number, line in lines), key=lambda move: move[0])
    stays = tuple(sorted(_stays(moves), key=lambda stay: stay.begin))
    return counted(_counts(stays), moves[-1][0], size, stays)


def _read(number: int, line: str) -> tuple[float, str, str, int]:
    match = LINE.fullmatch(line)
    if match is None:
        raise ConfigError(
            f"line {number}: {line.strip()!r} is not milliseconds, add or remove, and a name, as in '60000,add,node19'"
        )
    return int(match[1]) / 1000, match[2], match[3], number


def _stays(moves: list[tuple[float, str, str, int]]) -> list[Stay]:
    here: dict[str, float] = {}
    stays: list[Stay] = []
    for at, move, node, number in moves:
        if (move == "add") == (node in here):
            raise ConfigError(f"line {number}: {node} " + ("is there already" if node in here else "is not there"))
        if move == "add":
            here[node] = at
        elif (begin := here.pop(node)) < at:
            stays.append(Stay(node, begin, at))
    return stays + [Stay(node, begin) for node, begin in here.items()]


def _counts(stays: tuple[Stay, ...]) -> list[tuple[float, int]]:
    moves = Counter({0.0: 0})
    for stay in stays:
        moves[stay.begin] += 1
        moves[stay.end] -= 1
    moments = sorted(moves)
    here = accumulate(moves[at] for at in moments)
    return [(at, count) for at, count in zip(moments, here, strict=True) if at < float("inf")]
