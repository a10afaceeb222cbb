"""The names that the modules of the repository define, read from their source without importing them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

PACKAGES = ("catalog", "planner", "engine", "qoop", "tpcds")
BESIDES = ("tests", "docs")
"""Folders whose modules are known by the name of their file alone."""


@dataclass(frozen=True)
class Class:
    """members: methods, attributes of the class and of `self`. bases: as they are written."""

    members: frozenset[str]
    bases: tuple[str, ...]


@dataclass(frozen=True)
class Module:
    """name: as it is imported. imported: local name -> the dotted name that it stands for."""

    name: str
    package: str
    defined: frozenset[str]
    classes: dict[str, Class]
    imported: dict[str, str] = field(hash=False)

    def members(self) -> frozenset[str]:
        """The members of all classes of the module."""
        return frozenset().union(*(one.members for one in self.classes.values()))


@dataclass(frozen=True)
class Names:
    """All modules of a repository."""

    root: Path

    @cached_property
    def paths(self) -> dict[str, Path]:
        """By name: `qoop.planner.plan`, or `house_names` for a module of the tests."""
        return {self.name_of(path): path for path in self._files()}

    @cached_property
    def _modules(self) -> dict[str, Module]:
        return {}

    @cached_property
    def _roots(self) -> frozenset[str]:
        return frozenset(name.partition(".")[0] for name in self.paths)

    def module(self, name: str) -> Module | None:
        """A module by name, which is parsed when it is first needed: few of all are referred to."""
        if name not in self._modules and name in self.paths:
            self._modules[name] = self.module_of(self.paths[name])
        return self._modules.get(name)

    def _files(self) -> Iterator[Path]:
        for folder in (*PACKAGES, *BESIDES):
            yield from sorted((self.root / folder).rglob("*.py"))

    def name_of(self, path: Path) -> str:
        """The import name of a source file."""
        parts = list(path.relative_to(self.root).with_suffix("").parts)
        if parts[0] in BESIDES:
            return parts[-1]
        parts = parts if parts[0] == "qoop" else ["qoop", *parts]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def module_of(self, path: Path) -> Module:
        """The names of one source file."""
        name, tree = self.name_of(path), ast.parse(path.read_text())
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        body = list(_at_the_top(tree.body))
        classes = {node.name: _class_of(node) for node in body if isinstance(node, ast.ClassDef)}
        imported = dict(pair for node in body for pair in _imports(node, package))
        return Module(name, package, frozenset(_names(body)), classes, imported)

    def exists(self, dotted: str, within: Module | None = None) -> bool:
        """True if a name means something, where need be in a module."""
        dotted = dotted.removeprefix("~")
        if dotted.startswith(".") and within is not None:
            dotted = f"{within.package}{dotted}"
        if dotted.split(".")[0] == "qoop" or dotted in self.paths:
            return self._absolute(dotted)
        return within is not None and self._local(dotted.split("."), within)

    def _absolute(self, dotted: str, depth: int = 0) -> bool:
        if dotted in self.paths:
            return True
        parts = dotted.split(".")
        if parts[0] not in self._roots:
            return True  # of another project
        for cut in range(len(parts) - 1, 0, -1):
            module = self.module(".".join(parts[:cut]))
            if module is not None:
                return depth < 9 and self._in_module(parts[cut:], module, depth + 1)
        return False

    def _in_module(self, parts: list[str], module: Module, depth: int) -> bool:
        first, *rest = parts
        if first in module.classes:
            return not rest or self._in_class(rest[0], module, first)
        if first in module.defined:
            return not rest
        target = module.imported.get(first)
        return target is not None and self._absolute(".".join([target, *rest]), depth)

    def _in_class(self, member: str, module: Module, name: str) -> bool:
        found = module.classes.get(name)
        if found is None:
            target = module.imported.get(name, "")
            return target.startswith("qoop.") and self._absolute(f"{target}.{member}", 1)
        return member in found.members or any(
            self._in_class(member, module, base) for base in found.bases if base in {*module.classes, *module.imported}
        )

    def _local(self, parts: list[str], module: Module) -> bool:
        return self._in_module(parts, module, 0) or (len(parts) == 1 and parts[0] in module.members())


def _at_the_top(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run on import, also those under a condition."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _at_the_top([*node.body, *node.orelse])


def _names(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (found.id for one in targets for found in ast.walk(one) if isinstance(found, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def _class_of(node: ast.ClassDef) -> Class:
    own = set(_names(_at_the_top(node.body)))
    for target in (target for one in statements(node) for target in _targets(one)):
        match target:
            case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Store()):
                own.add(attr)
    return Class(frozenset(own), tuple(ast.unparse(base).partition("[")[0] for base in node.bases))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements within a node, without the expressions in them: most nodes are expressions."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, ()):
            yield inner
            yield from statements(inner)


def _targets(statement: ast.AST) -> Iterator[ast.AST]:
    """The expressions that a statement assigns to, with those in them."""
    match statement:
        case ast.Assign(targets=targets):
            found: list[ast.expr] = targets
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target) | ast.For(target=target):
            found = [target]
        case ast.With(items=items):
            found = [item.optional_vars for item in items if item.optional_vars is not None]
        case _:
            return
    for target in found:
        yield from ast.walk(target)


def _imports(node: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        yield from ((alias.asname or alias.name.split(".")[0], alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
        base = ".".join([*above, node.module or ""]).strip(".")
        yield from ((alias.asname or alias.name, f"{base}.{alias.name}") for alias in node.names)
