"""The glossary: its terms, the code that they refer to, and the texts that use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from house_words import ROOT, texts

GLOSSARY = ROOT / "docs" / "glossary.md"

_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_REFERENCE = re.compile(r"`(qoop(?:\.\w+)+)`")


@dataclass(frozen=True, slots=True)
class Term:
    """code: the dotted names in the last column."""

    word: str
    meaning: str
    code: tuple[str, ...]


def terms(text: str) -> Iterator[Term]:
    """The rows of the tables of a page, without their headings."""
    for word, meaning, code in _ROW.findall(text):
        if word != "word" and set(word) != {"-"}:
            yield Term(word, meaning, tuple(_REFERENCE.findall(code)))


def pattern(word: str) -> re.Pattern[str]:
    """Finds a term as prose or as a name: `plan memo`, `plan_memo`, `PlanMemo`, `plan memos`."""
    parts = [re.escape(part.removesuffix("y")) + ("(?:y|ie)?" if part[-1] == "y" else "") for part in _parts(word)]
    return re.compile(r"(?<![A-Za-z])" + r"[\s_#-]*".join(parts) + r"(?:s|es)?(?![a-z])", re.IGNORECASE)


def _parts(word: str) -> list[str]:
    return re.split(r"[\s-]", word)


def _begins(word: str) -> str:
    """In small letters, a part of each text that has the term: most texts need not be searched for it."""
    return _parts(word)[0].removesuffix("y").lower()


def unused(found: Iterator[Term], paths: Iterator[Path] | None = None) -> list[str]:
    """The terms that stand in no text besides the glossary."""
    left = {term.word: pattern(term.word) for term in found}
    for path in paths or texts():
        if path != GLOSSARY:
            text = path.read_text()
            lowered = text.lower()
            left = {
                word: sought for word, sought in left.items() if _begins(word) not in lowered or not sought.search(text)
            }
    return sorted(left)
