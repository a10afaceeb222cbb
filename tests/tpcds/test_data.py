"""Generated data: whole or not believed, and clear errors for whatever is asked wrongly."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from qoop.__main__ import main
from qoop.catalog.errors import ConfigError, DiskFull, ExecutionError, QoopError, SourceError
from qoop.tpcds import data, queries
from qoop.tpcds.data import Progress, generate
from qoop.tpcds.manifest import MANIFEST, read_manifest


@pytest.fixture(autouse=True)
def _needs_generator() -> None:
    try:
        data.find_generator()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def steps() -> list[Progress]:
    """The progress of the run that made the data of all tests."""
    return []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, steps: list[Progress]) -> Path:
    folder = tmp_path_factory.mktemp("data") / "new" / "sf0.01"
    generate(0.01, folder, steps.append)
    return folder


@pytest.fixture
def few_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tables, of which inventory is made after call_center."""
    chosen = ("call_center", "inventory", "reason")
    kept = {name: rows for name, rows in data._TABLES["tpcds"].items() if name in chosen}
    monkeypatch.setattr(data, "_TABLES", {"tpcds": kept})


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def tables(folder: Path) -> set[str]:
    others = (MANIFEST, queries.FOLDER)
    return {path.name.removesuffix(".parquet") for path in folder.iterdir() if path.name not in others}


def test_all_tables_are_there_and_listed(made: Path) -> None:
    manifest = read_manifest(made)
    assert manifest is not None
    assert (manifest.suite, manifest.scale) == ("tpcds", 0.01)
    assert len(manifest.tables) == 25  # the 24 tables and dbgen_version
    assert tables(made) == set(manifest.tables), "nothing else is left in the folder"
    assert manifest.tables["item"].rows == parquet.read_metadata(made / "item.parquet").num_rows


def test_a_second_run_makes_nothing(copy: Path) -> None:
    again = generate(0.01, copy)
    assert again.made == ()
    assert len(again.kept) == 25


def test_the_texts_of_the_queries_are_written_too_also_to_a_folder_that_lacks_them(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / queries.FOLDER / "35.sql").unlink(missing_ok=True)
    monkeypatch.setattr(queries, "shipped", lambda suite: dict.fromkeys(range(1, suite.size + 1), "SELECT 1"))
    assert generate(0.01, copy).without_texts == ""
    assert (copy / queries.FOLDER / "35.sql").read_text() == "SELECT 1"

    def refuse(suite: queries.Suite) -> None:
        raise ConfigError("no extension fits")

    (copy / queries.FOLDER / "35.sql").unlink()
    monkeypatch.setattr(queries, "shipped", refuse)
    assert main(["tpcds", "generate", str(copy), "--scale", "0.01"]) == 0
    assert capsys.readouterr().err == "without the texts of the queries: no extension fits\n"


def test_a_run_goes_on_where_it_was_broken_off(copy: Path) -> None:
    before = (copy / "store_sales.parquet").read_bytes()
    (copy / "store_sales.parquet").unlink()
    with (copy / "item.parquet").open("rb+") as file:
        file.truncate(100)
    (copy / ".making").mkdir()
    (copy / ".making" / "item.parquet").write_bytes(b"half")
    assert set(generate(0.01, copy).made) == {"store_sales", "item"}
    assert (copy / "store_sales.parquet").read_bytes() == before
    assert not (copy / ".making").exists()


def test_a_table_that_the_manifest_does_not_list_is_made_again(copy: Path) -> None:
    content = json.loads((copy / MANIFEST).read_text())
    del content["tables"]["reason"]
    (copy / MANIFEST).write_text(json.dumps(content))
    assert generate(0.01, copy).made == ("reason",)


def test_an_interrupted_run_leaves_nothing_that_is_believed(tmp_path: Path, few_tables: None) -> None:
    def stop(progress: Progress) -> None:
        if progress.table == "inventory":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(0.01, tmp_path, stop)
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert "inventory" not in manifest.tables
    assert not (tmp_path / "inventory.parquet").exists()
    assert "call_center" in generate(0.01, tmp_path).kept


