"""Run sqllogictest files, such as DuckDB's own, and compare the answers: ``python tests/slt/slt_run.py FILE…``.

Queries run in a session of qoop's. What qoop has no meaning for (INSERT, CREATE TABLE with types …) a DuckDB runs, and
the tables that it then has are registered in a new session before the next query.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
from slt_file import Query, Record, Skipped, Statement, records

from qoop.catalog.errors import ConfigError, QoopError
from qoop.session.opening import connect
from qoop.session.session import Session

_QUERY = re.compile(r"\s*\(*\s*(select|from|with|values|pivot|unpivot|table|summarize|describe)\b", re.IGNORECASE)
_CHANGES = re.compile(r"\b(insert|update|delete|merge)\b", re.IGNORECASE)
_SETTINGS = re.compile(r"\s*(set|reset)\b", re.IGNORECASE)
_HASHED = re.compile(r"(\d+) values hashing to ([0-9a-f]{32})")
_TOLERANCE = 1e-2  # relative, where numbers are written otherwise: as DuckDB compares floats in these files
_PASSED, _DIFFERENT, _REFUSED, _SKIPPED, _SET_UP = "passed", "different", "refused", "skipped", "for DuckDB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files and print what differs. The exit code is 1 if an answer differs."""
    parser = argparse.ArgumentParser(description="Run sqllogictest files, and compare the answers.")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a file, or a folder of *.test files")
    parser.add_argument("--staged", action="store_true", help="run in stages only, without DuckDB's plan of the whole")
    parser.add_argument("--slots", type=int, default=2, metavar="N", help="tasks at a time (2)")
    parser.add_argument("--memory", default="1GB", metavar="SIZE", help="that all tasks together may use (1GB)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each record that is refused or skipped")
    options = parser.parse_args(arguments)

    def open_session() -> Session:
        staged = options.staged or None  # QOOP_STAGED counts, too
        return connect(slots=options.slots, memory=options.memory, staged=staged)

    total = Report()
    for path in _files(options.files):
        report = run_file(path, open_session)
        print(report.line(path), flush=True)
        print("".join(f"  {text}\n" for text in report.lines(options.verbose)), end="")
        total.add(report)
    print(total.summary())
    return 1 if total.counts[_DIFFERENT] else 0


def _files(paths: Sequence[Path]) -> list[Path]:
    """The files, and those in the folders. Raises ConfigError if there is none of a name."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ConfigError(f"there is no file {path}")
        found += sorted(path.rglob("*.test")) if path.is_dir() else [path]
    return found


@dataclass
class Report:
    """Counts of the records of a file by what came of them, and what to tell of them."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    notes: list[tuple[str, str]] = field(default_factory=list)

    def note(self, sort: str, line: int, text: str = "") -> None:
        """Count a record."""
        self.counts[sort] += 1
        if sort not in (_PASSED, _SET_UP):
            self.notes.append((sort, f"line {line}: {sort}: {text}"))
        if sort in (_SKIPPED, _REFUSED):
            self.reasons[f"{sort}: {text.splitlines()[0] if text else ''}"] += 1

    def add(self, other: Report) -> None:
        """Count the records of another one, too."""
        self.counts += other.counts
        self.reasons += other.reasons

    def lines(self, verbose: bool) -> list[str]:
        """Differences, and with verbose all that did not pass."""
        return [text for sort, text in self.notes if verbose or sort == _DIFFERENT]

    def line(self, path: Path) -> str:
        return f"{path}: {self._counted()}"

    def summary(self) -> str:
        """The sums, and why records were refused and skipped."""
        reasons = [f"  {count:>5}  {reason}" for reason, count in self.reasons.most_common()]
        return "\n".join([f"in all: {self._counted()}", *reasons])

    def _counted(self) -> str:
        return ", ".join(f"{self.counts[sort]} {sort}" for sort in (_PASSED, _DIFFERENT, _REFUSED, _SKIPPED, _SET_UP))


