"""Patterns of PostgreSQL's to_char for numbers, as expressions of DuckDB."""

from __future__ import annotations

import re

_PATTERN = re.compile(r"(FM)?([$]?)([09,G]*[09])(?:[.D]([09]+))?(%?)")
_MOST_DIGITS = 18
_GROUP = 3
_WHOLE = (
    "CASE WHEN qoop_w < {low} THEN ltrim(substring(format('{{:{comma}}}', qoop_w + {low}), 2), ',') "
    "ELSE format('{{:{comma}}}', qoop_w) END"
)
"""The digits before the point. qoop_w: their number. low: the least number that needs no zeros before it."""


def number_text(pattern: str) -> str | None:
    """The text of a number {0} by a pattern; None: for DuckDB there is no such expression here.

    Digits, one kind of groups, a sign in front, and the signs $ and % are known; a number that does not fit is written
    in signs of #, as PostgreSQL writes it.

    >>> number_text("FM999th"), number_text("9,99"), number_text("YYYY")
    (None, None, None)
    """
    found = _PATTERN.fullmatch(pattern.upper())
    if found is None:
        return None
    fills, dollar, whole, decimals, percent = found[1] is None, found[2], found[3].replace("G", ","), found[4], found[5]
    places = whole.replace(",", "")
    grouped = format(int("1" * len(places)), ",").replace("1", "9")
    if len(places) + len(decimals or "") > _MOST_DIGITS or whole.replace("0", "9") not in (grouped, "9" * len(places)):
        return None
    least = len(places) - places.index("0") if "0" in places else int(decimals is None)
    text = f"({_WHOLE.format(low=10**least, comma=',' if ',' in whole else '')})"
    if decimals is not None:
        text = f"{text} || '.' || {_decimals(decimals, fills)}"
        if not fills and "0" not in places + decimals:
            text = f"CASE WHEN qoop_v = 0 THEN '0.' ELSE {text} END"
    many = re.sub("[09]", "#", whole + ("." + decimals if decimals else ""))
    text = f"CASE WHEN qoop_w >= {10 ** len(places)} THEN '{many}' ELSE {text} END"
    text = f"(CASE WHEN qoop_v < 0 THEN '-' ELSE '' END) || ({text})"
    if fills:
        text = f"lpad({text}, {len(many) + 1}, ' ')"
    text = text.replace("qoop_w", "CAST(trunc(abs(qoop_v)) AS BIGINT)")
    number = f"CAST({{0}} AS DECIMAL(38, {len(decimals or '')}))"
    text = text.replace("{", "{{").replace("}", "}}")
    return f"list_transform([{number}], lambda qoop_v: '{dollar}' || {text} || '{percent}')[1]"


def _decimals(decimals: str, fills: bool) -> str:
    """The digits behind the point; without blanks those that may be missing have no zeros at the end."""
    text, kept = f"right(CAST(qoop_v AS VARCHAR), {len(decimals)})", decimals.rindex("0") + 1 if "0" in decimals else 0
    if fills or kept == len(decimals):
        return text
    return f"left({text}, {kept}) || rtrim(substring({text}, {kept + 1}), '0')"
