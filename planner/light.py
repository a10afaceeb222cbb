"""The texts that can be bound, planned and run within limits: a list of what they may hold. All others are isolated.

DuckDB folds an expression of constants while it binds a text, whatever its `memory_limit`, and the values of one row
lie outside of that limit, too. ``range(300000000)`` has 7 GB, wherever its argument comes from: a literal, a parameter,
a column of a WITH. So this does not ask what is constant, but what a function can make of its arguments: every
function of a light text puts out about as much as it reads, in time that grows like that. What joins values, such as
``||``, may double a text at each step, so the product of all such factors is bounded. Few joins and subqueries keep
the search for a plan short.

The list is of what is allowed: a function unknown here, a macro, or a newer DuckDB's, makes a text heavy.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from qoop.catalog.by_text import LONG
from qoop.catalog.lexer import Lexeme, lexed

_MOST_TABLES = 80
"""Tables and subqueries: a chain of 100 joins takes DuckDB over a minute to order."""
_MOST_DEPTH = 60
_MOST_GROWTH = math.log2(1 << 18)
"""The logarithm of the times that joined values may be as long as those that they are made of."""
_MOST_ELEMENTS = 64
"""Of an array type or a subscript: a vector of ``INTEGER[100000]`` has 800 MB."""
_MOST_WILDCARDS = 4
"""Of a pattern: LIKE tries a string of n characters up to n to the power of these."""

KEYWORDS = frozenset((
    "all", "and", "any", "anti", "as", "asof", "between", "by", "case", "cross", "cube", "distinct", "else",
    "end", "except", "exclude", "exists", "filter", "from", "full", "group", "grouping", "having", "ilike", "in",
    "inner", "intersect", "interval", "is", "join", "lateral", "left", "like", "limit", "materialized", "natural",
    "not", "null", "offset", "on", "or", "order", "outer", "over", "partition", "qualify", "rename", "replace", "right",
    "rollup", "select", "semi", "sets", "similar", "some", "then", "to", "union", "using", "values", "when", "where",
    "window", "with", "within",
))  # fmt: skip
"""Words before a parenthesis that call nothing. Some are functions, too, of which the list below has the harmless."""

TYPES = frozenset((
    "bigint", "bool", "boolean", "char", "date", "dec", "decimal", "double", "float", "hugeint", "int", "integer",
    "numeric", "real", "smallint", "struct", "text", "time", "timestamp", "timestamptz", "tinyint", "ubigint",
    "uhugeint", "uinteger", "usmallint", "utinyint", "uuid", "varchar",
))  # fmt: skip

FUNCTIONS = frozenset((
    # numbers
    "abs", "acos", "asin", "atan", "atan2", "cbrt", "ceil", "ceiling", "cos", "cot", "degrees", "even", "exp", "floor",
    "gcd", "greatest", "isfinite", "isinf", "isnan", "lcm", "least", "ln", "log", "log10", "log2", "mod", "pi", "pow",
    "power", "radians", "random", "round", "sign", "sin", "sqrt", "tan", "trunc", "width_bucket", "xor", "divide",
    "add", "subtract", "multiply", "fmod",
    # choices, types
    "cast", "try_cast", "coalesce", "ifnull", "nullif", "if", "try", "typeof", "pg_typeof", "hash", "md5", "sha1",
    "sha256", "uuid", "gen_random_uuid", "row", "struct_extract", "struct_pack", "error",
    # texts
    "ascii", "chr", "concat", "concat_ws", "contains", "ends_with", "lcase", "left", "length", "like_escape", "lower",
    "ltrim", "position", "prefix", "regexp_extract", "regexp_full_match", "regexp_matches", "regexp_replace",
    "replace", "reverse", "right", "rtrim", "split_part", "starts_with", "strip_accents", "strlen", "strpos", "instr",
    "substr", "substring", "suffix", "translate", "trim", "ucase", "unicode", "upper", "nfc_normalize", "initcap",
    "string_split", "str_split", "split", "string_to_array",
    # dates
    "age", "century", "current_date", "date", "date_add", "date_diff", "date_part", "date_sub", "date_trunc",
    "datediff", "datepart", "datesub", "datetrunc", "day", "dayname", "dayofmonth", "dayofweek", "dayofyear", "decade",
    "epoch", "epoch_ms", "epoch_us", "epoch_ns", "era", "extract", "hour", "isodow", "isoyear", "last_day", "make_date",
    "make_time", "make_timestamp", "microsecond", "millisecond", "minute", "month", "monthname", "now", "quarter",
    "second", "strftime", "strptime", "time_bucket", "timezone", "to_timestamp", "today", "to_days", "to_hours",
    "to_minutes", "to_months", "to_seconds", "to_weeks", "to_years", "try_strptime", "week", "weekday", "weekofyear",
    "year", "yearweek",
    # lists and JSON that are there
    "array_extract", "array_length", "cardinality", "element_at", "json_array_length", "json_extract",
    "json_extract_string", "json_type", "json_valid", "len", "list_contains", "list_count", "list_element",
    "list_extract", "list_max", "list_min", "list_sum", "list_value", "map_contains", "map_extract", "map_keys",
    "map_values", "unnest",
    # aggregates whose state has one size, and windows
    "any_value", "approx_count_distinct", "avg", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "corr", "count",
    "count_if", "count_star", "countif", "covar_pop", "covar_samp", "cume_dist", "dense_rank", "favg", "first",
    "first_value", "fsum", "kurtosis", "kurtosis_pop", "lag", "last", "last_value", "lead", "max", "mean", "min",
    "nth_value", "ntile", "percent_rank", "product", "rank", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept",
    "regr_r2", "regr_slope", "row_number", "skewness", "stddev", "stddev_pop", "stddev_samp", "sum", "sum_no_overflow",
    "var_pop", "var_samp", "variance",
))  # fmt: skip

_JOINING = frozenset(("concat", "concat_ws", "list_value", "row", "struct_pack"))
_REPLACING = frozenset(("replace", "regexp_replace", "strftime"))
_SPLITTING = frozenset(("split", "str_split", "string_split", "string_to_array"))
_OF_A_CHARACTER = 4.0
"""The logarithm of the bytes that a character has as an element of a list."""
_OF_ONE = frozenset(("max", "min"))
"""Aggregates that with a number keep that many values."""
_HEAVY_WORDS = frozenset(("recursive", "for", "glob", "lambda", "columns", "positional"))
_PARTS = frozenset(("select", "unnest", "values"))
_BEFORE_TABLES = frozenset(("from", "join", ",", "("))
_PATTERNS = frozenset(("like", "ilike"))
_NAMES_FOLLOW = frozenset(("as", "with"))


def is_light(text: str, tables: Collection[str] = ()) -> bool:
    """True for a text that takes no more than its tables have. tables: their names, in lower case.

    >>> is_light("SELECT upper(a) || '!', count(*) FROM t WHERE b IN (1, 2) GROUP BY ALL")
    True
    >>> is_light("SELECT len(range(300_000_000))"), is_light("SELECT repeat(a, 9) FROM t")
    (False, False)
    """
    if len(text) > LONG:
        return False
    words = lexed(text).words
    if not words or not _ends_with(text, words[-1]):
        return False
    return _Reading(words, tables).is_light()


def _ends_with(text: str, word: Lexeme) -> bool:
    """True if DuckDB's lexer has read the text to its end."""
    rest = text[word.end :].strip()
    return not rest or rest.startswith(("--", "/*"))


