"""Calls and constants of PostgreSQL that BI tools write into queries of data, in forms that DuckDB has."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import add

from qoop.catalog.by_text import LONG
from qoop.catalog.lexer import Lexeme, behind_closing, lexed, list_items
from qoop.interfaces.server.postgres.catalog.operands import follow, is_item, operand_start, rewritten, type_end

_FIELDS = {
    "YYYY": "%Y", "YY": "%y", "IYYY": "%G", "IW": "%V", "ID": "%u", "MM": "%m", "DDD": "%j", "DD": "%d", "HH24": "%H",
    "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "MS": "%g", "US": "%f", "AM": "%p", "PM": "%p", "Mon": "%b",
    "Dy": "%a", "FMMonth": "%B", "FMDay": "%A", "TZ": "%Z", "OF": "%z",
}  # fmt: skip
_FIELD = re.compile("|".join(sorted(_FIELDS, key=len, reverse=True)))
_QUOTE = "('''' || replace(CAST({0} AS VARCHAR), '''', '''''') || '''')"
_CALLS: Mapping[str, str] = {
    "to_char": "strftime({0}, {1})", "to_timestamp": "CAST(strptime({0}, {1}) AS TIMESTAMPTZ)",
    "to_date": "CAST(strptime({0}, {1}) AS DATE)",
}  # fmt: skip
"""Calls with a format as their last argument."""
_BUCKET = "floor((({0}) - ({1})) * CAST({3} AS BIGINT) / (({2}) - ({1})))"
_BUCKETS = (
    f"CASE WHEN {_BUCKET} < 0 THEN 0 WHEN {_BUCKET} >= {{3}} THEN {{3}} + 1 "
    f"WHEN {_BUCKET} IS NOT NULL THEN CAST({_BUCKET} AS INTEGER) + 1 END"
)
_CODED: Mapping[tuple[str, str], str] = {
    ("encode", "'hex'"): "lower(hex({0}))", ("encode", "'base64'"): "to_base64({0})",
    ("decode", "'hex'"): "unhex({0})", ("decode", "'base64'"): "from_base64({0})",
}  # fmt: skip
"""Calls by their last argument."""
_DIGITS = re.compile(r"(?:FM)?S?([09GL,$]*)(?:[D.]([09]*))?")
_INITIALS = (
    "list_aggregate([upper(w[1]) || lower(w[2:]) FOR w IN regexp_extract_all({0}, '[[:alnum:]]+|[^[:alnum:]]+')], "
    "'string_agg', '')"
)
_OF_ONE: Mapping[str, str] = {"quote_literal": _QUOTE, "initcap": _INITIALS}
"""Calls with one argument."""
RENAMED = {
    "json_build_object": "json_object", "jsonb_build_object": "json_object", "json_build_array": "json_array",
    "jsonb_build_array": "json_array", "json_agg": "json_group_array", "jsonb_agg": "json_group_array",
    "json_object_agg": "json_group_object", "jsonb_object_agg": "json_group_object", "to_jsonb": "to_json",
    "array_to_json": "to_json", "every": "bool_and", "btrim": "trim", "clock_timestamp": "now",
    "statement_timestamp": "now",
}  # fmt: skip
"""Functions that DuckDB has by another name."""
_IGNORING_CASE = {"~*": "~", "!~*": "!~"}
_PATHS: Mapping[str, str] = {"#>": "json_extract", "#>>": "json_extract_string"}
_PATH = re.compile(r"""'\{[^'"{}\\]*\}'""")
_SIGNS = (
    *_CALLS, *_OF_ONE, *RENAMED, *_IGNORING_CASE, "substring", "'{", "name", "generate_series", "width_bucket",
    "encode", "decode", "to_number",
)  # fmt: skip
"""Each text that is rewritten has one of these."""


def strftime_format(pattern: str) -> str | None:
    """A format of to_char as one of strftime; None if there is none that is the same.

    >>> strftime_format("YYYY-MM-DD HH24:MI:SS.US"), strftime_format("FM999"), strftime_format('"week" IW')
    ('%Y-%m-%d %H:%M:%S.%f', None, 'week %V')
    """
    pieces = re.split(r'"([^"]*)"', pattern.replace("%", "%%"))
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            if re.search("[A-Za-z0-9]", _FIELD.sub("", piece).replace("T", "")):
                return None
            pieces[place] = _FIELD.sub(lambda found: _FIELDS[found[0]], piece)
    return "".join(pieces)


def with_duckdb_calls(text: str) -> str:
    """The text with calls, and constants of PostgreSQL's, as DuckDB takes them; others stay as they are.

    >>> with_duckdb_calls("SELECT a FROM t WHERE b > TO_DATE('01.02.2026', 'DD.MM.YYYY')")
    "SELECT a FROM t WHERE b > CAST(strptime('01.02.2026', '%d.%m.%Y') AS DATE)"
    >>> with_duckdb_calls("SELECT quote_literal(a) FROM t"), with_duckdb_calls("SELECT to_timestamp(0)")
    ("SELECT ('''' || replace(CAST(a AS VARCHAR), '''', '''''') || '''') FROM t", 'SELECT to_timestamp(0)')
    >>> with_duckdb_calls("SELECT every(a = ANY ('{1,2}'::int[]) OR b ~* '^x') FROM t")
    "SELECT bool_and(a = ANY ('[1,2]'::int[]) OR b ~ '(?s:.*)(?i:^x)(?s:.*)') FROM t"
    >>> with_duckdb_calls("SELECT generate_series(1, 3)"), with_duckdb_calls("SELECT t.doc #>> '{0}' FROM t")
    ('SELECT unnest(generate_series(1, 3))', "SELECT json_extract_string(t.doc, '$[0]') FROM t")
    """
    lower = text.lower()
    if not any(sign in lower for sign in (*_SIGNS, *_PATHS)):
        return text
    text = _with_path_calls(text)
    words = lexed(text).words
    return rewritten(text, words, partial(_in_place_of, text, words))


