"""Orders and events as JSON, for the connection between a session and a node (`connection`).

What is frequent is written here. What JSON cannot hold, such as tables that are new to a node, functions and errors, is
left to Ray: no code of ours reads a pickle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from qoop.catalog.errors import PlanError
from qoop.catalog.written.codec import Codec
from qoop.engine.backends.ray.orders import NO_STAGE, Allow, Begin, Change, Drop, End, Order, Promote
from qoop.engine.backends.ray.peers import Place
from qoop.engine.digest import Digest, digest_from_json, digest_to_json
from qoop.engine.events import (
    Begun,
    CallsObserved,
    CheckpointLost,
    CheckpointSaved,
    Event,
    Queued,
    TaskRegranted,
    TaskStopped,
    TaskSucceeded,
    WorkObserved,
)
from qoop.engine.node_queues.ticket import Ticket
from qoop.engine.task import AttemptId, CheckpointKey, ResolvedInput, TaskId, TaskSpec
from qoop.planner.plan import Resources

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Begin, End, Change, Promote, Allow, Drop,
        Queued, Begun, TaskSucceeded, TaskStopped, TaskRegranted, CallsObserved, WorkObserved,
        CheckpointLost, CheckpointSaved,
    )
}  # fmt: skip


def written(what: Sequence[Order | Event]) -> bytes | None:
    """The text; None if some of it cannot be written."""
    try:
        return json.dumps([_write(one) for one in what], separators=(",", ":")).encode()
    except (PlanError, TypeError, ValueError):
        return None


def read(found: Any) -> list[Order | Event]:
    """The orders or events of what JSON has read. Raises PlanError, or what Python does, if it is damaged."""
    return [_read_begin(data) if name == "Begin" else _CODEC.read(_KINDS[name], data) for name, data in found]


def _write(one: Order | Event) -> Any:
    if isinstance(one, Begin):
        return "Begin", _write_begin(one)
    name = type(one).__name__
    if name not in _KINDS:
        raise PlanError(f"{name} is not written as JSON")
    return name, _CODEC.write(one)


def _write_begin(order: Begin) -> Any:
    if order.tables or order.functions:
        raise PlanError("tables and functions are not written as JSON")
    spec, write = order.spec, _CODEC.write
    return [
        _write_attempt(spec.attempt), _write_key(spec.key), order.stage,
        [[one.name, _write_keys(one.keys), one.partition] for one in spec.inputs], write(spec.resources), spec.settings,
        [spec.durable, spec.shared, spec.answer, spec.locked, spec.extra, spec.profiled, order.queued], spec.most,
        spec.path, None if spec.ticket is None else write(spec.ticket),
        [[place.address, place.secret, _write_keys(keys)] for place, keys in order.places], order.calls,
    ]  # fmt: skip


def _read_begin(data: Any) -> Begin:
    attempt, key, stage, inputs, resources, settings, flags, most, path, ticket, places, calls = data
    durable, shared, answer, locked, extra, profiled, queued = map(bool, flags)
    spec = TaskSpec(
        _read_attempt(attempt), NO_STAGE, _read_key(key),
        tuple(ResolvedInput(name, _read_keys(keys), partition) for name, keys, partition in inputs), {},
        _CODEC.read(Resources, resources), tuple((str(name), str(one)) for name, one in settings),
        durable, shared, answer, locked, (), int(most), extra, profiled,
        None if ticket is None else _CODEC.read(Ticket, ticket), float(path),
    )  # fmt: skip
    there = tuple((Place(address, secret), _read_keys(keys)) for address, secret, keys in places)
    return Begin(spec, stage, (), there, (), tuple(calls), queued)


def _write_attempt(attempt: AttemptId) -> Any:
    return attempt.task.job, attempt.task.stage, attempt.task.part, attempt.number


def _read_attempt(data: Any) -> AttemptId:
    job, stage, part, number = data
    return AttemptId(TaskId(job, stage, int(part)), int(number))


def _write_key(key: CheckpointKey) -> Any:
    return key.signature, key.layout, key.part


def _read_key(data: Any) -> CheckpointKey:
    signature, layout, part = data
    return CheckpointKey(signature, layout, int(part))


def _write_keys(keys: Iterable[CheckpointKey]) -> Any:
    """Those of one stage, which are many, name it once."""
    return [(*content, [key.part for key in some]) for content, some in groupby(keys, key=lambda key: key.content)]


def _read_keys(data: Any) -> tuple[CheckpointKey, ...]:
    return tuple(CheckpointKey(signature, layout, int(part)) for signature, layout, parts in data for part in parts)


_CODEC = Codec(
    {
        AttemptId: (_write_attempt, _read_attempt),
        CheckpointKey: (_write_key, _read_key),
        tuple[CheckpointKey, ...]: (_write_keys, _read_keys),
        Digest: (digest_to_json, digest_from_json),
    },
    also=frozenset({"digest"}),
)
