"""Every statement of the tools' sessions is answered, or refused with a sentence that says that the server reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bi_sessions import SESSIONS, outcomes
from shop import Shop, open_shop


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop() as found:
        yield found


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.stem)
def test_a_session_of_a_tool(shop: Shop, session: Path) -> None:
    found = list(outcomes(shop.url, session))
    assert [(one.statement.text, one.wrong) for one in found if one.wrong] == []
    assert len(found) > 5 and any(one.statement.rows for one in found)
