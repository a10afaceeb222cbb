"""The shell on a terminal of its own: what is typed, and what is to be seen."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from screen import Screen

LONG = "SELECT a.k % 1000 AS g, sum(a.v * b.v) AS s FROM facts a JOIN facts b ON a.k = b.k GROUP BY g ORDER BY g"
SHORT = LONG.replace("GROUP BY", "WHERE a.k < 100000 GROUP BY")
"""The same on fewer rows: for queries that have to wait, however long they run then."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("data")
    with duckdb.connect() as made:
        made.execute(
            f"COPY (SELECT range AS k, range * 13 % 1009 AS v FROM range(3000000)) TO '{folder}/facts.parquet'"
        )
        made.execute(
            f"COPY (SELECT range AS item, 'tea' AS name, NULL::DATE AS since, range * 1.5 AS price, repeat('x', 60) "
            f"AS note FROM range(500)) TO '{folder}/items.parquet'"
        )
    return str(folder)


@pytest.fixture
def screen(data: str, tmp_path: Path) -> Iterator[Screen]:
    made = Screen(data, "--slots", "4", "--memory", "2GB", home=tmp_path)
    try:
        made.wait("2 tables")
        yield made
    finally:
        made.close()


def test_the_prompt_completes_colours_and_runs_several_lines(screen: Screen) -> None:
    screen.type("select pri from items{ctrl-c}")
    screen.wait_now("qoop>", times=2)
    screen.type("select count(*), max(pric{tab}")
    screen.wait("max(price")
    screen.type(") as top{enter}from ite{tab}")
    shown = screen.wait("from items", "...>")
    assert screen.colour_of("select count") == "blue", shown
    screen.type(";{enter}")
    shown = screen.wait("1 row")
    assert "748.5" in shown and "decimal" in shown and "500" in shown
    screen.type("{up}")
    screen.wait_now("select count(*), max(price) as top", "from items;", times=2)
    screen.type("{ctrl-c}\\d it{tab}")
    screen.wait_now("\\d items")
    screen.type("{enter}")
    assert "0.0%" in screen.wait("500 rows", "distinct", "since")
    screen.type("?{enter}")
    screen.wait("\\resize", "leave")
    screen.type("select 1,{enter}\\help mode{enter}")  # a command in the midst of a statement, which goes on behind it
    screen.wait("how they are printed")
    screen.type("\\help mode{enter}")  # and the next one, too: it stands on a line of its own
    screen.wait_now("how they are printed", times=2)
    screen.type("17 as nine;{enter}")
    screen.wait("nine", "17 │")
    screen.type("select 1{enter}\\q{enter}")
    assert screen.end() == 0


def test_an_error_underlines_the_word(screen: Screen) -> None:
    screen.type("select name, nothing from items;{enter}")
    lines = screen.wait("^^^^^^^").split("\n")
    place = next(number for number, line in enumerate(lines) if "^^^^^^^" in line)
    assert lines[place - 1].index("nothing") == lines[place].index("^^^^^^^")
    assert screen.colour_of("^^^^^^^") == "red"
    screen.type("select chr(937) answer;{enter}")
    screen.wait("answer", "Ω", "1 row")  # it goes on
    screen.type("\\nonsense{enter}\\resize slots=few{enter}\\d nothing{enter}")
    screen.wait("there is no command \\nonsense", "slots must be a whole number", "there is no table nothing")


def test_an_error_breaks_between_words(data: str, tmp_path: Path) -> None:
    screen = Screen(data, columns=50, lines=30, home=tmp_path)
    try:
        screen.wait("2 tables")
        screen.type("select sum(name::int) from items where name is not null and name <> '';{enter}")
        lines = [line.strip() for line in screen.wait("^^^").split("\n")]
        at = next(number for number, line in enumerate(lines) if line.startswith("Stage s1"))
        words = "Conversion Error: Could not convert string 'tea' to INT32 when casting from source column name"
        assert words in " ".join(lines[at : at + 6])
        assert sum(line.startswith("line 1: select sum(name::int)") for line in lines) == 1
    finally:
        screen.close()


def test_a_growing_answer_has_half_widths_and_the_history_of_its_rounds(screen: Screen) -> None:
    screen.type("set exact_within = 0; approximate within 5 percent select sum(v) as s from facts where k > 9;{enter}")
    shown = screen.wait("1 row")
    assert " read, 1 group, within " in shown and "± s" in shown and "s_low" not in shown and "% " in shown
    screen.type("approximate within 1 percent select k % 2 as g, sum(v) as s from facts group by g;{enter}")
    screen.wait("2 rows")
    screen.type("\\history{enter}")
    screen.wait("round 1, job", "round 2, job", "the job succeeded")


