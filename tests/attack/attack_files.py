"""Files of every kind that qoop writes and reads later, damaged, swapped and planted: no wrong rows, no raw error.

A world is made once: tables, and all that a session leaves behind (plans, statistics, calibration, checkpoints in a
folder and in a store, parts of that store on this machine, a suspended job, a trace, a qoop.toml, a key). Each try
takes a fresh copy, harms one file of it, and has it read. It holds if the rows are right, or an error of qoop's own
says what is wrong.

- *flip*, *cut*, *grow*, *empty*, *noise*: what disks and killed processes do
- *swap*: another file of the world lies there
- *version*: a file of another format, sealed with the user's own key
- *types*: a value of another JSON type, with a right checksum (and for statistics, with the right seal)
- *plant*: other text in the SQL, names and numbers, with a right checksum: all that somebody without the key can do
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
from attack_outcome import Outcome

import qoop
from qoop.adaptive.cluster.recording.trace import Chain
from qoop.adaptive.retrace.reading import read_trace
from qoop.adaptive.retrace.rerun import rerun
from qoop.catalog.signed_json import sealed
from qoop.catalog.user_key import user_key
from qoop.engine.history import Started
from qoop.interfaces.commands.calibration import Calibration, save
from qoop.planner.estimate.cost import DEFAULT
from qoop.query.calibrated import calibration_path

SERIES = "corrupted files"
STAGED: dict[str, Any] = {"staged": True, "statistics": "full"}  # else there are no plans and statistics to damage
TEXT = (
    "SELECT k, count(*) AS n, sum(v) AS s, max(name) AS m FROM t JOIN d USING (k) WHERE v < 100 GROUP BY k ORDER BY k"
)
LONG = (
    "SELECT k, n, f FROM (SELECT k, count(*) AS n, sum(v) AS f FROM t GROUP BY k) "
    "JOIN (SELECT k, max(v) AS m FROM t GROUP BY k) USING (k) ORDER BY k"
)
KEY = "the key of the attacked user"
ODD: tuple[Any, ...] = (None, True, -1, 1.5, 10**30, "x", "", [], [1], {}, {"a": 1}, "../../x", "\u0000")

Rows = list[tuple[object, ...]]


def files(folder: Path, seed: int, count: int) -> Iterator[Outcome]:
    """Harm a file of a world in `folder`, have it read, `count` times."""
    with _environment(folder):
        world = folder / "world"
        _make(world)
        right = {text: _oracle(world, text) for text in (TEXT, LONG)}
        for number in range(count):
            yield _one(folder, world, f"{seed}.{number}", right)


def _one(folder: Path, world: Path, name: str, right: dict[str, Rows]) -> Outcome:
    rng = random.Random(name)
    kind = rng.choice(sorted(_KINDS))
    victims = sorted(path for path in world.glob(kind) if path.is_file() and path.name != "lock")
    victim = rng.choice(victims)
    harm = rng.choice(sorted(_HARMS))
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(world, copy)
    target = copy / victim.relative_to(world)
    told = f"try {name}: {harm} {victim.relative_to(world)}"
    try:
        _HARMS[harm](target, victims, rng)
        what = _KINDS[kind](copy, right)
    except qoop.QoopError as error:
        return Outcome(SERIES, True, f"{told}: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
    except Exception as error:  # that is what is looked for
        return Outcome(SERIES, False, f"{told}: {error!r}")
    return Outcome(SERIES, what == "right", f"{told}: {what}")


@contextlib.contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """The user's folders lie in this one; warnings, which damage causes, are not shown."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("QOOP_")]:
        del os.environ[name]
    os.environ |= {"XDG_CONFIG_HOME": str(folder / "copy" / "config"), "QOOP_CACHE_DIR": str(folder / "copy" / "cache")}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# The world


