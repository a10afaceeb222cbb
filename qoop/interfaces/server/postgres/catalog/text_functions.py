"""Functions of PostgreSQL that BI tools write into queries of data, and that DuckDB has by another name or form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from qoop.catalog.lexer import Lexeme, behind_closing, lexed, list_items

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
    """The text with calls as DuckDB takes them; others stay as they are.

    >>> with_duckdb_calls("SELECT a FROM t WHERE b > TO_DATE('01.02.2026', 'DD.MM.YYYY')")
    "SELECT a FROM t WHERE b > CAST(strptime('01.02.2026', '%d.%m.%Y') AS DATE)"
    >>> with_duckdb_calls("SELECT quote_literal(a) FROM t"), with_duckdb_calls("SELECT to_timestamp(0)")
    ("SELECT ('''' || replace(CAST(a AS VARCHAR), '''', '''''') || '''') FROM t", 'SELECT to_timestamp(0)')
    """
    if not any(name in text.lower() for name in (*_CALLS, "quote_literal")):
        return text
    words = lexed(text).words
    done, at = "", 0
    for place, word in enumerate(words):
        if word.start < at:
            continue
        end = behind_closing(words, place + 1) if _opens(words, place) else 0
        new = duckdb_call(word.text, words[place + 2 : end - 1], lambda part: _text(text, part)) if end else None
        if new is not None:
            done += text[at : word.start] + new
            at = words[end - 1].end
    return done + text[at:]


def duckdb_call(name: str, inside: Sequence[Lexeme], written: Callable[[Sequence[Lexeme]], str]) -> str | None:
    """A call as DuckDB takes it, None if it stays as it is. inside: its arguments. written: these as texts."""
    name = name.lower()
    arguments = [inside[first:after] for first, after in list_items(inside)]
    if name == "quote_literal" and len(arguments) == 1:
        return _QUOTE.format(written(arguments[0]))
    if name not in _CALLS or len(arguments) != 2 or len(arguments[1]) != 1 or arguments[1][0].kind != "string":
        return None
    pattern = strftime_format(arguments[1][0].text[1:-1])
    return None if pattern is None else _CALLS[name].format(written(arguments[0]), f"'{pattern}'")


def _opens(words: Sequence[Lexeme], place: int) -> bool:
    is_call = place + 1 < len(words) and words[place + 1].text == "("
    return is_call and words[place].kind == "word" and (place == 0 or words[place - 1].text != ".")


def _text(text: str, part: Sequence[Lexeme]) -> str:
    return with_duckdb_calls(text[part[0].start : part[-1].end]) if part else ""
