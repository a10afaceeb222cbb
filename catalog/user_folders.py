"""The user's own folders: one for caches, one for configuration."""

from __future__ import annotations

import os
import sys
from pathlib import Path


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
