"""An order of joins drawn by chance, without cross products that the query does not ask for: for experiments.

What a plan suffers from a bad order tells how much it leans on estimates ("Debunking the Myth of Join Ordering", SIGMOD
2025, compares the slowest with the fastest of such orders).
"""

from __future__ import annotations

from hashlib import blake2b

from qoop.planner.estimate.cost import CostModel
from qoop.planner.join_order.enumerate import Search, adjacent, cross
from qoop.planner.join_order.graph import JoinGraph, Mask, bits


def shuffled(graph: JoinGraph, model: CostModel, seed: int) -> Search | None:
    """An order for all leaves, the same for the same seed; None if it led to where no two sets can be joined.

    The smaller side of each join is the build side, as ever.
    """
    found, tops = Search(graph, model), list[Mask]()
    for component in graph.components():
        sets = list(bits(component))
        while len(sets) > 1:
            joined = _next(found, sets, seed)
            if joined is None:
                return None
            sets = [one for one in sets if not one & joined] + [joined]
        tops.append(component)
    cross(found, tops)
    return found


def _next(found: Search, sets: list[Mask], seed: int) -> Mask | None:
    pairs = [(a, b) for i, a in enumerate(sets) for b in sets[i + 1 :] if adjacent(a, b, found.graph)]
    for a, b in sorted(pairs, key=lambda pair: blake2b(f"{seed} {pair}".encode(), digest_size=8).digest()):
        step = found.consider(a, b)
        if step is not None:
            found.offer(a | b, step)
            return a | b
    return None