def run_file(path: Path, open_session: Callable[[], Session]) -> Report:
    """Run the records of a file. Raises ConfigError if it is none."""
    report = Report()
    with tempfile.TemporaryDirectory(prefix="qoop-slt-") as folder:
        bench = _Bench(Path(folder), open_session)
        try:
            for record in records(path):
                bench.run(record, report)
        finally:
            bench.close()
    return report


class _Bench:
    """A DuckDB that holds the tables, and a session of qoop's that reads copies of them."""

    def __init__(self, folder: Path, open_session: Callable[[], Session]) -> None:
        self._folder = folder
        self._open_session = open_session
        self._duckdb = duckdb.connect()
        self._session: Session | None = None
        self._settings: list[str] = []
        self._copies = 0
        self._labels: dict[str, list[str]] = {}

    def run(self, record: Record, report: Report) -> None:
        """Run one record and count what came of it."""
        match record:
            case Skipped(line, reason):
                report.note(_SKIPPED, line, reason)
            case Statement(line, text, expected) if _is_query(text):
                self._expect(line, text, expected, report)
            case Statement():
                self._in_duckdb(record, report)
            case Query(line, text) if _is_query(text):
                self._compare(record, report)
            case Query(line, text):
                report.note(_SKIPPED, line, f"no query of qoop's: {text.split()[0].upper() if text.split() else ''}")

    def close(self) -> None:
        self._duckdb.close()
        if self._session is not None:
            self._session.close()

    def _expect(self, line: int, text: str, expected: str, report: Report) -> None:
        """A query of which is only known whether it is one."""
        try:
            self._ready().sql(self._filled(text)).fetchall()
        except QoopError as error:
            wrong = expected == "ok"
            report.note(_REFUSED if wrong else _PASSED, line, str(error))
            return
        if expected == "error":
            report.note(_DIFFERENT, line, f"no error from {text}")
        else:
            report.note(_PASSED, line)

    def _in_duckdb(self, record: Statement, report: Report) -> None:
        text = self._filled(record.text)
        try:
            self._duckdb.execute(text)
        except duckdb.Error as error:
            if record.expected == "ok":
                report.note(_SKIPPED, record.line, f"DuckDB {duckdb.__version__} itself refuses it: {error}")
                return
        if _SETTINGS.match(text):
            self._settings.append(text)
        self._forget()
        report.note(_SET_UP, record.line)

    def _compare(self, query: Query, report: Report) -> None:
        text = self._filled(query.text)
        try:
            result = self._ready().sql(text)
            found = [["NULL" if value is None else value for value in row] for row in result.text_rows()]
            types = result.types
        except QoopError as error:
            report.note(_REFUSED, query.line, str(error))
            return
        wrong = difference(query, found, types) or self._unlike_label(query, found)
        report.note(_DIFFERENT if wrong else _PASSED, query.line, f"{wrong}\n    {query.text}" if wrong else "")

    def _unlike_label(self, query: Query, found: Sequence[Sequence[str]]) -> str:
        """Queries of one label have one answer."""
        values = [value for row in found for value in row]
        known = self._labels.setdefault(query.label, values) if query.label else values
        return "" if known == values else f"another answer than the first query with the label {query.label}"

    def _filled(self, text: str) -> str:
        for name in ("__TEST_DIR__", "{TEST_DIR}", "${TEST_DIR}"):
            text = text.replace(name, str(self._folder))
        return text

    def _forget(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def _ready(self) -> Session:
        """A session with the tables and views as they are now."""
        if self._session is not None:
            return self._session
        self._session = session = self._open_session()
        self._copies += 1
        path = self._folder / f"tables{self._copies}.duckdb"
        names = self._names("SELECT table_name FROM duckdb_tables() WHERE database_name = 'memory' "
                            "AND schema_name = 'main' AND NOT internal")  # fmt: skip
        if names:
            self._duckdb.execute(f"ATTACH '{path}' AS qoop_copy")
            for name in names:
                self._duckdb.execute(f"CREATE TABLE qoop_copy.{_quoted(name)} AS FROM memory.main.{_quoted(name)}")
            self._duckdb.execute("DETACH qoop_copy")
            session.register_database(path)
        views = self._names("SELECT sql FROM duckdb_views() WHERE NOT internal AND schema_name = 'main'")
        for text in [*views, *self._settings]:
            self._try(session, text)
        return session

    def _names(self, text: str) -> list[str]:
        return [str(name) for (name,) in self._duckdb.execute(text).fetchall()]

    def _try(self, session: Session, text: str) -> None:
        """Views and settings that qoop has no meaning for are told by the queries that need them."""
        try:
            session.sql(text)
        except QoopError:
            return


def _is_query(text: str) -> bool:
    return bool(_QUERY.match(text)) and not (text.lstrip().lower().startswith("with") and _CHANGES.search(text))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# --- comparison ----------------------------------------------------------------------------------------------


def difference(query: Query, found: Sequence[Sequence[str]], types: Sequence[str]) -> str:
    """The first thing that is wrong with the rows found, "" if nothing is."""
    if found and len(found[0]) != query.columns:
        return f"{len(found[0])} columns in place of {query.columns}"
    rows = [[_shown(value) for value in row] for row in found]
    hashed = _HASHED.fullmatch(query.answer[0]) if len(query.answer) == 1 else None
    if hashed is not None:
        return _of_hash(_sorted(rows, query.sort), int(hashed[1]), hashed[2])
    expected = _rows_of(query)
    if isinstance(expected, str):
        return expected
    ours, theirs = _sorted(rows, query.sort), _sorted(expected, query.sort)
    if len(ours) != len(theirs):
        return f"{len(rows)} rows in place of {len(expected)}"
    for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if not _agree(mine, other, types[at % len(types)]):
            return f"value {at % query.columns + 1} of row {at // query.columns + 1} is {mine}, but should be {other}"
    return ""


def _shown(value: str) -> str:
    return "(empty)" if value == "" else value.replace("\0", "\\0")


def _rows_of(query: Query) -> list[list[str]] | str:
    """The rows expected: a line each with tabs between, or a value a line."""
    lines = list(query.answer)
    rows = [line.split("\t") for line in lines]
    if all(len(row) == query.columns for row in rows):
        return rows
    if any(len(row) != 1 for row in rows) or len(lines) % query.columns:
        return f"the file's answer has not {query.columns} columns"
    return [lines[at : at + query.columns] for at in range(0, len(lines), query.columns)]


def _sorted(rows: Sequence[list[str]], sort: str) -> list[str]:
    """All values, in the order to compare."""
    if sort == "valuesort":
        return sorted(value for row in rows for value in row)
    return [value for row in (sorted(rows) if sort == "rowsort" else rows) for value in row]


def _of_hash(values: Sequence[str], count: int, digest: str) -> str:
    found = hashlib.md5("".join(f"{value}\n" for value in values).encode(), usedforsecurity=False).hexdigest()
    if len(values) != count:
        return f"{len(values)} values in place of {count}"
    return "" if found == digest else f"the values hash to {found}, but should to {digest}"


def _agree(mine: str, other: str, type_: str) -> bool:
    if mine == other:
        return True
    if other.startswith(("<REGEX>:", "<!REGEX>:")):
        return bool(re.search(other.split(":", 1)[1], mine, re.DOTALL)) is not other.startswith("<!")
    if type_ == "BOOLEAN":
        return mine.lower() == {"1": "true", "0": "false"}.get(other, other.lower())
    return _close(mine, other, _TOLERANCE if type_ in ("FLOAT", "DOUBLE") else 0.0)


def _close(mine: str, other: str, tolerance: float) -> bool:
    try:
        ours, theirs = float(mine), float(other)
    except ValueError:
        return False
    return ours == theirs or math.isclose(ours, theirs, rel_tol=tolerance) or (ours != ours and theirs != theirs)


if __name__ == "__main__":
    sys.exit(main())
