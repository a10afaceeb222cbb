"""The spot benchmark from the command line to the page, with real engines; its judge; and results that others send."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError
from qoop.tpcds.queries import texts
from qoop.tpcds.results import read
from qoop.tpcds.spot import bench, entrants, markets, page, records, sent, tasks
from qoop.tpcds.spot.answers import Judge
from qoop.tpcds.spot.entrants import Entrant
from qoop.tpcds.spot.markets import market
from qoop.tpcds.spot.records import Run
from qoop.tpcds.spot.tasks import CHAIN_TASK, CLASSES, works

ADAPTERS = Path(bench.__file__).parent
LYING = Path(__file__).parents[1] / "support" / "lying_engine.py"
HERE = Entrant("duckdb", (sys.executable, "-m", "adapters.duckdb_again"), {"PYTHONPATH": str(ADAPTERS)})
"""The reference in the environment of the tests, where its own would have to be installed first."""


@pytest.fixture(scope="module")
def made(benchmark_texts: None, tpcds_small: Path, tmp_path_factory: pytest.TempPathFactory) -> bench.SpotOptions:
    """Options of a benchmark that has run: the reference and a lying engine, one text, one window."""
    options = bench.SpotOptions(
        tpcds_small, tmp_path_factory.mktemp("spot"), [HERE, entrants.of_command(f"{sys.executable} {LYING}")],
        [market("exponential")], pressures=(4.0,), windows=1, classes=("long",), queries=(96,), repeat=1,
    )  # fmt: skip
    bench.run(options, lambda line: None)
    return options


def results(options: bench.SpotOptions) -> Path:
    return options.folder / "results.jsonl"


def test_a_run_goes_from_the_data_to_a_page(made: bench.SpotOptions, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "spot", "report", str(results(made)), "--out", str(made.folder)]) == 1
    printed = capsys.readouterr().out
    assert "lying cannot run q96" in printed and "PROBLEM run long q96 none 0 0 lying: q96" in printed
    assert "long   pressure 4   duckdb" in printed
    content = (made.folder / "page.html").read_text()
    assert "break-even discount" in content and "lying: q96" in content and "<svg" in content


COUNTS = """\
0,add,a
0,add,b
60000,remove,a
90000,add,c
200000,remove,b
300000,remove,c
"""


def test_queries_that_arrive_and_machines_that_are_resized(
    made: bench.SpotOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_LOAD_LENGTH", 20.0)
    (tmp_path / "counts.csv").write_text(COUNTS)
    lines: list[str] = []
    options = replace(
        made, folder=tmp_path, entrants=[HERE], markets=[market(str(tmp_path / "counts.csv"))], pressures=(1.0,),
        classes=("load", "resized"),
    )  # fmt: skip
    bench.run(options, lines.append)
    kept = read(results(options)).values
    found = {run.key.work_class: run for run in records.runs(kept) if run.key.market != "none"}
    assert found["load"].works > 5 and len(found["load"].waits) == found["load"].works
    assert found["load"].seconds == pytest.approx(sum(found["load"].waits))
    assert all(run.right == run.works for run in found.values() if run.seconds < 10 * run.reference)
    assert sent.problems(results(options), {market.name: market for market in options.markets}) == []
    assert main(["bench", "spot", "report", str(results(options)), "--out", str(tmp_path)]) == 0
    assert "wait p50, p95 s" in (tmp_path / "page.html").read_text()
    bench.run(
        replace(options, folder=tmp_path / "other", classes=("resized",), markets=[market("exponential")]), lines.append
    )
    assert "the class resized is refused: the number of nodes never falls in exponential" in lines


def test_a_finished_benchmark_makes_no_run_again(made: bench.SpotOptions) -> None:
    before = results(made).read_bytes()
    lines: list[str] = []
    bench.run(made, lines.append)
    assert results(made).read_bytes() == before and not any("window" in line for line in lines)


def test_another_undisturbed_time_makes_the_runs_that_rest_on_it_again(made: bench.SpotOptions, tmp_path: Path) -> None:
    records = [json.loads(line) for line in results(made).read_text().splitlines()]
    [calm] = [one for one in records if one.get("name") == "run long q96 none 0 0 duckdb"]
    for event in calm["value"]["events"]:
        event[0] *= 1.5
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    lines: list[str] = []
    bench.run(replace(made, folder=tmp_path), lines.append)
    assert [line.partition(" duckdb")[0] for line in lines if "window" in line] == ["q96    exponential 4 window 0"]
    assert sent.problems(tmp_path / "results.jsonl", {"exponential": market("exponential")}) == []


def test_results_of_another_setting_or_version_are_refused(made: bench.SpotOptions) -> None:
    with pytest.raises(ConfigError, match="other settings"):
        bench.run(replace(made, memory=10**9), lambda line: None)
    [record] = [line for line in results(made).read_text().splitlines() if '"engine duckdb"' in line]
    older = made.folder.parent / "older"
    older.mkdir(exist_ok=True)
    kept = results(made).read_text().replace(record, record.replace(json.loads(record)["value"]["version"], "0.1"))
    (older / "results.jsonl").write_text(kept)
    with pytest.raises(ConfigError, match="they never meet in one ratio"):
        bench.run(replace(made, folder=older), lambda line: None)
    assert len(page.sections([results(made), older / "results.jsonl"])) == 2
    packed = older / "results.jsonl.gz"
    packed.write_bytes(gzip.compress(results(made).read_bytes()))
    assert len(page.sections([results(made), packed])) == 1
    packed.write_bytes(packed.read_bytes()[:99])
    with pytest.raises(ConfigError, match="does not hold results"):
        page.sections([packed])


def test_an_engine_that_fails_is_named_and_the_others_go_on(made: bench.SpotOptions) -> None:
    silent = entrants.of_command(f"{sys.executable} -c pass")
    lines: list[str] = []
    bench.run(replace(made, entrants=[*made.entrants, silent]), lines.append)
    assert lines == [f"{silent.name} takes no part: it ended by itself: it wrote nothing", *lines[1:]]
    with pytest.raises(ConfigError, match="the engine duckdb, which has to be among"):
        bench.run(replace(made, entrants=[silent]), lambda line: None)


Tamper = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (lambda run: run["key"].update(window=7), "its losses are not those of its window"),
        (lambda run: run["events"].insert(1, [0.9, "lost", "", "0.9"]), "its losses are not those of its window"),
        (lambda run: run.update(reference=9.0), "9 s is not the undisturbed time of the reference"),
        (lambda run: run["answers"].clear(), "answers to nothing, but replies to q96"),
        (lambda run: run["events"].reverse(), "its events do not begin with a start"),
        (lambda run: run.pop("events"), "is no record of a run"),
    ],
)
def test_results_that_do_not_agree_with_themselves_are_found(
    made: bench.SpotOptions, tmp_path: Path, tamper: Tamper, problem: str
) -> None:
    path = tmp_path / "sent.jsonl"
    known = {"exponential": market("exponential")}
    assert sent.problems(results(made), known) == []
    path.write_text("".join(_tampered(results(made), tamper)))
    found = sent.problems(path, known)
    assert found and any(problem in one for one in found), found


def _tampered(path: Path, tamper: Tamper) -> Iterator[str]:
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if str(record.get("name")).startswith("run long q96 exponential"):
            Run.of(record["value"])
            tamper(record["value"])
        yield json.dumps(record) + "\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--engines", "oracle"], "there is no engine 'oracle'"),
        (["--pressures", "0"], "--pressures takes numbers above 0"),
        (["--windows", "0"], "--windows must be at least 1"),
        (["--adapter", "'"], "is no command"),
        (["--markets", "moon"], "there is no market and no file 'moon'"),
        (["--classes", "short"], "there is no class 'short'"),
    ],
)
def test_bad_options_are_named(
    tpcds_small: Path, tmp_path: Path, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(entrants, "is_installed", lambda name: True)
    chosen = [] if "--markets" in words else ["--markets", "exponential"]
    assert main(["bench", "spot", str(tpcds_small), "--out", str(tmp_path), *chosen, *words]) == 1
    assert complaint in capsys.readouterr().err


BAMBOO = ["bamboo-p3", "bamboo-g4dn", "bamboo-a100"]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ([], (["bamboo-p3"], (1.0,), 3, ("long",), 4, (0.0,))),
        (["--standard"], (BAMBOO, (4.0, 1.0, 0.25), 5, CLASSES, 20, (0.0,))),
        (
            ["--full"],
            (BAMBOO, (4.0, 1.0, 0.25), 20, CLASSES, 20, (0.0, 2.0, 30.0)),
        ),
        (["--markets", "exponential", "--windows", "2"], (["exponential"], (1.0,), 2, ("long",), 4, (0.0,))),
    ],
)
def test_the_forms_are_as_the_specification_has_them(
    form: list[str], expected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[bench.SpotOptions] = []

    def run(options: bench.SpotOptions, progress: object) -> Path:
        passed.append(options)
        raise ConfigError("not here")

    monkeypatch.setattr(bench, "run", run)
    monkeypatch.setattr(entrants, "is_installed", lambda name: True)
    monkeypatch.setattr(markets, "_file", lambda name, source, folder: tmp_path / "trace.csv")
    monkeypatch.setattr(markets, "SOURCES", {name: replace(one, digest="") for name, one in markets.SOURCES.items()})
    (tmp_path / "trace.csv").write_text("0,add,a\n5000,remove,a\n")
    assert main(["bench", "spot", str(tmp_path), *form]) == 1
    [one] = passed
    names = [market.name for market in one.markets]
    assert (names, one.pressures, one.windows, one.classes, one.longest, one.notices) == expected
    assert (one.repeat, one.again) == (3, False)
    assert [entrant.name for entrant in one.entrants][:2] == ["duckdb", "qoop"]


def test_adapters_are_small_and_need_no_qoop() -> None:
    adapters = {path.name: path.read_text() for path in (ADAPTERS / "adapters").glob("*.py")}
    assert {f"{one.module}.py" for one in entrants.BUILT_IN.values()} < set(adapters)
    assert all(len(text.splitlines()) <= 120 for text in adapters.values())
    assert [name for name, text in adapters.items() if "import qoop" in text] == ["qoop_resuming.py"]
    assert not any("from qoop" in text for text in adapters.values())


# --- the judge -----------------------------------------------------------------------------------------------


def _dropped(table: pa.Table) -> pa.Table:
    return table.slice(1)


def _doubled(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table.slice(0, 1)])


def _emptied(table: pa.Table) -> pa.Table:
    """One value that is there becomes NULL."""
    place = next(i for i, column in enumerate(table.columns) if column.null_count == 0)
    column = table.column(place).combine_chunks()
    values = pa.concat_arrays([pa.nulls(1, column.type), column.slice(1)])
    return table.set_column(place, table.field(place).with_nullable(True), values)


def _raised(table: pa.Table) -> pa.Table:
    """Every number of a column that has some is larger by a hundred-thousandth, or by 1 where it is whole."""
    for place, column in enumerate(table.columns):
        is_number = pa.types.is_decimal(column.type) or pa.types.is_floating(column.type)
        if is_number and pc.sum(pc.abs(column)).as_py():
            raised = pc.multiply(column.cast(pa.float64()), pa.scalar(1.0001))
            return table.set_column(place, table.column_names[place], raised)
    return _doubled(table)


def _without_a_column(table: pa.Table) -> pa.Table:
    return table.drop_columns(table.column_names[-1])


def _swapped(table: pa.Table) -> pa.Table:
    """The last row takes the place of the first, which is missing."""
    return pa.concat_tables([table.slice(table.num_rows - 1), table.slice(1)])


MISTAKES: tuple[Callable[[pa.Table], pa.Table], ...] = (
    _dropped, _doubled, _emptied, _raised, _without_a_column, _swapped,
    lambda table: table.slice(0, 0),
    lambda table: table.slice(0, table.num_rows - 1),
    lambda table: pa.concat_tables([table, table]),
    lambda table: table.append_column("more", pa.nulls(table.num_rows)),
)  # fmt: skip


def test_a_hundred_planted_wrong_answers_are_found(benchmark_texts: None, tpcds_small: Path) -> None:
    found = planted = 0
    with Judge(tpcds_small, threads=2) as judge:
        for text in texts().values():
            if planted == 100:
                break
            right = judge.answer(text)
            if right.num_rows < 2:
                continue
            assert judge.compare(text, right) is None
            for mistake in MISTAKES:
                planted += 1
                found += judge.compare(text, mistake(right)) is not None
    assert (planted, found) == (100, 100)


def test_the_results_of_a_chain_are_judged(benchmark_texts: None, tpcds_small: Path, tmp_path: Path) -> None:
    tables = {work.name: work for work in works(CHAIN_TASK, "duckdb", tpcds_small, tmp_path)}
    with Judge(tpcds_small) as judge:
        judge.make({name: work.text for name, work in tables.items()})
        for name in CHAIN_TASK.judged:
            right, answer = judge.answer(tables[name].text), Path(tables[name].answer)
            parquet.write_table(right, answer)
            assert right.num_rows > 1 and judge.verdict(tables[name].text, answer) is None
            parquet.write_table(_swapped(right), answer)
            assert judge.verdict(tables[name].text, answer) is not None


def test_the_same_values_of_other_types_and_names_are_right(tpcds_small: Path) -> None:
    text = "SELECT d_year, count(*) AS n, avg(d_dom) AS a, max(d_day_name) AS m FROM date_dim GROUP BY 1 ORDER BY 1"
    with Judge(tpcds_small) as judge:
        right = judge.answer(text)
        kinds = [pa.int32(), pa.decimal128(20, 0), pa.decimal128(20, 6), pa.large_string()]
        other = [column.cast(kind, safe=False) for column, kind in zip(right.columns, kinds, strict=True)]
        assert right.num_rows > 1 and judge.compare(text, pa.table(other, names=list("abcd"))) is None
        other[2] = right["a"].cast(pa.decimal128(20, 0), safe=False)
        assert judge.compare(text, pa.table(other, names=list("abcd"))) is not None
        other[2] = right["m"]
        assert "string in place of double" in str(judge.compare(text, pa.table(other, names=list("abcd"))))
