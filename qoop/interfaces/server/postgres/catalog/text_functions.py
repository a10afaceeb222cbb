"""Calls and constants of PostgreSQL that BI tools write into queries of data, in forms that DuckDB has."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from qoop.catalog.by_text import LONG
from qoop.catalog.lexer import Lexeme, behind_closing, lexed, list_items
from qoop.interfaces.server.postgres.catalog import json_operators
from qoop.interfaces.server.postgres.catalog.number_formats import number_text
from qoop.interfaces.server.postgres.catalog.operands import (
    BEHIND_TABLE,
    follow,
    is_item,
    rewritten,
)

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
_KINDS_OF_JSON = (
    "MAP {{'OBJECT': 'object', 'ARRAY': 'array', 'VARCHAR': 'string', 'BOOLEAN': 'boolean', 'NULL': 'null', "
    "'UBIGINT': 'number', 'BIGINT': 'number', 'DOUBLE': 'number', 'HUGEINT': 'number', 'UHUGEINT': 'number'}}"
    "[json_type({0})]"
)
_PRETTY = r"regexp_replace(json_pretty({0}), '(?m)^( *)(.*)([{{\[])([}}\]])(,?)$', E'\\1\\2\\3\n\\1\\4\\5', 'g')"
_DAYS, _MONTHS = "datepart('day', qoop_x)", "12 * datepart('year', qoop_x) + datepart('month', qoop_x)"
_TIME = "(3600000000 * datepart('hour', qoop_x) + 60000000 * datepart('minute', qoop_x) + datepart('us', qoop_x))"
_PARTS = (
    "list_transform([CAST({{0}} AS INTERVAL)], lambda qoop_x: to_months(CAST({months} AS INTEGER)) + "
    "to_days(CAST({days} AS INTEGER)) + to_microseconds({time}))[1]"
)
_ALL, _ALL_DAYS = f"(86400000000 * {_DAYS} + {_TIME})", f"(30 * ({_MONTHS}) + {_DAYS})"
_IN_DAYS = _PARTS.format(months=f"trunc({_ALL_DAYS} / 30)", days=f"{_ALL_DAYS} % 30", time=_TIME)
_IN_HOURS = _PARTS.format(months=_MONTHS, days=f"trunc({_ALL} / 86400000000)", time=f"{_ALL} % 86400000000")
_OF_ONE: Mapping[str, str] = {
    "jsonb_pretty": _PRETTY, "quote_literal": _QUOTE, "initcap": _INITIALS, "json_typeof": _KINDS_OF_JSON,
    "jsonb_typeof": _KINDS_OF_JSON, "justify_days": _IN_DAYS, "justify_hours": _IN_HOURS,
}  # fmt: skip
"""Calls with one argument."""
_OF_MORE: Mapping[tuple[str, int], str] = {
    ("date_bin", 3): "time_bucket(CAST({0} AS INTERVAL), {1}, {2})",
    ("div", 2): "CAST(trunc(({0}) / ({1})) AS HUGEINT)",
    ("array_remove", 2): "list_filter({0}, lambda qoop_x: qoop_x IS DISTINCT FROM {1})",
}  # fmt: skip
"""Calls by the number of their arguments."""
_ROWS: Mapping[str, str] = {
    "generate_series": "generate_series({0})", "string_to_table": "string_split({0})",
    "json_object_keys": "json_keys({0})", "jsonb_object_keys": "json_keys({0})",
    "json_array_elements": "json_extract({0}, '$[*]')", "jsonb_array_elements": "json_extract({0}, '$[*]')",
    "json_array_elements_text": "json_extract_string({0}, '$[*]')",
    "jsonb_array_elements_text": "json_extract_string({0}, '$[*]')",
}  # fmt: skip
"""Functions of rows, as the lists that DuckDB unnests."""
_OF_PATH = {
    f"{kind}_extract_path{end}": call
    for kind in ("json", "jsonb")
    for end, call in (("", "json_extract"), ("_text", "json_extract_string"))
}
_EACH = "(SELECT unnest(json_keys({0})) AS key, unnest(json_extract_string({0}, '$.*')) AS value)"
_RECORDS = {
    f"{kind}_to_{rows}": source
    for kind in ("json", "jsonb")
    for rows, source in (("record", "{0}"), ("recordset", "unnest(json_extract({0}, '$[*]'))"))
}
"""Functions of rows whose columns a list behind their alias declares."""
_INTERVAL = ("years", "months", "weeks", "days", "hours", "mins", "secs")
"""The arguments of make_interval."""
RENAMED = {
    "json_build_object": "json_object", "jsonb_build_object": "json_object", "json_build_array": "json_array",
    "jsonb_build_array": "json_array", "json_agg": "json_group_array", "jsonb_agg": "json_group_array",
    "json_object_agg": "json_group_object", "jsonb_object_agg": "json_group_object", "to_jsonb": "to_json",
    "array_to_json": "to_json", "every": "bool_and", "btrim": "trim", "clock_timestamp": "now",
    "statement_timestamp": "now", "jsonb_array_length": "json_array_length", "justify_interval": "normalized_interval",
}  # fmt: skip
"""Functions that DuckDB has by another name."""
_IGNORING_CASE = {"~*": "~", "!~*": "!~"}
_OF_VALUES = [name for name in _ROWS if "array_elements" in name]
"""Functions of rows whose column is called value, besides by the name of its table."""
_BEFORE_TABLE = ("FROM", ",", "JOIN", "LATERAL")
_PLACE = re.compile(r"%(?:(\d+)\$)?([sIL%])")
_PLAIN_NAME = "'[a-z_][a-z0-9_$]*'"
_WRITTEN: Mapping[str, str] = {
    "s": "{0}", "L": f"coalesce({_QUOTE}, 'NULL')",
    "I": f"CASE WHEN regexp_full_match({{0}}, {_PLAIN_NAME}) THEN {{0}} ELSE "
    "concat('\"', replace({0}, '\"', '\"\"'), '\"') END",
}  # fmt: skip
"""Values in a text of format()."""
_LOCKS = (("update",), ("share",), ("no", "key", "update"), ("key", "share"))
_MOST_WORDS = 300
"""Of a query in parentheses before its locking clause: a text may have a thousand such."""
_BEHIND_LOCK = ("OF", "NOWAIT", "SKIP", "LIMIT", "OFFSET", "FETCH", "FOR")
_SIGNS = (
    *_CALLS, *_OF_ONE, *(name for name, _ in _OF_MORE), *_ROWS, "_each_text", "_to_record", "make_interval",
    "overlay", "num_nulls", "num_nonnulls", "_extract_path", *RENAMED, *_IGNORING_CASE, "substring", "'{", "name",
    "width_bucket", "encode", "decode", "to_number", "format", "share", "update", "similar", "tablesample", "jsonb",
    "regexp_match",
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
    if not any(sign in lower for sign in (*_SIGNS, *json_operators.SIGNS)):
        return text
    text = json_operators.with_calls(text)
    words = lexed(text).words
    return rewritten(text, words, partial(_in_place_of, text, words))


def _in_place_of(text: str, words: Sequence[Lexeme], place: int) -> tuple[str, int] | None:
    """The text in the place of the word there, and of those up to the second value; None: it stays."""
    word, after = words[place], [one.text for one in words[place + 1 : place + 5]]
    if _opens(words, place):
        end = behind_closing(words, place + 1)
        if word.text.lower() in _ROWS:
            return _rows(text, words, place, end)
        if words[place - 1].says(*_BEFORE_TABLE) and (found := _records(text, words, place, end)) is not None:
            return found
        new = duckdb_call(word.text, words[place + 2 : end - 1], lambda part: _text(text, part))
        return None if new is None else (new, end)
    if word.text in _IGNORING_CASE and after and after[0].startswith("'"):
        return f"{_IGNORING_CASE[word.text]} '(?s:.*)(?i:{after[0][1:-1]})(?s:.*)'", place + 2
    if word.text.startswith("'{") and after[:1] == ["::"] and after[2:] == ["[", "]"]:
        return f"'[{word.text[2:-2]}]'", place + 1
    if word.says("NAME", "JSONB") and place and words[place - 1].text == "::":
        return "text" if word.says("NAME") else "json", place + 1
    if word.says("FOR") and len(text) < LONG and (unlocked := _lock_end(words, place)) is not None:
        return "", unlocked
    if word.says("SIMILAR", "TABLESAMPLE"):
        return _pattern_or_sample(words, place)
    return None


def _pattern_or_sample(words: Sequence[Lexeme], place: int) -> tuple[str, int] | None:
    """``SIMILAR TO`` with PostgreSQL's signs, where DuckDB has regular expressions, and a sample in percent."""
    pattern = words[place + 2].text if place + 2 < len(words) else ""
    if words[place].says("SIMILAR") and pattern.startswith("'") and "%" in pattern and ".*" not in pattern:
        return f"SIMILAR TO {pattern.replace('%', '.*').replace('_', '.')}", place + 3
    if follow(words, place + 2, "(") and words[place + 1].says("SYSTEM", "BERNOULLI") and follow(words, place + 4, ")"):
        return f"TABLESAMPLE {words[place + 1].text} ({words[place + 3].text} PERCENT)", place + 5
    return None


