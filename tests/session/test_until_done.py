"""A query that survives its processes: they stop in time, or are killed, and the next one goes on."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from facts_table import TEXT, WAITS, expected, write_facts
from waits import until

import qoop
from qoop.__main__ import main
from qoop.query.result import Result


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_facts(tmp_path_factory.mktemp("data"))


def session(data: Path, place: Path, slots: int = 2, memory: str = "500MB") -> qoop.Session:
    return qoop.connect(data, slots=slots, memory=memory, checkpoints=place, staged=True)


def command(text: str, data: Path, place: Path, *more: str) -> list[str]:
    return ["run", text, str(data), "--until-done", "--checkpoints", str(place), "--notices", "none", *more]


def registered(found: qoop.Session, gate: threading.Event) -> None:
    """A function whose tasks last until the gate is open."""

    def later(total: int) -> int:
        gate.wait(60)
        return total

    found.register_function("later", later, ["BIGINT"], "BIGINT", version="1")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_stops_a_run_and_the_next_one_goes_on(
    data: Path, tmp_path: Path, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    place, gate = tmp_path / "place", threading.Event()

    def stop() -> None:
        until(lambda: any(place.glob("*.json")))
        listed(place)
        subprocess.run([sys.executable, "-m", "qoop", "runs", str(place), "--shrink-to", "0"], check=True)
        signal.pthread_kill(threading.main_thread().ident or 0, number)
        threading.Timer(0.6, gate.set).start()

    with session(data, place) as first:
        registered(first, gate)
        thread = threading.Thread(target=stop)
        thread.start()
        life = first.run_until_done(WAITS, grace=0.4, notices="none")
        thread.join()
    assert not life.done and life.result is None
    assert life.message.startswith(f"stopped by {number.name}: ") and life.message.endswith("the same command goes on")
    assert any(place.glob("*.json")), "what a living run needs is not removed"
    [line] = listed(place)
    assert line.startswith("stopped  ") and "life 1" in line and " 0 of" not in line
    said: list[str] = []
    with session(data, place, memory="300MB") as second:
        registered(second, gate)
        life = second.run_until_done(WAITS, say=said.append, notices="none")
    assert life.done and life.result is not None and life.result.fetchall() == expected(data)
    assert any(line.startswith("continued: ") for line in said), said
    assert listed(place) == []
    assert main(["runs", str(place), "--remove-older", "0"]) == 0 and not list(place.glob("*.arrow"))


EARLY = """
import os, signal, sys

class Sends:
    def find_spec(self, name, *_):
        if name == "_duckdb":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Sends())
