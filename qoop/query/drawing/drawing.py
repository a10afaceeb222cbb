"""Plans as SVG: their stages as boxes in layers, flows between them as lines, stages of several plans in colour.

The drawing is made in layers (K. Sugiyama, S. Tagawa and M. Toda, "Methods for Visual Understanding of Hierarchical
System Structures", 1981): a stage stands one layer below the lowest of its readers; a line that passes layers gets a
place in each, so it crosses no box; the places of a layer are ordered by the mean place of what they
are joined to, up and down a few times. Places of a layer never overlap, whatever the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import log
from textwrap import wrap

from qoop.catalog.value import value
from qoop.planner.estimate.observed import q_error
from qoop.planner.explain import StageObservations, count_text, facts, observed_facts, seconds_text
from qoop.planner.plan import Plan, Resources, Stage, StageId
from qoop.planner.search.candidate import Alternatives, StageKey, plan_name, stage_key
from qoop.planner.search.difference import work
from qoop.query.drawing.picture import FONT

BOX, TALL, GAP, LAYER = 206, 76, 18, 118
_LANE = 14
_MARGIN = 20
_SWEEPS = 8
_MESSAGES = 31
_ELSEWHERE = 20

_PALE = "#f4f4f2"
_INK = "#222222"
_WINNERS = (
    "#4e93c9",
    "#e8973a",
    "#5fae57",
    "#b277c0",
    "#d9666c",
    "#4fb0b5",
    "#c7b02e",
    "#9a836b",
    "#767ed6",
    "#9cbf34",
)


@value
class Drawing:
    """A piece of SVG with its size."""

    width: float
    height: float
    body: str

    def svg(self) -> str:
        """The piece as a document."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:.0f} {self.height:.0f}" '
            f'width="{self.width:.0f}" height="{self.height:.0f}" font-family="{escape(FONT)}" font-size="11" '
            f'fill="{_INK}">\n<rect width="100%" height="100%" fill="#ffffff"/>\n{self.body}\n</svg>\n'
        )


def draw_plan(plan: Plan, observed: StageObservations | None = None) -> Drawing:
    """One plan. observed: the measurements of its stages."""
    return _Picture(plan, {}, observed).drawing()


def draw_plans(plans: Sequence[tuple[str, Plan]], abreast: bool = False) -> Drawing:
    """Several plans under their names; stages that two of them share have one colour in both.

    abreast: side by side, not one below the other.
    """
    colours = shared_colours([plan for _, plan in plans])
    names = shared_names(plans)
    drawings = [titled(name, _Picture(plan, colours, None, names, _first(name)).drawing()) for name, plan in plans]
    return stacked([side_by_side(drawings) if abreast else stacked(drawings), _legend()])


def _legend() -> Drawing:
    text = (
        "Boxes of one colour: one stage that several plans share. Dashed: never shared. Thick blue line: rows go to "
        "tasks by key. ×: tasks × threads of each."
    )
    return Drawing(9 + 5.6 * len(text), 24, f'<text x="{_MARGIN}" y="14" fill="#555555">{text}</text>')


def draw_alternatives(alternatives: Alternatives) -> Drawing:
    """A drawing of the plan that wins on each share, and of all the plans that are kept."""
    plans = [(f"{plan_name(place)}: {one.origin}", one.plan) for place, one in enumerate(alternatives.kept)]
    return stacked([titled("Which plan ends first on which share", heat_map(alternatives)), draw_plans(plans)])


def shared_colours(plans: Sequence[Plan]) -> dict[StageKey, str]:
    """A colour for every stage that more than one of the plans has, in order of first appearance."""
    readers: dict[StageKey, set[int]] = {}
    for number, plan in enumerate(plans):
        for stage in plan.stages:
            if stage.shareable:
                readers.setdefault(stage_key(stage), set()).add(number)
    shared = [key for key, numbers in readers.items() if len(numbers) > 1]
    return {key: _colour(place) for place, key in enumerate(shared)}


