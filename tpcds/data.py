"""Benchmark data as Parquet: TPC-DS and TPC-H at any scale from 0.01, made by the program `tpcgen-cli`.

The layout is the one `register_folder` reads: ``DIR/<table>/<table>.N.parquet`` for a fact table, which has
several files to spread, and ``DIR/<table>.parquet`` for a dimension. The texts of the queries lie in
``DIR/queries/<number>.sql``, if DuckDB is the version that they come with.

Tables are made in ``DIR/.making``: large ones one at a time, small ones together, since each start of the
generator takes up to a second. Complete tables move into place and are then entered in the manifest
(:mod:`qoop.tpcds.manifest`). Only what that lists counts: a run that was broken off goes on where it stopped. For
skewed data (:mod:`qoop.tpcds.skew`) the plain ones are made first, in ``DIR/.plain``, and copied from there.
The generator itself decides that a fact table below a million orders is one file, whatever its options say.

Row groups keep the generator's default of 7 MiB uncompressed (about 150,000 rows of store_sales). DuckDB 1.5.5
scans them as fast as groups of 16, 32 or 64 MiB (SF2, 2 threads: sum 40, 42, 44, 47 ms; star join 47, 46, 48,
49 ms; group-by of customers 56, 89, 93, 96 ms), and small groups can be shared out more evenly.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from qoop.catalog.errors import ConfigError, DiskFull, ExecutionError, QoopError
from qoop.tpcds import queries
from qoop.tpcds.manifest import Manifest, TableFiles, file_size, read_manifest
from qoop.tpcds.skew import Skew, SkewedCopy
from qoop.tpcds.skew_tpch import SkewedTpchCopy

MINIMUM_SCALE = 0.01
_Make = Callable[[list[str], Path, Callable[[int], None]], None]  # makes tables in a folder, and tells bytes written

_WORKSHOP = ".making"
_PLAIN = ".plain"

# Tables and their size in MB at scale 1; those of zero hardly grow. Sizes only feed the progress bar and the
# check for space on the disk.
_TPCDS_TABLES = {
    "call_center": 0, "catalog_page": 1, "catalog_returns": 13, "catalog_sales": 122, "customer": 7,
    "customer_address": 2, "customer_demographics": 9, "date_dim": 3, "dbgen_version": 0,
    "household_demographics": 0, "income_band": 0, "inventory": 36, "item": 2, "promotion": 0, "reason": 0,
    "ship_mode": 0, "store": 0, "store_returns": 18, "store_sales": 145, "time_dim": 2, "warehouse": 0,
    "web_page": 0, "web_returns": 6, "web_sales": 57, "web_site": 0,
}  # fmt: skip
_TPCH_TABLES = {
    "region": 0, "nation": 0, "supplier": 1, "customer": 13, "part": 7, "partsupp": 45, "orders": 65, "lineitem": 240,
}  # fmt: skip
_TABLES: Mapping[str, Mapping[str, int]] = {"tpcds": _TPCDS_TABLES, "tpch": _TPCH_TABLES}
_SPLIT = {
    "tpcds": {"catalog_returns", "catalog_sales", "inventory", "store_returns", "store_sales", "web_returns",
              "web_sales"},
    "tpch": {"partsupp", "orders", "lineitem"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: the file in the making, the bytes done, and about how many there will be."""

    table: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Generated:
    """The outcome: tables made now and found finished, bytes of all of them, seconds taken.

    without_texts: why the folder holds no texts of the queries; empty if it does.
    """

    made: tuple[str, ...]
    kept: tuple[str, ...]
    bytes: int
    seconds: float
    without_texts: str = ""


def generate(
    scale: float,
    directory: str | Path,
    progress: Callable[[Progress], None] | None = None,
    *,
    suite: str = "tpcds",
    skew: Skew | None = None,
) -> Generated:
    """Make the tables of a suite at `scale` (about `scale` GB of text) in `directory`, or finish what was begun.

    progress: is called about five times a second. skew: map the foreign keys; the tables are made plain
    first, which takes as much space again until the end.

    Raises ConfigError if the scale is below 0.01, the folder cannot be written or holds something else (another
    scale, suite, or files of another origin), or `tpcgen-cli` is not installed; DiskFull if there is no space left;
    ExecutionError if the generator fails. Whatever happens, the folder can be finished by a later call.
    """
    _check(scale, suite)
    program = find_generator()
    version = _version(program)
    folder = _writable(Path(directory))
    begun = time.monotonic()
    with _locked(folder), _own_errors(folder):
        manifest = _begin(folder, Manifest(suite, scale, version, skew=skew))
        kept = {name for name, table in manifest.tables.items() if table.are_in(folder)}
        missing = [name for name in _TABLES[suite] if name not in kept]
        if missing and manifest.generator != version:
            raise ConfigError(
                f"{folder} was begun with {manifest.generator}, and {version} may make other rows; remove it first"
            )
        _check_space(folder, suite, scale, missing)
        done = set(kept)
        if missing:
            with _maker(folder, manifest, program, progress) as make:
                for batch in _batches(suite, missing):
                    manifest = _make(folder, manifest, batch, make, _reporter(progress, suite, scale, batch, done))
                    done.update(batch)
        for left in (_WORKSHOP, _PLAIN):
            shutil.rmtree(folder / left, ignore_errors=True)
        without_texts = _keep_texts(folder, suite)
    size = sum(sum(table.files.values()) for table in manifest.tables.values())
    return Generated(tuple(missing), tuple(sorted(kept)), size, time.monotonic() - begun, without_texts)


