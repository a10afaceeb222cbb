"""Everything that code and documents refer to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from house_names import Names
from house_references import Repository, references

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def repository() -> Repository:
    return Repository(ROOT)


def test_every_reference_leads_somewhere(repository: Repository) -> None:
    assert [str(one) for one in repository.dangling()] == []


def test_references_of_every_kind_are_found(repository: Repository) -> None:
    kinds = {one.kind for one in repository.references}
    assert kinds == {"law", "section", "of the paper", "file", "page", "role", "name"}


def test_every_law_names_a_test_that_guards_it(repository: Repository) -> None:
    laws = re.split(r"(?m)^### (?=Law \d+\.)", repository.design.partition("\n## The paper")[0])[1:]
    assert [int(law.split()[1].rstrip(".")) for law in laws] == list(range(1, len(laws) + 1))
    assert [law.splitlines()[0] for law in laws if "Guarded by" not in law or ".py::test_" not in law] == []


DESIGN = """
### Law 1. Only one
### Paper section 2. Only that
| figure 2.14 |
"""

CODE = '''
from abc import ABC as Base


class Speaker(Base):
    def __init__(self) -> None:
        self.at = 0

    def tell(self) -> None:
        """Text."""


class Listener(Speaker):
    pass


def hear() -> None:
    """Text."""
'''


@pytest.fixture
def small(tmp_path: Path) -> Repository:
    for folder in ("docs", "planner/rules", "tests", "qoop"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs" / "design.md").write_text(DESIGN)
    (tmp_path / "planner" / "speech.py").write_text(CODE)
    (tmp_path / "planner" / "rules" / "__init__.py").write_text("")
    (tmp_path / "tests" / "test_it.py").write_text("def test_this() -> None: ...")
    return Repository(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "Law {1}",
        "(paper\n    # section {2})",
        "as in figure {2.14}",
        "docs/{design}.md",
        "planner/{rules}/__init__.py",
        "planner/<name>.py",
        "tests/{test_it}.py::test_this",
        ":mod:`{qoop}.planner.rules`",
        ":mod:`.{rules}`",
        ":func:`{hear}`",
        ":class:`~{qoop}.planner.speech.Speaker`",
        ":meth:`{Speaker}.tell`",
        ":meth:`{tell}`",
        ":attr:`{Listener}.at`",
        "see `{qoop}.planner.speech.Listener.tell()`",
        "Little's law {25} of them",
        "SIGCOMM 2014, section {3.2}",
    ],
)
def test_what_exists_is_found(small: Repository, text: str) -> None:
    assert added(small, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "law {2}",
        "laws 1 and {7}",
        "laws 1 to {3}",
        "paper section {4}",
        "paper\n# section {4}",
        "the spec{}, section 2",
        "section 2 of {the} specification",
        "figure {2.1}",
        "theorem {2.7}",
        "docs/{nowhere}.md",
        "planner/{nothing}/*.py",
        "tests/{test_it}.py::test_that",
        "{NOTES}.md",
        ":mod:`qoop.{engine}`",
        ":mod:`.{engine}`",
        ":func:`{tell_all}`",
        ":meth:`Listener.{at_once}`",
        ":class:`~qoop.planner.speech.{Nobody}`",
        "see `qoop.planner.speech.{nothing}`",
    ],
)
def test_what_does_not_exist_is_found_out(small: Repository, text: str) -> None:
    assert len(added(small, text)) >= 1


def added(small: Repository, text: str) -> list[str]:
    """The dangling references of a text in a module; braces keep it from being one of this file's own."""
    (small.root / "planner" / "speech.py").write_text(f'"""{re.sub("[{}]", "", text)}"""\n{CODE}')
    return [str(one) for one in small.dangling()]


def test_several_numbers_are_several_references() -> None:
    some = references("x.py", f"laws {3}, 4 and 7; paper sections {3} to 5")
    texts = [one.text for one in some]
    assert texts == ["3", "4", "7", "3", "4", "5"]


def test_names_are_those_of_the_installed_package() -> None:
    names = Names(ROOT)
    assert names.exists("qoop.connect") and names.exists("qoop.planner.plan.Plan.stages")
    assert not names.exists("qoop.planner.plan.Plan.stares")
