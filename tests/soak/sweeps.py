"""Kills of processes that run a named sweep (`make soak-sweeps`): each trial goes on from its last step.

python tests/soak/sweeps.py --kills 200 --seed 7
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import duckdb

import qoop
from qoop.programs.sweeps import sweep

STEP = "SELECT f.x - $rate * 2 * (f.x - avg(p.v)) AS x FROM former f, points p GROUP BY f.x"
METRIC = "SELECT avg((p.v - f.x) * (p.v - f.x)) FROM former f, points p"
ROWS = "SELECT (hash(i) % 700)::DOUBLE AS v FROM range(120_000) t(i)"
_TRIALS, _STEPS = 12, 40
_PAYS = sweep._PAYS
_MOST_LINES = 8
"""Steps that a process may report before it is killed."""


@dataclass
class Report:
    """kills: so far. steps: of each trial of the sweep, as reported. errors: what was lost, or done again."""

    kills: int = 0
    sweeps: int = 0
    steps: dict[int, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        """A step that a process has reported: no process before has done it."""
        trial, steps = map(int, line.split()[:2])
        if steps <= self.steps.get(trial, 0):
            self.errors.append(f"step {steps} of trial {trial} was done again, after {self.steps[trial]} steps")
        self.steps[trial] = max(steps, self.steps.get(trial, 0))


def swept(session: qoop.Session, folder: str, seed: int, name: str | None) -> qoop.Study:
    """A sweep over settings that a seed draws. With an odd seed its early steps read some pieces of a file: a third of
    the steps, as with long steps. With every second odd seed they end where they do not pay, as these short ones."""
    pieces = has_pieces(seed)
    sweep._PAYS = _PAYS if may_end_early_steps(seed) else 0.0
    if pieces:
        session.register("points", f"{folder}/points.parquet")
    else:
        session.sql(f"CREATE OR REPLACE TABLE points AS {ROWS} LIMIT 5000")
    return session.sweep(
        STEP, {"rate": qoop.log_uniform(0.001, 1.2)}, metric=METRIC, start="SELECT 9.0::DOUBLE AS x", trials=_TRIALS,
        direction="minimize", every=5, most=_STEPS, name=name, seed=seed, fidelity="pieces" if pieces else None,
    )  # fmt: skip


def has_pieces(seed: int) -> bool:
    """True for a sweep with early steps over pieces."""
    return seed % 2 == 1


def may_end_early_steps(seed: int) -> bool:
    """True if measured seconds decide how many steps of a sweep are early, so that its values are not those of another
    run to the last digit."""
    return seed % 4 == 3


def life(folder: str, seed: int) -> None:
    """A process that goes on with a sweep, and reports its steps."""
    with qoop.connect(slots=2, memory="300MB", checkpoints=f"{folder}/kept") as session:
        study = swept(session, folder, seed, f"soak_{seed}")
        for trial in study.events():
            print(trial.number, trial.steps, flush=True)
        print("best", study.best_params["rate"], study.best_value, study.best_result().fetchall(), flush=True)


def outcome(folder: str, seed: int, report: Report, kills: int, draw: random.Random) -> str:
    """The last line of a sweep that was killed many times."""
    report.steps.clear()
    while True:
        words = [sys.executable, __file__, "--life", folder, "--seed", str(seed)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = draw.randrange(_MOST_LINES) if report.kills < kills else None
            for number, line in enumerate(process.stdout):
                if line.startswith("best"):
                    return line
                report.note(line)
                if number == lines:
                    os.kill(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode != -signal.SIGKILL:
            raise AssertionError(f"a process ended by itself, with {process.returncode}")
        report.kills += 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/soak/sweeps.py")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--life", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.life:
        life(options.life, options.seed)
        return 0
    report, draw = Report(), random.Random(options.seed)
    while report.kills < options.kills:
        seed, report.sweeps = options.seed + report.sweeps, report.sweeps + 1
        with tempfile.TemporaryDirectory(prefix="qoop-soak-") as folder, qoop.connect(slots=2, memory="300MB") as alone:
            duckdb.execute(f"COPY ({ROWS}) TO '{folder}/points.parquet'")
            found = outcome(folder, seed, report, options.kills, draw)
            study = swept(alone, folder, seed, None)
            study.wait()
            best = f"best {study.best_params['rate']} {study.best_value} {study.best_result().fetchall()}\n"
            same = found == best
            if may_end_early_steps(seed):
                same = math.isclose(float(found.split()[2]), study.best_value, rel_tol=1e-6)
            if not same:
                report.errors.append(f"sweep {seed} found {found!r}, without kills {best!r}")
            if set(report.steps.values()) != {_STEPS}:
                report.errors.append(f"sweep {seed} ended with {report.steps}")
        print(f"{report.sweeps} sweeps, {report.kills} kills, {len(report.errors)} errors", flush=True)
    print("\n".join(report.errors))
    return int(bool(report.errors))


if __name__ == "__main__":
    sys.exit(main())
