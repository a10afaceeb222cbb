"""A job over time: tasks as bars on slots, the share as a line, plan switches as marks.

    Job.history() ──timeline──> Timeline ──draw──> SVG      (`qoop.query.drawing.picture.save` makes PNG and HTML of it)
                                         ──chrome_trace──> JSON for chrome://tracing and Perfetto

Everything here is made of the history's records, so a job can be drawn while it runs, and after a resume.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from html import escape
from itertools import pairwise
from pathlib import Path

from qoop.catalog.errors import Revoked
from qoop.catalog.value import value
from qoop.engine.history import Decided, Failed, Record, Started, Succeeded, Switched
from qoop.engine.replay import AttemptReplay, Interval, JobReplay
from qoop.engine.task import AttemptId, MachineId, spent
from qoop.planner.plan import Plan, Signature, Stage
from qoop.query.drawing.axis import round_step
from qoop.query.drawing.picture import FONT, page, save, write

_WIDTH, _LEFT, _RIGHT, _TOP, _LINE = 960, 72, 24, 88, 19
_LANES_HEIGHT, _LANE = 360, 30
_COLOURS = (
    "#3b6fb6",
    "#e08a2c",
    "#4f9d57",
    "#c2504f",
    "#8466b0",
    "#8a6552",
    "#d279b1",
    "#7c7c7c",
    "#b0a52c",
    "#35a5b5",
)
_ENDS = {
    "queued": "#f6f6f6",
    "unused": "#b9b9b9",
    "failed": "#f3c3c0",
    "interrupted": "#ecd9b0",
    "stopped": "#e6e0cf",
    "running": "#dfe7f3",
}
_LABEL_LENGTH, _LEGEND = 84, 24


@value
class Bar:
    """One attempt. plan: which of the plans it was started for, by its place in `Timeline.plans`.

    outcome: "done"; "unused": its output was not needed any more; "failed"; "interrupted": its slot or
        its memory was taken away; "stopped"; or "running", still. "queued": a separate bar until it began.
    first_slot: the lowest of the slots it is drawn on, counted over all machines.
    """

    attempt: AttemptId
    plan: int
    signature: Signature
    machine: MachineId
    begun: float
    ended: float
    first_slot: int
    slots: int
    outcome: str
    note: str = ""


@value
class Mark:
    """The time of a decision about the plan: to switch, or to stay. text: its sentence in the history."""

    at: float
    plan: str
    text: str
    switched: bool


@value
class Timeline:
    """A job as it can be drawn. Times are seconds since the job began.

    share, capacity: (from when, slots): the job's fair share, and the slots of all machines. marks: decisions about
    the plan. plans: those it ran, in order, and their names: the one it started with is A.
    """

    bars: tuple[Bar, ...]
    share: tuple[tuple[float, float], ...]
    capacity: tuple[tuple[float, float], ...]
    marks: tuple[Mark, ...]
    end: float
    plans: tuple[Plan, ...] = ()
    names: tuple[str, ...] = ()
    records: tuple[Record, ...] = field(default=(), repr=False)

    @property
    def lanes(self) -> int:
        """The number of slots in the picture: all that were ever used, or there at any time."""
        used = max((bar.first_slot + bar.slots for bar in self.bars), default=1)
        return max(used, int(max((slots for _, slots in self.capacity), default=0.0)))


def save_timeline(what: Timeline, path: str | os.PathLike[str], title: str) -> Path:
    """Write it in the format of the file's ending: ``.html``, ``.json`` (see `chrome_trace`), or a picture (see
    `save`).

    Raises ConfigError for another ending, or if the file cannot be written.
    """
    kind = Path(path).suffix.lower()
    if kind not in (".html", ".htm", ".json"):
        return save(draw(what, title), path)
    return write(html(what, title) if kind != ".json" else chrome_trace(what), path)


def timeline(history: Sequence[Record], plans: Sequence[Plan] = ()) -> Timeline:
    """Read a job's history. plans: those it ran, in order; they name the stages."""
    replay = JobReplay.of(history)
    share = _steps((at, share.cpu) for at, share in replay.shares)
    capacity = _steps((at, capacity.cpu) for at, capacity in replay.capacity)
    marks = tuple(_decisions(history))
    names = ("A", *(mark.plan for mark in marks if mark.switched))
    return Timeline(tuple(_bars(replay)), share, capacity, marks, replay.last_at, tuple(plans), names, tuple(history))


def _decisions(history: Sequence[Record]) -> Iterator[Mark]:
    """The decisions; a switch without recorded reasons is a mark, too."""
    decided: Decided | None = None
    for record in history:
        if isinstance(record, Decided):
            decided = record
            if not record.switched:
                yield Mark(record.at, record.chosen, str(record), switched=False)
        elif isinstance(record, Switched) and record.number > 1:
            reasons = decided is not None and decided.switched
            name, text = (decided.chosen, str(decided)) if decided is not None and reasons else ("", str(record))
            yield Mark(record.at, name or f"no. {record.number}", text, switched=True)
            decided = None


