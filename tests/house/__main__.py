"""The house in numbers: ``python tests/house``."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from house_glossary import GLOSSARY, terms
from house_imports import backwards, circles, folders, imports
from house_words import PLACES, findings


def main() -> int:
    for folder, count in sorted(folders().items()):
        print(f"{count:4} modules in {folder}")
    kinds = {kind: sum(one.kind == kind for one in imports()) for kind in ("top", "lazy", "type")}
    print(f"{kinds['top']} imports at the top of modules, {kinds['lazy']} lazy ones, {kinds['type']} for types alone")
    for kind in ("lazy", "type"):
        for one in backwards(kind):  # type: ignore[arg-type]
            print(f"  against the direction, {kind}: {one.importer}:{one.line} imports {one.imported}")
    for circle in circles():
        print(f"  circle: {', '.join(circle)}")
    retired = Counter(one.path.split("/")[0] for one in findings())
    print(f"{retired.total()} retired words: {', '.join(f'{retired[place]} in {place}' for place in PLACES)}")
    print(f"{len(list(terms(GLOSSARY.read_text())))} words of our own in the glossary")
    return 1 if circles() else 0


if __name__ == "__main__":
    sys.exit(main())
