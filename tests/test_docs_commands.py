"""Every block of the documentation that can be run is: SQL on small data, command lines at least through the parser.

Python blocks run in `test_doctests.py`. A block that is none of `RUN` is shown only, and says so by being ```text or
having no language at all.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import qoop
from qoop.__main__ import _COMMANDS, _parser
from qoop.interfaces.commands.words import in_order
from qoop.interfaces.repl.commands import NAMES

pytestmark = pytest.mark.usefixtures("as_installed")

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
RUN = {"python", "sql", "qoop", "sh"}
"""Languages of blocks that are tested; `qoop` is what is typed into the shell."""
SHOWN = {"yaml", "", "text", "toml", "py"}
"""Not run from here: ```py is a program that needs a cluster, which `tests/ray/test_docs.py` gives it."""
TUTORIAL = ROOT / "docs" / "tutorial.md"
FEWER = 2000
"""By how much the tutorial's data is smaller here."""
_BLOCK = re.compile(r"^ *```(\w*).*?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_MAKE = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
_EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in _BLOCK.findall(page.read_text()) if found == language]


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a shell block; an operator begins a new one, what is redirected is left out."""
    text = re.sub(r"(^|\s)#.*", "", text.replace("\\\n", " "), flags=re.MULTILINE)
    words = shlex.shlex(text, posix=True, punctuation_chars="|&;<>\n")
    words.whitespace, words.whitespace_split = " \t", True
    command: list[str] = []
    for word in [*words, "\n"]:
        if set(word) <= set("|&;\n"):
            if command:
                yield command
            command = []
        else:
            command.append(word)


def without_redirection(command: list[str]) -> list[str]:
    place = next((place for place, word in enumerate(command) if word in (">", "<")), len(command))
    return command[:place]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_are_of_a_known_kind(page: Path) -> None:
    assert {language for language, _ in _BLOCK.findall(page.read_text())} <= RUN | SHOWN


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_command_lines_are_understood(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DIR", "data", "shop"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    for text in blocks(page, "sh"):
        for command in commands(text):
            understood(without_redirection(command))


def understood(command: list[str]) -> None:
    program, *words = command
    if program == "srun":
        understood(words)
    elif program == "qoop":
        try:
            words = in_order(words, _COMMANDS)
            _parser(words).parse_args(words)
        except SystemExit as stop:
            assert stop.code in (0, None), shlex.join(command)
    elif program == "make":
        assert {word for word in words if "=" not in word} <= _MAKE, shlex.join(command)
    elif program == "pip":
        assert set(re.findall(r"\w+", "".join(re.findall(r"\[(.*?)\]", shlex.join(words))))) <= _EXTRAS
    else:
        assert program in (
            "[",
            "cd",
            "curl",
            "echo",
            "export",
            "git",
            "ls",
            "mkdir",
            "psql",
            "ray",
            "scontrol",
            ".",
            "source",
        ), command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_the_shell_exist(page: Path) -> None:
    typed = [line.strip() for text in blocks(page, "qoop") for line in text.splitlines()]
    named = {line[1:].split()[0] for line in typed if line.startswith("\\")}
    assert named <= set(NAMES)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tutorial's data, made by its own commands, but of fewer rows."""
    folder = tmp_path_factory.mktemp("tutorial")
    made = [text for text in blocks(TUTORIAL, "sh") if "COPY" in text]
    assert made, "the tutorial makes no data"
    script = re.sub(r"\d{7,}", lambda found: str(int(found[0]) // FEWER), "\n".join(made))
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e"], input=script, cwd=folder, env=os.environ | {"PATH": programs}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "shop"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sql_runs(page: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*blocks(page, "sql"), *queries_typed(page)]
    if not texts:
        return
    data = request.getfixturevalue("shop")
    monkeypatch.chdir(data.parent)
    with qoop.connect(slots=2, memory="1GB") as session:
        session.register_folder(data)
        for text in texts:
            assert len(session.sql(text).columns) > 0, text


def queries_typed(page: Path) -> Iterator[str]:
    """The statements in what is typed into the shell; & at the end is the shell's own."""
    for text in blocks(page, "qoop"):
        query = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("\\")).strip()
        if query:
            yield query.removesuffix("&")


def test_the_demo_runs_its_query_again_while_the_machine_changes(tmp_path: Path, tpcds_small: Path) -> None:
    words = ["--data", str(tpcds_small.parent), "--scale", "0.01", "--picture", str(tmp_path / "demo.html")]
    ended = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "demo.py"), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    again = ended.stdout.partition("the same, begun with")[2]
    assert re.search(r"started: [1-9]\d* tasks? to run", again), ended.stdout  # its earlier answer does not serve
    assert "It is the answer that DuckDB gives" in again
    assert (tmp_path / "demo.html").exists()
