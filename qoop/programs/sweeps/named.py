"""The sweeps of a session by name, and their trials as the rows of ``FROM sweep('rates')``."""

from __future__ import annotations

import threading
import weakref
from itertools import count
from typing import TYPE_CHECKING

from qoop.catalog.errors import BindError
from qoop.catalog.lexer import lexed
from qoop.programs.sweeps.report import trials_table

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.programs.sweeps.study import Study


class NamedSweeps:
    """The sweeps that the program still refers to, or that run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._studies: weakref.WeakValueDictionary[str, Study] = weakref.WeakValueDictionary()
        self._numbers = count(1)

    def add(self, study: Study, name: str | None) -> None:
        """Name a sweep: by its own name, which it takes over from an earlier one, or as sweep1, sweep2 …"""
        with self._lock:
            free = (f"sweep{number}" for number in self._numbers)
            study.name = name if name is not None else next(one for one in free if one not in self._studies)
            self._studies.pop(study.name, None)  # the new one is the last
            self._studies[study.name] = study

    def close(self) -> None:
        """End the sweeps of a session that closes, and wait until they have released their folders."""
        for study in self.all():
            study.end_with_session()

    def all(self) -> list[Study]:
        """The sweeps in the order of their beginnings."""
        with self._lock:
            return list(self._studies.values())

    def rows(self, expression: str) -> pa.Table:
        """The trials of the sweep that an expression such as ``sweep('rates')`` names. Raises BindError."""
        words = lexed(expression).words
        if len(words) != 4 or words[2].kind != "string":
            raise BindError(f"{expression}: sweep() takes the name of a sweep, as in FROM sweep('rates')")
        name = words[2].text[1:-1].replace("''", "'")
        found = next((one for one in self.all() if one.name.lower() == name.lower()), None)
        if found is None:
            known = ", ".join(one.name for one in self.all()) or "none"
            raise BindError(f"there is no sweep {name} in this session; its sweeps: {known}")
        return trials_table(found)
