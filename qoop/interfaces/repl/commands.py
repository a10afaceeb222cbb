"""The commands of the shell: ``\\name arguments`` as in psql, or ``.name arguments`` as in DuckDB."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.interfaces.commands.loading import version_text
from qoop.interfaces.repl.answer_commands import ANSWER_COMMANDS
from qoop.interfaces.repl.command import Command, Quit
from qoop.interfaces.repl.engine_commands import ENGINE_COMMANDS
from qoop.interfaces.repl.habits import run_program, set_variable, unset_variable
from qoop.interfaces.repl.query_commands import QUERY_COMMANDS
from qoop.interfaces.repl.sweep_commands import SWEEP_COMMANDS
from qoop.interfaces.repl.table_commands import TABLE_COMMANDS
from qoop.interfaces.repl.typed import is_command

if TYPE_CHECKING:
    from qoop.interfaces.repl.shell import Shell


def run_command(shell: Shell, line: str) -> None:
    """Run the command of a line. Raises ConfigError for an unknown command, and the errors of the command."""
    word, rest = _parted(line)
    command, name = _named(word), word[1:]
    if command is None:
        near = [known for known in _BY_NAME if name and known.startswith(name[:2])]
        hint = f"; did you mean {', '.join(chr(92) + known for known in near)}?" if near else "; \\help lists them"
        raise ConfigError(f"there is no command {word}{hint}")
    command.run(shell, rest.strip())


def may_run(text: str, others_wait: bool) -> bool:
    """True if a text that is typed while a query runs is run at once. others_wait: earlier texts wait."""
    if not is_command(text):
        return text.endswith("&")
    command = _named(_parted(text)[0])
    when = "at once" if command is None else command.when
    return when == "at once" or (when == "in turn" and not others_wait)


def _parted(line: str) -> tuple[str, str]:
    """A command with its mark, and the rest of its line."""
    word, _, rest = line.strip().rstrip(";").partition(" ")
    # as in psql, with or without a space
    return (word[:2], f"{word[2:]} {rest}") if word.startswith("\\!") else (word, rest)


def _named(word: str) -> Command | None:
    return _BY_NAME.get(word[1:]) or _BY_NAME.get(word[1:].lower())


def _help(shell: Shell, name: str) -> None:
    terminal = shell.terminal()
    if name:
        command = _BY_NAME.get(name.lstrip("\\."))
        if command is None:
            raise ConfigError(f"there is no command {name}; \\help lists them")
        shell.say(f"\\{command.names[0]} {command.arguments}\n  {command.help}")
        if len(command.names) > 1:
            shell.say(f"  also: {', '.join(chr(92) + other for other in command.names[1:])}")
        return
    for title, commands in GROUPS:
        shell.say(terminal.paint(title, "bold"))
        for command in commands:
            left = f"  \\{command.names[0]} {command.arguments}".ljust(_HELP)
            shell.say(_hanging(left, command.help, terminal.width))
    shell.say(_KEYS)


_HELP = 26
"""Characters of the column of commands."""


def _hanging(left: str, right: str, width: int) -> str:
    """Two columns; the right one takes as many lines as it needs."""
    lines = wrap(right, max(30, width - _HELP - 2))
    first = f"{left} {lines[0]}" if len(left) <= _HELP else f"{left}\n{' ' * _HELP} {lines[0]}"
    return "\n".join([first, *(f"{' ' * _HELP} {line}" for line in lines[1:])])


_KEYS = """A statement ends with ; and may take several lines. With & at its end it runs in
the background. Tab completes, Ctrl-R searches what was typed before, Ctrl-C
cancels the query, Ctrl-Z sends it to the background."""


def _quit(shell: Shell, _: str) -> None:
    running = shell.jobs.running()
    if running and not shell.quit_requested:
        shell.quit_requested = True
        names = ", ".join(entry.name for entry in running)
        raise ConfigError(f"{names} still running; \\q once more cancels that and leaves, \\suspend keeps it for later")
    raise Quit


def _version(shell: Shell, _: str) -> None:
    shell.say(version_text())


def _inputs(shell: Shell, _: str) -> None:
    for text in shell.typed()[-30:]:
        shell.say(text)


SHELL_COMMANDS = (
    Command(("help", "h", "?"), "[COMMAND]", "this", _help),
    Command(("s",), "", "what was typed before", _inputs),
    Command(("set",), "[NAME TEXT]", "a text by name, for :NAME, :'NAME' and :\"NAME\"", set_variable, "in turn"),
    Command(("unset",), "NAME", "forget it", unset_variable, "in turn"),
    Command(("version",), "", "of qoop and of DuckDB", _version),
    Command(("!", "shell", "system"), "[COMMAND]", "run a program", run_program),
    Command(("q", "quit", "exit"), "", "leave", _quit, "after"),
)

GROUPS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    ("Tables", TABLE_COMMANDS),
    ("Queries", (*QUERY_COMMANDS, *SWEEP_COMMANDS)),
    ("The engine", ENGINE_COMMANDS),
    ("Answers", ANSWER_COMMANDS),
    ("The shell", SHELL_COMMANDS),
)

_BY_NAME = {name: command for _, commands in GROUPS for command in commands for name in command.names}
NAMES = tuple(_BY_NAME)
"""Of all commands, without the mark before them."""