def _rows(text: str, words: Sequence[Lexeme], place: int, end: int) -> tuple[str, int]:
    """A call of a function of rows as an item of a SELECT, or as a table, and the place behind it. end: of the call."""
    name, inside = words[place].text.lower(), words[place + 2 : end - 1]
    is_table = words[place - 1].says(*_BEFORE_TABLE)
    if name != "generate_series":
        rows = f"unnest({_ROWS[name].format(_text(text, inside))})"
        return f"(SELECT {rows} AS {_column(words, place, end)})" if is_table else rows, end
    called = f"generate_series({_with_interval(text, inside)})"
    if len(text) >= LONG:
        return called, end
    if is_item(words, place):
        return f"unnest({called})", end
    column = _column(words, place, end)
    follows = end + (2 if follow(words, end, "as") else 1)
    if not is_table or column == words[place].text or follow(words, follows, "(") or text.lower().count(name) > 1:
        return called, end
    return f"{called} AS {column}({column})", follows


def _records(text: str, words: Sequence[Lexeme], place: int, end: int) -> tuple[str, int] | None:
    """A table of the fields of JSON: by name and text, or with the columns that follow. None: it is another function.
    end: of the call."""
    name, inside = words[place].text.lower(), _text(text, words[place + 2 : end - 1])
    if name in ("json_each_text", "jsonb_each_text"):
        each = _bounded(_EACH.format(inside))
        return None if each is None else (each, end)
    opens = end + (2 if follow(words, end, "as") else 1)
    if name not in _RECORDS or not follow(words, opens, "("):
        return None
    close, columns = behind_closing(words, opens) - 1, list[str]()
    for first, after in list_items(words[:close], opens + 1):
        column, type_ = words[first].text, text[words[first + 1].start : words[after - 1].end]
        extracted = "json_extract" if type_.lower().startswith("json") else "json_extract_string"
        path = f"""'$."{column.strip('"').replace("'", "''")}"'"""
        columns.append(f"CAST({extracted}(qoop_x, {path}) AS {type_.lower().replace('jsonb', 'json')}) AS {column}")
    rows = f"SELECT {_RECORDS[name].format(inside)} AS qoop_x"
    return f"(SELECT {', '.join(columns)} FROM ({rows})) AS {words[opens - 1].text}", close + 1


