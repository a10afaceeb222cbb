"""Bundles of suspended jobs: a folder with the state to continue elsewhere, or with other resources.

::

    PATH/bundle.json       the query, its settings, tables by place and version, the plans it ran; no pickle
    PATH/checkpoints/      the outputs of its tasks, as in a directory of checkpoints (`engine/storage/manifest.py`)
    PATH/contents.json     digests of its tables' files (:mod:`qoop.query.copies`)

Tables are not copied. They are found at their origins, or in the data that `resume` names, and must have the version
that the query was planned for, or the same rows. The plan is chosen again for the present resources: of all
alternatives of the text, and the plans that ran, the one that ends first with the checkpoints.

Other users may be able to write to the folder of a bundle. So the bundle is sealed with the user's key
(:mod:`qoop.catalog.user_key`), and so is each of its checkpoints. Without that seal, only the query of a
bundle is used, and runs again from the start. `trust` uses its checkpoints, too, but never its plans.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from qoop.adaptive.replanning.observations import done_parts
from qoop.catalog.errors import CheckpointError, ConfigError, DiskFull, PlanError, SourceError, TableChanged
from qoop.catalog.signed_json import NotSealed, opened, sealed
from qoop.catalog.sources.pieces import Pieces
from qoop.catalog.stores.whole_file import sync_paths, write_synced
from qoop.catalog.user_key import user_key
from qoop.catalog.value import value
from qoop.engine.digest import Digester
from qoop.engine.events import Committed
from qoop.engine.storage.guard import versions
from qoop.engine.storage.manifest import CheckpointDirectory, Saved, manifests
from qoop.engine.storage.scratch import Scratch
from qoop.engine.task import CheckpointKey
from qoop.planner.finish import Done, finish_time
from qoop.planner.plan import Plan, Resources
from qoop.planner.plan_json import dump, load

if TYPE_CHECKING:
    from qoop.catalog.table import Table
    from qoop.engine.backends.base import Backend

FORMAT = "qoop-bundle"
VERSION = 3

_FILE, _CHECKPOINTS = "bundle.json", "checkpoints"

Kind = Literal["source", "folder", "database"]


@value
class TableOrigin:
    """The origin of a table: the way in which it was registered, and its path."""

    kind: Kind
    path: str


@value
class TableRef:
    """A table of a suspended query. place: None if it lived in the memory of the process."""

    name: str
    version: str
    place: TableOrigin | None


@value
class Bundle:
    """A suspended job. plans: those that it ran, in order. fraction: of its work that was done. timestamp: the
    value of ``now()``; None: of a bundle without one."""

    query: str
    settings: tuple[tuple[str, str], ...]
    tables: tuple[TableRef, ...]
    plans: tuple[Plan, ...]
    fraction: float
    timestamp: str | None = None


def references(tables: Mapping[str, Table], places: Mapping[str, TableOrigin]) -> tuple[TableRef, ...]:
    """References by which another session finds the tables of a query. places: by name in lower case."""
    return tuple(TableRef(table.name, table.version, places.get(table.name.lower())) for table in tables.values())


def refuse_rounds(tables: Iterable[Table]) -> None:
    """Raise ConfigError for a job that reads pieces of a table: it is a round, whose rows are an intermediate step."""
    for table in tables:
        if isinstance(table.source, Pieces):
            raise ConfigError(
                "a round of a growing answer cannot be suspended; stop the answer, and ask for it again over the same "
                "checkpoints, with reuse: it goes on behind the rounds that have ended"
            )


@contextlib.contextmanager
def begun(path: Path) -> Iterator[Path]:
    """A draft folder in which `write` makes the bundle for `path`; it exists until the block ends. Drafts of killed
    processes are removed when the next bundle begins in the same folder.

    Raises ConfigError if `path` exists, DiskFull if the folder cannot be written.
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
    """Complete the folder that was `begun`, and rename it to its path. Outputs that cannot be read are left out.

    Raises DiskFull if it cannot be written.
    """
    key = key_of_user()
    if key is None:
        warnings.warn(f"the bundle {path} is not sealed: resuming it takes trust=True", RuntimeWarning, stacklevel=2)
    try:
        _write_checkpoints(draft / _CHECKPOINTS, outputs, backend, key)
        write_synced(draft / _FILE, sealed(_to_json(bundle), key, indent=1).encode())
        sync_paths(draft)
        draft.rename(path)
        sync_paths(path.parent)
    except OSError as error:
        raise DiskFull(f"the bundle {path} cannot be written: {error.strerror or error}") from error


