"""The nodes of a Ray cluster, as its control service tells them."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from qoop.catalog.errors import ConfigError, ExecutionError
from qoop.catalog.value import value
from qoop.engine.task import MachineId

_REACH = 10.0  # seconds that the head of a cluster may take to answer
_NAMED = 8  # characters of a node's id that name its machine


@value
class Node:
    """A node that lives. memory: bytes. leaves_at: when it will be taken away, seconds of `time.time`; 0: at some time
    unknown; None: no such thing was announced."""

    id: str
    host: str
    slots: int
    memory: int
    leaves_at: float | None = None

    @property
    def machine(self) -> MachineId:
        """Its name as a machine."""
        return machine_name(self.id)


def machine_name(node: str) -> MachineId:
    """The name that the node of this id has as a machine."""
    return f"node-{node[:_NAMED]}"


class Attachment:
    """A session's hold on the connection of this process to a Ray cluster (see `attach`). The last of those that a
    session has made ends it; one that was there before stays.
    """

    _lock = threading.Lock()
    _holders: ClassVar[set[Attachment] | None] = None  # of the connection; None: there is none that a session made

    def __init__(self, address: str, runtime_env: Mapping[str, Any] | None = None) -> None:
        with Attachment._lock:
            if attach(address, runtime_env):
                Attachment._holders = set()
            self._others = Attachment._holders  # of this connection: there may be another when this one leaves
            if self._others is not None:
                self._others.add(self)

    def leave(self) -> None:
        """The session needs it no more."""
        with Attachment._lock:
            if self._others is None or self not in self._others:
                return
            self._others.remove(self)
            if not self._others and self._others is Attachment._holders:
                Attachment._holders = None
                load().shutdown()
                _speak_again()


def attach(address: str, runtime_env: Mapping[str, Any] | None = None) -> bool:
    """Connect this process to a Ray cluster; True if that was not done before.

    address: "host:port" of its head, or "auto" for the one that runs here. runtime_env: as for ``ray.init``, except for
    wheels (see :func:`with_wheels`).
    Raises ConfigError if Ray is not installed, there is no such cluster, or this process is connected to another, or
    to this one without that environment.
    """
    ray = load()
    if address.startswith("ray://"):
        raise ConfigError(
            f"{address} goes through a Ray client, which cannot reach what nodes hold: run the session on a node of "
            "the cluster (such as by `ray job submit`), with ray='auto'"
        )
    if ray.is_initialized():
        connected = ray.get_runtime_context().gcs_address
        if address not in ("auto", connected):
            raise ConfigError(f"this process is connected to the Ray cluster at {connected}, not {address}")
        if runtime_env:
            raise ConfigError("this process is connected to the Ray cluster already: give runtime_env to ray.init")
        return False
    try:
        _reach(address)
        with with_wheels(runtime_env) as found:
            _check(found)
            ray.init(address, log_to_driver=False, configure_logging=False, runtime_env=found, namespace="qoop")
            _hush(ray._private.worker)  # `init` takes all handlers off its logger
    except (OSError, ValueError, RuntimeError, AssertionError) as error:
        where = "on this machine" if address == "auto" else f"at {address}"
        raise ConfigError(
            f"there is no Ray cluster {where} that answers (`ray start --head` begins one, `ray status` tells whether "
            f"one runs; a session must be on a node of it): {error}"
        ) from error
    return True


_hushed: list[Callable[[], None]] = []
"""Undoes what was done to have Ray silent."""


def _hush(printing: Any) -> None:
    """Keep Ray's lines about nodes that are gone out of the user's terminal, while a session is connected.

    Its logger has a handler that writes to the standard error, so that comes off: a process that configures logging
    gets what it tells. The last lines of logs it prints on the standard output, `log_to_driver` or not, and no public
    function can stop it: they go to its logger. printing: its module that does so.
    """
    if _hushed:
        return
    logger = logging.getLogger("ray")
    own = [handler for handler in logger.handlers if type(handler).__module__.startswith("ray.")]
    for handler in own:
        logger.removeHandler(handler)
        _hushed.append(partial(logger.addHandler, handler))
    _hushed.append(partial(setattr, logger, "propagate", logger.propagate))
    logger.propagate = True
    if not logger.handlers:  # Python writes warnings to the standard error where there is none at all
        silent = logging.NullHandler()
        logger.addHandler(silent)
        _hushed.append(partial(logger.removeHandler, silent))
    if hasattr(printing, "print_to_stdstream"):
        _hushed.append(partial(setattr, printing, "print_to_stdstream", printing.print_to_stdstream))
        printing.print_to_stdstream = _log


def _log(message: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    logging.getLogger("ray").warning("%s", "\n".join(message["lines"]))


def _speak_again() -> None:
    """The connection that a session made is over: the next one logs Ray as before."""
    while _hushed:
        _hushed.pop()()


def _check(runtime_env: Mapping[str, Any] | None) -> None:
    from ray.runtime_env import RuntimeEnv

    try:
        RuntimeEnv(**(runtime_env or {}))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"runtime_env is none that Ray can make: {error}") from error


def _reach(address: str) -> None:
    """Raise OSError unless something listens there, and ValueError if it is no address: Ray would end the process."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f'"{address}" is not "host:port"')
    socket.create_connection((host, int(port)), timeout=_REACH).close()