def _column(words: Sequence[Lexeme], place: int, end: int) -> str:
    """The name of the column of a function of rows in FROM: that of its table."""
    alias = words[end + 1 if follow(words, end, "as") else end :][:1]
    if words[place].text.lower() in _OF_VALUES and any(word.says("VALUE") for word in words):
        return "value"
    return alias[0].text if alias and alias[0].name and not alias[0].says(*BEHIND_TABLE) else words[place].text


def _with_interval(text: str, inside: Sequence[Lexeme]) -> str:
    """The arguments of generate_series, of which PostgreSQL takes a step as a text: ``'1 day'``."""
    written = _text(text, inside)
    is_text = len(inside) > 1 and inside[-1].kind == "string" and inside[-2].text == ","
    return f"{written[: -len(inside[-1].text)]}INTERVAL {inside[-1].text}" if is_text else written


def _lock_end(words: Sequence[Lexeme], place: int) -> int | None:
    """The place behind the locking clause that begins there: ``FOR UPDATE OF t SKIP LOCKED``. None: it is another FOR.

    Rows here are only read, so a lock has no effect.
    """
    end = next((place + 1 + len(lock) for lock in _LOCKS if follow(words, place + 1, *lock)), None)
    if end is None or (follow(words, end, ")") and not _is_of_query(words, place)):
        return None
    if end < len(words) and words[end].text not in (")", ";") and not words[end].says(*_BEHIND_LOCK):
        return None
    if follow(words, end, "of"):
        end += 2
        while end < len(words) and words[end].text in (",", "."):
            end += 2
    if follow(words, end, "nowait"):
        return end + 1
    return end + 2 if follow(words, end, "skip", "locked") else end


