"""The writing and reading of a trace's lines: mostly by the fields' types (:mod:`qoop.catalog.written.codec`).

What has a way of its own: stages and plans, which are said once and then named by their digest; attempts and keys of
checkpoints, as one word; tables and functions, of which only names and versions are known; errors, by class and
message; and what a job may use to change plan, of which the search is left out, since its answers are in the trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from qoop.adaptive.replanning.adaptive import Adaptive
from qoop.adaptive.replanning.decision import Decision, DecisionInput, Policy
from qoop.adaptive.replanning.greedy import Greedy
from qoop.adaptive.replanning.policies import written
from qoop.adaptive.replanning.triggers import Triggers
from qoop.catalog import errors
from qoop.catalog.access import Places
from qoop.catalog.errors import Cancelled, ExecutionError, PlanError, QoopError, SourceError
from qoop.catalog.functions.function import UserFunction
from qoop.catalog.table import Columns, Footer, Range, Split, Table
from qoop.catalog.value import value
from qoop.catalog.written.codec import Codec, Pair
from qoop.engine.task import AttemptId, CheckpointKey, TaskId
from qoop.planner.algebra.facts import LazyFacts
from qoop.planner.algebra.facts import from_json as read_facts
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Plan, Resources, Stage
from qoop.planner.search.candidate import Candidate

_ATTEMPT = re.compile(r"(.+?)/(.+)\.(\d+)#(\d+)", re.S)
_KEY = re.compile(r"(.*)\.([^.]*)\.(\d+)", re.S)
_KINDS = {"Stage": Stage, "Plan": Plan}


class TraceCodec:
    """One direction of one trace: it knows which stages and plans have been defined."""

    def __init__(self) -> None:
        own: dict[Any, Pair] = {
            LazyFacts: (LazyFacts.to_json, read_facts),
            AttemptId: (str, _read_attempt),
            CheckpointKey: (_write_key, _read_key),
            Table: (_write_table, _read_table),
            UserFunction: (_write_function, _read_function),
            Adaptive: (self._write_adaptive, self._read_adaptive),
            QoopError: (write_error, read_error),
            Cancelled: (write_error, read_error),
        }
        self._codec = Codec(own | {kind: self._by_digest(kind) for kind in _KINDS.values()}, also=frozenset({"facts"}))
        self._fields = Codec(own, also=frozenset({"facts"}))
        self._pairs: dict[Any, Pair] = {}
        self._known: dict[str, Any] = {}
        self._new: list[str] = []

    def write(self, value: Any) -> Any:
        """A dataclass as JSON values. What it names for the first time is among the next `definitions`."""
        return self._codec.write(value)

    def read(self, kind: type, data: Any) -> Any:
        """The value that `write` took apart. Raises PlanError where it is damaged."""
        return self._codec.read(kind, data)

    def definitions(self) -> Sequence[str]:
        """Lines that must come before what was written since they were last asked for."""
        lines, self._new = self._new, []
        return lines

    def define(self, line: Mapping[str, Any]) -> None:
        """Take a definition that was read. Raises PlanError where it is damaged."""
        digest, kind = line.get("define"), _KINDS.get(str(line.get("kind")))
        if kind is None or digest != _digest(json.dumps(line.get("value"))):
            raise PlanError("the definition of a stage or plan does not have its digest")
        _, reader = self._pair(kind)
        try:
            self._known[str(digest)] = reader(line["value"])
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise PlanError(f"a damaged definition of a {kind.__name__}: {error}") from error

    def _pair(self, kind: Any) -> Pair:
        """The codec of a stage or a plan: by its fields, but the stages of a plan by their digests."""
        if kind not in self._pairs:
            self._pairs[kind] = (self._fields if kind is Stage else self._codec).by_fields(kind)
        return self._pairs[kind]

    def _by_digest(self, kind: Any) -> Pair:
        def write(value: Any) -> str:
            text = json.dumps(self._pair(kind)[0](value))
            digest = _digest(text)
            if digest not in self._known:
                self._known[digest] = value
                self._new.append(f'{{"define": "{digest}", "kind": "{kind.__name__}", "value": {text}}}')
            return digest

        def read(data: Any) -> Any:
            if data not in self._known:
                raise PlanError(f"there is no definition of the {kind.__name__.lower()} {data}")
            return self._known[data]

        return write, read

    def _write_adaptive(self, value: Adaptive) -> Any:
        policy = self._write_policy(value.policy)
        available, triggers = self._codec.write(value.available), self._codec.write(value.triggers)
        return {
            "available": available, "at_once": value.at_once, "policy": policy, "triggers": triggers,
            "begin_with": value.begin_with, "search_after": value.search_after,
        }  # fmt: skip

    def _write_policy(self, policy: Policy) -> Any:
        """The class of a policy and its parameters, or the class alone where a trace cannot hold the parameters."""
        kind = type(policy).__name__
        return {"policy": kind, **self._codec.write(policy)} if kind in written() else kind

    def _read_policy(self, data: Any) -> Policy:
        if isinstance(data, str):
            return Unknown(data)
        fields = dict(data)
        kind = fields.pop("policy", Greedy.__name__)  # traces of earlier versions hold no other
        known = written()
        if kind not in known:
            return Unknown(str(kind))
        found: Policy = self._codec.read(known[kind], fields)
        return found

    def _read_adaptive(self, data: Any) -> Adaptive:
        policy = data["policy"]
        return Adaptive(
            no_search,
            self._codec.read(Resources, data["available"]),
            bool(data["at_once"]),
            self._read_policy(policy),
            self._codec.read(Triggers, data["triggers"]),
            data.get("begin_with"),
            search_after=data.get("search_after", 0.0),
        )


@value
class Unknown:
    """A policy that a trace names and that cannot be made from it: of a caller's own class, or removed since."""

    name: str

    def decide(self, question: DecisionInput) -> Decision:
        raise ExecutionError(f"the trace makes no policy {self.name}; there are {', '.join(written())}: give one")


