"""Files on disk are not trusted because they are there: flipped bits, planted files, files of somebody else's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.catalog.errors import CheckpointError
from qoop.catalog.signed_json import opened, sealed
from qoop.catalog.user_key import user_key
from qoop.engine.storage.manifest import load_manifest
from qoop.engine.storage.segments import checksum

TEXT = "SELECT count(*) AS n, sum(a) AS s FROM t WHERE a < 100"
RIGHT = [(100, 4950)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    duckdb.connect().execute(f"COPY (SELECT i AS a FROM range(1000) r(i)) TO '{tmp_path}/data/t.parquet'")
    return tmp_path / "data"


def answer(data: Path, **options: object) -> tuple[list[tuple[object, ...]], int]:
    """The rows, and how many plans were found."""
    with qoop.connect(slots=1, memory="500MB", **options) as session:  # type: ignore[arg-type]
        session.register_folder(data)
        return session.sql(TEXT).fetchall(), session.plan_cache.hits


def raised(text: bytes) -> bytes:
    assert text.count(b"< 100") >= 1
    return text.replace(b"< 100", b"< 500")


def raised_under_a_checksum(text: bytes) -> bytes:
    return sealed(_raised_body(text)).encode()


def raised_under_another_seal(text: bytes) -> bytes:
    return sealed(_raised_body(text), b"the key of somebody else").encode()


def reading_a_file(text: bytes) -> bytes:
    """Sealed with the right key: only the check of the SQL is left."""
    body = opened(text)
    for stage in body["plans"][0]["stages"]:
        stage["sql"] = stage["sql"].replace(
            "SELECT", "SELECT (SELECT max(content) FROM read_text('/etc/hostname')),", 1
        )
    return sealed(body, user_key()).encode()


def _raised_body(text: bytes) -> dict[str, object]:
    body: dict[str, object] = json.loads(raised(text))
    return {name: value for name, value in body.items() if name not in ("checksum", "seal")}


@pytest.mark.parametrize("change", [raised, raised_under_a_checksum, raised_under_another_seal, reading_a_file])
def test_a_plan_that_was_changed_is_a_miss(data: Path, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    folder = tmp_path / "kept"
    assert answer(data, plan_cache=folder) == (RIGHT, 0)
    assert answer(data, plan_cache=folder) == (RIGHT, 1)
    [file] = (folder / "plans").iterdir()
    whole = file.read_bytes()
    file.write_bytes(change(whole))
    assert answer(data, plan_cache=folder) == (RIGHT, 0)
    assert file.read_bytes() == whole, "it was replaced"
    assert answer(data) == (RIGHT, 0)


def test_plans_are_not_kept_where_there_can_be_no_key(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    monkeypatch.setenv("QOOP_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.warns(RuntimeWarning, match=r"cannot be kept in .*QOOP_KEY_FILE"):
        assert answer(data, plan_cache=tmp_path / "kept") == (RIGHT, 0)
    assert not (tmp_path / "kept").exists()


# Checkpoints


def outputs(place: Path) -> list[Path]:
    return [path for path in place.rglob("*.json") if "plans" not in path.parts and "users" not in path.parts]


def plant(place: Path) -> int:
    """Change a byte of every row segment that holds some, and meet every checksum: all but the seal."""
    planted = 0
    for path in outputs(place):
        body = opened(path.read_bytes())
        file = path.parent / body["data"]
        content = bytearray(file.read_bytes())
        where = content.find((4950).to_bytes(16, "little"))
        if where >= 0:
            content[where] ^= 1
            planted += 1
        file.write_bytes(content)
        for segment in body["segments"]:
            rows = bytes(content)[segment["offset"] :][: segment["length"]]
            segment["checksum"] = checksum(rows)
            segment["sha256"] = hashlib.sha256(rows).hexdigest() if segment["sha256"] else ""
        path.write_text(sealed(body))
    return planted


@pytest.mark.parametrize("shared", [False, True], ids=["folder", "store"])
def test_with_a_key_of_ones_own_planted_outputs_are_made_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    place = tmp_path / "kept"
    place.mkdir()
    where = place.as_uri() if shared else place

    def rows() -> list[tuple[object, ...]]:
        monkeypatch.setenv("QOOP_CACHE_DIR", str(tmp_path / f"machine{len(list(tmp_path.iterdir()))}"))
        return answer(data, checkpoints=where)[0]

    assert rows() == RIGHT
    assert plant(place)
    assert rows() != RIGHT, "without a key, who can write to the place is trusted"
    monkeypatch.setenv("QOOP_KEY", "a key of my own, or of my team's")
    assert rows() == RIGHT
    made = {path: path.read_bytes() for path in outputs(place)}
    assert rows() == RIGHT
    assert made == {path: path.read_bytes() for path in outputs(place)}, "it was found again"
    assert plant(place)
    assert rows() == RIGHT
    monkeypatch.delenv("QOOP_KEY")
    assert rows() == RIGHT


def test_a_folder_that_everybody_can_write_to_needs_a_key(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(qoop.ConfigError, match="everybody can write to it: chmod o-w it, or set QOOP_KEY_FILE"):
        answer(data, checkpoints=tmp_path / "open")
    monkeypatch.setenv("QOOP_KEY", "a key of my own, or of my team's")
    assert answer(data, checkpoints=tmp_path / "open")[0] == RIGHT


WRONG_MANIFESTS: list[dict[str, object]] = [
    {"segments": [{"offset": "x"}]}, {"segments": 3}, {"facts": {}}, {"key": []}, {"data": 7}, {"data": "../../x"},
    {"digest": {"rows": []}}, {"version": 2}, {"format": None}, {"key": {"signature": 1, "layout": "x", "part": 0}},
]  # fmt: skip


@pytest.mark.parametrize("change", WRONG_MANIFESTS, ids=str)
def test_manifests_of_wrong_types_count_as_none(data: Path, tmp_path: Path, change: dict[str, object]) -> None:
    place = tmp_path / "kept"
    assert answer(data, checkpoints=place)[0] == RIGHT
    for path in outputs(place):
        path.write_text(sealed({**opened(path.read_bytes()), **change}))
    assert answer(data, checkpoints=place)[0] == RIGHT
    for name in ("rows", "bytes", "length", "offset", "checksum"):
        for value in ("x", -1, 1.5, None, [1]):
            for path in outputs(place):
                body = opened(path.read_bytes())
                body["segments"][0][name] = value
                assert load_manifest_fails(sealed(body).encode())


def load_manifest_fails(text: bytes) -> bool:
    with pytest.raises(CheckpointError, match="damaged"):
        load_manifest(text)
    return True
