"""Examples in docstrings and in the documentation run and hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.usefixtures("as_installed")

ROOT = Path(__file__).parent.parent
FOLDERS = {"qoop": "qoop"} | {name: f"qoop.{name}" for name in ("catalog", "planner", "engine", "tpcds")}
MODULES = {
    ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts]).removesuffix(".__init__"): path
    for folder, package in FOLDERS.items()
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.name != "__main__.py"
}
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
_NAME = re.compile(r"`(qoop(?:\.(?!toml\b)\w+)+)(?:\(\))?`")
_FILE = re.compile(r"`((?:catalog|planner|engine|qoop|tpcds|tests|docs)/[\w/.-]*)`|\]\((?!http)([^)#]+)\)")
_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def imported(name: str) -> ModuleType | str:
    """A module, or the name of what it needs and is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not error.name or error.name.split(".")[0] == "qoop":
            raise
        return error.name


def test_every_module_can_be_imported() -> None:
    missing = {name: found for name in MODULES if isinstance(found := imported(name), str)}
    assert len(missing) < len(MODULES) / 10, missing


@pytest.mark.parametrize("name", [name for name, path in MODULES.items() if ">>> " in path.read_text()])
def test_docstring(name: str) -> None:
    """The installed module is tested, as pytest would import `planner/<name>.py` a second time as `planner.<name>`."""
    module = imported(name)
    if isinstance(module, str):
        pytest.skip(f"{name} needs {module}")
    found = doctest.testmod(module, optionflags=OPTIONS)
    assert found.attempted > 0 and found.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The python blocks of a page run in order, in one namespace; those written as a dialogue are compared."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, block in enumerate(_PYTHON.findall(page.read_text())):
        if block.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(block, names, f"{page.name}[{number}]", str(page), None)
            assert doctest.DocTestRunner(optionflags=OPTIONS).run(test, clear_globs=False).failed == 0
            names.update(test.globs)
        else:
            exec(compile(block, f"{page.name}[{number}]", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    text = _BLOCK.sub("", page.read_text())
    missing = [name for name in _NAME.findall(text) if not _exists(name)]
    for in_tree, near in _FILE.findall(text):
        path = ROOT / in_tree if in_tree else page.parent / near
        if not path.exists():
            missing.append(in_tree or near)
    assert missing == []


def _exists(name: str) -> bool:
    """True of a module, or of a chain of attributes in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
