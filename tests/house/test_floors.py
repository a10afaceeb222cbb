"""Dependencies run one way: each floor imports those below it alone, and the engine sees little of the planner."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from house_imports import FLOORS, Import, all_imports, imported_by, modules

ENGINE_MAY_SEE = ("plan", "identity.provenance", "packing")  # of the planner
COMMAND_LINE = "qoop.__main__"


def floor_of(name: str) -> str:
    """The floor of a module; the root of the package and its command line are the highest face of a session."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else "interfaces"


def upward() -> Iterator[Import]:
    """The imports that lead to a higher floor."""
    for one in all_imports():
        importer, imported = floor_of(one.importer), floor_of(one.imported)
        allowed = one.importer == COMMAND_LINE and imported == "tpcds" and one.kind == "lazy"
        if FLOORS.index(imported) > FLOORS.index(importer) and not allowed:
            yield one


def test_there_is_code() -> None:
    assert len(modules()) > 500
    assert {floor_of(name) for name in modules()} == set(FLOORS)


def test_imports_go_down_only() -> None:
    assert list(upward()) == []


def test_the_engine_sees_only_plans() -> None:
    found = [one for one in all_imports() if floor_of(one.importer) == "engine" and floor_of(one.imported) == "planner"]
    assert found
    may_see = tuple(f"qoop.planner.{name}" for name in ENGINE_MAY_SEE)
    assert [one for one in found if one.imported not in may_see] == []


def test_a_violation_would_be_seen() -> None:
    tree = ast.parse(
        "from ...engine import run\nimport qoop.tpcds.data\nfrom ..exchange import kinds\nimport ast\nimport qoop"
    )
    found = [
        imported_by(node, "qoop.planner.rules") for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert found[:2] == [{"qoop.engine.run"}, {"qoop.tpcds.data"}]
    assert all(one.startswith("qoop.planner.exchange") for one in found[2]) and found[3:] == [set(), {"qoop"}]
    names = ("qoop.engine.run", "qoop.session.session", "qoop")
    assert [floor_of(name) for name in names] == ["engine", "session", "interfaces"]
