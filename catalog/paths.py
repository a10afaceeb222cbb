"""Paths that come from outside, checked before any file system gets them, and the user's folders."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from qoop.catalog.errors import ConfigError, SourceError

MOST_BYTES = 255
"""Of a part of a path, on every file system in use."""


def fault_of(path: str) -> str | None:
    """The reason why a text cannot be a path; None if it may be one.

    >>> fault_of("/data/x.parquet"), fault_of("a\\0b")
    (None, 'it holds a NUL')
    """
    fault = text_fault(path)
    if fault is not None:
        return fault
    parts = path.encode().split(b"/")
    return f"a part of it has more than {MOST_BYTES} bytes" if max(map(len, parts)) > MOST_BYTES else None


def text_fault(text: str) -> str | None:
    """The reason why no file system and no SQL can hold a text; None if they can."""
    if "\0" in text:
        return "it holds a NUL"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it is not UTF-8"
    return None


def source_path(path: str | os.PathLike[str]) -> str:
    """The text of a path to read from. Raises SourceError."""
    text = os.fspath(path)
    fault = fault_of(text)
    if fault is not None:
        raise SourceError(f"{_short(text)} is no path: {fault}")
    return text


def absolute(path: str | os.PathLike[str]) -> Path:
    """An absolute path of a folder or file from a user's settings. Raises ConfigError."""
    text = os.fspath(path)
    fault = fault_of(text)
    if fault is not None:
        raise ConfigError(f"{_short(text)} is no path: {fault}")
    return Path(os.path.expanduser(text)).absolute()


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


def cache_directory() -> Path:
    """The folder of caches: ``QOOP_CACHE_DIR``, else qoop's folder among the user's caches."""
    chosen = os.environ.get("QOOP_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "qoop"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "qoop" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qoop"


def config_directory() -> Path:
    """The folder of the user's key and the user's qoop.toml."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "qoop"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "qoop"
