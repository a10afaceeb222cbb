"""Short queries and large answers by a server, next to its session and to Arrow: the figures of `qoop bench serve`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from qoop.catalog.errors import ConfigError
from qoop.config import configure
from qoop.session import Session

_SHORT = "SELECT k, count(*) AS n, sum(v) AS s FROM small WHERE v > 3 GROUP BY k ORDER BY k"
_LARGE = "FROM large"
_WARM = 20
"""Short queries before those that count."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """queries: short ones by each way, in turns. rows: of the large answer. repeat: of it, by each way."""

    queries: int = 300
    rows: int = 10_000_000
    repeat: int = 3
    slots: int = 2


@dataclass(frozen=True, slots=True)
class ServeResult:
    """short: median seconds of a short query, by way; `driver`: by ADBC alone, from a server that has the answer.
    large: least seconds of the large answer, by way and `arrow`. bytes: of the large answer.
    """

    short: Mapping[str, float]
    large: Mapping[str, float]
    bytes: int

    def sending(self, way: str) -> float:
        """The throughput of sending the large answer, once it is made, over Arrow's own."""
        return self.large["arrow"] / max(1e-9, self.large[way] - self.large["session"])


def run(options: ServeOptions) -> ServeResult:
    """Serve tables in memory and ask for them. Raises ConfigError where what serves, or asks, is not installed."""
    try:
        from qoop.tpcds.serving.served import bare, bare_and_driven, served
    except ImportError as error:
        raise ConfigError("pip install 'qoop[server]': what serves") from error
    small = pa.table({"k": [row % 5 for row in range(10_000)], "v": [row % 1000 for row in range(10_000)]})
    numbers = pa.array(range(options.rows), pa.int64())
    large = pa.table({"a": numbers, "b": numbers, "c": numbers.cast(pa.float64())})
    with Session(configure(slots=options.slots, locked=True)) as session:
        session.register("small", small)
        session.register("large", large)
        with served(session) as asked, bare(large) as fetch:
            with bare_and_driven(asked.session(_SHORT), session) as answer:
                ways = {name: _asking(ask, _SHORT) for name, ask in {**asked.ways, "driver": answer}.items()}
                short = _in_turns(ways, options.queries, _WARM)
            ways = {name: _asking(ask, _LARGE) for name, ask in asked.ways.items()} | {"arrow": fetch}
            whole = _in_turns(ways, options.repeat, 1)
    return ServeResult(
        {name: median(found) for name, found in short.items()},
        {name: min(found) for name, found in whole.items()},
        large.nbytes,
    )


def _asking(ask: Callable[[str], pa.Table], text: str) -> Callable[[], pa.Table]:
    return lambda: ask(text)


def _in_turns(ways: Mapping[str, Callable[[], pa.Table]], times: int, warm: int) -> dict[str, list[float]]:
    """Seconds of each way, one after the other, so that what else the machine does meets all alike."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(times + warm):
        for name, fetch in ways.items():
            begun = time.perf_counter()
            rows = fetch().num_rows
            seconds = time.perf_counter() - begun
            assert rows > 0
            if number >= warm:
                found[name].append(seconds)
    return found


def summary(done: ServeResult) -> str:
    """For people."""
    own = done.short["session"]
    lines = [
        f"a short query: {own * 1e3:.2f} ms by the session, "
        + ", ".join(f"{(done.short[way] - own) * 1e3:+.2f} ms by {way}" for way in ("http", "flight"))
        + f", of which its driver takes {done.short['driver'] * 1e3:.2f} ms with Arrow's own server"
    ]
    made = done.large["session"]
    lines.append(
        f"{done.bytes / 1e6:,.0f} MB: sent in {done.large['arrow']:.2f} s by Arrow's own server, made in {made:.2f} s "
        "by the session; made and sent in "
        + ", ".join(f"{done.large[way]:.2f} s by {way} ({done.sending(way):.0%})" for way in ("flight", "http"))
        + " (Arrow's seconds over those beyond the session's)"
    )
    return "\n".join(lines)


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], write: Callable[[Any, str | None], None]
) -> None:
    """Add `serve`. write: puts figures into a file, if one is named."""
    what = "Short queries and a large answer by a server, next to its session and to Arrow's own server"
    parser = commands.add_parser("serve", help=what, description=f"{what}. The machine should do nothing else.")
    parser.add_argument("--queries", type=int, default=300, metavar="N", help="short queries by each way (300)")
    parser.add_argument("--rows", type=int, default=10_000_000, metavar="N", help="of the large answer (10,000,000)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="of the large answer by each way (3)")
    parser.add_argument("--slots", type=int, default=2, metavar="N", help="tasks at a time (2)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")

    def command(options: argparse.Namespace) -> int:
        if min(options.queries, options.rows, options.repeat, options.slots) < 1:
            raise ConfigError("--queries, --rows, --repeat and --slots must be 1 or more")
        done = run(ServeOptions(options.queries, options.rows, options.repeat, options.slots))
        print(summary(done))
        write(asdict(done), options.json)
        return 0

    parser.set_defaults(run=command)
