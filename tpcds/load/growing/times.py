"""Times of growing answers over the queries of TPC-DS, next to those of the exact answers, in turn in one process.

Each query runs exactly, then grows to within five and one percent at 95 percent, then until it is exact; what is told
are parts of the exact time. Of queries that run exactly at once the reason is told.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from qoop.growing.edition import Edition
from qoop.session import Session, connect
from qoop.tpcds.queries import texts

GOALS = (0.05, 0.01, 0.0)
"""Half-widths of intervals; 0: the exact answer."""


@dataclass(frozen=True)
class Times:
    """Of one query. exact: seconds of the plain query. first, ended, shares: by goal, seconds until the first edition
    and until the last, and the part that was read. reason: why it does not grow."""

    name: str
    exact: float
    first: tuple[float, ...] = ()
    ended: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    reason: str = ""

    def line(self) -> str:
        """One line of the table."""
        begin = f"{self.name:>5} {self.exact:7.2f}"
        if self.reason:
            return f"{begin}  {self.reason}"
        parts = " ".join(
            f"{ended / self.exact:6.2f} ({share:4.0%})" for ended, share in zip(self.ended, self.shares, strict=True)
        )
        return f"{begin} {min(self.first):7.2f} {parts}"


def timed(session: Session, name: str, text: str, repeats: int = 2) -> Times:
    """The times of a query, each the least of some."""
    session.sql(text)
    exact = min(_seconds(lambda: session.sql(text).fetchall()) for _ in range(repeats))
    found = [min((_grown(session, text, goal) for _ in range(repeats)), key=lambda one: one[1]) for goal in GOALS]
    reason = next((last.reason for _, _, last in found if last.reason), "")
    return Times(
        name, exact, tuple(one[0] for one in found), tuple(one[1] for one in found),
        tuple(one[2].share for one in found), reason,
    )  # fmt: skip


def _seconds(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def _grown(session: Session, text: str, goal: float) -> tuple[float, float, Edition]:
    """Seconds until the first edition and until the last, and the last."""
    begun, first = time.perf_counter(), math.nan
    for edition in session.approximate(text, goal, 0.95).editions():
        edition.result.fetchall()
        first = time.perf_counter() - begun if math.isnan(first) else first
    return first, time.perf_counter() - begun, edition


def lines(directory: Path, slots: int, numbers: Collection[int], exact_within: float) -> Iterator[str]:
    """A line a query, and then the medians of those that grow. exact_within: see `qoop.config.Config`."""
    yield "query   exact   first  to 5 % (read)  to 1 % (read)  to the end    (parts of the exact seconds)"
    found = []
    with connect(slots=slots) as session:
        session.register_folder(directory)
        session.set("exact_within", exact_within)
        for number, text in texts("tpcds", directory).items():
            if number in numbers:
                found.append(timed(session, f"q{number}", text))
                yield found[-1].line()
    grown = [one for one in found if not one.reason]
    if grown:
        yield f"{len(grown)} of {len(found)} grow; {_medians(grown)}"


def _medians(grown: Sequence[Times]) -> str:
    parts = [median(one.ended[place] / one.exact for one in grown) for place in range(len(GOALS))]
    first = max(one.first[0] for one in grown)
    return f"medians {', '.join(f'{part:.2f}' for part in parts)}; the last first edition after {first:.2f} s"
