"""`qoop cluster`: the nodes of a Ray cluster and the sessions on them, on one screen.

The nodes are those that Ray knows; what sessions hold is known by the actor that divides the slots between them, and
what waits at a node by the agent there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from shutil import get_terminal_size
from string import ascii_uppercase
from typing import Any

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

_WHAT = "Show the nodes of a Ray cluster, and the sessions that use them"
_FREE, _GAP = "·", 2


@value
class NodeSeen:
    """A node. leaves: True: it was announced that it will be taken away."""

    name: str
    host: str
    slots: int
    leaves: bool = False


@value
class SessionSeen:
    """A session. wants: slots that it has a use for. used, given: slots by node. silent: seconds since it was heard.
    queued: tasks that wait at each node."""

    name: str
    tenant: str
    wants: float
    used: Mapping[str, int]
    given: Mapping[str, int]
    silent: float = 0.0
    queued: Mapping[str, int] = field(default_factory=dict)

    @property
    def waits(self) -> int:
        """Slots that it has a use for and does not have."""
        return max(0, round(self.wants) - sum(self.given.values()))


@value
class ClusterSeen:
    """All of a cluster at one moment."""

    address: str
    nodes: tuple[NodeSeen, ...]
    sessions: tuple[SessionSeen, ...]

    @classmethod
    def of_json(cls, facts: Mapping[str, Any]) -> ClusterSeen:
        """The cluster that `--json` has written. Raises ConfigError."""
        try:
            nodes = tuple(NodeSeen(**one) for one in facts["nodes"])
            return cls(facts["address"], nodes, tuple(SessionSeen(**one) for one in facts["sessions"]))
        except (KeyError, TypeError) as error:
            raise ConfigError(f"this is no cluster that `qoop cluster --json` has written: {error!r}") from error

    def to_json(self) -> dict[str, Any]:
        """The same, for programs."""
        nodes = [{"name": one.name, "host": one.host, "slots": one.slots, "leaves": one.leaves} for one in self.nodes]
        sessions = [
            {
                "name": one.name, "tenant": one.tenant, "wants": one.wants, "used": dict(one.used),
                "given": dict(one.given), "silent": one.silent,
                "queued": dict(one.queued),
            }
            for one in self.sessions
        ]  # fmt: skip
        return {"address": self.address, "nodes": nodes, "sessions": sessions}


def drawn(cluster: ClusterSeen, width: int = 80) -> str:
    """The screen: a line for each session, then the nodes in columns.

    A node has a mark for each slot: a capital one where a task of the session runs, a small one where it may begin one,
    a dot where nobody may; then, after a plus, the number of tasks that wait there.
    """
    slots = sum(node.slots for node in cluster.nodes)
    busy = sum(sum(one.used.values()) for one in cluster.sessions)
    lines = [f"{cluster.address}: {len(cluster.nodes)} nodes, {busy} of {slots} slots busy"]
    marks = [ascii_uppercase[number % len(ascii_uppercase)] for number in range(len(cluster.sessions))]
    for mark, one in zip(marks, cluster.sessions, strict=True):
        lines.append(f"  {mark}  {_session(one)}"[:width])
    cells = [_node(node, cluster.sessions, marks) for node in cluster.nodes]
    return "\n".join(lines + _in_columns(cells, width))


def _session(one: SessionSeen) -> str:
    text = f"{one.name[:8]} {one.tenant}".rstrip()
    text += f": {sum(one.used.values())} slots busy, {sum(one.given.values())} given, {one.waits} waited for"
    text += f", {count} queued" if (count := sum(one.queued.values())) else ""
    return text + (f", silent for {one.silent:.0f} s" if one.silent >= 1 else "")


def _node(node: NodeSeen, sessions: Sequence[SessionSeen], marks: Sequence[str]) -> str:
    busy = "".join(mark * one.used.get(node.name, 0) for mark, one in zip(marks, sessions, strict=True))
    idle = "".join(
        mark.lower() * max(0, one.given.get(node.name, 0) - one.used.get(node.name, 0))
        for mark, one in zip(marks, sessions, strict=True)
    )
    text = (busy + idle)[: node.slots].ljust(node.slots, _FREE)
    queued = sum(one.queued.get(node.name, 0) for one in sessions)
    return f"{node.name} {text}{f' +{queued}' if queued else ''}{' leaves' if node.leaves else ''}"


def _in_columns(cells: Sequence[str], width: int) -> list[str]:
    if not cells:
        return []
    wide = max(map(len, cells)) + _GAP
    columns = max(1, width // wide)
    rows = -(-len(cells) // columns)
    return ["".join(cell.ljust(wide) for cell in cells[row::rows]).rstrip() for row in range(rows)]


def seen(address: str) -> ClusterSeen:
    """The cluster as it is now. Raises ConfigError if there is none that answers."""
    from qoop.control.arbiter import NAME, NAMESPACE
    from qoop.engine.backends.ray.nodes import attach, living, load

    attach(address)
    ray, there = load(), living()
    nodes = tuple(NodeSeen(node.machine, node.host, node.slots, node.leaves_at is not None) for node in there.values())
    try:
        told = ray.get(ray.get_actor(NAME, namespace=NAMESPACE).sessions.remote(), timeout=5.0)
    except ValueError:  # there is none while there is no session
        told = []
    except ray.exceptions.RayError as error:
        raise ConfigError(f"the cluster at {address} does not say what its sessions hold: {error}") from error
    queued = _queued(ray, {id_: node.machine for id_, node in there.items()})
    return ClusterSeen(address, nodes, tuple(SessionSeen(**one, queued=queued.get(one["name"], {})) for one in told))


def _queued(ray: Any, machines: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """The tasks that wait, by session and machine, as far as agents tell within a second."""
    from qoop.engine.backends.ray.agent import agents

    asked = {agent.waiting.remote(): machines[node] for node, agent in agents(ray) if node in machines}
    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=1.0) if asked else ([], [])
    found = dict[str, dict[str, int]]()
    for answer in ready:
        with contextlib.suppress(ray.exceptions.RayError):
            for name, count in ray.get(answer).items():
                if count:
                    found.setdefault(name.rpartition("-")[0], {})[asked[answer]] = count
    return found


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("cluster", help=_WHAT, description=f"{_WHAT}.")
    parser.add_argument("address", metavar="ADDRESS", help='"host:port", "auto", or a file that --json has written')
    parser.add_argument("--json", metavar="FILE", help="write what is shown there")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.address.endswith(".json"):
        try:
            cluster = ClusterSeen.of_json(json.loads(Path(options.address).read_text()))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{options.address} cannot be read: {error}") from error
    else:
        cluster = seen(options.address)
    print(drawn(cluster, get_terminal_size().columns))
    if options.json:
        Path(options.json).write_text(json.dumps(cluster.to_json(), indent=1) + "\n")
    return 0
