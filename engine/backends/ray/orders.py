"""The orders of a session to a node, and the stages that go with them."""

from __future__ import annotations

import json
from functools import lru_cache

from qoop.catalog.functions.function import UserFunction
from qoop.catalog.table import Table
from qoop.catalog.value import value
from qoop.catalog.written.codec import Codec
from qoop.engine.backends.ray.peers import Place
from qoop.engine.task import AttemptId, CheckpointKey, JobId, TaskSpec
from qoop.planner.plan import Resources, Stage

_REMEMBERED = 256  # stages of which a session has the text, and stages that a node knows by theirs

_CODEC = Codec({})

NO_STAGE = Stage("", "", (), (), 0, "")
"""In place of a stage that is sent next to its task."""


@lru_cache(_REMEMBERED)
def stage_text(stage: Stage) -> str:
    """The stage as nodes get it: without its facts, which only plans are compared by, and which take long to tell."""
    return json.dumps(_CODEC.write(stage), separators=(",", ":"))


@lru_cache(_REMEMBERED)
def stage_of(text: str) -> Stage:
    """One object for all tasks of a stage. Raises PlanError if the text is damaged."""
    found: Stage = _CODEC.read(Stage, json.loads(text))
    return found


@value
class Begin:
    """Run this. spec: without tables and functions, and with NO_STAGE. stage: its text, which all its tasks have.
    tables, functions: those that are new to the node. calls: the keys of the functions. places: of what it reads and
    other processes hold. queued: it was reported that it waits."""

    spec: TaskSpec
    stage: str
    tables: tuple[Table, ...]
    places: tuple[tuple[Place, tuple[CheckpointKey, ...]], ...]
    functions: tuple[UserFunction, ...] = ()
    calls: tuple[str, ...] = ()
    queued: bool = False


@value
class End:
    """Interrupt this attempt."""

    attempt: AttemptId


@value
class Change:
    """Let this attempt go on with other resources."""

    attempt: AttemptId
    resources: Resources


@value
class Promote:
    """This attempt has a slot of the node's from now on."""

    attempt: AttemptId


@value
class Allow:
    """The session may have these resources of the node's."""

    resources: Resources


@value
class Drop:
    """The job needs these outputs no more."""

    job: JobId
    keys: tuple[CheckpointKey, ...]


Order = Begin | End | Change | Promote | Allow | Drop
