"""Commands on sweeps: ``\\sweep FILE`` runs one and shows its trials meanwhile, ``\\sweeps`` lists them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import span
from qoop.interfaces.repl.command import Command

if TYPE_CHECKING:
    from qoop.interfaces.repl.shell import Shell
    from qoop.programs.sweeps.report import TrialStatus
    from qoop.programs.sweeps.study import Study

_SHOWN, _EVERY = 10, 0.2
"""Trials shown of a sweep that runs, and seconds from one picture to the next."""
_RIGHT = ("trial", "value", "steps", "time", "chance")


def _sweep(shell: Shell, line: str) -> None:
    words = shlex.split(line)
    if len(words) != 1:
        raise ConfigError("\\sweep FILE runs the sweep that a TOML file describes: step, params, metric, start …")
    study = shell.session.sweep(**options_of(Path(words[0]).expanduser()))
    shell.sweeps.append(study)
    _watch(shell, study)
    shell.show_rows(columns_of(study, len(study.trials)), right=_RIGHT)
    shell.tell(f"{_summary(study)}. FROM sweep('{study.name}') reads the trials")


def _watch(shell: Shell, study: Study) -> None:
    """Show the trials until the sweep ends; Ctrl-C stops it, with what it has found."""
    from qoop.interfaces.repl.growing_table import ReplacedText
    from qoop.query.drawing.table_text import plain_table

    shown, last = ReplacedText(shell.say, shell.terminal), 0.0
    try:
        for trial in study.events():
            if not shell.terminal().colours:
                shell.say(f"{trial}")
            elif monotonic() - last > _EVERY:
                shown.show(f"{_summary(study)}\n{plain_table(columns_of(study, _SHOWN), _RIGHT, shell.terminal())}")
                last = monotonic()
    except KeyboardInterrupt:
        study.stop()
    finally:
        shown.clear()


def _sweeps(shell: Shell, _: str) -> None:
    from qoop.programs.sweeps.report import params_text

    found = shell.session.sweeps()
    if not found:
        shell.say("no sweep has run yet")
        return
    rows = []
    for study in found:
        trials, best = study.trials, study.best_number
        ended = sum(one.state in ("COMPLETE", "PRUNED", "FAIL") for one in trials)
        value = ("", "") if best is None else (f"{trials[best].value:.6g}", params_text(trials[best]))
        rows.append((study.name, f"{ended}/{len(trials)}", *value, study.why or "it runs"))
    names = ("sweep", "trials", "best", "setting", "state")
    shell.show_rows({name: [row[place] for row in rows] for place, name in enumerate(names)}, right=("trials", "best"))


def _summary(study: Study) -> str:
    from qoop.programs.sweeps.report import summary

    return summary(study)


def columns_of(study: Study, most: int) -> Mapping[str, Sequence[str]]:
    """The best trials as columns of texts; empty columns are left out."""
    from qoop.programs.sweeps.report import ranked

    rows = [_row(one) for one in ranked(study)[:most]]
    names = ("trial", "state", "kind", "chance", "value", "steps", "time", "setting", "why")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return {name: cells for name, cells in columns.items() if any(cells)}


def _row(one: TrialStatus) -> tuple[str, ...]:
    from qoop.programs.sweeps.report import params_text

    chance = "" if one.chance is None else f"{one.chance:.0%}"
    value = "" if one.value is None else f"{one.value:.6g}"
    found = (one.kind, chance, value, str(one.steps), span(one.seconds), params_text(one), one.why)
    return (str(one.number), one.state.lower(), *found)


def options_of(path: Path) -> dict[str, Any]:
    """The arguments of `Session.sweep` in a TOML file. A range is written ``{log_uniform = [0.001, 1]}``.

    Raises ConfigError.
    """
    import tomllib  # few sessions read a file of a sweep

    from qoop.programs.sweeps.space import int_uniform, log_uniform, uniform

    try:
        options = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    missing = [name for name in ("step", "params", "metric") if name not in options]
    if missing:
        raise ConfigError(f"{path} lacks {', '.join(missing)}")
    made = {"uniform": uniform, "log_uniform": log_uniform, "int_uniform": int_uniform}

    def parameter(name: str, one: Any) -> Any:
        if not isinstance(one, dict):
            return one
        [(kind, ends)] = one.items() if len(one) == 1 else [("", ())]
        if kind not in made or not isinstance(ends, list) or len(ends) != 2:
            raise ConfigError(f"the parameter {name} must be a list, or a range such as {{uniform = [0.0, 1.0]}}")
        return made[kind](*ends)

    if isinstance(options["params"], dict):
        options["params"] = {name: parameter(name, one) for name, one in options["params"].items()}
    return options


SWEEP_COMMANDS = (
    Command(("sweep",), "FILE", "run a query with many settings, as a TOML file describes it", _sweep, "after"),
    Command(("sweeps",), "", "the sweeps, and the best setting of each", _sweeps),
)
