"""`qoop cluster`: the nodes of a Ray cluster and the sessions on them, on one screen.

Ray reports the nodes. The arbiter, the actor that divides the slots between sessions, reports their slots. The agent of
a node reports its queued tasks and its transfers from other nodes; a session without agents has no such report.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from shutil import get_terminal_size
from string import ascii_uppercase
from textwrap import wrap
from typing import Any

from qoop.catalog.errors import ConfigError
from qoop.catalog.value import value

_WHAT = "Show the nodes of a Ray cluster, and the sessions that use them"
_FREE, _GAP = "·", 2
_FIELDS = {"given": "granted", "asked": "requested"}
"""Fields of `SessionStatus` by the keys that files have for them."""


@value
class NodeStatus:
    """A node. leaves: its removal was announced. agent: it has an agent, which all sessions share."""

    name: str
    host: str
    slots: int
    leaves: bool = False
    agent: bool = False


@value
class SessionStatus:
    """A session. wants: its demand of slots. used, granted: slots by node. silent: seconds since its last report.
    queued: tasks that wait at each node. coming, requested: transfers to each node that run, and that wait to start."""

    name: str
    tenant: str
    wants: float
    used: Mapping[str, int]
    granted: Mapping[str, int]
    silent: float = 0.0
    queued: Mapping[str, int] = field(default_factory=dict)
    coming: Mapping[str, int] = field(default_factory=dict)
    requested: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_json(cls, facts: Mapping[str, Any]) -> SessionStatus:
        """The session of a dictionary, with the keys of a file or of the arbiter."""
        return cls(**{_FIELDS.get(key, key): one for key, one in facts.items()})

    @property
    def waits(self) -> int:
        """Demanded slots that were not granted."""
        return max(0, round(self.wants) - sum(self.granted.values()))


@value
class ClusterStatus:
    """A cluster at one time: its nodes and its sessions."""

    address: str
    nodes: tuple[NodeStatus, ...]
    sessions: tuple[SessionStatus, ...]

    @classmethod
    def of_json(cls, facts: Mapping[str, Any]) -> ClusterStatus:
        """The cluster of a file that `--json` wrote. Raises ConfigError."""
        try:
            nodes = tuple(NodeStatus(**one) for one in facts["nodes"])
            return cls(facts["address"], nodes, tuple(map(SessionStatus.of_json, facts["sessions"])))
        except (KeyError, TypeError) as error:
            raise ConfigError(f"this is no cluster that `qoop cluster --json` has written: {error!r}") from error

    def to_json(self) -> dict[str, Any]:
        """The same, for programs."""
        nodes = [
            {"name": one.name, "host": one.host, "slots": one.slots, "leaves": one.leaves, "agent": one.agent}
            for one in self.nodes
        ]
        sessions = [
            {
                "name": one.name, "tenant": one.tenant, "wants": one.wants, "used": dict(one.used),
                "given": dict(one.granted), "silent": one.silent, "queued": dict(one.queued),
                "coming": dict(one.coming), "asked": dict(one.requested),
            }
            for one in self.sessions
        ]  # fmt: skip
        return {"address": self.address, "nodes": nodes, "sessions": sessions}


def drawn(cluster: ClusterStatus, width: int = 80) -> str:
    """The screen: a line for each session, then the nodes in columns.

    A node has a mark for each slot: an upper-case one if its session runs a task there, a lower-case one if it may
    start one, and a dot if the slot is not granted. After a plus stands the number of queued tasks, and after an arrow
    that of the transfers from other nodes.
    """
    slots = sum(node.slots for node in cluster.nodes)
    busy = sum(sum(one.used.values()) for one in cluster.sessions)
    with_agents = f" ({count} with agents)" if (count := sum(node.agent for node in cluster.nodes)) else ""
    lines = [f"{cluster.address}: {len(cluster.nodes)} nodes{with_agents}, {busy} of {slots} slots busy"]
    marks = [ascii_uppercase[number % len(ascii_uppercase)] for number in range(len(cluster.sessions))]
    for mark, one in zip(marks, cluster.sessions, strict=True):
        lines += wrap(f"{mark}  {_session(one)}", width, initial_indent="  ", subsequent_indent="     ")
    cells = [_node(node, cluster.sessions, marks) for node in cluster.nodes]
    return "\n".join(lines + _in_columns(cells, width))


def _session(one: SessionStatus) -> str:
    text = f"{one.name[:8]} {one.tenant}".rstrip()
    text += f": {sum(one.used.values())} slots busy, {sum(one.granted.values())} granted, {one.waits} waited for"
    text += f", {count} queued" if (count := sum(one.queued.values())) else ""
    coming, requested = sum(one.coming.values()), sum(one.requested.values())
    text += f", {coming} of {coming + requested} pulls under way" if coming + requested else ""
    return text + (f", silent for {one.silent:.0f} s" if one.silent >= 1 else "")


def _node(node: NodeStatus, sessions: Sequence[SessionStatus], marks: Sequence[str]) -> str:
    busy = "".join(mark * one.used.get(node.name, 0) for mark, one in zip(marks, sessions, strict=True))
    idle = "".join(
        mark.lower() * max(0, one.granted.get(node.name, 0) - one.used.get(node.name, 0))
        for mark, one in zip(marks, sessions, strict=True)
    )
    text = (busy + idle)[: node.slots].ljust(node.slots, _FREE)
    queued = sum(one.queued.get(node.name, 0) for one in sessions)
    coming = sum(one.coming.get(node.name, 0) for one in sessions)
    marked = f"{node.name} {text}{f' +{queued}' if queued else ''}{f' ↓{coming}' if coming else ''}"
    return f"{marked}{' leaves' if node.leaves else ''}"


def _in_columns(cells: Sequence[str], width: int) -> list[str]:
    if not cells:
        return []
    wide = max(map(len, cells)) + _GAP
    columns = max(1, width // wide)
    rows = -(-len(cells) // columns)
    return ["".join(cell.ljust(wide) for cell in cells[row::rows]).rstrip() for row in range(rows)]


def cluster_status(address: str) -> ClusterStatus:
    """The current state of a cluster. Raises ConfigError if none answers."""
    from qoop.adaptive.cluster.arbiter import NAME, NAMESPACE
    from qoop.engine.backends.ray.nodes import attach, living, load

    attach(address)
    ray, there = load(), living()
    machines = {id_: node.machine for id_, node in there.items()}
    try:
        sessions = ray.get(ray.get_actor(NAME, namespace=NAMESPACE).sessions.remote(), timeout=5.0)
    except ValueError:  # there is none while there is no session
        sessions = []
    except ray.exceptions.RayError as error:
        raise ConfigError(f"the cluster at {address} does not report its sessions: {error}") from error
    agents = _agents(ray, machines)
    nodes = tuple(
        NodeStatus(node.machine, node.host, node.slots, node.leaves_at is not None, node.machine in agents)
        for node in there.values()
    )
    return ClusterStatus(address, nodes, tuple(_with_queues(one, agents) for one in sessions))


@value
class _AgentStatus:
    """An agent. queued, coming, requested: by session, as in `SessionStatus`; empty if it did not reply in time."""

    queued: Mapping[str, int] = field(default_factory=dict)
    coming: Mapping[str, int] = field(default_factory=dict)
    requested: Mapping[str, int] = field(default_factory=dict)


def _agents(ray: Any, machines: Mapping[str, str]) -> dict[str, _AgentStatus]:
    """The agents by machine, with their replies within a second. machines: by node."""
    from qoop.engine.backends.ray.agent import agents

    found = dict[str, _AgentStatus]()
    requests = {}
    for node, agent in agents(ray):
        if node in machines:
            found[machines[node]] = _AgentStatus()
            requests[machines[node]] = agent.waiting.remote(), agent.pulling.remote()
    answers = [answer for pair in requests.values() for answer in pair]
    ready = set(ray.wait(answers, num_returns=len(answers), timeout=1.0)[0]) if answers else set()
    for machine, (waiting, pulling) in requests.items():
        if {waiting, pulling} <= ready:
            with contextlib.suppress(ray.exceptions.RayError):
                found[machine] = _agent_status(*ray.get([waiting, pulling]))
    return found


def _agent_status(waiting: Mapping[str, int], pulling: Mapping[str, tuple[int, int]]) -> _AgentStatus:
    """The reply of an agent, by the names that sessions have at the arbiter."""

    def by_session(counts: Mapping[str, int]) -> dict[str, int]:
        return {name.rpartition("-")[0]: count for name, count in counts.items() if count}

    coming, requested = ({name: pair[place] for name, pair in pulling.items()} for place in (0, 1))
    return _AgentStatus(by_session(waiting), by_session(coming), by_session(requested))


def _with_queues(session: Mapping[str, Any], agents: Mapping[str, _AgentStatus]) -> SessionStatus:
    """A session of the arbiter, with the queues of all agents."""

    def by_machine(what: str) -> dict[str, int]:
        counts = {machine: getattr(agent, what).get(session["name"], 0) for machine, agent in agents.items()}
        return {machine: count for machine, count in counts.items() if count}

    queued, coming, requested = map(by_machine, ("queued", "coming", "requested"))
    return replace(SessionStatus.of_json(session), queued=queued, coming=coming, requested=requested)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("cluster", help=_WHAT, description=f"{_WHAT}.")
    parser.add_argument("address", metavar="ADDRESS", help='"host:port", "auto", or a file that --json has written')
    parser.add_argument("--json", metavar="FILE", help="write the same facts there")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.address.endswith(".json"):
        try:
            cluster = ClusterStatus.of_json(json.loads(Path(options.address).read_text()))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{options.address} cannot be read: {error}") from error
    else:
        cluster = cluster_status(options.address)
    print(drawn(cluster, get_terminal_size().columns))
    if options.json:
        Path(options.json).write_text(json.dumps(cluster.to_json(), indent=1) + "\n")
    return 0
