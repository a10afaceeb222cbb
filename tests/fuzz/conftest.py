"""The tables both engines have; the helper modules next to the tests made importable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The fuzz_world.World that all tests of the folder share."""
    from fuzz_world import World

    found = World(tmp_path_factory.mktemp("fuzz"))
    yield found
    found.close()
