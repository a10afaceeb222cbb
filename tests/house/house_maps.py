"""The maps of the rooms: in the docstring of a package, a line for each of its modules and rooms."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_LINE = re.compile(r"^    (\w+(?:\.py|/)) +\S", re.MULTILINE)


def mapped(package: Path) -> list[str]:
    """The names in the map of a package: ``run.py``, ``storage/`` …, in its order."""
    return _LINE.findall(ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or "")


def present(package: Path) -> set[str]:
    """The modules and rooms that a package has."""
    modules = {path.name for path in package.glob("*.py") if path.name != "__init__.py"}
    return modules | {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
