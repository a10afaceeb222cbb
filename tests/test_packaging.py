"""The installed package: it has all packages and nothing else, and works away from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = ("catalog", "planner", "engine", "qoop", "tpcds")


def test_every_package_is_listed() -> None:
    found = {str(path.parent.relative_to(ROOT)).replace("/", ".") for top in FOLDERS for path in folders_of(top)}
    settings = SETTINGS["tool"]["setuptools"]
    elsewhere = {folder.replace("/", "."): name for name, folder in settings["package-dir"].items()}
    named = {elsewhere.get(name, name) if name.split(".")[0] == "qoop" else f"qoop.{name}" for name in found}
    assert set(settings["packages"]) == named


def folders_of(top: str) -> list[Path]:
    return list((ROOT / top).rglob("__init__.py"))


ASSETS = ROOT / "qoop" / "page" / "assets"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (made,) = folder.glob("*.whl")
    return made


def pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], check=True)


@pytest.mark.slow
def test_the_wheel_holds_qoop_and_what_dbt_imports(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    ours = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert {name.split("/")[0] for name in ours} == {"qoop", "dbt"}
    assert {name for name in ours if name.startswith("dbt/")} == {
        "dbt/adapters/qoop/__init__.py", "dbt/adapters/qoop/__version__.py",
    }  # fmt: skip
    data = {name for name in ours if not name.endswith(".py")}
    assets = {name for name in data if name.startswith("qoop/interfaces/page/assets/")}
    dbt = {name for name in data if name.startswith("qoop/interfaces/adapters/dbt/include/")}
    assert len(dbt) == 3
    assert data - assets - dbt == {"qoop/py.typed", "qoop/adaptive/profiles/shared.jsonl"}
    assert {name.rpartition("/")[2] for name in assets} == {one.name for one in ASSETS.iterdir()}


@pytest.mark.slow
def test_the_sdist_holds_tests_and_docs(tmp_path: Path) -> None:
    """`make test-package` runs them."""
    words = ("-m", "build", "--sdist", "--outdir", str(tmp_path), str(ROOT))
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    [made] = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(listed.stdout.splitlines()) <= names


@pytest.mark.slow
def test_the_wheel_works_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    pip("install", "--no-deps", "--target", str(tmp_path / "there"), str(wheel))
    code = (
        "import qoop, sys; from qoop.__main__ import main; sys.exit(print(qoop.__file__) or main(['-c', 'select 42']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "there")},
        capture_output=True,
        text=True,
        check=True,
    )
    where, _, answer = done.stdout.partition("\n")
    assert Path(where).is_relative_to(tmp_path)
    assert "42" in answer


ANSWER = "import qoop; print(qoop.connect(slots=1).sql('SELECT 6 * 7').fetchall())"


def answer(*words: str, cwd: Path) -> str:
    """The output of a new interpreter."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*words], cwd=cwd, env=usual, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_clone_is_imported_from_its_own_folder() -> None:
    """As where a wheel is installed and Python starts in the clone: no finder of an editable install helps."""
    libraries = sysconfig.get_paths()["purelib"]
    text = f"import sys; sys.path.append({libraries!r}); {ANSWER}"
    assert answer(sys.executable, "-S", "-c", text, cwd=ROOT) == "[(42,)]\n"


def test_a_clone_does_not_contain_itself_without_end() -> None:
    code = "from importlib.util import find_spec; print(find_spec('qoop.qoop.qoop'))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert found.stdout.split() == ["None"]


def test_a_folder_that_holds_the_clone_does_not_hide_the_package(tmp_path: Path) -> None:
    """A folder without ``__init__.py`` is a namespace package, which goes before the finders of editable installs."""
    (tmp_path / "qoop").symlink_to(ROOT)
    assert answer(sys.executable, "-c", ANSWER, cwd=tmp_path) == "[(42,)]\n"


@pytest.mark.slow
@pytest.mark.parametrize("how", [("--editable",), ()], ids=["editable", "wheel"])
def test_an_installed_package_is_found_in_and_above_the_clone(how: tuple[str, ...], tmp_path: Path) -> None:
    """In an environment of its own, which borrows the packages that qoop needs from that of the tests."""
    clone, own = tmp_path / "qoop", tmp_path / "venv" / "bin" / "python"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, clone / name)
    subprocess.run([sys.executable, "-m", "venv", str(own.parents[1])], check=True)
    words = ("install", "--no-deps", "--quiet", "--disable-pip-version-check", *how, str(clone))
    subprocess.run([str(own), "-m", "pip", *words], check=True)
    borrowed = f"import sys; sys.path.append({sysconfig.get_paths()['purelib']!r}); {ANSWER}"
    for folder in (tmp_path, clone, tmp_path / "venv"):
        assert answer(str(own), "-c", borrowed, cwd=folder) == "[(42,)]\n"
