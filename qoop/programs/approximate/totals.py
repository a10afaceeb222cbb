"""The sums of all groups, merged over the rounds so far, and the query that computes an edition from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one

from qoop.catalog import arrow_input, arrow_output
from qoop.programs.approximate import values
from qoop.programs.approximate.core import CORE
from qoop.programs.approximate.estimators import order
from qoop.programs.approximate.estimators.distinct import Incidence
from qoop.programs.approximate.estimators.moments import Moments, PairMoments
from qoop.programs.approximate.estimators.order import Sample
from qoop.programs.approximate.estimators.variance import LOST
from qoop.programs.approximate.growth import UNBOUNDED
from qoop.query.statements.settings import Settings, opened

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from qoop.programs.approximate.estimators.interim import Interim
    from qoop.programs.approximate.growth import Growth, Term
    from qoop.programs.approximate.intervals import Intervals


class Totals:
    """The sums of the groups over the added rounds."""

    def __init__(self, growth: Growth, settings: Settings) -> None:
        self._growth = growth
        self._types: dict[str, str] = {}
        self._numbers: dict[str, np.ndarray] = {}
        self._of_values: dict[int, Incidence | Sample] = {}
        self._connection = opened(settings, threads=1)

    def close(self) -> None:
        """Release them."""
        self._connection.close()

    def add(self, rows: pa.Table, columns: Sequence[tuple[str, str]]) -> None:
        """Add the answer of a round, whose pieces are in no other; of the last round, measures alone."""
        self._of_values = {}
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
        merged = [f"{self._merged(name)}::{type_} AS {name}" for name, type_ in self._types.items() if name not in keys]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        both = "(FROM totals UNION ALL BY NAME FROM round)"
        self._connection.execute(
            f"CREATE OR REPLACE TABLE totals AS SELECT {', '.join([*keys, *merged])} FROM {both}{grouped}"
        )

    def _merged(self, name: str) -> str:
        if name[0] == "v":
            return f"flatten(list({name}) FILTER (WHERE {name} IS NOT NULL))"
        if name[0] == "t":
            return f"{self._growth.measures[int(name[1:])].merged_by}({name})"
        return f"max({name})" if name[0] == "g" else f"sum({name})"

    @property
    def groups(self) -> int:
        """The number of observed groups."""
        return len(self._numbers["pieces"])

    def moments(self, measure: int) -> Moments:
        """The moments of a measure."""
        return Moments(*(self._numbers[f"{power}{measure}"] for power in "sqcg"))

    def pair_moments(self, y: int, x: int) -> PairMoments:
        """The moments of a pair of measures."""
        return PairMoments(*(self._numbers[f"{name}_{y}_{x}"] for name in ("yx", "yyx", "yxx")))

    def size_moments(self, measure: int) -> PairMoments:
        """The moments of a measure and of the rows of its pieces."""
        return PairMoments(*(self._numbers[f"{name}{measure}"] for name in ("yr", "yyr", "yrr")))

    def triple_moments(self, y: int, z: int, x: int) -> np.ndarray:
        """The sums of the products of three measures."""
        return self._numbers[f"yzx_{y}_{z}_{x}"]

    def incidence(self, measure: int) -> Incidence:
        """The observed values of a measure that counts distinct values."""
        found = self._of_values.get(measure)
        if not isinstance(found, Incidence):
            found = self._of_values[measure] = values.incidence(self._connection, measure, self.groups)
        return found

    def sample(self, measure: int) -> Sample:
        """The observed values of the measure of a quantile."""
        found = self._of_values.get(measure)
        if not isinstance(found, Sample):
            found = self._of_values[measure] = values.sample(self._connection, measure, self.groups)
        return found

    def _read(self) -> dict[str, np.ndarray]:
        """All sums of powers, by one query: each query of DuckDB costs some milliseconds."""
        names = [name for name in self._types if name[0] not in "ktv"]
        columns = ", ".join(f"coalesce({name}, 0)::DOUBLE AS {name}" for name in names)
        return dict(self._connection.execute(f"SELECT {columns} FROM totals ORDER BY rowid").fetchnumpy())

    def others_by_group(self, rows: pa.Table, columns: Sequence[tuple[str, str]]) -> dict[str, np.ndarray] | None:
        """The measures of other rows by the groups of these, 0 where they have none. None: some group is not here.

        rows: keys and measures, with these names and types."""
        casts = ", ".join(f"{name}::{type_} AS {name}" for name, type_ in columns)
        on = " AND ".join(f"totals.{name} IS NOT DISTINCT FROM o.{name}" for name, _ in columns if name[0] == "k")
        measures = [name for name, _ in columns if name[0] != "k"]
        arrow_input.register(self._connection, "other", rows.rename_columns([name for name, _ in columns]))
        try:
            other, on = f"(SELECT {casts} FROM other) AS o", on or "true"
            known = f"SELECT count(*) FROM {other} WHERE EXISTS (FROM totals WHERE {on})"
            if self._connection.execute(known).fetchall() != [(len(rows),)]:
                return None
            listed = ", ".join(f"coalesce(o.{name}, 0)::DOUBLE AS {name}" for name in measures)
            query = f"SELECT {listed} FROM totals LEFT JOIN {other} ON {on} ORDER BY totals.rowid"
            return dict(self._connection.execute(query).fetchnumpy())
        finally:
            self._connection.unregister("other")

    def scaled(self, scale: float, columns: Sequence[tuple[str, str]]) -> pa.Table:
        """Keys and estimated measures of all groups, with these names and types. scale: all rows over those read."""
        items = ", ".join(
            f"{name}::{type_} AS {name}" if name[0] == "k" else f"({name}::DOUBLE * {scale!r})::{type_} AS {name}"
            for name, type_ in columns
        )
        self._connection.execute("SET arrow_lossless_conversion = true")
        try:
            return arrow_output.table(self._connection, f"SELECT {items} FROM totals")
        finally:
            self._connection.execute("RESET arrow_lossless_conversion")

    def add_table(self, name: str, rows: pa.Table | None, columns: Sequence[tuple[str, str]]) -> None:
        """Create a table that the query around the sums reads. rows: None: it is empty."""
        casts = ", ".join(f"c{place}::{type_} AS {_quoted(one)}" for place, (one, type_) in enumerate(columns))
        if rows is None:
            nothing = ", ".join(f"NULL::{type_} AS c{place}" for place, (_, type_) in enumerate(columns))
            self._connection.execute(f"CREATE TABLE {_quoted(name)} AS SELECT {casts} FROM (SELECT {nothing}) LIMIT 0")
            return
        named = rows.rename_columns([f"c{place}" for place in range(len(columns))])
        arrow_input.register(self._connection, "round", named)
        self._connection.execute(f"CREATE TABLE {_quoted(name)} AS SELECT {casts} FROM round")
        self._connection.unregister("round")

    def describes_around(self) -> bool:
        """True if the query around the sums has the columns of the whole query. Raises duckdb.Error."""
        columns = [*self._growth.own_columns, *([(_GROUP, "BIGINT")] if self._growth.shown else [])]
        self.add_table(CORE, None, columns)
        found = self._connection.execute(f"DESCRIBE {self._around_sql()}").fetchall()
        whole = len(self._growth.columns)
        return [(row[0], row[1]) for row in found[:whole]] == list(self._growth.columns)

    def answer(self, interim: Interim) -> tuple[pa.Table, np.ndarray | None]:
        """The rows of the query and the group of each, -1: none. The groups are None where no estimate is shown."""
        import numpy as np
        import pyarrow as pa

        estimates = {} if interim.is_whole else self._estimates(interim)
        columns = {name: pa.array(found, from_pandas=True) for name, found in estimates.items()}
        arrow_input.register(self._connection, "estimated", pa.table({"g": np.arange(self.groups), **columns}))
        try:
            text = self._own_sql(None if interim.is_whole else interim.sizes.scale)
            if self._growth.around is not None:
                self._connection.execute(f"CREATE OR REPLACE TABLE {CORE} AS {text}")
                text = self._around_sql()
            rows = arrow_output.table(self._connection, text)
        finally:
            self._connection.unregister("estimated")
        whole = len(self._growth.columns)
        if rows.num_columns == whole:
            return rows, None
        return rows.select(range(whole)), np.from_dlpack(rows.column(whole).combine_chunks())

    def bounded(self, rows: pa.Table, groups: np.ndarray | None, found: Intervals, share: float) -> pa.Table:
        """The rows of an edition: those of `answer` with the intervals of their groups."""
        import numpy as np
        import pyarrow as pa

        nothing, ends = pa.nulls(len(rows), pa.float64()), []
        for place, (figure, _) in self._growth.shown.items():
            assert groups is not None
            for side in (found.low[figure], found.high[figure]):
                unknown = np.asarray(rows.column(place).is_null())
                bounds = np.where(unknown, np.nan, np.append(side, np.nan)[groups])
                number = self._is_number(self._growth.columns[place][1])
                ends.append(pa.array(bounds, pa.float64(), from_pandas=True) if number else nothing)
        return self._in_order(rows, ends, share)

    def lacks(self, rows: pa.Table, groups: np.ndarray | None) -> bool:
        """True if an estimate that could have an interval is NULL in the row of a group: nothing was read to make it
        of."""
        import numpy as np

        if groups is None:
            return False
        bounded = {figure.place for figure in self._growth.figures if figure.kind not in UNBOUNDED}
        places = [place for place, (figure, _) in self._growth.shown.items() if figure in bounded]
        return any(bool((np.asarray(rows.column(place).is_null()) & (groups >= 0)).any()) for place in places)

    def _estimates(self, interim: Interim) -> dict[str, np.ndarray]:
        """The estimates of the terms that do not merge, as columns ``d0`` …"""
        scale = interim.pieces / interim.drawn
        return {
            f"d{place}": self.incidence(term.y).estimate(scale) if term.op == "distinct" else self._quantiles(term)
            for place, term in enumerate(self._growth.terms)
            if term.is_of_values
        }

    def _quantiles(self, term: Term) -> np.ndarray:
        return order.quantiles(self.sample(term.y), self.groups, term.level, term.op == "quantile_cont")

    def exact(self, rows: pa.Table, types: Sequence[str]) -> pa.Table:
        """The rows of the query itself as an edition: both bounds equal their value."""
        self.add_table(_WHOLE, rows, [(f"c{place}", type_) for place, type_ in enumerate(types)])
        shown = self._growth.shown
        ends = [f"{f'c{place}' if self._is_number(types[place]) else 'NULL'}::DOUBLE AS c{place}" for place in shown]
        if not ends:
            return self._in_order(rows, [], 1.0)
        found = arrow_output.table(self._connection, f"SELECT {', '.join(ends)} FROM {_WHOLE}")
        return self._in_order(rows, [column for column in found.columns for _ in range(2)], 1.0)

    def _in_order(self, rows: pa.Table, ends: Sequence[pa.Array | pa.ChunkedArray], share: float) -> pa.Table:
        """Bounds next to the columns that they bound, and the share at the end."""
        import pyarrow as pa

        columns, left = [], list(ends)
        for place in range(len(self._growth.columns)):
            columns.append(rows.column(place))
            if place in self._growth.shown:
                columns += [left.pop(0), left.pop(0)]
        columns.append(pa.array([share] * len(rows), pa.float64()))
        return pa.Table.from_arrays(columns, [f"c{place}" for place in range(len(columns))])

    def _around_sql(self) -> str:
        """The query around the sums, with the group of each row of sums that it shows."""
        growth = self._growth
        assert growth.around is not None
        query = parse_one(growth.around.text, read="duckdb")
        if growth.shown:
            assert isinstance(query, exp.Select)
            if isinstance(query.expressions[0], exp.Star):
                query.set("expressions", [exp.column(name, quoted=True) for name, _ in growth.own_columns])
            [alias] = {alias for _, alias in growth.shown.values()}
            group = exp.func("coalesce", exp.column(_GROUP, alias, quoted=True), exp.Literal.number(-1))
            query.set("expressions", [*query.expressions, group])
        return query.sql("duckdb")

    def _own_sql(self, scale: float | None) -> str:
        """The query of the sums themselves, with the number of the group of each row."""
        growth = self._growth
        estimates = [f"{self._estimate(place, term, scale)} AS e{place}, "
                     f"{self._estimate(place, term, scale if term.is_of_values else None)} AS u{place}"
                     for place, term in enumerate(growth.terms)]  # fmt: skip
        both = ", ".join(["totals.*", "estimated.*", *estimates])
        inner = f"SELECT {both} FROM totals JOIN estimated ON totals.rowid = estimated.g"
        columns = growth.own_columns or growth.columns
        estimated = {one.place for one in growth.figures}
        items = [f"({item})::{type_} AS {_quoted(name)}" if place in estimated else f"{item} AS {_quoted(name)}"
                 for place, (item, (name, type_)) in enumerate(zip(growth.items, columns, strict=True))]  # fmt: skip
        items += [f"g AS {_GROUP}"] if growth.shown else []
        return f"SELECT {', '.join(items)} FROM ({inner}) {growth.tail}"

    @staticmethod
    def _is_number(type_: str) -> bool:
        return type_.startswith(NUMBERS)

    def _estimate(self, place: int, term: Term, scale: float | None) -> str:
        if term.is_of_values:
            return f"d{place}"
        if term.z is not None:
            return spread_sql(term)
        if term.x is not None:
            return f"(t{term.y} / nullif(t{term.x}, 0))"
        found = f"coalesce(t{term.y}, 0)" if term.op == "count" else f"t{term.y}"
        if scale is None or term.op in ("min", "max"):
            return found
        return f"TRY_CAST({found}::DOUBLE * {scale!r} AS {self._types[f't{term.y}']})"


_WHOLE = "qoop_whole"
_GROUP = "qoop_group"


def spread_sql(term: Term) -> str:
    """A variance or deviation of the rows that were read, as an estimate of that of all rows; NULL where the difference
    of its sums is lost in their rounding."""
    q, n = f"t{term.y}", f"t{term.x}"
    spread = f"({q} - t{term.z}::DOUBLE ** 2 / {n})"
    rows = f"nullif({n} - 1, 0)" if term.op.endswith("samp") else n
    found = f"(CASE WHEN {n} > 0 AND {spread} > {q} * {n} * {LOST!r} THEN {spread} / {rows} END)"
    return f"sqrt{found}" if term.op.startswith("stddev") else found


NUMBERS = ("DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "BIGINT", "INTEGER", "SMALLINT", "TINYINT", "U")
"""The beginnings of the names of the types of numbers; UUIDs have no sums."""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