from qoop.__main__ import command
command()
"""


def test_a_signal_that_comes_while_the_command_starts_stops_it_in_time(data: Path, tmp_path: Path) -> None:
    same = command(TEXT, data, tmp_path / "place")
    ended = subprocess.run([sys.executable, "-c", EARLY, *same], capture_output=True, text=True, check=False)
    assert ended.returncode == 75 and "stopped by SIGTERM: " in ended.stderr, ended.stderr


def listed(place: Path) -> list[str]:
    command = [sys.executable, "-m", "qoop", "runs", str(place)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_the_end_of_its_time_is_exit_code_75_and_the_same_command_ends_the_query(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, out = tmp_path / "place", tmp_path / "answer.parquet"
    same = command(TEXT, data, place, "--out", str(out))
    assert main([*same, "--for", "1ms"]) == 75
    assert "stopped by the end of its time: " in capsys.readouterr().err and not out.exists()
    assert main(["runs", str(place)]) == 0 and " 0 of " in capsys.readouterr().out
    assert main(same) == 0
    assert duckdb.sql(f"FROM '{out}'").fetchall() == expected(data)
    assert main(same) == 1 and f"{out} exists: --replace" in capsys.readouterr().err
    assert main([*same, "--replace"]) == 0
    assert main(command(TEXT, data, place, "--out", "answer.xlsx")) == 1
    assert "its ending must be .parquet, .csv, .json" in capsys.readouterr().err
    assert main(command(TEXT, data, place, "--out", "answer")) == 1
    assert "the table answer needs a folder" in capsys.readouterr().err
    runs = command("SELECT 1::HUGEINT AS v, error('it runs')", data, place, "--out", "answer")
    monkeypatch.setenv("QOOP_TABLES", str(tmp_path / "tables"))
    assert main(runs) == 1
    assert "it would change v of HUGEINT; cast it" in capsys.readouterr().err


def test_an_answer_that_was_written_by_a_killed_process_is_not_made_again(data: Path, tmp_path: Path) -> None:
    place, out = tmp_path / "place", tmp_path / "answer.parquet"
    script = (
        "import os, sys, qoop\n"
        "from qoop.session import lives\n"
        "lives.RunLives.end = lambda self, answered: os.kill(os.getpid(), 9)\n"
        "with qoop.connect(sys.argv[1], slots=1, checkpoints=sys.argv[2]) as found:\n"
        "    found.run_until_done(sys.argv[3], out=sys.argv[4])\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(data), str(place), TEXT, str(out)])
    assert ended.returncode == -signal.SIGKILL and out.exists()
    before = out.stat().st_mtime_ns
    with session(data, place) as found:
        life = found.run_until_done(TEXT, out=out)
        assert life.done and "an earlier process wrote" in life.message
        assert out.stat().st_mtime_ns == before
        with pytest.raises(qoop.ConfigError, match=r"exists: --replace"):
            found.run_until_done(TEXT, out=out)


def test_lives_that_are_killed_without_notice_end_with_the_right_answer(data: Path, tmp_path: Path) -> None:
    place, out, draw = tmp_path / "place", tmp_path / "answer.csv", random.Random(7)
    text = (
        "SELECT a.k % 97 AS k, count(*) AS n FROM facts a JOIN facts b USING (k) WHERE b.v < 3000 GROUP BY 1 ORDER BY 1"
    )
    for seconds in (1.0, 1.5, 2.0):
        size = ("--slots", str(draw.choice((1, 2))), "--memory", f"{draw.randint(300, 2000)}MB")
        words = [sys.executable, "-m", "qoop", *command(text, data, place, *size, "--out", str(out), "--replace")]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as life:
            try:
                life.wait(seconds)
            except subprocess.TimeoutExpired:
                life.kill()
    assert main(command(text, data, place, "--out", str(out), "--replace")) == 0
    assert duckdb.sql(f"FROM '{out}'").fetchall() == expected(data, text)
    assert list(tmp_path.glob("*answer*")) == [out] and listed(place) == []


def test_two_processes_with_the_same_query_go_on_side_by_side(data: Path, tmp_path: Path) -> None:
    place, said, gate = tmp_path / "place", list[str](), threading.Event()
    with session(data, place) as first, session(data, place) as second:
        for found in (first, second):
            registered(found, gate)
        thread = threading.Thread(target=lambda: first.run_until_done(WAITS, notices="none"))
        thread.start()
        until(lambda: any((place / "until-done").glob("*.lock")))
        until(lambda: any(line.startswith("running") for line in listed(place)))
        threading.Timer(0.2, gate.set).start()
        life = second.run_until_done(WAITS, say=said.append, notices="none")
        thread.join()
    assert life.result is not None and life.result.fetchall() == expected(data)
    assert said[0].startswith("another process runs this query here")


def test_places_that_cannot_be_used_are_named(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["run", TEXT, str(data), "--until-done"]) == 1
    assert "needs --checkpoints PLACE" in capsys.readouterr().err
    monkeypatch.setenv("QOOP_CONFIG", str(tmp_path / "qoop.toml"))
    (tmp_path / "qoop.toml").write_text(f'checkpoints = "{tmp_path}/kept"\n')
    assert main(["run", TEXT, str(data), "--until-done", "--notices", "none"]) == 0 and (tmp_path / "kept").is_dir()
    monkeypatch.delenv("QOOP_CONFIG")
    assert len(capsys.readouterr().out.splitlines()) > 7
    file = tmp_path / "file"
    file.write_text("")
    assert main(command(TEXT, data, file / "place", "--format", "csv")) == 0
    shown = capsys.readouterr()
    assert "cannot be written" in shown.err and "goes on in memory" in shown.err
    assert shown.out.splitlines()[1:] == [f"{k},{total}" for k, total in expected(data)]
    assert main(["runs", str(file)]) == 1 and "is no folder of checkpoints" in capsys.readouterr().err
    assert main(command("nowhere.sql", data, tmp_path / "place")) == 1
    assert "there is no file nowhere.sql" in capsys.readouterr().err
    with qoop.connect(data, slots=1) as found, pytest.raises(qoop.ConfigError, match="needs --checkpoints PLACE"):
        found.run_until_done(TEXT)


def test_a_life_opens_the_tables_that_its_query_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder := tmp_path / "data").mkdir()
    write_facts(folder)
    (folder / "other.parquet").write_text("no Parquet")
    assert main(command(TEXT, folder, tmp_path / "place", "--format", "csv")) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [f"{k},{total}" for k, total in expected(folder)]
    (folder / "other.parquet").unlink()
    assert main(command("SELECT count(*) FROM fact", folder, tmp_path / "place")) == 1
    assert "facts" in capsys.readouterr().err, "the message proposes a table that the text does not name"


def test_slices_hand_on_a_token(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    first = next(qoop.slices(TEXT, 0.02, place, data=[data], slots=1))
    assert not first.done and first.token.endswith("-1") and "stopped by the end of the slice" in first.message
    last = list(qoop.slices(TEXT, 60, place, data=[data], slots=2, memory="500MB", token=first.token))[-1]
    assert last.done and last.result is not None and last.result.fetchall() == expected(data)
    with pytest.raises(qoop.ConfigError, match="is of another query or place"):
        qoop.slices(TEXT, 60, tmp_path / "other", token=first.token)


class Context:
    """The second argument of a handler of AWS Lambda."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self.end - time.monotonic()) * 1000)


