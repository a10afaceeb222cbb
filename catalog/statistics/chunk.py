"""The facts about one column in one piece of a table that the footer of a file holds."""

from __future__ import annotations

from qoop.catalog.statistics.stats import Scalar
from qoop.catalog.value import value


@value
class Chunk:
    """A column in one piece (a row group of a Parquet file).

    rows: of the piece. nulls: of them NULL; None: not said.
    minimum, maximum: smallest and largest value, None if not said; of a long text perhaps its beginning.
    distinct: distinct values, as a dictionary tells; None: not said. width: mean bytes of a value; None: not said.
    numbers: some of the distinct values, chosen by what they are, where two chunks were looked into.
    """

    rows: int
    nulls: int | None = None
    minimum: Scalar | None = None
    maximum: Scalar | None = None
    distinct: float | None = None
    width: float | None = None
    numbers: frozenset[int] | None = None
