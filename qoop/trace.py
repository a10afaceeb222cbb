"""The record of a session: every event that came in and every command that went out, with its time.

Kept in memory; as JSON lines the first line names the format and its version (law 8: no pickle).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum

FORMAT = "qoop-trace"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened (an event) or was decided (a grant, a command), at seconds of the session's clock."""

    at: float
    what: object


class Trace:
    """Entries in the order they were made."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def record(self, at: float, what: object) -> None:
        """Append an entry; `what` is a dataclass."""
        self.entries.append(Entry(at, what))

    def to_json(self) -> Iterator[str]:
        """Yield the trace as JSON lines: a header, then ``{"at", "kind", …fields}`` for each entry.

        >>> trace = Trace()
        >>> trace.record(0.5, Entry(0.25, "x"))
        >>> list(trace.to_json())[1]
        '{"at": 0.5, "kind": "Entry", "what": {"at": 0.25, "what": "x"}}'
        """
        yield json.dumps({"format": FORMAT, "version": VERSION})
        for entry in self.entries:
            yield json.dumps({"at": entry.at, "kind": type(entry.what).__name__, "what": _plain(entry.what)})


def _plain(value: object) -> object:
    """The value as JSON can hold it; objects of other packages (tables, errors) by their text."""
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if is_dataclass(value) and type(value).__module__.startswith("qoop.") and not _opaque(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


def _opaque(value: object) -> bool:
    return type(value).__module__.startswith("qoop.catalog.")
