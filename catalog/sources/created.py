"""Tables that statements create in a folder: Parquet files, and a manifest that lists them, for each version.

::

    t/_17.json         the manifest of version 17
    t/_17.dropped      instead of one: the table was dropped
    t/_5f3c….parquet   some rows of the table, its pieces

The highest number counts. Pieces and manifests never change: a version is written as further files, and its manifest
appears last, once they are synced. So a kill or a power failure leaves the old version or the new one. While a job
reads a version, its process has a shared lock on the manifest. A writer locks the folder. It removes the manifests of
earlier versions that have no lock, and the pieces that no version has. A piece of packed rows is written beforehand,
without a lock, as a draft (``.packed-…``).

Names begin with an underscore, so that a folder is not read as one of plain Parquet files.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qoop.catalog.errors import CatalogError, SourceError, TableChanged
from qoop.catalog.forks import forget_private, keep_private
from qoop.catalog.sources.file_stamp import reading
from qoop.catalog.sources.files import CREATED, is_present, manifests
from qoop.catalog.sources.parquet import ParquetSource, open_written
from qoop.catalog.stores.private import lock_now, make_folder, make_private, write_private
from qoop.catalog.stores.whole_file import sync_paths, sync_together
from qoop.catalog.table import MOST_COMPACTIONS, Columns, Compaction
from qoop.catalog.value import value

if TYPE_CHECKING:
    from qoop.catalog.table import Table

_FORMAT = 1
_PIECE = re.compile(r"_[0-9a-f]{16}\.parquet")
_DRAFT, _PACKED = ".manifest", ".packed-"
_GRACE = 5.0
"""Seconds after which a version that is not the present one has no further readers: to plan a query takes less."""

_FORGOTTEN = 3600.0
"""Seconds after its last write when the draft of a piece counts as left by a process that was killed."""

_PATIENCE = 60.0
"""Seconds that a writer waits for another process."""
_PAUSE = 0.003
_TRIES = 20


@value
class Manifest:
    """A version of a table. pieces: names of files, in the order of their rows. compactions: by names of files, the
    last ones, in their order. note: a text of the writer.

    retired: pieces that may be in use, each with the first version that does not have it. `publish` adds them.
    """

    columns: Columns
    pieces: tuple[str, ...]
    compactions: tuple[Compaction, ...] = ()
    note: str = ""
    retired: tuple[tuple[str, int], ...] = ()

    def written(self) -> bytes:
        """The manifest as a file."""
        body = {
            "format": _FORMAT,
            "columns": self.columns,
            "pieces": self.pieces,
            "compactions": [[one.gone, one.came] for one in self.compactions[-MOST_COMPACTIONS:]],
            "note": self.note,
            "retired": self.retired,
        }
        return json.dumps(body).encode()


@contextmanager
def in_use(tables: Iterable[Table]) -> Iterator[None]:
    """Within the block no process removes files of these versions of tables. Raises SourceError."""
    with ExitStack() as files:
        for manifest in {getattr(table.source, "manifest", "") for table in tables} - {""}:
            files.enter_context(_locked(manifest))
        yield


@contextmanager
def _locked(manifest: str) -> Iterator[None]:
    """Has a shared lock on a manifest; a version that is gone has none."""
    try:
        file = os.open(manifest, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise SourceError(f"cannot read {manifest}: {error.strerror or error}") from error
    keep_private(file)
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
    finally:
        forget_private(file)
        os.close(file)


@contextmanager
def version_in_use(folder: Path) -> Iterator[Manifest]:
    """The present version. Within the block no process removes its files. Raises SourceError, TableChanged."""
    for _ in range(_TRIES):
        number, manifest = _present(os.fspath(folder))
        with _locked(path := _path(folder, number)):
            if os.path.exists(path):
                yield manifest
                return
    raise TableChanged(f"{folder} keeps changing: other processes write to it")


def written_at(place: Path) -> float:
    """The time when the present version of a table, or a file, was written. Raises OSError."""
    found = manifests(place) if place.is_dir() else []
    return (place / found[-1][1] if found else place).stat().st_mtime


def has_piece(folder: Path, file: Path) -> bool:
    """True for a file that is a piece of the present version, too. Raises SourceError."""
    return any((folder / name).samefile(file) for name in manifest_of(folder).pieces)


def latest(folder: str | os.PathLike[str]) -> str:
    """The number of the present version. Raises SourceError."""
    with reading(os.fspath(folder)):
        found = manifests(folder)
    if not is_present(found):
        raise SourceError(f"the table in {folder} was dropped")
    return str(found[-1][0])


def manifest_of(folder: str | os.PathLike[str]) -> Manifest:
    """The manifest of the present version. Raises SourceError."""
    return _present(os.fspath(folder))[1]


def opened(folder: str) -> tuple[Columns, ParquetSource]:
    """The columns and the source of the present version. Raises SourceError."""
    for _ in range(_TRIES):
        number, manifest = _present(folder)
        paths = [os.path.join(folder, name) for name in manifest.pieces]
        try:
            files = tuple(open_written(paths))
        except (SourceError, TableChanged):
            if latest(folder) == str(number):
                raise
            continue  # another process has made a version since, and removed this one
        at, casts = str(number), len({file.schema for file in files}) > 1
        cuttable = all(name.lower() != "file_row_number" for name, _ in manifest.columns)
        compactions = tuple(one.mapped(lambda name: os.path.join(folder, name)) for one in manifest.compactions)
        return manifest.columns, ParquetSource(
            files,
            casts=casts,
            cuttable=cuttable,
            log=CREATED,
            at=at,
            compactions=compactions,
            manifest=_path(folder, number),
        )
    raise TableChanged(f"{folder} keeps changing: other processes write to it")


def _present(folder: str) -> tuple[int, Manifest]:
    for _ in range(_TRIES):
        number = int(latest(folder))
        with suppress(FileNotFoundError):  # removed: there is a later version by now
            return number, _read(_path(folder, number))
    raise TableChanged(f"{folder} keeps changing: other processes write to it")


def _read(path: str) -> Manifest:
    try:
        with open(path, "rb") as file:
            return _understood(json.loads(file.read()))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{path} is no manifest that this version of qoop reads: {error}") from error


def _understood(body: Mapping[str, Any]) -> Manifest:
    if body["format"] != _FORMAT:
        raise ValueError(f"its format is {body['format']!r}, not {_FORMAT}")
    pieces = tuple(map(str, body["pieces"]))
    strange = next((name for name in pieces if not _PIECE.fullmatch(name)), None)
    if strange is not None:
        raise ValueError(f"{strange!r} is no name of a piece")
    columns = tuple((str(name), str(type_)) for name, type_ in body["columns"])
    compactions = tuple(Compaction(tuple(map(str, gone)), tuple(map(str, came))) for gone, came in body["compactions"])
    retired = tuple((str(piece), int(version)) for piece, version in body["retired"])
    return Manifest(columns, pieces, compactions, str(body["note"]), retired)


def _path(folder: str | os.PathLike[str], number: int) -> str:
    return os.path.join(folder, f"_{number}.json")


# Writing: within `exclusive`


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Within the block no other process, and no other session, changes the table. Makes the folder.

    Raises CatalogError if another one does so for a minute, OSError."""
    lock = _folder_lock(folder)
    try:
        yield
    finally:
        os.close(lock)