def read(path: Path, trust: bool = False) -> tuple[Bundle, tuple[Saved, ...]]:
    """The content of a bundle, and its trusted checkpoints.

    trust: use checkpoints although they do not bear the seal of the user's key. Plans without it are left out, and
    so are those with stages that are no SELECT over their inputs.
    Raises ConfigError if `path` holds no bundle that this version can read.
    """
    key = key_of_user()
    data, ours = _body(path / _FILE, key)
    try:
        bundle = _from_json(data)
        plans = tuple(plan for plan in bundle.plans if ours and _is_checked(plan))
        found = manifests(path / _CHECKPOINTS, key if ours else None) if ours or trust else ()
        if not ours and not trust:
            warnings.warn(_STRANGE.format(path=path), RuntimeWarning, stacklevel=3)
        return replace(bundle, plans=plans), tuple(found)
    except (KeyError, TypeError, ValueError, AttributeError, PlanError) as error:
        raise ConfigError(f"{path / _FILE} is damaged: {error!r}") from error


_STRANGE = (
    "the bundle {path} does not bear the seal of your key, so its outputs are not trusted and are computed again. If "
    "it comes from another machine or account of yours, give both one key (QOOP_KEY_FILE) before the job is suspended; "
    "if you trust all users with write access to it, resume it with trust=True"
)


def key_of_user() -> bytes | None:
    """The key that seals bundles; None if it cannot be made."""
    try:
        return user_key()
    except ConfigError as error:
        warnings.warn(f"there is no key to seal bundles with: {error}", RuntimeWarning, stacklevel=3)
        return None


def _body(path: Path, key: bytes | None) -> tuple[dict[str, Any], bool]:
    """The file's content, and whether it bears the seal of the key. Raises ConfigError."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path.parent} holds no suspended job: {error.strerror}") from error
    ours = key is not None
    try:
        try:
            data = opened(text, key)
        except NotSealed:
            data, ours = opened(text), False
    except ValueError as error:
        _refuse_older(path, text)
        raise ConfigError(f"{path} is damaged: {error}") from error
    _refuse_others(path, data)
    return data, ours


def _refuse_older(path: Path, text: bytes) -> None:
    """Raise ConfigError for a bundle of an older version, without a checksum."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(data, dict) and "checksum" not in data:
        _refuse_others(path, data)


def _refuse_others(path: Path, data: Mapping[str, object]) -> None:
    if (found := (data.get("format"), data.get("version"))) != (FORMAT, VERSION):
        raise ConfigError(f"{path} has format {found}; this version reads {(FORMAT, VERSION)}")


def _is_checked(plan: Plan) -> bool:
    """True if each stage is a SELECT over its inputs. Otherwise, such as for a user's own text, it is planned again."""
    from qoop.engine.stage_sql import check_plan

    try:
        check_plan(plan)
    except PlanError:
        return False
    return True


def check_tables(references: Iterable[TableRef], found: Mapping[str, Table]) -> None:
    """Raise SourceError for a table that is missing, TableChanged for one with other rows."""
    for ref in references:
        table = found.get(ref.name) or found.get(ref.name.lower())
        where = f", once at {ref.place.path}" if ref.place is not None else ", which lived in the memory of its process"
        if table is None:
            raise SourceError(f"the suspended query reads table {ref.name}{where}: it is not there; name its data")
        if table.version != ref.version:
            changed = "has changed since the query was suspended, or is a copy that the bundle does not know"
            raise TableChanged(f"table {ref.name}{where}, {changed}")


def best_plan(plans: Sequence[Plan], present: Collection[CheckpointKey], available: Resources) -> Plan:
    """The plan that ends first on these resources with the present outputs; of equal ones the first."""
    return min(plans, key=lambda plan: finish_time(plan, Done(done_parts(plan, present)), available))


def _write_checkpoints(root: Path, outputs: Sequence[Committed], backend: Backend, key: bytes | None) -> None:
    directory, digester = CheckpointDirectory(root, key=key), Digester()
    try:
        for output in outputs:
            try:
                tables = [backend.read(output.key, number) for number in range(len(output.rows))]
            except CheckpointError:
                continue  # it will be made again
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
        "timestamp": bundle.timestamp,
        "versions": versions(),
    }


def _from_json(data: Mapping[str, object]) -> Bundle:
    settings, tables, plans = data["settings"], data["tables"], data["plans"]
    if not (isinstance(settings, list) and isinstance(tables, list) and isinstance(plans, list)):
        raise TypeError("settings, tables or plans are no lists")
    return Bundle(
        _text(data["query"]),
        tuple((_text(name), _text(value)) for name, value in settings),
        tuple(_table(item) for item in tables),
        tuple(load(plan) for plan in plans),
        float(str(data["fraction"])),
        None if data.get("timestamp") is None else _timestamp(_text(data["timestamp"])),
    )


def _table(item: Mapping[str, Any]) -> TableRef:
    place = item["place"]
    if place is not None and place["kind"] not in get_args(Kind):
        raise ValueError(f"a table of a {place['kind']}")
    found = None if place is None else TableOrigin(place["kind"], _text(place["path"]))
    return TableRef(_text(item["name"]), _text(item["version"]), found)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _timestamp(text: str) -> str:
    """The text, which must be a timestamp: it becomes a part of SQL. Raises ValueError."""
    datetime.fromisoformat(text)
    return text
