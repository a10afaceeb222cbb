"""`qoop serve` as a process that a test ends, kills and starts again at the same ports.

The process writes a line of JSON for each try of a task that begins or ends. As a program,
``python serve_process.py FILE serve DIR …`` is the command line with that file.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SERVES = re.compile(r"^and, for clients of PostgreSQL, at .*:\d+$", re.M)
"""The last of the lines that name its ports, unless it waits for that of Flight SQL."""
_BEGINS, _ENDS = 120.0, 120.0
"""Seconds within which a server must have begun, and ended, on a machine that is full."""


@dataclass(frozen=True)
class Ports:
    """The ports of a server by HTTP, Flight SQL and PostgreSQL's protocol."""

    http: int
    flight: int
    postgres: int

    @classmethod
    def free(cls) -> Ports:
        """Ports at which nothing listens now."""
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        numbers = [one.getsockname()[1] for one in sockets]
        for one in sockets:
            one.close()
        return cls(*numbers)

    @property
    def words(self) -> list[str]:
        """The options of `qoop serve`."""
        return ["--port", str(self.http), "--flight-port", str(self.flight), "--pg-port", str(self.postgres)]


@dataclass(frozen=True)
class Output:
    """The output of a task that has ended. job: of its process. key: what it means, how it is cut, which part it is."""

    job: str
    key: str
    seconds: float


class ServeProcess:
    """A server in the folder `place`, which serves once this is made. words: after ``qoop serve``. environment:
    further variables.

    A context manager, in the end of which it is killed.
    """

    def __init__(self, place: Path, words: Sequence[str], ports: Ports, **environment: str) -> None:
        number = len(list(place.glob("said-*")))
        self.killed_at = 0.0
        self.said, self._trace = place / f"said-{number}", place / f"outputs-{number}"
        program = [sys.executable, __file__, str(self._trace), "serve", *words, *ports.words]
        with self.said.open("w") as said:
            self.process = subprocess.Popen(program, stderr=said, cwd=place, env=os.environ | environment)
        self._wait_until_it_serves()

    def _wait_until_it_serves(self) -> None:
        end = time.monotonic() + _BEGINS
        while not _SERVES.search(self.said.read_text()):
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise AssertionError(f"the server does not begin: {self.said.read_text()}")
            time.sleep(0.02)

    def __enter__(self) -> ServeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def outputs(self) -> list[Output]:
        """The outputs that its tasks have made so far."""
        return [Output(one["job"], one["key"], one["seconds"]) for one in _read(self._trace) if "seconds" in one]

    def in_hand(self) -> list[Output]:
        """The tasks that ran when it was killed, with their seconds until then."""
        begun: dict[str, dict[str, Any]] = {}
        for one in _read(self._trace):
            if "ended" in one:
                begun.pop(one["attempt"], None)
            else:
                begun[one["attempt"]] = one
        return [Output(one["job"], one["key"], self.killed_at - one["at"]) for one in begun.values()]

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.killed_at = time.time()
        self.process.wait()

    def end(self) -> int:
        """End it by a signal. Returns its code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_ENDS)


def _read(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.endswith("}"):  # the last may be cut off by a kill
            yield json.loads(line)


class _Trace(logging.Handler):
    """Writes the outputs that the log of jobs has records of."""

    def __init__(self, path: str) -> None:
        super().__init__(logging.DEBUG)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def emit(self, record: logging.LogRecord) -> None:
        from qoop.engine.history import Failed, Started, Stopped, Succeeded

        job, what = record.args if isinstance(record.args, tuple) and len(record.args) == 2 else ("", None)
        if isinstance(what, Started | Succeeded | Failed | Stopped):
            facts = {"job": str(job), "attempt": str(what.attempt), "at": record.created}
            if isinstance(what, Started | Succeeded):
                facts["key"] = str(what.key)
            if isinstance(what, Succeeded):
                facts["seconds"] = what.committed.seconds
            if not isinstance(what, Started):
                facts["ended"] = True
            os.write(self._file, (json.dumps(facts) + "\n").encode())


def main() -> int:
    from qoop.__main__ import main as command_line

    log = logging.getLogger("qoop.job")
    log.addHandler(_Trace(sys.argv[1]))
    log.setLevel(logging.DEBUG)
    del sys.argv[1]
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