def load() -> Any:
    """The module ray. Raises ConfigError if it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise ConfigError("Ray is not installed: pip install 'qoop[ray]'") from error
    return ray


def host() -> str:
    """The address at which other nodes reach the node of this process."""
    return str(load().util.get_node_ip_address())


def be_as_urgent_as_the_node() -> None:
    """Have this process, which Ray began, take turns with others as Ray's own ones on the node do, if that is allowed.

    Ray gives its workers a niceness of 15, so that they get a thirtieth of a processor that anything else wants: while
    a node begins on the same host, or a session is at work there, tasks would all but stand still.
    """
    with contextlib.suppress(OSError):
        niceness = os.getpriority(os.PRIO_PROCESS, os.getppid())
        for thread in os.listdir("/proc/self/task"):  # on Linux each has its own; those to come take their maker's
            os.setpriority(os.PRIO_PROCESS, int(thread), niceness)


class ControlAway(ExecutionError):
    """The control service of a Ray cluster does not answer just now."""


def living() -> dict[str, Node]:
    """The nodes that live and have a CPU to give, by id.

    Raises ControlAway if that is unknown now, ExecutionError if this process has left the cluster."""
    ray = load()
    if not ray.is_initialized():
        raise ExecutionError("this process has left the Ray cluster")
    leaving: Mapping[str, int]
    try:
        leaving = ray._private.state.state.get_draining_nodes()  # no public function tells these
        nodes = ray.nodes()
    except (ray.exceptions.RayError, RuntimeError) as error:  # the latter where the service cannot be reached in time
        raise ControlAway(str(error)) from error
    found = {}
    for facts in nodes:
        slots = int(facts["Resources"].get("CPU", 0))
        if facts["Alive"] and slots >= 1:
            deadline = leaving.get(facts["NodeID"])
            found[facts["NodeID"]] = Node(
                facts["NodeID"],
                facts["NodeManagerHostname"],
                slots,
                int(facts["Resources"].get("memory", 0)),
                None if deadline is None else deadline / 1000,
            )
    return found


def seconds_left(node: Node) -> float:
    """Until it is taken away, if that was announced; as far as is known it may be at once."""
    return max(0.0, (node.leaves_at or 0.0) - time.time())


# Wheels in the environment of the processes are unpacked here, where the session runs.
#
# Ray would have pip install a wheel on every node with all that it depends on, which needs an index of packages and may
# bring other versions of DuckDB than the session has. A wheel without compiled parts is a folder that only has to be on
# the path, and as such Ray hands it to the nodes itself.

_PURE = "-none-any.whl"


@contextmanager
def with_wheels(runtime_env: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any] | None]:
    """The environment, with what is in the pure wheels among its `py_modules` in place of these.

    The folders are gone afterwards; `ray.init` has uploaded them by then. Raises ConfigError for a wheel that cannot be
    read.
    """
    modules = list((runtime_env or {}).get("py_modules") or ())
    if not any(map(_is_pure_wheel, modules)):
        yield runtime_env
        return
    with TemporaryDirectory(prefix="qoop-wheels-") as folder:
        found: list[object] = []
        for number, module in enumerate(modules):
            found += _unpacked(module, Path(folder) / str(number)) if _is_pure_wheel(module) else [module]
        yield {**(runtime_env or {}), "py_modules": found}


def _is_pure_wheel(module: object) -> bool:
    return isinstance(module, str | PathLike) and fspath(module).endswith(_PURE) and "://" not in fspath(module)


def _unpacked(wheel: str | PathLike[str], folder: Path) -> list[str]:
    try:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(folder)
    except (OSError, zipfile.BadZipFile) as error:
        raise ConfigError(f"the wheel {fspath(wheel)} cannot be read: {error}") from error
    return [str(path) for path in sorted(folder.iterdir())]
