"""A command of the shell, and the exception that leaves the shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.interfaces.repl.shell import Shell


@value
class Command:
    """names: without the \\, the usual one first. arguments: as help shows them. help: what it does, in a line.

    run: gets the shell and the rest of the line. when: it is done if it is typed while a query runs: at once, in its
    turn (what was typed before it may wait), or after the query in front, as it runs queries itself or leaves.
    """

    names: tuple[str, ...]
    arguments: str
    help: str
    run: Callable[[Shell, str], None]
    when: Literal["at once", "in turn", "after"] = "at once"


class Quit(Exception):
    """The shell is to be left."""
