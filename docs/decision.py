"""Draw docs/decision.svg: one decision of the re-planner, with all that it looked at. Run by `make picture`.

The plans are those of query 78 of TPC-DS at scale 10. The query runs in virtual time on the engine's own core, where
every task takes what it was estimated to take, so the picture comes out the same each time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from textwrap import wrap

import qoop
from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.decision import Decision, DecisionInput, Switch
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.simulation import Fleet, SimulatedJob, simulate
from qoop.engine.backends.outcomes import Outcome, as_estimated
from qoop.engine.events import SlotsChanged
from qoop.engine.history import Decided
from qoop.engine.task import TaskSpec
from qoop.planner.plan import Resources
from qoop.planner.search.alternatives import keep, pool
from qoop.planner.search.candidate import local_grid
from qoop.query.drawing.picture import FONT
from qoop.tpcds.queries import text
from qoop.tpcds.scaling import at_scale

QUERY, SCALE = 78, 10.0
FULL, LESS = Resources(4, 16e9), Resources(1, 1e9)
PART = 0.3
"""The part of the undisturbed time after which the slots go."""

_BOX, _GAP, _ROW, _LEFT, _TOP = 30, 6, 74, 150, 92
_WIDE = 1000
_DONE, _PART, _TO_DO, _NEEDLESS, _INK, _BAR, _CHOSEN = (
    "#5fae57", "#bfe0bb", "#ffffff", "#e4e4e0", "#222222", "#9fb4c7", "#2f6f9f",
)  # fmt: skip


@dataclass
class Watching:
    """Greed, with the questions that it received."""

    seen: list[tuple[DecisionInput, Decision]] = field(default_factory=list)

    def decide(self, question: DecisionInput) -> Decision:
        decision = Greedy().decide(question)
        self.seen.append((question, decision))
        return decision


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path, help="a folder with TPC-DS at scale 1, for its statistics")
    picture = Path(__file__).parent / "decision.svg"
    options.add_argument("--picture", type=Path, default=picture, metavar="FILE")
    arguments = options.parse_args()
    arguments.picture.write_text(draw(*decided(arguments.data)) + "\n")


def decided(data: Path) -> tuple[DecisionInput, Switch, Decided]:
    """A question, the answer, and the record of it in the job's history."""
    with qoop.connect(slots=1, memory="1GB", staged=True) as session:
        session.register_folder(data)
        prepared = at_scale(session.prepare(text(QUERY)), SCALE)
    plans = keep(pool(prepared.planning(), local_grid(FULL))).kept
    policy = Watching()
    adaptive = Adaptive(lambda _: plans, FULL, at_once=True, policy=policy)
    job = SimulatedJob("job", 0.0, plans[0].plan, adaptive, tables=prepared.tables)
    [calm] = simulate(Fleet({"m": FULL}), [job], as_believed).jobs
    policy.seen.clear()
    falling = Fleet({"m": FULL}, ((PART * calm.seconds, SlotsChanged("m", LESS)),))
    [ran] = simulate(falling, [job], as_believed).jobs
    records = [record for record in ran.history if isinstance(record, Decided)]
    for (question, decision), record in zip(policy.seen, records, strict=True):
        if isinstance(decision, Switch) and question.share.cpu == LESS.cpu:
            return question, decision, record
    raise SystemExit("\n".join(["no switch:", *map(str, records)]))


def as_believed(spec: TaskSpec) -> Outcome:
    """Seconds and rows of a task are those of its estimate."""
    stage = spec.stage
    return replace(as_estimated(spec), rows=round(stage.estimate.rows / stage.width / stage.layout.parts))


def draw(question: DecisionInput, switch: Switch, record: Decided) -> str:
    """The decision as SVG: a row for each plan, its stages on the left, its time on the right."""
    rows, bars = len(question.options), _bars(question)
    foot = wrap(f"{record}.", 130)
    high = _TOP + rows * _ROW + 16 + 16 * len(foot)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {high}" width="{_WIDE}" height="{high}" '
        f'font-family="{escape(FONT)}" font-size="12" fill="{_INK}">',
        f'<rect width="{_WIDE}" height="{high}" fill="#fcfcfa"/>',
        _text(20, 30, f"The slots fall from {FULL.cpu:g} to {LESS.cpu:g}. Which plan goes on?", 17, "bold"),
        _text(_WIDE - 20, 30, f"query {QUERY} of TPC-DS, scale {SCALE:g}, virtual time", 12, "normal", "end"),
        _text(_LEFT, 58, "Finished stages count for every plan", 13, "bold"),
        _text(bars, 58, "When each plan would end on the new share", 13, "bold"),
        f'<line x1="{bars + 5}" x2="{bars + 5}" y1="66" y2="78" stroke="#c0392b" stroke-width="2"/>',
        _text(bars + 12, 76, "another plan is chosen only if it ends before this line", 11, "normal"),
        *_legend(),
        *(part for place in range(rows) for part in _row(question, switch, place)),
        *(
            _text(20, _TOP + rows * _ROW + 14 + 16 * number, line, 12, "normal")
            for number, line in enumerate(foot)
        ),
        "</svg>",
    ]  # fmt: skip
    return "\n".join(parts)


