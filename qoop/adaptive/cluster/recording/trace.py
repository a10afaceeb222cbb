"""The record of a session: all that went into every tick of its loop, and all that came out.

As JSON lines (law 8: no pickle), each written once the tick is over::

    {"format": "qoop-trace", "version": 13, "qoop": "0.1"}
    {"in": "Opened", "at": 0.0, "machines": {"local": {"cpu": 4, "memory": 8e9}}, …}
    {"define": "5e1f…", "kind": "Stage", "value": {…}}      a stage or plan; said once, later named by its digest
    {"tick": 1, "at": 0.25}
    {"in": "Submitted", "job": "job1", …}                   an event, a message, or an answer of the backend
    {"out": "ShareChanged", "job": "job1", …}               a share, a command, a decision, the end of a job
    {"out": "Starting", "attempt": "job1/s1.0#1", …}
    {"end": 1}                                              the session was closed after that many ticks

Every line ends with ``"sum": "…"``, which sums the line and all before it (:class:`Chain`).
:mod:`qoop.adaptive.cluster.recording.ticks` and :mod:`qoop.adaptive.cluster.recording.messages` define the lines,
:mod:`qoop.adaptive.retrace.rerun` goes through them again.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import warnings
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import Protocol

from qoop.adaptive.cluster.recording.messages import (
    CancelRequested,
    CloseRequested,
    MachineSlept,
    PauseRequested,
    PinRequested,
    PlannerReplied,
    ProgramMessage,
    ReconsiderRequested,
    ReleaseRequested,
    ResizeRequested,
    SampleOffered,
    SlotsAnnounced,
    Submitted,
    SuspendRequested,
)
from qoop.adaptive.cluster.recording.ticks import (
    JobEnded,
    Opened,
    OutputsFound,
    PlanDecided,
    PlannerRequested,
    ProgramStepped,
    ResizeRefused,
    Resizing,
    Starting,
    Tick,
)
from qoop.adaptive.cluster.recording.trace_codec import TraceCodec
from qoop.catalog.errors import ConfigError
from qoop.catalog.forks import forget_private, keep_private
from qoop.catalog.stores.private import open_private
from qoop.engine.events import (
    Begun,
    CallsObserved,
    CapacityExpected,
    CapacityNotice,
    CheckpointLost,
    CheckpointSaved,
    MachineJoined,
    MachineLost,
    Queued,
    Regrant,
    Release,
    ShareChanged,
    SlotsChanged,
    Start,
    Stop,
    TaskFailed,
    TaskRegranted,
    TaskStopped,
    TaskSucceeded,
    WorkObserved,
)
from qoop.engine.storage.guard import versions

FORMAT = "qoop-trace"
VERSION = 18
READABLE = (8, 9, 10, 11, 12, 13, 14, 15, 16, 17, VERSION)
"""The versions that can be read: one of 8 tells nothing of attempts that wait, and not where their seconds went; one
before 10 nothing of what DuckDB told of them under EXPLAIN ANALYZE; one before 11 not what programs were told; one
before 12 knows no fallback plan, one before 13 nothing of what is expected, one before 14 no slowdown of earlier jobs,
one before 15 not how far DuckDB's own plan was, nor of first looks, one before 16 no gains of programs, one before 17
has other names (`FORMER_NAMES`), and one before 18 nothing of a machine that slept."""

FORMER_NAMES = {
    "CancelAsked": "CancelRequested", "HoldAsked": "PauseRequested", "SuspendAsked": "SuspendRequested",
    "ReleaseAsked": "ReleaseRequested", "ReconsiderAsked": "ReconsiderRequested", "ExpectAsked": "SlotsAnnounced",
    "SampleTold": "SampleOffered", "ProgramTold": "ProgramMessage", "PinAsked": "PinRequested",
    "ResizeAsked": "ResizeRequested", "CloseAsked": "CloseRequested", "Answered": "PlannerReplied",
    "Questioned": "PlannerRequested", "Found": "OutputsFound", "Refused": "ResizeRefused", "Decision": "PlanDecided",
    "CallsSeen": "CallsObserved", "WorkSeen": "WorkObserved",
}  # fmt: skip
"""The names that lines had before version 17."""

FORMER_FIELDS = {"last_resort": "fallback", "pace": "slowdown", "first_look": "quick_search"}
"""The names that fields of lines, and of the requests in them, had before version 17."""

EVENTS = (
    Queued, Begun, TaskSucceeded, TaskFailed, TaskStopped, TaskRegranted, CallsObserved, WorkObserved, MachineJoined,
    MachineLost, SlotsChanged, CapacityNotice, CapacityExpected, CheckpointLost, CheckpointSaved,
)  # fmt: skip
MESSAGES = (
    Submitted, CancelRequested, PauseRequested, SuspendRequested, ReleaseRequested, ReconsiderRequested,
    SampleOffered, PinRequested, ProgramMessage, ResizeRequested, SlotsAnnounced, MachineSlept, PlannerReplied,
    CloseRequested,
)  # fmt: skip
INPUTS = {kind.__name__: kind for kind in (Opened, *EVENTS, *MESSAGES, OutputsFound, ResizeRefused)}
OUTPUTS = {
    kind.__name__: kind
    for kind in (
        ShareChanged, Starting, Stop, Regrant, Release, Resizing, PlannerRequested, PlanDecided, ProgramStepped,
        JobEnded,
    )
}  # fmt: skip

_sessions = itertools.count(1)


class Trace(Protocol):
    """Takes what happens, in order. Called from the cluster's thread alone, and never raises."""

    def record(self, at: float, what: object) -> None:
        """Take one thing, a dataclass, at seconds of the session's clock."""
        ...

    def flush(self) -> None:
        """A turn is over."""
        ...


