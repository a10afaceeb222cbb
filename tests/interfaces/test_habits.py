"""Commands of the shell that people bring from psql and DuckDB."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import duckdb
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import qoop
from qoop.interfaces.repl.commands import GROUPS
from qoop.interfaces.repl.interactive import InteractiveShell as Shell
from qoop.query.drawing.terminal import Terminal


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QOOP_HISTORY", str(tmp_path_factory.mktemp("h") / "h"))
        made = Shell(lambda: pytest.fail("it is open"))
    with (
        create_pipe_input() as keys,  # which stays open: a query that takes long on a busy machine reads it
        create_app_session(input=keys, output=DummyOutput()),
        qoop.connect(slots=1, memory="1GB") as session,
    ):
        made._opened.set_result(session)
        made.timing = False
        yield made


@pytest.fixture
def do(shell: Shell) -> Callable[[str], str]:
    def done(*texts: str) -> str:
        with redirect_stdout(io.StringIO()) as told:
            for text in texts:
                shell.handle(text)
        return told.getvalue()

    return done


def one_line(text: str) -> str:
    """A message as it was before it was broken at the edge of the screen: paths are of any length."""
    return " ".join(text.split())


def editor(folder: Path, lines: str) -> str:
    """A program that edits the file it is given as a user would."""
    path = folder / "editor"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_variables_are_written_out_and_told(do: Callable[..., str], shell: Shell) -> None:
    assert "42" in do("\\set least 41", "SELECT :least + 1 AS answer;")
    assert "it's" in do("\\set word 'it''s'", "SELECT :'word' AS w;") and shell.variables["word"] == "it's"
    assert do("\\set") == "least = 41\nword = it's\n"
    assert do("\\unset least", "\\set") == "word = it's\n"
    assert "there is no variable least; there are: word" in do("\\unset least")
    assert "no name for a variable" in do("\\set 1x 2")
    told = do("\\set n 2", "SELECT [7, 8, 9][1:n] AS s, n, {'k':n} AS t, :n + 40 AS m FROM (SELECT 3 AS n);")
    assert "[7, 8, 9]" in told and "{'k': 3}" in told and "42" in told, "slices and structs stay"
    do("\\unset n")


def test_the_editor_has_the_last_query_and_what_is_whole_runs(
    do: Callable[..., str], shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    do("SELECT 17 AS before;")
    monkeypatch.setenv("EDITOR", editor(tmp_path, 'sed -i "s/before/afterwards/; s/$/;/" "$1"'))
    monkeypatch.delenv("VISUAL", raising=False)
    assert "afterwards" in do("\\e")
    monkeypatch.setenv("EDITOR", editor(tmp_path, 'printf "SELECT 1," > "$1"'))
    assert do("\\e") == "" and shell._begun_text == "SELECT 1,\n"
    do("SELECT 19 AS saved -- as it was")
    monkeypatch.setenv("EDITOR", "true")
    assert "19 │" in do("\\e"), "a query that is saved unchanged runs"
    shell._begun_text = ""
    monkeypatch.setenv("EDITOR", editor(tmp_path, "exit 3"))
    assert "has ended with 3; nothing is taken over" in one_line(do("\\e"))
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    assert "cannot run the editor /no/such/editor" in do("\\e")


def test_options_of_duckdbs_are_told_by_our_names(do: Callable[..., str], shell: Shell) -> None:
    assert do("SET memory_limit = '500MB';") == "memory_limit means memory here\n" and do("SET memory = '1GB';") == ""
    assert shell.session.available.memory == 5e8  # half of it is for outputs


def test_a_query_runs_again_and_again(do: Callable[..., str]) -> None:
    told = do("SELECT 5 AS five;", "\\watch 0.01 3")
    assert told.count("every 0.01 s; Ctrl-C ends it") == 3 and told.count("five") == 4
    for wrong in ("often", "nan", "inf", "-1", "1 0", "1 -2", "1 2 3"):
        assert f"such as \\watch 5 or \\watch 0.5 10, not {wrong}" in do(f"\\watch {wrong}")


def test_jobs_show_no_columns_that_are_empty(do: Callable[..., str]) -> None:
    told = do("SELECT 23 AS n;", "\\jobs")
    assert "succeeded" in told and "time" in told
    assert "tenant" not in told and "due" not in told, "no query has a deadline or a tenant"


def test_programs_run(
    do: Callable[..., str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    told = do("\\! echo from a program", "\\!echo again", "\\! exit 4")
    assert capfd.readouterr().out.splitlines() == ["from a program", "again"]
    assert told == "it has ended with 4\n"


def test_a_file_becomes_a_table_and_then_more_of_it(do: Callable[..., str], shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "tea's.csv"
    path.write_text("item,price\ntea,3\nrice,2\n")
    assert "are in goods" in one_line(do(f'.import "{path}" goods'))
    assert "are in goods" in one_line(do(f'.import "{path}" goods'))
    assert "4" in do("SELECT count(*) AS n FROM goods;")
    assert path.name not in do("\\d") and str(path) not in shell._known_names().tables, "it was read, and is no table"
    assert f"\\register {path}" in " ".join(do(f"\\d {path}").split())
    assert ".import FILE TABLE" in do(".import lonely")
    assert os.path.basename(path) in do(f'.import "{path}x" other')


@pytest.mark.parametrize("width", [80, 120])
def test_help_fits_the_screen_and_says_all(
    do: Callable[..., str], shell: Shell, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(shell, "terminal", lambda: Terminal(width=width))
    told = do("\\help")
    assert max(map(len, told.splitlines())) <= width
    words = " ".join(told.split())
    for command in (one for _, commands in GROUPS for one in commands):
        assert " ".join(command.help.split()) in words, command.names


def test_answers_look_as_the_user_likes_them(do: Callable[..., str], shell: Shell, tmp_path: Path) -> None:
    query = "SELECT 'tea' AS leaf, NULL::INTEGER AS price FROM range(4);"
    assert "none" in do(".nullvalue none", query) and "NULL" not in do(query)
    assert "leaf" not in do(".headers off", query) and "tea" in do(query)
    assert do(".mode csv", query).endswith("\n" + 4 * "tea,none\n")
    many = do("SELECT CASE WHEN range % 2 = 0 THEN range END FROM range(2000);").splitlines()  # DuckDB makes the lines
    assert many[:2] == ["0", "none"] and len(many) == 2000
    assert do(f".once {tmp_path}/one.csv", query, "SELECT 42;") == "42\n"
    assert (tmp_path / "one.csv").read_text() == 4 * "tea,none\n"
    do(".nullvalue", ".headers on", ".mode table")
    assert "4 rows, 2 of them shown" in do(".maxrows 2", query) and "NULL" in do(query)
    assert len(do(".width 20 0", ".maxrows", query).splitlines()[0]) == 20 + len("price") + 2 + 7
    do(".width")
    assert "on or off, not 'maybe'" in do(".headers maybe") and "not 'few'" in do(".maxrows few", ".width few")
    assert "memory" in do(".databases") and f"DuckDB {duckdb.__version__}" in do(".version")


def test_a_file_of_commands_and_statements_is_read(do: Callable[..., str], tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner.sql", tmp_path / "outer.sql"
    inner.write_text("-- an inner one\n.headers on\n")
    outer.write_text(f".headers off\nSELECT 'before'\n  AS word;\n.read {inner}\nSELECT 'after' AS word;\n")
    told = do(f".read {outer}")
    assert told.count("word") == 1 and told.index("before") < told.index("word") < told.index("after")
    inner.write_text(f".read {outer}\n")
    assert "reads itself" in do(f".read {outer}", ".headers on")
