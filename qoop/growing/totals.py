"""All that was read so far: sums of each group, merged over the rounds, and the query that makes an answer of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoop.catalog import arrow_input
from qoop.catalog.opening import open_duckdb
from qoop.catalog.value import value
from qoop.statements.settings import Settings, set_statements

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from qoop.growing.growth import Growth, Term


@value
class Moments:
    """Of a measure, by group: the sums over the pieces read of its values, their squares and their cubes."""

    sums: np.ndarray
    squares: np.ndarray
    cubes: np.ndarray

    @classmethod
    def of(cls, totals: np.ndarray) -> Moments:
        """Of one group, from the totals of its pieces."""
        return cls(totals.sum()[None], (totals**2).sum()[None], (totals**3).sum()[None])


@value
class PairMoments:
    """Of two measures, by group: the sums of their products."""

    yx: np.ndarray
    yyx: np.ndarray
    yxx: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray, x: np.ndarray) -> PairMoments:
        """Of one group, from the totals of its pieces."""
        return cls((y * x).sum()[None], (y * y * x).sum()[None], (y * x * x).sum()[None])


class Totals:
    """The sums of the groups over the rounds that were added."""

    def __init__(self, growth: Growth, settings: Settings) -> None:
        self._growth = growth
        self._types: dict[str, str] = {}
        self._numbers: dict[str, np.ndarray] = {}
        self._connection = open_duckdb(files=False, threads=1)
        for statement in set_statements(settings):
            self._connection.execute(statement)

    def close(self) -> None:
        """Let go of them."""
        self._connection.close()

    def add(self, rows: pa.Table, columns: Sequence[tuple[str, str]]) -> None:
        """Add the answer of a round, whose pieces were in no other; of the last one, measures alone."""
        named = rows.rename_columns([name for name, _ in columns])
        arrow_input.register(self._connection, "round", named)
        if not self._types:
            self._types = dict(columns)
            casts = ", ".join(f"{name}::{type_} AS {name}" for name, type_ in columns)
            self._connection.execute(f"CREATE TABLE totals AS SELECT {casts} FROM round")
        else:
            self._merge()
        self._connection.unregister("round")
        self._numbers = self._read()

    def _merge(self) -> None:
        keys = [f"k{place}" for place in range(len(self._growth.keys))]
        merged = [f"{self._merged_by(name)}({name})::{type_} AS {name}"
                  for name, type_ in self._types.items() if name not in keys]  # fmt: skip
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        both = "(FROM totals UNION ALL BY NAME FROM round)"
        self._connection.execute(
            f"CREATE OR REPLACE TABLE totals AS SELECT {', '.join([*keys, *merged])} FROM {both}{grouped}"
        )

    def _merged_by(self, name: str) -> str:
        return self._growth.measures[int(name[1:])].merged_by if name[0] == "t" else "sum"

    @property
    def groups(self) -> int:
        """Number of groups seen."""
        return len(self._numbers["pieces"])

    def moments(self, measure: int) -> Moments:
        """The moments of a measure."""
        return Moments(*(self._numbers[f"{power}{measure}"] for power in "sqc"))

    def pair_moments(self, y: int, x: int) -> PairMoments:
        """The moments of a pair of measures."""
        return PairMoments(*(self._numbers[f"{name}_{y}_{x}"] for name in ("yx", "yyx", "yxx")))

    def _read(self) -> dict[str, np.ndarray]:
        """All sums of powers, at once: each question to DuckDB costs some milliseconds."""
        names = [name for name in self._types if name[0] not in "kt"]
        columns = ", ".join(f"coalesce({name}, 0)::DOUBLE AS {name}" for name in names)
        return dict(self._connection.execute(f"SELECT {columns} FROM totals ORDER BY rowid").fetchnumpy())

    def answer(self, bounds: Mapping[str, np.ndarray], scale: float | None, share: float) -> pa.Table:
        """The rows of an edition. bounds: columns ``l0``, ``h0`` … of the figures by their places in the answer, NaN
        for none. scale: what totals are multiplied by; None: all was read."""
        import numpy as np
        import pyarrow as pa

        numbers = np.arange(self.groups)
        table = pa.table({"g": numbers, **{name: pa.array(found, from_pandas=True) for name, found in bounds.items()}})
        arrow_input.register(self._connection, "bounds", table)
        try:
            text = self._answer_sql(scale, share)
            return self._connection.execute(text).to_arrow_table()
        finally:
            self._connection.unregister("bounds")

    def _answer_sql(self, scale: float | None, share: float) -> str:
        growth = self._growth
        estimates = [f"{self._estimate(term, scale)} AS e{place}, {self._estimate(term, None)} AS u{place}"
                     for place, term in enumerate(growth.terms)]  # fmt: skip
        inner = f"SELECT totals.*, bounds.*, {', '.join(estimates)} FROM totals JOIN bounds ON totals.rowid = bounds.g"
        estimated = {one.place for one in growth.figures}
        items = []
        for place, (item, (name, type_)) in enumerate(zip(growth.items, growth.columns, strict=True)):
            name = name.replace('"', '""')
            if place not in estimated:
                items.append(f'{item} AS "{name}"')
                continue
            ends = ("l", "h") if scale is not None else None
            low, high = (f"{end}{place}" for end in ends) if ends else (f"({item})::DOUBLE",) * 2
            low, high = (low, high) if self._is_number(type_) else ("NULL::DOUBLE",) * 2
            items += [f'({item})::{type_} AS "{name}"', f'{low} AS "{name}_low"', f'{high} AS "{name}_high"']
        return f"SELECT {', '.join(items)}, {share!r}::DOUBLE AS share_read FROM ({inner}) {growth.tail}"

    @staticmethod
    def _is_number(type_: str) -> bool:
        return type_.startswith(NUMBERS)

    def _estimate(self, term: Term, scale: float | None) -> str:
        if term.x is not None:
            return f"(t{term.y} / nullif(t{term.x}, 0))"
        found = f"coalesce(t{term.y}, 0)" if term.op == "count" else f"t{term.y}"
        if scale is None or term.op in ("min", "max"):
            return found
        return f"TRY_CAST({found}::DOUBLE * {scale!r} AS {self._types[f't{term.y}']})"


NUMBERS = ("DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "BIGINT", "INTEGER", "SMALLINT", "TINYINT", "U")
"""The beginnings of the names of the types of numbers; UUIDs have no sums."""