def _in_place_of(text: str, words: Sequence[Lexeme], place: int) -> tuple[str, int] | None:
    """The text in the place of the word there, and of those up to the second value; None: it stays."""
    word, after = words[place], [one.text for one in words[place + 1 : place + 5]]
    if _opens(words, place):
        end = behind_closing(words, place + 1)
        if word.says("GENERATE_SERIES") and len(text) < LONG and is_item(words, place):
            return f"unnest({word.text}({_text(text, words[place + 2 : end - 1])}))", end
        new = duckdb_call(word.text, words[place + 2 : end - 1], lambda part: _text(text, part))
        return None if new is None else (new, end)
    if word.text in _IGNORING_CASE and after and after[0].startswith("'"):
        return f"{_IGNORING_CASE[word.text]} '(?s:.*)(?i:{after[0][1:-1]})(?s:.*)'", place + 2
    if word.text.startswith("'{") and after[:1] == ["::"] and after[2:] == ["[", "]"]:
        return f"'[{word.text[2:-2]}]'", place + 1
    if word.says("NAME") and place and words[place - 1].text == "::":
        return "text", place + 1
    return None


def _with_path_calls(text: str) -> str:
    """The text with calls in place of ``#>`` and ``#>>`` with constant paths; of these operators DuckDB has none."""
    if "#>" not in text or len(text) >= LONG:
        return text
    words, done, gaps = lexed(text).words, list[str](), list[str]()
    at = end = 0
    while at < len(words):
        if done and (found := _path_at(words, at)) is not None:
            call, path, at = found
            start = operand_start(done)
            operand = "".join(map(add, gaps[start:], done[start:])).lstrip()
            done[start:], gaps[start + 1 :] = [f"{call}({operand}, '{path}')"], []
        else:
            gaps.append(text[end : words[at].start])
            done.append(words[at].text)
            at += 1
        end = words[at - 1].end
    return "".join(map(add, gaps, done)) + text[end:]


def _path_at(words: Sequence[Lexeme], at: int) -> tuple[str, str, int] | None:
    """The call and the path in the place of the operator there, and the place behind it; None if there is none."""
    mark, sign, path = words[at : at + 3] if at + 2 < len(words) else (words[at],) * 3
    call = _PATHS.get(mark.text + sign.text) if sign.start == mark.end else None
    if call is None or not _PATH.fullmatch(path.text):
        return None
    steps = [step.strip() for step in path.text[2:-2].split(",") if step]
    named = "".join(f"[{step}]" if step.isdecimal() else f'."{step}"' for step in steps)
    return call, f"${named}", type_end(words, at + 4) if follow(words, at + 3, "::") else at + 3


def duckdb_call(name: str, inside: Sequence[Lexeme], written: Callable[[Sequence[Lexeme]], str]) -> str | None:
    """A call as DuckDB takes it, None if it stays as it is. inside: its arguments. written: these as texts."""
    name = name.lower()
    if name in RENAMED:
        return f"{RENAMED[name]}({written(inside)})"
    if name == "substring":
        return _matched(inside, written)
    arguments = [inside[first:after] for first, after in list_items(inside)]
    if name in _OF_ONE and len(arguments) == 1:
        return _OF_ONE[name].format(written(arguments[0]))
    if name == "width_bucket" and len(arguments) == 4:
        return f"({_BUCKETS.format(*map(written, arguments))})"
    if name in ("encode", "decode", "to_number") and len(arguments) == 2 and len(arguments[1]) == 1:
        return _by_constant(name, written(arguments[0]), arguments[1][0].text)
    if name not in _CALLS or len(arguments) != 2 or len(arguments[1]) != 1 or arguments[1][0].kind != "string":
        return None
    pattern = strftime_format(arguments[1][0].text[1:-1])
    return None if pattern is None else _CALLS[name].format(written(arguments[0]), f"'{pattern}'")


def _by_constant(name: str, value: str, constant: str) -> str | None:
    """A call whose last argument is a constant: a coding, or the pattern of a number."""
    if name != "to_number":
        coded = _CODED.get((name, constant.lower()))
        return None if coded is None else coded.format(value)
    found = _DIGITS.fullmatch(constant[1:-1].upper())
    if found is None:
        return None
    whole, digits = sum(sign in "09" for sign in found[1]), len(found[2] or "")
    number = f"'^[+-]?[0-9]{{0,{whole}}}([.][0-9]{{0,{digits}}})?'"
    return f"CAST(regexp_extract(regexp_replace({value}, '[^0-9.+-]', '', 'g'), {number}) AS DECIMAL(38, {digits}))"


def _matched(inside: Sequence[Lexeme], written: Callable[[Sequence[Lexeme]], str]) -> str | None:
    """``substring(x FROM pattern)``: the part that matches, or that of the pattern's parentheses."""
    if len(inside) < 3 or inside[-1].kind != "string" or not inside[-2].says("FROM"):
        return None
    group = 1 if "(" in inside[-1].text else 0
    return f"nullif(regexp_extract({written(inside[:-2])}, {inside[-1].text}, {group}), '')"


def _opens(words: Sequence[Lexeme], place: int) -> bool:
    is_call = place + 1 < len(words) and words[place + 1].text == "("
    return is_call and words[place].kind == "word" and (place == 0 or words[place - 1].text != ".")


def _text(text: str, part: Sequence[Lexeme]) -> str:
    return with_duckdb_calls(text[part[0].start : part[-1].end]) if part else ""