def _make(world: Path) -> None:
    """Let sessions leave all kinds of files behind."""
    copy = world.parent / "copy"
    for path in (world, copy):
        shutil.rmtree(path, ignore_errors=True)
    (copy / "store").mkdir(parents=True)
    (_data(copy)).mkdir(exist_ok=True)
    places = (f"TO '{_data(copy)}/{name}.parquet' (ROW_GROUP_SIZE 20480)" for name in "td")
    duckdb.connect().execute(f"COPY (SELECT i % 20 AS k, i % 997 AS v FROM range(200000) r(i)) {next(places)}")
    duckdb.connect().execute(f"COPY (SELECT i AS k, 'name ' || i AS name FROM range(20) r(i)) {next(places)}")
    user_key()
    (copy / "config" / "qoop" / "qoop.toml").write_text('slots = 1\nmemory = "500MB"\n')
    save(Calibration(DEFAULT, (), 1.0), calibration_path())
    _rows(copy, plan_cache=copy / "plans", trace=copy / "trace.jsonl")
    (copy / "trace").mkdir()
    (copy / "trace.jsonl").rename(copy / "trace" / "session.jsonl")
    with _key():
        _rows(copy, checkpoints=copy / "checkpoints", plan_cache=copy / "unused")
        _rows(copy, checkpoints=(copy / "store").as_uri())
    _suspend(copy)
    (copy / "checkpoints" / f"{'0' * 16}.user").write_text(f"+{'a' * 32}\n+{'b' * 32}\n")
    (copy / "store" / "users").mkdir(exist_ok=True)
    (copy / "store" / "users" / f"{'0' * 16}.json").write_text('{"seconds": 60.0, "needed": ["a/0"]}')
    shutil.copytree(copy, world)
    _find_all(copy)


def _data(copy: Path) -> Path:
    """The tables, which no try changes: a copy of them would be of another version."""
    return copy.parent / "data"


def _find_all(copy: Path) -> None:
    """See that what was left behind is found again: else nothing would be attacked."""
    with qoop.connect(slots=2, memory="500MB", **STAGED, plan_cache=copy / "plans") as session:
        session.register_folder(_data(copy))
        session.sql(TEXT)
        assert session.plan_cache.hits, "the plan was not found again"
    for place in (copy / "checkpoints", (copy / "store").as_uri()):
        with _key(), qoop.connect(slots=2, memory="500MB", **STAGED, checkpoints=place) as session:
            session.register_folder(_data(copy))
            job = session.submit(TEXT)
            job.result()
            assert not any(isinstance(record, Started) for record in job.history()), f"nothing is found in {place}"


def _suspend(copy: Path) -> None:
    """A job that is stopped in the middle; of a machine so fast that there is none, one that has not begun."""
    for begun in (True, True, True, False):
        with qoop.connect(slots=1, memory="500MB", **STAGED) as session:
            session.register_folder(_data(copy))
            if not begun:
                session.resize(slots=0)
            job = session.submit(LONG)
            while begun and not job.progress().present and job.state == "RUNNING":
                time.sleep(0.001)
            with contextlib.suppress(qoop.ConfigError):
                job.suspend(copy / "bundle" / "job")
                return


def _oracle(world: Path, text: str) -> Rows:
    with duckdb.connect() as connection:
        for name in "td":
            connection.execute(f"CREATE VIEW {name} AS FROM '{_data(world)}/{name}.parquet'")
        rows = connection.execute(text).fetchall()
    assert rows
    return rows


def _rows(copy: Path, **options: Any) -> Rows:
    with qoop.connect(slots=2, memory="500MB", **STAGED, **options) as session:
        session.register_folder(_data(copy))
        return session.submit(TEXT, timeout=60).result().fetchall()


# Who reads what


@contextlib.contextmanager
def _key() -> Iterator[None]:
    """With a key that was chosen, as by those who share a place with others."""
    os.environ["QOOP_KEY"] = KEY
    try:
        yield
    finally:
        del os.environ["QOOP_KEY"]


def _compared(found: Rows, right: Rows) -> str:
    return "right" if found == right else f"WRONG ROWS {found[:3]}"


def _read_session(copy: Path, right: dict[str, Rows]) -> str:
    """Statistics, calibration, plans, qoop.toml and the user's key."""
    return _compared(_rows(copy, plan_cache=copy / "plans"), right[TEXT])


def _read_checkpoints(copy: Path, right: dict[str, Rows]) -> str:
    with _key():
        return _compared(_rows(copy, checkpoints=copy / "checkpoints"), right[TEXT])


def _read_store(copy: Path, right: dict[str, Rows]) -> str:
    """From another machine, which has no parts of it."""
    shutil.rmtree(copy / "cache" / "parts", ignore_errors=True)
    return _read_parts(copy, right)


