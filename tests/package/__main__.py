"""Builds the wheel and the sdist, and runs the fast tests of the sdist against the wheel, away from the checkout.

``python tests/package`` does so with this interpreter, ``python tests/package 3.11 3.12`` with each of these that is
at hand, and says which are not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAST = ("catalog", "engine", "planner", "policies", "theory", "test_architecture.py")
FAST_OF_QOOP = ("config", "cluster", "dbapi", "result", "session", "statements")
"""Folders and modules of tests that need no generated data and take some minutes together."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("versions", nargs="*", metavar="3.x", help="interpreters to look for (this one)")
    wanted = options.parse_args().versions or [f"{sys.version_info.major}.{sys.version_info.minor}"]
    with tempfile.TemporaryDirectory(prefix="qoop-package-") as folder:
        wheel, tree = built(Path(folder))
        outcomes = {version: outcome(version, wheel, tree, Path(folder)) for version in wanted}
    for version, what in outcomes.items():
        print(f"Python {version}: {what}")
    return 0 if set(outcomes.values()) <= {"passed", "not at hand"} and "passed" in outcomes.values() else 1


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel, and the sdist unpacked without the code: what is imported is installed."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT)], check=True)
    [wheel], [sdist] = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder / "sdist", filter="data")
    [tree] = (folder / "sdist").iterdir()
    return wheel, tree


def outcome(version: str, wheel: Path, tree: Path, folder: Path) -> str:
    """The outcome of the tests with one interpreter."""
    python = next(interpreters(version), None)
    if python is None:
        return "not at hand"
    place = folder / f"python{version}"
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    own = place / "bin" / "python"
    pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, f"{wheel}[dev]"]).returncode:
        return "its packages cannot be installed"
    print(f"== Python {version}: {subprocess.check_output([own, '--version'], text=True).strip()}", flush=True)
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "QOOP_"))}
    usual["PYTHONSAFEPATH"] = "1"  # what tests start imports what is installed, not the folder that they stand in
    tests = [*(f"tests/{name}" for name in FAST), *(f"tests/qoop/test_{name}.py" for name in FAST_OF_QOOP)]
    two = ("-n", "2", "--dist", "loadfile", "--tb", "short")
    done = subprocess.run([str(place / "bin" / "pytest"), "-q", *two, *tests], cwd=tree, env=usual)
    return "passed" if done.returncode == 0 else f"pytest ended with {done.returncode}"


def interpreters(version: str) -> Iterator[str]:
    """Those of a version: the one that runs this, those on the path, those of pyenv and uv."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield sys.executable
    found = shutil.which(f"python{version}")
    candidates: Sequence[str | Path] = [found] if found else []
    homes = (Path.home() / ".pyenv" / "versions", Path.home() / ".local" / "share" / "uv" / "python")
    there = [path for home in homes for path in sorted(home.glob(f"*{version}*/bin/python{version}"))]
    for candidate in (*candidates, *there):
        if works(candidate, version):
            yield str(candidate)


def works(python: str | Path, version: str) -> bool:
    """A name on the path may be a stand-in that only says how to get the interpreter."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == version


if __name__ == "__main__":
    sys.exit(main())
