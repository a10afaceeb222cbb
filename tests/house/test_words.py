"""The house says one word for one thing, the field's where there is one, and defines its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from house_glossary import GLOSSARY, pattern, terms, unused
from house_imports import LAYERS
from house_names import Names
from house_words import (
    ALLOWED,
    CLEAN_FOLDERS,
    PERSONS,
    PHRASES,
    PLACES,
    RETIRED,
    ROOT,
    TESTS,
    VAGUE_PARTS,
    findings,
    findings_in_clean_folders,
    findings_in_tests,
    idle_allowances,
    persons,
    read,
    retired_names,
    texts,
    vague_identifiers,
)


def test_no_retired_word_is_used() -> None:
    assert [str(one) for one in findings(PLACES)] == []


def test_tests_are_written_in_plain_english_too() -> None:
    assert set(RETIRED) > PHRASES
    assert len(list(texts((TESTS,)))) > 200
    assert [str(one) for one in findings_in_tests()] == []


def test_the_places_exist_and_hold_texts() -> None:
    assert set(LAYERS) <= set(PLACES)
    assert [place for place in PLACES if not list(texts((place,)))] == []


def test_the_words_that_are_allowed_are_few_and_stand_there() -> None:
    assert len(ALLOWED) <= 10
    assert idle_allowances() == []


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_found(word: str) -> None:
    assert [(one.line, one.word) for one in read("a.md", f"One.\nNo {word.capitalize()}, two.")] == [(2, word)]
    assert word in {one.word for one in read("a.py", f"my_{word} = 1")}


def test_no_retired_name_is_defined() -> None:
    assert list(retired_names(Names(ROOT))) == []


def test_a_retired_name_is_found_in_classes_and_at_the_top(tmp_path: Path) -> None:
    for folder, text in (("planner", "@dataclass\nclass Plan:\n    told: int\n"), ("engine", "def held(): ...\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "new.py").write_text(text)
    assert [one.partition(" ->")[0] for one in retired_names(Names(tmp_path))] == [
        "qoop.planner.new: told", "qoop.engine.new: held",
    ]  # fmt: skip


def test_clean_folders_have_no_vague_identifiers_and_no_persons() -> None:
    assert all(len(list(texts((folder,)))) > 10 for folder in CLEAN_FOLDERS)
    assert [str(one) for one in findings_in_clean_folders()] == []


@pytest.mark.parametrize("part", VAGUE_PARTS)
@pytest.mark.parametrize(
    "text", ["{0}_files = 1", "x._is_{0}()", "def f({0}): ...", "class {1}: ...", "f(all_{0}=1)", 'f"{{{0}!r}}"']
)
def test_a_vague_part_of_an_identifier_is_found(part: str, text: str) -> None:
    source = "\n" + text.format(part, part.capitalize())
    assert [(one.line, one.word) for one in vague_identifiers("a.py", source)] == [(2, part)]


def test_longer_words_and_prose_are_no_vague_identifiers() -> None:
    assert list(vague_identifiers("a.py", 'looking = whole = unseen = "told"  # asked\nlookup = 1')) == []


@pytest.mark.parametrize("word", PERSONS)
def test_a_word_for_people_is_found_in_prose(word: str) -> None:
    assert [one.word for one in persons("a.py", f'"""{word.capitalize()} reads it."""\n# whole')] == [word]


def test_openings_are_found_in_code() -> None:
    text = '"""What it is."""\n    r"""Whether so."""\n"""However."""\n"""Where."""\nx = "What"'
    assert [(one.line, one.word) for one in read("a.py", text)] == [
        (1, '"""What'), (2, '"""Whether'), (4, '"""Where'),
    ]  # fmt: skip
    assert list(read("a.md", text)) == []


def test_names_of_tests_and_parts_of_words_are_not_found() -> None:
    assert list(read("a.md", "`test_an_island_is_alone`, a bedroom, besides, claimed")) == []


def test_every_term_of_the_glossary_refers_to_code_that_exists() -> None:
    names, found = Names(ROOT), list(terms(GLOSSARY.read_text()))
    assert len(found) > 50
    assert [term.word for term in found if not term.code] == []
    assert [name for term in found for name in term.code if not names.exists(name)] == []


def test_a_term_is_defined_once_in_a_line() -> None:
    found = list(terms(GLOSSARY.read_text()))
    rows = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    assert len({term.word for term in found}) == len(found) == sum("`" in row for row in rows)


def test_every_term_of_the_glossary_is_used() -> None:
    assert unused(terms(GLOSSARY.read_text())) == []


def test_a_term_that_is_not_used_is_found_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Two plan\nmemos.")
    some = terms(
        "| word | meaning |  |\n| --- | --- | --- |\n| plan memo | m | `qoop.query.job` |\n| memory | m | none |"
    )
    assert unused(some, iter([page])) == ["memory"]


@pytest.mark.parametrize("text", ["plan memo", "plan_memo", "PlanMemo", "Plan memos", "my_plan_memos", "plan\n# memo"])
def test_a_term_is_found_in_prose_and_in_names(text: str) -> None:
    assert pattern("plan memo").search(text)


@pytest.mark.parametrize("text", ["memo", "plan a memo", "plan memoir", "explan memo"])
def test_other_words_are_not_a_term(text: str) -> None:
    assert not pattern("plan memo").search(text)