def test_progress_goes_up_to_the_end(made: Path, steps: list[Progress]) -> None:
    assert steps and [one.done for one in steps] == sorted(one.done for one in steps)
    assert steps[-1].done <= steps[-1].total


@pytest.mark.parametrize("scale", [0.009, 0, -1, float("nan"), float("inf")])
def test_a_scale_that_is_too_small_is_refused(tmp_path: Path, scale: float) -> None:
    with pytest.raises(ConfigError, match=r"at least 0.01"):
        generate(scale, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_another_scale_in_the_folder_is_refused(made: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds tpcds data at scale 0.01, not tpcds data at scale 0.02"):
        generate(0.02, made)
    with pytest.raises(ConfigError, match=r"not tpch data at scale 0.01"):
        generate(0.01, made, suite="tpch")


def test_another_generator_may_not_mix_its_tables_in(copy: Path) -> None:
    content = json.loads((copy / MANIFEST).read_text())
    (copy / MANIFEST).write_text(json.dumps({**content, "generator": "tpcgen-cli 0.1"}))
    assert generate(0.01, copy).made == (), "whole data is fine, no matter who made it"
    (copy / "item.parquet").unlink()
    with pytest.raises(ConfigError, match=r"tpcgen-cli 0\.1"):
        generate(0.01, copy)


def test_files_of_another_origin_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "item.parquet").write_bytes(b"mine")
    with pytest.raises(ConfigError, match=r"item\.parquet, which was not made"):
        generate(0.01, tmp_path)
    assert (tmp_path / "item.parquet").read_bytes() == b"mine"


def test_a_damaged_manifest_is_told(copy: Path) -> None:
    (copy / MANIFEST).write_text("{")
    with pytest.raises(SourceError, match="not a manifest"):
        generate(0.01, copy)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot make the folder"):
        generate(0.01, tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot write"):
        generate(0.01, tmp_path)


def test_two_runs_at_a_time_are_refused(made: Path) -> None:
    with data._locked(made), pytest.raises(ConfigError, match="another run"):
        generate(0.01, made)


def test_too_little_space_is_told_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(DiskFull, match=r"needs about .* GB"):
        generate(1e9, tmp_path)


def test_a_full_disk_is_told_and_leaves_nothing_believed(
    tmp_path: Path, few_tables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(command: list[str], *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(data, "_run", full)
        with pytest.raises(DiskFull, match="no space left"):
            generate(0.01, tmp_path)
    assert len(generate(0.01, tmp_path).made) == 3


@pytest.mark.parametrize(
    ("said", "error"),
    [("Error: No space left on device (os error 28)", DiskFull), ("Error: something else", ExecutionError)],
)
def test_a_generator_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, error: type[QoopError]
) -> None:
    script = tmp_path / "tpcgen-cli"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "{said}" >&2\nexit 3\n')
    script.chmod(0o755)
    monkeypatch.setattr(data, "find_generator", lambda: script)
    with pytest.raises(error):
        generate(0.01, tmp_path / "data")


def test_a_missing_generator_is_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(data.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ConfigError, match="pip install tpcgen-cli"):
        generate(0.01, tmp_path / "data")


def test_tpch_has_eight_tables(tpch_test: Path) -> None:
    assert tables(tpch_test) == {"region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"}


def test_a_large_table_has_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_TABLES", {"tpcds": {"customer_demographics": 9, "reason": 0}})
    monkeypatch.setattr(data, "_SPLIT", {"tpcds": {"customer_demographics"}})
    generate(0.01, tmp_path)
    assert len(list((tmp_path / "customer_demographics").glob("customer_demographics.*.parquet"))) == 4
    assert (tmp_path / "reason.parquet").is_file()
    assert generate(0.01, tmp_path).made == ()
    (tmp_path / "customer_demographics" / "customer_demographics.3.parquet").unlink()
    assert generate(0.01, tmp_path).made == ("customer_demographics",)


def test_the_command_line(tmp_path: Path, few_tables: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tpcds", "generate", "--scale", "0.01", str(tmp_path / "ds")]) == 0
    assert "3 tables made" in capsys.readouterr().out
    assert main(["tpcds", "generate", "--scale", "0.001", str(tmp_path / "x")]) == 1
    assert "at least 0.01" in capsys.readouterr().err
