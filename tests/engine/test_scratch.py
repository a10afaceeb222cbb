"""Temporary directories: one's own goes when it is closed, those of the dead when somebody comes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from qoop.catalog.errors import DiskFull
from qoop.engine.storage.scratch import Scratch


def die(scratch: Scratch) -> None:
    """Do what the end of a process does, however it comes: its locks are gone, its files are not."""
    os.close(scratch._lock)


def test_it_is_there_until_it_is_closed(tmp_path: Path) -> None:
    one, other = Scratch(tmp_path / "new"), Scratch(tmp_path / "new")
    assert one.path != other.path and one.path.is_dir() and other.path.is_dir()
    (one.path / "deep").mkdir()
    (one.path / "deep" / "file").write_bytes(b"12345")
    assert (one.bytes, other.bytes) == (5, 0)
    one.close()
    assert list((tmp_path / "new").iterdir()) == [other.path]
    other.close()
    assert list((tmp_path / "new").iterdir()) == []


def test_only_those_of_the_dead_are_collected(tmp_path: Path) -> None:
    dead, alive = Scratch(tmp_path), Scratch(tmp_path)
    (dead.path / "spilled.arrow").touch()
    die(dead)
    new = Scratch(tmp_path)
    assert not dead.path.exists() and alive.path.exists() and new.path.exists()


@pytest.mark.parametrize("left", [(), ("file",)])
def test_one_whose_process_was_killed_without_a_lock(tmp_path: Path, left: tuple[str, ...]) -> None:
    dead = tmp_path / "qoop-spill-a1b2_c3d"
    dead.mkdir()
    for name in left:  # no process of ours leaves that
        (dead / name).touch()
    Scratch(tmp_path).close()
    assert dead.exists() == bool(left)


def test_one_that_is_removed_before_it_has_a_lock_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, removed = os.open, []

    def slow(path: object, *rest: int, **more: int | None) -> int:
        if not removed and Path(str(path)).name == "lock":
            removed.append(path)
            Scratch(tmp_path).close()  # another process, before this one has made its lock
        return int(lock(path, *rest, **more))  # type: ignore[call-overload]

    monkeypatch.setattr("qoop.engine.storage.scratch.os.open", slow)
    scratch = Scratch(tmp_path)
    assert scratch.path.is_dir() and not Path(str(removed[0])).parent.exists()
    scratch.close()


def test_what_only_looks_alike_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "qoop-data").mkdir()
    (tmp_path / "qoop-spill-notes").mkdir()  # has no lock
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "lock").touch()
    (tmp_path / "qoop-spill-link").symlink_to(tmp_path / "elsewhere")
    Scratch(tmp_path).close()
    assert {path.name for path in tmp_path.iterdir()} == {
        "qoop-data",
        "qoop-spill-notes",
        "elsewhere",
        "qoop-spill-link",
    }


def test_one_that_is_collected_while_it_is_made_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, taken = os.open, []

    def slow(path: object, *rest: int, **more: int | None) -> int:
        opened = lock(path, *rest, **more)  # type: ignore[call-overload]
        if not taken:
            taken.append(path)
            Scratch(tmp_path).close()  # another process, before this one has its lock
        return int(opened)

    monkeypatch.setattr("qoop.engine.storage.scratch.os.open", slow)
    scratch = Scratch(tmp_path)
    assert scratch.path.is_dir() and not Path(str(taken[0])).exists()
    scratch.close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskFull, match="spill directory"):
        Scratch(tmp_path / "file")


def test_a_disk_without_space_for_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("qoop.engine.storage.scratch.os.open", fails)
    with pytest.raises(DiskFull, match="No space left"):
        Scratch(tmp_path)
    assert list(tmp_path.iterdir()) == []
