"""qoop as a wheel, for nodes that do not have it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import qoop
from qoop.catalog.errors import ConfigError
from qoop.engine.backends.ray.nodes import with_wheels

if TYPE_CHECKING:
    from tests.ray.conftest import NodesMaker

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]

ROOT = Path(__file__).parent.parent.parent
WORKER = "/".join(("qoop", "engine", "backends", "ray", "worker.py"))

DRIVER = """
import sys
import qoop
with qoop.connect(ray=sys.argv[1], runtime_env={"py_modules": [sys.argv[2]]}) as session:
    print(session.sql("SELECT 6 * 7").fetchall())
    try:
        qoop.connect(ray=sys.argv[1], runtime_env={"py_modules": [sys.argv[2]]})
    except qoop.ConfigError as error:
        print(str(error).partition(":")[0])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of what is here."""
    folder = tmp_path_factory.mktemp("wheel")
    words = ["wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], check=True)
    (made,) = folder.glob("*.whl")
    return made


def test_nodes_run_the_wheel_that_they_are_given(wheel: Path, tmp_path: Path, make_nodes: NodesMaker) -> None:
    told = tmp_path / "told"
    told.mkdir()
    marked = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as found, zipfile.ZipFile(marked, "w") as made:
        for name in found.namelist():
            text = found.read(name)
            if name == WORKER:
                text += f"\nPath({str(told)!r}, str(os.getpid())).write_text(__file__)\n".encode()
            made.writestr(name, text)
    with make_nodes(1) as nodes:  # from another folder: Ray has nodes look for modules where the session was started
        words = [sys.executable, "-c", DRIVER, nodes.address, str(marked)]
        driver = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert driver.stdout == "[(42,)]\nthis process is connected to the Ray cluster already\n", driver.stderr
    [place] = {path.read_text() for path in told.iterdir()}
    assert place.endswith(WORKER) and not Path(place).is_relative_to(ROOT)


def test_a_wheel_is_unpacked_and_all_else_is_as_it_was(wheel: Path) -> None:
    given = {"py_modules": ["/some/folder", str(wheel), "https://there/x-1-py3-none-any.whl"], "env_vars": {"A": "B"}}
    with with_wheels(given) as found:
        assert found is not None and found["env_vars"] == {"A": "B"}
        first, *ours, last = found["py_modules"]
        assert (first, last) == (given["py_modules"][0], given["py_modules"][2])
        unpacked = {Path(one).name: Path(one) for one in ours}
        assert {name.split("-")[0] for name in unpacked} == {"qoop", "dbt"}
        assert (unpacked["qoop"] / "py.typed").exists()
    with with_wheels(None) as found:
        assert found is None


def test_an_environment_that_cannot_be_made_is_told(tmp_path: Path, make_nodes: NodesMaker) -> None:
    damaged = tmp_path / "qoop-1-py3-none-any.whl"
    damaged.write_text("no wheel")
    with pytest.raises(ConfigError, match=r"say which, with ray="):
        qoop.connect(runtime_env={"py_modules": [damaged]})
    with make_nodes(1) as nodes:
        with pytest.raises(ConfigError, match="cannot be read"):
            qoop.connect(ray=nodes.address, runtime_env={"py_modules": [damaged]})
        with pytest.raises(ConfigError, match="none that Ray can make"):
            qoop.connect(ray=nodes.address, runtime_env={"env_vars": {"A": 1}})
