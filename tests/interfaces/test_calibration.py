"""Calibration: constants are found again, kept, used by later sessions, and never taken from a wrong file."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

import qoop
from qoop.__main__ import main
from qoop.catalog.errors import ConfigError
from qoop.catalog.signed_json import sealed
from qoop.interfaces.commands import calibration
from qoop.interfaces.commands.calibration import Calibration, calibrate, fit, save
from qoop.planner.estimate.cost import DEFAULT, CostModel
from qoop.query.calibrated import MEASURED, calibration_path, load

FOUND = Calibration(replace(DEFAULT, build_row=1e-6), (), 1.0)


def test_constants_are_found_again() -> None:
    """Seconds made from known constants, with 2 % of noise, lead back to them."""
    rng = random.Random(1)
    true = {name: getattr(DEFAULT, name) * rng.choice([0.3, 0.5, 2.0, 4.0]) for name in MEASURED}
    amounts = [{name: rng.random() ** 4 * 1e6 * 1e-8 / getattr(DEFAULT, name) for name in MEASURED} for _ in range(300)]
    seconds = [sum(true[name] * row[name] for name in MEASURED) * rng.uniform(0.98, 1.02) for row in amounts]
    found = fit(amounts, seconds)
    for name in MEASURED:
        assert found[name] == pytest.approx(true[name], rel=0.4), name


def test_what_no_query_tells_stays_as_it_ships() -> None:
    found = fit([{"filter_row": 1e6}], [1e6 * DEFAULT.filter_row * 3])
    assert found["filter_row"] == pytest.approx(DEFAULT.filter_row * 3, rel=0.1)
    assert found["sort_row"] == pytest.approx(DEFAULT.sort_row)


def test_no_constant_leaves_its_bounds() -> None:
    assert fit([{"filter_row": 1e6}], [1e6 * DEFAULT.filter_row * 1000])["filter_row"] == DEFAULT.filter_row * 10
    assert fit([{"filter_row": 1e6}], [1e6 * DEFAULT.filter_row / 1000])["filter_row"] == DEFAULT.filter_row * 0.1


def test_a_small_calibration() -> None:
    """With little data the constants mean little, but all is run and every prediction is of its query."""
    found = calibrate(rows=20_000)
    assert found.seconds > 0
    assert len(found.measurements) == len({one.query for one in found.measurements}) > 15
    assert all(one.seconds > 0 and one.predicted > 0 for one in found.measurements)
    assert all(getattr(found.model, name) > 0 for name in MEASURED)


def test_it_is_kept(tmp_path: Path) -> None:
    path = calibration_path(tmp_path / "cache")
    assert load(path) == DEFAULT
    save(FOUND, path)
    assert load(path) == FOUND.model
    assert [file.name for file in path.parent.iterdir()] == [path.name], "nothing half-written is left"


@pytest.mark.parametrize("change", [{"format": 0}, {"duckdb": "0.1"}])
def test_a_file_of_another_time_is_not_used(tmp_path: Path, change: dict[str, object]) -> None:
    path = calibration_path(tmp_path)
    path.write_text(sealed({**FOUND.json(), **change}))
    assert load(path) == DEFAULT


def test_a_file_from_before_there_were_checksums_is_not_used(tmp_path: Path) -> None:
    path = calibration_path(tmp_path)
    path.write_text(json.dumps({**FOUND.json(), "format": 2}))
    assert load(path) == DEFAULT


def test_a_flipped_bit_is_told(tmp_path: Path) -> None:
    path = calibration_path(tmp_path)
    save(FOUND, path)
    text = path.read_bytes()
    path.write_bytes(text.replace(b"1e-06", b"1e-05"))
    with pytest.raises(ConfigError, match="checksum; run `qoop calibrate`"):
        load(path)


@pytest.mark.parametrize(
    "text", ["{", sealed({**FOUND.json(), "constants": {"build_row": 1}}),
             sealed({**FOUND.json(), "constants": dict.fromkeys(MEASURED, -1)})]
)  # fmt: skip
def test_a_broken_file_is_told(tmp_path: Path, text: str) -> None:
    path = calibration_path(tmp_path)
    path.write_text(text)
    with pytest.raises(ConfigError, match="qoop calibrate"):
        load(path)


def test_sessions_plan_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOOP_CACHE_DIR", str(tmp_path))

    def cost() -> CostModel:
        with qoop.connect(slots=1) as session:
            return session.prepare("SELECT 1").planning().cost

    assert cost() == DEFAULT
    save(FOUND, calibration_path())
    assert cost() == FOUND.model


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(calibration, "calibrate", lambda progress: FOUND)
    target = tmp_path / "found.json"
    assert main(["calibrate", "--json", str(target)]) == 0
    assert load(target) == FOUND.model
    assert "build_row" in capsys.readouterr().out