def _read_parts(copy: Path, right: dict[str, Rows]) -> str:
    with _key():
        return _compared(_rows(copy, checkpoints=(copy / "store").as_uri()), right[TEXT])


def _read_bundle(copy: Path, right: dict[str, Rows]) -> str:
    job = qoop.resume(copy / "bundle" / "job", slots=2, memory="500MB")
    return _compared(job.result().fetchall(), right[LONG])


def _read_trace(copy: Path, right: dict[str, Rows]) -> str:
    """Going through a trace may find a difference, which is told."""
    found = rerun(read_trace(copy / "trace" / "session.jsonl"))
    return "right" if str(found) else "nothing was told"


_KINDS: dict[str, Callable[[Path, dict[str, Rows]], str]] = {
    "plans/**/*": _read_session,
    "cache/statistics/*": _read_session,
    "cache/calibration.json": _read_session,
    "cache/parts/*": _read_parts,
    "config/**/*": _read_session,
    "checkpoints/*": _read_checkpoints,
    "store/**/*": _read_store,
    "bundle/**/*": _read_bundle,
    "trace/*": _read_trace,
}


# What is done to a file


def _flip(path: Path, others: list[Path], rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 2, 8))):
        if content:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def _cut(path: Path, others: list[Path], rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size + 1)])


def _grow(path: Path, others: list[Path], rng: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content + rng.choice((b"\n", b"}", content, rng.randbytes(100))))


def _empty(path: Path, others: list[Path], rng: random.Random) -> None:
    path.write_bytes(rng.choice((b"", b"{", b"{}", b"[]", b"null", b"[" * 100_000)))


def _noise(path: Path, others: list[Path], rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(path.stat().st_size))


def _swap(path: Path, others: list[Path], rng: random.Random) -> None:
    path.write_bytes(rng.choice(others).read_bytes())


def _version(path: Path, others: list[Path], rng: random.Random) -> None:
    def other(body: dict[str, Any]) -> None:
        for name in ("format", "version"):
            if isinstance(body.get(name), int):
                body[name] += rng.choice((-1, 1, 97))

    _rewrite(path, other, rng, user_key())


def _types(path: Path, others: list[Path], rng: random.Random) -> None:
    """One value, at any depth, becomes one of another type."""

    def change(body: dict[str, Any]) -> None:
        at, name = rng.choice(list(_places(body)))
        at[name] = rng.choice([value for value in ODD if type(value) is not type(at[name])])

    _rewrite(path, change, rng, user_key() if path.parent.name == "statistics" else None)


def _plant(path: Path, others: list[Path], rng: random.Random) -> None:
    """Numbers and texts become others of their type."""

    def change(body: dict[str, Any]) -> None:
        for at, name in rng.sample(places := list(_places(body)), min(3, len(places))):
            at[name] = _another(at[name])

    _rewrite(path, change, rng, None)


def _another(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("100", "500") if "100" in value else f"{value} UNION ALL SELECT 1 --"
    return value + 1 if type(value) in (int, float) else value


def _places(item: Any) -> Iterator[tuple[Any, Any]]:
    """All places of a tree of JSON, as container and key."""
    for name in list(item) if isinstance(item, dict) else range(len(item)):
        yield item, name
        if isinstance(item[name], dict | list):
            yield from _places(item[name])


def _rewrite(path: Path, change: Callable[[dict[str, Any]], None], rng: random.Random, key: bytes | None) -> None:
    """Change the JSON of a file, and make its checksums fit; what is no JSON has a bit flipped."""
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.suffix == ".jsonl" else None
        body = json.loads(path.read_text()) if lines is None else rng.choice(lines)
    except ValueError:
        _flip(path, [], rng)
        return
    for item in lines or [body]:
        for name in ("checksum", "seal", "sum"):
            item.pop(name, None)
    change(body)
    if lines is not None:
        chain = Chain()
        path.write_text("".join(f"{chain.sealed(json.dumps(line))}\n" for line in lines))
    else:
        path.write_text(sealed(body or {"x": 1}, key))


_HARMS: dict[str, Callable[[Path, list[Path], random.Random], None]] = {
    "flip": _flip, "cut": _cut, "grow": _grow, "empty": _empty, "noise": _noise, "swap": _swap, "version": _version,
    "types": _types, "plant": _plant,
}  # fmt: skip
