"""The page in a browser: what a reader sees, presses and hears. Chromium draws it; the session is made up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import deepcopy

import chromium
import fake_page as fake
import pytest
from chromium import Chromium, Tab
from fake_page import FakePage, View

pytestmark = pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium: `apt install chromium`")


@pytest.fixture
def page() -> Iterator[FakePage]:
    overview, job = fake.busy()
    made = FakePage(overview, {"j2": job})
    yield made
    made.close()


LIVE = "document.querySelector('#connection').dataset.status === 'live'"


def quiet(tab: Tab, page: FakePage) -> None:
    """Nothing failed in the page, no policy was broken, and no request left the host."""
    assert tab.errors == []
    assert tab.requests
    assert all(address.startswith(page.address) for address in tab.requests), tab.requests


def test_a_query_is_chosen_by_keys_and_watched(browser: Chromium, page: FakePage) -> None:
    with browser.open(page.address) as tab:
        tab.wait(LIVE)
        assert tab.run("[...document.querySelectorAll('.jobs h2')].map((e) => e.innerText)") == [
            "Running (1)",
            "Waiting (1)",
            "Done (2)",
        ]
        tab.run("document.querySelector('.job').focus()")
        tab.key("ArrowDown")
        tab.key("ArrowUp")
        tab.key("Enter")
        tab.wait("qoopPage.job.timeline.frames > 0")
        assert tab.run("document.querySelector('.job').getAttribute('aria-selected')") == "true"
        assert "42 %" in tab.text(".head") and "ends in 6.0 s (4.0 s to 9.0 s)" in tab.text(".head")
        assert tab.run("document.querySelector('.head [role=progressbar]').getAttribute('aria-valuenow')") == "42"
        assert tab.run("document.querySelectorAll('.dag .stage.carried').length") == 2
        later = page.jobs["j2"] | {
            "fraction": 0.7,
            "since": 5,
            "tasks": [fake.task("b5", "s4", 5, 16.0, None, plan="B")],
        }
        page.jobs["j2"] = later
        page.tell()
        tab.wait("document.querySelector('.head .percent').innerText === '70 %'")
        assert tab.run("qoopPage.view.tasks.length") == 17  # what was told before is kept
        tab.key("Escape")
        tab.wait("document.querySelector('.session') && !document.querySelector('.query')")
        assert tab.run("document.activeElement.dataset.key") == "j2"
        assert "2 of 2 slots" in tab.text(".machines") and "nightly" in tab.text(".session")
        quiet(tab, page)


def test_a_switch_comes_to_the_screen_and_two_clicks_open_it(browser: Chromium, page: FakePage) -> None:
    after = deepcopy(page.jobs["j2"])
    before = after | {
        "plan": "A",
        "running": "A",
        "switches": 0,
        "decisions": after["decisions"][:1],
        "stages": [stage for stage in after["stages"] if stage["plan"] == "A"],
    }
    page.jobs["j2"] = before
    with browser.open(page.address) as tab:
        tab.wait(LIVE)
        tab.click(".job")
        tab.wait("document.querySelectorAll('.marks .mark').length === 1")
        assert tab.run("document.querySelectorAll('.dag .stage').length") == 4
        page.jobs["j2"] = after
        page.tell()
        tab.wait("document.querySelectorAll('.marks .mark').length === 2")
        assert tab.run("document.querySelectorAll('.dag .stage').length") == 5
        assert tab.text("#said") == "Query j2 changed to plan B"
        tab.click(".marks .mark.switched")
        shown = tab.wait("document.querySelector('dialog[open]')?.innerText")
        assert "From plan A to plan B" in shown and after["decisions"][1]["words"] in shown
        assert "2 stages: s0, s1" in shown and "8.3 s" in shown
        tab.key("ArrowLeft")
        tab.wait("document.querySelector('dialog[open]').innerText.includes('Stays with plan A')")
        tab.key("Escape")
        tab.wait("!document.querySelector('dialog')")
        assert tab.run("location.hash") == "#job=j2"  # Escape closes the card alone
        quiet(tab, page)


def test_a_click_is_not_lost_where_the_page_is_drawn_again_meanwhile(browser: Chromium, page: FakePage) -> None:
    """Between press and release there is a new decision, which shares the mark, and every stage has more rows."""
    job = page.jobs["j2"]
    [*_, last] = job["decisions"]
    later = job | {
        "decisions": [*job["decisions"], last | {"at": last["at"] + 0.01}],
        "stages": [stage | {"rows": 7, "done": 0} for stage in job["stages"]],
    }
    with browser.open(f"{page.address}#job=j2") as tab:
        tab.wait(f"{LIVE} && document.querySelectorAll('.marks .mark').length === 2")
        drawn = "qoopPage.job.timeline.frames"
        for thing in (".marks .mark.switched", ".dag .stage", ".decisions button", ".query td button"):
            place = tab.press(thing)
            page.jobs["j2"] = job if page.jobs["j2"] is later else later
            told = len(page.jobs["j2"]["decisions"])
            page.tell()
            tab.wait(f"qoopPage.view.decisions.length === {told}")
            before = tab.run(f"new Promise((done) => setTimeout(() => done({drawn}), 150))")
            tab.release(place)
            tab.wait("!!document.querySelector('dialog[open]')")
            tab.wait(f"{drawn} > {before}")  # what waited is drawn
            assert tab.run("document.querySelectorAll('.decisions > li').length") == told
            tab.key("Escape")
            tab.wait("!document.querySelector('dialog')")
        quiet(tab, page)


def test_a_sweep_has_lines_curves_and_slots(browser: Chromium, page: FakePage) -> None:
    trial = {"state": "COMPLETE", "kind": "promising", "steps": 2, "seconds": 1.5, "chance": 0.5, "why": ""}
    curves = [[1, 0.5], [2, 0.9]], [[1, 0.4], [2, None]], []
    trials = [
        {**trial, "number": n, "value": 0.9 - n, "params": f"k=<b>{n}", "curve": curve}
        for n, curve in enumerate(curves)
    ]
    split = {
        "from": 0,
        "to": 2,
        "kinds": ["promising", "opportunistic", "poor", ""],
        "parts": [[1, 0, 0, 1], [2, 0, 0, 0]],
    }
    facts = {"name": "rates", "summary": "rates: 40 trials", "over": True, "total": 40, "best": 0}
    page.overview = page.overview | {"sweeps": [{**facts, "trials": trials, "split": split}]}
    with browser.open(page.address) as tab:
        tab.wait("document.querySelectorAll('.sweep tbody tr').length === 3")
        assert tab.run("document.querySelectorAll('.sweep polyline').length") == 1, "a curve has two points"
        assert tab.run("document.querySelectorAll('.sweep rect').length") == 3
        shown = tab.text(".sweep")
        assert "k=<b>1" in shown and "37 more trials" in shown and "not predicted yet" in shown
        quiet(tab, page)


def test_marks_stand_still_while_the_query_runs(browser: Chromium, page: FakePage) -> None:
    with browser.open(f"{page.address}#job=j2") as tab:
        tab.wait(f"{LIVE} && document.querySelectorAll('.marks .mark').length === 2")
        places = "[...document.querySelectorAll('.marks .mark')].map((mark) => mark.getBoundingClientRect().x)"
        before, frames = tab.run(places), tab.run("qoopPage.job.timeline.frames")
        tab.run("qoopPage.heardAt -= 1500")  # as if a second and a half had gone by
        tab.wait(f"qoopPage.job.timeline.frames > {frames} + 1")
        assert tab.run(places) == before


def test_every_decision_is_two_clicks_from_the_picture(browser: Chromium, page: FakePage) -> None:
    """Some hundredths of a second lie between decisions, so that many share a mark."""
    times = [2.0, 2.01, 2.02, 2.03, 9.0, 14.0, 14.01]
    told = [fake.decision(at, switched=n in (2, 5)) | {"words": f"decision number {n}"} for n, at in enumerate(times)]
    page.jobs["j2"] |= {"decisions": told}
    opened = "document.querySelector('dialog[open] .words')?.innerText"
    reached = set()
    with browser.open(f"{page.address}#job=j2") as tab:
        tab.wait(f"{LIVE} && document.querySelectorAll('.marks .mark').length === 3")
        for mark in (1, 2, 3):
            links = 1
            for link in range(4):
                tab.click(f".marks .mark:nth-child({mark})")
                shown = tab.wait(opened)
                links = tab.run("document.querySelectorAll('dialog .neighbours button').length")
                if link < links and not tab.run(
                    f"document.querySelectorAll('dialog .neighbours button')[{link}].disabled"
                ):
                    tab.click(f"dialog .neighbours li:nth-child({link + 1}) button")
                    shown = tab.wait(f"{opened} !== {shown!r} && {opened}")
                reached.add(shown)
                tab.key("Escape")
                tab.wait("!document.querySelector('dialog')")
        assert reached == {one["words"] for one in told}
        tab.click(".marks .mark.switched")
        assert tab.wait(opened) == "decision number 2"  # a mark with a switch opens that
        quiet(tab, page)


def test_cancel_asks_first_and_resize_tells_a_refusal(browser: Chromium, page: FakePage) -> None:
    with browser.open(f"{page.address}#job=j2") as tab:
        tab.wait(LIVE)
        tab.click(".head .danger")
        assert "42 % done" in tab.wait("document.querySelector('dialog[open]')?.innerText")
        assert page.orders == []
        tab.click("dialog .danger")
        tab.wait("!document.querySelector('dialog')")
        assert page.orders == [("jobs/j2/cancel", {})]
        page.refuses = "at most 8 slots"
        tab.click("#resize")
        tab.wait("!!document.querySelector('dialog[open] input')")
        tab.run("document.querySelector('dialog input').select()")
        tab.key("1")
        assert "tasks that no longer fit stop" in tab.text("dialog .warning")
        tab.key("Enter")
        tab.wait("document.querySelector('dialog .error').innerText === 'at most 8 slots'")
        assert page.orders[1:] == [("resize", {"slots": 1})]


def test_without_leave_there_are_no_buttons(browser: Chromium, page: FakePage) -> None:
    page.overview["can"] = {"cancel": False, "suspend": False, "resize": False}
    with browser.open(f"{page.address}#job=j2") as tab:
        tab.wait("!!document.querySelector('.decisions li')")
        hidden = "[...document.querySelectorAll('#resize, .head .line button')].map((one) => one.offsetWidth)"
        assert tab.run(hidden) == [0, 0, 0]


def test_html_from_the_server_is_shown_as_text(browser: Chromium, page: FakePage) -> None:
    bad = "<img src=x onerror=alert(1)><b>b</b>"
    view = page.jobs["j2"]
    view |= {"text": bad, "sql": bad, "tenant": bad, "error": bad}
    view["stages"][-1]["label"] = view["decisions"][0]["words"] = view["events"][0]["words"] = bad
    view["plans"][0]["what"] = page.overview["name"] = page.overview["machines"][0]["id"] = bad
    page.overview["jobs"][0] |= {"text": bad}
    page.overview["tenants"][0]["name"] = bad
    with browser.open(page.address) as tab:
        tab.wait(LIVE)
        assert bad in tab.text(".machines") and bad in tab.text(".top") and bad in tab.text(".job")
        tab.run("location.hash = '#job=j2'")
        tab.wait("!!document.querySelector('.decisions li')")
        assert all(bad in tab.text(part) for part in (".head", ".decisions", ".events", ".query"))
        assert tab.run("document.images.length + document.querySelectorAll('main b').length") == 0
        quiet(tab, page)


def test_the_lag_of_a_view_rises_to_its_refreshes(browser: Chromium, page: FakePage) -> None:
    bad = "<b>late</b>"
    page.overview["views"] = [
        {"name": bad, "goal": 5, "incremental": True, "error": "", "refreshes": [[6, 4], [12, 6]], "since": 14.0,
         "sampling_error": 0.0312},
        {"name": "by_hand", "goal": None, "incremental": False, "error": "no file", "refreshes": [], "since": None,
         "sampling_error": 0.0},
    ]  # fmt: skip
    with browser.open(page.address) as tab:
        tab.wait(LIVE)
        text = "[...document.querySelectorAll('.session figcaption')].map((one) => one.textContent).slice(-2)"
        captions = tab.run(text)
        assert captions[0].startswith(f"{bad}: 6.0 s behind, 6.0 s at most, goal 5.0 s, estimated within 3.1 %")
        assert captions[1] == "by_hand: up to date, no goal, computed from all rows. no file"
        drawn = tab.run("[...document.querySelectorAll('.session .step')].at(-2).getAttribute('d')")
        assert drawn.count("L") == 3 and "NaN" not in drawn
        assert not drawn.rpartition("L")[2].count("V"), "a view that is behind now has not fallen"
        assert tab.run("document.querySelectorAll('.session .goal').length") == 1
        quiet(tab, page)


def test_an_end_and_a_lost_connection_are_told(browser: Chromium, page: FakePage) -> None:
    with browser.open(page.address) as tab:
        tab.wait(LIVE)
        page.close()
        tab.wait("document.querySelector('#connection').innerText.startsWith('The connection was lost')")
        tab.wait("document.querySelector('#connection').innerText.startsWith('The session does not answer')")
        assert tab.run("document.querySelector('#resize').disabled")
        tab.run("qoopPage.stream.finish()")
        assert tab.text("#connection").startswith("The session has ended")


def test_a_trace_replays_under_a_slider(browser: Chromium, page: FakePage) -> None:
    page.overview |= {"span": [0, 3600], "now": 3600.0, "can": {"cancel": False, "suspend": False, "resize": False}}
    with browser.open(f"{page.address}#job=j2") as tab:
        tab.wait("!!document.querySelector('.decisions li')")
        tab.run("document.querySelector('#replay input').focus()")
        tab.key("ArrowLeft")
        tab.wait("document.querySelector('#replay output').innerText === '59:24 of 1:00:00'")
        asked = len(tab.requests)
        tab.click("#replay button")
        tab.wait("qoopPage.replay.at > 3570")
        tab.click("#replay button")
        assert "Play" in tab.text("#replay button")
        assert any("jobs/j2?at=35" in address for address in tab.requests[asked:])
        assert not any("events" in address for address in tab.requests)
        quiet(tab, page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_narrow_screen(browser: Chromium, page: FakePage, scheme: str) -> None:
    with browser.open(f"{page.address}#job=j2", width=400, scheme=scheme) as tab:
        tab.wait(f"{LIVE} && qoopPage.job.timeline.frames > 0")
        assert tab.run("document.documentElement.scrollWidth") == 400
        ground = tab.run("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(245, 246, 248)", "dark": "rgb(20, 23, 28)"}[scheme]
        tab.click(".back")
        tab.wait("!!document.querySelector('.session')")
        assert tab.run("document.documentElement.scrollWidth") == 400


def crowd() -> tuple[View, View]:
    """50 queries that run, and one with 1,000 tasks in 30 stages."""
    stages = [fake.stage(f"s{n}", (f"s{n - 1}",) if n % 5 else ()) for n in range(30)]
    tasks = [
        fake.task(f"a{n}", f"s{n // 34}", n, 1.2 + n // 16 * 0.3, 1.48 + n // 16 * 0.3, machine=f"m{n % 4}")
        for n in range(1000)
    ]
    decisions = [fake.decision(2.0 + n * 0.6, switched=n % 5 == 0) for n in range(25)]
    one = fake.busy()[1] | {"id": "q0", "stages": stages, "tasks": tasks, "decisions": decisions, "running": "A"}
    return fake.overview([one] + [fake.job(f"q{n}") for n in range(1, 50)]), one


FRAMES = """new Promise((done) => {
  const times = [];
  const step = (at) => { times.push(at); times.at(-1) - times[0] < 4000 ? requestAnimationFrame(step) : done(times); };
  requestAnimationFrame(step);
}).then((times) => times.slice(1).map((at, n) => at - times[n]).sort((a, b) => a - b))"""

EVENT = """(async () => {
  const [overview, job] = await Promise.all(["overview", "jobs/q0"].map(async (path) => (await fetch(path)).json()));
  globalThis.event = () => { qoopPage.heard(overview); qoopPage.heardJob(job); };
})()"""
DRAWN = "(event(), new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))"


@pytest.mark.slow
def test_fifty_queries_and_a_thousand_tasks_stay_fluid(browser: Chromium) -> None:
    """The main thread's processor time for an event and the frames after it is bounded, which other programs on the
    machine hardly lengthen; how far apart frames came is printed.
    """
    overview, one = crowd()
    page = FakePage(overview, {"q0": one})
    try:
        with browser.open(f"{page.address}#job=q0") as tab:
            tab.wait(f"{LIVE} && qoopPage.job.timeline.frames > 0")
            tab.call("Performance.enable", timeDomain="threadTicks")
            costs = [cost_of_event(tab, page, n) for n in range(10)]
            tab.run(f"globalThis.gaps = {FRAMES}; 0")
            for n in range(10, 24):
                advance(page, n)
                page.tell()
                time.sleep(0.25)
            gaps = tab.run("gaps")
            assert tab.run("qoopPage.view.tasks.length") == 1000 + 24
        print(f"{len(gaps)} frames: median {gaps[len(gaps) // 2]:.1f} ms apart, at most {gaps[-1]:.1f} ms")
        print("milliseconds of the main thread for each event:", *(f"{1000 * cost:.0f}" for cost in costs))
        assert max(costs) <= 0.06
    finally:
        page.close()


def cost_of_event(tab: Tab, page: FakePage, n: int) -> float:
    """Seconds of the main thread until what came is drawn."""
    advance(page, n)
    tab.run(EVENT)
    before = busy_seconds(tab)
    tab.run(DRAWN)
    return busy_seconds(tab) - before


def advance(page: FakePage, n: int) -> None:
    """As between two events: every query is a little further, there is a new task, and stages have more rows."""
    one = page.jobs["q0"]
    stages = [stage | {"rows": 1000 * n + k} for k, stage in enumerate(one["stages"])]
    task = fake.task(f"b{n}", "s29", n, 20.0, None)
    page.jobs["q0"] = one | {"fraction": n / 24, "since": n, "stages": stages, "tasks": [task]}
    jobs = [job | {"fraction": n / 24} for job in page.overview["jobs"]]
    page.overview = page.overview | {"now": 20 + n / 4, "jobs": jobs}


def busy_seconds(tab: Tab) -> float:
    metrics = {one["name"]: one["value"] for one in tab.call("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])
