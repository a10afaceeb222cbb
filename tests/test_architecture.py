"""The laws of the layout: dependencies run one way, and importing qoop is cheap."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = ("catalog", "planner", "engine", "adaptive", "query", "programs", "session", "interfaces", "tpcds")
"""Each may import those before it, at the top, lazily and for types."""

FOLDERS = ("catalog", "planner", "engine", "qoop", "tpcds")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
ENGINE_MAY_SEE = ("plan.", "identity.provenance.", "packing.")  # of the planner
COMMAND_LINE = Path("qoop/__main__.py")


def name_of(path: Path) -> str:
    """The import name of a source file: `planner/rules/<rule>.py` is `qoop.planner.rules.<rule>`."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts if parts[0] == "qoop" else ["qoop", *parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of(name: str) -> str:
    """The floor of a module; the root of the package and its command line are the highest face of a session."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else "interfaces"


def imports(tree: ast.AST, package: str) -> Iterator[tuple[ast.stmt, str]]:
    """Every module of ours that the file imports, at the top or lazily."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[: 1 - node.level or None], base]).rstrip(".")
            yield from ((node, f"{base}.{alias.name}") for alias in node.names)


@cache
def ours(path: Path) -> list[tuple[ast.stmt, str]]:
    name = name_of(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = imports(ast.parse(path.read_text()), package)
    return [(node, module) for node, module in found if module.split(".")[0] == "qoop"]


def test_there_is_code() -> None:
    assert {floor_of(name_of(path)) for path in FILES} == set(FLOORS)


def upward(path: Path) -> Iterator[str]:
    """The imports of a file that lead to a higher floor."""
    floor = FLOORS.index(floor_of(name_of(path)))
    lazily_allowed = path.relative_to(ROOT) == COMMAND_LINE
    for node, module in ours(path):
        if lazily_allowed and floor_of(module) == "tpcds" and node.col_offset > 0:
            continue
        if FLOORS.index(floor_of(module)) > floor:
            yield f"{path.relative_to(ROOT)}:{node.lineno} imports {module}"


def test_imports_go_down_only() -> None:
    assert len(FILES) > 500
    assert [one for path in FILES for one in upward(path)] == []


def test_the_engine_sees_only_plans() -> None:
    seen = {
        f"{path.relative_to(ROOT)}:{node.lineno} imports {module}": module.removeprefix("qoop.planner.")
        for path in FILES
        if path.is_relative_to(ROOT / "engine")
        for node, module in ours(path)
        if floor_of(module) == "planner"
    }
    assert seen
    assert [one for one, module in seen.items() if not module.startswith(ENGINE_MAY_SEE)] == []


def test_a_violation_would_be_seen() -> None:
    tree = ast.parse("def f():\n    from ...engine import run\n    import qoop.tpcds.data")
    assert [module for _, module in imports(tree, "qoop.planner.rules")] == ["qoop.engine.run", "qoop.tpcds.data"]
    names = ("qoop.engine.run", "qoop.session.session", "qoop")
    assert [floor_of(module) for module in names] == ["engine", "session", "interfaces"]


def test_importing_qoop_loads_nothing_heavy() -> None:
    code = (
        "import qoop, sys; print([m for m in ('pandas','networkx','duckdb','pyarrow','sqlglot') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"


def test_a_session_needs_neither_pandas_nor_networkx() -> None:
    code = "import qoop.session.session, sys; print([m for m in ('pandas','networkx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"


def test_a_small_answer_is_printed_without_pandas() -> None:
    code = (
        "from qoop.__main__ import main; import sys; main(['-c', 'select 42 as answer']); "
        "print([m for m in ('pandas', 'networkx', 'pyarrow.dataset', 'rich', 'prompt_toolkit') if m in sys.modules])"
    )
    usual = os.environ | {"QOOP_GUARD": "meet"}  # to compare outputs, as tests do, takes pyarrow.dataset
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/", env=usual)
    assert "42" in done.stdout and done.stdout.strip().endswith("[]"), done.stdout


def test_the_prompt_comes_before_the_engine() -> None:
    code = (
        "import qoop.__main__, qoop.interfaces.repl.interactive, sys; "
        "print([m for m in ('duckdb', 'pyarrow', 'sqlglot', 'numpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"


def test_the_top_of_qoop_is_five_floors() -> None:
    found = {path.name for path in (ROOT / "qoop").iterdir() if path.name != "__pycache__"}
    assert found == {"__init__.py", "__main__.py", "py.typed", *FLOORS[3:8]}


def test_modules_are_found_by_their_former_names() -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning); "
        "from qoop.schedulers.base import Scheduler; from qoop.adaptive.schedulers import base; "
        "from qoop.session import Session; import qoop, qoop.server.users as users; "
        "from qoop.server.manners import Manners; from qoop.interfaces.server.timeouts import ClientLimits; "
        "print(base.Scheduler is Scheduler, qoop.Session is Session, users.__name__, Manners is ClientLimits)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "True True qoop.interfaces.server.users True"
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        import_module("qoop.schedulers.nothing")
