"""``qoop bench tiles``: the tiles of three dashboards, submitted together, one after the other, and on DuckDB.

Each way has a session of its own, so nothing is there from another one; the order of the ways alternates. The answers
of both ways are compared with DuckDB's.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from qoop.catalog.errors import ConfigError
from qoop.session.opening import connect
from qoop.session.session import Session
from qoop.tpcds.oracle import Oracle
from qoop.tpcds.results import Results
from qoop.tpcds.streams.boards import YEAR, boards

_WAYS = ("together", "in turn", "DuckDB")
_OTHER_YEAR = YEAR + 1  # of the boards that load code and statistics, untimed
_HEADER = f"{'board':8} {'way':9} {'wall s':>8} {'cpu s':>8} {'first answer s':>15}"


@dataclass(frozen=True)
class TilesOptions:
    """repeat: runs of each board by each way; the medians count. slots, memory: of both sides."""

    directory: Path
    repeat: int = 3
    slots: int = 2
    memory: str = "4GB"
    results: Path | None = None


@dataclass(frozen=True, slots=True)
class BoardRun:
    """The seconds of one run of a board. first: until the first answer. errors: answers that differ from DuckDB's."""

    board: str
    way: str
    wall: float
    cpu: float
    first: float
    errors: Sequence[str] = ()

    def line(self) -> str:
        return f"{self.board:8} {self.way:9} {self.wall:8.3f} {self.cpu:8.3f} {self.first:15.3f}"


def run(options: TilesOptions, progress: Callable[[str], None] = print) -> list[BoardRun]:
    """Run the boards that are not in the results yet. Raises ConfigError or SourceError if it cannot begin."""
    settings = {name: value for name, value in asdict(options).items() if name not in ("directory", "results")}
    results = Results(options.results, settings)
    done: list[BoardRun] = []
    progress(_HEADER)
    with Oracle(options.directory, options.slots, options.memory) as oracle:
        for name, texts in boards(_OTHER_YEAR).items():
            if any(results.get(f"{name} {number}") is None for number in range(options.repeat)):
                for way in _WAYS:
                    _run(options, oracle, name, way, texts)
        for name, texts in boards().items():
            expected = [oracle.answer(text) for text in texts]
            for number in range(options.repeat):
                kept = results.get(f"{name} {number}")
                runs = list(_runs(options, oracle, name, texts, expected, number)) if kept is None else _of(kept)
                results.put(f"{name} {number}", [asdict(one) for one in runs])
                for one in runs:
                    progress("\n".join((one.line(), *one.errors)))
                done += runs
    return done


def _of(kept: Any) -> list[BoardRun]:
    return [BoardRun(**one) for one in kept]


def _runs(
    options: TilesOptions, oracle: Oracle, name: str, texts: Sequence[str], expected: Sequence[pa.Table], number: int
) -> Iterator[BoardRun]:
    """A run by each way. The one that comes first changes with the number."""
    first = number % len(_WAYS)
    for way in (*_WAYS[first:], *_WAYS[:first]):
        found, answers = _run(options, oracle, name, way, texts)
        differences = (oracle.judge(*three) for three in zip(texts, answers, expected, strict=True))
        errors = [f"  tile {place}: {one}" for place, one in enumerate(differences, 1) if one is not None]
        yield BoardRun(**{**asdict(found), "errors": errors})


def _run(
    options: TilesOptions, oracle: Oracle, name: str, way: str, texts: Sequence[str]
) -> tuple[BoardRun, list[pa.Table]]:
    if way == "DuckDB":
        with _Watch() as watch:
            answers = []
            for text in texts:
                answers.append(oracle.answer(text))
                watch.answered()
        return BoardRun(name, way, *watch.seconds), answers
    with connect(slots=options.slots, memory=options.memory) as session:
        session.register_folder(options.directory)
        with _Watch() as watch:
            answers = _together(session, texts, watch) if way == "together" else _in_turn(session, texts, watch)
            session.cluster.wait_for_planner()
        return BoardRun(name, way, *watch.seconds), answers


def _together(session: Session, texts: Sequence[str], watch: _Watch) -> list[pa.Table]:
    jobs = session.submit_many(texts, watch=lambda job: job.when_ended(watch.answered))
    return [job.result().arrow() for job in jobs]


def _in_turn(session: Session, texts: Sequence[str], watch: _Watch) -> list[pa.Table]:
    answers = []
    for text in texts:
        answers.append(session.sql(text).arrow())
        watch.answered()
    return answers


class _Watch:
    """Measures a block. seconds: wall, cpu, and until the first answer."""

    def __enter__(self) -> _Watch:
        self._first = math.inf
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def answered(self) -> None:
        self._first = min(self._first, time.perf_counter() - self._wall)

    def __exit__(self, *_: object) -> None:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        self.seconds = (wall, cpu, min(self._first, wall))


def table(done: Sequence[BoardRun]) -> str:
    """The medians, and the ratios of the boards that were submitted together to those one after the other."""
    lines = ["", "medians", _HEADER]
    medians: dict[tuple[str, str], BoardRun] = {}
    for board in dict.fromkeys(one.board for one in done):
        for way in _WAYS:
            some = [one for one in done if (one.board, one.way) == (board, way)]
            parts = (median(getattr(one, part) for one in some) for part in ("wall", "cpu", "first"))
            medians[board, way] = BoardRun(board, way, *parts)
            lines.append(medians[board, way].line())
    for other in _WAYS[1:]:
        ratios = ", ".join(f"{part} {_ratio(medians, other, part):.2f}" for part in ("wall", "cpu", "first"))
        lines.append(f"together over {other}, sums of the boards: {ratios}")
    return "\n".join([*lines, f"wrong answers: {sum(len(one.errors) for one in done)}"])


def _ratio(medians: dict[tuple[str, str], BoardRun], other: str, part: str) -> float:
    ours, theirs = (
        sum(float(getattr(one, part)) for (_, way), one in medians.items() if way == kind) for kind in (_WAYS[0], other)
    )
    return ours / theirs


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    what = "Dashboards of 20 tiles: submitted together, one after the other, and on DuckDB"
    parser = commands.add_parser("tiles", description=f"{what}.")
    usual = TilesOptions(Path())
    parser.add_argument("directory", metavar="DIR", help="where `qoop tpcds generate` made the tables")
    parser.add_argument("--repeat", type=int, default=usual.repeat, metavar="N", help=f"of each board ({usual.repeat})")
    parser.add_argument("--slots", type=int, default=usual.slots, metavar="N", help=f"tasks at a time ({usual.slots})")
    parser.add_argument("--memory", default=usual.memory, metavar="SIZE", help=f"of each side ({usual.memory})")
    parser.add_argument("--results", metavar="FILE", help="kept as they come; a broken-off run goes on from there")
    parser.set_defaults(run=_command)


def _command(options: argparse.Namespace) -> int:
    if options.repeat < 1 or options.slots < 1:
        raise ConfigError("--repeat and --slots must be at least 1")
    results = Path(options.results) if options.results is not None else None
    chosen = TilesOptions(Path(options.directory), options.repeat, options.slots, options.memory, results)
    done = run(chosen, lambda line: print(line, flush=True))
    print(table(done))
    return 1 if any(one.errors for one in done) else 0
