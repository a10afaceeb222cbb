"""The folders, their sizes, and the imports between them.

A *room* is a folder of modules. A module at the root of a floor (``planner/plan.py``, ``qoop/query/job.py``) is a room
of its own: the root of a floor holds both what its rooms rest on and what rests on them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import networkx as nx
from house_names import statements

ROOT = Path(__file__).parents[2]
LAYERS = ("catalog", "planner", "engine", "qoop", "tpcds")
FLOORS = ("catalog", "planner", "engine", "adaptive", "query", "programs", "session", "interfaces", "tpcds")
"""The floors of the house, each of which may import those before it (tests/house/test_floors.py)."""

Kind = Literal["top", "lazy", "type"]
"""An import at the top of a module, one within a function, one for annotations alone."""


@dataclass(frozen=True, slots=True)
class Import:
    """One module imports another. kind: how; line: where."""

    importer: str
    imported: str
    kind: Kind
    line: int


def name_of(path: Path) -> str:
    """The import name of a source file: `planner/rules/<rule>.py` is `qoop.planner.rules.<rule>`."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts if parts[0] == "qoop" else ["qoop", *parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> Mapping[str, Path]:
    """All modules by import name; a package stands for its ``__init__.py``."""
    return {name_of(path): path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))}


def folders() -> Mapping[Path, int]:
    """The number of modules in each folder, without ``__init__.py``."""
    counts: dict[Path, int] = defaultdict(int)
    for path in modules().values():
        counts[path.parent.relative_to(ROOT)] += path.name != "__init__.py"
    return counts


def room_of(module: str) -> str:
    """The room of a module: its folder, or itself if it lies at the root of a floor."""
    package = module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]
    at_root = package.count(".") == 0 or (package.count(".") == 1 and package.split(".")[1] in FLOORS)
    return module if at_root else package


def imports() -> tuple[Import, ...]:
    """All imports of our modules by our modules, but for those of names at the root of the package."""
    return tuple(one for one in all_imports() if one.imported != "qoop")


@cache
def all_imports() -> tuple[Import, ...]:
    """All imports of our modules by our modules; `qoop` is the root of the package, which stands for a session."""
    return tuple(found for name, path in modules().items() for found in _imports_of(name, path))


def _imports_of(name: str, path: Path) -> Iterator[Import]:
    found = list(statements(ast.parse(path.read_text())))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for_types = {
        id(inner)
        for node in found
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in statements(node)
    }
    for node in found:
        if isinstance(node, ast.Import | ast.ImportFrom):
            kind: Kind = "type" if id(node) in for_types else "lazy" if node.col_offset else "top"
            for imported in imported_by(node, package) - {name}:
                yield Import(name, imported, kind, node.lineno)


def imported_by(node: ast.Import | ast.ImportFrom, package: str) -> set[str]:
    """The modules of ours that a statement in a module of a package imports."""
    base = ""
    if isinstance(node, ast.ImportFrom):
        above = package.split(".")[: 1 - node.level or None] if node.level else []
        base = ".".join([*above, *filter(None, [node.module]), ""])
    names = [f"{base}{alias.name}" for alias in node.names]
    return {found for name in names if name.split(".")[0] == "qoop" and (found := _module(name))}


def _module(name: str) -> str:
    """The module that a dotted name lies in: itself, or that of which it is an attribute. None of ours: empty."""
    while name not in modules() and name:
        name = name.rpartition(".")[0]
    return name


def between_rooms(kind: Kind) -> Mapping[tuple[str, str], list[Import]]:
    """The imports of one kind that lead from a room to another."""
    found: dict[tuple[str, str], list[Import]] = defaultdict(list)
    for one in imports():
        rooms = room_of(one.importer), room_of(one.imported)
        if one.kind == kind and rooms[0] != rooms[1]:
            found[rooms].append(one)
    return found


def _graph(edges: Iterable[tuple[str, str]]) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edges_from(edges)  # DiGraph(edges) would load pandas, to see whether they are a table
    return graph


def circles() -> list[list[str]]:
    """Rooms that import each other at the top of modules, in groups; none if imports go one way."""
    graph = _graph(between_rooms("top"))
    return [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1]


def largest_circle() -> list[str]:
    """The most modules that import each other, at the top, lazily or for types."""
    graph = _graph((one.importer, one.imported) for one in imports())
    return sorted(max(nx.strongly_connected_components(graph), key=len))


def backwards(kind: Kind) -> list[Import]:
    """The imports of a kind, lazy or for types, that lead against the direction of those at the top."""
    graph = _graph(between_rooms("top"))
    return [
        one
        for (importer, imported), found in between_rooms(kind).items()
        for one in found
        if graph.has_node(imported) and graph.has_node(importer) and nx.has_path(graph, imported, importer)
    ]