def _colour(place: int) -> str:
    """A pale colour for each number: hues a golden angle apart, in three shades."""
    parts = hls_to_rgb((0.58 + place * 0.381966) % 1.0, (0.84, 0.78, 0.89)[place // 7 % 3], 0.55)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def _first(title: str) -> str:
    """The name of a plan, out of a title such as "A: usual"."""
    return title.partition(":")[0]


def shared_names(plans: Sequence[tuple[str, Plan]]) -> dict[StageKey, list[tuple[str, StageId]]]:
    """Under which names, of plan and of stage, each stage stands."""
    found: dict[StageKey, list[tuple[str, StageId]]] = {}
    for name, plan in plans:
        for stage in plan.stages:
            if stage.shareable:
                found.setdefault(stage_key(stage), []).append((_first(name), stage.id))
    return found


# Layers


@dataclass
class _LayerItem:
    """A box, or a point where a line passes a layer (stage None)."""

    stage: StageId | None
    layer: int
    order: float = 0.0
    x: float = 0.0

    @property
    def width(self) -> float:
        return BOX if self.stage is not None else _LANE


class _Picture:
    def __init__(
        self,
        plan: Plan,
        colours: Mapping[StageKey, str],
        observed: StageObservations | None,
        names: Mapping[StageKey, Sequence[tuple[str, StageId]]] | None = None,
        name: str = "",
    ) -> None:
        self.plan, self.colours, self.observed, self.names, self.name = plan, colours, observed, names or {}, name
        layers = _layers(plan)
        self.boxes = {stage.id: _LayerItem(stage.id, layers[stage.id]) for stage in plan.stages}
        self.rows: list[list[_LayerItem]] = [[] for _ in range(max(layers.values()) + 1)]
        self.paths: list[tuple[StageId, StageId, str, list[_LayerItem]]] = []
        for stage in reversed(plan.stages):
            self.rows[layers[stage.id]].append(self.boxes[stage.id])
        self._route()
        self._order()
        self._spread()

    def drawing(self) -> Drawing:
        width = max(place.x + place.width / 2 for row in self.rows for place in row) + _MARGIN
        height = (len(self.rows) - 1) * LAYER + TALL + 2 * _MARGIN
        parts = [self._line(mode, path) for _, _, mode, path in self.paths]
        parts += [self._box(stage) for stage in self.plan.stages]
        return Drawing(width, height, "\n".join(parts))

    def _route(self) -> None:
        """A path for every input, with a place in each layer between producer and reader."""
        for stage in reversed(self.plan.stages):
            for item in stage.stage_inputs:
                top, bottom = self.boxes[stage.id], self.boxes[item.stage]
                between = [_LayerItem(None, layer) for layer in range(top.layer + 1, bottom.layer)]
                for place in between:
                    self.rows[place.layer].append(place)
                self.paths.append((stage.id, item.stage, item.mode, [top, *between, bottom]))

    def _order(self) -> None:
        above: dict[int, list[_LayerItem]] = {}
        below: dict[int, list[_LayerItem]] = {}
        for _, _, _, path in self.paths:
            for one, other in pairwise(path):
                below.setdefault(id(one), []).append(other)
                above.setdefault(id(other), []).append(one)
        for row in self.rows:
            for number, place in enumerate(row):
                place.order = number
        for sweep in range(_SWEEPS):
            joined = above if sweep % 2 == 0 else below
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                row.sort(key=lambda place: _mean([other.order for other in joined.get(id(place), [place])]))
                for number, place in enumerate(row):
                    place.order = number
        self._joined = {key: above.get(key, []) + below.get(key, []) for key in above.keys() | below.keys()}

    def _spread(self) -> None:
        """Places in their order, each as near to what it is joined to as its neighbours let it."""
        for row in self.rows:
            _pack(row, [0.0] * len(row))
        for sweep in range(_SWEEPS):
            for row in self.rows if sweep % 2 else reversed(self.rows):
                _pack(row, [_mean([other.x for other in self._joined.get(id(place), [place])]) for place in row])
        left = min(place.x - place.width / 2 for row in self.rows for place in row)
        for row in self.rows:
            for place in row:
                place.x += _MARGIN - left

    def _box(self, stage: Stage) -> str:
        place = self.boxes[stage.id]
        x, y = place.x - BOX / 2, _MARGIN + place.layer * LAYER
        colour = self.colours.get(stage_key(stage), _PALE) if stage.shareable else _PALE
        one = (self.observed or {}).get(stage.id)
        lines = _facts(stage, self.observed)
        border = "#b03a2e" if one is not None and q_error(stage.estimate.rows, one.rows) > 4 else "#777777"
        dashed = ' stroke-dasharray="4 3"' if stage.opaque is not None or not stage.shareable else ""
        texts = [
            f'<text x="{x + 8:.1f}" y="{y + 16:.1f}" font-weight="bold">{escape(stage.id)}'
            f'<tspan dx="6" font-weight="normal" fill="#555555">{escape(self._elsewhere(stage))}</tspan></text>',
            f'<text x="{x + BOX - 8:.1f}" y="{y + 16:.1f}" text-anchor="end" fill="#555555">'
            f"{stage.width}×{stage.slots}</text>",
            *(
                f'<text x="{x + 8:.1f}" y="{y + 31 + 13 * n:.1f}">{escape(line)}</text>'
                for n, line in enumerate(_label(stage))
            ),
            *(
                f'<text x="{x + 8:.1f}" y="{y + 58 + 12 * n:.1f}" font-size="10" fill="#555555">{escape(line)}</text>'
                for n, line in enumerate(lines)
            ),
        ]
        return (
            f"<g><title>{escape(_tooltip(stage, self.observed))}</title>"
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX}" height="{TALL}" rx="5" fill="{colour}" stroke="{border}"'
            f"{dashed}/>{''.join(texts)}</g>"
        )

    def _elsewhere(self, stage: Stage) -> str:
        """The stage's names in the other plans that have it."""
        if stage_key(stage) not in self.colours or not stage.shareable:
            return ""
        places = self.names.get(stage_key(stage), ())
        text = ", ".join(f"{name} {id}" for name, id in places if name != self.name)
        return f"= {text if len(text) <= _ELSEWHERE else text[: _ELSEWHERE - 1] + '…'}"

    def _line(self, mode: str, path: Sequence[_LayerItem]) -> str:
        """From the producer up to its reader, straight through the lanes between."""
        top, bottom = path[0], path[-1]
        start = (bottom.x, _MARGIN + bottom.layer * LAYER)
        points = [start]
        for place in reversed(path[1:-1]):
            y = _MARGIN + place.layer * LAYER
            points += [(place.x, y + TALL), (place.x, y)]
        points.append((top.x, _MARGIN + top.layer * LAYER + TALL))
        text = f"M {points[0][0]:.1f} {points[0][1]:.1f}"
        for (x0, y0), (x1, y1) in pairwise(points):
            middle = (y0 + y1) / 2
            text += f" C {x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
        style = {"all": "#888888", "partition": "#1f5fa8", "forward": "#888888"}[mode]
        wide = 2.2 if mode == "partition" else 1.2
        return f'<path d="{text}" fill="none" stroke="{style}" stroke-width="{wide}"/>'


def _layers(plan: Plan) -> dict[StageId, int]:
    """The root is in layer 0; every other stage is one below the lowest of its readers."""
    from networkx import topological_generations  # 0.2 s: few plans are drawn

    generations = topological_generations(plan.graph.reverse(copy=False))
    return {name: layer for layer, generation in enumerate(generations) for name in generation}


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _pack(row: Sequence[_LayerItem], wishes: Sequence[float]) -> None:
    """Set x of the items of a layer: in order, a gap apart, as close to the wishes as that allows.

    Least squares under the order: neighbours that would overlap become a block that stands at its mean wish (pool
    adjacent violators; M. Ayer et al., 1955).
    """
    offsets: list[float] = []
    for number, place in enumerate(row):
        before = row[number - 1] if number else None
        step = (before.width + place.width) / 2 + GAP if before is not None else 0.0
        offsets.append((offsets[-1] if offsets else 0.0) + step)
    blocks: list[tuple[float, int]] = []  # mean of wish less offset, number of places
    for wish, offset in zip(wishes, offsets, strict=True):
        mean, number = wish - offset, 1
        while blocks and blocks[-1][0] > mean:
            last, many = blocks.pop()
            mean, number = (last * many + mean * number) / (many + number), many + number
        blocks.append((mean, number))
    means = [mean for mean, number in blocks for _ in range(number)]
    for place, mean, offset in zip(row, means, offsets, strict=True):
        place.x = mean + offset


def _facts(stage: Stage, observed: StageObservations | None) -> list[str]:
    estimate = stage.estimate
    lines = [
        f"{count_text(estimate.rows)} rows, {seconds_text(work(stage))}, {count_text(estimate.task_memory)}B a task"
    ]
    one = (observed or {}).get(stage.id)
    if one is not None:
        spent = f", {seconds_text(one.seconds)}" if one.seconds is not None else ""
        lines.append(f"seen: {count_text(one.rows)} rows{spent}")
    return lines


def _tooltip(stage: Stage, observed: StageObservations | None) -> str:
    lines = [f"{stage.id}  {stage.label}", facts(stage)]
    if observed is not None:
        lines.append(f"seen: {observed_facts(stage, observed.get(stage.id))}")
    if stage.opaque is not None:
        lines.append(f"runs whole: {stage.opaque}")
    if not stage.shareable:
        lines.append("another run may give other rows: never shared")
    return "\n".join([*lines, "", stage.sql])


def _label(stage: Stage) -> list[str]:
    """The label in at most two lines."""
    return wrap(stage.label, _MESSAGES, max_lines=2, placeholder="…", break_on_hyphens=False)


# Which plan wins where


def heat_map(alternatives: Alternatives) -> Drawing:
    """A cell for each share of the grid: the plan that ends first, and when; the darker the longer it takes."""
    grid = alternatives.pool.grid
    cpus = sorted({point.cpu for point in grid.points})
    links = sorted({grid.link(point) for point in grid.points} - {0.0}, reverse=True) or [0.0]
    rows = [(memory, link) for memory in sorted({_memory(point) for point in grid.points})[::-1] for link in links]
    parts = [
        f'<text x="{_LEFT + (i + 0.5) * _CELL:.0f}" y="16" text-anchor="middle">{_slots(cpu)}</text>'
        for i, cpu in enumerate(cpus)
    ]
    for row, (memory, link) in enumerate(rows):
        text = f"{memory / 1e9:.2g} GB a slot" + (f", {link / 1e6:.0f} MB/s" if len(links) > 1 else "")
        parts.append(f'<text x="{_LEFT - 10}" y="{_TOP + row * _ROW + 21}" text-anchor="end">{escape(text)}</text>')
    depths = _depths(alternatives)
    for place, point in enumerate(grid.points):
        for row, (memory, link) in enumerate(rows):
            if _memory(point) == memory and grid.link(point) in (0.0, link):  # one machine needs no link
                parts.append(_cell(alternatives, place, cpus.index(point.cpu), row, depths[place]))
    return Drawing(_LEFT + _CELL * len(cpus) + _MARGIN, _TOP + _ROW * len(rows) + 10, "\n".join(parts))


_CELL, _ROW, _LEFT, _TOP = 74, 34, 150, 26


def _cell(alternatives: Alternatives, place: int, column: int, row: int, depth: float) -> str:
    winner = alternatives.winners[place]
    x, y = _LEFT + column * _CELL, _TOP + row * _ROW
    return (
        f'<rect x="{x}" y="{y}" width="{_CELL - 2}" height="{_ROW - 2}" fill="{_WINNERS[winner % len(_WINNERS)]}" '
        f'fill-opacity="{depth:.2f}" stroke="#999999" stroke-width="0.5"/>'
        f'<text x="{x + _CELL / 2 - 1}" y="{y + 20}" text-anchor="middle"><tspan font-weight="bold">'
        f"{plan_name(winner)}</tspan> {seconds_text(alternatives.seconds(place))}</text>"
    )


def _depths(alternatives: Alternatives) -> list[float]:
    """The opacity of each cell, by the logarithm of the time."""
    times = [log(max(alternatives.seconds(place), 1e-6)) for place in range(len(alternatives.winners))]
    low, high = min(times), max(times)
    return [0.45 + 0.55 * ((time - low) / (high - low) if high > low else 1.0) for time in times]


def _memory(point: Resources) -> float:
    return round(point.memory / point.cpu)


def _slots(cpu: float) -> str:
    return f"{cpu:g} slot{'s' if cpu != 1 else ''}"


# Putting together


def titled(title: str, drawing: Drawing) -> Drawing:
    """The drawing under a title."""
    text = f'<text x="{_MARGIN}" y="18" font-size="14" font-weight="bold">{escape(title)}</text>'
    width = max(drawing.width, _MARGIN * 2 + 8.0 * len(title))
    return Drawing(width, drawing.height + 26, f"{text}\n{_moved(drawing, 0, 26)}")


def stacked(drawings: Sequence[Drawing]) -> Drawing:
    """One below the other."""
    tops = [sum(one.height for one in drawings[:number]) for number in range(len(drawings) + 1)]
    body = "\n".join(_moved(one, 0, top) for one, top in zip(drawings, tops, strict=False))
    return Drawing(max(one.width for one in drawings), tops[-1], body)


def side_by_side(drawings: Sequence[Drawing]) -> Drawing:
    """One next to the other."""
    lefts = [sum(one.width for one in drawings[:number]) for number in range(len(drawings) + 1)]
    body = "\n".join(_moved(one, left, 0) for one, left in zip(drawings, lefts, strict=False))
    return Drawing(lefts[-1], max(one.height for one in drawings), body)


def _moved(drawing: Drawing, x: float, y: float) -> str:
    return f'<g transform="translate({x:.1f} {y:.1f})">\n{drawing.body}\n</g>'
