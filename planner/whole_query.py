"""DuckDB's own plan of a query, as a plan of one stage.

The stage holds the user's text. One task hands it to DuckDB with all the slots that it is given, and DuckDB reads the
tables where they lie. The plan needs no statistics and no search, so a query can start before the planner is loaded.
It is one of the alternatives of every query, and is chosen by cost like any other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b

from qoop.catalog.value import value
from qoop.planner.estimate.cost import BASE_MEMORY
from qoop.planner.plan import Estimate, Plan, Stage, TableInput
from qoop.planner.sql.bind import Bound

OWN_PLAN = "DuckDB plans the whole query"
"""The reason that the stage is not taken apart."""

VALUE_SECONDS = 3.7e-9
STARTING_SECONDS = 0.004
SORTING = 2.0
"""Seconds of one thread for each row that a text names and each value of it, and to begin; the factor for windows and
repeated groupings.

They are fitted to DuckDB's times for the 99 queries of TPC-DS at scale 10, from which the estimate is off by a factor
of 1.9 in the geometric mean. No more is known before anything is read but footers.
"""

_WORD = re.compile(r"\w+")
_SORTS = frozenset(("over", "rollup", "cube", "grouping"))
_READ = re.compile(r"(?:\bfrom\s+|\bjoin\s+|,\s*)(\w+)")
_EQUALITY = r'[a-z_"][\w."]*\s*=\s*[a-z_"][\w."]*'
_INEQUALITY = r"\b(?P<one>\w+)\.\w+\s*(?:[<>]=?|<>|!=)\s*(?!(?P=one)\b)\w+\.\w"
_CORRELATED = r"\bnot\s+in\s*\(\s*select\b[^()]*\bwhere\b[^()]*=\s*\w+\.\w"
_PAIRING = [
    (word, re.compile(pattern))
    for word, pattern in (
        ("or", rf"{_EQUALITY}[\s)]*\bor\b|\bor\b[\s(]*{_EQUALITY}"),
        ("not", _CORRELATED),
        ("", _INEQUALITY),
    )
]
"""Conditions that may try all pairs of rows, each with a word that it holds."""


@value
class TableSize:
    """The rows of a table that a query may read, and its columns."""

    rows: int
    columns: tuple[str, ...]


def seconds_from_footers(text: str, sizes: Mapping[str, TableSize]) -> float:
    """Seconds of one thread that DuckDB should take for a query over tables of these sizes, by lower-case name.

    >>> round(seconds_from_footers("SELECT a, b, c FROM t", {"t": TableSize(1_000_000, ("a", "b", "c", "d"))}), 4)
    0.0188
    """
    times = Counter(_WORD.findall(text.lower()))
    values = sum(size.rows * (times[name] + _columns(size, times)) for name, size in sizes.items())
    return STARTING_SECONDS + VALUE_SECONDS * values * (SORTING if _SORTS & times.keys() else 1.0)


def possible_pairs(text: str, sizes: Mapping[str, TableSize]) -> float:
    """Pairs of rows that DuckDB may try for a query whose text has two names equal, or something else, or an inequality
    of two tables, or NOT IN with a correlated equality: it looks for partners by an equality that always holds, and
    else in all rows. 0 for other texts.

    >>> sizes = {"t": TableSize(1000, ("a", "b")), "u": TableSize(500, ("a", "b"))}
    >>> possible_pairs("SELECT 1 FROM t JOIN u ON t.a = u.a OR t.b = u.b", sizes)
    500000
    >>> possible_pairs("SELECT 1 FROM t JOIN u ON t.a = u.a WHERE t.b = 1 OR t.b = 2", sizes)
    0
    >>> possible_pairs("SELECT 1 FROM t x JOIN t y ON x.a = y.b OR x.b = y.a", {"t": sizes["t"]})
    1000000
    >>> possible_pairs("SELECT 1 FROM t x JOIN t y ON x.a = y.a AND x.b <> y.b", {"t": sizes["t"]})
    1000000
    >>> possible_pairs("SELECT (SELECT max(u.a) FROM u WHERE u.b = t.b AND u.a <= t.a) FROM t WHERE t.a < t.b", sizes)
    500000
    >>> possible_pairs("SELECT 1 FROM t WHERE a NOT IN (SELECT a FROM u WHERE u.b = t.b)", sizes)
    500000
    """
    text = text.lower()
    words = {"", *_WORD.findall(text)}
    if not any(word in words and pattern.search(text) for word, pattern in _PAIRING):
        return 0
    read = Counter(_READ.findall(text))
    rows = sorted(size.rows for name, size in sizes.items() for _ in range(max(1, read[name])))
    return rows[-1] * rows[-2] if len(rows) > 1 else 0


def _columns(size: TableSize, times: Mapping[str, int]) -> float:
    """About how many columns are read, again for every other time that they are named; all where none is."""
    named = [times[name.lower()] for name in size.columns if name.lower() in times]
    return max(len(named), sum(named) / 2) if named else len(size.columns)


def whole_plan(
    bound: Bound,
    seconds: float,
    slots: int,
    shareable: bool,
    reason: str = OWN_PLAN,
    named_by: Mapping[str, str] | None = None,
) -> Plan:
    """The plan that hands the text to DuckDB.

    seconds: the estimate, of one thread. slots: the most that its task can use. shareable: the text means the same
    whenever and wherever it runs. reason: that it is not taken apart. named_by: by the names of tables, other versions
    with the same content where the text reads them, by which its answer is named.
    """
    stage = Stage(
        id="s1",
        sql=bound.text,
        inputs=tuple(
            TableInput(name, name, version, tuple(column for column, _ in columns), split=False)
            for name, (version, columns) in bound.tables.items()
        ),
        columns=tuple((f"c{place}", type_) for place, (_, type_) in enumerate(bound.columns)),
        width=1,
        signature=_signature(bound, named_by or {}),
        slots=slots,
        estimate=Estimate(task_seconds=seconds, task_memory=BASE_MEMORY),
        opaque=reason,
        whole=True,
        shareable=shareable,
        label="DuckDB",
    )
    return Plan((stage,), bound.columns, bound.settings)


def _signature(bound: Bound, named_by: Mapping[str, str]) -> str:
    versions = sorted((name, named_by.get(name, version)) for name, (version, _) in bound.tables.items())
    calls = [function.key for function in bound.functions.values()]
    identity = ("whole", bound.text, versions, bound.settings, *calls)
    return blake2b(repr(identity).encode(), digest_size=16).hexdigest()
