"""The words of a text and of its parts."""

from __future__ import annotations

import pytest

from qoop.catalog.lexer import lexed, without_end

STATEMENT = """/* ä; */ EXPLAIN -- why;
  SELECT 'ü;' -- one
  'more', "a -- b", $1, $x, E'it\\'s', $$ ; $$, x'00', .5e3, a->>'b', - -c /* /* ; */ */ FROM t ; ; -- end;
"""


@pytest.mark.parametrize("text", [STATEMENT, STATEMENT.replace("--", "->"), STATEMENT.replace("/*", "("), "; ;", ""])
def test_parts_have_the_words_that_their_texts_have(text: str) -> None:
    whole = lexed(text)
    parts = [whole.without_end, *(whole.part(first, after) for first in range(9) for after in (None, first + 4))]
    for part in parts:
        assert part.words == lexed(part.text).words
        assert [part.text[word.start : word.end] for word in part.words if word.kind != "parameter"] == [
            word.text for word in part.words if word.kind != "parameter"
        ]


def test_the_end_of_a_statement_is_cut_where_no_string_or_comment_holds_it() -> None:
    assert lexed(STATEMENT).without_end.text.endswith("FROM t") and lexed(STATEMENT).without_end.text[:7] == "EXPLAIN"
    assert without_end(" SELECT ';' ;;\n; ") == "SELECT ';'" == without_end("SELECT ';'")
    assert without_end("SELECT 1 -- one;\n") == "SELECT 1 -- one;"
    assert without_end("SELECT ';--' ; -- end") == "SELECT ';--'"
