"""The shell on a terminal of its own: what is typed, and what is to be seen."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from screen import Screen

LONG = "SELECT a.k % 1000 AS g, sum(a.v * b.v) AS s FROM facts a JOIN facts b ON a.k = b.k GROUP BY g ORDER BY g"


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
