"""``qoop profile``: what there is, drawn, converted and counted."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from qoop.__main__ import main
from qoop.adaptive.profiles import CapacityProfile, load
from qoop.adaptive.profiles.named import NAMED
from qoop.adaptive.profiles.tables import to_csv
from qoop.query.drawing.profiles import as_html, as_svg, as_text

STEPS = CapacityProfile.of([(0, 30, 1e9, 4), (600, 30, 1e9, 1), (1200, 30, 1e9, 0), (1800, 30, 1e9, 0)])


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "steps.csv"
    path.write_text(to_csv(STEPS))
    return str(path)


def run(*words: str) -> None:
    assert main(["profile", *words]) == 0


def test_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    run("list")
    told = capsys.readouterr().out
    assert all(one.name in told for one in NAMED) and "describe-spot-price-history" in told


def test_a_profile_is_shown(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("show", file, "--width", "9")
    *_, axis, time, figures = lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "120 │███" and lines[6] == "    │██████"
    assert axis == "  0 └─────────" and time.strip() == "0 to 30:00 min"
    assert figures == (
        "1800 s; machines 0-4; slots 0-120, mean 50; events of 10 / 15 / 20 %: 1 / 1 / 1; "
        "regions: 1 low, 0 medium, 2 high"
    )


def test_time_is_compressed_and_may_begin_later(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("convert", file, "--since", "300", "--compress", "60")
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "seconds,slots,memory,machines"
    assert [line.split(",")[0] for line in told.splitlines()[1:]] == ["0.0", "5.0", "15.0", "25.0"]
    run("statistics", file, "--compress", "60")
    assert "30 s; " in capsys.readouterr().out


def test_what_is_converted_is_the_same_profile(tmp_path: Path) -> None:
    path = tmp_path / "spot.csv"
    run("convert", "spot:3", "-o", str(path))
    assert load(path).points == load("spot:3").points


def test_figures_over_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    run("statistics", "spot", "--seeds", "3")
    told = capsys.readouterr().out
    assert re.search(r"^spot, seeds 1 to 3: .*\n  least machines +2\.0 ± +0\.0   2 to 2\n", told)
    run("statistics", "spot:1", "spot:2")
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["spot", "spot"]


def test_a_drawing_has_a_step_for_each_change_and_a_ground_for_each_region() -> None:
    tree = ElementTree.fromstring(as_svg(STEPS, "a <title>"))
    lines = [one for one in tree.iter() if one.tag.endswith("polyline")]
    corners = [tuple(map(float, point.split(","))) for point in lines[0].attrib["points"].split()]
    assert len({y for _, y in corners}) == 3 and corners == sorted(corners)
    told = [one.text for one in tree.iter() if one.tag.endswith("title")]
    assert told == [
        "high: largest run 75 %", "high: largest run 100 %", "low: largest run 0 %",
    ]  # fmt: skip
    page = as_html(STEPS, "a <title>")
    assert "a &lt;title&gt;" in page and page.count("<td>high</td>") == 2


@pytest.mark.parametrize("rows", [[(0, 2, 1e9)], [(0, 0, 0)], [(0, 0, 0), (5, 0, 0)]])
def test_profiles_of_one_point_or_of_nothing_can_be_drawn(rows: list[tuple[float, float, float]]) -> None:
    profile = CapacityProfile.of(rows)
    ElementTree.fromstring(as_svg(profile, "little"))
    assert len(as_text(profile, 20, 4).splitlines()) == 6


@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_a_drawing_goes_into_a_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"spot.{ending}"
    run("draw", "spot", "-o", str(path))
    assert path.stat().st_size > 2000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "nonsense"], "there is no file nonsense"),
        (["draw", "spot", "-o", "spot.gif"], "not as 'spot.gif'"),
        (["show", "spot", "--compress", "0"], "above 0"),
        (["show", "spot", "--since", "-1"], "0 seconds or later"),
        (["show", "spot", "--width", "0"], "--width"),
        (["statistics", "spot", "--seeds", "0"], "--seeds"),
        (["statistics", "spot", "--memory", "much"], "is not a size"),
        (["show", "spot", "--budget", "-1"], "this bid is impossible"),
    ],
)
def test_wrong_arguments_are_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *words]) == 1
    assert said in capsys.readouterr().err
