"""The version of the code that results of simulations come from: those of other code are refused, not mixed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from qoop.catalog.errors import ConfigError
from qoop.tpcds.simulate.workload import digest, digest_of

CORE = (
    "qoop.adaptive", "qoop.adaptive.cluster", "qoop.adaptive.profiles", "qoop.adaptive.replanning",
    "qoop.adaptive.schedulers", "qoop.engine", "qoop.engine.backends", "qoop.engine.storage", "qoop.query",
    "qoop.query.statements", "qoop.tpcds.schedulers",
)  # fmt: skip
"""The packages that every simulation runs besides the planner, which has its own version."""


@cache
def code_of(*modules: str) -> str:
    """Digest of the source of some modules, of a package that of all modules right in it.

    Raises ConfigError if there is no such module.
    """
    return digest(*map(digest_of, (path for name in modules for path in _files(name))))


def _files(name: str) -> Iterator[Path]:
    found = find_spec(name)
    if found is None or found.origin is None:
        raise ConfigError(f"there is no module {name}")
    path = Path(found.origin)
    yield from sorted(path.parent.glob("*.py")) if path.name == "__init__.py" else (path,)
