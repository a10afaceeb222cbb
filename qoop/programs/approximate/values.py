"""Observed values of figures that do not add up: distinct counts and quantiles.

For such a measure a round returns the values of each piece, for each group. They stay separate by piece. Estimators
need the values that only one piece has, and the spread of rows up to a value over pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoop.programs.approximate.estimators.distinct import Incidence
from qoop.programs.approximate.estimators.order import Sample

if TYPE_CHECKING:
    import duckdb
    import numpy as np

_UNNESTED = """
    SELECT g, s.p AS p, unnest(s.v) AS x FROM (SELECT rowid AS g, unnest(v{measure}) AS s FROM totals)"""

_INCIDENCE = (
    """
    WITH x AS ("""
    + _UNNESTED
    + """),
    y AS (SELECT g, x, count(*) AS n, min(p) AS a, max(p) AS b FROM x GROUP BY g, x)
    SELECT g, p, sum(observed) AS observed, sum(own) AS own, sum(shared) AS shared FROM (
      SELECT g, a AS p, 1 AS observed, (n = 1)::INTEGER AS own, (n = 2)::INTEGER AS shared FROM y
      UNION ALL SELECT g, b, 0, 0, 1 FROM y WHERE n = 2) GROUP BY g, p"""
)


def incidence(connection: duckdb.DuckDBPyConnection, measure: int, groups: int) -> Incidence:
    """The incidence of the values of a measure."""
    found = connection.execute(_INCIDENCE.format(measure=measure)).fetchnumpy()
    return incidence_of(groups, found["g"], *(found[name].astype(float) for name in ("observed", "own", "shared")))


def incidence_of(
    groups: int, group: np.ndarray, observed: np.ndarray, own: np.ndarray, shared: np.ndarray
) -> Incidence:
    """The incidence from numbers of values by group and piece: observed, each value once; own; shared."""
    import numpy as np

    from qoop.programs.approximate.estimators.moments import Moments, PairMoments

    def added(weights: np.ndarray) -> np.ndarray:
        return np.bincount(group, weights, groups)

    def moments(x: np.ndarray) -> Moments:
        peaks = np.zeros(groups)
        np.maximum.at(peaks, group, x)
        return Moments(added(x), added(x**2), added(x**3), peaks)

    both = PairMoments(added(own * shared), added(own**2 * shared), added(own * shared**2))
    return Incidence(added(observed), added(own), moments(own), moments(shared), both)


def sample(connection: duckdb.DuckDBPyConnection, measure: int, groups: int) -> Sample:
    """The values of a measure."""
    text = f"SELECT g, p, x::DOUBLE AS x FROM ({_UNNESTED.format(measure=measure)}) WHERE x IS NOT NULL"
    found = connection.execute(text).fetchnumpy()
    return Sample.of(groups, found["g"], found["p"], found["x"])