def test_a_function_with_a_limit_calls_itself_again(data: Path, tmp_path: Path) -> None:
    events: list[dict[str, object]] = [
        {"query": TEXT, "place": str(tmp_path / "place"), "data": [str(data)], "slots": 1}
    ]
    reply = qoop.lambda_handler(events[0], Context(2.02), events.append)
    assert not reply["done"] and reply["rows"] is None and reply["event"] == events[1]
    reply = qoop.lambda_handler(events[1], Context(60), events.append)
    assert reply["done"] and reply["event"] is None and len(events) == 2
    assert [row.replace(" ", "") for row in reply["rows"]] == [
        f'{{"k":{k},"total":{total}}}' for k, total in expected(data)
    ]
    with pytest.raises(qoop.ConfigError, match="the event lacks place"):
        qoop.lambda_handler({"query": TEXT}, Context(60))
    with pytest.raises(qoop.ConfigError, match="a slice needs more than 2 s"):
        qoop.lambda_handler(events[0], Context(1))


def test_a_loss_of_outputs_is_printed_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QOOP_CHECKPOINT_BUDGET", "1kb")
    assert main(command(TEXT, data, tmp_path / "place")) == 0
    [line] = [line for line in capsys.readouterr().err.splitlines() if "is not on disk" in line]
    assert line.startswith("qoop: an output of ")


@pytest.mark.parametrize("links", [True, False])
def test_of_two_processes_that_write_one_answer_the_first_stays(
    data: Path, tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, out = tmp_path / "place", tmp_path / "answer.csv"
    copy_to = Result.copy_to

    def later(result: Result, path: Path, options: str) -> None:
        copy_to(result, path, options)
        out.write_text("of another process")

    def refused(*paths: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links here")

    monkeypatch.setattr(Result, "copy_to", later)
    if not links:
        monkeypatch.setattr(os, "link", refused)
    for _ in range(2):  # the next life does not take the file for its own
        with session(data, place) as found, pytest.raises(qoop.ConfigError, match="exists: --replace"):
            found.run_until_done(TEXT, out=out)
        assert out.read_text() == "of another process"
    assert list(tmp_path.glob("*answer*")) == [out]
    monkeypatch.setattr(Result, "copy_to", copy_to)
    out.unlink()
    with session(data, place) as found:
        assert found.run_until_done(TEXT, out=out).done
    assert duckdb.sql(f"FROM '{out}'").fetchall() == expected(data)


def life_that_waits(data: Path, place: Path, before: Callable[[], object]) -> str:
    """Run to the end a query that waits, and return what it says; `before` is called when it has begun."""
    said, gate = list[str](), threading.Event()

    def change() -> None:
        try:
            before()
        finally:
            gate.set()

    with warnings.catch_warnings(record=True, action="always") as warned, session(data, place) as found:
        registered(found, gate)
        thread = threading.Thread(target=change)
        thread.start()
        life = found.run_until_done(WAITS, say=said.append, notices="none")
        thread.join()
        assert life.done and life.result is not None and life.result.fetchall() == expected(data)
    return " ".join([*said, *(str(one.message) for one in warned)])  # the last output may be written after the end


def test_a_place_that_is_full_costs_a_line(data: Path, tmp_path: Path, mount: Callable[[str], Path]) -> None:
    place = mount("size=256k,mode=700")

    with contextlib.suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    said = life_that_waits(data, place, lambda: None)
    assert "No space left on device" in said and "the query goes on in memory" in said
    full = pytest.raises(qoop.DiskFull, match=rf"cannot write {place}/a.csv: .*space")
    with qoop.connect(data, slots=1, checkpoints=tmp_path / "kept") as found, full:
        found.run_until_done("SELECT v, k FROM facts", out=place / "a.csv")
    assert not list(place.glob("*a.csv*")) and not list(place.glob(".*"))


def test_a_place_that_vanishes_costs_a_line(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"

    def vanish() -> None:
        until(lambda: any(place.glob("*.arrow")))
        place.rename(tmp_path / "elsewhere")
        place.mkdir(exist_ok=True)  # as a writer of plans does, which may be first

    said = life_that_waits(data, place, vanish)
    assert "the folder is gone" in said


def test_a_place_that_is_read_only_costs_a_line(data: Path, mount: Callable[[str], Path]) -> None:
    said = life_that_waits(data, mount("ro,mode=700"), lambda: None)
    assert "Read-only file system" in said and "the query goes on in memory" in said
