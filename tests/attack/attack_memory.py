"""Queries in a control group of little memory: a process that takes more than it was given is killed by the system.

Each try is a process of its own, in a group whose limit is so much that what the session is given is 0.8 of it. Two
kinds of tries take turns: the heaviest queries of TPC-DS, and answers of 100 million rows that are handed out, fetched
or copied. The data are those of the largest scale among ``$QOOP_TEST_DATA/tpcds-sf*``.

Needs Linux, and the right to make groups (root, mostly); versions 1 and 2 of control groups are known. Page cache
counts as the group's, but the system can have it back; files on a tmpfs count, too, and it cannot: the temporary folder
must lie on a disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from attack_outcome import Outcome

from qoop.catalog.errors import ConfigError
from qoop.tpcds.control_groups import ControlGroup

SERIES = "memory in a control group"
DATA = Path(os.environ.get("QOOP_TEST_DATA") or Path.home() / ".cache" / "qoop" / "data")
HEAVY = (67, 4, 23, 14, 78, 64, 11, 74, 24, 95, 97, 75, 51, 47, 22, 28, 88, 65, 72, 9)
"""The queries of TPC-DS that DuckDB works longest on at scale 10."""
MEMORY = (500_000_000, 1_000_000_000)
ANSWER = "SELECT i, CAST(i * 7 % 1000003 AS INT) AS j FROM range({rows}) t(i)"
WAYS = ("len", "batches", "handed out", "fetchmany", "copy")
ROWS = 100_000_000
SECONDS = 900.0

CHILD = """
import json, sys
memory, kind, what, data, folder, rows = sys.argv[1:7]
import qoop
from qoop.tpcds import queries
from qoop.tpcds.memory import PeakMemory
with PeakMemory() as watched, qoop.connect(slots=2, memory=int(memory)) as session:
    if kind == "query":
        session.register_folder(data)
        found = len(session.sql(queries.text(int(what))))
    elif what == "batches":
        found = sum(batch.num_rows for batch in session.submit(data).batches())
    elif what == "copy":
        [[found]] = session.sql(f"COPY ({data}) TO '{folder}/out.parquet' (FORMAT parquet)").fetchall()
    else:
        answer, found = session.sql(data), 0
        if what == "len":
            found = len(answer)
        elif what == "handed out":
            found = sum(batch.num_rows for batch in answer.batches())
        else:
            while rows := answer.fetchmany(100_000):
                found += len(rows)
print(json.dumps({"rows": found, "peak": watched.peak}))
"""


def memory(folder: Path, seed: int, count: int) -> Iterator[Outcome]:
    """That many tries, drawn from the heavy queries and the ways of reading a large answer."""
    try:
        group = ControlGroup(f"qoop-attack-{os.getpid()}", ["memory"])
    except ConfigError as error:
        yield Outcome(SERIES, True, f"skipped: {error} (root is needed)")
        return
    try:
        for number, (kind, what) in zip(range(count), _tries(seed), strict=False):
            yield _try(group, folder, kind, what, MEMORY[number % len(MEMORY)])
    finally:
        group.close()


def _tries(seed: int) -> Iterator[tuple[str, str]]:
    """Every one of them once, in an order of the seed's, and again."""
    chance = Random(seed)
    data = _data()
    every = [("answer", way) for way in WAYS] + [("query", str(number)) for number in HEAVY if data is not None]
    while True:
        yield from chance.sample(every, len(every))


def _data() -> Path | None:
    found = [path for path in DATA.glob("tpcds-sf*") if path.is_dir()]
    return max(found, key=lambda path: float(path.name.removeprefix("tpcds-sf")), default=None)


def _try(group: ControlGroup, folder: Path, kind: str, what: str, given: int) -> Outcome:
    data = str(_data()) if kind == "query" else ANSWER.format(rows=ROWS)
    group.limit_memory(int(given / 0.8))
    arguments = [str(given), kind, what, data, str(folder), str(ROWS)]
    began = time.monotonic()
    try:
        done = subprocess.run(
            group.inside([sys.executable, "-c", CHILD, *arguments]),
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome(SERIES, False, f"{kind} {what} at {given >> 20} MiB took longer than {SECONDS:.0f} s")
    finally:
        (folder / "out.parquet").unlink(missing_ok=True)
    where = f"{kind} {what} with {given / 1e6:.0f} MB in {given / 0.8e6:.0f} MB, {time.monotonic() - began:.0f} s"
    if done.returncode:
        return Outcome(SERIES, False, f"{where}: ended with {done.returncode}: {done.stderr[-500:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    peak, most = told["peak"], 1.15 * given + 150e6
    held = peak <= most and (kind == "query" or told["rows"] == ROWS)
    return Outcome(
        SERIES, held, f"{where}: {told['rows']} rows, anonymous at most {peak / 1e6:.0f} of {most / 1e6:.0f} MB"
    )
