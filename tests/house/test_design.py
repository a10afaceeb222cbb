"""Laws of docs/design.md that can be read off the source: what the core imports, and that nothing is unpickled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = {"asyncio", "io", "os", "pathlib", "queue", "random", "shutil", "socket", "subprocess"}
OUTSIDE |= {"tempfile", "threading", "time", "duckdb", "pyarrow.fs", "pyarrow.parquet"}
"""The modules that bring in IO, clocks, threads and chance."""
CALLS = {"date.today", "datetime.now", "datetime.today", "datetime.utcnow", "input", "open"}
ALLOWED = {
    "planner/sql/bind.py": {"duckdb", "threading"},  # binds in an empty database of its own, one text at a time
    "planner/algebra/query_timestamp.py": {"datetime.now"},  # what now() means, read once when a query is bound
    "planner/algebra/types.py": {"duckdb"},  # the names of types
    "planner/collector.py": {"os", "threading"},  # a lock around Python's garbage collector, new in a fork
    "qoop/adaptive/replanning/observations.py": {"threading"},  # a lock around what jobs of a session have seen
    "qoop/adaptive/replanning/answers.py": {"time"},  # how long an answer took, measured in the planner's thread
}
MACHINES = ("demand", "driver", "events", "frontier", "history", "progress", "run", "state", "task")
"""The modules of the engine that law 2 is about; the backends and the storage are there to do IO."""
UNPICKLED = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}


def core() -> list[Path]:
    machines = [ROOT / "engine" / f"{name}.py" for name in MACHINES]
    folders = ("planner", "qoop/adaptive/replanning", "qoop/adaptive/schedulers", "tpcds/schedulers")
    return [*machines, *(path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))]


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported, at the top or lazily, with the packages that it is in."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: cut + 1]) for cut in range(len(parts)))


def test_the_core_does_no_io() -> None:
    found = {path.relative_to(ROOT).as_posix(): impure(ast.parse(path.read_text())) for path in core()}
    assert len(found) > 100
    assert {path: reached for path, reached in found.items() if reached} == ALLOWED


def impure(tree: ast.AST) -> set[str]:
    """The imports and calls of a module that reach the world outside."""
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return OUTSIDE & set(imported(tree)) | CALLS & called


def test_nothing_is_unpickled() -> None:
    """Ray alone moves values between its own processes by pickling; no code of ours reads a pickle."""
    folders = ("catalog", "planner", "engine", "qoop", "tpcds")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 300
    named = [path for path in paths if any(name in path.read_text() for name in UNPICKLED)]
    assert [str(path) for path in named if UNPICKLED & set(imported(ast.parse(path.read_text())))] == []


def test_what_is_not_pure_would_be_seen() -> None:
    tree = ast.parse("def f():\n    import os.path\n    from time import sleep\n    return open('x')")
    assert impure(tree) == {"os", "time", "open"}
