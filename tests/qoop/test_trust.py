"""What lies on disk is not trusted because it lies there: flipped bits, planted files, files of somebody else's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import qoop
from qoop.catalog.sealed import opened, sealed
from qoop.catalog.user_key import user_key

TEXT = "SELECT count(*) AS n, sum(a) AS s FROM t WHERE a < 100"
RIGHT = [(100, 4950)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    duckdb.execute(f"COPY (SELECT i AS a FROM range(1000) r(i)) TO '{tmp_path}/data/t.parquet'")
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
