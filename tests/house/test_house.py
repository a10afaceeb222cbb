"""The house is in order: small rooms, imports that go one way, maps that name every module."""

from __future__ import annotations

from pathlib import Path

import pytest
from house_imports import LAYERS, ROOT, Import, backwards, circles, folders, imports, largest_circle, modules, room_of
from house_maps import mapped, present

MOST_MODULES = 20
PACKAGES = sorted(path.parent for path in modules().values() if path.name == "__init__.py")


def test_no_folder_holds_more_modules_than_fit_on_a_screen() -> None:
    assert len(folders()) > len(LAYERS)
    assert {str(folder): count for folder, count in folders().items() if count > MOST_MODULES} == {}


def test_imports_between_rooms_go_one_way() -> None:
    assert len(imports()) > 1000
    assert circles() == []


def test_the_imports_that_go_back_are_few_and_known() -> None:
    """A lazy import against the direction is a debt; this is the list of those we have."""
    found = {(one.importer, one.imported) for one in backwards("lazy")}
    rare = {"qoop.session.rare", "qoop.session.explanations"}  # statements that few sessions run
    assert found == {("qoop.session.execution", one) for one in rare}


def test_few_modules_import_each_other() -> None:
    assert 1 < len(largest_circle()) <= 4


def test_a_module_at_the_root_of_a_floor_is_a_room_of_its_own() -> None:
    assert room_of("qoop.planner.plan") == "qoop.planner.plan"
    assert room_of("qoop.planner.algebra.expr") == "qoop.planner.algebra"
    assert room_of("qoop.session.session") == "qoop.session.session"
    assert room_of("qoop.adaptive.cluster.cluster") == "qoop.adaptive.cluster"


def test_imports_are_told_by_kind() -> None:
    assert Import("qoop.session.parts", "qoop.adaptive.cluster.arbiter", "lazy", 0) in {
        Import(one.importer, one.imported, one.kind, 0) for one in imports()
    }
    assert any(one.kind == "type" for one in imports())


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_map_of_a_room_names_all_that_is_in_it_once(package: Path) -> None:
    assert sorted(mapped(package)) == sorted(present(package))
