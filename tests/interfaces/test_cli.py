"""The command line: what it prints where, and its exit codes."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qoop
from qoop.__main__ import main


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("data")
    pq.write_table(pa.table({"a": [1, 2, None], "b": ['say "x"', "y,z", None]}), folder / "t.parquet")
    return str(folder)


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "qoop", *words], capture_output=True, text=True, timeout=60, input="")


def test_a_query_prints_a_table(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", "SELECT sum(a) AS total FROM t", "--data", data, "--slots", "1", "--memory", "500MB"]) == 0
    out, err = capsys.readouterr()
    assert "total" in out and "3" in out and err == ""


def test_a_command_says_no_more_than_its_answer(data: str) -> None:
    """DuckDB 2 warns of copies, and complains at the end of the process of all that is still there."""
    done = call(data, "-c", "SELECT table_name FROM information_schema.tables; SELECT count(*) FROM t")
    assert done.stderr == "" and "│ t " in done.stdout


def test_a_word_that_is_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["nowhere"], ["--slots", "2", "nowhere", "-c", "SELECT 1"]):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert out == "" and err == "qoop: there is no file, folder or command 'nowhere': see qoop --help\n"


def test_an_option_that_does_not_exist_is_named_in_one_line(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words, near in ((["--slotss", "3"], "--slots"), (["--memry=1GB"], "--memory"), (["-o", "x.csv"], "")):
        assert main([data, *words, "-c", "-- of one line\nSELECT 1"]) == 2
        hint = f"; did you mean {near}?" if near else ": see qoop --help"
        assert capsys.readouterr().err == f"qoop: there is no option {words[0].partition('=')[0]}{hint}\n"
    assert main([data, "--slot=1", "--memory", "500MB", "-c", "-- of one line\nSELECT 1"]) == 0


def test_a_statement_without_rows_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", "CREATE VIEW v AS SELECT 7 AS n; CREATE SCHEMA s; FROM v"]) == 0
    out = capsys.readouterr().out
    assert "Success" not in out and "7" in out and out.count("1 row") == 1


def test_commands_of_the_shell_need_no_terminal(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([data, "-c", "\\d"]) == 0
    assert "│ t " in capsys.readouterr().out
    file = tmp_path / "report.sql"
    file.write_text(
        f".mode csv\n.headers off\n-- all\nSELECT b,\n  a FROM t\n  WHERE b <> '\n.d';\n.once {tmp_path}/sum.csv\n"
        "SELECT sum(a) FROM t;\n.nullvalue ?\nSELECT max(b) FROM t WHERE a IS NULL\n"
    )
    assert main([data, "-f", str(file)]) == 0
    assert capsys.readouterr() == ('"say ""x""",1\n"y,z",2\n?\n', "")
    assert (tmp_path / "sum.csv").read_text() == "3\n"
    assert main([data, "-c", "\\x\n\\nonsense\nSELECT 1"]) == 1
    assert capsys.readouterr() == ("", "qoop: there is no command \\nonsense; \\help lists them\n")
    assert main([data, "-c", "SELECT 42 AS answer;\n\\q\nSELECT nothing"]) == 0
    assert "42" in capsys.readouterr().out
    assert main(["-c", "SELECT '\n\\d' AS no_command"]) == 0
    assert "no_command" in capsys.readouterr().out


def test_help_shows_where_the_data_stands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "usage: qoop [DIR ...] [-c SQL | -f FILE]" in capsys.readouterr().out


def test_csv_can_be_read_back(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "SELECT b, b, a::HUGEINT AS a, [a] AS l, DATE '2020-01-02' AS d FROM t ORDER BY a"
    assert main(["-c", text, "--data", data, "--format", "csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows == [
        ["b", "b", "a", "l", "d"],
        ['say "x"', 'say "x"', "1", "[1]", "2020-01-02"],
        ["y,z", "y,z", "2", "[2]", "2020-01-02"],
        ["", "", "", "[NULL]", "2020-01-02"],
    ]


def test_json_can_be_read_back(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", "SELECT a, a, b, [a] AS l FROM t ORDER BY a LIMIT 2", "--data", data, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"a": 1, "a_1": 1, "b": 'say "x"', "l": [1]},
        {"a": 2, "a_1": 2, "b": "y,z", "l": [2]},
    ]
    assert main(["-c", "SELECT 1 AS x WHERE false", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_the_text_can_come_from_standard_input(monkeypatch: pytest.MonkeyPatch, data: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "qoop", "--data", data, "--format", "csv"],
        capture_output=True,
        text=True,
        timeout=60,
        input="SELECT count(*) AS n FROM t",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "n\n3\n", "")


def test_explain_prints_the_plan(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-c", "SELECT count(*) FROM t", "--data", data]) == 0
    assert "t" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--slots", "1", "DATA", "-c", "SELECT sum(a) AS total FROM t"],
        ["--slots=1", "--locked", "DATA", "-c", "SELECT sum(a) AS total FROM t"],
        ["-c", "SELECT sum(a) AS total FROM t", "DATA"],
        ["DATA", "-f", "FILE"],
    ],
)
def test_options_and_data_stand_in_any_order(
    words: list[str], data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "total.sql").write_text("SELECT sum(a) AS total FROM t")
    assert main([*(_placed(word, data, tmp_path) for word in words), "--format", "csv"]) == 0
    assert capsys.readouterr().out == "total\n3\n"


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "DATA", "-c", "SELECT sum(a) AS total FROM t"],
        ["explain", "--alternatives", "DATA", "-f", "FILE"],
        ["DATA", "--slots", "1", "explain", "--diff", "A,A", "-f", "-"],
        ["explain", "DATA"],
    ],
)
def test_explain_takes_data_and_text_as_a_query_does(
    words: list[str], data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "total.sql").write_text("SELECT sum(a) AS total FROM t")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"SELECT sum(a) AS total FROM t")))
    assert main([_placed(word, data, tmp_path) for word in words]) == 0
    assert "s1" in capsys.readouterr().out