def _is_of_query(words: Sequence[Lexeme], place: int) -> bool:
    """True if the word there, in parentheses, is a clause of a query, and in no call."""
    depth = 0
    for at in range(place - 1, max(-1, place - _MOST_WORDS), -1):
        depth += (words[at].text == ")") - (words[at].text == "(")
        if depth < 0:
            return words[at + 1].says("SELECT", "WITH", "FROM", "TABLE", "VALUES")
    return False


def duckdb_call(name: str, inside: Sequence[Lexeme], written: Callable[[Sequence[Lexeme]], str]) -> str | None:
    """A call as DuckDB takes it, None if it stays as it is. inside: its arguments. written: these as texts."""
    name = name.lower()
    if name in RENAMED:
        return f"{RENAMED[name]}({written(inside)})"
    if name == "substring":
        return _matched(inside, written)
    if name == "cast" and len(inside) > 2 and inside[-2].says("AS") and inside[-1].says("JSONB"):
        return f"CAST({written(inside[:-1])} JSON)"
    arguments = [inside[first:after] for first, after in list_items(inside)]
    if name in _OF_ONE and len(arguments) == 1:
        return _OF_ONE[name].format(written(arguments[0]))
    if (name, len(arguments)) in _OF_MORE:
        return _bounded(_OF_MORE[name, len(arguments)].format(*map(written, arguments)))
    if name in ("num_nulls", "num_nonnulls"):
        test = "IS NULL" if name == "num_nulls" else "IS NOT NULL"
        return "(" + " + ".join(f"CAST(({written(one)}) {test} AS INTEGER)" for one in arguments) + ")"
    if name in _OF_PATH and len(arguments) > 1 and all(len(one) == 1 for one in arguments[1:]):
        return _below(_OF_PATH[name], written(arguments[0]), [one[0] for one in arguments[1:]])
    if name == "make_interval":
        return _interval(arguments, written)
    if name == "overlay":
        return _overlaid(inside, written)
    if name == "format" and arguments and len(arguments[0]) == 1:
        return _bounded(_formatted(arguments[0][0].text, [written(one) for one in arguments[1:]]))
    if name == "regexp_match" and len(arguments) == 2 and arguments[1][0].kind == "string":
        return _bounded(_first_match(written(arguments[0]), arguments[1][0].text))
    if name == "width_bucket" and len(arguments) == 4:
        return _bounded(f"({_BUCKETS.format(*map(written, arguments))})")
    if name in ("encode", "decode", "to_number") and len(arguments) == 2 and len(arguments[1]) == 1:
        return _by_constant(name, written(arguments[0]), arguments[1][0].text)
    if name not in _CALLS or len(arguments) != 2 or len(arguments[1]) != 1 or arguments[1][0].kind != "string":
        return None
    if name == "to_char" and (number := number_text(arguments[1][0].text[1:-1])) is not None:
        return number.format(written(arguments[0]))
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


