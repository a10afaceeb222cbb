"""The smallest text and tables that still differ, and a script that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz_judge import asked, judged
from fuzz_tables import ARROW, DATABASE, PARQUET, Hosts, Table
from fuzz_templates import LEAST
from fuzz_tree import plain, smaller

from qoop.tpcds.oracle import Difference

_TRIES = 1500


@dataclass(frozen=True)
class Found:
    """A marked text that qoop answers differently in a mode, over these tables."""

    text: str
    mode: str
    tables: tuple[Table, ...]
    difference: Difference


def shrunk(found: Found) -> Found:
    """The text first, by grammar; then the tables it needs, by rows and columns; then the text once more."""
    found = _with_less_text(found)
    used = tuple(table for table in found.tables if f" {table.name} AS " in plain(found.text))
    found = _if_differs(replace(found, tables=used)) or found
    for number in range(len(found.tables)):
        found = _with_fewer_rows(found, number)
    return _with_less_text(found)


def _with_less_text(found: Found) -> Found:
    with TemporaryDirectory(prefix="qoop-fuzz-") as folder:
        hosts = Hosts(Path(folder), found.tables)
        try:
            return _least(hosts, found)
        finally:
            hosts.close()


def _least(hosts: Hosts, found: Found) -> Found:
    tries, again = 0, True
    while again and tries < _TRIES:
        again = False
        for text in smaller(found.text, LEAST):
            tries += 1
            difference = _difference(hosts, plain(text), found)
            if difference is not None:
                found, again = replace(found, text=text, difference=difference), True
                break
    return found


def _difference(hosts: Hosts, text: str, found: Found) -> Difference | None:
    """The difference of a smaller text, if it is of the same sort."""
    verdict = judged(hosts, text, found.mode, asked(hosts.duckdb, text))
    return verdict if isinstance(verdict, Difference) and verdict.kind == found.difference.kind else None


def _if_differs(found: Found) -> Found | None:
    with TemporaryDirectory(prefix="qoop-fuzz-") as folder:
        hosts = Hosts(Path(folder), found.tables)
        try:
            difference = _difference(hosts, plain(found.text), found)
        finally:
            hosts.close()
    return None if difference is None else replace(found, difference=difference)


def _with_fewer_rows(found: Found, number: int) -> Found:
    """Leave out half of a table's rows, a quarter, and so on to single ones."""
    step = len(found.tables[number].rows)
    while step:
        for rows in list(_without(found.tables[number].rows, step)):
            tables = list(found.tables)
            tables[number] = replace(tables[number], rows=rows)
            less = _if_differs(replace(found, tables=tuple(tables)))
            if less is not None:
                found = less
                break
        else:
            step //= 2
            continue
        step = min(step, len(found.tables[number].rows))
    return found


def _without(rows: Sequence[tuple[str, ...]], step: int) -> Iterator[tuple[tuple[str, ...], ...]]:
    for first in range(0, len(rows), step):
        yield (*rows[:first], *rows[first + step :])


def script(found: Found) -> str:
    """A Python program that shows both answers."""
    text, usual = plain(found.text), found.mode in ("whole", "usual")
    lines = ["import tempfile", "", "import duckdb", "import qoop", "", "folder = tempfile.mkdtemp()"]
    lines += ["oracle = duckdb.connect()", f"session = qoop.connect(slots=2, staged={found.mode != 'whole'})"]
    for table in found.tables:
        lines += [f'oracle.execute("""{table.create()}""")', *_HOLDING[table.held].format(name=table.name).split("\n")]
    lines += ["", f'text = r"""{text}"""', "print(oracle.sql(text))"]
    if usual:
        return "\n".join([*lines, "print(session.sql(text))"])
    planned = ["import sys", "sys.path.insert(0, 'tests/fuzz')", "from fuzz_forms import planning_as"]
    return "\n".join([*planned, *lines, f"with planning_as({found.mode!r}):", "    print(session.sql(text))"])


_HOLDING = {
    PARQUET: """oracle.execute(f"COPY {name} TO '{{folder}}/{name}.parquet'; DROP TABLE {name}")
oracle.execute(f"CREATE VIEW {name} AS FROM '{{folder}}/{name}.parquet'")
session.register("{name}", f"{{folder}}/{name}.parquet")""",
    ARROW: """oracle.execute("SET arrow_lossless_conversion = true")
session.register("{name}", oracle.execute("FROM {name}").to_arrow_table())
oracle.execute("SET arrow_lossless_conversion = false")""",
    DATABASE: """oracle.execute(f"ATTACH '{{folder}}/{name}.duckdb' AS made")
oracle.execute("CREATE TABLE made.{name} AS FROM {name}; DETACH made")
session.register_database(f"{{folder}}/{name}.duckdb")""",
}  # fmt: skip
