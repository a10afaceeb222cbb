"""A process in a control group whose limits change at random every few seconds, while queries run in it.

Memory is 0.25 to 4 times 600 MB, drawn evenly by its logarithm, CPUs 0.5 to 2. Every answer must be that of DuckDB
without limits, and the kernel must not kill the process. Needs root, and TPC-DS data (``$QOOP_TEST_DATA/tpcds-sf*``,
the largest scale up to 10).
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from attack_memory import DATA
from attack_outcome import Outcome

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from control_groups import RealGroups

SERIES = "limits that change"
BASE, PERIOD = 600_000_000, 5.0
QUERIES = (67, 4, 78, 23, 14, 51)
LARGEST = 10.0

CHILD = """
import json, sys
from pathlib import Path
import qoop
from qoop.tpcds import queries
folder, numbers = sys.argv[1], json.loads(sys.argv[2])
with qoop.connect() as session:
    session.register_folder(folder)
    for number in numbers:
        rows = session.sql(queries.text(number)).fetchall()
        print(json.dumps([number, len(rows), str(sorted(map(repr, rows)))]), flush=True)
"""


def resizes(folder: Path, seed: int, count: int) -> Iterator[Outcome]:
    """That many changes of the limits."""
    folders = [path for path in DATA.glob("tpcds-sf*") if path.is_dir() and _scale(path) <= LARGEST]
    data = max(folders, key=_scale, default=None)
    try:
        groups = RealGroups(f"qoop-attack-{os.getpid()}")
    except OSError as error:
        yield Outcome(SERIES, True, f"skipped: no control group can be made: {error}")
        return
    try:
        if data is None:
            yield Outcome(SERIES, True, f"skipped: no TPC-DS data in {DATA}")
            return
        expected = dict(_answers(_process(None, data, QUERIES)))
        yield from _tries(groups, data, Random(seed), count, expected)
    finally:
        groups.remove()


def _tries(groups: RealGroups, data: Path, chance: Random, count: int, expected: dict[int, str]) -> Iterator[Outcome]:
    process, answers = None, queue.SimpleQueue[tuple[int, str]]()
    try:
        for _ in range(count):
            if process is None or process.poll() is not None:
                numbers = chance.sample(QUERIES, len(QUERIES)) * 1000
                process = _process(groups, data, numbers)
                threading.Thread(target=_collect, args=(process, answers), daemon=True).start()
            size, cpus = int(BASE * 2 ** chance.uniform(-2, 2)), chance.choice((0.5, 1.0, 1.5, 2.0))
            refused = _limit(groups, size)
            groups.quota(cpus)
            time.sleep(PERIOD)
            where = f"{size / 1e6:.0f} MB{' (refused)' if refused else ''}, {cpus:g} CPUs"
            wrong = [number for number, answer in _taken(answers) if answer != expected[number]]
            code = process.poll()
            held = code is None and not wrong
            yield Outcome(SERIES, held, where if held else f"{where}: ended with {code}, wrong answers of {wrong}")
    finally:
        if process is not None:
            process.kill()
            process.wait()


def _limit(groups: RealGroups, size: int) -> bool:
    """Limit the memory; version 1 refuses to as long as more is in use. True: it refused for the whole period."""
    end = time.monotonic() + PERIOD
    while time.monotonic() < end:
        try:
            groups.limit(size)
            return False
        except OSError:
            time.sleep(0.05)
    return True


def _process(groups: RealGroups | None, data: Path, numbers: object) -> subprocess.Popen[str]:
    enter = "".join(f"echo $$ > {folder}/cgroup.procs && " for folder in (groups.folders if groups else ()))
    arguments = [sys.executable, "-c", CHILD, str(data), json.dumps(numbers)]
    environment = {name: text for name, text in os.environ.items() if name != "QOOP_WATCH_MACHINE"}
    return subprocess.Popen(
        ["sh", "-c", f'{enter}exec "$0" "$@"', *arguments], stdout=subprocess.PIPE, text=True, env=environment
    )


def _answers(process: subprocess.Popen[str]) -> Iterator[tuple[int, str]]:
    assert process.stdout is not None
    for line in process.stdout:
        number, _, answer = json.loads(line)
        yield number, answer


def _collect(process: subprocess.Popen[str], answers: queue.SimpleQueue[tuple[int, str]]) -> None:
    for answer in _answers(process):
        answers.put(answer)


def _taken(answers: queue.SimpleQueue[tuple[int, str]]) -> list[tuple[int, str]]:
    return [answers.get() for _ in range(answers.qsize())]


def _scale(path: Path) -> float:
    return float(path.name.removeprefix("tpcds-sf"))
