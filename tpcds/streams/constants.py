"""Texts with other constants: literals that stand for values of the data become other values of the same columns.

Strings are exchanged by a permutation of the values of their column, and numbers next to a column move by one distance,
so lists keep their length and ranges their width. Years move together with the dates in the text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from qoop.catalog.lexer import Lexeme, lexed

_STRINGS = (
    "item.i_category", "item.i_color", "item.i_units", "item.i_size", "customer_address.ca_state",
    "customer_address.ca_county", "customer_demographics.cd_education_status",
    "household_demographics.hd_buy_potential",
)  # fmt: skip
_NUMBERS = (
    "item.i_manufact_id", "item.i_manager_id", "item.i_category_id", "item.i_current_price",
    "household_demographics.hd_dep_count", "household_demographics.hd_vehicle_count", "store_sales.ss_quantity",
)  # fmt: skip
_YEAR, _MONTH = "d_year", "d_month_seq"
_SOLD = """
    SELECT min({column}), max({column}) FROM date_dim WHERE d_date_sk BETWEEN
        (SELECT min(ss_sold_date_sk) FROM store_sales) AND (SELECT max(ss_sold_date_sk) FROM store_sales)
"""
_FIXED = {"d_moy": (1, 12), "d_qoy": (1, 4)}
_GOES_ON = frozenset(("and", "between", "in", "not"))
_DATE = re.compile(r"'(\d{4})(-\d{1,2}-\d{1,2})'")


@dataclass(frozen=True)
class Constants:
    """The values that constants may have. strings: the values of each column. ranges: the least and the largest number
    of each column."""

    strings: Sequence[Sequence[str]]
    ranges: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection) -> Constants:
        """Those of the tables of TPC-DS."""
        return cls(list(_string_values(connection)), dict(_number_ranges(connection)))

    def drawn(self, text: str, chance: random.Random) -> str:
        """The text with other constants, where it has any."""
        words = lexed(text).words
        exchange = self._exchange(chance)
        near = _columns(words, self.ranges)
        moves = self._moves(words, near, chance)
        found = [text[:0]]
        end = 0
        for place, word in enumerate(words):
            found += (text[end : word.start], _written(word, near.get(place), exchange, moves))
            end = word.end
        return "".join((*found, text[end:]))

    def _exchange(self, chance: random.Random) -> Mapping[str, str]:
        pairs: dict[str, str] = {}
        for values in self.strings:
            pairs |= dict(zip(values, chance.sample(values, len(values)), strict=True))
        return pairs

    def _moves(self, words: Sequence[Lexeme], near: Mapping[int, str], chance: random.Random) -> Mapping[str, int]:
        """The distance by which the numbers of each column move."""
        by_column: dict[str, list[int]] = {}
        for place, column in near.items():
            by_column.setdefault(column, []).append(int(words[place].text))
        for word in words:
            if word.kind == "string" and (date := _DATE.fullmatch(word.text)):
                by_column.setdefault(_YEAR, []).append(int(date[1]))
        return {column: _move(numbers, self.ranges[column], chance) for column, numbers in by_column.items()}


def _move(numbers: Sequence[int], within: tuple[int, int], chance: random.Random) -> int:
    low, high = within[0] - min(numbers), within[1] - max(numbers)
    return chance.randint(low, high) if low <= high else 0


def _written(word: Lexeme, column: str | None, exchange: Mapping[str, str], moves: Mapping[str, int]) -> str:
    if column is not None:
        return str(int(word.text) + moves[column])
    if word.kind != "string":
        return word.text
    if date := _DATE.fullmatch(word.text):
        return f"'{int(date[1]) + moves.get(_YEAR, 0)}{date[2]}'"
    value = word.text[1:-1].replace("''", "'")
    return "'" + exchange.get(value, value).replace("'", "''") + "'"


def _columns(words: Sequence[Lexeme], ranges: Mapping[str, tuple[int, int]]) -> Mapping[int, str]:
    """The columns that whole numbers are compared with, by the places of the numbers."""
    found: dict[int, str] = {}
    column = ""
    for place, word in enumerate(words):
        name = word.text.lower()
        if word.kind == "word" and name not in _GOES_ON:
            column = name if name in ranges else ""
        elif word.kind == "number" and column and word.text.isdigit():
            low, high = ranges[column]
            if low <= int(word.text) <= high:
                found[place] = column
    return found


def _string_values(connection: duckdb.DuckDBPyConnection) -> Iterator[list[str]]:
    known: set[str] = set()
    for table, column in map(_parts, _STRINGS):
        rows = connection.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL ORDER BY 1")
        values = [str(value) for (value,) in rows.fetchall() if str(value).strip() and str(value) not in known]
        known.update(values)
        yield values


def _number_ranges(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, tuple[int, int]]]:
    yield from _FIXED.items()
    ends = {column: f"SELECT min({column}), max({column}) FROM {table}" for table, column in map(_parts, _NUMBERS)}
    ends |= {column: _SOLD.format(column=column) for column in (_YEAR, _MONTH)}
    for column, text in ends.items():
        [(low, high)] = connection.execute(text).fetchall()
        yield column, (int(low), int(high))


def _parts(name: str) -> tuple[str, str]:
    table, _, column = name.partition(".")
    return table, column
