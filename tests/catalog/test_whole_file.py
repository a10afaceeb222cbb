"""Files that are written whole or not at all."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from qoop.catalog.stores.whole_file import write_whole


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "made" / "file"
    write_whole(path, "first")
    write_whole(path, "sécond")
    assert path.read_text(encoding="utf-8") == "sécond"
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_leaves_what_was_there_and_nothing_next_to_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "folder", "text")
    assert path.read_text() == "before"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["file", "folder"]


KILLED = """
import os, sys
import fcntl
import subprocess
import sys
from pathlib import Path
from qoop.catalog.stores import whole_file
os.replace = lambda *_: os.kill(os.getpid(), 9)
whole_file.write_whole(Path(sys.argv[1]) / "file", "text")
"""


def test_what_a_killed_process_left_goes_and_what_another_writes_stays(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    [left] = tmp_path.iterdir()
    written = tmp_path / left.name.replace("qoop-", "qoop-0")
    with written.open("x") as another:
        fcntl.flock(another, fcntl.LOCK_EX)
        write_whole(tmp_path / "file", "text")
        assert sorted(item.name for item in tmp_path.iterdir()) == sorted([written.name, "file"])