def _folder_lock(folder: Path) -> int:
    ends = time.monotonic() + _PATIENCE
    while True:
        make_folder(folder)
        lock = _try_lock(folder)
        if lock is not None:
            return lock
        if time.monotonic() > ends:
            raise CatalogError(f"another process has been changing the table in {folder} for {_PATIENCE:.0f} s")
        time.sleep(_PAUSE)


def _try_lock(folder: Path) -> int | None:
    """The open folder with a lock on it; None if another process has that, or has removed the folder."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if lock_now(lock) and os.stat(folder).st_ino == os.fstat(lock).st_ino:
            return lock
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


def write_piece(folder: Path, write: Callable[[Path], object]) -> str:
    """The name of another piece. write: writes the rows to a path."""
    name = _piece_name()
    write(folder / name)
    make_private(folder / name)
    return name


def adopt_piece(folder: Path, file: Path) -> str:
    """The name of another piece, which is an existing file. Raises OSError."""
    name = _piece_name()
    os.link(file, folder / name)
    return name


@contextmanager
def draft_piece(folder: Path) -> Iterator[Path]:
    """A path for the rows of a piece, which is removed after the block unless `take_draft` has taken it."""
    draft = folder / f"{_PACKED}{secrets.token_hex(8)}"
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def take_draft(folder: Path, draft: Path) -> str:
    """The name of another piece, which is a draft. Raises OSError."""
    name = _piece_name()
    make_private(draft)
    os.rename(draft, folder / name)
    return name


def _piece_name() -> str:
    return f"_{secrets.token_hex(8)}.parquet"


def publish(folder: Path, manifest: Manifest | None) -> None:
    """Make a version that survives a power failure; None: drop the table. Raises OSError, SourceError."""
    found = manifests(folder)
    number = found[-1][0] + 1 if found else 1
    before = manifest_of(folder) if is_present(found) else None
    if manifest is not None and before is not None:
        manifest = replace(manifest, retired=_retired(folder, before, manifest.pieces, number))
    draft = folder / _DRAFT
    known = () if before is None else before.pieces
    came = () if manifest is None else [folder / piece for piece in manifest.pieces if piece not in known]
    write_private(draft, b"" if manifest is None else manifest.written())
    sync_together(draft, *came)
    os.replace(draft, folder / f"_{number}.dropped" if manifest is None else _path(folder, number))
    sync_paths(folder, *(() if found else (folder.parent,)))


def _retired(folder: Path, before: Manifest, pieces: Sequence[str], number: int) -> tuple[tuple[str, int], ...]:
    """The pieces that the next version, of this number, does not have, and those before that are still there."""
    there = set(os.listdir(folder))
    still = (one for one in before.retired if one[0] in there)
    return (*still, *((piece, number) for piece in before.pieces if piece not in pieces))


def sweep(folder: Path) -> None:
    """Remove the versions that are not in use, and the pieces of no version; the folder, if nothing is left."""
    with suppress(OSError, SourceError):  # the next writer does it
        versions = manifests(folder)
        dropped, since = not is_present(versions), time.time() - _GRACE
        kept = [
            number
            for (number, name), (_, later) in pairwise(versions)
            if not ((dropped or os.stat(os.path.join(folder, later)).st_mtime < since) and _removed(folder / name))
        ]
        if dropped and kept:
            return
        used = set() if dropped else _used(manifest_of(folder), kept)
        for name in os.listdir(folder):
            if (_PIECE.fullmatch(name) and name not in used) or name == _DRAFT or _is_left(folder, name, dropped):
                (folder / name).unlink(missing_ok=True)
        if dropped:
            for _, name in versions[-1:]:
                (folder / name).unlink()
            folder.rmdir()


def _is_left(folder: Path, name: str, dropped: bool) -> bool:
    """True for the draft of a piece that no process will finish, or whose table was dropped."""
    return name.startswith(_PACKED) and (dropped or time.time() - (folder / name).stat().st_mtime > _FORGOTTEN)


def _used(manifest: Manifest, earlier: Sequence[int]) -> set[str]:
    """The pieces of the present version, and those of some earlier versions."""
    first = min(earlier, default=None)
    left = {piece for piece, version in manifest.retired if first is not None and first < version}
    return {*manifest.pieces, *left}


def _removed(manifest: Path) -> bool:
    """Remove the manifest of an earlier version, unless it has readers."""
    file = os.open(manifest, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if free := lock_now(file):
            manifest.unlink(missing_ok=True)
        return free
    finally:
        os.close(file)


def clean(tables: Path) -> None:
    """Remove what killed processes have left in the folders of created tables."""
    with suppress(OSError):
        for entry in os.scandir(tables):
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False) and _is_ours(entry.path):
                sweep_now(Path(entry.path))


def sweep_now(folder: Path) -> None:
    """As `sweep`, unless a process changes the table, which does it then. Raises OSError."""
    lock = _try_lock(folder)
    if lock is not None:
        try:
            sweep(folder)
        finally:
            os.close(lock)


def _is_ours(folder: str) -> bool:
    return bool(manifests(folder)) or any(map(_PIECE.fullmatch, os.listdir(folder)))
