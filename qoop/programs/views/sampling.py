"""New files of a view that are read in part: which row groups, and what is known of all rows from them.

The exact parts of a view stay exact. The row groups of the files that have no part yet are a population, of which a
digest of file and place chooses one in m. So the same ones are read again by a later refresh, whose samples add up.
Estimates and intervals are those of growing answers (`qoop.programs.approximate`), for a sum of an exact and an
estimated total. Each interval holds with the chance `CONFIDENCE`. A group that is not in the sample has no interval.
Where one is missing or too wide, nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from qoop.catalog.sources.pieces import PIECE_ROWS, Cut, row_groups, size_sql
from qoop.catalog.value import value
from qoop.programs.approximate.estimators import ratio, total
from qoop.programs.approximate.estimators.interim import Interim, Sizes
from qoop.programs.approximate.estimators.moments import Moments, PairMoments
from qoop.programs.approximate.growth import UNBOUNDED
from qoop.programs.approximate.intervals import Estimates, is_heavy, normal_ends, total_estimates
from qoop.programs.approximate.schedule import FIRST_GROUPS
from qoop.programs.approximate.totals import NUMBERS, Totals

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from qoop.catalog.table import Columns, Table
    from qoop.programs.approximate.growth import Figure, Growth
    from qoop.programs.parts import Part
    from qoop.query.statements.settings import Settings

CONFIDENCE = 0.95
"""The chance that an interval of an edition contains the exact value."""


@value
class LeafSample:
    """The row groups of a leaf, in order: their rows, and which are chosen."""

    cut: Cut
    chosen: tuple[int, ...]

    @classmethod
    def of(cls, leaf: Table, identities: Mapping[str, str], one_in: int) -> LeafSample | None:
        """One of `one_in` row groups of the files of a table; None: they have none. identities: by path."""
        cut = row_groups(leaf)
        if cut is None:
            return None
        names = [f"{identities[file.name]}:{piece}" for file in cut.files for piece in range(file.count)]
        return cls(cut, tuple(place for place, name in enumerate(names) if _number(name) % one_in == 0))

    @property
    def rows(self) -> tuple[int, ...]:
        """Of all row groups."""
        return self.cut.piece_rows

    @property
    def rows_read(self) -> int:
        """Of the chosen ones."""
        return sum(self.rows[place] for place in self.chosen)

    def table(self, name: str) -> Table:
        """The chosen ones, with their numbers."""
        return replace(self.cut.of(self.chosen), name=name)

    def text(self, round_sql: str) -> str:
        """The query of the sums over them."""
        return round_sql.replace(PIECE_ROWS, size_sql(self.rows))


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def why_never(growth: Growth, types: Columns) -> str:
    """The reason why sums have no intervals from a sample; empty: they may have them. types: of partial groups."""
    if growth.around is not None:
        return "a query around its sums reads these"
    if growth.chosen or growth.limited:
        return "its HAVING or LIMIT would choose groups by estimates"
    columns = growth.own_columns or growth.columns
    for figure in growth.figures:
        if figure.kind in UNBOUNDED or figure.kind not in ("total", "ratio", "rows"):
            return f"{columns[figure.place][0]} cannot be estimated from a sample"
    if not growth.figures:
        return "it has no sums, counts or averages"
    apart = [name for name, type_ in types if name[0] == "t" and (not type_.startswith(NUMBERS) or type_ == "UUID")]
    return f"{growth.measures[int(apart[0][1:])].sql} is no number" if apart else ""


@value
class Estimated:
    """rows: keys and estimated measures of the files that were read in part. error: the largest half-width of an
    interval over all files, relative to its estimate."""

    rows: pa.Table
    error: float


def interim_of(samples: Sequence[LeafSample]) -> Interim | None:
    """The analysis of several samples as one; None: they have too few row groups for any interval."""
    import numpy as np

    read = [sample.rows[place] for sample in samples for place in sample.chosen]
    pieces = sum(len(sample.rows) for sample in samples)
    if len(read) < FIRST_GROUPS or len(read) == pieces:
        return None
    whole = sum(sum(sample.rows) for sample in samples)
    return Interim(len(read), pieces, 1 - CONFIDENCE, Sizes(float(whole), Moments.of(np.array(read, float))))


def estimated(
    growth: Growth, interim: Interim, parts: Sequence[Part], exact: pa.Table, types: Columns, settings: Settings
) -> Estimated | None:
    """The estimates of all groups; None: some figure has no interval.

    parts: of the samples, by the query of a round. exact: the groups of the other files. types: of partial groups."""
    import numpy as np

    totals = Totals(growth, settings)
    try:
        for part in parts:
            totals.add(part.rows, part.columns)
        there = totals.others_by_group(exact, types)
        if there is None or not totals.groups:
            return None
        with np.errstate(all="ignore"):
            errors = [_errors(figure, totals, there, interim) for figure in growth.figures]
        worst = float(np.max(errors, initial=0.0))
        return Estimated(totals.scaled(interim.sizes.scale, types), worst) if np.isfinite(worst) else None
    finally:
        totals.close()


def _errors(figure: Figure, totals: Totals, there: Mapping[str, np.ndarray], interim: Interim) -> np.ndarray:
    """The relative half-widths of a figure, by group; NaN where there is no interval. there: the exact measures."""
    import numpy as np

    if figure.kind == "rows":
        return np.zeros(totals.groups)
    found = total_estimates(figure, totals, interim)
    whole = there[f"t{figure.y}"] + found.estimate
    if figure.kind == "ratio":
        assert figure.x is not None
        below = there[f"t{figure.x}"] + totals.moments(figure.x).sums * interim.sizes.scale
        found, whole = _ratio_estimates(figure.y, figure.x, whole / below, below, totals, interim), whole
    ends = normal_ends(found, interim)
    half = ends.high - ends.estimate
    return np.where(half == 0, 0.0, half / np.abs(whole))


def _ratio_estimates(y: int, x: int, r: np.ndarray, below: np.ndarray, totals: Totals, interim: Interim) -> Estimates:
    """Of the total of ``y - r x`` over the files that were read in part, by which the ratio of the whole totals errs
    times x (Cochran, Sampling Techniques, 1977, section 6.12, the combined ratio estimate, with an exact stratum).

    r: the ratio of the whole totals. below: the whole total of x. The margin for an unread stretch is as for y."""
    a, b, pair = totals.moments(y), totals.moments(x), totals.pair_moments(y, x)
    ya, xa = totals.size_moments(y), totals.size_moments(x)
    squares = a.squares - 2 * r * pair.yx + r**2 * b.squares
    cubes = a.cubes - 3 * r * pair.yyx + 3 * r**2 * pair.yxx - r**3 * b.cubes
    left = Moments(a.sums - r * b.sums, squares, cubes, a.peaks + abs(r) * b.peaks)
    sizes = interim.sizes.drawn
    mean = sizes.sums / interim.drawn
    both = PairMoments(ya.yx - r * xa.yx, squares * mean, ya.yxx - r * xa.yxx)
    error = total.standard_error(interim, left, both)
    steady = total.standard_error(interim, b, xa) < 0.1 * abs(below)
    around, skew = ratio.residual_cubes(left, sizes, both)
    heavy = is_heavy(a, interim) | is_heavy(b, interim)
    return Estimates(r * b.sums * interim.sizes.scale, error, around, skew, steady & (b.squares > 0), heavy)
