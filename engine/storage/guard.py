"""The guard: what two plans call the same must hold the same rows.

A signature says what an output means, so two outputs of one signature must have equal digests, whatever plans
made them and however they are cut. Where they meet (the same part is put out twice, or a stage is complete in
two layouts) they are compared; a difference means that a rewrite or a signature is wrong, so it is unknown
which answer would be right. Then both are quarantined, a file that says how to reproduce it is written, and the
job ends with GuardMismatch: a wrong answer is never given.

Unfinished rows (of a partial aggregate) mean something only in their own layout: they are compared part by part.
Outputs of non-deterministic stages (law 12), and of DuckDB's own plan, may differ from run to run: they are not
compared.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict
from functools import reduce
from importlib.metadata import PackageNotFoundError, version
from operator import add
from pathlib import Path
from typing import TypeGuard

import duckdb
import pyarrow as pa

from qoop.catalog.errors import CheckpointError, GuardMismatch
from qoop.catalog.stores.whole_file import write_whole
from qoop.catalog.value import value
from qoop.engine.digest import Digest, digest_to_json
from qoop.engine.events import Committed
from qoop.engine.storage.retention import Checkpoints
from qoop.engine.task import CheckpointKey
from qoop.planner.plan import Signature, Stage

FORMAT = "qoop-mismatch"
VERSION = 1
_SIGNATURES = 10_000


@value
class Origin:
    """The origin of an output: the stage and the settings it ran under."""

    stage: Stage
    settings: tuple[tuple[str, str], ...] = ()


def is_guarded(origin: Origin | None) -> TypeGuard[Origin]:
    """True for an output of our plans. DuckDB's own plan may break the ties of a LIMIT otherwise in each run."""
    return origin is not None and not origin.stage.whole


@value
class Side:
    """One of two outputs that should be equal. origin: None if an earlier process made it."""

    outputs: tuple[Committed, ...]
    digest: Digest
    origin: Origin | None


class Ledger:
    """Digests of what was put out, also of what is held no more. Not thread-safe.

    Of more than `_SIGNATURES` signatures those that were not used for longest are forgotten.
    """

    def __init__(self) -> None:
        self._stages: OrderedDict[Signature, dict[str, dict[int, Side]]] = OrderedDict()

    def add(self, committed: Committed, origin: Origin) -> tuple[Side, Side] | None:
        """Take note of an output that has its digest. Two sides that should agree and do not, if there are any."""
        assert committed.digest is not None
        key, side = committed.key, Side((committed,), committed.digest, origin)
        layouts = self._stages.setdefault(key.signature, {})
        self._stages.move_to_end(key.signature)
        if len(self._stages) > _SIGNATURES:
            self._stages.popitem(last=False)
        known = layouts.setdefault(key.layout, {}).setdefault(key.part, side)
        if not known.digest.agrees(side.digest):
            return known, side
        wholes = [whole for parts in layouts.values() if (whole := _whole(parts)) is not None]
        mine = _whole(layouts[key.layout])
        if mine is not None:
            return next(((one, mine) for one in wholes if not one.digest.agrees(mine.digest)), None)
        return None


def _whole(parts: Mapping[int, Side]) -> Side | None:
    """All parts of a finished stage as one; None while some are missing."""
    sides = [side for _, side in sorted(parts.items())]
    if len(sides) < sides[0].outputs[0].width or not sides[0].outputs[0].finished:
        return None
    digest = reduce(add, (side.digest for side in sides))
    return Side(tuple(output for side in sides for output in side.outputs), digest, sides[0].origin)


def mismatch(one: Side, other: Side, folder: Path) -> GuardMismatch:
    """The error that names two outputs of one signature with different rows; writes the file it names."""
    key = one.outputs[0].key
    path = folder / f"{key.signature[:16]}-{time.time_ns()}.json"
    text = (
        f"two plans put out different rows under one signature ({key.signature[:12]}): {one.digest} against "
        f"{other.digest}. Neither is used. Run the query again with replan=False and without checkpoints to get its "
        f"answer from one plan, and report {path}"
    )
    error = GuardMismatch(text)
    try:
        write_whole(path, json.dumps(_report(one, other), indent=1))
        error.file = path
    except OSError as problem:
        error.add_note(f"{path} could not be written: {problem}")
    return error


def set_aside(error: GuardMismatch, checkpoints: Checkpoints, key: CheckpointKey, folder: Path) -> None:
    """Move a checkpoint that differs from another away from its place; a note of the error says if that failed."""
    try:
        for saved in checkpoints.find_all([key]):
            checkpoints.set_aside(saved, folder)
    except CheckpointError as problem:
        error.add_note(f"checkpoint {key} may still be there: {problem}")


def complete(error: GuardMismatch, more: Mapping[str, object]) -> None:
    """Add to the file what only the job's owner knows: the query and its plans, as JSON holds them."""
    if error.file is None:
        return
    try:
        report = json.loads(error.file.read_text())
        write_whole(error.file, json.dumps({**report, **more}, indent=1))
    except (OSError, ValueError, TypeError) as problem:
        error.add_note(f"{error.file} could not be completed: {problem}")


def versions() -> dict[str, str]:
    """Versions of what makes rows."""
    try:
        own = version("qoop")
    except PackageNotFoundError:
        own = "unknown"
    return {"qoop": own, "duckdb": duckdb.__version__, "pyarrow": pa.__version__}


def _report(one: Side, other: Side) -> dict[str, object]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "signature": one.outputs[0].key.signature,
        "sides": [_side(one), _side(other)],
        "versions": versions(),
    }


def _side(side: Side) -> Mapping[str, object]:
    return {
        "digest": digest_to_json(side.digest),
        "outputs": [asdict(output.key) | {"rows": sum(output.rows)} for output in side.outputs],
        "stage": None if side.origin is None else _stage(side.origin.stage),
        "settings": None if side.origin is None else dict(side.origin.settings),
    }


def _stage(stage: Stage) -> Mapping[str, object]:
    return {
        "id": stage.id,
        "label": stage.label,
        "sql": stage.sql,
        "columns": stage.columns,
        "inputs": [asdict(item) for item in stage.inputs],
        "layout": asdict(stage.layout),
        "width": stage.width,
        "cut": stage.cut,
    }
