"""The documentation as a site: it builds, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_LOADED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make docs` builds it: a page outside the navigation, a link to nothing or an unknown name fails it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return folder


def test_every_page_is_there_and_needs_no_network(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    made = {path.relative_to(site).with_suffix(""): path.read_text() for path in site.rglob("*.html")}
    assert pages <= made.keys()
    assert {str(name): _LOADED.findall(text) for name, text in made.items() if _LOADED.search(text)} == {}


def test_the_reference_is_made_of_docstrings(site: Path) -> None:
    text = (site / "reference" / "session.html").read_text()
    assert "<strong><code>wait_for_capacity</code></strong>: seconds, 600 by default" in text
    assert ":meth:" not in text and "``" not in text


def test_pictures_are_what_their_scripts_draw() -> None:
    """Those that come out the same on each machine; `make picture` makes all."""
    views, growing = (runpy.run_path(str(ROOT / "docs" / f"{name}_picture.py")) for name in ("views", "growing"))
    assert views["drawn"]() + "\n" == (ROOT / "docs/figures/views.svg").read_text()
    assert growing["drawn"](growing["editions"]()) + "\n" == (ROOT / "docs/figures/growing.svg").read_text()
