"""The clients of `qoop bench bombs`, and what it says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from waits import until

from qoop.tpcds.bench.bombs import BombOptions, Clients, SideReport, Tally, Texts


def played(options: BombOptions) -> Tally:
    """The tally of clients, once each kind has had an answer."""

    def ask(number: int, text: str) -> Sequence[tuple[Any, ...]]:
        return [(1,)]

    clients = Clients(options, Texts(["SELECT 1"], [("a kind", "SELECT 1")]), ask, [[(1,)]])
    clients.start()
    until(lambda: (clients.tally.alone or clients.tally.with_bombs) and (clients.tally.bombs or options.alone > 60))
    clients.stop()
    return clients.tally


def test_queries_count_as_alone_until_the_bombers_begin() -> None:
    tally = played(BombOptions(Path(), seconds=600.0, dashboards=20, bombers=2))
    assert tally.alone and not tally.with_bombs and not tally.bombs


def test_at_a_cold_start_bombers_begin_with_the_server() -> None:
    tally = played(BombOptions(Path(), seconds=600.0, dashboards=20, bombers=2, cold=True))
    assert tally.with_bombs and not tally.alone and tally.bombs["answered"]


def test_a_run_says_first_what_comes() -> None:
    assert str(BombOptions(Path())) == "50 dashboards and 10 bombers from 20 s on, for 60 s"
    assert str(BombOptions(Path(), bombers=3, cold=True)) == "50 dashboards and 3 bombers, for 60 s"


def test_both_figures_are_in_the_line() -> None:
    tally = Tally(alone=[0.004, 0.006], with_bombs=[0.010])
    assert "2 answered, median 5 ms, p99 6 ms, slowest 6 ms alone" in SideReport("qoop serve", tally).line()
    assert "1 answered, median 10 ms, p99 10 ms, slowest 10 ms next to bombs" in SideReport("", tally).line()
    assert "none answered next to bombs" in SideReport("DuckDB", Tally()).line()
