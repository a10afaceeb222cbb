"""Words that this house no longer uses, and what it says in their place.

Each is a word of our own for which the field has a term, or a turn of phrase that slows its readers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from house_names import Names

ROOT = Path(__file__).parents[2]
PLACES = ("catalog", "planner", "engine", "qoop", "tpcds", "docs", "README.md", "CONTRIBUTING.md")
"""Our code and pages, which stay clean."""

TESTS = "tests"
"""The prose of tests stays clean of openings and of the phrases; `tests/house` has to quote them."""

RETIRED = {
    "room": "available resources, free, space",
    "rooms": "available resources",
    "claim": "request",
    "claims": "requests",
    "keeper": "owner",
    "let_go": "unpin",
    "island": "non-deterministic fragment",
    "islands": "non-deterministic fragments",
    "tainted": "dependent on a non-deterministic fragment",
    "letter": "message",
    "letters": "messages",
    "nearness": "data locality",
    "outlook": "remaining work",
    "standing": "job status",
    "surprise": "misestimate",
    "surprises": "misestimates",
    "wager": "regret",
    "wagers": "regret budget",
    "crew": "worker pool",
    "recall": "plan store",
    "spares": "fallback plans",
    "arena": "scenario",
    "contestant": "system under test",
    "contestants": "systems under test",
    "anew": "again",
    "whoever": "the one that",
    "beside": "next to, besides, with",
    "so many": "the number of",
    "as was": "as it was",
    "is told of": "hears of, knows",
}
"""By word; the text says what to write."""

PHRASES = frozenset(("anew", "whoever", "beside", "so many", "as was", "is told of"))
"""Those of the retired words that slow readers wherever they stand; others have an everyday meaning, too."""

RETIRED_NAMES = {
    "held": "present (an output that exists), pinned (one that is kept for an owner)",
    "Held": "FinishedStage",
    "Keeping": "Retention",
    "moment": "timestamp",
    "told": "facts, before",
    "StageTruth": "StageGroundTruth",
}
"""Names that nothing in our packages is defined under any more; in prose the words are everyday ones."""

CLEAN_FOLDERS = (
    "catalog",
    "planner",
    "engine",
    "qoop/adaptive",
    "qoop/query",
    "qoop/programs",
    "qoop/session",
    "qoop/interfaces/page",
    "qoop/interfaces/repl",
    "qoop/interfaces/server",
    "tpcds",
)
"""Folders whose identifiers have no vague part, and whose texts name no person. Others join when they are clean."""

VAGUE_PARTS = {
    "told": "announced, reported, passed",
    "asked": "requested, queried",
    "wanted": "requested, required, target",
    "given": "passed, declared, arguments",
    "seen": "observed, visited, known",
    "look": "stamp, check, read",
    "looks": "stamp, check, read",
    "looked": "checked, read, sampled",
    "who": "the owner, the caller, the reader",
    "nobody": "unknown, unused",
    "somebody": "the owner, another process",
}
"""Parts of identifiers that do not say which component knows a value, or what the value is; and words instead."""

PERSONS = ("who", "whom", "whoever", "nobody", "somebody")
"""Words for people, where the subject is a component of the system."""

OPENINGS = ("How", "What", "Whatever", "When", "Where", "Whether", "Which", "Who", "Whoever", "Whom", "Whose", "Why")
"""No docstring opens with these."""

ALLOWED: tuple[tuple[str, str, str], ...] = (
    ("qoop/interfaces/server/identity/oidc.py", "checked.claims", "a name of joserfc"),
)
"""(path, a part of the line, why): words in their everyday meaning."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A retired word, or an opening: where it stands."""

    path: str
    line: int
    word: str

    def __str__(self) -> str:
        instead = {**VAGUE_PARTS, **RETIRED}.get(self.word, "say what it is")
        return f"{self.path}:{self.line}: {self.word} -> {instead}"


