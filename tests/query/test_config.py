"""Arguments win over the environment, which wins over defaults; bad values are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoop.adaptive.monitor.available import available_memory, available_slots
from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import parse_bytes, parse_seconds
from qoop.query.config import configure
from qoop.query.statements.settings import option, options


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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30 s", 30), ("500ms", 0.5), ("2 MIN", 120), ("1.5h", 5400), ("1 d", 86400), (7, 7)],
)
def test_lengths_of_time(text: float | str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("value", ["", "s", "-3 s", -1, "30 x", "soon", "nan", True])
def test_bad_lengths_of_time(value: float | str) -> None:
    with pytest.raises(ConfigError, match="not a length of time"):
        parse_seconds(value)


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


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, which is not there yet; the working directory is another folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "qoop").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "config" / "qoop" / "qoop.toml"


def test_the_users_own_file_may_set_everything_and_the_one_here_wins(own: Path, tmp_path: Path) -> None:
    own.write_text(f'slots = 3\nmemory = "1GB"\ncheckpoints = "{tmp_path}/c"\ntrace = "{tmp_path}/t"\n')
    config = configure()
    assert (config.slots, config.memory, config.checkpoints) == (3, 10**9, tmp_path / "c")
    assert config.files == (own,)
    Path("qoop.toml").write_text("slots = 4")
    config = configure()
    assert (config.slots, config.memory, config.checkpoints) == (4, 10**9, tmp_path / "c")
    assert config.files == (own, tmp_path / "here" / "qoop.toml")
    assert configure(environment={}).files == ()


@pytest.mark.parametrize("name", ["checkpoints", "spill", "plan_cache", "trace", "tables", "ray"])
def test_a_file_that_lies_here_says_not_where_to_write(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    here = tmp_path / "here" / "qoop.toml"
    here.write_text(f'{name} = "{tmp_path}/planted"')
    with pytest.raises(ConfigError, match=f"{here} may not set {name}.*Set {name} in {own}, as QOOP_{name.upper()}"):
        configure()
    monkeypatch.setenv("QOOP_CONFIG", "qoop.toml")  # the user says that it may
    assert str(getattr(configure(), name)) == f"{tmp_path}/planted"
    assert configure().files == (here,)


@pytest.mark.parametrize(
    "text", ['slots = "many"', 'memory = "2 XB"', "replan = 7", "slots = [1]", "= 1", "nothing = 1"]
)
def test_an_error_in_a_file_names_it(own: Path, text: str) -> None:
    for path in (Path("qoop.toml"), own):
        path.write_text(text)
        with pytest.raises(ConfigError, match=str(path.absolute())):
            configure()
        path.unlink()


def test_a_file_of_ten_thousand_brackets_is_not_toml(own: Path) -> None:
    own.write_text("slots = " + "[" * 10_000)
    with pytest.raises(ConfigError, match="is not TOML"):
        configure()
