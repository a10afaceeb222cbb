"""Bombs against a real server: it stays up and small, others are answered meanwhile, and it ends when it is told to.

`make attack SERIES=bombs` throws all kinds, with bounds for a machine that does nothing else.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from attack_bombs import MOST_ABOVE, SECONDS, USER_MEMORY, Server, ended, served, text_of, thrown
from waits import until

from qoop.tpcds.processes import family, own_memory

pytest.importorskip("starlette", reason="the extra server is not installed")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

QUICK = ["a list of texts", "a range in a filter", "a printed number", "doubled texts", "an array type"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("bombs")) as server:
        yield server


@pytest.mark.parametrize("kind", QUICK)
def test_a_bomb_is_refused_within_its_share_while_others_are_answered(server: Server, kind: str) -> None:
    found = thrown(server, text_of(kind))
    assert found.status == 422, found
    assert found.seconds < SECONDS, found
    assert found.peak <= USER_MEMORY + MOST_ABOVE, found
    assert found.slowest < 2.0, found  # where the machine runs other tests; the attack holds it to 0.1


def test_a_server_ends_soon_whatever_it_runs(tmp_path: Path) -> None:
    with served(tmp_path, "--grace", "0.2") as server:
        outcome = ended("a distance", server)
    assert outcome.held, outcome.told


def test_no_child_process_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        asked = threading.Thread(target=_ask, args=(server, text_of("a distance")), daemon=True)
        asked.start()
        until(lambda: any(_uses_cpu(one) for one in family(server.process.pid)[1:]))
        processes = family(server.process.pid)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        until(lambda: not any(map(own_memory, processes)))
    assert len(processes) >= 3  # the server, the nursery and its children


def _ask(server: Server, text: str) -> None:
    with contextlib.suppress(OSError):  # the server was killed
        server.ask("bob", text)


def _uses_cpu(process: int) -> bool:
    """True for a process that has worked for a second."""
    try:
        words = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return False
    return int(words[11]) > 100
