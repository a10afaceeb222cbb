"""A few tries of the attacks, and proof that they bite. `make attack` does thousands."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from attack_outcome import Outcome

QUICK = {"texts": 60, "files": 20}
"""Series that need neither long nor a machine of a kind, and how often they are tried here."""


def the_attack() -> ModuleType:
    """`python tests/attack`, as a module."""
    spec = importlib.util.spec_from_file_location("the_attack", Path(__file__).parent / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [name for name in the_attack().known() if name in QUICK])
def test_some_tries_of_a_series_hold(name: str, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    code = the_attack().main(["--series", name, "--seed", str(seed), "--runs", str(QUICK[name])])
    told = capsys.readouterr().out
    assert code == 0, told
    assert str(QUICK[name]) in told


def test_every_series_has_the_function_of_its_name() -> None:
    attack = the_attack()
    assert "texts" in attack.known()
    assert all(callable(attack.attack(name)) for name in attack.known())


def test_what_does_not_hold_is_told_and_makes_the_command_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(folder: Path, seed: int, count: int) -> Iterator[Outcome]:
        yield from (Outcome("texts", number != 1, f"seed {seed}, try {number}") for number in range(count))

    attack = the_attack()
    monkeypatch.setattr(attack, "attack", lambda name: broken)
    assert attack.main(["--series", "texts", "--seed", "7", "--runs", "3"]) == 1
    told = capsys.readouterr().out
    assert "seed 7, try 1" in told
    assert "make attack SERIES=texts SEED=7 RUNS=3" in told


def test_a_series_without_a_try_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = the_attack()
    monkeypatch.setattr(attack, "attack", lambda name: lambda folder, seed, count: iter(()))
    assert attack.main(["--series", "texts", "--seed", "7"]) == 1
