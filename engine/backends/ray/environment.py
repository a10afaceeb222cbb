"""The environment of the processes on Ray nodes: wheels in it are unpacked here, where the session runs.

Ray would have pip install a wheel on every node with all that it depends on, which needs an index of packages and may
bring other versions of DuckDB than the session has. A wheel without compiled parts is a folder that only has to be on
the path, and as such Ray hands it to the nodes itself.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from qoop.catalog.errors import ConfigError

_PURE = "-none-any.whl"


@contextmanager
def with_wheels(runtime_env: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any] | None]:
    """The environment, with what is in the pure wheels among its `py_modules` in place of these.

    The folders are gone afterwards; `ray.init` has uploaded them by then. Raises ConfigError for a wheel that cannot be
    read.
    """
    modules = list((runtime_env or {}).get("py_modules") or ())
    if not any(map(_is_pure_wheel, modules)):
        yield runtime_env
        return
    with TemporaryDirectory(prefix="qoop-wheels-") as folder:
        found: list[object] = []
        for number, module in enumerate(modules):
            found += _unpacked(module, Path(folder) / str(number)) if _is_pure_wheel(module) else [module]
        yield {**(runtime_env or {}), "py_modules": found}


def _is_pure_wheel(module: object) -> bool:
    return isinstance(module, str | PathLike) and fspath(module).endswith(_PURE) and "://" not in fspath(module)


def _unpacked(wheel: str | PathLike[str], folder: Path) -> list[str]:
    try:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(folder)
    except (OSError, zipfile.BadZipFile) as error:
        raise ConfigError(f"the wheel {fspath(wheel)} cannot be read: {error}") from error
    return [str(path) for path in sorted(folder.iterdir())]