class TraceFile:
    """A trace that is written as it comes; a killed process loses one turn at most.

    A file that was there is replaced. In a folder, every session makes a file of its own.
    What cannot be written ends the trace, not the session; `close` warns of it.
    Raises ConfigError if the file cannot be made, or another session is writing it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path / f"qoop-{os.getpid()}-{next(_sessions)}.jsonl" if path.is_dir() else path
        self._file = _opened(self.path)
        keep_private(self._file.fileno())
        self._lines = Lines()
        self._chain = Chain()
        self._waiting = [header()]
        self._ticks = 0
        self._problem: Exception | None = None

    def record(self, at: float, what: object) -> None:
        if self._problem is not None:
            return
        try:
            self._waiting += self._lines.of(what)
            self._ticks += isinstance(what, Tick)
        except Exception as error:  # told by `close`: no query is lost for its trace
            self._problem = error

    def flush(self) -> None:
        if self._problem is not None:
            return
        data = memoryview("".join(f"{self._chain.sealed(line)}\n" for line in self._waiting).encode())
        self._waiting = []
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            self._problem = error

    def close(self) -> None:
        """Say that this is the end. Warns if the trace is not complete."""
        self._waiting.append(json.dumps({"end": self._ticks}))
        self.flush()
        forget_private(self._file.fileno())
        self._file.close()
        if self._problem is not None:
            warnings.warn(
                f"the trace {self.path} ends at turn {self._ticks}: {self._problem}", RuntimeWarning, stacklevel=3
            )


class Lines:
    """Turns what is recorded into lines."""

    def __init__(self) -> None:
        self._codec = TraceCodec()

    def of(self, what: object) -> list[str]:
        """The lines for one thing: definitions of what it names for the first time, then itself."""
        if isinstance(what, Tick):
            return [json.dumps({"tick": what.number, "at": what.at})]
        if isinstance(what, Start):
            spec = what.spec
            what = Starting(spec.attempt, spec.key, what.machine, spec.resources)
        name = type(what).__name__
        text = json.dumps({"out" if name in OUTPUTS else "in": name, **self._codec.write(what)}, allow_nan=False)
        return [*self._codec.definitions(), text]


class Chain:
    """Gives every line of a trace a checksum, over itself and the one before it.

    So a line that was changed, left out or put elsewhere is found, and told from a last line that is cut off.

    >>> line = Chain().sealed('{"turn": 1}')
    >>> line, Chain().opened(line)
    ('{"turn": 1, "sum": "143bc81ab84cafe4"}', '{"turn": 1}')
    """

    def __init__(self) -> None:
        self._last = b""

    def sealed(self, line: str) -> str:
        """The next line, an object of JSON, with its checksum as its last field."""
        return f'{line[:-1]}, "sum": "{self._next(line)}"}}'

    def opened(self, line: str) -> str:
        """The line as it was before it was `sealed`. Raises ValueError where it is not the next line as it was."""
        found = _SUM.search(line)
        if found is None:
            raise ValueError("it has no checksum")
        content = line[: found.start()] + "}"
        if self._next(content) != found[1]:
            raise ValueError("it, or the line before it, is not as it was written: the checksum differs")
        return content

    def _next(self, content: str) -> str:
        digest = blake2b(content.encode(), digest_size=8, salt=self._last)
        self._last = digest.digest()
        return digest.hexdigest()


_SUM = re.compile(r', "sum": "([0-9a-f]{16})"\}$')


def header() -> str:
    """The first line of a trace."""
    return json.dumps({"format": FORMAT, "version": VERSION, **versions()})


def _opened(path: Path) -> FileIO:
    """The file, emptied, and locked for as long as it is open."""
    try:
        file = open_private(path, "a")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file.fileno()).st_size:  # what is no file, such as /dev/stderr, cannot be emptied
            file.truncate(0)
    except BlockingIOError as error:
        raise ConfigError(
            f"the trace {path} is being written by another session; name a folder, where each has a file of its own"
        ) from error
    except OSError as error:
        raise ConfigError(f"the trace {path} cannot be written: {error.strerror}") from error
    return file