def _steps(values: Iterator[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """One value for each timestamp, the last reported; only where it changes."""
    last = dict(values)
    found: list[tuple[float, float]] = []
    for at, one in last.items():
        if not found or found[-1][1] != one:
            found.append((at, one))
    return tuple(found)


def _bars(replay: JobReplay) -> Iterator[Bar]:
    """Give every attempt the lowest slots that were free when it started, and again when it began after it had waited
    for that, or went on with others."""
    busy_until: list[float] = []
    intervals = ((interval, one) for one in replay.attempts.values() for interval in one.intervals)
    for interval, one in sorted(intervals, key=lambda pair: pair[0].begin):
        ended = interval.end if interval.end is not None else replay.last_at
        slots = max(1, round(interval.resources.cpu))
        first = _free(busy_until, interval.begin, slots)
        busy_until[first : first + slots] = [ended] * slots
        outcome, note = _outcome(interval, one)
        yield Bar(
            one.attempt, one.plan, one.key.signature, one.machine, interval.begin, ended, first, slots, outcome, note
        )


def _outcome(interval: Interval, one: AttemptReplay) -> tuple[str, str]:
    """The outcome of an attempt in an interval, and a note on it: an interval that another follows is done."""
    is_last = interval is one.intervals[-1]
    if interval.queued and not (is_last and one.end is not None):
        return "queued", ""
    if not is_last:
        return "done", ""
    match one.end:
        case Succeeded(account=account, committed=made, used=used):
            parts = f"; {spent(account)}" if account is not None else ""
            return "done" if used else "unused", f"{sum(made.rows):,} rows{parts}"
        case Failed(error=error):
            return "interrupted" if isinstance(error, Revoked) else "failed", str(error)
        case None:
            return "running", ""
    return "stopped", ""


def _free(busy_until: list[float], at: float, slots: int) -> int:
    """The lowest slot from which that many are free; grows the list if none are."""
    first = 0
    while any(end > at for end in busy_until[first : first + slots]):
        first += 1
    busy_until.extend([0.0] * (first + slots - len(busy_until)))
    return first


# ---- as a drawing


@value
class _Scale:
    """The places of seconds and slots on the drawing. Slot 1 is at the bottom, so that a line can count slots."""

    end: float
    lanes: int
    lane: float

    def x(self, at: float) -> float:
        return _LEFT + at / self.end * (_WIDTH - _LEFT - _RIGHT)

    def y(self, slots: float) -> float:
        return self.bottom - slots * self.lane

    @property
    def bottom(self) -> float:
        return _TOP + self.lanes * self.lane


def draw(what: Timeline, title: str) -> str:
    """The picture as SVG, 960 units wide. Bars, marks and the share's line tell more under the mouse."""
    lanes = max(1, what.lanes)
    scale = _Scale(max(what.end, 1e-6), lanes, min(_LANE, max(2.0, _LANES_HEIGHT / lanes)))
    colours = _colours(what)
    legend = list(_legend(what, colours, scale.bottom + 64))
    height = scale.bottom + 64 + len(legend) * _LINE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" font-family="{FONT}"'
        f' width="{_WIDTH}" height="{height:.0f}" font-size="12" fill="#333">',
        f'<rect width="{_WIDTH}" height="{height:.0f}" rx="6" fill="#fff"/>',
        f'<text x="16" y="25" font-size="14" font-weight="bold">{escape(title)}</text>',
        *_key(what),
        *_away(what, scale),
        *_slots(scale),
        *_axis(scale),
        *(_bar(bar, what, scale, colours[bar.signature]) for bar in what.bars),
        *_line(what.share, scale),
        *_marks(what, scale),
        *(line.format(y=scale.bottom + 64 + place * _LINE) for place, line in enumerate(legend)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def html(what: Timeline, title: str) -> str:
    """The picture and, below it, the history in words, as a page that needs nothing else."""
    rows = (
        f'<tr><td class="n">{record.at:.3f}</td><td>{escape(_without_time(record))}</td></tr>'
        for record in what.records
        if not isinstance(record, Started)
    )
    table = "<table><tr><th>seconds</th><th>what happened</th></tr>\n" + "\n".join(rows) + "\n</table>"
    return page(title, draw(what, title), "<h3>History</h3>", table)


def _without_time(record: Record) -> str:
    """The record's sentence without the time it begins with."""
    _, found, rest = str(record).partition(" s ")
    return rest if found else str(record)


def _colours(what: Timeline) -> dict[Signature, str]:
    """One colour for what means the same, whatever plan made it."""
    found: dict[Signature, str] = {}
    for plan in what.plans:
        for stage in plan.stages:
            found.setdefault(stage.signature, _COLOURS[len(found) % len(_COLOURS)])
    for bar in what.bars:
        found.setdefault(bar.signature, _COLOURS[len(found) % len(_COLOURS)])
    return found


def _stage(what: Timeline, bar: Bar) -> Stage | None:
    if bar.plan < len(what.plans):
        return what.plans[bar.plan].by_id.get(bar.attempt.task.stage)
    return None


def _key(what: Timeline) -> Iterator[str]:
    """The meaning of the forms; only those that occur."""
    x = _LEFT
    shown = [(name, colour) for name, colour in _ENDS.items() if any(bar.outcome == name for bar in what.bars)]
    for name, colour in shown:
        yield f'<rect x="{x}" y="38" width="12" height="12" rx="2" fill="{colour}" stroke="#999" stroke-width="0.5"/>'
        yield f'<text x="{x + 17}" y="48" fill="#777">{name}</text>'
        x += max(84, 30 + 7 * len(name))  # the width of its text, and a gap
    if len(what.share) > 0:
        yield f'<line x1="{x}" x2="{x + 14}" y1="44" y2="44" stroke="#111" stroke-width="2" stroke-dasharray="5 2"/>'
        yield f'<text x="{x + 20}" y="48" fill="#777">share</text>'
        x += 84
    if any(not mark.switched for mark in what.marks):
        yield f'<path d="M{x},50 h8 l-4,-8 z" fill="#999"/><text x="{x + 14}" y="48" fill="#777">stayed</text>'
        x += 84
    if any(slots < what.lanes for _, slots in what.capacity):
        yield f'<rect x="{x}" y="38" width="12" height="12" fill="#eee"/>'
        yield f'<text x="{x + 17}" y="48" fill="#777">no slot there</text>'


def _slots(scale: _Scale) -> Iterator[str]:
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if step * scale.lane >= 14)
    for slot in range(step, scale.lanes + 1, step):
        middle = scale.y(slot) + scale.lane / 2
        yield f'<text x="16" y="{middle + 4:.1f}" fill="#777">slot {slot}</text>'


def _axis(scale: _Scale) -> Iterator[str]:
    step = round_step(scale.end)
    for tick in range(int(scale.end / step) + 1):
        x = scale.x(tick * step)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{scale.bottom + 4:.1f}" stroke="#ddd"/>'
        text = _time_label(tick * step, step)
        yield f'<text x="{x:.1f}" y="{scale.bottom + 18:.1f}" text-anchor="middle" fill="#777">{text}</text>'


def _time_label(at: float, step: float) -> str:
    return f"{at * 1e3:g} ms" if step < 0.1 else f"{at:.10g} s"


def _away(what: Timeline, scale: _Scale) -> Iterator[str]:
    """Shade the slots that were not there."""
    for (begun, slots), (ended, _) in pairwise((*what.capacity, (scale.end, 0.0))):
        if slots < scale.lanes and ended > begun:
            x, width = scale.x(begun), scale.x(ended) - scale.x(begun)
            height = (scale.lanes - slots) * scale.lane
            yield f'<rect x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{height:.1f}" fill="#eee"/>'


def _bar(bar: Bar, what: Timeline, scale: _Scale, colour: str) -> str:
    left, right = scale.x(bar.begun), scale.x(bar.ended)
    width, height = max(right - left - 1, 1.0), max(bar.slots * scale.lane - (4 if scale.lane > 10 else 0.5), 1.0)
    top = scale.y(bar.first_slot + bar.slots) + (2 if scale.lane > 10 else 0.25)
    fill = _ENDS.get(bar.outcome, colour)
    edge = f' stroke="{colour}" stroke-width="1.5"' if bar.outcome != "done" else ""
    stage = _stage(what, bar)
    label = stage.label if stage is not None else ""
    tooltip = f"plan {what.names[bar.plan]} {bar.attempt.task.stage}.{bar.attempt.task.part} {label}: {bar.outcome}"
    tooltip += f", {bar.ended - bar.begun:.3f} s on {bar.machine}" + (f"; {bar.note}" if bar.note else "")
    shape = (
        f'<g class="bar"><title>{escape(tooltip)}</title><rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}"'
        f' height="{height:.1f}" rx="2" fill="{fill}"{edge}/>'
    )
    name = bar.attempt.task.stage
    if width < 8 + 7 * len(name) or scale.lane <= 10:
        return shape + "</g>"
    middle = f'x="{left + width / 2:.1f}" y="{top + height / 2 + 4:.1f}"'
    ink = "#fff" if bar.outcome == "done" else "#555"
    return f'{shape}<text {middle} text-anchor="middle" fill="{ink}">{name}</text></g>'


def _line(share: Sequence[tuple[float, float]], scale: _Scale) -> Iterator[str]:
    if not share:
        return
    points: list[str] = []
    for (begun, slots), (ended, _) in pairwise((*share, (scale.end, 0.0))):
        y = scale.y(min(slots, scale.lanes))
        points += [f"{scale.x(begun):.1f},{y:.1f}", f"{scale.x(ended):.1f},{y:.1f}"]
    yield (
        f'<polyline points="{" ".join(points)}" fill="none" stroke="#111" stroke-width="2" stroke-dasharray="5 2">'
        "<title>the job's fair share</title></polyline>"
    )


def _marks(what: Timeline, scale: _Scale) -> Iterator[str]:
    """A switch is a line through the picture under the plan's name, a decision to stay a tick below the axis."""
    for mark in what.marks:
        x = scale.x(mark.at)
        if not mark.switched:
            tick = f"M{x - 4:.1f},{scale.bottom + 34:.1f} h8 l-4,-8 z"
            yield f'<path d="{tick}" fill="#999"><title>{escape(mark.text)}</title></path>'
            continue
        name = f"plan {mark.plan}"
        width = 12 + 7 * len(name)
        yield (
            f'<g><title>{escape(mark.text)}</title><line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 8}"'
            f' y2="{scale.bottom + 4:.1f}" stroke="#c00" stroke-width="2"/>'
            f'<rect x="{x - width / 2:.1f}" y="{_TOP - 26}" width="{width}" height="18" rx="9" fill="#c00"/>'
            f'<text x="{x:.1f}" y="{_TOP - 13}" text-anchor="middle" fill="#fff" font-weight="bold">'
            f"{escape(name)}</text></g>"
        )


def _legend(what: Timeline, colours: Mapping[Signature, str], top: float) -> Iterator[str]:
    """A line a meaning, with its name in every plan that has it; `{y}` is left to be filled in."""
    names: dict[Signature, list[str]] = {}
    stages: dict[Signature, Stage] = {}
    many = len(what.plans) > 1
    for plan, message in zip(what.plans, what.names, strict=False):
        for stage in plan.stages:
            stages.setdefault(stage.signature, stage)
            name = f"{message} {stage.id}" if many else stage.id
            named = names.setdefault(stage.signature, [])
            if name not in named:
                named.append(name)
    drawn = {bar.signature for bar in what.bars}
    shown = [signature for signature in stages if signature in drawn]
    for signature in shown[:_LEGEND]:
        text, colour = escape(_short(stages[signature].label)), colours[signature]
        called = escape(", ".join(names[signature]))
        yield (
            f'<rect x="16" y="{{y}}" width="12" height="12" rx="2" fill="{colour}" transform="translate(0,-10)"/>'
            f'<text x="36" y="{{y}}">{_braces(called)}</text>'
            f'<text x="{_LEFT + (90 if many else 0)}" y="{{y}}" fill="#555">{_braces(text)}</text>'
        )
    if len(shown) > _LEGEND:
        yield f'<text x="36" y="{{y}}" fill="#777">and {len(shown) - _LEGEND} more stages</text>'


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _short(text: str) -> str:
    return text if len(text) <= _LABEL_LENGTH else text[: _LABEL_LENGTH - 1] + "…"


# ---- for chrome://tracing and Perfetto


def chrome_trace(what: Timeline) -> str:
    """The timeline in the Trace Event Format (JSON object form), which Perfetto and chrome://tracing open.

    Processes are machines, threads the slots of the picture; times are microseconds. The share and the capacity are
    counters, a switch of plan is an instant event.
    """
    machines = {name: place for place, name in enumerate(dict.fromkeys(bar.machine for bar in what.bars), start=1)}
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": number, "args": {"name": name}} for name, number in machines.items()
    ]
    for bar in what.bars:
        stage = _stage(what, bar)
        events.append(
            {
                "ph": "X", "name": f"{bar.attempt.task.stage}.{bar.attempt.task.part}", "cat": bar.outcome,
                "pid": machines[bar.machine], "tid": bar.first_slot + 1, "ts": bar.begun * 1e6,
                "dur": (bar.ended - bar.begun) * 1e6,
                "args": {
                    "attempt": str(bar.attempt), "plan": what.names[bar.plan], "outcome": bar.outcome, "note": bar.note,
                    "stage": stage.label if stage is not None else "", "slots": bar.slots,
                },
            }
        )  # fmt: skip
    for name, steps in (("share", what.share), ("capacity", what.capacity)):
        events += [{"ph": "C", "name": name, "pid": 0, "ts": at * 1e6, "args": {"slots": n}} for at, n in steps]
    for mark in what.marks:
        args = {"why": mark.text}
        name = f"plan {mark.plan}" if mark.switched else "stayed"
        events.append({"ph": "i", "s": "g", "name": name, "pid": 0, "tid": 0, "ts": mark.at * 1e6, "args": args})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
