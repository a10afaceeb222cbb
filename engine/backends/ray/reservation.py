"""The reservation of nodes in Ray's own accounts, so that Ray gives them to no other job while sessions use them.

One placement group for each node holds its resources. It belongs to the actor that makes it, and ends with that actor.
The processes of the sessions are not within it, so that they survive its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qoop.engine.backends.ray.nodes import Node

_PRESENCE = 0.01
"""Of a CPU: what holds nothing is idle to Ray, which ends a node that is to leave once it is idle."""


class Reservation:
    """The resources that are reserved on each node."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, bool], Any] = {}  # by node, and whether the whole of it is reserved

    def keep(self, nodes: Iterable[Node], whole: bool) -> None:
        """Reserve these nodes and no others, as soon as they are free: all slots and memory, or next to nothing."""
        from ray.util import remove_placement_group

        needed = {(node.id, whole): node for node in nodes}
        for name in self._groups.keys() - needed.keys():
            remove_placement_group(self._groups.pop(name))
        for name, node in needed.items():
            if name not in self._groups:
                self._groups[name] = _reserved(node, whole)


def _reserved(node: Node, whole: bool) -> Any:
    from ray.util import placement_group

    available = {"CPU": float(node.slots), "memory": float(node.memory)} if whole else {"CPU": _PRESENCE}
    there = {"ray.io/node-id": node.id}  # a label that every node has; groups are moved off a node that is lost
    return placement_group([available], strategy="STRICT_PACK", bundle_label_selector=[there])
