"""Modules under their names from before the floors: an import of the old name still works.

The module of the old name is the module of the new name, not a copy. Its import warns (DeprecationWarning).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

FORMER = {
    "qoop.adapters": "qoop.interfaces.adapters",
    "qoop.calibrated": "qoop.query.calibrated",
    "qoop.commands": "qoop.interfaces.commands",
    "qoop.config": "qoop.query.config",
    "qoop.control": "qoop.adaptive.cluster",
    "qoop.copies": "qoop.query.copies",
    "qoop.dbapi": "qoop.interfaces.dbapi",
    "qoop.drawing": "qoop.query.drawing",
    "qoop.duckdb_plans": "qoop.query.duckdb_plans",
    "qoop.growing": "qoop.programs.approximate",
    "qoop.growing.asking": "qoop.programs.approximate.start",
    "qoop.growing.foresight": "qoop.programs.approximate.worth_it",
    "qoop.growing.goal": "qoop.programs.approximate.target",
    "qoop.growing.rest": "qoop.programs.approximate.final_round",
    "qoop.interrupts": "qoop.catalog.interrupts",
    "qoop.interfaces.server.manners": "qoop.interfaces.server.timeouts",
    "qoop.iterating": "qoop.programs.iterate",
    "qoop.iterating.asking": "qoop.programs.iterate.start",
    "qoop.job": "qoop.query.job",
    "qoop.monitor": "qoop.adaptive.monitor",
    "qoop.notebook": "qoop.interfaces.notebook",
    "qoop.options": "qoop.query.options",
    "qoop.page": "qoop.interfaces.page",
    "qoop.plan_cache": "qoop.query.plan_store",
    "qoop.plan_memo": "qoop.query.plan_store",
    "qoop.planning": "qoop.query.planning",
    "qoop.profiles": "qoop.adaptive.profiles",
    "qoop.programs.program": "qoop.adaptive.program",
    "qoop.programs.told": "qoop.adaptive.program_log",
    "qoop.repl": "qoop.interfaces.repl",
    "qoop.replanning": "qoop.adaptive.replanning",
    "qoop.result": "qoop.query.result",
    "qoop.retrace": "qoop.adaptive.retrace",
    "qoop.schedulers": "qoop.adaptive.schedulers",
    "qoop.server": "qoop.interfaces.server",
    "qoop.server.manners": "qoop.interfaces.server.timeouts",
    "qoop.session_tables": "qoop.query.tables",
    "qoop.sessions": "qoop.session",
    "qoop.simulation": "qoop.adaptive.simulation",
    "qoop.statements": "qoop.query.statements",
    "qoop.streams": "qoop.query.streams",
    "qoop.terminal": "qoop.query.drawing.terminal",
    "qoop.suspend": "qoop.query.bundle",
}
"""New names of modules and packages by their old ones."""


def new_name(name: str) -> str | None:
    """The current name of a module; None: it was never renamed.

    >>> new_name("qoop.schedulers.base"), new_name("qoop.programs.told"), new_name("qoop.programs.rounds")
    ('qoop.adaptive.schedulers.base', 'qoop.adaptive.program_log', None)
    """
    head, rest = name, ""
    while head not in FORMER and "." in head:
        head, _, last = head.rpartition(".")
        rest = f".{last}{rest}"
    return FORMER[head] + rest if head in FORMER else None


class FormerPaths(MetaPathFinder, Loader):
    """Finds modules by their old names. It precedes other finders, since a package contains its modules by both
    names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module of an old name, or None."""
        if not fullname.startswith("qoop.") or new_name(fullname) is None:
            return None
        return ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new name in the place of this one."""
        name = module.__name__
        new = new_name(name)
        assert new is not None
        warnings.warn(f"{name} is {new} now", DeprecationWarning, stacklevel=2)
        sys.modules[name] = import_module(new)


def install() -> None:
    """Find modules by their old names, too."""
    if not any(isinstance(finder, FormerPaths) for finder in sys.meta_path):
        sys.meta_path.insert(0, FormerPaths())