def _row(question: DecisionInput, switch: Switch, place: int) -> Iterator[str]:
    top = _TOP + place * _ROW
    option, seconds = question.options[place], question.remaining[place].seconds
    running, chosen = place == question.running, place == switch.plan
    if chosen:
        yield f'<rect x="10" y="{top - 8}" width="{_WIDE - 20}" height="{_ROW - 8}" rx="6" fill="#e6f0f7"/>'
    yield _text(20, top + 14, f"Plan {option.name}", 14, "bold")
    yield _text(20, top + 32, "runs" if running else "is chosen" if chosen else "", 12, "normal")
    if not running:
        yield _text(_LEFT, top + 48, _kept(question, place), 11, "normal")
    yield from _stages(question, place, top)
    yield from _times(question, place, seconds, top, chosen)


def _kept(question: DecisionInput, place: int) -> str:
    """The finished work that a plan would take over, and that it would leave out."""
    taken = ", ".join(question.keep(place)) or "nothing"
    left_out = question.left_out(place)
    return f"takes over {taken}" + (f", leaves out {left_out * 1e3:.0f} ms of work" if left_out else "")


def _stages(question: DecisionInput, place: int, top: float) -> Iterator[str]:
    """A box for each stage, filled as far as it is done; grey where nothing needs it any more."""
    option, done = question.options[place], question.done[place]
    needed = option.candidate.finish.needed(done)
    for number, (stage, _, _) in enumerate(option.stages):
        x = _LEFT + number * (_BOX + _GAP)
        finished = done.parts.get(stage.id, 0) / stage.width
        ground = _TO_DO if needed[number] else _DONE if finished == 1 else _NEEDLESS
        yield f'<rect x="{x}" y="{top}" width="{_BOX}" height="{_BOX}" rx="4" fill="{ground}" stroke="#888888"/>'
        if needed[number] and finished:
            yield f'<rect x="{x}" y="{top}" width="{_BOX * finished:.1f}" height="{_BOX}" rx="4" fill="{_PART}"/>'
        colour = "#ffffff" if ground == _DONE else _INK
        yield _text(x + _BOX / 2, top + 19, stage.id, 11, "normal", "middle", colour)


def _bars(question: DecisionInput) -> int:
    """The place at which times begin: behind the stages of the plan that has most of them."""
    return max(430, _LEFT + max(len(option.stages) for option in question.options) * (_BOX + _GAP) + 24)


def _times(question: DecisionInput, place: int, seconds: float, top: float, chosen: bool) -> Iterator[str]:
    longest, bars = max(one.seconds for one in question.remaining), _bars(question)
    scale = (_WIDE - bars - 90) / longest
    yield (
        f'<rect x="{bars}" y="{top + 4}" width="{seconds * scale:.1f}" height="22" rx="3" '
        f'fill="{_CHOSEN if chosen else _BAR}"/>'
    )
    yield _text(bars + max(seconds, _limit(question, place)) * scale + 8, top + 20, f"{seconds:.2f} s", 13, "bold")
    if place != question.running:
        x = bars + _limit(question, place) * scale
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 2}" y2="{top + 32}" stroke="#c0392b" stroke-width="2"/>'
        yield _text(x, top + 46, f"{_limit(question, place):.2f} s", 11, "normal", "middle")


def _limit(question: DecisionInput, place: int) -> float:
    """The seconds before which a plan must end to be worth a switch: rule 13 of docs/re-planning.md."""
    mine = question.remaining[question.running].seconds
    if place == question.running:
        return 0.0
    return mine - Greedy().gain_needed(question, place, mine)


def _legend() -> Iterator[str]:
    x = _LEFT
    for colour, meaning in ((_DONE, "done"), (_TO_DO, "to do"), (_NEEDLESS, "not needed")):
        yield f'<rect x="{x}" y="66" width="10" height="10" rx="2" fill="{colour}" stroke="#888888"/>'
        yield _text(x + 15, 75, meaning, 11, "normal")
        x += 70


def _text(x: float, y: float, text: str, size: int, weight: str, anchor: str = "start", colour: str = _INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{colour}">{escape(text)}</text>'
    )


if __name__ == "__main__":
    main()