class _Reading:
    """The words of one text, read from the first to the last."""

    def __init__(self, words: Sequence[Lexeme], tables: Collection[str]) -> None:
        self._words, self._tables = words, tables
        self._calls: list[str] = []  # the functions, or other words, before the parentheses that are open
        self._parts = 0  # tables and subqueries
        self._named: set[str] = set()  # by WITH
        self._growth = 0.0
        self._longest = max((len(word.text) for word in words if word.kind == "string"), default=0)
        self._matches = False
        self._wildcards: list[int] = []

    def is_light(self) -> bool:
        for place, word in enumerate(self._words):
            if not (self._mark(place, word) if word.kind == "mark" else self._other(place, word)):
                return False
        patterns_grow = self._growth > 0 and sum(self._wildcards) > _MOST_WILDCARDS
        if self._matches and (max(self._wildcards, default=0) > _MOST_WILDCARDS or patterns_grow):
            return False
        return self._parts <= _MOST_TABLES and self._growth <= _MOST_GROWTH

    def _mark(self, place: int, word: Lexeme) -> bool:
        match word.text:
            case "(":
                return self._opens(place)
            case ")" if self._calls:
                self._calls.pop()
            case "," if self._calls and self._calls[-1] in _OF_ONE:
                return False
            case "||":
                self._growth += 1.0
            case "[" | "{":
                self._growth += self._size_of_list(place)
                return self._is_short(place)
            case text if "~~" in text:
                self._matches = True
        return True

    def _other(self, place: int, word: Lexeme) -> bool:
        if word.kind == "string":
            self._wildcards.append(word.text.count("%") + word.text.count("*"))
        name = (word.name or "").lower()
        if not name:
            return True
        self._parts += name in _PARTS or (self._text(place - 1) in _BEFORE_TABLES and self._is_table(place, name))
        if self._text(place + 1) == "as" and self._text(place + 2) in ("(", "materialized", "not"):
            self._named.add(name)
        self._matches |= name in _PATTERNS
        if name == "order" and self._calls and self._calls[-1] in FUNCTIONS:  # the rows of a group are kept
            return False
        if name == "for" and self._calls[-1:] == ["substring"]:
            return self._words[place - 1].kind == "number"
        return word.kind == "quoted" or name not in _HEAVY_WORDS

    def _is_table(self, place: int, name: str) -> bool:
        return (name in self._tables or name in self._named) and self._text(place + 1) != "."

    def _opens(self, place: int) -> bool:
        """A parenthesis: of a call, of what keywords begin, or of an expression."""
        before = self._words[place - 1] if place else None
        name = (before.name or "").lower() if before is not None else ""
        self._calls.append(name)
        if len(self._calls) > _MOST_DEPTH:
            return False
        if name in _JOINING:
            self._growth += self._size_of_list(place)
        elif name in _SPLITTING:
            self._growth += _OF_A_CHARACTER
        elif name in _REPLACING and self._text(place - 2) != "*":
            self._growth += math.log2(self._longest + 2)
        if self._text(place - 2) in _NAMES_FOLLOW:
            self._named.add(name)
            return True
        if not name or name in FUNCTIONS:
            return True
        assert before is not None
        return before.kind == "word" and (name in KEYWORDS or name in TYPES)

    def _size_of_list(self, place: int) -> float:
        """The logarithm of the number of items between two parentheses or brackets, at most."""
        depth, items = 0, 1
        for word in self._words[place:]:
            if word.kind == "mark":
                depth += (word.text in "([{") - (word.text in ")]}")
                items += word.text == "," and depth == 1
            if depth == 0:
                break
        return math.log2(items)

    def _is_short(self, place: int) -> bool:
        """False for a subscript that is a large number: of a type, it is the length of all arrays."""
        number = self._words[place + 1] if place + 1 < len(self._words) else None
        if number is None or number.kind != "number" or self._text(place + 2) != "]":
            return True
        return number.text.isdecimal() and int(number.text) <= _MOST_ELEMENTS and self._text(place - 1) != "]"

    def _text(self, place: int) -> str:
        return self._words[place].text.lower() if 0 <= place < len(self._words) else ""
