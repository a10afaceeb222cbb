"""The modules that a process loads before its first task: a query that was planned before needs no planner."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qoop.catalog.opening import OPENS_ON_IMPORT

LIFE = """
import sys, qoop
with qoop.connect(slots=2, memory="500MB", checkpoints={folder!r}) as session:
    session.register_folder({data!r})
    text = "SELECT k % 7 AS r, sum(v) AS s FROM t, u WHERE k = i GROUP BY 1 ORDER BY 1"
    assert len(session.sql(text).fetchall()) == len(session.run_until_done(text).result) == 7
print(sorted(name for name in sys.modules if name == "sqlglot" or name.startswith("qoop.planner.rules.")))
print(sorted(name for name in ("urllib.request", "ssl") if name in sys.modules))
"""


def test_a_query_planned_before_needs_no_planner_and_asks_no_cloud(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(pa.table({"k": range(5000), "v": range(5000)}), data / "t.parquet")
    pq.write_table(pa.table({"i": range(700)}), data / "u.parquet")
    text = LIFE.format(folder=str(tmp_path / "checkpoints"), data=str(data))

    def loaded() -> str:
        return subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True).stdout.strip()

    first = loaded()
    assert "sqlglot" in first and "qoop.planner.rules." in first
    assert loaded() == "[]\n[]"


COMMAND = """
import sys
from qoop.__main__ import main
code = main([{data!r}, "-c", "SELECT k % 3 AS r, sum(v) AS s, avg(v) AS a FROM t, u WHERE k = i GROUP BY 1 ORDER BY 1"])
print(sum(name.startswith("qoop") for name in sys.modules))
print(code, sorted(name for name in {heavy!r} if name in sys.modules))
"""
MOST_OF_OURS = 230
"""Modules of qoop that a command may load: each takes half a millisecond."""
HEAVY = (
    "IPython", "networkx", "numpy", "pandas", "polars", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet",
    "qoop.interfaces.dbapi", "qoop.engine.backends.ray", "qoop.interfaces.notebook", "qoop.planner.join_order",
    "qoop.planner.planner", "qoop.planner.rules", "qoop.planner.sql.build", "qoop.interfaces.repl.interactive",
    "qoop.adaptive.simulation", "qoop.tpcds", "ray", "rich", "sqlglot",
)  # fmt: skip


def command(tmp_path: Path, staged: bool) -> list[str]:
    """The lines that a command prints: the answer, how many modules of qoop it has loaded, the heavy ones it has."""
    pq.write_table(pa.table({"k": range(5000), "v": range(5000)}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"i": range(700)}), tmp_path / "u.parquet")
    text = COMMAND.format(data=str(tmp_path), heavy=HEAVY)
    environment = {**os.environ, "QOOP_STAGED": "on" if staged else "off"}
    ended = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True, env=environment)
    assert "81783" in ended.stdout, "the answer is printed"
    return ended.stdout.splitlines()


def test_a_short_query_of_the_command_line_loads_what_it_needs(tmp_path: Path) -> None:
    *_, ours, heavy = command(tmp_path, staged=False)
    assert heavy == "0 []"
    assert 100 < int(ours) <= MOST_OF_OURS


START = """
import sys, duckdb
opened, connect = [], duckdb.connect
import threading
before = len(sys.modules)
duckdb.connect = lambda *all, **named: opened.append(threading.current_thread().name) or connect(*all, **named)
{start}
print(len(opened), sum(name.startswith("qoop") for name in sys.modules), len(sys.modules) - before)
print(sorted(name for name in {spared!r} if name in sys.modules))
print(opened, file=sys.stderr)
"""
AS_COMMAND = "from qoop.__main__ import main; sys.argv = ['qoop', '-c', 'SELECT 6 * 7 AS answer']; main()"
IN_PROGRAM = "import qoop\nwith qoop.connect() as session: print(session.sql('SELECT 6 * 7').fetchall())"
SPARED = (*HEAVY[:1], *HEAVY[3:], "difflib")
"""Modules that a first query without tables has no use for; NumPy comes with Arrow, except in a command."""


@pytest.mark.parametrize(
    ("start", "most_databases", "most_modules"),
    [(AS_COMMAND, 2, 292), (IN_PROGRAM, 3, 371)],
    ids=["command", "program"],
)
def test_a_start_opens_few_databases_and_loads_few_modules(start: str, most_databases: int, most_modules: int) -> None:
    """A database takes 9 ms to open, a module of ours 0.3 ms to load. Modules that DuckDB loads by itself do not count:
    these are 148 in 1.5.5, and 188 in 2.0.1."""
    text = START.format(start=start, spared=SPARED)
    usual = {**os.environ, "QOOP_STAGED": "off", "QOOP_GUARD": "meet"}
    ended = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True, env=usual)
    *answer, counts, spared = ended.stdout.splitlines()
    databases, ours, modules = map(int, counts.split())
    assert "42" in "".join(answer)
    assert spared == "[]"
    by = literal_eval(
        ended.stderr.splitlines()[-1]
    )  # the second worker takes the query where the first still opens its own
    most_databases += not OPENS_ON_IMPORT  # to parse the text
    assert databases == len(by) and 0 < databases - by.count("qoop-slot-1") <= most_databases, by
    assert 100 < ours <= MOST_OF_OURS and modules <= most_modules


def test_stages_run_with_arrow_that_was_loaded_without_numpy(tmp_path: Path) -> None:
    assert "numpy" in command(tmp_path, staged=True)[-1], "what needs it loads it"
