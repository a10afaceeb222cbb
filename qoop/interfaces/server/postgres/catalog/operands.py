"""Places in a text by its words: where an operand or a type begins and ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qoop.catalog.lexer import Lexeme, behind_closing

CLAUSES = ("SELECT", "FROM", "WHERE", "ON", "USING", "HAVING", "GROUP", "ORDER", "LIMIT", "VALUES", "JOIN", "WITH")
BEHIND_TABLE = (
    "WHERE", "ON", "JOIN", "LEFT", "RIGHT", "INNER", "FULL", "CROSS", "GROUP", "ORDER", "LIMIT", "WITH", "UNION",
    "OFFSET", "HAVING", "USING", "NATURAL", "EXCEPT", "INTERSECT", "FETCH", "WINDOW",
)  # fmt: skip
_MOST_WORDS = 64
"""Of a SELECT before an item that is found: a text may have a thousand such items."""
TEXT_TYPES = ("text", "varchar", "name", "bpchar", "cstring")


def follow(words: Sequence[Lexeme], at: int, *texts: str) -> bool:
    """True if these texts, in lower case, are the words from that place on."""
    return [one.text.lower() for one in words[at : at + len(texts)]] == list(texts)


def rewritten(text: str, words: Sequence[Lexeme], change: Callable[[int], tuple[str, int] | None]) -> str:
    """The text with others in the place of some of its words.

    change: for the place of a word, the text in its place, and the place behind the last word that this stands for;
    None: the word stays.
    """
    done, at = "", 0
    for place, word in enumerate(words):
        if word.start >= at and (found := change(place)) is not None:
            new, end = found
            done += text[at : word.start] + new
            at = words[end - 1].end
    return done + text[at:]


def is_name(words: Sequence[Lexeme], at: int) -> bool:
    """True if the word there is the name of a column or an alias."""
    before = words[at - 1].text.lower() if at else ""
    return before in (".", "as") or follow(words, at + 1, ".")


def is_item(words: Sequence[Lexeme], at: int) -> bool:
    """True if the word there is in the list of a SELECT, and in no parentheses within it."""
    depth = 0
    for word in reversed(words[max(0, at - _MOST_WORDS) : at]):
        depth += (word.text == ")") - (word.text == "(")
        if depth < 0 or (depth == 0 and word.says(*CLAUSES)):
            return depth == 0 and word.says("SELECT")
    return False


def operand_start(done: Sequence[str]) -> int:
    """The first of the pieces that are the last operand: a name with its table, a call, parentheses, or a value."""
    at = len(done) - 1
    while at > 0:
        if done[at] in (")", "]"):
            at = _opening(done, at)
            if at > 0 and (done[at] == "[" or is_callable(done[at - 1])):
                at -= 1
                continue
        if at > 1 and done[at - 1] in (".", "::"):
            at -= 2
            continue
        break
    return max(at, 0)


def is_callable(piece: str) -> bool:
    """True if parentheses behind that piece are those of its call."""
    return (piece[0].isalpha() or piece[0] in '_"') and piece.upper() not in (
        *CLAUSES, "AND", "OR", "NOT", "IN", "CASE", "WHEN", "THEN", "ELSE", "AS", "BY", "LIKE", "BETWEEN", "IS",
    )  # fmt: skip


def _opening(done: Sequence[str], at: int) -> int:
    depth = 0
    for place in range(at, -1, -1):
        depth += (done[place] in (")", "]")) - (done[place] in ("(", "["))
        if depth == 0:
            return place
    return 0


def operand_end(words: Sequence[Lexeme], at: int) -> int:
    """The place behind the operand that begins there, with its casts and its collation."""
    end = behind_closing(words, at) if follow(words, at, "(") else at + 1
    while end < len(words):
        if words[end].text in (".", "::"):
            end += 2
        elif words[end].text == "(" and words[end - 1].name is not None:
            end = behind_closing(words, end)
        elif words[end].says("COLLATE"):
            end += 4 if follow(words, end + 2, ".") else 2
        else:
            break
    return min(end, len(words))


def type_end(words: Sequence[Lexeme], at: int) -> int:
    """The place behind the type that begins there."""
    end = at + 1
    while follow(words, end, "."):
        end += 2
    while end < len(words) and words[end].says("VARYING", "PRECISION"):
        end += 1
    if follow(words, end, "("):
        end = behind_closing(words, end)
    for more in (("with", "time", "zone"), ("without", "time", "zone")):
        if follow(words, end, *more):
            end += 3
    while follow(words, end, "[", "]"):
        end += 2
    return min(end, len(words))


def casts_to_text(words: Sequence[Lexeme], at: int) -> bool:
    """True if a cast to a text follows, which sees the name."""
    if not follow(words, at, "::"):
        return False
    names = [(word.name or "").lower() for word in words[at + 1 : type_end(words, at + 1)] if word.name]
    return names[-1:] != [] and names[-1] in (*TEXT_TYPES, "character")


def last_as(words: Sequence[Lexeme], at: int, end: int) -> int | None:
    """The place of the last AS between these places that is within no further parentheses."""
    depth, found = 0, None
    for place in range(at, end):
        depth += (words[place].text == "(") - (words[place].text == ")")
        if depth == 0 and words[place].says("AS"):
            found = place
    return found
