"""Processes that are killed (SIGKILL) at a random moment of what they do over and over.

Afterwards another process in the same folders must answer rightly and find every table and bundle whole or not at all.
Once it has done the same itself and ended, nothing may be left of the killed one: no process, no draft, no temporary
folder.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from attack_outcome import Outcome

ROWS = 60_000
QUERY = "SELECT a.g, count(*), sum(b.v) FROM t a JOIN t b ON a.k = b.k WHERE a.v < {most} GROUP BY a.g ORDER BY a.g"
TABLE = "CREATE OR REPLACE TABLE u AS SELECT g, v FROM t WHERE v < 50000"

DEEDS = {
    "queries with checkpoints": "session.sql(query(number)).fetchall()",
    "create table": f"session.sql({TABLE!r})",
    "copy": "session.sql(f\"COPY (SELECT * FROM t) TO '{folder}/out/t.parquet'\")",
    "suspend": """
job = session.submit("SELECT count(*) FROM (SELECT max(v) FROM t GROUP BY g), range(200000000) WHERE range % 3 = 1")
time.sleep(0.05)
try:
    job.suspend(folder / "bundles" / f"{os.getpid()}-{number}")
except qoop.ConfigError:  # it has ended
    pass
""",
    "trace": "session.sql('SELECT count(*) FROM t').fetchall()",
    "shared store": "session.sql(query(number)).fetchall()",
    "forks": """
pid = os.fork()
if pid == 0:
    with opened() as mine:
        mine.sql(query(number)).fetchall()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
session.sql(query(number)).fetchall()
""",
}

PROCESS = """
import json, os, sys, time
from pathlib import Path
import qoop
folder, deed, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[4])
os.environ |= {"QOOP_SPILL": str(folder / "spill"), "QOOP_CACHE_DIR": str(folder / "cache"),
               "XDG_CONFIG_HOME": str(folder / "config")}

def query(number):
    return QUERY.format(most=1000 + number % 7)

def opened():
    place = (folder / "share").as_uri() if deed == "shared store" else folder / "kept"
    made = {"trace": folder / "traces", "tables": folder / "tables"}
    session = qoop.connect(slots=2, memory="300MB", checkpoints=place, **made)
    session.register("t", folder / "t.parquet")
    return session

with opened() as session:
    print("ready", flush=True)
    for number in range(times):
        exec(sys.argv[3])
    found = {most: session.sql(QUERY.format(most=most)).fetchall() for most in (1000, 1006)}
    tables = session.tables()
    if "u" in tables:
        found["u"] = session.sql("SELECT count(*), sum(v) FROM u").fetchall()
print(json.dumps(found, default=int))
"""


def kills(folder: Path, seed: int, count: int) -> Iterator[Outcome]:
    """Kill a process in the middle of each deed in turn, and look at what is left."""
    drawn = random.Random(seed)
    expected = _prepare(folder)
    for number, deed in zip(range(count), _ticks(), strict=False):
        after = drawn.uniform(0.0, 1.5)
        killed_in = _killed(folder, deed, after)
        faults = [*killed_in, *_faults(folder, deed, expected)]
        told = f"{deed}, killed {after:.3f} s after it was ready (try {number} of seed {seed})"
        yield Outcome("kills", not faults, f"{told}: {'; '.join(faults) or 'nothing lost, nothing left'}")


def _ticks() -> Iterator[str]:
    while True:
        yield from DEEDS


def _prepare(folder: Path) -> dict[str, list[list[int]]]:
    """The data, and DuckDB's answers."""
    import duckdb

    for name in ("traces", "out", "bundles"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    numbers = range(ROWS)
    table = pa.table({"k": [n * 7919 % 20_011 for n in numbers], "g": [n % 13 for n in numbers], "v": numbers})
    pq.write_table(table, folder / "t.parquet")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW t AS FROM '{folder / 't.parquet'}'")
        answers = {str(m): connection.sql(QUERY.format(most=m)).fetchall() for m in (1000, 1006)}
        connection.execute(TABLE)
        answers["u"] = connection.sql("SELECT count(*), sum(v) FROM u").fetchall()
    assert all(answers.values())
    return {name: [list(map(int, row)) for row in rows] for name, rows in answers.items()}


def _command(folder: Path, deed: str, times: int) -> list[str]:
    text = f"QUERY = {QUERY!r}\n{PROCESS}"
    return [sys.executable, "-c", text, str(folder), deed, DEEDS[deed], str(times)]


def _killed(folder: Path, deed: str, after: float) -> list[str]:
    """Begin a process and kill it. What went wrong before; and its children that live on."""
    command = _command(folder, deed, 10**6)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        if process.stdout.readline() != "ready\n":
            process.kill()
            return [f"it did not begin: {process.stderr.read()[-500:]}"]
        time.sleep(after)
        ended, children = process.poll(), _children(process.pid)
        process.send_signal(signal.SIGKILL)
        if ended is not None:
            return [f"it ended by itself: {process.stderr.read()[-500:]}"]
    deadline = time.monotonic() + 60
    while (left := [child for child in children if Path(f"/proc/{child}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [f"process {child} lives on" for child in left]


def _children(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []


def _faults(folder: Path, deed: str, expected: dict[str, list[list[int]]]) -> Iterator[str]:
    """The faults that another process finds after it has done the same once."""
    done = subprocess.run(_command(folder, deed, 1), capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        yield f"the next process failed: {done.stderr[-500:]}"
        return
    for name, rows in json.loads(done.stdout.splitlines()[-1]).items():
        if rows != expected[name]:
            yield f"wrong rows of {name}: {rows[:2]} instead of {expected[name][:2]}"
    for path in _leftovers(folder):
        yield f"left: {path.relative_to(folder)}"
    for path in (folder / "traces").iterdir():
        lines = path.read_bytes().splitlines()
        if any(not _is_json(line) for line in lines[:-1]):
            yield f"the trace {path.name} is damaged"
        path.unlink()


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _leftovers(folder: Path) -> Iterator[Path]:
    yield from (folder / "spill").iterdir()
    yield from (path for path in (folder / "tables").glob("*") if path.name != "u.parquet")
    yield from (path for path in (folder / "out").iterdir() if path.name != "t.parquet")
    yield from (path for path in (folder / "bundles").iterdir() if not (path / "bundle.json").exists())
    kept = folder / "kept"
    yield from kept.glob("*.user")
    named = {json.loads(path.read_bytes()).get("data") for path in kept.glob("*.json")}
    yield from (path for path in kept.glob("*.arrow") if path.name not in named)
    yield from (path for top in ("kept", "cache") for path in (folder / top).rglob("*.tmp"))


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        for outcome in kills(Path(made), int(os.environ.get("SEED", "1")), int(sys.argv[1])):
            print("ok  " if outcome.held else "FELL", outcome.told, flush=True)
