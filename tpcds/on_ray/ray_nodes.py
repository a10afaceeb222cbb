"""A Ray cluster of several nodes on this machine, whose nodes come and go on demand: for tests and benchmarks.

Ray forks to begin a node, which may hang in a process of many threads such as that of a session. So this runs in one of
its own, ``python -m qoop.tpcds.on_ray.ray_nodes``, that obeys a JSON line at a time and answers with another. When its
input ends, as it does when its owner dies, it ends the cluster with all processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.tpcds.control_groups import ControlGroup

if TYPE_CHECKING:
    from qoop.session.session import Session

_OBJECTS = 80 << 20  # bytes of a node's object store, which holds no rows of ours
_WAIT = 60.0
_PERIOD = 20_000
"""Microseconds after which a node may run again: far less than it may take to say that it lives."""
_SOON = {"health_check_failure_threshold": 3, "health_check_period_ms": 500, "health_check_timeout_ms": 500}


class LocalNodes:
    """A cluster on which a session can be opened at `address`. Use as a context manager.

    head_cpus: of the head. memory: bytes that each node says it has. processors: that all processes of a node share,
    whatever it says it has (`control_groups`); None: as many as there are. Raises ConfigError if Ray is not installed.
    """

    def __init__(self, head_cpus: int = 0, memory: int = 2 << 30, processors: float | None = None) -> None:
        from qoop.engine.backends.ray.nodes import load

        load()
        command = [sys.executable, "-m", "qoop.tpcds.on_ray.ray_nodes"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._memory = memory
        self._processors = processors
        self.there: list[str] = []
        """Ids of the nodes, those besides the head, the oldest first."""
        self.address: str = self._ask("begin", cpus=head_cpus, memory=memory)

    def add(self, cpus: int = 1, count: int = 1) -> str:
        """Begin nodes, all at once; the id of the last. A session hears of them a little later; before the first is
        there none can be opened.

        Raises ConfigError where a node cannot be given a part of a processor."""
        size = {"cpus": cpus, "memory": self._memory, "processors": self._processors}
        self.there += self._ask("add", **size, count=count, wait=not self.there)
        return self.there[-1]

    def kill(self, node: str) -> None:
        """Take a node away with all its processes, as a machine goes that loses its power."""
        self.there.remove(node)
        self._ask("kill", node=node)

    def be(self, count: int) -> None:
        """Have `count` nodes of one CPU; the oldest go first."""
        while len(self.there) > count:
            self.kill(self.there[0])
        if len(self.there) < count:
            self.add(count=count - len(self.there))

    def close(self) -> None:
        """End all processes. Leaves Ray, if this process is connected to it."""
        from qoop.engine.backends.ray.nodes import load

        load().shutdown()
        self._process.communicate()

    def __enter__(self) -> LocalNodes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, what: str, **arguments: object) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps({"what": what, **arguments}), file=self._process.stdin, flush=True)
        while line := self._process.stdout.readline():
            if line.startswith("{"):
                reply = json.loads(line)
                if reply["wrong"] is not None:
                    raise ConfigError(reply["wrong"])
                return reply["answer"]
        raise ExecutionError("the Ray cluster on this machine has ended")


def wait_for_nodes(session: Session, nodes: LocalNodes, count: int) -> None:
    """Have `count` nodes, and wait until the session has them. Raises ExecutionError."""
    nodes.be(count)
    deadline = time.monotonic() + _WAIT
    while session.available.cpu != count:
        if time.monotonic() > deadline:
            raise ExecutionError(f"there are {session.available.cpu:g} nodes instead of {count}")
        time.sleep(0.05)


def _serve() -> None:
    from ray.cluster_utils import Cluster

    cluster: Any = Cluster()
    nodes: dict[str, _Begun] = {}
    try:
        for line in sys.stdin:
            reply: dict[str, Any] = {"answer": None, "wrong": None}
            try:
                reply["answer"] = _obey(cluster, nodes, json.loads(line))
            except ConfigError as error:
                reply["wrong"] = str(error)
            print(json.dumps(reply), flush=True)
    finally:
        cluster.shutdown()
        for one in nodes.values():
            with contextlib.suppress(ConfigError):  # the others are to be put away as well
                one.put_away()


@dataclass(frozen=True)
class _Begun:
    """A node of this process's cluster. quota: of its processes, if they have one."""

    node: Any
    quota: ControlGroup | None

    def put_away(self) -> None:
        """Its processes are dead."""
        if self.quota is not None:
            self.quota.close()


def _obey(cluster: Any, nodes: dict[str, _Begun], request: Mapping[str, Any]) -> Any:
    match request["what"]:
        case "begin":
            cluster.add_node(**_size(request), include_dashboard=False, _system_config=_SOON)
            return str(cluster.address)
        case "add":
            begun = _begin(cluster, request)
            nodes.update({one.node.node_id: one for one in begun})
            return [str(one.node.node_id) for one in begun]
        case "kill":
            gone = nodes.pop(request["node"])
            cluster.remove_node(gone.node, allow_graceful=False)
            gone.put_away()
            return None
    raise ConfigError(f"there is nothing called {request['what']}")


def _begin(cluster: Any, request: Mapping[str, Any]) -> list[_Begun]:
    processors, numbers = request["processors"], range(request["count"])
    if processors is None:
        nodes = [cluster.add_node(wait=request["wait"] and number == 0, **_size(request)) for number in numbers]
        return [_Begun(node, None) for node in nodes]
    with contextlib.ExitStack() as undo:
        quotas = [_quota(processors) for _ in numbers]
        for quota in quotas:
            undo.callback(quota.close)
        begun = [_Begun(cluster.add_node(wait=False, **_size(request)), quota) for quota in quotas]
        cluster.wait_for_nodes()  # then Ray's own agents there have begun
        for one, quota in zip(begun, quotas, strict=True):
            quota.take(one.node.all_processes["raylet"][0].process.pid)  # all others of the node are below it
        undo.pop_all()
    return begun


def _quota(processors: float) -> ControlGroup:
    """A group whose processes have that many processors together. Raises ConfigError."""
    if not 0 < processors <= (os.cpu_count() or 1):
        raise ConfigError(f"a node can have up to {os.cpu_count()} processors, not {processors:g}")
    group = ControlGroup(f"qoop-{os.getpid()}-{time.monotonic_ns()}", ["cpu"])
    try:
        group.limit_cpus(processors, _PERIOD)
    except OSError as error:
        group.close()
        raise ConfigError(f"a node cannot have a part of a processor here: {error}") from error
    return group


def _size(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"num_cpus": request["cpus"], "memory": request["memory"], "object_store_memory": _OBJECTS}


if __name__ == "__main__":
    _serve()
