"""Comparisons of a folder that stamp only what the system has reported find the same files as a listing."""

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from qoop.catalog.catalog import Catalog
from qoop.catalog.sources.files import find_files
from qoop.catalog.table import Table
from qoop.programs.views import watching
from qoop.programs.views.watching import Watching

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")

NOW = [0.0]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[Catalog, Watching, Path]]:
    """A table of three files, and a watch that has read them all once, for as long as the clock stands."""
    folder = tmp_path / "t"
    folder.mkdir()
    for name in "abc":
        write(folder / f"{name}.parquet", 1)
    NOW[0] = 0.0
    with Catalog() as catalog:
        watch = Watching(lambda: NOW[0])
        catalog.register("t", folder)
        assert watch.found(catalog.table("t")) == find_files(str(folder), (".parquet",))
        watch._known = {place: watching._Known(one.folder, one.files, 1.0) for place, one in watch._known.items()}
        yield catalog, watch, folder
        watch.close()


def write(path: Path, value: int) -> None:
    duckdb.execute(f"COPY (SELECT {value} AS x) TO '{path}' (FORMAT parquet)")


def replace(folder: Path, name: str, value: int) -> None:
    write(folder.parent / "draft", value)
    os.replace(folder.parent / "draft", folder / f"{name}.parquet")


def compared(catalog: Catalog, watch: Watching, monkeypatch: pytest.MonkeyPatch | None = None) -> bool:
    """Compare the table twice, as the first time may leave out what has changed just now; True if it has changed. It is
    as a listing has it. monkeypatch: no listing is made."""
    changed = False
    for _ in range(2):
        with monkeypatch.context() if monkeypatch is not None else pytest.MonkeyPatch.context() as patch:
            if monkeypatch is not None:
                patch.setattr(watching, "find_files", None)
            found = watch.found(catalog.table("t"))
        assert found is not None
        changed |= catalog.refresh("t", found) is not None
    assert found.stamps == find_files(str(catalog.table("t").origin.place), (".parquet",)).stamps
    with Catalog() as other:
        there, fresh = catalog.table("t"), other.register("t", str(catalog.table("t").origin.place))
        assert (there.version, there.rows, there.columns) == (fresh.version, fresh.rows, fresh.columns)
        for name in ("stamps", "identities", "file_rows"):
            one, two = (getattr(each.source, name) for each in (there, fresh))
            assert (one() == two()) if callable(one) else one == two
    return changed


def test_without_changes_no_file_is_stamped(world, monkeypatch):
    catalog, watch, _ = world
    assert not compared(catalog, watch, monkeypatch)


@pytest.mark.parametrize("change", ["new", "again", "in place", "renamed", "gone", "touched", "draft"])
def test_what_is_reported_is_found_without_a_listing(world, monkeypatch, change):
    catalog, watch, folder = world
    a = folder / "a.parquet"
    {
        "new": lambda: write(folder / "d.parquet", 2),
        "again": lambda: replace(folder, "a", 2),
        "in place": lambda: write(a, 12345),
        "renamed": lambda: a.rename(folder / "z.parquet"),
        "gone": a.unlink,
        "touched": lambda: os.utime(a, (1, 1)),
        "draft": lambda: (folder / ".d.parquet").write_bytes(b""),
    }[change]()
    assert compared(catalog, watch, monkeypatch) == (change != "draft")
    assert not compared(catalog, watch, monkeypatch)


def test_any_order_of_changes_gives_the_files_of_a_listing(world):
    catalog, watch, folder = world
    draw, changed = random.Random(7), 0
    for step in range(25):
        names = sorted(path.stem for path in folder.iterdir())
        for _ in range(draw.randrange(3)):
            one = folder / f"{draw.choice(names)}.parquet"
            kind = draw.randrange(4)
            if kind == 0:
                replace(folder, f"n{draw.randrange(8)}", step)
            elif kind == 1 and one.exists():
                replace(folder, one.stem, step)
            elif kind == 2 and one.exists():
                one.rename(folder / f"m{draw.randrange(8)}.parquet")
            elif one.exists() and len(list(folder.iterdir())) > 2:
                one.unlink()
        changed += compared(catalog, watch)
    assert changed > 8


