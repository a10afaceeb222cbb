"""The rights of others on the machine to read what a session leaves."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

BUSY = """
import os, sys, time
from pathlib import Path
import pyarrow as pa
import qoop
from qoop.interfaces.repl.interactive import _history
home = Path(sys.argv[1])
os.umask(int(sys.argv[2], 8))
os.environ |= {"QOOP_CACHE_DIR": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config"),
               "QOOP_SPILL": str(home / "spill"), "QOOP_HISTORY": str(home / "state/qoop/history")}
data = pa.table({"a": range(300_000), "b": [number % 7 for number in range(300_000)]})
pa.parquet.write_table(data, home / "mine" / "t.parquet")
for place in (str(home / "deep/er/kept"), (home / "share").as_uri()):
    with qoop.connect(slots=2, memory="60MB", checkpoints=place, trace=home / "t.jsonl",
                      tables=home / "tables", plan_cache=home / "plans") as session:
        session.register("t", home / "mine" / "t.parquet")
        session.sql("CREATE OR REPLACE TABLE u AS SELECT b, max(a) AS a FROM t GROUP BY b")
        session.sql("SELECT t.a, u.a FROM t JOIN u USING (b) ORDER BY 1 DESC")
        text = "SELECT count(*) FROM (SELECT max(a) FROM t GROUP BY b), range(2000000000000) WHERE range % 3 = 1"
        job = session.submit(text)
        time.sleep(0.3)  # so that it most likely runs by then
        job.suspend(home / f"bundle-{place[:4] == 'file'}")
        session.sql(f"COPY (SELECT 1) TO '{home}/out.csv'")
_history()
"""
OURS = {"deep", "share", "t.jsonl", "tables", "plans", "cache", "config", "spill", "state"}


def test_all_that_a_busy_session_leaves_is_its_owner_s_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o755)
    text = "import pyarrow.parquet\n" + BUSY
    done = subprocess.run([sys.executable, "-c", text, str(tmp_path), "000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert OURS.issubset(os.listdir(tmp_path)) and (tmp_path / "deep/er/kept").exists()
    ours = [tmp_path / name for name in os.listdir(tmp_path) if name in OURS or name.startswith("bundle")]
    found = [path for top in ours for path in (top, *top.rglob("*"))]
    assert len(found) > 30
    wrong = {
        str(path): oct(mode)
        for path in found
        if (mode := stat.S_IMODE(path.stat().st_mode)) != (0o700 if path.is_dir() else 0o600)
    }
    assert wrong == {}
    assert stat.S_IMODE(mine.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "out.csv").stat().st_mode) == 0o666


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    from qoop.catalog.stores.private import make_folder

    (tmp_path / "there").mkdir()
    (tmp_path / "there").chmod(0o755)
    make_folder(tmp_path / "there" / "new" / "newer")
    make_folder(tmp_path / "there")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("there", "there/new", "there/new/newer")]
    assert modes == [0o755, 0o700, 0o700]
