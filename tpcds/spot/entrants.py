"""The engines at hand: those that come with an adapter, each in an environment of its own, and a user's own command."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from qoop.catalog.errors import ConfigError
from qoop.catalog.paths import cache_directory

REFERENCE = "duckdb"
_INSTALL_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """An engine with an adapter here. requirements: of its environment; none: that of this process."""

    module: str
    requirements: tuple[str, ...] = ()


BUILT_IN: Mapping[str, BuiltIn] = {
    "qoop": BuiltIn("qoop_resuming"),
    REFERENCE: BuiltIn("duckdb_again", ("duckdb==1.5.5", "pyarrow>=20")),
    "duckdb-keeping": BuiltIn("duckdb_keeping", ("duckdb==1.5.5", "pyarrow>=20", "sqlglot>=30.0,<31")),
    "polars": BuiltIn("polars_streaming", ("polars==2.1.0", "pyarrow>=20")),
    "datafusion": BuiltIn("datafusion_again", ("datafusion==55.0.0", "pyarrow>=20")),
    "spark": BuiltIn("spark_local", ("pyspark==4.3.0", "pyarrow>=20", "pandas>=2.2")),
}


@dataclass(frozen=True, slots=True)
class Entrant:
    """An engine to run. name: in the results. command: its adapter. is_own: a user's, which says its name itself."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    is_own: bool = False


def is_installed(name: str) -> bool:
    """True if a built-in engine can run without an installation."""
    return not BUILT_IN[name].requirements or _python(BUILT_IN[name]).exists()


def built_in(name: str, progress: Callable[[str], None] = print) -> Entrant:
    """An engine by its name; its environment is made if it is not there.

    Raises ConfigError if there is no such engine, or it cannot be installed.
    """
    if name not in BUILT_IN:
        raise ConfigError(f"there is no engine {name!r}; there are {', '.join(BUILT_IN)}, and --adapter CMD")
    one = BUILT_IN[name]
    if not is_installed(name):
        progress(f"installing {', '.join(one.requirements)}")
        _install(name, one)
    python = str(_python(one)) if one.requirements else sys.executable
    here = str(Path(__file__).parent)
    return Entrant(name, (python, "-m", f"adapters.{one.module}"), {"PYTHONPATH": here})


def code_digest() -> str:
    """Of the source of qoop, without its benchmarks: the version of an engine that runs from this very code."""
    digest = hashlib.sha256()
    for folder in ("catalog", "planner", "engine", "adaptive", "query", "programs", "session"):
        package = find_spec(f"qoop.{folder}")
        for place in (package.submodule_search_locations or ()) if package is not None else ():
            for path in sorted(Path(place).rglob("*.py")):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def of_command(text: str) -> Entrant:
    """A user's adapter. Raises ConfigError for a command that cannot be read."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--adapter {text!r} is no command: {error}") from error
    if not words:
        raise ConfigError("--adapter takes a command, such as 'python my_adapter.py'")
    command = [shutil.which(words[0]) or words[0], *words[1:]]
    return Entrant(
        text, tuple(str(Path(word).absolute()) if Path(word).is_file() else word for word in command), is_own=True
    )


def _folder(one: BuiltIn) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256("\n".join((version, *one.requirements)).encode()).hexdigest()[:12]
    return cache_directory() / "spot" / f"{one.module}-{digest}"


def _python(one: BuiltIn) -> Path:
    return _folder(one) / "whole" / "bin" / "python"


def _install(name: str, one: BuiltIn) -> None:
    """Make the environment of an engine, complete or not at all. Raises ConfigError."""
    draft = _folder(one) / "draft"
    try:
        venv.create(draft, clear=True, with_pip=True)
        _pip(draft, one.requirements)
        draft.rename(draft.parent / "whole")
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        reason = said.strip().splitlines()[-1] if said.strip() else str(error)
        raise ConfigError(f"the engine {name} is not installed and cannot be: {reason}") from error


def _pip(folder: Path, requirements: Sequence[str]) -> None:
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
