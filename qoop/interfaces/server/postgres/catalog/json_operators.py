"""Operators of PostgreSQL's JSON with constants behind them, as calls of DuckDB, which has none of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from operator import add
from typing import Any

from qoop.catalog.by_text import LONG
from qoop.catalog.lexer import Lexeme, lexed
from qoop.interfaces.server.postgres.catalog.operands import follow, operand_start, type_end
from qoop.query.statements.parameters import literal

SIGNS = ("#>", "?", "@>")
_PATHS = {"#>": "json_extract", "#>>": "json_extract_string"}
_KEYS = {"?": " OR ", "?|": " OR ", "?&": " AND "}
_LIST = re.compile(r"""'\{[^'"{}\\]*\}'""")
_MOST_OPERATORS, _MOST_TEXT = 100, 4096
"""Of one text, and the characters of one call, which has its operand several times."""


def with_calls(text: str) -> str:
    """The text with calls in place of ``#>``, ``#>>``, ``?``, ``?|``, ``?&`` and ``@>``, where constants follow.

    >>> with_calls("SELECT doc #>> '{0}' FROM t"), with_calls("SELECT a FROM t WHERE doc ?| b")
    ("SELECT json_extract_string(doc, '$[0]') FROM t", 'SELECT a FROM t WHERE doc ?| b')
    """
    if len(text) >= LONG or not any(sign in text for sign in SIGNS):
        return text
    words, done, gaps = lexed(text).words, list[str](), list[str]()
    at = end = count = 0
    while at < len(words):
        if done and count < _MOST_OPERATORS and (found := _operator_at(words, at)) is not None:
            call, at = found
            start, count = operand_start(done), count + 1
            operand = "".join(map(add, gaps[start:], done[start:])).lstrip()
            called = call.replace("{0}", operand)
            if len(called) > _MOST_TEXT:
                return text
            done[start:], gaps[start + 1 :] = [called], []
        else:
            gaps.append(text[end : words[at].start])
            done.append(words[at].text)
            at += 1
        end = words[at - 1].end
    return "".join(map(add, gaps, done)) + text[end:]


def path_of(steps: Sequence[str]) -> str:
    """The path of DuckDB's to the value below these names, and numbers of elements, as a constant."""
    return literal("$" + "".join(f"[{step}]" if step.isdecimal() else f'."{step}"' for step in steps))


def _operator_at(words: Sequence[Lexeme], at: int) -> tuple[str, int] | None:
    """The call in the place of the operator there, with its operand as {0}, and the place behind it; None: there is
    none."""
    sign, behind = words[at].text, at + 1
    if sign in ("#", "?") and behind < len(words) and words[behind].start == words[at].end:
        longer = sign + words[behind].text
        sign, behind = (longer, behind + 1) if longer in (*_PATHS, *_KEYS) else (sign, behind)
    if behind >= len(words):
        return None
    constant = words[behind].text
    end = type_end(words, behind + 2) if follow(words, behind + 1, "::") else behind + 1
    if sign in _PATHS and _LIST.fullmatch(constant):
        return f"{_PATHS[sign]}({{0}}, {path_of(_listed(constant))})", end
    if sign in _KEYS and (keys := _keys(words, behind, sign == "?")) is not None:
        return f"({_KEYS[sign].join(map(_has, keys[0]))})", keys[1]
    if sign == "@>" and constant[:2] in ("'{", "'[") and (tests := _contained(constant)):
        return f"(CASE WHEN {{0}} IS NOT NULL THEN coalesce({' AND '.join(tests)}, false) END)", end
    return None


def _listed(constant: str) -> list[str]:
    return [step.strip() for step in constant[2:-2].split(",") if step]


def _keys(words: Sequence[Lexeme], at: int, is_one: bool) -> tuple[list[str], int] | None:
    """The constants that begin there, and the place behind them: one, ``'{a,b}'`` or ``ARRAY['a', 'b']``."""
    found, end = list[str](), at + 1
    if is_one or _LIST.fullmatch(words[at].text):
        found = [_text(words[at])] if is_one else _listed(words[at].text)
    elif words[at].says("ARRAY") and follow(words, at + 1, "["):
        end = next((place + 1 for place in range(at, len(words)) if words[place].text == "]"), at)
        found = [_text(word) for word in words[at + 2 : end - 1] if word.text != ","]
    return None if not found or "" in found else (found, end)


def _text(word: Lexeme) -> str:
    """The text of a constant that may be a name in a path of DuckDB's; empty for others."""
    text = word.text[1:-1].replace("''", "'")
    return text if word.kind == "string" and word.text[0] == "'" and not {'"', "\\"} & set(text) else ""


def _has(key: str) -> str:
    """True for an object with the key, for an array with that text, and for the text itself."""
    name, text = literal(f'$."{key}"'), literal(f'"{key}"')
    elements = "list_append(json_extract({0}, '$[*]'), json_extract({0}, '$'))"
    return f"(json_exists({{0}}, {name}) OR list_contains({elements}, CAST({text} AS JSON)))"


def _contained(constant: str) -> list[str] | None:
    """The tests whether a value contains that of a constant; None for one with other values than those of BI tools."""
    try:
        return list(_tests(json.loads(constant[1:-1].replace("''", "'")), "$"))
    except ValueError:
        return None


def _tests(value: Any, path: str) -> Iterator[str]:
    """Raises ValueError for a value that is not known here."""
    place = literal(path)
    match value:
        case dict():
            yield f"json_type({{0}}, {place}) = 'OBJECT'"
            for key, inner in value.items():
                if not key or {'"', "\\"} & set(key):
                    raise ValueError(key)
                yield from _tests(inner, f'{path}."{key}"')
        case list():
            yield f"json_type({{0}}, {place}) = 'ARRAY'"
            for inner in value:
                if isinstance(inner, (dict, list, float)):
                    raise ValueError(inner)
                element = literal(json.dumps(inner, ensure_ascii=False))
                yield f"list_contains(json_extract({{0}}, {literal(path + '[*]')}), CAST({element} AS JSON))"
        case str():
            yield f"json_type({{0}}, {place}) = 'VARCHAR'"
            yield f"json_extract_string({{0}}, {place}) = {literal(value)}"
        case bool() | None:
            yield f"json_extract({{0}}, {place}) = CAST('{json.dumps(value)}' AS JSON)"
        case _:
            yield f"json_type({{0}}, {place}) IN ('BIGINT', 'UBIGINT', 'DOUBLE')"
            yield f"TRY_CAST(json_extract_string({{0}}, {place}) AS DOUBLE) = {value!r}"
