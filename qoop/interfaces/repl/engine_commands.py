"""Commands on resources and plans: ``\\resize``, ``\\profile``, ``\\explain``, ``\\history``, ``\\timeline`` …"""

from __future__ import annotations

import shlex
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.adaptive.retrace.story import story
from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import span
from qoop.engine.task import available_of
from qoop.interfaces.repl.command import Command

if TYPE_CHECKING:
    from qoop.interfaces.repl.shell import Shell


def _resize(shell: Shell, line: str) -> None:
    options = dict(word.partition("=")[::2] for word in ("slots=auto memory=auto" if line == "auto" else line).split())
    known = {"slots", "memory", "notice"}
    if not options or not options.keys() <= known or not all(options.values()):
        raise ConfigError("write \\resize slots=1 memory=1GB, and notice=10 for a change in 10 seconds; \\resize auto")
    slots = int(options["slots"]) if options.get("slots", "").isdigit() else options.get("slots")
    notice = _number("notice", options.get("notice", "0"))
    shell.session.resize(slots, options.get("memory"), notice=notice)  # type: ignore[arg-type]  # it raises for wrong types
    when = f"in {notice:g} s" if notice else "from now on"
    changes = ", ".join(f"{name} {value}" for name, value in options.items() if name != "notice")
    shell.tell(f"{changes} {when}" if notice else f"queries now have {available_of(shell.session.configured)}")


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{name} must be a number, not {text!r}") from error


_NAMED_SPEED = 60.0
"""The speed of named profiles: a minute passes in a second."""


def _profile(shell: Shell, line: str) -> None:
    from qoop.adaptive.profiles import load, replay

    words = line.split()
    if words in ([], ["off"]):
        shell.stop_replay()
        return
    speed = 1.0 if Path(words[0]).expanduser().exists() else _NAMED_SPEED
    for word in words[1:]:
        name, _, value = word.partition("=")
        if name != "speed" or not value:
            raise ConfigError("write \\profile NAME or FILE, and speed=10 for time that passes faster; \\profile off")
        speed = _number("speed", value)
    full = shell.session.config
    fitted = load(words[0]).fractions().on(full.slots, full.memory, least=1)
    shell.stop_replay()
    shell.replaying = replay(shell.session, fitted, speed).start()
    changes, last = len(fitted.changes()), fitted.seconds / speed
    shell.tell(f"{words[0]}: {changes} changes of capacity in {span(last)}; \\profile off ends it")


def _explain(shell: Shell, text: str) -> None:
    shell.tell_lines(shell.session.explain(text or shell.last_query()))


def _alternatives(shell: Shell, text: str) -> None:
    shell.tell_lines(shell.session.explain(text or shell.last_query(), alternatives=True))


def _history(shell: Shell, name: str) -> None:
    entry = shell.jobs.find(name)
    for number, job in enumerate((*entry.before, entry.job), 1):
        if entry.before:
            shell.tell(f"round {number}, {job.id}:")
        for sentence in story(job.history()):
            shell.tell(sentence)


def _timeline(shell: Shell, line: str) -> None:
    words = shlex.split(line)
    is_path = [word for word in words if "." in word or "/" in word]
    entry = shell.jobs.find(next((word for word in words if word not in is_path), ""))
    path = Path(is_path[0]).expanduser() if is_path else Path(tempfile.mkdtemp(prefix="qoop-")) / f"{entry.name}.html"
    made = entry.job.timeline(path)
    shell.say(f"{made}")
    if not is_path:
        webbrowser.open(made.as_uri())


ENGINE_COMMANDS = (
    Command(
        ("resize",),
        "slots=1 memory=1GB|auto",
        "change what queries may use; auto: as the machine allows",
        _resize,
    ),
    Command(("profile",), "NAME|FILE|off", "let capacity come and go as a profile says", _profile),
    Command(("explain",), "[SQL]", "the plan of a query, or of the last one", _explain),
    Command(("alternatives",), "[SQL]", "all plans worth keeping, and where each wins", _alternatives),
    Command(("history",), "[JOB]", "the events and decisions of a job, in words", _history),
    Command(("timeline",), "[JOB] [FILE]", "a picture of it in the browser, or in a file", _timeline),
)
