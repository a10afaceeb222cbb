"""Random expressions: the templates of :mod:`fuzz_templates`, filled with columns, literals and each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from fuzz_templates import (
    AGGREGATES,
    ANY,
    ANY_AGGREGATES,
    FAMILIES,
    INEXACT,
    LITERALS,
    MOMENT,
    NUMBER,
    ODD,
    OUTPUTS,
    TEXT,
    TRUTH,
    TRUTHS,
    VALUES,
    WINDOWS,
)
from fuzz_tree import items, node, optional

_PLACE = re.compile(r"\{([^{}]+)\}")
_LETTERS = {"n": NUMBER, "t": TEXT, "m": MOMENT, "b": TRUTH}
_DIRECTIONS = ("", "", "", "DESC", "NULLS FIRST", "DESC NULLS LAST", "ASC NULLS LAST", "DESC NULLS FIRST")


@dataclass(frozen=True)
class Named:
    """A column as a query may write it."""

    sql: str
    kind: str


@dataclass
class Names:
    """The names that an expression may refer to. outer: of the blocks around. ctes: name -> columns."""

    columns: list[Named] = field(default_factory=list)
    outer: list[Named] = field(default_factory=list)
    ctes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


class Values:
    """Expressions; the grammar of :mod:`fuzz_grammar` adds the queries around them and in them."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.count = 0

    def subquery_value(self, kind: str, names: Names, depth: int) -> str:
        raise NotImplementedError

    def subquery_truth(self, names: Names, depth: int) -> str:
        raise NotImplementedError

    # -- small things -----------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def kind(self, names: Names) -> str:
        """A kind to make a value of: mostly a family, else one that there is a column of."""
        odd = [column.kind for column in names.columns if column.kind not in FAMILIES]
        if odd and self.chance(0.3):
            return self.rng.choice(odd)
        return self.rng.choice(ODD) if self.chance(0.05) else self.rng.choice(FAMILIES)

    def literal(self, kind: str) -> str:
        return "NULL" if self.chance(0.04) else node(kind, self.rng.choice(LITERALS[kind]))

    def direction(self) -> str:
        return optional(f" {self.rng.choice(_DIRECTIONS)}")

    # -- values -----------------------------------------------------------------------------------------------

    def value(self, kind: str, names: Names, depth: int, nesting: int) -> str:
        """A value of a kind. depth: of subqueries in it; nesting: of expressions."""
        return node(kind, self._value(kind, names, depth, nesting))

    def _value(self, kind: str, names: Names, depth: int, nesting: int) -> str:
        if depth > 0 and self.chance(0.07):
            return self.subquery_value(kind, names, depth)
        outer = [column.sql for column in names.outer if column.kind == kind]
        if outer and self.chance(0.04):
            return self.rng.choice(outer)
        if nesting and self.chance(0.4):
            general = kind not in VALUES or self.chance(0.25)
            return self.filled(self.rng.choice(ANY if general else VALUES[kind]), kind, names, depth, nesting - 1)
        fitting = [column.sql for column in names.columns if column.kind == kind]
        return self.reference(self.rng.choice(fitting), names) if fitting and self.chance(0.93) else self.literal(kind)

    def reference(self, column: str, names: Names) -> str:
        """A column by its name, perhaps without its table's, so that an alias may hide it, or in other letters."""
        if self.chance(0.08):
            bare = column.rpartition(".")[2]
            alone = [other.sql.rpartition(".")[2].lower() for other in names.columns].count(bare.lower()) == 1
            column = bare if alone or self.chance(0.05) else column
        return column.upper() if self.chance(0.03) and '"' not in column else column

    def filled(self, template: str, kind: str, names: Names, depth: int = 0, nesting: int = 0) -> str:
        """A template with something in each of its places."""
        again: dict[str, str] = {}

        def place(found: re.Match[str]) -> str:
            word = found[1]
            if not word[-1:].isdigit():
                return self._place(word, kind, names, depth, nesting)
            if word not in again:
                again[word] = self._place(word[:-1], kind, names, depth, nesting)
            return again[word]

        return _PLACE.sub(place, template)

    def _place(self, word: str, kind: str, names: Names, depth: int, nesting: int) -> str:
        if word in ("part", "total", "col", "num", "when", "dir", "frame", "range", "span"):
            return self._window_place(word, names)
        if word == "d":
            return optional("DISTINCT ") if self.chance(0.2) else ""
        if word == "op":
            return self.rng.choice(("=", "=", "<>", "<", "<=", ">", ">="))
        if word == "oddpair":
            odd = self.kind(names)
            return f"{self.value(odd, names, 0, 0)} {self.rng.choice(('=', '<', '<>', '>='))} {self.literal(odd)}"
        if len(word) == 1 and word.isupper():
            return self.literal(_LETTERS[word.lower()])
        wanted = kind if word == "same" else self.kind(names) if word == "any" else _LETTERS.get(word, word)
        return self.value(wanted, names, depth, nesting) if wanted in LITERALS else "{" + word + "}"

    def output(self, names: Names) -> str:
        """A value of any type, for the outermost select list."""
        shapes = OUTPUTS if names.columns else [shape for shape in OUTPUTS if "{total}" not in shape]
        return self.filled(self.rng.choice(shapes), self.kind(names), names, 0, 1)

    # -- predicates -------------------------------------------------------------------------------------------

    def truth(self, names: Names, depth: int, nesting: int) -> str:
        """A condition."""
        shape = self.rng.random()
        if nesting and shape < 0.35:
            word = self.rng.choice((" AND ", " AND ", " OR "))
            return node(TRUTH, f"({items(word, [self.truth(names, depth, nesting - 1) for _ in range(2)])})")
        if nesting and shape < 0.42:
            return node(TRUTH, f"NOT ({self.truth(names, depth, nesting - 1)})")
        if depth > 0 and shape < 0.58:
            return node(TRUTH, self.subquery_truth(names, depth))
        return self.comparison(names, depth if self.chance(0.1) else 0, 1)

    def comparison(self, names: Names, depth: int = 0, nesting: int = 0) -> str:
        return node(TRUTH, f"({self.filled(self.rng.choice(TRUTHS), TRUTH, names, depth, nesting)})")

    # -- aggregates and windows -------------------------------------------------------------------------------

    def aggregate(self, kind: str, names: Names) -> str:
        """An aggregate of a kind, that is the same in any order of rows."""
        general = kind not in AGGREGATES or self.chance(0.1)
        return node(kind, self._aggregated(ANY_AGGREGATES if general else AGGREGATES[kind], kind, names))

    def inexact(self, names: Names) -> str:
        """An aggregate of any type, for the outermost select list."""
        return self._aggregated(INEXACT, self.kind(names), names)

    def _aggregated(self, templates: Sequence[str], kind: str, names: Names) -> str:
        template = self.rng.choice(templates)
        text = self.filled(template, kind, names, 0, 1)
        is_plain = re.fullmatch(r"\w+\([^()]*\)", template) and not template.startswith("coalesce")
        if is_plain and self.chance(0.15):
            text += optional(f" FILTER (WHERE {self.comparison(names)})")
        return text

    def window(self, kind: str, names: Names) -> str:
        """A window function of one of the families."""
        return node(kind, self.filled(self.rng.choice(WINDOWS[kind]), kind, names))

    def _window_place(self, word: str, names: Names) -> str:
        if word == "part":
            keys = [self.rng.choice(names.columns).sql for _ in range(self.rng.randint(0, 2))]
            return optional(f"PARTITION BY {items(', ', keys)}") if keys else ""
        if word == "total":
            return ", ".join(column.sql + self.rng.choice(_DIRECTIONS[:4]).rjust(5) for column in names.columns)
        if word == "dir":
            return self.direction()
        if word == "frame":
            return self.frame()
        if word in ("range", "span"):
            return self.range(("1", "0", "2.5") if word == "range" else ("INTERVAL 1 DAY", "INTERVAL 36 HOUR"))
        kind = {"num": NUMBER, "when": MOMENT}.get(word)
        fitting = [column.sql for column in names.columns if column.kind == kind]
        return self.rng.choice(fitting) if fitting else self.rng.choice(names.columns).sql

    def frame(self) -> str:
        """A frame of whole rows, or of groups of equal ones."""
        begin = self.rng.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW", "1 FOLLOWING"))
        ends = ("1 PRECEDING", "CURRENT ROW", "2 FOLLOWING", "UNBOUNDED FOLLOWING")
        end = self.rng.choice(ends if "PRECEDING" in begin else ends[1:] if begin == "CURRENT ROW" else ends[2:])
        return optional(f"{self.rng.choice(('ROWS', 'GROUPS'))} BETWEEN {begin} AND {end}{self.excluded()}")

    def range(self, distances: Sequence[str]) -> str:
        """A frame of what lies within a distance."""
        begin = self.rng.choice(("UNBOUNDED PRECEDING", f"{self.rng.choice(distances)} PRECEDING", "CURRENT ROW"))
        end = self.rng.choice(("CURRENT ROW", f"{self.rng.choice(distances)} FOLLOWING", "UNBOUNDED FOLLOWING"))
        return optional(f"RANGE BETWEEN {begin} AND {end}{self.excluded()}")

    def excluded(self) -> str:
        return self.rng.choice(
            ("", "", " EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES", " EXCLUDE NO OTHERS")
        )

    def several(self, least: int, most: int, make: Callable[[], str]) -> list[str]:
        return [make() for _ in range(self.rng.randint(least, most))]
