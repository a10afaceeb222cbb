"""`qoop cluster`: the nodes of a Ray cluster and the sessions on them, on one screen.

The nodes are those that Ray knows; what sessions hold is known by the actor that divides the slots between them, and
what waits at a node, and what comes in there from others, by the agent there. Of a session without queues, which has
processes of its own, only what it holds is known.
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
    """A node. leaves: True: it was announced that it will be taken away. agent: it has one, for all sessions."""

    name: str
    host: str
    slots: int
    leaves: bool = False
    agent: bool = False


@value
class SessionStatus:
    """A session. wants: slots that it has a use for. used, given: slots by node. silent: seconds since it was heard.
    queued: tasks that wait at each node; coming, asked: answers of other nodes that come in there, and questions to
    them that wait for their turn."""

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
        """The session of a dictionary. Files and the arbiter name `granted` given, and `requested` asked."""
        return cls(**{_FIELDS.get(key, key): one for key, one in facts.items()})

    @property
    def waits(self) -> int:
        """Slots that it has a use for and does not have."""
        return max(0, round(self.wants) - sum(self.granted.values()))


@value
class ClusterStatus:
    """All of a cluster at one moment."""

    address: str
    nodes: tuple[NodeStatus, ...]
    sessions: tuple[SessionStatus, ...]

    @classmethod
    def of_json(cls, facts: Mapping[str, Any]) -> ClusterStatus:
        """The cluster that `--json` has written. Raises ConfigError."""
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

    A node has a mark for each slot: a capital one where a task of the session runs, a small one where it may begin one,
    a dot where nobody may; then, after a plus, the number of tasks that wait there, and after an arrow that of the
    answers that come in from other nodes.
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
    """The cluster as it is now. Raises ConfigError if there is none that answers."""
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
        raise ConfigError(f"the cluster at {address} does not say what its sessions hold: {error}") from error
    agents = _agents(ray, machines)
    nodes = tuple(
        NodeStatus(node.machine, node.host, node.slots, node.leaves_at is not None, node.machine in agents)
        for node in there.values()
    )
    return ClusterStatus(address, nodes, tuple(_with_queues(one, agents) for one in sessions))


@value
class _AgentStatus:
    """An agent. queued, coming, asked: by session, as in `SessionSeen`; nothing if it did not tell in time."""

    queued: Mapping[str, int] = field(default_factory=dict)
    coming: Mapping[str, int] = field(default_factory=dict)
    requested: Mapping[str, int] = field(default_factory=dict)


def _agents(ray: Any, machines: Mapping[str, str]) -> dict[str, _AgentStatus]:
    """The agents by machine, with what they tell within a second. machines: by node."""
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
    """The words of an agent, by the names that sessions have at the arbiter."""

    def by_session(counts: Mapping[str, int]) -> dict[str, int]:
        return {name.rpartition("-")[0]: count for name, count in counts.items() if count}

    coming, requested = ({name: pair[place] for name, pair in pulling.items()} for place in (0, 1))
    return _AgentStatus(by_session(waiting), by_session(coming), by_session(requested))


def _with_queues(session: Mapping[str, Any], agents: Mapping[str, _AgentStatus]) -> SessionStatus:
    """A session as the arbiter tells of it, with what agents know."""

    def by_machine(what: str) -> dict[str, int]:
        counts = {machine: getattr(agent, what).get(session["name"], 0) for machine, agent in agents.items()}
        return {machine: count for machine, count in counts.items() if count}

    queues = {name: by_machine(name) for name in ("queued", "coming", "requested")}
    return replace(SessionStatus.of_json(session), **queues)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("cluster", help=_WHAT, description=f"{_WHAT}.")
    parser.add_argument("address", metavar="ADDRESS", help='"host:port", "auto", or a file that --json has written')
    parser.add_argument("--json", metavar="FILE", help="write what is shown there")
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
