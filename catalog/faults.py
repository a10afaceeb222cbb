"""Faults of a configuration, collected so that one message names all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from qoop.catalog.errors import ConfigError

_T = TypeVar("_T")


class Faults:
    """The faults that were found.

    >>> faults = Faults()
    >>> faults.read(lambda: int("3"), 0)
    3
    >>> faults.add("the first\\nthe second")
    >>> faults.check()
    Traceback (most recent call last):
    qoop.catalog.errors.ConfigError: the first
    the second
    """

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, fault: object) -> None:
        """Add a fault, or several, each on a line of its own."""
        self.found += str(fault).splitlines()

    def read(self, read: Callable[[], _T], instead: _T) -> _T:
        """The value of a reader; after a ConfigError, which is collected, the value `instead`."""
        try:
            return read()
        except ConfigError as error:
            self.add(error)
            return instead

    def check(self) -> None:
        """Raise ConfigError with all faults, each on a line of its own."""
        if self.found:
            raise ConfigError("\n".join(self.found))
