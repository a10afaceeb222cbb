"""Pictures are written in the form that the file's name asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoop.catalog.errors import ConfigError
from qoop.planner.plan import Plan, Stage
from qoop.query.drawing.drawing import draw_plan
from qoop.query.drawing.picture import page, save

DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 10"><rect width="20" height="10" fill="#c00"/></svg>'


def test_the_ending_decides_the_form(tmp_path: Path) -> None:
    assert save(DRAWING, tmp_path / "a.svg").read_text() == DRAWING
    page = save(DRAWING, tmp_path / "a.html", "a <title>").read_text()
    assert DRAWING in page and "a &lt;title&gt;" in page and "http" not in page.replace("http://www.w3.org", "")


def test_png_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    data = save(DRAWING, tmp_path / "a.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20]) == 40  # twice the drawing's width


def test_other_endings_and_bad_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not as 'a\.gif'"):
        save(DRAWING, tmp_path / "a.gif")
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        save(DRAWING, tmp_path / "none" / "a.svg")


def test_png_without_its_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    with pytest.raises(ConfigError, match=r"qoop\[plot\]"):
        save(DRAWING, tmp_path / "a.png")


def test_a_page_shows_a_narrow_picture_at_its_own_width() -> None:
    plan = Plan((Stage("a", "", (), (("x", "INTEGER"),), 1, "s1"),), (("x", "INTEGER"),))
    picture = draw_plan(plan).svg()
    assert float(picture.split('width="')[1].split('"')[0]) < 1200  # of the page
    assert "svg{max-width:100%;height:auto}" in page("a plan", picture)
