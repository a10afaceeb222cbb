"""The laws of the layout: dependencies run one way, and importing qoop is cheap."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("catalog", "planner", "engine", "qoop", "tpcds")  # each may import those before it
FILES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
ENGINE_MAY_SEE = ("plan.", "identity.provenance.", "packing.")  # of the planner
COMMAND_LINE = Path("qoop/__main__.py")


def name_of(path: Path) -> str:
    """The import name of a source file: `planner/rules/<rule>.py` is `qoop.planner.rules.<rule>`."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts if parts[0] == "qoop" else ["qoop", *parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "qoop"


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


def ours(path: Path) -> list[tuple[ast.stmt, str]]:
    name = name_of(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = imports(ast.parse(path.read_text()), package)
    return [(node, module) for node, module in found if module.split(".")[0] == "qoop"]


def test_there_is_code() -> None:
    assert {layer_of(name_of(path)) for path in FILES} == set(LAYERS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down_only(path: Path) -> None:
    layer = LAYERS.index(layer_of(name_of(path)))
    lazily_allowed = path.relative_to(ROOT) == COMMAND_LINE
    for node, module in ours(path):
        if lazily_allowed and layer_of(module) == "tpcds" and node.col_offset > 0:
            continue
        assert LAYERS.index(layer_of(module)) <= layer, f"{path.relative_to(ROOT)}:{node.lineno} imports {module}"


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.is_relative_to(ROOT / "engine")], ids=lambda path: path.name
)
def test_the_engine_sees_only_plans(path: Path) -> None:
    for node, module in ours(path):
        if layer_of(module) == "planner":
            seen = module.removeprefix("qoop.planner.")
            assert seen.startswith(ENGINE_MAY_SEE), f"{path.relative_to(ROOT)}:{node.lineno} imports {module}"


def test_a_violation_would_be_seen() -> None:
    tree = ast.parse("def f():\n    from ...engine import run\n    import qoop.tpcds.data")
    assert [module for _, module in imports(tree, "qoop.planner.rules")] == ["qoop.engine.run", "qoop.tpcds.data"]
    assert [layer_of(module) for module in ("qoop.engine.run", "qoop.session", "qoop")] == ["engine", "qoop", "qoop"]


def test_importing_qoop_loads_nothing_heavy() -> None:
    code = (
        "import qoop, sys; print([m for m in ('pandas','networkx','duckdb','pyarrow','sqlglot') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"


def test_a_session_needs_neither_pandas_nor_networkx() -> None:
    code = "import qoop.session, sys; print([m for m in ('pandas','networkx') if m in sys.modules])"
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
        "import qoop.__main__, qoop.repl.interactive, sys; "
        "print([m for m in ('duckdb', 'pyarrow', 'sqlglot', 'numpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"
