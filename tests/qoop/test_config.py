"""Arguments win over the environment, which wins over defaults; bad values are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import parse_bytes
from qoop.config import available_memory, available_slots, configure
from qoop.settings import option, options


def test_defaults_are_this_machine() -> None:
    config = configure(environment={})
    assert config.slots == available_slots() >= 1
    assert config.memory == int(available_memory() * 0.8)
    assert (config.checkpoints, config.replan) == (None, True)


def test_the_environment_is_read_and_arguments_win(tmp_path: Path) -> None:
    environment = {"QOOP_SLOTS": "3", "QOOP_MEMORY": "1GiB", "QOOP_CHECKPOINTS": str(tmp_path), "QOOP_REPLAN": "no"}
    config = configure(environment=environment)
    assert (config.slots, config.memory, config.checkpoints, config.replan) == (3, 2**30, tmp_path, False)
    config = configure(slots=1, memory=10**9, replan=True, environment=environment)
    assert (config.slots, config.memory, config.replan) == (1, 10**9, True)


@pytest.mark.parametrize(
    ("text", "size"), [("500MB", 500_000_000), ("2 gb", 2 * 10**9), ("1.5GiB", 3 * 2**29), ("64", 64), ("8k", 8000)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("value", ["", "MB", "-1GB", "2 XB", "1GB2", "two"])
def test_bad_sizes(value: str) -> None:
    with pytest.raises(ConfigError, match="not a size"):
        parse_bytes(value)


@pytest.mark.parametrize("slots", [0, -1, 1.5, True, "many"])
def test_bad_slots(slots: int) -> None:
    with pytest.raises(ConfigError, match="slots"):
        configure(slots=slots, environment={})


def test_bad_words_and_too_little_memory() -> None:
    with pytest.raises(ConfigError, match="replan"):
        configure(environment={"QOOP_REPLAN": "perhaps"})
    with pytest.raises(ConfigError, match="at least"):
        configure(memory=1, environment={})


@pytest.mark.parametrize("name", options())
def test_every_option_has_a_default_that_it_accepts(name: str) -> None:
    assert option(name, option(name, None)[1]) == option(name, None)


def test_an_unknown_option_lists_what_exists() -> None:
    with pytest.raises(ConfigError, match=r"did you mean TimeZone.*default_null_order"):
        option("timezon", "UTC")
    with pytest.raises(ConfigError, match="threads"):
        option("threads", "4")


def test_a_value_that_duckdb_refuses() -> None:
    with pytest.raises(ConfigError, match="TimeZone cannot be 'Nowhere'"):
        option("TimeZone", "Nowhere")


def test_plans_go_with_the_checkpoints_unless_they_have_a_folder_of_their_own() -> None:
    nothing: dict[str, str] = {}
    assert configure(environment=nothing).plan_cache is None
    assert configure(checkpoints="/c", environment=nothing).plan_cache == Path("/c/plans")
    assert configure(checkpoints="/c", plan_cache="/p", environment=nothing).plan_cache == Path("/p")
