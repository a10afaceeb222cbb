"""Many random texts over many sets of tables: what came of each, counted, and the differences shrunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from fuzz_grammar import random_query
from fuzz_judge import TOO_MANY, asked, judged
from fuzz_shrink import Found
from fuzz_tables import Hosts, kinds_of, random_tables
from fuzz_tree import plain

from qoop.engine.failures import is_fatal
from qoop.tpcds.oracle import Difference

TEXTS = 500
"""Texts over one set of tables."""


@dataclass
class Outcome:
    """The outcome of the texts of a set of tables: the number of each sort, and the differences."""

    texts: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    found: list[tuple[str, Found]] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.texts += other.texts
        self.refused += other.refused
        self.verdicts += other.verdicts
        self.found += other.found


def modes(number: int, both: bool = True) -> tuple[str, ...]:
    """Each text runs whole, and staged in one of the forms; or one of the two."""
    forms = ("usual", "split", "hash", f"random {number}")
    staged = forms[number // 2 % len(forms)]
    return ("whole", staged) if both else (staged if number % 2 else "whole",)


def tried(seed: str, numbers: range, both: bool = True) -> Outcome:
    """The texts with these numbers over the tables of a seed. both: each whole and staged, else in turn."""
    outcome = Outcome()
    tables = random_tables(seed)
    with TemporaryDirectory(prefix="qoop-fuzz-") as folder:
        hosts = Hosts(Path(folder), tables)
        try:
            for number in numbers:
                text = random_query(f"{seed}/{number}", kinds_of(tables))
                for mode, difference in _differences(hosts, plain(text), modes(number, both), outcome):
                    outcome.found.append((f"{seed}/{number}", Found(text, mode, tables, difference)))
        finally:
            hosts.close()
    return outcome


def _differences(hosts: Hosts, text: str, wanted: Sequence[str], outcome: Outcome) -> Iterator[tuple[str, Difference]]:
    outcome.texts += 1
    theirs = asked(hosts.duckdb, text)
    if theirs.error is not None:
        outcome.refused[type(theirs.error).__name__] += 1
        if is_fatal(theirs.error):
            hosts.renew()
        if isinstance(theirs.error, duckdb.OutOfMemoryException):
            return
    elif theirs.rows is not None and theirs.rows.num_rows > TOO_MANY:
        outcome.verdicts["too many rows"] += 1
        return
    for mode in wanted:
        try:
            verdict = judged(hosts, text, mode, theirs)
        except Exception as error:  # the other texts are to be judged, too
            verdict = Difference("judge", f"cannot judge: {type(error).__name__}: {error}")
        outcome.verdicts[verdict if isinstance(verdict, str) else f"different: {verdict.kind}"] += 1
        if isinstance(verdict, Difference):
            yield mode, verdict
