"""The values seen of figures that do not add up: of distinct counts, and of quantiles.

A round gives of such a measure, for each group, the values of each of its pieces. They are kept by piece, so that it is
known which values one piece alone has, and how rows up to a value are spread over pieces.
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
    SELECT g, p, sum(seen) AS seen, sum(own) AS own, sum(shared) AS shared FROM (
      SELECT g, a AS p, 1 AS seen, (n = 1)::INTEGER AS own, (n = 2)::INTEGER AS shared FROM y
      UNION ALL SELECT g, b, 0, 0, 1 FROM y WHERE n = 2) GROUP BY g, p"""
)


def incidence(connection: duckdb.DuckDBPyConnection, measure: int, groups: int) -> Incidence:
    """Of the values of a measure."""
    found = connection.execute(_INCIDENCE.format(measure=measure)).fetchnumpy()
    return incidence_of(groups, found["g"], *(found[name].astype(float) for name in ("seen", "own", "shared")))


def incidence_of(groups: int, group: np.ndarray, seen: np.ndarray, own: np.ndarray, shared: np.ndarray) -> Incidence:
    """From numbers of values by group and piece: some of all that were seen, each once; own and shared values."""
    import numpy as np

    from qoop.programs.approximate.estimators.moments import Moments, PairMoments

    def added(weights: np.ndarray) -> np.ndarray:
        return np.bincount(group, weights, groups)

    def moments(x: np.ndarray) -> Moments:
        peaks = np.zeros(groups)
        np.maximum.at(peaks, group, x)
        return Moments(added(x), added(x**2), added(x**3), peaks)

    both = PairMoments(added(own * shared), added(own**2 * shared), added(own * shared**2))
    return Incidence(added(seen), added(own), moments(own), moments(shared), both)


def sample(connection: duckdb.DuckDBPyConnection, measure: int, groups: int) -> Sample:
    """The values of a measure."""
    text = f"SELECT g, p, x::DOUBLE AS x FROM ({_UNNESTED.format(measure=measure)}) WHERE x IS NOT NULL"
    found = connection.execute(text).fetchnumpy()
    return Sample.of(groups, found["g"], found["p"], found["x"])
