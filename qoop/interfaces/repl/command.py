"""A command of the shell, and the exception that leaves the shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.interfaces.repl.shell import Shell


@value
class Command:
    """names: without the \\, the usual one first. arguments: as help shows them. help: its effect, in a line.

    run: gets the shell and the rest of the line. when: the time of a command that is typed while a query runs. Either
    at once; in turn, after earlier texts that wait; or after the query in front, for a command that runs queries or
    leaves the shell.
    """

    names: tuple[str, ...]
    arguments: str
    help: str
    run: Callable[[Shell, str], None]
    when: Literal["at once", "in turn", "after"] = "at once"


class Quit(Exception):
    """Leaves the shell."""