def test_a_sweep_of_a_file_is_shown_and_stopped_and_sql_reads_its_trials(screen: Screen, tmp_path: Path) -> None:
    path = tmp_path / "rates.toml"
    text = """
        step = "SELECT x - $rate * 2 * (x - 3.0) AS x FROM former"
        start = "SELECT 9.0::DOUBLE AS x"
        metric = "SELECT (x - 3.0) ^ 2 AS loss FROM former"
        direction = "minimize"
        most = %s
        [params]
        rate = [0.4, 0.01]
        k = {uniform = [0.0, %s]}"""
    path.write_text(text % (4, "'a'"))
    screen.type(f"\\sweep {path}{{enter}}")
    screen.wait("a range must go from")
    path.write_text((text % (1_000_000, 1.0)).replace("$rate", "$rate * ($k - $k + 1)"))
    screen.type(f"\\sweep {path}{{enter}}")
    screen.wait("it runs", "setting")
    screen.type("{ctrl-c}")
    assert "rate=0.4" in screen.wait("it was stopped", "FROM sweep('sweep1') reads the trials")
    screen.type("\\sweeps{enter}")
    screen.wait("0/10")
    screen.type("SELECT min(steps) > 1000 AS many FROM sweep('sweep1');{enter}")
    screen.wait("false")


@pytest.mark.parametrize("columns", [80, 160])
def test_tables_fit_the_screen(data: str, tmp_path: Path, columns: int) -> None:
    screen = Screen(data, columns=columns, lines=30, home=tmp_path)
    try:
        screen.wait("2 tables")
        screen.type("from items;{enter}")
        shown = screen.wait("500 rows, 21 of them shown")
        rows = [line for line in shown.split("\n") if line.startswith("│")]
        assert len(rows) == 2 + 21 + 1 and {len(row) for row in rows} == {len(rows[0])} and len(rows[0]) <= columns
        assert "NULL" in rows[3] and rows[-1].split()[1] == "499" and "decimal(" in rows[1]
        assert ("…" in rows[2]) == (columns == 80)
        screen.type("\\x{enter}from items limit 1;{enter}")
        screen.wait("name = tea", "since = NULL", "note = " + "x" * 60)
    finally:
        screen.close()


def test_a_query_changes_plan_before_the_eyes_of_who_resizes(screen: Screen) -> None:
    screen.type("\\resize slots=0 memory=200MB{enter}")
    screen.wait("queries now have 0 slots and 200 MB", "2 tables · 0 slots and 200 MB")
    screen.type(LONG + ";{enter}")
    screen.wait_now("0 of 1 tasks", "waits for a slot", "scan facts")
    screen.type("\\resize slots=4 memory=2GB{enter}")
    screen.wait("queries now have 4 slots and 2 GB")
    shown = screen.wait("switched plan", "1,000 rows", "the plan was changed once")
    assert "the share rose from 0 to 4 slots" in " ".join(screen.all_text.split())
    assert "waits for a slot" not in shown and "ends in" not in shown  # the view leaves nothing behind
    screen.type("\\jobs{enter}")
    screen.wait("succeeded", "100%")
    screen.type("\\history{enter}")
    screen.wait("the job succeeded")
    screen.type("\\alternatives{enter}")
    screen.wait("stages in common")


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


def test_answers_go_where_they_are_wanted(screen: Screen, tmp_path: Path) -> None:
    screen.type("\\mode csv{enter}select item, name from items order by item limit 2;{enter}")
    screen.wait("item,name", "1,tea")
    screen.type(f"\\save {tmp_path}/x.parquet{{enter}}.mode markdown{{enter}}select 1 as one;{{enter}}")
    screen.wait("2 rows in", "| one |")
    assert pq.read_table(tmp_path / "x.parquet").to_pydict() == {"item": [0, 1], "name": ["tea", "tea"]}
    screen.type(f"\\o {tmp_path}/out.json{{enter}}\\mode json{{enter}}select 7 as seven;{{enter}}\\o{{enter}}")
    screen.type("\\timing off{enter}")
    screen.wait("timing is off")
    assert (tmp_path / "out.json").read_text() == '[{"seven":7}]\n'
    (tmp_path / "two.sql").write_text("select 'first' as a; select 'second' as b;")
    screen.type(f"\\i {tmp_path}/two.sql{{enter}}")
    screen.wait('[{"a":"first"}]', '[{"b":"second"}]')


def test_habits_from_elsewhere_work_at_the_prompt(screen: Screen, tmp_path: Path) -> None:
    (tmp_path / "tea.csv").write_text("leaf,since,price\ngreen,2024-05-01,3.5\nblack,2023-01-31,2.25\n")
    screen.type(f".import {tmp_path}/te{{tab}}")
    screen._until(lambda: "tea.csv" in "".join(screen.all_text.split("\n...> ")), "the name of the file")
    screen.type(" teas{enter}")
    screen.wait("2 rows of", "are in teas")
    screen.type("\\set least 3{enter}select leaf, since, price from teas")
    screen.type(" where price > :le{tab}")
    screen.wait("where price > :least")
    screen.type(";{enter}")
    shown = screen.wait("1 row", "green")
    assert "2023-01-31" not in shown
    assert all(type_ in shown for type_ in ("varchar", "date", "double"))
    screen.type("\\watch 0.05{enter}")
    screen._until(lambda: screen.all_text.count("every 0.05 s; Ctrl-C ends it") > 2, "the query again and again")
    screen.type("{ctrl-c}")
    screen.type("\\! echo of $((6 * 7)){enter}")
    screen.wait("of 42")
    screen.type("\\q{enter}")
    assert screen.end() == 0


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
