"""A real query in a browser: it is watched, goes over to another plan on screen, is resized and cancelled there."""

from __future__ import annotations

import chromium
import pyarrow as pa
import pytest
from chromium import Chromium, Tab

import qoop
from qoop.planner.planner import Planning

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("uvicorn", reason="the extra server is not installed")
pytestmark = pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium: `apt install chromium`")

LONG = """
SELECT u.b % 7 AS k, count(*) AS n, sum(hash(t.a + u.a) % 5) AS s
FROM t JOIN t AS u ON t.b = u.b WHERE u.a < 200000 GROUP BY k ORDER BY k
"""  # billions of pairs: it runs until it is cancelled


@pytest.fixture
def believed_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """By statistics DuckDB's own plan, with which a query begins, takes so long that another is better."""
    monkeypatch.setattr("qoop.query.planning.SHORT_SECONDS", 0.0)
    monkeypatch.setattr("qoop.query.planning.SEARCH_AFTER", 0.0)
    monkeypatch.setattr(Planning, "duckdb_seconds", lambda *_: 1000.0)


def resize(tab: Tab, slots: int) -> None:
    tab.click("#resize")
    tab.wait("!!document.querySelector('dialog[open] input')")
    tab.run("document.querySelector('dialog input').select()")
    tab.key(str(slots))
    tab.key("Enter")
    tab.wait("!document.querySelector('dialog')")


@pytest.mark.slow  # on a busy machine the switch does not always come about in time
def test_a_query_is_watched_switches_is_resized_and_cancelled(believed_long: None, browser: Chromium) -> None:
    with qoop.connect(slots=2, memory="1GB", staged=False) as session:
        session.register("t", pa.table({"a": range(200_000), "b": [n % 10 for n in range(200_000)]}))
        page = session.page()
        with browser.open(page.url) as tab:
            tab.wait("document.querySelector('#connection').dataset.status === 'live'")
            job = session.submit(LONG)
            tab.click(".job")
            tab.click(".marks .mark.switched")
            assert "From plan A to plan B" in tab.wait("document.querySelector('dialog[open]')?.innerText")
            tab.key("Escape")
            tab.wait("document.querySelectorAll('.dag .stage').length > 1")
            tab.wait("document.querySelector('.badge').dataset.state === 'RUNNING'")  # it may still be changing plan
            assert "plan B" in tab.text(".head")
            resize(tab, 1)
            tab.wait("qoopPage.overview.machines[0].slots === 1")
            tab.wait("qoopPage.view.share_slots === 1")
            tab.click(".head .danger")
            tab.click("dialog .danger")
            tab.wait("document.querySelector('.badge').dataset.state === 'CANCELLED'")
            with pytest.raises(qoop.Cancelled):
                job.result(60)
            assert tab.errors == []
            assert all(address.startswith(page.url) for address in tab.requests), tab.requests
            page.close()
            tab.wait("document.querySelector('#connection').dataset.status === 'ended'")
