"""Suspended jobs: a folder with all that is needed to go on elsewhere, on another size.

::

    PATH/bundle.json       the query, its settings, tables by place and version, the plans it ran; no pickle
    PATH/checkpoints/      what its tasks had put out, as in a directory of checkpoints (`engine/storage/manifest.py`)

Tables are not copied: they are found again where they were, or in the data given, and must have the version that
the query was planned for. The plan to go on with is chosen anew for the size at hand: of all alternatives of the
text, and the plans that ran, the one that is done first, given what the checkpoints spare it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from qoop.catalog.errors import CheckpointError, ConfigError, DiskFull, PlanError, SourceError, TableChanged
from qoop.catalog.stores.whole_file import sync_folder, write_synced
from qoop.engine.digest import Digester
from qoop.engine.events import Committed
from qoop.engine.storage.guard import versions
from qoop.engine.storage.manifest import CheckpointDirectory, Saved, manifests
from qoop.engine.storage.scratch import Scratch
from qoop.engine.task import CheckpointKey, checkpoint_key
from qoop.planner.finish import Done, finish_time
from qoop.planner.plan import Plan, Resources
from qoop.planner.plan_json import dump, load

if TYPE_CHECKING:
    import os

    from qoop.catalog.table import Table
    from qoop.engine.backends.base import Backend
    from qoop.job import Job

FORMAT = "qoop-bundle"
VERSION = 1

_FILE, _CHECKPOINTS = "bundle.json", "checkpoints"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table came from: how it was registered, and the path that was given."""

    kind: Literal["source", "folder", "database"]
    path: str


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table of a suspended query. place: None if it lived in the memory of the process."""

    name: str
    version: str
    place: Place | None


@dataclass(frozen=True)
class Bundle:
    """A suspended job. plans: those it ran, the last one at last. fraction: of its work that was done. moment: what
    ``now()`` is in it; None: of a bundle that does not say."""

    query: str
    settings: tuple[tuple[str, str], ...]
    tables: tuple[TableRef, ...]
    plans: tuple[Plan, ...]
    fraction: float
    moment: str | None = None


def references(tables: Mapping[str, Table], places: Mapping[str, Place]) -> tuple[TableRef, ...]:
    """How the tables of a query are found again. places: by name in lower case."""
    return tuple(TableRef(table.name, table.version, places.get(table.name.lower())) for table in tables.values())


@contextlib.contextmanager
def begun(path: Path) -> Iterator[Path]:
    """A folder to `write` a bundle in that is to be at `path`, as long as there is reason to. What a killed process
    left there goes when another bundle is begun beside it.

    Raises ConfigError if there is something that the bundle would replace, DiskFull if nothing can be written there.
    """
    try:
        free = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    except OSError as error:
        raise ConfigError(f"a bundle cannot be written to {path}: {error.strerror}") from error
    if not free:
        raise ConfigError(f"there is something at {path} already; a bundle needs a path of its own")
    scratch = Scratch(path.parent, "bundle")
    try:
        yield scratch.path / path.name
    finally:
        scratch.close()


def write(path: Path, draft: Path, bundle: Bundle, outputs: Sequence[Committed], backend: Backend) -> None:
    """Write the folder that was `begun`, whole or not at all. Outputs that cannot be read any more are left out.

    Raises DiskFull if it cannot be written.
    """
    try:
        _write_checkpoints(draft / _CHECKPOINTS, outputs, backend)
        write_synced(draft / _FILE, json.dumps(_to_json(bundle), indent=1).encode())
        sync_folder(draft)
        draft.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        raise DiskFull(f"the bundle {path} cannot be written: {error.strerror or error}") from error


def read(path: Path) -> tuple[Bundle, tuple[Saved, ...]]:
    """What was written, and the checkpoints that can be believed. Raises ConfigError if `path` holds no bundle that
    this version can read."""
    try:
        data = json.loads((path / _FILE).read_text())
    except OSError as error:
        raise ConfigError(f"{path} holds no suspended job: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path / _FILE} is damaged: {error}") from error
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        found = (data.get("format"), data.get("version")) if isinstance(data, dict) else data
        raise ConfigError(f"{path / _FILE} is of format {found}, where {(FORMAT, VERSION)} is wanted")
    try:
        return _from_json(data), tuple(manifests(path / _CHECKPOINTS))
    except (KeyError, TypeError, ValueError, PlanError) as error:
        raise ConfigError(f"{path / _FILE} is damaged: {error!r}") from error


def check_tables(wanted: Iterable[TableRef], found: Mapping[str, Table]) -> None:
    """Raise SourceError for a table that is not there, TableChanged for one that holds something else."""
    for ref in wanted:
        table = found.get(ref.name) or found.get(ref.name.lower())
        where = f", once at {ref.place.path}" if ref.place is not None else ", which lived in the memory of its process"
        if table is None:
            raise SourceError(f"the suspended query reads table {ref.name}{where}: it is not there; name its data")
        if table.version != ref.version:
            raise TableChanged(f"table {ref.name}{where}, has changed since the query was suspended")


def best_plan(plans: Sequence[Plan], held: Collection[CheckpointKey], room: Resources) -> Plan:
    """The plan that is done first on this room, given the outputs there are; of equals the first."""
    return min(plans, key=lambda plan: finish_time(plan, _done(plan, held), room))


def _done(plan: Plan, held: Collection[CheckpointKey]) -> Done:
    parts = {
        stage.id: count
        for stage in plan.stages
        if stage.shareable and (count := sum(checkpoint_key(stage, part) in held for part in range(stage.width)))
    }
    return Done(parts)


def _write_checkpoints(root: Path, outputs: Sequence[Committed], backend: Backend) -> None:
    directory, digester = CheckpointDirectory(root), Digester()
    try:
        for output in outputs:
            try:
                tables = [backend.read(output.key, number) for number in range(len(output.rows))]
            except CheckpointError:
                continue  # it will be made anew
            directory.save(replace(output, digest=output.digest or digester.of(tables)), tables, needed=False)
    finally:
        digester.close()
        directory.close()
        (root / "lock").unlink(missing_ok=True)


def _to_json(bundle: Bundle) -> dict[str, object]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "query": bundle.query,
        "settings": bundle.settings,
        "tables": [asdict(table) for table in bundle.tables],
        "plans": [dump(plan) for plan in bundle.plans],
        "fraction": bundle.fraction,
        "moment": bundle.moment,
        "versions": versions(),
    }


def _from_json(data: Mapping[str, object]) -> Bundle:
    settings, tables, plans = data["settings"], data["tables"], data["plans"]
    if not (isinstance(settings, list) and isinstance(tables, list) and isinstance(plans, list)):
        raise TypeError("settings, tables or plans are no lists")
    return Bundle(
        str(data["query"]),
        tuple((str(name), str(value)) for name, value in settings),
        tuple(
            TableRef(item["name"], item["version"], Place(**item["place"]) if item["place"] else None)
            for item in tables
        ),
        tuple(load(plan) for plan in plans),
        float(str(data["fraction"])),
        str(data["moment"]) if data.get("moment") is not None else None,
    )


def resume(
    path: str | os.PathLike[str],
    slots: int | None = None,
    memory: int | str | None = None,
    checkpoints: str | os.PathLike[str] | None = None,
    replan: bool | None = None,
    data: Sequence[str | os.PathLike[str]] = (),
    ray: str | None = None,
) -> Job:
    """Go on with a suspended job on this machine, or on the nodes of a Ray cluster, in a session of its own that ends
    when the result is taken.

    slots, memory, checkpoints, replan, ray: as for :func:`qoop.connect`. data: folders or DuckDB files of the tables,
        if they are not where they were.

    Raises ConfigError if there is no bundle at `path`, SourceError or TableChanged if a table is gone or has changed.
    """
    from qoop.session import connect

    session = connect(slots, memory, checkpoints, replan, ray=ray)
    try:
        job = session.resume(path, data)
    except BaseException:
        session.close()
        raise
    job.owns(session)
    return job
