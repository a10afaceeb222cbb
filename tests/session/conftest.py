"""Fixtures of the tests of sessions."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount a small file system of its own; the test is skipped where that is not allowed."""
    mounted: list[Path] = []

    def new(options: str) -> Path:
        folder = tmp_path / f"mount{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("needs the privilege to mount a file system")
        mounted.append(folder)
        return folder

    yield new
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)
