"""Files of sqllogictest: what passes, what differs, what is refused."""

from __future__ import annotations

from hashlib import md5
from pathlib import Path

import pytest
from slt_file import Query
from slt_run import difference, main

from qoop.catalog.errors import ConfigError

FILE = """
# a comment
require skip_reload

statement ok
CREATE TABLE t (i INTEGER, s VARCHAR, c ENUM('x', 'y'))

statement ok
INSERT INTO t VALUES (1, 'one', 'y'), (2, NULL, 'x'), (NULL, '', NULL)

query ITI nosort
SELECT i, s, c FROM t ORDER BY i NULLS LAST
----
1	one	y
2	NULL	x
NULL	(empty)	NULL

query R rowsort by_value
SELECT i / 2 FROM t WHERE i IS NOT NULL
----
1.000000
0.500000

query I valuesort by_value
SELECT i / 2 FROM t WHERE i IS NOT NULL ORDER BY i
----
0.5
1

query II
SELECT 1, true
----
1
1

foreach word min max

query I
SELECT ${word}(i) IS NULL FROM t
----
false

endloop

loop n 0 3

query I
SELECT ${n} + 1 > i FROM t WHERE i = 1
----
<REGEX>:true|false

endloop

statement error
SELECT nothing FROM t
----
nothing

statement ok
INSERT INTO t VALUES (7, 'seven', 'x')

query I
SELECT sum(i) FROM t
----
10

query I
SELECT range FROM range(200)
----
200 values hashing to HASH

skipif duckdb
query I
SELECT 1
----
2

mode skip

query I
SELECT 1
----
2

mode unskip

concurrentloop n 0 2

statement ok
SELECT 1

endloop

restart

query I
SELECT 1
----
2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    digest = md5("".join(f"{number}\n" for number in range(200)).encode(), usedforsecurity=False).hexdigest()
    path = tmp_path / "own.test"
    path.write_text(FILE.replace("HASH", digest))
    return path


@pytest.mark.parametrize("staged", ["option", "environment", "off"])
def test_a_file_passes(
    staged: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QOOP_STAGED", "on" if staged == "environment" else "off")
    assert main([str(file), *(["--staged"] if staged == "option" else [])]) == 0
    told = capsys.readouterr().out
    assert "in all: 12 passed, 0 different, 0 refused, 4 skipped, 3 for DuckDB" in told
    for reason in ("skipif duckdb", "mode skip", "a concurrent loop", "restart"):
        assert f"1  skipped: {reason}" in told


def test_what_differs_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = file.read_text()
    for wrong, right, _ in WRONG:
        assert wrong in text
        text = text.replace(wrong, right, 1)
    file.write_text(text)
    assert main([str(file)]) == 1
    told = capsys.readouterr().out
    assert [message for *_, message in WRONG if message not in told] == []
    assert f"{len(WRONG)} different" in told


WRONG = [
    ("10\n\nquery", "11\n\nquery", "value 1 of row 1 is 10, but should be 11"),
    ("2\tNULL\tx", "2\tNULL\ty", "value 3 of row 2 is x, but should be y"),
    ("query II\nSELECT 1, true", "query I\nSELECT 1, true", "2 columns in place of 1"),
    ("SELECT range FROM", "SELECT range + 1 FROM", "the values hash to"),
    ("SELECT nothing FROM t", "SELECT i FROM t", "no error from SELECT i FROM t"),
    (
        "NOT NULL ORDER BY i\n----\n0.5\n1\n",
        "NOT NULL AND 1 = 2\n----\n",
        "another answer than the first query with the",
    ),
]


@pytest.mark.parametrize(
    ("answer", "found", "type_", "message"),
    [
        (["1", "2"], [["1"]], "INTEGER", "1 rows in place of 2"),
        (["1.1"], [["1.0"]], "DOUBLE", "value 1 of row 1 is 1.0, but should be 1.1"),
        (["1.001"], [["1.0"]], "DOUBLE", ""),
        (["1.001"], [["1.000"]], "DECIMAL(4,3)", "value 1 of row 1 is 1.000, but should be 1.001"),
        (["1.0"], [["1.000"]], "DECIMAL(4,3)", ""),
        (["nan"], [["NaN"]], "DOUBLE", ""),
        (["NULL"], [["0"]], "INTEGER", "value 1 of row 1 is 0, but should be NULL"),
        (["0"], [["false"]], "BOOLEAN", ""),
        (["<!REGEX>:a+"], [["xa"]], "VARCHAR", "value 1 of row 1 is xa, but should be <!REGEX>:a+"),
        (["2 values hashing to " + "0" * 32], [["1"]], "INTEGER", "1 values in place of 2"),
        (["1\t2"], [["1"]], "INTEGER", "the file's answer has not 1 columns"),
    ],
)
def test_values_are_compared_by_type(answer: list[str], found: list[list[str]], type_: str, message: str) -> None:
    assert difference(Query(1, "", 1, "nosort", "", tuple(answer)), found, [type_]) == message


def test_what_is_refused_is_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "macro.test"
    path.write_text("statement ok\nCREATE MACRO f(x) AS x + 1\n\nquery I\nSELECT f(1)\n----\n2\n")
    assert main([str(path)]) == 0
    assert "0 passed, 0 different, 1 refused, 0 skipped, 1 for DuckDB" in capsys.readouterr().out


def test_an_answer_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "answer.csv").write_text("a|b\n1|x\n2|y\n")
    path = tmp_path / "with_file.test"
    path.write_text("query IT\nSELECT * FROM (VALUES (1, 'x'), (2, 'y'))\n----\n<FILE>:answer.csv\n")
    assert main([str(path)]) == 0
    assert "1 passed" in capsys.readouterr().out


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        main([str(tmp_path / "none.test")])
    (tmp_path / "open.test").write_text("loop i 0 3\n\nstatement ok\nSELECT 1\n")
    with pytest.raises(ConfigError, match="line 1 has no endloop"):
        main([str(tmp_path / "open.test")])
