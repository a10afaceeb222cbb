"""The plans of a random query, made as if the tables of its world were larger, for two slots or for a cluster."""

from __future__ import annotations

from planner_world import World

from qoop.planner.plan import Resources
from qoop.planner.planner import Planning
from qoop.planner.rules import apply_rules
from qoop.planner.search.alternatives import keep, pool
from qoop.planner.search.candidate import Candidate, cluster_grid, local_grid
from qoop.planner.sql.build import build

SCALES = (1e6, 1e4)
GRIDS = {"local": local_grid(Resources(2, 4e9)), "cluster": cluster_grid()}
MOST_PLANS = 24
"""Of one query; the kept ones are among the first."""


def candidates(world: World, text: str, grid: str) -> list[Candidate]:
    """Plans of a query, those that are kept first."""
    bound = world.binder.bind(text)
    relation = apply_rules(build(bound, world.binder.describe))
    splits = dict.fromkeys(world.tables, 64 if grid == "cluster" else 8)
    alternatives = keep(pool(Planning(bound, relation, world.stats, splits), GRIDS[grid]))
    rest = (one for one in alternatives.pool.candidates if one not in alternatives.kept)
    return [*alternatives.kept, *rest][:MOST_PLANS]
