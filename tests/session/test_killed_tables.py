"""A process that is killed while it creates a table in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import qoop

KILLED = """
import os, sys, qoop
from qoop.catalog.sources import created
session = qoop.connect(slots=1, memory="300MB", tables=sys.argv[1])
session.sql("CREATE TABLE kept AS SELECT 1 AS a")
created.publish = lambda *_: os.kill(os.getpid(), 9)
session.sql("CREATE TABLE lost AS SELECT * FROM range(10000)")
"""


@pytest.mark.parametrize("statement", ["SELECT 1", "CREATE TABLE other AS SELECT 2 AS b"])
def test_its_draft_goes_when_the_next_session_begins(tmp_path: Path, statement: str) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert len(os.listdir(tmp_path)) == 2
    with qoop.connect(slots=1, memory="300MB", tables=tmp_path) as session:
        assert os.listdir(tmp_path) == ["kept"]
        session.sql(statement)
        assert session.sql("SELECT * FROM kept").fetchall() == [(1,)]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
