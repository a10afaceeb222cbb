"""Commands on answers: their format, ``\\save``, ``\\page``, and ``\\o`` for the file that gets them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.catalog.sizes import counted
from qoop.interfaces.repl.command import Command
from qoop.query.drawing.formats import FORMATS, checked_format, save

if TYPE_CHECKING:
    from qoop.interfaces.repl.shell import Shell


def _mode(shell: Shell, name: str) -> None:
    shown = f"answers are printed as {checked_format(name or shell.form)}; there are {', '.join(FORMATS)}"
    if name:
        shell.form = checked_format(name)
        shell.confirm(shown)
    else:
        shell.tell(shown)


def _expanded(shell: Shell, _: str) -> None:
    shell.form = "table" if shell.form == "vertical" else "vertical"
    shell.confirm(f"answers are printed as {shell.form}")


def _timing(shell: Shell, word: str) -> None:
    shell.timing = _switch(word, shell.timing)
    shell.confirm(f"timing is {'on' if shell.timing else 'off'}")


def _switch(word: str, now: bool) -> bool:
    if word.lower() not in ("", "on", "off"):
        raise ConfigError(f"write on or off, not {word!r}")
    return not now if not word else word.lower() == "on"


def _output(shell: Shell, path: str) -> None:
    shell.close_output()
    if path:
        shell.open_output(path)
        shell.confirm(f"answers go to {path}; \\o alone ends that")


def _once(shell: Shell, path: str) -> None:
    if not path:
        raise ConfigError("\\once FILE puts the next answer in a file, as \\mode says")
    shell.open_output(path, once=True)


def _headers(shell: Shell, word: str) -> None:
    shell.style = replace(shell.style, headers=_switch(word, shell.style.headers))


def _null(shell: Shell, text: str) -> None:
    shell.style = replace(shell.style, null=" ".join(shlex.split(text)) if text else None)


def _widths(shell: Shell, line: str) -> None:
    widths = tuple(
        _count("\\width takes cells of columns from the left, 0 for what fits", word) for word in line.split()
    )
    shell.style = replace(shell.style, widths=widths)


def _most_rows(shell: Shell, word: str) -> None:
    most = (
        _count("\\maxrows takes the most rows that a table shows; without a number, what fits", word) if word else None
    )
    shell.style = replace(shell.style, most_rows=most)


def _count(use: str, word: str) -> int:
    if not word.isdecimal():
        raise ConfigError(f"{use}, not {word!r}")
    return int(word)


def _save(shell: Shell, path: str) -> None:
    if not path:
        raise ConfigError("\\save FILE.csv, .json, .parquet, .arrow … puts the last answer in a file")
    result = shell.last_result()
    shell.tell(f"{counted(len(result), 'row')} in {save(result, shlex.split(path)[0])}")


def _page(shell: Shell, word: str) -> None:
    if word.lower() not in ("", "live"):
        raise ConfigError(f"\\page shows the last answer, \\page live what runs, in a browser; {word!r} is neither")
    if word:
        shell.say(shell.session.page(open=True).url)
    else:
        shell.page(shell.last_result())


ANSWER_COMMANDS = (
    Command(("mode", "format"), "[FORMAT]", f"how they are printed: {', '.join(FORMATS)}", _mode, "in turn"),
    Command(("x",), "", "a value a line, and back", _expanded, "in turn"),
    Command(("timing", "timer"), "[on|off]", "say how long queries take", _timing, "in turn"),
    Command(("save", "export"), "FILE", "put the last one in a file: .csv .json .parquet .arrow …", _save, "after"),
    Command(
        ("page", "pager"),
        "[live]",
        "the last one whole, in a pager; live: what runs, in a browser",
        _page,
        "in turn",
    ),
    Command(("o", "output"), "[FILE]", "print answers to a file from now on", _output, "in turn"),
    Command(("once",), "FILE", "print the next one to a file", _once, "in turn"),
    Command(("headers", "header"), "[on|off]", "names of columns: table, csv, tsv", _headers, "in turn"),
    Command(("nullvalue",), "[TEXT]", "what stands for NULL", _null, "in turn"),
    Command(("width",), "[CELLS …]", "how wide columns of a table are at least", _widths, "in turn"),
    Command(("maxrows",), "[ROWS]", "the most rows that a table shows", _most_rows, "in turn"),
)
