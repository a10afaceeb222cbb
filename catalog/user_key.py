"""The user's key, by which qoop recognises the files that it has written: 32 bytes.

``QOOP_KEY`` is the key as text, ``QOOP_KEY_FILE`` a file that holds it: for several machines, or several accounts,
that trust each other. Without either, the key is the file ``key`` in the user's configuration folder, which
is made when it is first needed and which only its owner can read.
"""

from __future__ import annotations

import contextlib
import os
from hashlib import blake2b
from pathlib import Path

from qoop.catalog.errors import ConfigError
from qoop.catalog.paths import config_directory
from qoop.catalog.stores.private import make_folder

_LEAST = 16
"""Characters of a key."""

_HOW = """make one with `python -c "import secrets; print(secrets.token_hex(32))"`"""


def chosen_key() -> bytes | None:
    """The key that ``QOOP_KEY`` or ``QOOP_KEY_FILE`` gives; None if neither is set.

    Raises ConfigError for a key that is too short, and a file that cannot be read or that others can write.
    """
    text, file = os.environ.get("QOOP_KEY"), os.environ.get("QOOP_KEY_FILE")
    if text:
        return _made_of(text, "QOOP_KEY")
    return _made_of(_read(Path(file).expanduser(), others=0o022), file) if file else None


def user_key() -> bytes:
    """The key that was chosen, else the one in the user's own file, which is made if it is missing.

    Raises ConfigError as :func:`chosen_key`, and if the file cannot be made or can be read by others.
    """
    chosen = chosen_key()
    if chosen is not None:
        return chosen
    path = config_directory() / "key"
    if not os.path.exists(path):  # unlike Path.exists, false for a folder that must not be looked into
        _make(path)
    return _made_of(_read(path, others=0o077), str(path))


def _made_of(text: str, where: str) -> bytes:
    if len(text.strip()) < _LEAST:
        raise ConfigError(f"the key in {where} has fewer than {_LEAST} characters: {_HOW}")
    return blake2b(text.strip().encode(), digest_size=32, person=b"qoop key").digest()


def _read(path: Path, others: int) -> str:
    """The text of a key file. others: rights that only its owner may have, as bits of its mode."""
    try:
        with path.open(encoding="utf-8") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the key file {path} cannot be read: {error}; {_HOW}") from error
    if os.name == "posix" and mode & others:
        raise ConfigError(f"others have access to the key file {path} (mode {mode & 0o777:03o}): chmod 600 it")
    return text


def _make(path: Path) -> None:
    """Make the file, with a new key, unless another process just did: all must agree on one."""
    draft = path.with_name(f".key-{os.urandom(8).hex()}")
    try:
        make_folder(path.parent)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(os.urandom(32).hex() + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise ConfigError(
            f"the key file {path} cannot be made: {error.strerror}; set QOOP_KEY_FILE, or QOOP_KEY"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
