"""A trace file is read into the turns of its session."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qoop.adaptive.cluster.recording.messages import (
    Message,
    Submitted,
)
from qoop.adaptive.cluster.recording.ticks import Opened, OutputsFound, ResizeRefused
from qoop.adaptive.cluster.recording.trace import (
    FORMAT,
    FORMER_FIELDS,
    FORMER_NAMES,
    INPUTS,
    MESSAGES,
    OUTPUTS,
    READABLE,
    Chain,
)
from qoop.adaptive.cluster.recording.trace_codec import TraceCodec
from qoop.catalog.errors import ConfigError, QoopError
from qoop.catalog.value import value
from qoop.engine.events import Event
from qoop.engine.storage.guard import versions

if TYPE_CHECKING:
    pass

Output = Mapping[str, Any]
"""The output, as its line in the trace."""


@value
class RecordedTick:
    """events: of the backend, those of its first answer, then those of the answer to each `Resizing`.
    found: what the backend had of the jobs that came. refused: of each `Resizing`, why it could not be, or None."""

    number: int
    at: float
    events: tuple[tuple[Event, ...], ...]
    messages: tuple[Message, ...]
    found: tuple[OutputsFound, ...]
    refused: tuple[str | None, ...]
    outputs: tuple[Output, ...]


@value
class Recording:
    """A trace that was read.

    versions: of qoop and what it stands on. ended: the session was closed; else it was killed, or goes on.
    cut_off: the last line was not whole, and was left out.
    """

    versions: Mapping[str, str]
    opened: Opened
    ticks: tuple[RecordedTick, ...]
    ended: bool
    cut_off: bool

    def remarks(self) -> Iterator[str]:
        """Remarks about the trace itself, a sentence each."""
        own = versions()
        if own != self.versions:
            differing = [f"{name} {self.versions.get(name, 'of an unknown version')}, here {own[name]}" for name in own]
            yield f"the trace was made by other versions: {', '.join(differing)}"
        if self.cut_off:
            yield "the last line of the trace is cut off, and was left out"
        if not self.ended:
            yield "the trace has no end: its session was killed, or goes on"


def read_trace(path: Path) -> Recording:
    """Read the trace in a file. Raises ConfigError if there is none, or it is damaged or of another version."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise ConfigError(f"the trace {path} cannot be read: {error.strerror}") from error
    lines = text.split("\n")
    return _Reader(str(path)).read(lines[:-1], cut_off=bool(lines[-1]))


@dataclass
class _Pages:
    """A turn being read."""

    number: int
    at: float
    events: list[list[Event]] = field(default_factory=lambda: [[]])
    messages: list[Message] = field(default_factory=list)
    found: list[OutputsFound] = field(default_factory=list)
    refused: list[str | None] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)

    def take(self, what: object) -> None:
        match what:
            case OutputsFound():
                self.found.append(what)
            case ResizeRefused(message):
                self.refused[-1] = message
            case _ if isinstance(what, MESSAGES):
                self.messages.append(what)
            case _:
                self.events[-1].append(what)  # type: ignore[arg-type]  # the reader knows no other kinds

    def put_out(self, line: Output) -> None:
        self.outputs.append(line)
        if line["out"] == "Resizing":
            self.events.append([])
            self.refused.append(None)

    def closed(self) -> RecordedTick:
        return RecordedTick(
            self.number,
            self.at,
            tuple(map(tuple, self.events)),
            tuple(self.messages),
            tuple(self.found),
            tuple(self.refused),
            tuple(self.outputs),
        )


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._codec = TraceCodec()
        self._chain = Chain()
        self._ticks: list[RecordedTick] = []
        self._tick: _Pages | None = None
        self._opened: Opened | None = None
        self._ended = self._lacks_gains = self._has_former_names = False

    def read(self, lines: Sequence[str], cut_off: bool) -> Recording:
        header = self._header(lines[0] if lines else "")
        self._has_former_names = header["version"] < 17
        for number, line in enumerate(lines[1:], 2):
            try:
                self._line(json.loads(self._chain.opened(line)))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError, QoopError) as error:
                raise ConfigError(f"line {number} of the trace {self._name} is damaged: {error}") from error
        self._close_tick()
        if self._opened is None:
            raise ConfigError(f"the trace {self._name} is empty")
        if self._lacks_gains and "Quality(" in self._opened.scheduler:
            raise ConfigError(f"the trace {self._name} was made with Quality and lacks the gains of programs")
        made_by = {name: str(value) for name, value in header.items() if name not in ("format", "version", "sum")}
        return Recording(made_by, self._opened, tuple(self._ticks), self._ended, cut_off)

    def _header(self, line: str) -> Mapping[str, Any]:
        try:
            header = json.loads(line)
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise ConfigError(f"{self._name} is no trace of qoop: it does not begin with a line that says so")
        if header.get("version") not in READABLE:
            known = ", ".join(map(str, READABLE[:-1])) + f" and {READABLE[-1]}"
            raise ConfigError(f"the trace {self._name} is of version {header.get('version')}; only {known} can be read")
        try:
            self._chain.opened(line)
        except ValueError as error:
            raise ConfigError(f"line 1 of the trace {self._name} is damaged: {error}") from error
        return header

    def _line(self, line: Any) -> None:
        if not isinstance(line, dict):
            raise ValueError("it is no object")
        if self._has_former_names:
            line = _renamed(line)
        if "define" in line:
            self._codec.define(line)
        elif "tick" in line:
            self._close_tick()
            self._tick = _Pages(int(line["tick"]), float(line["at"]))
        elif "end" in line:
            self._ended = True
        elif "in" in line:
            self._input(line)
        elif line["out"] in OUTPUTS:
            self._open_tick().put_out(line)
        else:
            raise ValueError(f"nothing is called {line['out']}")

    def _input(self, line: Mapping[str, Any]) -> None:
        kind = INPUTS.get(line["in"])
        if kind is None:
            raise ValueError(f"nothing is called {line['in']}")
        if kind is Submitted:
            self._lacks_gains |= line["request"].pop("course", None) is not None  # in its place before version 16
        what = self._codec.read(kind, {name: value for name, value in line.items() if name != "in"})
        if isinstance(what, Opened):
            self._opened = what
        else:
            self._open_tick().take(what)

    def _open_tick(self) -> _Pages:
        if self._tick is None:
            raise ValueError("it belongs to no tick")
        return self._tick

    def _close_tick(self) -> None:
        if self._tick is not None:
            self._ticks.append(self._tick.closed())
            self._tick = None


def _renamed(line: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a trace before version 17 by the names of today."""
    line = _with_fields_of_today(line)
    line |= {way: FORMER_NAMES.get(line[way], line[way]) for way in ("in", "out") if way in line}
    if "request" in line:
        line["request"] = _with_fields_of_today(line["request"])
    return line


def _with_fields_of_today(line: Mapping[str, Any]) -> dict[str, Any]:
    return {FORMER_FIELDS.get(name, name): found for name, found in line.items()}
