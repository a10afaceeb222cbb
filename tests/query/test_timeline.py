"""A history becomes bars, lines and marks; the picture holds all of them and the trace opens elsewhere."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from qoop.catalog.errors import ExecutionError
from qoop.engine.events import Committed
from qoop.engine.history import (
    CapacityReported,
    Decided,
    Failed,
    Record,
    ShareReported,
    Started,
    Stopped,
    Succeeded,
    Switched,
)
from qoop.engine.task import AttemptId, CheckpointKey, TaskId
from qoop.planner.plan import Plan, Resources, Stage
from qoop.query.drawing.timeline import Timeline, chrome_trace, draw, html, timeline

SVG = "{http://www.w3.org/2000/svg}"


def attempt(stage: str, part: int, number: int) -> tuple[AttemptId, CheckpointKey]:
    return AttemptId(TaskId("job1", stage, part), number), CheckpointKey(f"meaning of {stage}", "layout", part)


def started(at: float, which: tuple[AttemptId, CheckpointKey], slots: float = 1) -> Record:
    return Started(at, *which, "m1", Resources(slots, 100))


def succeeded(at: float, which: tuple[AttemptId, CheckpointKey], used: bool = True) -> Record:
    return Succeeded(at, which[0], Committed(which[1], (7,), (70,), 1.0), used)


def plan(*ids: str) -> Plan:
    stages = tuple(Stage(id, "SELECT 1", (), (), 1, f"meaning of {id}", label=f"<{id}> & {{x}}") for id in ids)
    return Plan(stages, ())


A, B, C, D, E = (
    attempt(stage, part, n)
    for n, (stage, part) in enumerate([("s1", 0), ("s1", 1), ("s2", 0), ("s9", 0), ("s9", 1)], 1)
)
HISTORY: list[Record] = [
    CapacityReported(0.0, "m1", Resources(2, 100)),
    Switched(0.0, 1, 3, 0, (), ()),
    ShareReported(0.0, Resources(2, 100)),
    started(0.0, A),
    started(0.0, B),
    succeeded(1.0, A),
    started(1.0, C),
    CapacityReported(2.0, "m1", Resources(1, 50)),
    ShareReported(2.0, Resources(1, 50)),
    Failed(2.0, *B, ExecutionError("gone"), True),
    Decided(2.2, "it was asked", None, None, "A", "A", "no other plan would end sooner", (), (), 0.0, 0.001),
    Decided(2.5, "the share fell", None, None, "A", "C", "", (), ("s1",), 1.6, 0.001),
    Switched(2.5, 2, 2, 1, (), (C[0],)),
    Stopped(2.6, *C),
    started(2.6, D),
    succeeded(3.0, D, used=False),
    started(3.0, E),
]


def example() -> Timeline:
    return timeline(HISTORY, [plan("s1", "s2"), plan("s1", "s9")])


def test_attempts_are_bars_on_the_lowest_free_slots() -> None:
    found = [(bar.attempt.task.stage, bar.first_slot, bar.begun, bar.ended, bar.outcome) for bar in example().bars]
    assert found == [
        ("s1", 0, 0.0, 1.0, "done"),
        ("s1", 1, 0.0, 2.0, "failed"),
        ("s2", 0, 1.0, 2.6, "stopped"),
        ("s9", 0, 2.6, 3.0, "unused"),
        ("s9", 0, 3.0, 3.0, "running"),
    ]
    assert [bar.plan for bar in example().bars] == [0, 0, 0, 1, 1]


def test_shares_capacity_and_switches_are_reported() -> None:
    found = example()
    assert found.share == ((0.0, 2), (2.0, 1))
    assert found.capacity == ((0.0, 2), (2.0, 1))
    assert [(mark.at, mark.plan, mark.switched) for mark in found.marks] == [(2.2, "A", False), (2.5, "C", True)]
    assert found.names == ("A", "C")
    assert found.lanes == 2


def test_slots_of_machines_add_up_and_lost_ones_go() -> None:
    available = Resources(4, 1)
    history = [
        CapacityReported(0.0, "a", available),
        CapacityReported(0.0, "b", available),
        CapacityReported(1.0, "a", None),
    ]
    assert timeline(history).capacity == ((0.0, 8), (1.0, 4))


def test_the_drawing_holds_every_bar_line_and_mark() -> None:
    root = ElementTree.fromstring(draw(example(), "a < b"))
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert len([title for title in titles if title.startswith("plan ")]) == 5
    assert any("gone" in title for title in titles)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "a < b" in texts and "plan C" in texts
    assert "A s1, C s1" in texts and "<s1> & {x}" in texts  # one line a meaning, named in both plans
    assert len(list(root.iter(f"{SVG}polyline"))) == 1


def test_a_job_that_has_not_begun_can_be_drawn() -> None:
    ElementTree.fromstring(draw(timeline([]), "nothing yet"))


def test_many_slots_still_fit() -> None:
    starts = [started(0.0, attempt("s1", part, part + 1)) for part in range(600)]
    root = ElementTree.fromstring(draw(timeline([*starts, ShareReported(9.0, Resources(600))]), "600 slots"))
    assert float(root.attrib["viewBox"].split()[3]) < 1400


def test_the_page_tells_the_history_in_words() -> None:
    page = html(example(), "job1")
    assert "<svg" in page and "switched, keeping s1" in page and "src=" not in page


def test_the_trace_has_what_its_readers_expect() -> None:
    events = json.loads(chrome_trace(example()))["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert [(bar["ts"], bar["dur"], bar["tid"]) for bar in bars][1] == (0.0, 2e6, 2)
    assert {event["ph"] for event in events} == {"M", "X", "C", "i"}
    assert all({"name", "pid"} <= event.keys() for event in events)
