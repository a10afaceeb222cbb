"""The shell on a terminal: lines typed ahead, pastes, keys, and jobs in the background.

No version of DuckDB changes any of it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from screen import Screen

LONG = "SELECT a.k % 1000 AS g, sum(a.v * b.v) AS s FROM facts a JOIN facts b ON a.k = b.k GROUP BY g ORDER BY g"
SHORT = LONG.replace("GROUP BY", "WHERE a.k < 100000 GROUP BY")
"""The same on fewer rows: for queries that have to wait, however long they run then."""


def begin_without_a_slot(screen: Screen) -> None:
    """A query runs, and ends only once there are slots."""
    screen.type("\\resize slots=0{enter}")
    screen.wait("0 slots")
    screen.type(SHORT + ";{enter}")
    screen.wait_now("waits for a slot")


def test_ctrl_c_cancels_the_query_and_not_the_program(screen: Screen) -> None:
    begin_without_a_slot(screen)
    screen.type("{ctrl-c}")
    screen.wait("the job was cancelled")
    screen.type("\\resize slots=2{enter}select chr(937) answer;{enter}")
    screen.wait("answer", "Ω")
    screen.type("\\q{enter}")
    assert screen.end() == 0


def test_what_is_typed_while_a_query_runs_waits_for_its_turn(screen: Screen) -> None:
    begin_without_a_slot(screen)
    screen.type("select chr(937) answer;{enter}")
    screen.wait_now("then select chr(937) answer;")
    pasted = "select count(*)\nas many\nfrom items;\n.headers off\nselect 'a row''s text';"
    screen.type(f"\x1b[200~{pasted}\x1b[201~{{enter}}")  # as terminals mark what is pasted
    screen.wait_now("answer; · select count(*) as many from items; · .headers…")
    screen.type("select price{enter}from items{enter}where item = 3;{enter}select 1 as begun")  # as those without marks
    screen.wait_now("> select 1 as begun")
    screen.type("{enter}\\jobs{enter}")  # in the midst of it: what the command says comes at once
    screen.wait("│ job1")
    assert "Ω" not in screen.text and "Traceback" not in screen.all_text
    screen.type("\\resize slots=4{enter}")
    shown = screen.wait("1,000 rows", "Ω", "many", "500", "a row's text", "4.5")
    assert "Unhandled" not in screen.all_text
    order = [
        "qoop> select chr(937) answer;",
        "qoop> select count(*)",
        "...> as many",
        "qoop> select price",
        "...> where",
    ]
    places = [screen.all_text.index(line) for line in order]
    assert places == sorted(places), shown
    screen.wait("qoop> select 1 as begun")  # what was not ended is at the prompt
    screen.type(", 17 as more;{enter}")
    screen.wait("17")
    screen.type("\\jobs{enter}")
    screen.wait_now("running", times=0)


def test_ctrl_c_drops_what_was_typed_ahead_and_the_history_has_it(screen: Screen) -> None:
    begin_without_a_slot(screen)
    screen.type("select chr(937) answer;{enter}")
    screen.wait_now("then select chr(937) answer;")
    screen.type("{ctrl-c}")
    screen.wait("the job was cancelled", "what was typed ahead is not run")
    screen.type("\\resize slots=4{enter}")
    screen.wait("queries now have 4 slots")
    assert "Ω" not in screen.all_text
    screen.type("{up}{up}{enter}")
    screen.wait("Ω")


def test_what_was_typed_ahead_runs_when_the_query_is_sent_back_and_leaves_at_its_end(screen: Screen) -> None:
    begin_without_a_slot(screen)
    screen.type("\\d items{enter}\\watch 0.1 2{enter}\\q{enter}")
    screen.wait("500 rows")  # at once: it does not wait
    screen.wait_now("then \\watch 0.1 2 · \\q")
    screen.type("\\resize slots=4{enter}")
    screen.wait("every 0.1 s")
    assert screen.end() == 0
    assert screen.all_text.count("1,000 rows") == 3


def test_a_paste_of_several_lines_holds_commands_and_statements(screen: Screen) -> None:
    pasted = (
        "\\pset\n-- rows of it\n.nullvalue none\nselect since,\n\\help mode\nname from items limit 1;\n\n"
        ".maxrows 2\nfrom items;"
    )
    screen.type(f"\x1b[200~{pasted}\x1b[201~{{enter}}")
    screen.wait("there is no command \\pset")
    pasted = pasted.partition("\n")[2]
    screen.type(f"\x1b[200~{pasted}\x1b[201~{{enter}}")
    shown = screen.wait("how they are printed", "none", "tea", "500 rows, 2 of them shown")
    assert "NULL" not in shown


def test_jobs_in_the_background_are_followed_fetched_and_cancelled(screen: Screen) -> None:
    screen.type("\\resize slots=0{enter}")
    screen.wait("0 slots")
    screen.type("select count(*) as n from facts &{enter}")
    screen.wait("job1 runs in the background")
    screen.type(LONG + ";{enter}")
    screen.wait_now("0 of 1 tasks", "Ctrl-C cancels")  # the prompt, too, says that job1 waits for a slot
    screen.type("{ctrl-z}")
    screen.wait("job2 goes on in the background")
    screen.type("\\cancel job2{enter}")
    screen.wait("job2 ended: the job was cancelled")
    screen.type("\\q{enter}")
    screen.wait("job1 still running")
    screen.type("\\resize slots=2{enter}")
    screen.wait("job1 is done", "1 row in")
    screen.type("\\fg 1{enter}")
    screen.wait("3000000")
    screen.type("{ctrl-d}")
    assert screen.end() == 0


def test_keys_that_the_terminal_makes_signals_of_while_a_line_is_printed_do_the_same(screen: Screen) -> None:
    begin_without_a_slot(screen)
    screen.signal(signal.SIGTSTP)
    screen.wait("job1 goes on in the background")
    screen.type("\\fg{enter}")
    screen.wait_now(
        "0 of 1 tasks", "Ctrl-C cancels"
    )  # in front again: the last line of the prompt says why it waits, too
    screen.signal(signal.SIGINT)
    screen.wait("the job was cancelled")
    screen.type("select chr(937) answer &{enter}")  # it goes on
    screen.wait("job2 runs in the background")


def test_a_job_is_suspended_and_goes_on(screen: Screen) -> None:
    screen.type("\\resize slots=0{enter}")
    screen.wait("0 slots")
    screen.type("\\bg select count(*) as n, sum(v) as s from facts;{enter}")
    screen.wait("job1 runs in the background")
    screen.type("\\suspend{enter}")
    screen.wait("job1 is suspended to")
    screen.type("\\resume{enter}")
    screen.wait("job2 goes on in the background")
    screen.type("\\resize slots=2{enter}\\fg{enter}")
    screen.wait("3000000", "1 row")


def test_data_that_is_not_there_ends_it_with_a_message(tmp_path: Path) -> None:
    screen = Screen(str(tmp_path / "missing"), home=tmp_path)
    assert screen.end() == 1
    assert "there is no" in screen.all_text and "Traceback" not in screen.all_text
    (tmp_path / "bad").mkdir()
    screen = Screen(str(tmp_path / "bad"), columns=160, home=tmp_path)
    assert screen.end() == 1
    assert "holds no tables" in screen.all_text and "Traceback" not in screen.all_text


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_colours_can_be_read_on_white_and_there_are_none_if_none_are_wanted(
    data: str, tmp_path: Path, no_colour: str
) -> None:
    screen = Screen(data, home=tmp_path, NO_COLOR=no_colour)
    try:
        screen.wait("2 tables")
        screen.type("select nothing from items;{enter}")
        screen.wait("^^^^^^^")
        screen.type("select 'tea', 42, count(*) from items")
        screen.wait("count(*)")
        if not no_colour:
            screen._until(lambda: {"red", "blue", "green", "magenta"} <= screen.colours(), "all colours")
        seen = screen.colours() - {"default"}
        assert not (seen and no_colour)
        assert not seen & {"brown", "cyan", "white"}  # brown: what pyte calls yellow
    finally:
        screen.close()


@pytest.mark.slow
def test_the_shell_says_what_other_programs_take_until_it_is_told_what_to_use(data: str, tmp_path: Path) -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    screen = Screen(data, "--slots", "4", "--memory", "1GB", columns=160, home=tmp_path, QOOP_WATCH_MACHINE="on")
    try:
        screen.wait_now("other programs take", "cpus", "2 tables")
        screen.type("\\resize slots=0{enter}")
        screen.wait("0 slots")
        screen.type(LONG + ";{enter}")
        screen.wait_now("waits for a slot")
        screen.type("\\resize auto{enter}")  # in the line below the query: the resources that the machine has
        screen.wait("queries now have", "↕ other programs take", "1,000 rows")
        screen.type("\\resize slots=4{enter}")
        screen.wait_now("queries now have 4 slots")
    finally:
        screen.close()
        for process in busy:
            process.kill()
            process.wait()
