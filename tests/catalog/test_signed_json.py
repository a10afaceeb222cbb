"""Documents that show whether they are as they were written, and the key that tells by whom."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qoop.catalog.errors import ConfigError
from qoop.catalog.signed_json import NotAsWritten, NotSealed, opened, sealed
from qoop.catalog.user_key import chosen_key, config_directory, user_key

BODY = {"format": "qoop-example", "rows": [1, 2.5, None, "ä\n"], "deep": {"a": True}}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "qoop" / "key"


@pytest.mark.parametrize("key", [None, b"secret"])
@pytest.mark.parametrize("indent", [None, 1])
def test_what_is_written_is_read_and_is_json(key: bytes | None, indent: int | None) -> None:
    text = sealed(BODY, key, indent)
    assert opened(text.encode(), key) == BODY == opened(text.encode())
    assert BODY.items() <= json.loads(text).items()


@pytest.mark.parametrize("key", [None, b"secret"])
def test_every_flipped_bit_and_every_missing_end_is_found(key: bytes | None) -> None:
    whole = sealed(BODY, key).encode()
    for place in range(len(whole)):
        for bit in range(8):
            text = bytearray(whole)
            text[place] ^= 1 << bit
            with pytest.raises((NotAsWritten, NotSealed)):
                opened(bytes(text), key)
        with pytest.raises(NotAsWritten):
            opened(whole[:place], key)


def test_only_who_has_the_key_can_seal() -> None:
    for text in (sealed(BODY), sealed(BODY, b"another")):
        with pytest.raises(NotSealed):
            opened(text.encode(), b"secret")


@pytest.mark.parametrize("content", ["[1]", "[" * 100_000, '"a": NaN', ""])
def test_a_right_checksum_over_something_else(content: str) -> None:
    from hashlib import blake2b

    digest = blake2b(content.encode(), digest_size=32).hexdigest()
    with pytest.raises(NotAsWritten, match="JSON"):
        opened(f'{{"checksum": "{digest}", {content}'.encode())


def test_the_key_is_made_once_and_is_nobody_elses(own: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(lambda _: user_key(), range(32)))
    assert len(keys) == 1
    assert (own.stat().st_mode & 0o777, own.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [file.name for file in own.parent.iterdir()] == ["key"], "no draft is left"
    assert config_directory() == own.parent
    assert chosen_key() is None


def test_a_key_that_others_can_read_is_refused(own: Path) -> None:
    user_key()
    own.chmod(0o644)
    with pytest.raises(ConfigError, match=f"{own} .mode 644.: chmod 600"):
        user_key()


def test_a_key_can_be_chosen(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "team.key"
    file.write_text("a key that the whole team has\n")
    file.chmod(0o644)
    monkeypatch.setenv("QOOP_KEY_FILE", str(file))
    key = user_key()
    assert key == chosen_key()
    monkeypatch.delenv("QOOP_KEY_FILE")
    monkeypatch.setenv("QOOP_KEY", "a key that the whole team has")
    assert user_key() == key
    assert not own.exists()


def test_bad_keys_are_told(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOOP_KEY", "short")
    with pytest.raises(ConfigError, match="QOOP_KEY has fewer than 16 characters"):
        user_key()
    monkeypatch.delenv("QOOP_KEY")
    monkeypatch.setenv("QOOP_KEY_FILE", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="none cannot be read"):
        user_key()
    (tmp_path / "open").write_text("x" * 20)
    (tmp_path / "open").chmod(0o666)
    monkeypatch.setenv("QOOP_KEY_FILE", str(tmp_path / "open"))
    with pytest.raises(ConfigError, match="chmod 600"):
        user_key()
    monkeypatch.delenv("QOOP_KEY_FILE")
    monkeypatch.setenv("XDG_CONFIG_HOME", os.devnull)
    with pytest.raises(ConfigError, match=r"cannot be made: .*QOOP_KEY"):
        user_key()
