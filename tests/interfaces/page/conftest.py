"""One browser for all tests of this folder; it and the made-up page are modules here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chromium import Chromium

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    from chromium import Chromium

    made = Chromium(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()
