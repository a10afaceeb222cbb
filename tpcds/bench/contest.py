"""Systems under test from outside: start one in a process, take CPUs and memory from it, kill it, judge its answer.

A change of resources is one for the whole process: its threads are bound to as many CPUs as it has slots.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.tpcds.bench.system_under_test import Size, Task
from qoop.tpcds.oracle import Oracle

_START_SECONDS = 120.0
_POLL_SECONDS = 0.02
"""Seconds between looks at how much a process has done."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a system under test. seconds: until it had the whole answer, or gave up. error: None if it answered.

    facts: its own report. limited: it took longer than allowed and was stopped.
    """

    seconds: float
    error: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    limited: bool = False


@dataclass(frozen=True, slots=True)
class Killed:
    """A system under test that was killed. cpu, wall: its processor seconds and seconds from its beginning."""

    cpu: float
    wall: float


@dataclass(frozen=True, slots=True)
class Change:
    """Other resources. at: seconds after the beginning from which they hold."""

    at: float
    size: Size


class SystemUnderTest:
    """A process that does one task. As a context manager, it ends the process and removes its files."""

    def __init__(self, task: Task, scratch: Path) -> None:
        self.task = task
        self._cpus = sorted(os.sched_getaffinity(0))
        self._errors = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 — a pipe without a reader could fill
        self._process = subprocess.Popen(
            [sys.executable, "-m", "qoop.tpcds.bench.system_under_test"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, cwd=scratch,
        )  # fmt: skip
        self._pending = b""
        self._tell(task.line())

    def ready(self, within: float = _START_SECONDS) -> None:
        """Wait until it has its tables. Raises ExecutionError if it has not."""
        if self._hear(time.monotonic() + within) is None:
            raise ExecutionError(f"{self.task.kind} is not ready after {within:g} s: {self._complaint()}")

    def go(self, changes: Sequence[Change] = (), limit: float = float("inf")) -> Outcome:
        """Let it begin, change its resources when due, and wait for its end, at most `limit` seconds."""
        self.bind(self.task.size.slots)
        begun = time.monotonic()
        self._tell("go")
        for change in sorted(changes, key=lambda change: change.at):
            reply = self._hear(begun + min(change.at, limit))
            if reply is not None:
                return self._outcome(reply)
            self.resize(change.size)
        reply = self._hear(begun + limit)
        return self._outcome(reply) if reply is not None else Outcome(limit, "not ended", limited=True)

    def go_until(self, cpu: float) -> Killed | Outcome:
        """Let it begin, and kill it once it has taken that many processor seconds since, or return its outcome if it
        ends before. Linux only."""
        self.bind(self.task.size.slots)
        before, spent, begun = self._cpu_seconds(), 0.0, time.monotonic()
        self._tell("go")
        while spent < cpu:
            reply = self._hear(time.monotonic() + _POLL_SECONDS)
            if reply is not None:
                return self._outcome(reply)
            spent = self._cpu_seconds() - before
        self.kill()
        return Killed(spent, time.monotonic() - begun)

    def finished(self, until: float) -> Outcome | None:
        """Wait for the end until a moment of the monotonic clock; for tasks that do not wait to begin."""
        reply = self._hear(until)
        if reply is not None and reply.get("ready"):
            reply = self._hear(until)
        return self._outcome(reply) if reply is not None else None

    def resize(self, size: Size) -> None:
        """Give it other resources: bind the process to the CPUs, and tell what runs in it."""
        self.bind(size.slots)
        self._tell(json.dumps(asdict(size)))

    def bind(self, slots: int) -> None:
        """Bind every thread of the process to that many CPUs; threads made later inherit it."""
        cpus = self._cpus[:slots]
        for thread in _threads(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cpus)

    def kill(self) -> None:
        """SIGKILL, as when the machine goes away, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> SystemUnderTest:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _cpu_seconds(self) -> float:
        """Processor seconds of all its threads so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended; its reply says how
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _hear(self, until: float) -> dict[str, Any] | None:
        """The next line, None if there is none in time. Raises ExecutionError if the process died."""
        assert self._process.stdout is not None
        stream = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            left = until - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], min(left, 3600.0))[0]:
                if until <= time.monotonic():
                    return None
                continue
            got = os.read(stream, 1 << 16)
            if not got:
                raise ExecutionError(f"{self.task.kind} died: {self._complaint()}")
            self._pending += got
        line, _, self._pending = self._pending.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _outcome(self, reply: Mapping[str, Any]) -> Outcome:
        facts = {name: value for name, value in reply.items() if name not in ("seconds", "error")}
        return Outcome(float(reply["seconds"]), reply.get("error"), facts)

    def _complaint(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()[-2000:] or "it said nothing"


def _threads(process: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    return [process]


@contextlib.contextmanager
def scratch_folder(parent: str | None = None) -> Iterator[Path]:
    """A folder for answers, checkpoints and spilled data that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="qoop-contest-", dir=parent) as name:
        yield Path(name)


def judge(directory: Path, text: str, answer: Path, theirs: pa.Table) -> str | None:
    """The reason why the answer in the file is wrong; None if it is right."""
    with pa.memory_map(str(answer)) as source:
        ours = pa.ipc.open_file(source).read_all()
    with Oracle(directory) as oracle:
        difference = oracle.judge(text, ours, theirs)
    return None if difference is None else str(difference)


def need_affinity() -> None:
    """Raises ConfigError where the CPUs of a process cannot be chosen."""
    if not hasattr(os, "sched_setaffinity"):
        raise ConfigError("this comparison binds processes to CPUs, which this system does not allow")
