"""The commands that README.md shows for the shell do what they seem to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("as_installed")

README = Path(__file__).parents[2] / "README.md"
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_shell_commands_run(benchmark_texts: None, tpcds_test: Path, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(tpcds_test)  # made already, so `generate` has nothing to do
    lines = [line for block in _SHELL.findall(README.read_text()) for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("qoop ")]
    assert len(commands) >= 4
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e"],
        input="\n".join(commands),
        cwd=tmp_path,
        env=os.environ | {"PATH": programs},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "│ Music" in done.stdout
    assert "scan store_sales" in done.stdout