def no_search(_: Observations) -> Sequence[Candidate]:
    raise ExecutionError("a trace holds what searches have found, but cannot search")


class _Elsewhere:
    """The source of a table of which a trace knows only the version."""

    rows = 0
    shared = False

    def _gone(self) -> SourceError:
        return SourceError("the rows of this table are not in the trace")

    def digest(self) -> str:
        raise self._gone()

    def pieces(self) -> tuple[Range, ...]:
        raise self._gone()

    def check(self, split: Split | None) -> None:
        raise self._gone()

    def scan(self, columns: Columns, split: Split | None) -> str:
        raise self._gone()

    def sample(self, columns: Columns, one_in: int) -> str:
        raise self._gone()

    def extremes(self, names: Sequence[str]) -> Mapping[str, tuple[object, object]]:
        raise self._gone()

    def footers(self) -> Sequence[Footer]:
        raise self._gone()

    def places(self) -> Places:
        """Nothing must be opened to read it."""
        return Places()

    def attach(self) -> tuple[str, str] | None:
        raise self._gone()


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _read_attempt(data: Any) -> AttemptId:
    match = _ATTEMPT.fullmatch(data)
    if match is None:
        raise ValueError(f"{data!r} is no attempt")
    return AttemptId(TaskId(match[1], match[2], int(match[3])), int(match[4]))


def _write_key(key: CheckpointKey) -> str:
    return f"{key.signature}.{key.layout}.{key.part}"


def _read_key(data: Any) -> CheckpointKey:
    match = _KEY.fullmatch(data)
    if match is None:
        raise ValueError(f"{data!r} is no key of a checkpoint")
    return CheckpointKey(match[1], match[2], int(match[3]))


def _write_table(table: Table) -> Any:
    return [table.name, table.version, table.rows]


def _read_table(data: Any) -> Table:
    name, version, rows = data
    return Table(str(name), (), str(version), _Elsewhere(), int(rows))


def _write_function(function: UserFunction) -> Any:
    return [function.name, function.version, function.parameters, function.return_type]


def _read_function(data: Any) -> UserFunction:
    name, version, parameters, return_type = data
    return UserFunction(str(name), str(version), tuple(map(str, parameters)), str(return_type))


def write_error(error: QoopError) -> Any:
    """The class, or the nearest one of :mod:`qoop.catalog.errors`, the message, and where it was."""
    kind = next(base for base in type(error).__mro__ if base.__module__ == errors.__name__)
    where = {name: value for name in ("stage", "part") if (value := getattr(error, name)) is not None}
    return {"error": kind.__name__, "message": str(error), **where}


def read_error(data: Any) -> QoopError:
    """The error that was written; one of a class that is not known any more is a plain QoopError."""
    kind = getattr(errors, str(data["error"]), QoopError)
    if not (isinstance(kind, type) and issubclass(kind, QoopError)):
        raise ValueError(f"{data['error']} is no error of ours")
    error = kind(str(data["message"]))
    error.stage, error.part = data.get("stage"), data.get("part")
    return error