_WORDS = re.compile(
    "|".join(rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z])" for word in sorted(RETIRED, key=len, reverse=True)), re.I
)
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_MAY_BE_VAGUE = re.compile(rf"(?i:{'|'.join(VAGUE_PARTS)})(?![a-z])|{'|'.join(VAGUE_PARTS).upper()}")
"""Is in each text that has a vague identifier. Most texts have none, so they need not be parsed."""
_MAY_BE_RETIRED = re.compile(rf"\b(?:{'|'.join(RETIRED_NAMES)})\b")
"""Is in each module that defines a retired name; the others need not be parsed."""
_PERSONS = re.compile(rf"\b(?:{'|'.join(PERSONS)})\b", re.I)
_TEST = re.compile(r"\btest_\w+")  # a page names the tests that guard it
_OPENING = re.compile(rf'^\s*r?"""({"|".join(OPENINGS)})\b')


def texts(places: tuple[str, ...] = PLACES) -> Iterator[Path]:
    """Our code and pages."""
    for place in places:
        path = ROOT / place
        yield from [path] if path.is_file() else sorted((*path.rglob("*.py"), *path.rglob("*.md")))


def findings(places: tuple[str, ...] = PLACES) -> Iterator[Finding]:
    """All retired words and openings in some places."""
    for path in texts(places):
        yield from read(str(path.relative_to(ROOT)), path.read_text())


def findings_in_tests() -> Iterator[Finding]:
    """All phrases and openings in tests."""
    for path in texts((TESTS,)):
        if "house" not in path.relative_to(ROOT).parts:
            found = read(str(path.relative_to(ROOT)), path.read_text())
            yield from (one for one in found if one.word in PHRASES or one.word not in RETIRED)


def read(path: str, text: str) -> Iterator[Finding]:
    """The retired words and openings of a text."""
    lowered = text.lower()
    present = [word for word in RETIRED if word in lowered]  # parts of other words, mostly
    allowed = [part for file, part, _ in ALLOWED if path == file]
    for number, line in enumerate(text.splitlines(), 1):
        if any(part in line for part in allowed):
            continue
        if present and any(word in line.lower() for word in present):
            yield from (Finding(path, number, found[0].lower()) for found in _WORDS.finditer(_TEST.sub("", line)))
        opening = _OPENING.match(line) if path.endswith(".py") and '"""' in line else None
        if opening is not None:
            yield Finding(path, number, f'"""{opening[1]}')


def vague_identifiers(path: str, text: str) -> Iterator[Finding]:
    """The vague parts of all identifiers in a Python source; a page has none."""
    if not path.endswith(".py") or _MAY_BE_VAGUE.search(text) is None:
        return
    for node in ast.walk(ast.parse(text)):
        names = (getattr(node, attribute, None) for attribute in ("id", "attr", "arg", "name", "asname"))
        for name in names:
            parts = _vague_parts(name) if isinstance(name, str) else ()
            yield from (Finding(path, getattr(node, "lineno", 0), part) for part in parts)


@cache
def _vague_parts(identifier: str) -> tuple[str, ...]:
    return tuple(sorted({part.lower() for part in _PARTS.findall(identifier)} & VAGUE_PARTS.keys()))


def persons(path: str, text: str) -> Iterator[Finding]:
    """The words for people in a source, in prose or in code."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from (Finding(path, number, found[0].lower()) for found in _PERSONS.finditer(line))


def findings_in_clean_folders() -> Iterator[Finding]:
    """The vague identifiers, and the words for people, in the folders that are clean already."""
    for path in texts(CLEAN_FOLDERS):
        place, text = str(path.relative_to(ROOT)), path.read_text()
        yield from (*vague_identifiers(place, text), *persons(place, text))


def retired_names(names: Names) -> Iterator[str]:
    """The places where the engine defines a retired name: a function, a class, a constant, a field or a method.

    The evaluation lab (tpcds) has runs that are held to one plan, which is another thing.
    """
    for path in names.paths.values():
        name = names.name_of(path)
        if name.startswith("qoop.") and not name.startswith("qoop.tpcds.") and _MAY_BE_RETIRED.search(path.read_text()):
            module = names.module_of(path)
            defined = {*module.defined, *module.members()}
            yield from (f"{name}: {one} -> {RETIRED_NAMES[one]}" for one in sorted(defined & {*RETIRED_NAMES}))


def idle_allowances() -> list[tuple[str, str]]:
    """The allowed lines that no longer exist."""
    return [(file, part) for file, part, _ in ALLOWED if part not in (ROOT / file).read_text()]
