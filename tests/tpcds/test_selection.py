"""Query texts and the selection of queries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from qoop.catalog.errors import ConfigError
from qoop.tpcds import queries
from qoop.tpcds.queries import parse_selection, text, texts


def test_selections() -> None:
    assert parse_selection("1,3,7-9") == (1, 3, 7, 8, 9)
    assert parse_selection(" 7 - 9 , 3,3") == (3, 7, 8, 9)
    assert parse_selection(None) == parse_selection("all") == tuple(range(1, 100))
    assert parse_selection(None, "tpch") == tuple(range(1, 23))


@pytest.mark.parametrize("selection", ["", "a", "1,", "-3", "3-", "9-7", "0", "100", "1-100", "1.5", "99999999999-1"])
def test_wrong_selections(selection: str) -> None:
    with pytest.raises(ConfigError):
        parse_selection(selection)


def test_numbers_end_with_the_suite() -> None:
    with pytest.raises(ConfigError, match="TPC-H has queries 1 to 22, not 23"):
        parse_selection("20-23", "tpch")


def test_an_unknown_suite() -> None:
    with pytest.raises(ConfigError, match="tpcds, tpch"):
        parse_selection("1", "tpcc")


def test_texts() -> None:
    pytest.importorskip("duckdb_extension_tpcds")
    if duckdb.__version__ != "1.5.5":
        pytest.skip("the texts need duckdb 1.5.5")
    assert len(texts()) == 99
    assert len(texts("tpch")) == 22
    assert "ctr_total_return" in text(1)
    with pytest.raises(ConfigError, match="has no query 100; it has 1 to 99"):
        text(100)


def test_texts_of_another_duckdb_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb_extension_tpcds")
    monkeypatch.setattr(queries.duckdb, "__version__", "2.0.0")
    with pytest.raises(ConfigError, match=r"for duckdb 1\.5\.5, but duckdb 2\.0\.0"):
        queries._extension_file(queries.TPCDS)


def test_a_folder_of_data_has_the_texts_for_a_duckdb_they_do_not_come_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, benchmark_texts: None
) -> None:
    for suite in queries.SUITES.values():
        (tmp_path / suite.name).mkdir()
        queries.keep(suite, tmp_path / suite.name)
    shipped = {suite: dict(texts(suite)) for suite in queries.SUITES}
    monkeypatch.setattr(queries, "shipped", refusing)
    assert {suite: texts(suite, tmp_path / suite) for suite in queries.SUITES} == shipped
    assert text(17, "tpch", tmp_path / "tpch") == shipped["tpch"][17]


def test_a_folder_without_texts_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(queries, "shipped", refusing)
    with pytest.raises(ConfigError, match=r"that fits; nor are the texts in .*queries: `qoop tpcds generate` writes"):
        texts("tpcds", tmp_path)
    with pytest.raises(ConfigError, match=r"pair that fits$"):
        texts("tpcds")


def refusing(suite: queries.Suite) -> Mapping[int, str]:
    raise ConfigError("install the pair that fits")


def test_texts_that_are_not_installed_are_told_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="pip install duckdb-extension-nonesuch"):
        queries._extension_file(queries.Suite("nonesuch", "None Such", 1))
