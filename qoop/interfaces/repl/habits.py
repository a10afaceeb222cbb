"""Commands known from psql and DuckDB's shell: the editor, variables, repeated queries, programs, and imports."""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.interfaces.repl.typed import is_whole

if TYPE_CHECKING:
    from qoop.interfaces.repl.shell import Shell

_EVERY = 2.0
"""Seconds between two runs of a watched query."""

_LONGEST = 86400.0
"""Seconds at most between two runs."""

_NAME = re.compile(r"[^\W\d]\w*")


def edit(shell: Shell, path: str) -> None:
    """Open the last query, or a file, in the user's editor. A complete text then runs; another goes to the prompt."""
    if path:
        _edited(Path(path).expanduser())
        text = _read(Path(path).expanduser())
    else:
        with tempfile.TemporaryDirectory(prefix="qoop-edit-") as folder:
            draft = Path(folder) / "query.sql"
            draft.write_text(_with_its_end(shell.last_text), encoding="utf-8")
            _edited(draft)
            text = _read(draft)
    if not text.strip() or not is_whole(text):
        shell.begin(text.strip("\n"))
        return
    shell.say(text.strip("\n"))
    shell.run_script(text)


def _with_its_end(text: str) -> str:
    """A query as it was typed, with its closing ;. Saved unchanged it runs, as in psql.

    >>> _with_its_end("SELECT 1"), _with_its_end("SELECT 1 -- one"), _with_its_end("")
    ('SELECT 1;\\n', 'SELECT 1 -- one\\n;\\n', '')
    """
    if not text.strip() or is_whole(text):
        return text
    return f"{text};\n" if is_whole(f"{text};") else f"{text}\n;\n"


def _edited(path: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot run the editor {editor}, which VISUAL or EDITOR names: {error}") from error
    if code:
        raise ConfigError(f"the editor {editor} has ended with {code}; nothing is taken over")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: see byte {error.start + 1}") from error


def watch(shell: Shell, line: str) -> None:
    """Repeat the last query, until Ctrl-C."""
    every, times = _rhythm(line.split())
    text = shell.last_query()
    try:
        while times:
            shell.say(f"{time.strftime('%H:%M:%S')}, every {every:g} s; Ctrl-C ends it")
            shell.run_script(text)
            times -= 1
            if times:
                time.sleep(every)
    except KeyboardInterrupt:
        shell.say("")


def _rhythm(words: list[str]) -> tuple[float, float]:
    """The seconds between two runs, and the number of runs.

    >>> _rhythm([]), _rhythm(["0.5", "10"])
    ((2.0, inf), (0.5, 10.0))
    """
    try:
        every, times = float(words[0]) if words else _EVERY, int(words[1]) if words[1:] else math.inf
    except ValueError:
        every, times = math.nan, 0
    if not (0 <= every <= _LONGEST and times > 0 and len(words) <= 2):
        raise ConfigError(f"\\watch [SECONDS [TIMES]], such as \\watch 5 or \\watch 0.5 10, not {' '.join(words)}")
    return every, float(times)


def run_program(shell: Shell, line: str) -> None:
    """Run a command of the system's shell, or that shell itself."""
    program = os.environ.get("SHELL") or "/bin/sh"
    try:
        code = subprocess.run([program, "-c", line] if line else [program], check=False).returncode
    except OSError as error:
        raise ConfigError(f"cannot run {program}, which SHELL names: {error.strerror}") from error
    if code:
        shell.say(f"it has ended with {code}")


def set_variable(shell: Shell, line: str) -> None:
    """Set a variable to a text; without arguments, list all variables."""
    name, _, text = line.partition(" ")
    if not name:
        for known, value in sorted(shell.variables.items()):
            shell.say(f"{known} = {value}")
        return
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name} is no name for a variable: it takes a to z, digits and _")
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] == "'"
    shell.variables[name] = text[1:-1].replace("''", "'") if quoted else text


def unset_variable(shell: Shell, name: str) -> None:
    """Remove a variable."""
    if shell.variables.pop(name, None) is None:
        known = ", ".join(sorted(shell.variables)) or "none"
        raise ConfigError(f"there is no variable {name}; there are: {known}")


def import_file(shell: Shell, line: str) -> None:
    """Insert the rows of a file into a table, which is created if it does not exist."""
    words = [word for word in shlex.split(line) if word not in ("--csv", "-csv")]
    if len(words) != 2 or any(word.startswith("--") for word in words):
        raise ConfigError(".import FILE TABLE; the file is Parquet, CSV or JSON")
    from qoop.planner.algebra.expr import quote

    path, table = str(Path(words[0]).expanduser()).replace("'", "''"), quote(words[1])
    known = {name.lower() for name in shell.session.tables()}
    begin = f"INSERT INTO {table}" if words[1].lower() in known else f"CREATE TABLE {table} AS"
    result = shell.session.execute(f"{begin} FROM '{path}'")
    shell.forget_names()
    rows = result.fetchall()
    made = f"{rows[0][0]:,} rows" if rows else "its rows"
    shell.confirm(f"{made} of {words[0]} are in {words[1]}")
