"""The texts for which copies are worth it: the seconds that they took over files, and over copies of them.

DuckDB knows more of its own tables than of Parquet, and so may join them in another order, and it skips other row
groups. Of 11 queries of TPC-DS at scale 1 with three sets of constants, query 27 took 60 ms over copies (12 before), 8
took 150 ms (90), and the others 0.3 to 0.9 of the time.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import inf

from qoop.catalog.by_text import by_text
from qoop.catalog.lexer import lexed

_PATTERNS = 1024
"""Patterns that are remembered."""

_RUNS = 2
"""Runs over copies before these are compared: the first one may read them from the disk."""

_MOSTLY = 0.8
"""The part of its bytes from which on a run counts as one over copies."""

_SLOWER, _SECONDS = 1.25, 0.005
"""The factor, and the seconds on top, by which a text that is slower over copies has to be to read files again."""


@dataclass(slots=True)
class _Times:
    """files: seconds over files, in the mean of `runs_of_files`. copies: the least seconds over copies."""

    files: float = 0.0
    runs_of_files: int = 0
    copies: float = inf
    runs_of_copies: int = 0


class Worth:
    """The times of texts, by their patterns: those of one pattern differ in numbers and strings alone."""

    def __init__(self) -> None:
        self._times: OrderedDict[str, _Times] = OrderedDict()

    def add(self, text: str, seconds: float, copied: float) -> None:
        """A run took that long. copied: the part of its bytes that it read from copies; a run of both kinds of reading
        says nothing of either."""
        times = self._times.setdefault(pattern(text), _Times())
        self._times.move_to_end(pattern(text))
        if copied > _MOSTLY:
            times.copies, times.runs_of_copies = min(times.copies, seconds), times.runs_of_copies + 1
        elif not copied:
            times.runs_of_files += 1
            times.files += (seconds - times.files) / times.runs_of_files
        if len(self._times) > _PATTERNS:
            self._times.popitem(last=False)

    def read_copies(self, text: str) -> bool:
        """False for a text that is known to be slower over copies."""
        times = self._times.get(pattern(text))
        if times is None or not times.runs_of_files or times.runs_of_copies < _RUNS:
            return True
        return times.copies <= _SLOWER * times.files + _SECONDS


@by_text(most=1024)
def pattern(text: str) -> str:
    """The text without its numbers and strings.

    >>> pattern("SELECT a FROM t WHERE b = 5") == pattern("SELECT a FROM t WHERE b = 17")
    True
    """
    return " ".join(f"<{word.kind}>" if word.kind in ("string", "number") else word.text for word in lexed(text).words)
