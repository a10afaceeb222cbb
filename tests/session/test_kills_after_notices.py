"""A process of a run until done is killed long before the time of its notice, or without one, or its notice is
withdrawn. Nothing is lost but the task that ran."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from facts_table import expected, write_facts
from metadata_service import AWS, metadata_service
from waits import until

TEXT = """
SELECT m, {later}(total) AS total FROM (
  SELECT k % 7 AS m, sum({early}(v))::BIGINT AS total FROM facts WHERE v % 300 = 0 GROUP BY m
) ORDER BY m
"""
FUNCTIONS = ("early", "later")
LIFE = """
import functools, sys, qoop
from qoop.adaptive.monitor.notices import AwsNotices
from qoop.engine.backends.local import LocalBackend
from qoop.engine.storage.manifest import checkpoint_name
from qoop.session import stops, until_done

data, place, text, url, *gates = sys.argv[1:]
start, boot_seconds = LocalBackend.start, stops.boot_seconds
skipped = [0.0]

class Watched(AwsNotices):
    found = before = None
    withdrawn = False

    def check(self):
        if (self.found is None) != (self.before is None):  # what the last check found has taken effect
            Watched.withdrawn = self.found is None
            print("withdrawn" if self.withdrawn else "announced", flush=True)
        self.before, self.found = self.found, super().check()
        return self.found

def started(backend, machine, spec):
    print("output", checkpoint_name(spec.key), flush=True)
    start(backend, machine, spec)

def passes(gate, n):
    print("at", gate, flush=True)
    open(gate).close()  # a named pipe, which the test opens for writing
    skipped[0] = 300.0 * Watched.withdrawn
    return n

stops.boot_seconds = lambda: boot_seconds() + skipped[0]
until_done.source_named = lambda name: Watched(url)
until_done.stopped_by_notices = functools.partial(until_done.stopped_by_notices, every=0.01)
LocalBackend.start = started
with qoop.connect(data, slots=2, memory="500MB", checkpoints=place, staged=True) as session:
    for gate in gates:
        name = gate.rpartition("/")[2]
        session.register_function(name, functools.partial(passes, gate), ["BIGINT"], "BIGINT", version="1")
    print("answer", session.run_until_done(text).result.fetchall(), flush=True)
"""
"""A run that prints the name of each output that a task begins to make, and the gate that it waits at. Minutes go by
when a task passes a gate after a notice was withdrawn."""


class Run:
    """The processes of a run, one after the other, on a machine with a metadata service at that address."""

    def __init__(self, folder: Path, url: str) -> None:
        self._data, self._place, self._url = folder, folder / "place", url
        self._gates = [folder / name for name in FUNCTIONS]
        self._open = ExitStack()
        for gate in self._gates:
            os.mkfifo(gate)

    @contextmanager
    def life(self) -> Iterator[Life]:
        """A process; it is killed if it lives at the end of the block."""
        text = TEXT.format(**{name: name for name in FUNCTIONS})
        words = [sys.executable, "-c", LIFE, self._data, self._place, text, self._url, *self._gates]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            life = Life(process)
            try:
                yield life
            finally:
                process.kill()
                life.reader.join()

    def open(self, name: str) -> None:
        """From now on tasks pass the gate."""
        self._open.callback(os.close, os.open(self._gates[FUNCTIONS.index(name)], os.O_RDWR))

    def are_saved(self, outputs: list[str]) -> bool:
        return all((self._place / f"{name}.json").exists() for name in outputs)

    def close(self) -> None:
        self._open.close()


class Life:
    """A process, and the lines that it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.lines = process, list[str]()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def prints(self, words: str) -> None:
        """Wait for a line with these words."""
        until(lambda: any(words in line for line in self.lines), lambda: self.lines)

    @property
    def outputs(self) -> list[str]:
        return [line.split()[1] for line in self.lines if line.startswith("output ")]


@pytest.fixture
def replies() -> dict[str, str]:
    return {}


@pytest.fixture
def run(tmp_path: Path, replies: dict[str, str]) -> Iterator[Run]:
    write_facts(tmp_path)
    with metadata_service(replies) as url:
        found = Run(tmp_path, url)
        yield found
        found.close()


def notice() -> str:
    """Of AWS, two minutes before the end."""
    end = datetime.now(UTC) + timedelta(seconds=120)
    return json.dumps({"action": "terminate", "time": end.strftime("%Y-%m-%dT%H:%M:%SZ")})


def answer(data: Path) -> str:
    return f"answer {expected(data, TEXT.format(early='', later=''))}"


@pytest.mark.parametrize("announced", [True, False], ids=["long before the end of a notice", "without a notice"])
def test_a_kill_loses_the_running_task_alone(
    run: Run, replies: dict[str, str], tmp_path: Path, announced: bool
) -> None:
    with run.life() as killed:
        killed.prints("/early")
        waits = killed.outputs[-1]
        if announced:
            replies[AWS] = notice()
            killed.prints("announced")
        run.open("early")
        killed.prints("/later")
        *done, running = killed.outputs
        until(lambda: run.are_saved(done))
        assert waits in done and not run.are_saved([running]), "it went on after the notice"
    assert killed.process.returncode == -signal.SIGKILL
    replies.clear()  # the next one is on another machine
    run.open("later")
    with run.life() as second:
        second.process.wait()
        second.reader.join()
    assert second.lines[-1] == answer(tmp_path)
    assert running in second.outputs and not set(done) & set(second.outputs)


def test_a_run_whose_notice_is_withdrawn_ends_in_its_process(run: Run, replies: dict[str, str], tmp_path: Path) -> None:
    with run.life() as life:
        life.prints("/early")
        replies[AWS] = notice()
        life.prints("announced")
        replies.clear()
        life.prints("withdrawn")
        run.open("early")
        run.open("later")
        life.process.wait()
        life.reader.join()
    assert life.lines[-1] == answer(tmp_path) and len(set(life.outputs)) == len(life.outputs)
