"""Two predicates in Python of unknown cost and selectivity: the order that qoop finds against the best and the worst.

One predicate is dear and lets most rows pass, the other is cheap and lets few pass. qoop and DuckDB get both texts,
each in a session that knows nothing; the best order and the worst are DuckDB's with a CASE that leaves no choice.
Seconds are of the processor, for all that the functions do is to compute. The dear one computes in one call into C: a
loop of Python takes a fourth longer or not by where the interpreter has put its numbers, in this process or that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from qoop.catalog.errors import ExecutionError
from qoop.catalog.opening import open_duckdb
from qoop.session import connect

_TEXTS = {"best": ("cheap(i)", "dear(i)"), "reversed": ("dear(i)", "cheap(i)")}
_MODULUS = (1 << 127) - 1
_AND, _FORCED = "{} AND {}", "CASE WHEN {} THEN {} ELSE false END"


@dataclass(frozen=True, slots=True)
class PythonOrderOptions:
    """rows: of the table. bits: of the exponent that the dear predicate raises to, of which 200 take about 30 µs.
    repeat: rounds, of which the shortest count."""

    rows: int = 400_000
    bits: int = 200
    repeat: int = 3


@dataclass(frozen=True, slots=True)
class PythonOrderResult:
    """Seconds of one order of the text. forced: in that order, whatever it costs. ratio: qoop's to the best forced."""

    text: str
    qoop: float
    duckdb: float
    forced: float
    ratio: float

    def line(self) -> str:
        return f"{self.text:9s} {self.qoop:8.3f} {self.duckdb:8.3f} {self.forced:8.3f} {self.ratio:8.2f}"


HEADER = "order         qoop   DuckDB   forced  qoop over the best order"


def run(options: PythonOrderOptions, told: Callable[[str], None] = print) -> list[PythonOrderResult]:
    """Run both texts on both sides, in turn. Raises ExecutionError if the answers differ."""
    seconds: dict[tuple[str, str], float] = {}
    answers = set()
    sides = {"qoop": (_qoop, _AND), "duckdb": (_duckdb, _AND), "forced": (_duckdb, _FORCED)}
    for _ in range(options.repeat):
        for name, predicates in _TEXTS.items():
            for side, (runs, form) in sides.items():
                took, found = runs(options, f"SELECT count(*) FROM t WHERE {form.format(*predicates)}")
                seconds[side, name] = min(took, seconds.get((side, name), took))
                answers.add(found)
    if len(answers) != 1:
        raise ExecutionError(f"the answers differ: {answers}")
    told(HEADER)
    best = seconds["forced", "best"]
    results = [_result(name, seconds, best) for name in _TEXTS]
    for one in results:
        told(one.line())
    return results


def _result(name: str, seconds: dict[tuple[str, str], float], best: float) -> PythonOrderResult:
    ours, theirs, forced = (seconds[side, name] for side in ("qoop", "duckdb", "forced"))
    return PythonOrderResult(name, ours, theirs, forced, ours / best)


def to_json(results: list[PythonOrderResult]) -> list[dict[str, Any]]:
    """The figures for a file."""
    return [asdict(one) for one in results]


def _functions(options: PythonOrderOptions) -> dict[str, Callable[[int], bool]]:
    exponent = (1 << options.bits) - 1

    def dear(number: int) -> bool:
        pow(7, exponent, _MODULUS)
        return number % 11 != 0

    def cheap(number: int) -> bool:
        return number % 10 == 3

    return {"dear": dear, "cheap": cheap}


def _qoop(options: PythonOrderOptions, text: str) -> tuple[float, int]:
    with connect(slots=1) as session:
        session.register("t", pa.table({"i": range(options.rows)}))
        for name, function in _functions(options).items():
            session.register_function(name, function, ["BIGINT"], "BOOLEAN")
        session.register_function("known", lambda number: number, ["BIGINT"], "BIGINT")
        session.sql("SELECT sum(known(i)) FROM t WHERE i < 9")  # the planner is loaded
        began = time.process_time()
        [(found,)] = session.sql(text).fetchall()
        return time.process_time() - began, int(found)


def _duckdb(options: PythonOrderOptions, text: str) -> tuple[float, int]:
    connection = open_duckdb(threads=1)
    connection.register("t", pa.table({"i": range(options.rows)}))
    for name, function in _functions(options).items():
        connection.create_function(name, function, ["BIGINT"], "BOOLEAN")
    began = time.process_time()
    [(found,)] = connection.sql(text).fetchall()
    took = time.process_time() - began
    connection.close()
    return took, int(found)