def test_what_is_not_reported_is_found_by_the_next_comparison_of_all_files(world):
    catalog, watch, folder = world
    (folder.parent / "other").hardlink_to(folder / "a.parquet")  # as a write through it would
    stale = watch.found(catalog.table("t"))
    assert stale is not None and stale.stamps != find_files(str(folder), (".parquet",)).stamps
    NOW[0] = 2.0
    assert compared(catalog, watch)


def test_a_comparison_of_all_files_lists_the_folder_once(world, monkeypatch):
    catalog, watch, _ = world
    NOW[0], listed, scandir = 2.0, [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: listed.append(folder) or scandir(folder))
    assert watch.found(catalog.table("t")) is not None and len(listed) == 1
    assert watch._known


@pytest.mark.parametrize("change", ["folder", "link", "elsewhere", "log"])
def test_folders_links_and_other_folders_are_read_in_full(world, change):
    catalog, watch, folder = world
    if change == "folder":
        (folder / "more").mkdir()
        write(folder / "more" / "e.parquet", 5)
    elif change == "link":
        write(folder.parent / "e.parquet", 5)
        (folder / "e.parquet").symlink_to(folder.parent / "e.parquet")
    elif change == "elsewhere":
        folder.rename(folder.parent / "old")
        folder.mkdir()
        write(folder / "a.parquet", 1)
    else:
        (folder / "_1.json").write_text("{}")
        assert (hidden := watch.found(catalog.table("t"))) is not None and "_1.json" in hidden.hidden
        return
    assert compared(catalog, watch)
    if change in ("folder", "link"):
        write((folder.parent if change == "link" else folder / "more") / "e.parquet", 6789)
        assert compared(catalog, watch)


def test_two_names_of_a_folder_share_no_reports(world):
    catalog, watch, folder = world
    (folder.parent / "name").symlink_to(folder)
    table = catalog.register("other", folder.parent / "name")
    assert watch.found(table) is not None
    write(folder / "d.parquet", 2)
    assert compared(catalog, watch)
    found = watch.found(catalog.table("other"))
    assert found is not None and len(found.stamps) == 4


def test_a_query_that_has_read_the_folder_since_is_not_undone(world):
    catalog, watch, folder = world
    write(folder / "d.parquet", 2)
    catalog.refresh("t")
    before: Table = catalog.table("t")
    assert not compared(catalog, watch)
    assert catalog.table("t") is before


def test_without_reports_of_the_system_all_files_are_listed(world, monkeypatch):
    catalog, watch, folder = world
    monkeypatch.setattr(watching, "_LOCAL", frozenset())
    NOW[0] = 2.0
    assert watch.found(catalog.table("t")) is None
    write(folder / "d.parquet", 2)
    assert watch.found(catalog.table("t")) is None
    assert catalog.refresh("t", None) is not None


def test_a_file_that_changes_just_now_is_left_for_the_next_comparison_once(world, monkeypatch):
    catalog, watch, folder = world
    monkeypatch.setattr(watching, "unsettled", lambda stamps: (list(stamps), 1))
    write(folder / "d.parquet", 2)
    first = watch.found(catalog.table("t"))
    assert first is not None and len(first.stamps) == 3
    write(folder / "d.parquet", 3)
    second = watch.found(catalog.table("t"))
    assert second is not None and second.stamps == find_files(str(folder), (".parquet",)).stamps


def test_a_statement_takes_a_file_that_changes_just_now_at_once(world, monkeypatch):
    catalog, watch, folder = world
    monkeypatch.setattr(watching, "unsettled", lambda stamps: (list(stamps), 1))
    write(folder / "d.parquet", 2)
    found = watch.found_now(catalog.table("t"))
    assert found is not None and found.stamps == find_files(str(folder), (".parquet",)).stamps


@pytest.mark.parametrize("reported", [True, False])
def test_a_statement_lists_a_folder_if_a_file_has_another_name(world, reported):
    catalog, watch, folder = world
    if not reported:
        (folder.parent / "other").hardlink_to(folder / "a.parquet")
        NOW[0] = 2.0
    else:
        write(folder.parent / "other", 2)
        (folder / "d.parquet").hardlink_to(folder.parent / "other")
    assert watch.found_now(catalog.table("t")) is None
    assert watch.found(catalog.table("t")) is not None