def _placed(word: str, data: str, folder: Path) -> str:
    return {"DATA": data, "FILE": str(folder / "total.sql")}.get(word, word)


def test_explain_as_a_statement_prints_lines_and_no_table(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([data, "-c", "EXPLAIN SELECT count(*) FROM t"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2 and lines[0].startswith("s1") and not any("\\n" in line or "│" in line for line in lines)


def test_tables_of_a_database_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "x.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE inside AS SELECT 5 AS five")
    assert main(["-c", "FROM inside", "--data", path, "--format", "csv"]) == 0
    assert capsys.readouterr().out == "five\n5\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-c", "SELEC 1"], "syntax error"),
        (["-c", "SELECT * FROM nothing"], "nothing"),
        (["-c", "SELECT 'x'::INTEGER"], "x"),
        (["-c", "SELECT 1", "--data", "/no/such/folder"], "/no/such/folder"),
        (["-c", ""], "no statement"),
    ],
)
def test_our_errors_are_one_message_and_exit_code_1(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("qoop: ") and message in err and "Traceback" not in err


def test_a_corrupt_file_is_a_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 not really PAR1")
    assert main(["-c", "FROM t", "--data", str(tmp_path)]) == 1
    assert "t.parquet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["explain", "--nonsense"], "qoop explain: there is no option --nonsense: see qoop explain --help"),
        (["tpcds", "run", "--slotz=2"], "qoop tpcds run: there is no option --slotz; did you mean --slots?"),
        (["tpcds", "generate", "--", "x", "--y"], "qoop: unrecognized arguments: --y: see qoop --help"),
        (["tpcds", "gen"], "qoop tpcds: argument COMMAND: there is no 'gen'; did you mean generate?"),
        (["tpcds"], "qoop tpcds: a command is needed: see qoop tpcds --help"),
        (["explian"], "qoop: there is no file, folder or command 'explian'; did you mean explain?"),
        (["explain", "--format", "pdf"], "there is no 'pdf'; there are text, json, svg, html: see qoop explain --help"),
        (["-c", "SELECT 1", "--slots", "many"], "qoop: argument --slots: "),
        (["explain", "-c", "", "-f", "x"], "qoop explain: give either -c or -f: see qoop explain --help"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    error = capsys.readouterr().err
    assert code == 2 and line in error and error.count("\n") == 1, error


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--version"])
    assert raised.value.code == 0
    assert capsys.readouterr().out == f"qoop {qoop.__version__} on DuckDB {duckdb.__version__}\n"


def test_the_module_runs_as_a_program_without_colours_or_bars(data: str) -> None:
    done = call("-c", "SELECT count(*) AS n FROM t a, t b, range(3000000)", "--data", data, "--format", "csv")
    assert (done.returncode, done.stdout, done.stderr) == (0, "n\n27000000\n", "")


ENDING = """
import atexit, sys, threading
from qoop.__main__ import command
atexit.register(print, "exit handler")
threading.Thread(target=lambda: (threading.main_thread().join(), print("thread"))).start()
sys.argv = ["qoop", "-c", {text!r}, "--format", "csv"]
command()
"""


@pytest.mark.parametrize(
    ("text", "code", "answer"), [("SELECT 42 AS n", 0, ["n", "42"]), ("SELECT n", 1, []), ("SELEC", 1, [])]
)
def test_a_process_ends_by_its_code_after_threads_and_exit_handlers(text: str, code: int, answer: list[str]) -> None:
    ending = [sys.executable, "-c", ENDING.format(text=text)]
    done = subprocess.run(ending, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.splitlines()) == (code, [*answer, "thread", "exit handler"])
    assert bool(done.stderr) == (code != 0)


def test_a_reader_that_has_enough_is_no_error(data: str) -> None:
    command = f"{sys.executable} -m qoop -c 'FROM range(300000)' --format csv | head -2"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "range\n0\n", "")


def test_of_a_folder_only_the_tables_are_opened_that_the_text_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"i": [1, 2]}), tmp_path / "Orders.parquet")
    pq.write_table(pa.table({"i": [3, 4]}), tmp_path / "my items.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    text = 'SELECT sum(o.i) AS a, sum(m.i) AS b FROM orders o, "my items" m'
    assert main([str(tmp_path), "--format", "csv", "-c", text]) == 0
    assert capsys.readouterr().out.splitlines() == ["a,b", "6,14"]
    for text in ("SHOW TABLES", "FROM broken", "FROM other"):
        assert main([str(tmp_path), "-c", text]) == 1
        assert "broken.parquet is not a Parquet file" in capsys.readouterr().err


def test_an_unknown_table_is_told_with_those_that_no_statement_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("orders", "items"):
        pq.write_table(pa.table({"i": [1, 2]}), tmp_path / f"{name}.parquet")
    assert main([str(tmp_path), "-c", "SELECT 1 FROM orders; FROM item"]) == 1
    told = capsys.readouterr().err
    assert 'Did you mean "items"' in told and "Tables here: items, orders" in told


@pytest.mark.parametrize(
    "words",
    [
        "run --until-done --for banana x",
        "run --until-done --grace banana x",
        "run --until-done --slots 0 x",
        "runs place --shrink-to lots",
        "serve --memory lots",
        "--memory lots -c SELECT(1)",
        "explain --slots 0 -c SELECT(1)",
    ],
)
def test_a_value_that_an_option_does_not_take_is_wrong_usage(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("qoop: ")
