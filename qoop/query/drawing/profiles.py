"""Profiles as text for a terminal, and as SVG: slots over time, on a ground that shows how volatile each region is."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise

from qoop.adaptive.profiles.profile import CapacityProfile
from qoop.adaptive.profiles.summary import mean_slots, summary
from qoop.adaptive.profiles.volatility import REGION_SECONDS, Region, Volatility, regions
from qoop.query.drawing.axis import round_step, time_label, time_step
from qoop.query.drawing.picture import FONT, page

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 300, 64, 32, 60, 36
_GROUND = {Volatility.LOW: "#edf6ee", Volatility.MEDIUM: "#fdf4dc", Volatility.HIGH: "#fbe6e2"}
_LINE = "#2b5f9e"


def as_text(profile: CapacityProfile, width: int = 72, height: int = 8) -> str:
    """Columns of slots over time; each column shows the mean of its time.

    >>> print(as_text(CapacityProfile.of([(0, 1, 1, 4), (30, 1, 1, 2), (60, 1, 1, 2)]), width=8, height=2))
    4 │████
      │████████
    0 └────────
       0 to 1:00 min
    """
    top = max((point.all_slots for point in profile.points), default=0.0)
    levels = [8 * height * slots / top if top else 0.0 for slots in _columns(profile, width)]
    label = f"{top:g}"
    lines = []
    for row in reversed(range(height)):
        drawn = "".join(_BLOCKS[max(0, min(8, round(level - 8 * row)))] for level in levels).rstrip()
        lines.append(f"{label if row == height - 1 else '':>{len(label)}} │{drawn}".rstrip())
    lines.append(f"{'0':>{len(label)}} └{'─' * width}")
    lines.append(f"{'':>{len(label)}}  0 to {time_label(profile.seconds)}")
    return "\n".join(lines)


def _columns(profile: CapacityProfile, width: int) -> list[float]:
    slice_ = profile.seconds / width
    if slice_ == 0:
        return [profile.points[0].all_slots] * width
    return [mean_slots(profile, place * slice_, (place + 1) * slice_) for place in range(width)]


def as_svg(profile: CapacityProfile, title: str, region_seconds: float = REGION_SECONDS) -> str:
    """The profile as a picture, 960 units wide. Region and number under the mouse."""
    seconds = profile.seconds or 1.0
    top = max((point.all_slots for point in profile.points), default=0.0) or 1.0
    place = _Scale(seconds, top)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="{escape(FONT)}"'
        f' width="{_WIDTH}" height="{_HEIGHT}" font-size="12" fill="#333">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="#fff"/>',
        f'<text x="16" y="25" font-size="14" font-weight="bold">{escape(title)}</text>',
        *_legend(),
        *(_ground(region, place) for region in regions(profile, region_seconds)),
        *_axes(place),
        _steps(profile, place),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def as_html(profile: CapacityProfile, title: str, region_seconds: float = REGION_SECONDS) -> str:
    """An HTML page without other files: the picture, a summary in numbers, and the regions in a table."""
    rows = (
        f'<tr><td class="n">{time_label(region.begin)}</td><td>{region.volatility}</td><td class="n">'
        f"{100 * region.size:.0f} %</td></tr>"
        for region in regions(profile, region_seconds)
    )
    table = "<table><tr><th>begins</th><th>volatility</th><th>largest run</th></tr>\n" + "\n".join(rows) + "\n</table>"
    paragraph = f"<p>{escape(str(summary(profile, region_seconds)))}</p>"
    return page(title, as_svg(profile, title, region_seconds), paragraph, "<h3>Regions</h3>", table)


class _Scale:
    """The places of seconds and slots on the drawing."""

    def __init__(self, seconds: float, top: float) -> None:
        self.seconds, self.top = seconds, top
        self.bottom = _HEIGHT - _BOTTOM

    def x(self, at: float) -> float:
        return _LEFT + min(at / self.seconds, 1.0) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, slots: float) -> float:
        return self.bottom - slots / self.top * (self.bottom - _TOP)


def _legend() -> Iterator[str]:
    for number, (kind, colour) in enumerate(_GROUND.items()):
        x = _LEFT + 100 * number
        yield f'<rect x="{x}" y="36" width="14" height="12" fill="{colour}" stroke="#ccc"/>'
        yield f'<text x="{x + 20}" y="46" fill="#777">{kind}</text>'


def _ground(region: Region, place: _Scale) -> str:
    left, right = place.x(region.begin), place.x(region.begin + region.seconds)
    tooltip = f"{region.volatility}: largest run {100 * region.size:.0f} %"
    return (
        f'<rect x="{left:.1f}" y="{_TOP}" width="{right - left:.1f}" height="{place.bottom - _TOP}"'
        f' fill="{_GROUND[region.volatility]}"><title>{tooltip}</title></rect>'
    )


def _axes(place: _Scale) -> Iterator[str]:
    step = round_step(place.top, 6)
    for tick in range(int(place.top / step + 1e-9) + 1):
        y = place.y(tick * step)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#777">{tick * step:g}</text>'
    yield f'<text x="{_LEFT - 8}" y="{_TOP - 12}" text-anchor="end" fill="#777">slots</text>'
    every = time_step(place.seconds)
    for tick in range(int(place.seconds / every + 1e-9) + 1):
        x = place.x(tick * every)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{place.bottom}" y2="{place.bottom + 4}" stroke="#999"/>'
        label = time_label(tick * every)
        yield f'<text x="{x:.1f}" y="{place.bottom + 18}" text-anchor="middle" fill="#777">{label}</text>'


def _steps(profile: CapacityProfile, place: _Scale) -> str:
    corners: list[str] = []
    for one, other in pairwise((*profile.points, profile.points[-1])):
        y = place.y(one.all_slots)
        end = other.at if other.at > one.at else place.seconds
        corners += [f"{place.x(one.at):.1f},{y:.1f}", f"{place.x(end):.1f},{y:.1f}"]
    return f'<polyline points="{" ".join(corners)}" fill="none" stroke="{_LINE}" stroke-width="2"/>'
