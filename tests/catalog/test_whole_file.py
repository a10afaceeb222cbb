"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoop.catalog.stores.whole_file import write_whole


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "made" / "file"
    write_whole(path, "first")
    write_whole(path, "sécond")
    assert path.read_text(encoding="utf-8") == "sécond"
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_leaves_what_was_there_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "folder", "text")
    assert path.read_text() == "before"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["file", "folder"]
