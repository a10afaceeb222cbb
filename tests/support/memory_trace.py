"""A trace in memory, for tests of the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from qoop.adaptive.cluster.recording.trace import Chain, Lines, Tick, header


@dataclass(frozen=True)
class Entry:
    """One thing that went in or came out, at seconds of the session's clock."""

    at: float
    what: object


class MemoryTrace:
    """A trace as a list of entries."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def record(self, at: float, what: object) -> None:
        self.entries.append(Entry(at, what))

    def flush(self) -> None:
        pass

    def to_json(self) -> Iterator[str]:
        """Yield it as the lines of a file."""
        lines, chain, ticks = Lines(), Chain(), 0
        yield chain.sealed(header())
        for entry in self.entries:
            ticks += isinstance(entry.what, Tick)
            yield from map(chain.sealed, lines.of(entry.what))
        yield chain.sealed(json.dumps({"end": ticks}))