def find_generator() -> Path:
    """The program tpcgen-cli: next to the running Python, else on the PATH. ConfigError if it is in neither."""
    neighbour = Path(sys.executable).parent / "tpcgen-cli"
    found = str(neighbour) if os.access(neighbour, os.X_OK) else shutil.which("tpcgen-cli")
    if found is None:
        raise ConfigError("the generator tpcgen-cli is not installed: pip install tpcgen-cli (or 'qoop[tpcds]')")
    return Path(found)


def _check(scale: float, suite: str) -> None:
    if suite not in _TABLES:
        raise ConfigError(f"there is no suite {suite!r}; there are {', '.join(_TABLES)}")
    if not math.isfinite(scale) or scale < MINIMUM_SCALE:
        raise ConfigError(f"the scale must be at least {MINIMUM_SCALE}, not {scale:g}")


def _version(program: Path) -> str:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ConfigError(f"{program} does not run: {answer.stderr.strip()}")
    return answer.stdout.strip()


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot write in {folder}: no permission")
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep a second run out. The lock is on the folder itself: it leaves no file and ends with the process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise ConfigError(f"another run is generating data in {folder}") from error
    finally:
        os.close(handle)


@contextmanager
def _own_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into ours."""
    try:
        yield
    except OSError as error:
        raise _storage_error(folder, error.strerror or str(error), error.errno) from error


def _storage_error(folder: Path, reason: str, number: int | None) -> QoopError:
    if number in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no space left for the data in {folder}; free some and run it again to go on")
    return ConfigError(f"cannot write in {folder}: {reason}")


def _begin(folder: Path, manifest: Manifest) -> Manifest:
    """The manifest of earlier runs if they made the same data, else a new one for an empty folder."""
    shutil.rmtree(folder / _WORKSHOP, ignore_errors=True)
    found = read_manifest(folder)
    if found is None:
        _refuse_strangers(folder, manifest.suite)
        manifest.write(folder)
        return manifest
    if (found.suite, found.scale, found.skew) != (manifest.suite, manifest.scale, manifest.skew):
        raise ConfigError(f"{folder} holds {found}, not {manifest}; choose another folder or remove this one")
    return found


def _refuse_strangers(folder: Path, suite: str) -> None:
    taken = [path.name for path in sorted(folder.iterdir()) if path.name.removesuffix(".parquet") in _TABLES[suite]]
    if taken:
        raise ConfigError(f"{folder} holds {taken[0]}, which was not made by this command; choose an empty folder")


def _check_space(folder: Path, suite: str, scale: float, tables: list[str]) -> None:
    needed = sum(_expected_bytes(suite, scale, table) for table in tables)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DiskFull(
            f"{suite} at scale {scale:g} needs about {needed / 1e9:.1f} GB in {folder}, "
            f"but only {free / 1e9:.1f} GB are free"
        )


def _expected_bytes(suite: str, scale: float, table: str) -> int:
    return int(_TABLES[suite][table] * 1e6 * scale)


def _batches(suite: str, tables: list[str]) -> list[list[str]]:
    """The tables that are made in one go: the small tables together, each large one alone."""
    small = [table for table in tables if table not in _SPLIT[suite]]
    return ([small] if small else []) + [[table] for table in tables if table in _SPLIT[suite]]


def _reporter(
    progress: Callable[[Progress], None] | None, suite: str, scale: float, batch: list[str], done: set[str]
) -> Callable[[int], None]:
    """A function of the bytes of the batch written so far."""
    weights = {name: max(1, _expected_bytes(suite, scale, name)) for name in _TABLES[suite]}
    before, total = sum(weights[name] for name in done), sum(weights.values())
    title = batch[0] if len(batch) == 1 else f"{len(batch)} small tables"

    def report(written: int) -> None:
        if progress is not None:
            progress(Progress(title, before + min(written, sum(weights[name] for name in batch)), total))

    return report


def _make(folder: Path, manifest: Manifest, batch: list[str], make: _Make, report: Callable[[int], None]) -> Manifest:
    """Make tables, move them into place and enter them in the manifest, in this order."""
    workshop = folder / _WORKSHOP
    workshop.mkdir(exist_ok=True)
    make(batch, workshop, report)
    made = {table: _move(folder, _generated(workshop, table), table) for table in batch}
    whole = replace(manifest, tables={**manifest.tables, **made})
    whole.write(folder)
    return whole


@contextmanager
def _maker(
    folder: Path, manifest: Manifest, program: Path, progress: Callable[[Progress], None] | None
) -> Iterator[_Make]:
    """A function that makes tables: by the generator, or, for skewed ones, as copies of what it makes first."""

    def generated(batch: list[str], workshop: Path, report: Callable[[int], None]) -> None:
        command = [str(program), manifest.suite, "parquet", "--scale-factor", str(manifest.scale)]
        parts = ["--parts", str(_parts(manifest.scale))] if batch[0] in _SPLIT[manifest.suite] else []
        tables = ["--tables", ",".join(batch)]
        _run([*command, *tables, *parts, "--no-progress", "--output-dir", str(workshop)], workshop, report)

    if manifest.skew is None:
        yield generated
        return
    plain = folder / _PLAIN
    generate(manifest.scale, plain, progress, suite=manifest.suite)
    copied = SkewedTpchCopy if manifest.suite == "tpch" else SkewedCopy
    with copied(_files(plain), manifest.skew, folder / _WORKSHOP) as copy:
        yield partial(_copied, copy, plain)


def _copied(copy: SkewedCopy, plain: Path, batch: list[str], workshop: Path, report: Callable[[int], None]) -> None:
    """Copy tables into the workshop with other keys."""
    for table in batch:
        for file in copy.files[table]:
            target = workshop / file.relative_to(plain)
            target.parent.mkdir(exist_ok=True)
            copy.write(table, file, target)
            report(_tree_size(workshop))


def _files(folder: Path) -> dict[str, list[Path]]:
    """The files of each table that the manifest lists."""
    manifest = read_manifest(folder)
    tables = {} if manifest is None else manifest.tables
    return {name: [folder / path for path in table.files] for name, table in tables.items()}


def _keep_texts(folder: Path, suite: str) -> str:
    """Write the texts of the queries next to the tables, if they are not there; why not, if that cannot be."""
    if not queries.are_kept(queries.SUITES[suite], folder):
        try:
            queries.keep(queries.SUITES[suite], folder)
        except ConfigError as error:
            return str(error)
    return ""


def _move(folder: Path, source: Path, table: str) -> TableFiles:
    """Put what the generator made of a table in place of whatever is there."""
    rows = sum(_rows(path) for path in (source.iterdir() if source.is_dir() else [source]))
    for name in (table, f"{table}.parquet"):
        _remove(folder / name)
    moved = source.rename(folder / source.name)
    files = sorted(moved.iterdir()) if moved.is_dir() else [moved]
    return TableFiles(rows, {str(path.relative_to(folder)): path.stat().st_size for path in files})


def _parts(scale: float) -> int:
    """Files of a fact table: four, and above scale 4 about one for each 150 MB of the largest."""
    return max(4, min(256, math.ceil(scale)))


def _run(command: list[str], workshop: Path, report: Callable[[int], None]) -> None:
    """Run the generator, telling five times a second how many bytes it has written."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            while True:
                report(_tree_size(workshop))
                try:
                    _, said = process.communicate(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        full = "No space left" in said or "os error 28" in said
        if full:
            raise OSError(errno.ENOSPC, said.strip())
        raise ExecutionError(f"tpcgen-cli failed with exit code {process.returncode}: {said.strip() or 'no message'}")


def _generated(workshop: Path, table: str) -> Path:
    """The output of the generator for a table: a folder of several files, or one file called like the table."""
    folder = workshop / table
    files = sorted(folder.glob("*.parquet"))
    if len(files) != 1:
        return folder if files else workshop / f"{table}.parquet"
    alone = files[0].rename(workshop / f"{table}.parquet")
    folder.rmdir()
    return alone


def _rows(path: Path) -> int:
    """Rows by the Parquet footer, which is written last: a file that has one is whole."""
    import pyarrow.parquet as parquet

    try:
        return int(parquet.read_metadata(path).num_rows)
    except Exception as error:
        raise ExecutionError(f"tpcgen-cli wrote a file that is not whole, {path.name}: {error}") from error


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _tree_size(folder: Path) -> int:
    return sum(max(0, file_size(path)) for path in folder.rglob("*.parquet*"))