def _below(call: str, value: str, steps: Sequence[Lexeme]) -> str | None:
    """``json_extract_path_text(doc, 'a', '0')``; None where a step is no constant."""
    names = [step.text[1:-1] for step in steps]
    if any(step.kind != "string" or {"'", '"', "\\"} & set(name) for step, name in zip(steps, names, strict=True)):
        return None
    return f"{call}({value}, {json_operators.path_of(names)})"


def _bounded(called: str | None) -> str | None:
    """A call that has an argument more than once: each such call within another would double the text."""
    return called if called is not None and len(called) < LONG else None


def _formatted(pattern: str, values: Sequence[str]) -> str | None:
    """``format('%I.%s', a, b)`` as a call of concat; None where the pattern is none of PostgreSQL's.

    >>> _formatted("'%s of %2$s, 5 %%'", ["a", "b"]), _formatted("'{} of {}'", ["a", "b"])
    ("concat('', a, ' of ', b, ', 5 %')", None)
    """
    if (
        not pattern.startswith("'")
        or "{" in pattern
        or _PLACE.search(pattern) is None
        or "%" in _PLACE.sub("", pattern)
    ):
        return None
    pieces, at, count = [""], 1, 0
    for found in _PLACE.finditer(pattern):
        pieces[-1] += pattern[at : found.start()]
        at = found.end()
        if found[2] == "%":
            pieces[-1] += "%"
            continue
        count = int(found[1]) if found[1] else count + 1
        if not 0 < count <= len(values):
            return None
        pieces += [_WRITTEN[found[2]].format(values[count - 1]), ""]
    pieces[-1] += pattern[at:-1]
    return (
        "concat(" + ", ".join(f"'{one}'" if n % 2 == 0 else one for n, one in enumerate(pieces) if one or not n) + ")"
    )


def _first_match(value: str, pattern: str) -> str:
    """``regexp_match(a, 'x(y)')``: the parts of the first match, or all of it; NULL where there is none."""
    groups = len(re.findall(r"(?<!\\)\((?!\?)", pattern))
    parts = ", ".join(f"regexp_extract({value}, {pattern}, {n})" for n in (range(1, groups + 1) if groups else (0,)))
    return f"(CASE WHEN regexp_matches({value}, {pattern}) THEN [{parts}] END)"


def _interval(arguments: Sequence[Sequence[Lexeme]], written: Callable[[Sequence[Lexeme]], str]) -> str | None:
    """``make_interval(days => 3)`` as a sum of DuckDB's calls; None for an argument that it has not."""
    parts = ["INTERVAL '0 seconds'"]
    for name, one in zip(_INTERVAL, arguments, strict=False):
        if len(one) > 2 and one[1].text in ("=>", ":="):
            name, one = one[0].text.lower(), one[2:]
        if name not in _INTERVAL:
            return None
        unit = {"mins": "minutes", "secs": "seconds"}.get(name, name)
        if one:
            parts.append(f"to_{unit}(CAST({written(one)} AS {'DOUBLE' if unit == 'seconds' else 'INTEGER'}))")
    return f"({' + '.join(parts)})"


def _overlaid(inside: Sequence[Lexeme], written: Callable[[Sequence[Lexeme]], str]) -> str | None:
    """``overlay(x PLACING y FROM n FOR m)`` as its three parts."""
    parts, first = list[str](), 0
    for word in ("PLACING", "FROM", "FOR"):
        [(_, after), *_] = list_items(inside, first, (word,))
        parts.append(f"({written(inside[first:after])})")
        if (first := after + 1) > len(inside):
            break
    else:
        parts.append(f"({written(inside[first:])})")
    if len(parts) < 3:
        return None
    value, new, start, count = (*parts, f"length({parts[1]})")[:4]
    before, behind = f"substring({value}, 1, {start} - 1)", f"substring({value}, {start} + {count})"
    return _bounded(f"({before} || {new} || {behind})")


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
