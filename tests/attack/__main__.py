"""The attack: thousands of tries to get a wrong answer, a strange error or a file that nobody gave out of qoop.

    python tests/attack --seed 7                          # `make attack`: all series, some minutes to an hour
    python tests/attack --series texts,files --share 0.1  # these alone, with a tenth of the tries

A series is a module ``attack_<name>.py`` here, whose function of that name yields an `Outcome` for every try. With the
same seed it does the same again. Failures are printed as they come, and the exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from attack_outcome import Outcome  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import Progress  # noqa: E402
from rich.table import Column, Table  # noqa: E402

TRIES = {"texts": 10_000, "files": 1_000, "memory": 20, "kills": 100, "bombs": 18}
"""The tries of each series; one that is not here has `OTHERS`."""

OTHERS = 100
SHOWN = 10
"""Failures of a series that the table at the end tells of."""

Attack = Callable[[Path, int, int], Iterator[Outcome]]


@dataclass
class Series:
    """The outcome of a series."""

    name: str
    tries: int = 0
    seconds: float = 0.0
    failures: list[Outcome] = field(default_factory=list)

    @property
    def held(self) -> int:
        return self.tries - len(self.failures)


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    console = Console()
    console.print(f"seed {options.seed}")
    found = [_attack(console, name, options.seed, _tries(name, options)) for name in options.series]
    console.print(_table(found))
    for series in found:
        for failure in series.failures[:SHOWN]:
            console.print(f"{series.name}: {failure.told}", markup=False)
        if series.failures:
            console.print(f"again: {_again(series, options)}", markup=False)
    return 1 if any(series.failures or not series.tries for series in found) else 0


def known() -> list[str]:
    """The series that there are, in the order in which they run."""
    names = {path.stem.removeprefix("attack_") for path in HERE.glob("attack_*.py")} - {"outcome"}
    return sorted(names, key=lambda name: (list(TRIES).index(name) if name in TRIES else len(TRIES), name))


def attack(name: str) -> Attack:
    """The function of a series."""
    found: Attack = getattr(import_module(f"attack_{name}"), name)
    return found


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/attack")
    parser.add_argument("--series", type=_names, default=known(), help=f"of {', '.join(known())} (all)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--runs", type=int, help="tries of each series (as many as each has)")
    parser.add_argument("--share", type=float, default=1.0, help="of the tries that each series has (1)")
    return parser.parse_args(words)


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = set(names).difference(known())
    if unknown:
        raise argparse.ArgumentTypeError(f"no series {', '.join(sorted(unknown))}; there are {', '.join(known())}")
    return names


def _tries(name: str, options: argparse.Namespace) -> int:
    return max(1, options.runs or round(TRIES.get(name, OTHERS) * options.share))


def _attack(console: Console, name: str, seed: int, tries: int) -> Series:
    series, began = Series(name), time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"qoop-attack-{name}-") as folder, Progress(console=console) as progress:
        task = progress.add_task(name, total=tries)
        for outcome in attack(name)(Path(folder), seed, tries):
            series.tries += 1
            progress.update(task, completed=series.tries, description=_described(series))
            if not outcome.held:
                series.failures.append(outcome)
                progress.console.print(f"{name}, try {series.tries}: {outcome.told}", markup=False)
    series.seconds = time.monotonic() - began
    return series


def _described(series: Series) -> str:
    return f"{series.name}, {len(series.failures)} failed"


def _again(series: Series, options: argparse.Namespace) -> str:
    return f"make attack SERIES={series.name} SEED={options.seed} RUNS={_tries(series.name, options)}"


def _table(found: Sequence[Series]) -> Table:
    table = Table("series", *(_right(name) for name in ("tries", "held", "failed", "seconds")))
    for series in found:
        numbers = (f"{series.tries:,}", f"{series.held:,}", f"{len(series.failures):,}", f"{series.seconds:.0f}")
        table.add_row(series.name, *numbers)
    return table


def _right(name: str) -> Column:
    return Column(name, justify="right")


if __name__ == "__main__":
    sys.exit(main())
