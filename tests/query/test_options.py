"""The table of options, and all that is made from it or written out from it."""

from __future__ import annotations

import re
import runpy
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

import qoop
from qoop.__main__ import _parser
from qoop.query.config import Config, configure
from qoop.query.options import FLAGS, IN_FILES, OPTIONS, SETTABLE, VARIABLES, ConnectOptions, SessionOption

ROOT = Path(__file__).parents[2]
TEXTS = {
    "slots": "3", "memory": "1GB", "checkpoints": "/c", "checkpoint_budget": "2GB", "checkpoint_full": "error",
    "persist": "worthwhile",
    "pack": "off", "statistics": "full", "tenant": "x", "tenants": "x=2", "priority": "7", "deadline": "30",
    "error_goal": "0.02", "confidence": "0.9", "exact_within": "5", "scheduler": "MaxMin()",
    "view_sharing": "fair",
    "most_jobs": "4", "most_queued": "9",
    "isolation": "process", "reuse": "yes", "spill": "/s", "replan": "no", "policy": "cheapest",
    "local_frames": "off", "watch_machine": "on",
    "wait_for_capacity": "7", "plan_cache": "/p", "trace": "/t", "tables": "/d", "ray": "auto", "ray_reserve": "no",
    "node_queue": "2", "exchange": "in-turn",
    "ray_tls": "on", "locked": "on", "staged": "on", "copy_to": "/a:/b", "guard": "always",
}  # fmt: skip
"""For each option a text that makes it another than usual."""


def test_connect_takes_the_arguments_of_the_table_and_explains_them() -> None:
    names = sorted(option.name for option in OPTIONS if option.argument)
    assert sorted(get_type_hints(ConnectOptions)) == names and "slots" in names
    assert sorted(re.findall(r"^    (\w+): ", ConnectOptions.__doc__ or "", re.MULTILINE)) == names


def test_an_option_that_does_not_exist_is_named_with_one_that_does() -> None:
    with pytest.raises(TypeError, match=r"no option slotz\. Did you mean slots\?"):
        qoop.connect(slotz=2)  # type: ignore[call-arg]


def test_what_connect_is_given_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    received: dict[str, object] = {}
    monkeypatch.setattr("qoop.session.opening.configure", lambda **arguments: received.update(arguments))
    monkeypatch.setattr("qoop.session.opening.Session", lambda config: config)
    arguments = {option.name: object() for option in OPTIONS if option.argument}
    qoop.connect(**arguments)  # type: ignore[arg-type]
    assert received == arguments


def test_a_configuration_has_a_field_for_every_option() -> None:
    assert {field.name for field in fields(Config)} == {option.field_name for option in OPTIONS} | {
        "files",
        "requested",
    }


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.text], ids=lambda option: option.name)
def test_an_option_means_the_same_wherever_it_is_set(
    option: SessionOption, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TEXTS[option.name]
    monkeypatch.delenv(option.variable, raising=False)  # the tests are staged
    value = getattr(configure(environment={option.variable: text}), option.field_name)
    assert value != getattr(configure(environment={}), option.field_name)
    assert getattr(configure(**{option.name: text}, environment={}), option.field_name) == value
    (tmp_path / "own.toml").write_text(f"{option.name} = {text!r}")
    monkeypatch.setenv("QOOP_CONFIG", str(tmp_path / "own.toml"))
    assert getattr(configure(), option.field_name) == value


def test_only_a_trusted_file_says_where_to_write_whose_machines_to_use_and_what_sql_may_do() -> None:
    trusted = {option.name for option in OPTIONS if option.trusted}
    assert trusted >= {"checkpoints", "spill", "plan_cache", "trace", "tables", "ray", "locked", "copy_to"}
    assert trusted <= set(IN_FILES)


@pytest.mark.parametrize("name", SETTABLE)
def test_set_and_reset_change_what_the_table_says(name: str) -> None:
    with qoop.connect(slots=2, memory="1GB") as session:
        session.sql(f"SET {name} = '{TEXTS[name]}'")
        session.sql(f"RESET {name}")
        with pytest.raises(qoop.ConfigError, match=f"Its options: .*{name}"):
            session.sql("SET nothing = 1")


def test_the_command_line_has_the_flags_of_the_table() -> None:
    words = [
        word for name, flag in FLAGS.items() for word in (f"--{name}", TEXTS[name]) if flag.metavar or word[0] == "-"
    ]
    found = vars(_parser(words).parse_args(words))
    assert {name: str(found[name]) for name in FLAGS} == {name: TEXTS[name] for name in FLAGS} | {
        "locked": "True",
        "staged": "True",
    }
    assert all(value is None for name, value in vars(_parser([]).parse_args([])).items() if name in FLAGS)


def test_the_documentation_has_the_table() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "options.py"))["written"]
    page = (ROOT / "docs" / "configure.md").read_text()
    assert all(f"`{option.name}`" in page for option in OPTIONS)
    assert page == written(page), "run: python docs/options.py"


def test_the_code_reads_no_variable_that_the_table_does_not_have() -> None:
    folders = ("catalog", "planner", "engine", "qoop", "tpcds")
    texts = [path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    named = {found for text in texts for found in re.findall(r"QOOP_[A-Z_]*[A-Z]", text)}
    assert len(named) > 5
    assert named <= {option.variable for option in OPTIONS if option.text} | set(VARIABLES)
    assert set(VARIABLES) <= named


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="slotz"):
        configure(slotz=3)
