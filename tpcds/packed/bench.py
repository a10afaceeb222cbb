"""Loose outputs next to packed ones behind a slow store: the figures of `qoop bench pack`."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qoop.catalog.errors import ConfigError
from qoop.tpcds.packed import small_query
from qoop.tpcds.packed.shuffle import ShuffleOptions, ShuffleResult
from qoop.tpcds.packed.shuffle import run as run_shuffle


@dataclass(frozen=True, slots=True)
class PackOptions:
    """The size of the shuffle. latency: seconds of a request. work: seconds of a task besides. repeat: of the small
    query, with each kind; 0: it is left out."""

    maps: int = 200
    reduces: int = 200
    latency: float = 0.03
    work: float = 0.0
    slots: int = 2
    repeat: int = 9


@dataclass(frozen=True, slots=True)
class PackResult:
    """The shuffle with loose and with packed outputs, and seconds of the small query with both."""

    loose: ShuffleResult
    packed: ShuffleResult
    small: tuple[float, float] | None

    @property
    def fewer(self) -> float:
        """Requests of loose outputs over those of packed ones."""
        return self.loose.all_requests / self.packed.all_requests

    @property
    def faster(self) -> float:
        """Seconds of loose outputs over those of packed ones, from the first task to the last durable output."""
        return self.loose.all_seconds / self.packed.all_seconds

    @property
    def resumes_faster(self) -> float:
        """The same for a machine that has nothing yet and goes on from what another left."""
        return self.loose.seconds["reduce"] / self.packed.seconds["reduce"]


def run(options: PackOptions, told: Callable[[str], None] = print) -> PackResult:
    """Run all, in a temporary folder."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="qoop-bench-pack-") as folder:
        for name, pack in (("packed", True), ("loose", False)):
            shuffle = ShuffleOptions(
                Path(folder) / name, options.maps, options.reduces, slots=options.slots, work=options.work,
                latency=options.latency, pack=pack,
            )  # fmt: skip
            found[name] = run_shuffle(shuffle)
            told(line(name, found[name]))
        assert found["loose"].total == found["packed"].total, "both read the same rows"
        small = small_query.seconds(Path(folder) / "small", options.latency, options.repeat) if options.repeat else None
    return PackResult(found["loose"], found["packed"], small)


def line(name: str, one: ShuffleResult) -> str:
    """Seconds by phase and requests by kind."""
    seconds = ", ".join(f"{phase} {took:.1f} s" for phase, took in one.seconds.items())
    kinds = ", ".join(f"{times} {kind}" for kind, times in sorted(one.kinds.items()))
    return f"{name:>7}: {one.all_seconds:.1f} s ({seconds}), {one.all_requests} requests ({kinds})"


def summary(done: PackResult) -> str:
    """The ratios."""
    lines = [
        f"{done.fewer:.1f} times fewer requests, {done.faster:.1f} times faster from end to end, "
        f"{done.resumes_faster:.1f} times where another machine goes on"
    ]
    if done.small is not None:
        loose, packed = done.small
        lines.append(f"a small query: {loose:.3f} s loose, {packed:.3f} s packed ({packed / loose - 1:+.1%})")
    return "\n".join(lines)


def to_json(done: PackResult) -> dict[str, Any]:
    """The figures, for programs."""
    sides = {"loose": done.loose, "packed": done.packed}
    shuffles = {
        name: {"seconds": one.seconds, "requests": {phase: dict(kinds) for phase, kinds in one.requests.items()}}
        for name, one in sides.items()
    }
    return {**shuffles, "small_query": done.small}


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], write: Callable[[Any, str | None], None]
) -> None:
    """Add `pack`. write: puts figures into a file, if one is named."""
    what = "A durable shuffle over a store whose requests take their time, with loose and with packed outputs"
    parser = commands.add_parser("pack", help=what, description=f"{what}. The machine should do nothing else.")
    parser.add_argument("--maps", type=int, default=200, metavar="N", help="tasks that write (200)")
    parser.add_argument("--reduces", type=int, default=200, metavar="N", help="tasks that read (200)")
    parser.add_argument("--latency", type=float, default=0.03, metavar="S", help="seconds of a request (0.03)")
    parser.add_argument("--work", type=float, default=0.0, metavar="S", help="seconds of a task besides (0)")
    parser.add_argument("--slots", type=int, default=2, metavar="N", help="tasks at a time (2)")
    parser.add_argument("--repeat", type=int, default=9, metavar="N", help="runs of a small query; 0: none (9)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")

    def command(options: argparse.Namespace) -> int:
        if min(options.maps, options.reduces, options.slots) < 1 or options.repeat < 0:
            raise ConfigError("--maps, --reduces and --slots must be 1 or more, --repeat 0 or more")
        if min(options.latency, options.work) < 0:
            raise ConfigError("--latency and --work must be seconds from 0 on")
        done = run(
            PackOptions(options.maps, options.reduces, options.latency, options.work, options.slots, options.repeat)
        )
        print(summary(done))
        write(to_json(done), options.json)
        return 0

    parser.set_defaults(run=command)
