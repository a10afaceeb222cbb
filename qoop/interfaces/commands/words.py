"""The words of a command line in argparse's order: the command first, and --data before each path.

argparse reads the first word that belongs to no option as the command, so ``qoop --slots 2 DIR`` would name the command
DIR. It also separates options before a command from those after it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from qoop.catalog.errors import ConfigError
from qoop.query.options import FLAGS

_WITH_DATA = "explain"
_FLAGS = {f"--{name.replace('_', '-')}": flag for name, flag in FLAGS.items()}
_SWITCHES = (
    *("-h", "--help", "--version", "--page", "--alternatives", "--analyze", "--history"),
    *(name for name, flag in _FLAGS.items() if flag.metavar is None),
)

_OPTIONS = ("-c", "-f", "--data", "--format", *_SWITCHES, *_FLAGS)
"""Those of a query and of ``explain``."""


class WrongUsage(ConfigError):
    """An option of the command line that is not valid: the exit code is 2."""


class OneLineParser(argparse.ArgumentParser):
    """Ends at a fault with one line that names the nearest option or command, or else where help is; the exit code
    is 2. Parsers of its commands do so, too."""

    _MOST_LISTED = 8

    def error(self, message: str) -> NoReturn:
        hint = "" if message.endswith(("?", "--help")) else f": see {self.prog} --help"
        self.exit(2, f"{self.prog}: {message}{hint}\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, but an unknown option is the first fault, before an argument that is missing."""
        if self._subparsers is None:  # else the options may be those of a command
            for name in long_options(args or ()):
                if not any(option.startswith(name) for option in self._option_string_actions):
                    self.error(f"there is no option {name}{did_you_mean(name, self._option_string_actions)}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(one) for one in action.choices]
            few = f"; there are {', '.join(choices)}" if len(choices) <= self._MOST_LISTED else ""
            raise argparse.ArgumentError(action, f"there is no {value!r}{did_you_mean(str(value), choices) or few}")


def long_options(words: Sequence[str]) -> Iterator[str]:
    """The names of the long options up to ``--``.

    >>> list(long_options(["x", "--slots=2", "-- a comment", "--", "--y"]))
    ['--slots']
    """
    for word in words:
        if word == "--":
            return
        name = word.partition("=")[0]
        if name.startswith("--") and " " not in name:
            yield name


def did_you_mean(word: str, known: Collection[str]) -> str:
    """A question for the known word that begins like it, or else is most like it, dashes aside; empty: none is.

    >>> did_you_mean("--scael", ["--scale", "--skew"]), did_you_mean("gen", ["generate"])
    ('; did you mean --scale?', '; did you mean generate?')
    >>> did_you_mean("--slotz", ["--results"])
    ''
    """
    from difflib import get_close_matches  # few words are wrong

    names, bare = {one.strip("-"): one for one in known}, word.strip("-")
    longer = [one for one in names if bare and one.startswith(bare)]
    found = longer or get_close_matches(bare, names, n=1)
    return f"; did you mean {names[found[0]]}?" if found else ""


@contextmanager
def options_read() -> Iterator[None]:
    """A ConfigError within the block is the fault of an option. Raises WrongUsage in its place."""
    try:
        yield
    except ConfigError as error:
        raise WrongUsage(str(error)) from error


def in_order(words: Sequence[str], commands: Collection[str]) -> list[str]:
    """The words with the command first, and with --data before each path that is for a query or ``explain``.

    >>> in_order(["--slots", "2", "./data", "x.parquet", "-c", "FROM x"], ["explain"])
    ['--slots', '2', '--data', './data', '--data', 'x.parquet', '-c', 'FROM x']
    >>> in_order(["./data", "explain", "-c", "FROM x"], ["explain"])
    ['explain', '--data', './data', '-c', 'FROM x']
    """
    before: list[str] = []
    left = iter(words)
    for word in left:
        if word in commands:
            return [word, *before, *(_with_data_named(left) if word == _WITH_DATA else left)]
        before += _taken(word, left)
    return before


def names_no_command(words: Sequence[str]) -> bool:
    """True if all words, in order, are options and their values, and none is a help option.

    >>> names_no_command(["--slots", "2", "-c", "FROM x"]), names_no_command(["-h"]), names_no_command(["expalin"])
    (True, False, False)
    """
    left = iter(words)
    for word in left:
        if _takes_value(word):
            next(left, None)
        elif not word.startswith("-") or word.startswith(("-h", "--h")):
            return False
    return True


def fault(words: Sequence[str], commands: Collection[str]) -> str | None:
    """The fault of the first word before a command that is no option, value of one or path; None: there is none.

    >>> print(fault(["--slots", "2", "nowhere"], ["explain"]))
    there is no file, folder or command 'nowhere': see qoop --help
    >>> print(fault(["./data", "--slotss", "3"], ["explain"]))
    there is no option --slotss; did you mean --slots?
    >>> fault(["--slot", "2", "-cFROM t", "./data", "explain", "--", "it"], ["explain"])
    """
    left = iter(words)
    for word in left:
        if word in commands:
            return None
        taken = _taken(word, left)
        if not word.startswith("-"):
            if len(taken) == 1:
                advice = did_you_mean(word, commands) or ": see qoop --help"
                return f"there is no file, folder or command {word!r}{advice}"
            continue
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if len(name) > 1 and not any(option.startswith(name) for option in _OPTIONS):
            return f"there is no option {name}{did_you_mean(name, _OPTIONS) or ': see qoop --help'}"
    return None


def _with_data_named(left: Iterator[str]) -> list[str]:
    return [piece for word in left for piece in _taken(word, left)]


def _taken(word: str, left: Iterator[str]) -> list[str]:
    """An option with the value that follows it, or a path with --data before it."""
    if _takes_value(word):
        return [word, *[value for value in [next(left, None)] if value is not None]]
    return ["--data", word] if _is_path(word) else [word]


def _takes_value(word: str) -> bool:
    """True for an option whose value is the next word; the option may be abbreviated, as ``--slot``."""
    if word.startswith("--"):
        return len(word) > 2 and "=" not in word and not any(switch.startswith(word) for switch in _SWITCHES)
    return len(word) == 2 and word[0] == "-" and word not in _SWITCHES


def _is_path(word: str) -> bool:
    return not word.startswith("-") and (os.path.exists(word) or "." in word or os.sep in word)
