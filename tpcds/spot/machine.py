"""The machine of a run, with real processes (Linux): all that an adapter starts is found, counted and killed.

The driver takes in the orphans of the adapter (PR_SET_CHILD_SUBREAPER in prctl(2)). So every process that comes of it
stays below the driver, whatever session or group it joins, and its processor time counts once it has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qoop.tpcds.spot.course import AdapterError, Order, OutOfMemory, Size

if TYPE_CHECKING:
    from qoop.tpcds.spot.limits import Limits

GONE_SECONDS = 0.1
"""The time within which all processes of a lost machine must have ended."""
_PATIENCE = 5.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "JAVA_HOME")


class Machine:
    """A world of real processes, with a clock that begins now. scratch: what is lost with the machine lies there."""

    def __init__(self, order: Order, scratch: Path) -> None:
        self._order, self._scratch = order, scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._killed = 0.0
        self._errors = scratch / "errors.txt"
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._limits = _limits(order)
        self._size = order.all_sizes[0]
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: order.cpus])  # its children inherit it
        self._empty()
        self._begun = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._begun

    def wait(self, until: float) -> None:
        time.sleep(max(0.0, until - self.now()))

    def start(self) -> None:
        home = self._scratch / "home"
        own = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        places = {"HOME": str(home), "TMPDIR": str(home / "tmp")}
        command = self._order.command
        try:
            if self._limits is not None:
                self._limits.set(self._size, [])
                command = self._limits.inside(command)
            with self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=home,
                    env={**own, **places, **self._order.environment}, start_new_session=True,
                    preexec_fn=lambda: self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
                )  # fmt: skip
        except OutOfMemory as error:
            raise AdapterError(f"{error} before it starts") from error
        except OSError as error:
            raise AdapterError(f"{self._order.command[0]} cannot be started: {error.strerror}") from error
        self._pending = b""

    def send(self, message: Mapping[str, Any]) -> None:
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: the next read says so
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def receive(self, until: float) -> Mapping[str, Any] | None:
        assert self._process is not None and self._process.stdout is not None
        stream = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            left = until - self.now()
            if left <= 0:
                return None
            if select.select([stream], [], [], left)[0]:
                found = os.read(stream, 1 << 16)
                if not found and self._limits is not None and self._limits.killed():
                    raise OutOfMemory("by the kernel")
                if not found:
                    raise AdapterError(f"it ended by itself: {self._complaint()}")
                self._pending += found
        line, _, self._pending = self._pending.partition(b"\n")
        return _reply(line)

    def resize(self, size: Size) -> None:
        assert self._limits is not None
        self._size = size
        self._limits.set(size, _descendants(os.getpid()))

    def used(self) -> float:
        ticks = sum(used for process in _descendants(os.getpid()) for used in _ticks(process))
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        self._killed = time.monotonic()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def clear(self) -> None:
        while living := _descendants(os.getpid()):
            for one in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            if time.monotonic() - self._killed > _PATIENCE:
                raise AdapterError(f"its processes {living} live on after SIGKILL")
            time.sleep(0.001)
        _reap()
        if self._process is not None:
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
            self._process = None
        self._empty()

    def close(self) -> None:
        """Give back what the machine has taken of the system. All processes of the adapter have ended."""
        if self._limits is not None:
            self._limits.close()

    def cpu_seconds(self) -> float:
        """Of all processes of the adapter that have ended, their children included."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def _empty(self) -> None:
        home = self._scratch / "home"
        shutil.rmtree(home, ignore_errors=True)
        (home / "tmp").mkdir(parents=True)

    def _complaint(self) -> str:
        return self._errors.read_text(errors="replace").strip()[-500:] or "it wrote nothing"


def _limits(order: Order) -> Limits | None:
    """Limits of a machine that is resized. Raises ConfigError if there can be none."""
    if not order.sizes:
        return None
    from qoop.tpcds.spot.limits import Limits

    return Limits()


def end_with_parent() -> None:
    """Have the system send SIGTERM to this process when the one that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == 1:
        sys.exit(1)


def _reply(line: bytes) -> Mapping[str, Any]:
    """A line as a reply. Raises AdapterError if it is none."""
    try:
        reply = json.loads(line)
    except ValueError:
        reply = None
    if not isinstance(reply, dict):
        raise AdapterError(f"it wrote {line[:100].decode(errors='replace')!r}, which is no JSON object")
    return reply


def _descendants(root: int) -> list[int]:
    """The processes below one, without those that have ended and wait to be reaped."""
    parents: dict[int, int] = {}
    dead = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                parents[int(name)] = int(fields[1])
                if fields[0] in "ZX":
                    dead.add(int(name))
    below, found = {root}, set[int]()
    while below:
        below = {one for one, parent in parents.items() if parent in below} - found
        found |= below
    return sorted(found - dead)


def _ticks(process: int) -> Sequence[int]:
    """Ticks of the CPUs that a process used, user and system, and its ended children; empty: it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return ()
    return [int(field) for field in fields[11:15]]


def _reap() -> None:
    """Take in the ends of all processes below this one, which have been killed, so that their time counts."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
