"""Detection over a sample of a CSV file finds what detection over all rows would, or gives way to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pytest

from qoop.catalog.sources import text
from qoop.catalog.sources.csv_sample import SAMPLE

LATE = {
    "quotes come late": (["1,x"], ['2,"y,z"']),
    "a quote within a field": (["1,x"], ['2,"y"" ,z"']),
    "the sample has no value": ([",x"], ["2,y"]),
    "a time among dates": (["2020-01-01,x"], ["2020-01-01 10:00:00,y"]),
    "a fraction among whole numbers": (["7,1"], ["7,1.5"]),
    "a word among numbers": (["7,1"], ["7,one"]),
    "numbers alone": (["7,1", ",2.5"], ["8,3"]),
    "dates in another form": (["31/12/2020,1"], ["01/02/2021,2"]),
    "a truth among words": (["true,x"], ["maybe,y"]),
    "an exponent, an underscore": (["1.5,1"], ["1e3,1_0"]),
}


@pytest.fixture(scope="module")
def cursor() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def written(folder: Path, first: Sequence[str], late: Sequence[str], rows: int = SAMPLE + 10_000) -> str:
    path = folder / "late.csv"
    some = [first[row % len(first)] for row in range(rows)]
    path.write_text("\n".join(["a,b", *some, *late]) + "\n")
    return str(path)


@pytest.mark.parametrize("case", LATE)
def test_late_rows_have_their_say(case: str, tmp_path: Path, cursor: duckdb.DuckDBPyConnection) -> None:
    path = written(tmp_path, *LATE[case])
    columns, source = text.open_csv(cursor, [path])
    wanted = cursor.execute(f"DESCRIBE FROM read_csv('{path}', sample_size = -1)").fetchall()
    assert list(columns) == [(name, type_) for name, type_, *_ in wanted]
    ours = cursor.execute(f"SELECT a, b FROM ({source.scan(columns, None)}) ORDER BY ALL").fetchall()
    assert len(ours) == SAMPLE + 10_000 + 1 == source.rows
    assert ours == cursor.execute(f"FROM read_csv('{path}', sample_size = -1) ORDER BY ALL").fetchall()


def test_where_all_rows_are_alike_the_sample_is_enough(
    tmp_path: Path, cursor: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, ["7,1.5", "8,"], ["9,2.5"])
    monkeypatch.setattr(text, "_sampling", lambda _: pytest.fail("all rows were looked at"))
    columns, source = text.open_csv(cursor, [path])
    assert [type_ for _, type_ in columns] == ["BIGINT", "DOUBLE"]
    assert source.rows == SAMPLE + 10_000 + 1


LINES = {
    "rows are lines": ("a,b\n1,x\n2,y\n", True),
    "no end of the last line": ("a,b\n1,x\n2,y", True),
    "no header": ("1,2\n3,4\n5,6\n", True),
    "no row": ("a,b\n", True),
    "one column": ("a\n1\n2\n", True),
    "an apostrophe": ("a,b\n1,don't\n2,it's\n", True),
    "empty lines": ("a,b\n1,x\n\n2,y\n\n", False),
    "an empty line first": ("\na,b\n1,x\n", False),
    "a quoted end of line": ('a,b\n1,"x\ny"\n2,y\n', False),
    "a comment": ("a,b\n# of 2020\n1,x\n# end\n2,y\n", False),
    "lines of Windows": ("a,b\r\n1,x\r\n2,y\r\n", False),
    "words before the header": ("shop\nof tea\na,b,c\n1,2,3\n4,5,6\n", False),
}


@pytest.mark.parametrize("case", LINES)
def test_rows_of_large_files_are_counted_by_lines_where_they_can_be(
    case: str, tmp_path: Path, cursor: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, plain = LINES[case]
    path = tmp_path / "large.csv"
    path.write_bytes(content.encode())
    read: list[str] = []
    count = text._count
    monkeypatch.setattr(text, "_SNIFF_BYTES", 0)
    monkeypatch.setattr(text, "_count", lambda *asked: read.append(case) or count(*asked))
    monkeypatch.setattr("qoop.catalog.sources.lines._CHUNK", 7)
    _, source = text.open_csv(cursor, [str(path)])
    assert source.rows == len(cursor.execute(f"FROM read_csv('{path}')").fetchall())
    assert (not read) == plain
