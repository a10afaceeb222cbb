"""Loads what a page needs, or says what is missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from qoop.catalog.errors import ConfigError


def opening() -> ModuleType:
    """The module :mod:`qoop.page.opening`. Raises ConfigError if the extra ``qoop[server]`` is missing."""
    try:
        return import_module("qoop.page.opening")
    except ModuleNotFoundError as error:
        raise ConfigError(f"there is no {error.name}, which a page needs: pip install 'qoop[server]'") from error
