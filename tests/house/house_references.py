"""References in code and documents to laws, to the paper, to files and to names, and which of them lead nowhere.

`docs/design.md` has the laws and the paper's sections; a reference to either must have a heading there.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from house_names import Names

READ = (".py", ".md", ".toml", ".yml", ".txt")
"""Endings of the files that are searched."""

_NUMBERS = r"\d+(?:(?:,|,? and|,? to|–)[\s#]+\d+|–\d+)*"
_BREAK = r"[\s#]+"  # a line of a comment or of a docstring may end within a reference
_FOLDERS = r"catalog|planner|engine|qoop|tpcds|tests|docs|\.github"
_PATTERNS = {
    "law": re.compile(rf"(?<!Little's )\blaws?{_BREAK}({_NUMBERS})", re.IGNORECASE),
    "section": re.compile(rf"\bpaper(?:'s)?,?{_BREAK}sections?{_BREAK}({_NUMBERS})", re.IGNORECASE),
    "loose section": re.compile(
        rf"(\bspec(?:ification)?(?:'s)?,?{_BREAK}sections?\b|\bsections?{_BREAK}{_NUMBERS}{_BREAK}of{_BREAK}the{_BREAK}spec)",
        re.IGNORECASE,
    ),
    "of the paper": re.compile(rf"\b((?:figure|theorem){_BREAK}2\.\d+|pseudocode{_BREAK}\d)", re.IGNORECASE),
    "file": re.compile(
        rf"(?<![\w/.<>*-])((?:(?:{_FOLDERS})/[\w./<>*-]*[\w>*]\.(?:py|md|toml|txt|svg|yaml|yml|jsonl?|ipynb))(?:::\w+)?)\b"
    ),
    "page": re.compile(r"(?<![\w/.-])([A-Z]{4,}\.md)\b"),
    "role": re.compile(r":(?:mod|class|func|meth|data|attr|exc):`([\w.~\s]+)`"),
    "name": re.compile(r"(?<!`)`(qoop(?:\.(?!toml\b)\w+)+)(?:\(\))?`(?!`)"),
}

_PARTS = {
    "law": ("law",),
    "section": ("section",),
    "loose section": ("spec",),
    "of the paper": ("2.", "pseudocode"),
    "page": (".md",),
    "role": (":`",),
    "name": ("`qoop",),
}
"""By kind, parts in small letters of which each reference of it has one: most texts need not be searched."""


@dataclass(frozen=True)
class Reference:
    """kind: a key of the patterns. text: what is referred to."""

    path: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind} {self.text}"


@dataclass(frozen=True)
class Repository:
    """A tree of files, and what can be referred to in it."""

    root: Path

    @cached_property
    def names(self) -> Names:
        """The names that modules define."""
        return Names(self.root)

    @cached_property
    def design(self) -> str:
        """The page that laws and sections of the paper are looked up in."""
        return (self.root / "docs" / "design.md").read_text()

    def files(self) -> list[Path]:
        """All files that are part of the repository and are read by people."""
        words = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
        if (self.root / ".git").exists():
            listed = subprocess.run(
                words, cwd=self.root, capture_output=True, text=True, check=True
            ).stdout.splitlines()
            found = [self.root / name for name in listed]
        else:
            found = [path for path in self.root.rglob("*") if not {"build", ".venv"} & set(path.parts)]
        return sorted(path for path in found if path.suffix in READ and path.is_file())

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        """Every reference in every file."""
        texts = ((str(path.relative_to(self.root)), path.read_text()) for path in self.files())
        return tuple(one for path, text in texts for one in references(path, text))

    def dangling(self) -> list[Reference]:
        """The references that lead nowhere."""
        return [one for one in self.references if not self.resolves(one)]

    def resolves(self, one: Reference) -> bool:
        """True if what a reference names exists."""
        ways: dict[str, Callable[[Reference], bool]] = {
            "law": lambda it: self._has_heading(f"Law {it.text}"),
            "section": lambda it: self._has_heading(f"Paper section {it.text}"),
            "loose section": lambda it: False,
            "of the paper": lambda it: re.search(rf"(?i)\b{re.escape(it.text)}(?!\d)", self.design) is not None,
            "file": self._is_file,
            "page": lambda it: (self.root / it.text).is_file(),
            "role": self._is_role,
            "name": lambda it: self.names.exists(it.text),
        }
        return ways[one.kind](one)

    def _has_heading(self, title: str) -> bool:
        return re.search(rf"(?m)^#+ {title}\b", self.design) is not None

    def _is_file(self, one: Reference) -> bool:
        """`tests/golden/<name>.txt` stands for all such files, `test_x.py::test_it` for a test in one."""
        path, _, test = one.text.partition("::")
        found = list(self.root.glob(re.sub(r"/<\w+>", "/**/*", path)))
        return bool(found) and (not test or f"def {test}(" in found[0].read_text())

    def _is_role(self, one: Reference) -> bool:
        path = self.root / one.path
        module = self.names.module(self.names.name_of(path)) if path.suffix == ".py" else None
        return self.names.exists(re.sub(r"\s+", "", one.text), module)


def references(path: str, text: str) -> Iterator[Reference]:
    """The references of a text; `laws 2 and 7` are two references, and so are `sections 3 to 4`."""
    lowered = text.lower()
    for kind, pattern in _PATTERNS.items():
        if not any(part in lowered for part in _PARTS.get(kind, ("",))):
            continue
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            for each in _each(kind, found[1]):
                yield Reference(path, line, kind, each)


def _each(kind: str, text: str) -> list[str]:
    if kind not in ("law", "section"):
        return [re.sub(r"[\s#]+", " ", text) if kind == "of the paper" else text]
    numbers: list[int] = []
    for joined, number in re.findall(r"(to[\s#]+|–)?(\d+)", text):
        numbers += range(numbers[-1] + 1, int(number) + 1) if joined else [int(number)]
    return [str(number) for number in numbers]
