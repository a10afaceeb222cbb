"""Questions about the catalog, from PostgreSQL's SQL to that of the DuckDB that answers them.

DuckDB's parser takes most of PostgreSQL's SQL. What it takes in another sense, or not at all, is rewritten word by
word: operators with a schema, regular expressions, casts to regclass and the like, arrays in braces, system columns.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from qoop.catalog.errors import BindError
from qoop.catalog.lexer import Lexeme, behind_closing, lexed, list_items, quoted, without_end
from qoop.catalog.value import value
from qoop.interfaces.server.postgres.catalog.carriers import NAMED, cast_type
from qoop.interfaces.server.postgres.catalog.column_names import KEYWORD_CALLS, SYSTEM_COLUMNS, named_columns
from qoop.interfaces.server.postgres.catalog.data import functions, relations
from qoop.interfaces.server.postgres.catalog.functions import TABLE_MACROS
from qoop.interfaces.server.postgres.catalog.operands import (
    BEHIND_TABLE,
    CLAUSES,
    TEXT_TYPES,
    casts_to_text,
    follow,
    is_callable,
    is_name,
    last_as,
    operand_end,
    operand_start,
    type_end,
)
from qoop.interfaces.server.postgres.catalog.text_functions import duckdb_call
from qoop.planner import lock
from qoop.query.statements.parameters import literal

SCHEMA_OF_INFORMATION = "pgi"
"""The schema that stands for information_schema, which DuckDB has one of its own of."""

_MATCHES = {"~": ("", ""), "!~": ("NOT ", ""), "~*": ("", ", 'i'"), "!~*": ("NOT ", ", 'i'")}
"""Operators of regular expressions, which match a part of a text: DuckDB 1.5's match the whole."""
_RESERVED = ("at", "describe", "lambda", "pivot", "qualify", "show", "summarize", "unpivot", "anti", "semi", "asof")
_CALL = "CALL"
"""The clause within the parentheses of a call, where FROM is a word of EXTRACT or TRIM."""
_SETS = ("generate_series", "unnest", "generate_subscripts")
_TABLES = frozenset(
    (*lock.TABLE_FUNCTIONS, *TABLE_MACROS, *(one.name for one in functions() if one.returns_set), "json_to_recordset")
)
"""Functions of rows, which stand in FROM as they are."""
_NUMBERS = {
    name: type_ for one in relations() for name, type_ in one.columns if type_ in ("regproc", "regtype", "regclass")
}
"""Columns that hold a function, type or table by its number, and are shown as names."""


@value
class Numbers:
    """The numbers of what a text may name, in lower case, for each of regclass, regtype, regproc, regnamespace and
    regrole."""

    of: Mapping[str, Mapping[str, int]]

    def find(self, kind: str, text: str) -> int | None:
        """The number of a name, which may have a schema and quotes, or be a number itself."""
        if text.isdecimal():
            return int(text)
        if text.lower() in (found := self.of.get(kind, {})):
            return found[text.lower()]
        names = [word.name for word in lexed(text).words if word.name is not None]
        if len(names) > 1 and names[-2] in ("public", "main", "pg_catalog"):
            names = names[-1:]
        return found.get(".".join(names).lower()) if names else None


def as_duckdb(text: str, numbers: Numbers, database: str = "") -> str:
    """A question in PostgreSQL's SQL as DuckDB takes it. database: a name that may stand before those of schemas.

    >>> numbers = Numbers({"regclass": {"t": 16384}})
    >>> as_duckdb("SELECT relname::pg_catalog.text AS x WHERE relname OPERATOR(pg_catalog.~) 'x'", numbers)
    "SELECT relname :: VARCHAR AS x WHERE regexp_matches(relname, 'x')"
    >>> as_duckdb("SELECT t.oid = ANY (p.polroles) AS a, 'public.t'::regclass AS t", numbers)
    'SELECT list_contains(p.polroles, t.oid) AS a , CAST(16384 AS DECIMAL(31,0)) AS t'
    """
    return _Rewriting(numbers, database).text_of(named_columns(lexed(without_end(text)).words))


class _Rewriting:
    """The words of a text as they are rewritten; the last ones are the operand of what comes next."""

    def __init__(self, numbers: Numbers, database: str) -> None:
        self._numbers, self._database = numbers, database
        self._done: list[str] = []
        self._clauses = [""]

    def text_of(self, words: Sequence[Lexeme]) -> str:
        """All words, rewritten."""
        return _joined(self.all_of(words))

    def all_of(self, words: Sequence[Lexeme]) -> list[str]:
        """The pieces of the words, rewritten; an operand is never torn apart."""
        at = 0
        while at < len(words):
            at += self._one(words, at)
        return self._done

    def _inner(self, words: Sequence[Lexeme]) -> str:
        other = _Rewriting(self._numbers, self._database)
        other._clauses = [_CALL]
        return other.text_of(words)

    def _one(self, words: Sequence[Lexeme], at: int) -> int:
        """Add the word there, and return how many words are done with it."""
        for rule in _RULES:
            count = rule(self, words, at)
            if count:
                return count
        word = words[at]
        if word.says(*CLAUSES) and (self._clauses[-1] != _CALL or word.says("SELECT")):
            self._clauses[-1] = word.text.upper()
        if word.text == "(":
            self._clauses.append(_CALL if self._done and is_callable(self._done[-1]) else self._clauses[-1])
        elif word.text == ")" and len(self._clauses) > 1:
            self._clauses.pop()
        self._done.append(word.text)
        return 1

    def _schema(self, words: Sequence[Lexeme], at: int) -> int:
        if not follow(words, at + 1, ".") or self._done[-1:] == ["."]:
            return 0
        if words[at].name == self._database and follow(words, at + 3, "."):
            return 2
        match (words[at].name or "").lower():
            case "pg_catalog":
                return 2
            case "information_schema" if follow(words, at + 2, "_pg_expandarray"):
                return 2
            case "information_schema":
                self._done += [SCHEMA_OF_INFORMATION, "."]
                return 2
        return 0

    def _operator(self, words: Sequence[Lexeme], at: int) -> int:
        if not words[at].says("OPERATOR") or not follow(words, at + 1, "(", "pg_catalog", "."):
            return 0
        signs = [one.text for one in takewhile(lambda one: one.text != ")", words[at + 4 :])]
        sign, count = "".join(signs), 5 + len(signs)
        return count + self._operate(sign, words, at + count)

    def _sign(self, words: Sequence[Lexeme], at: int) -> int:
        if words[at].kind != "mark" or words[at].text not in _MATCHES:
            return 0
        return 1 + self._operate(words[at].text, words, at + 1)

    def _operate(self, sign: str, words: Sequence[Lexeme], at: int) -> int:
        """Apply an operator to the operand before it and that which begins there; returns the words of the latter."""
        if sign not in _MATCHES:
            self._done.append(sign)
            return 0
        end = operand_end(words, at)
        negated, option = _MATCHES[sign]
        self._wrap(lambda operand: f"{negated}regexp_matches({operand}, {self._inner(words[at:end])}{option})")
        return end - at

    def _like(self, words: Sequence[Lexeme], at: int) -> int:
        """A backslash in a pattern is an escape without being declared as one."""
        before = words[at - 1] if at else None
        if words[at].kind != "string" or before is None or not (
            before.says("LIKE", "ILIKE") or before.text in ("~~", "~~*", "!~~", "!~~*")
        ):  # fmt: skip
            return 0
        if "\\" not in words[at].text or follow(words, at + 1, "escape"):
            return 0
        text = words[at].text
        pattern = text[1:].replace("\\\\", "\\") if text[:1] in "eE" else text
        if self._done[-1] in (signs := {"~~": "LIKE", "~~*": "ILIKE", "!~~": "NOT LIKE", "!~~*": "NOT ILIKE"}):
            self._done[-1] = signs[self._done[-1]]
        self._done += [pattern, "ESCAPE", "'\\'"]
        return 1

    def _collation(self, words: Sequence[Lexeme], at: int) -> int:
        """One collation sorts all texts here."""
        if not words[at].says("COLLATE"):
            return 0
        return 4 if follow(words, at + 2, ".") else 2

    def _among(self, words: Sequence[Lexeme], at: int) -> int:
        """``= ANY (list)`` as a call: DuckDB takes it only where the list is of no outer query."""
        sign = words[at].text
        which = {"=": ("any", "some"), "<>": ("all",), "!=": ("all",)}.get(sign, ())
        if at + 2 >= len(words) or words[at + 1].text.lower() not in which or words[at + 2].text != "(":
            return 0
        end = behind_closing(words, at + 2)
        values = words[at + 3 : end - 1]
        if values and values[0].says("SELECT", "VALUES", "WITH"):
            return 0
        negated = "" if sign == "=" else "NOT "
        if len(values) == 1 and values[0].text.startswith("'{"):
            self._done.append(f"{negated}IN ({_listed(values[0].text)})")
        else:
            self._wrap(lambda operand: f"{negated}list_contains({self._inner(values)}, {operand})")
        return end - at

    def _cast(self, words: Sequence[Lexeme], at: int) -> int:
        if words[at].text != "::":
            return 0
        return 1 + self._cast_to(words, at + 1)

    def _cast_call(self, words: Sequence[Lexeme], at: int) -> int:
        """``CAST(x AS type)``, as ``(x)::type``."""
        if not words[at].says("CAST") or not follow(words, at + 1, "("):
            return 0
        end = behind_closing(words, at + 1)
        place = last_as(words, at + 2, end - 1)
        if place is None or type_end(words, place + 1) != end - 1:
            return 0
        self._done.append(f"({self._inner(words[at + 2 : place])})" if place - at > 3 else words[at + 2].text)
        self._cast_to(words, place + 1)
        return end - at

    def _cast_to(self, words: Sequence[Lexeme], at: int) -> int:
        """Cast the operand to the type that begins there; returns its words."""
        end = type_end(words, at)
        first = at + 2 if follow(words, at, "pg_catalog", ".") else at
        names = [word for word in words[first:end] if word.name is not None]
        name = (names[-1].name or "").lower() if names else ""
        is_list = words[end - 1].text == "]"
        if name == "char" and (is_list or names[-1].kind == "word"):
            name = "text"
        if is_list and self._done[-1].startswith("'{"):  # DuckDB reads what stands between, but for its own brackets
            self._done[-1] = f"'[{self._done[-1][2:-2]}]'"
        if name in NAMED and not is_list:
            self._to_named(name, to_text=casts_to_text(words, end))
        elif name in TEXT_TYPES and not is_list and (kind := self._shown_as()) is not None:
            self._wrap(lambda operand: f"pg_{kind}_text({operand})")
        elif (type_ := cast_type(name)) is not None:
            self._done += ["::", type_ + ("[]" if is_list else "")]
        else:
            self._done += ["::", *(word.text for word in words[first:end])]
        return end - at

    def _shown_as(self) -> str | None:
        """The type of the operand if it is a number shown as a name: by its column, or a call of to_regclass."""
        first = self._done[operand_start(self._done)].lower()
        if first.startswith("to_") and first.removeprefix("to_") in NAMED:
            return first.removeprefix("to_")
        return _NUMBERS.get(self._done[-1].lower())

    def _to_named(self, kind: str, to_text: bool) -> None:
        """Cast the operand to a regclass or the like."""
        operand = self._taken()
        family = {"regprocedure": "regproc", "regoperator": "regoper"}.get(kind, kind)
        if operand.startswith("'"):
            text = operand[1:-1].replace("''", "'")
            number = self._numbers.find(family, text)
            if number is None:
                raise BindError(f'{_NOUNS.get(family, "object")} "{text}" does not exist')
            number_sql = f"CAST({number} AS {NAMED[kind]})"
        else:
            number_sql = f"CAST(pg_{family}_number({operand}) AS {NAMED[kind]})"
        self._done.append(f"pg_{family}_text({number_sql})" if to_text else number_sql)

    def _reserved(self, words: Sequence[Lexeme], at: int) -> int:
        """A name that is a word of DuckDB's grammar alone."""
        word = words[at]
        if word.kind != "word" or word.text.lower() not in _RESERVED or follow(words, at + 1, "time"):
            return 0
        if not word.says("AT") and not is_name(words, at):
            return 0
        self._done.append(quoted(word.text))
        return 1

    def _number_of_schema(self, words: Sequence[Lexeme], at: int) -> int:
        """A schema is compared with by its name behind ``relnamespace =`` and the like."""
        done = self._done
        if words[at].kind != "string" or len(done) < 2 or done[-1] not in ("=", "<>", "!="):
            return 0
        if follow(words, at + 1, "::"):
            return 0
        column = done[-2].lower()
        kind = "regnamespace" if column.endswith("namespace") else _NUMBERS.get(column)
        text = words[at].text[1:-1]
        if kind is None or text == "-" or (number := self._numbers.find(kind, text)) is None:
            return 0
        done.append(str(number))
        return 1

    def _keyword_call(self, words: Sequence[Lexeme], at: int) -> int:
        word = words[at]
        if word.kind != "word" or word.text.lower() not in KEYWORD_CALLS or is_name(words, at):
            return 0
        self._done.append(f"{KEYWORD_CALLS[word.text.lower()]}()")
        return 3 if follow(words, at + 1, "(", ")") else 1

    def _system_column(self, words: Sequence[Lexeme], at: int) -> int:
        name = words[at].text.lower()
        if name not in SYSTEM_COLUMNS or follow(words, at + 1, "(") or follow(words, at + 1, "."):
            return 0
        if self._done[-1:] == ["."]:
            self._done.pop()
            self._taken()
        elif name != "xmin" or (at and words[at - 1].says("AS")):
            return 0
        self._done.append(SYSTEM_COLUMNS[words[at].text.lower()])
        return 1

    def _call(self, words: Sequence[Lexeme], at: int) -> int:
        """Functions of other names, of sets of rows, and of texts with signs for their arguments."""
        name = (words[at].name or "").lower()
        if not name or not follow(words, at + 1, "("):
            return 0
        end = behind_closing(words, at + 1)
        if (called := duckdb_call(name, words[at + 2 : end - 1], self._inner)) is not None and name != "quote_literal":
            self._done.append(called)
            return end - at
        if name == "age" and _is_of_transactions(words[at + 2 : behind_closing(words, at + 1) - 1]):
            self._done.append("pg_xid_age")
            return 1
        if name in _SETS:
            return self._set(name, words, at)
        return self._in_from(words, at) if self._begins_table() and name not in _TABLES else 0

    def _empty_list(self, words: Sequence[Lexeme], at: int) -> int:
        """SELECT without columns, as in EXISTS."""
        if not words[at].says("SELECT") or at + 1 >= len(words) or not words[at + 1].says("FROM", "WHERE"):
            return 0
        self._clauses[-1] = "SELECT"
        self._done += ["SELECT", "1"]
        return 1

    def _begins_table(self) -> bool:
        """True where a table begins in FROM."""
        before = self._done[-1].upper() if self._done else ""
        return self._clauses[-1] in ("FROM", "JOIN") and before in ("FROM", "JOIN", "LATERAL", ",")

    def _in_from(self, words: Sequence[Lexeme], at: int) -> int:
        """A function of one value in FROM, as a table of a row and a column of its name."""
        end = behind_closing(words, at + 1)
        follows = end + (1 if follow(words, end, "as") else 0)
        alias = words[follows] if follows < len(words) else None
        called = f"{words[at].text}({self._inner(words[at + 2 : end - 1])})"
        if words[at].says("VALUES", "SELECT", "LATERAL", "ONLY", "ROWS") or follow(words, follows + 1, "("):
            return 0
        if alias is None or alias.name is None or alias.says(*BEHIND_TABLE):
            self._done.append(f"(SELECT {called} AS {words[at].text}) AS {words[at].text}")
            return end - at
        self._done.append(f"(SELECT {called} AS {alias.text}) AS {alias.text}")
        return follows + 1 - at

    def _set(self, name: str, words: Sequence[Lexeme], at: int) -> int:
        """A function of rows: in FROM its name is that of its column, too, and in SELECT it makes rows."""
        end = behind_closing(words, at + 1)
        lists = [words[at + 2 + first : at + 2 + after] for first, after in list_items(words[at + 2 : end - 1])]
        is_table = self._clauses[-1] in ("FROM", "JOIN")
        if name == "unnest" and len(lists) > 1 and is_table:
            return self._unnest(lists, words, end) - at
        inside = self._inner(words[at + 2 : end - 1])
        if name == "generate_subscripts":
            inside, name = f"1, len({self._inner(lists[0])})", "generate_series"
        called = f"{name}({inside})"
        if not is_table:
            self._done.append(called if name == "unnest" else f"unnest({called})")
            return end - at
        self._done.append(called)
        follows = end + (1 if follow(words, end, "as") else 0)
        alias = words[follows] if follows < len(words) else None
        if alias is None or alias.name is None or follow(words, follows + 1, "(") or alias.says(*BEHIND_TABLE):
            return end - at
        self._done += ["AS", f"{alias.text}({alias.text})"]
        return follows + 1 - at

    def _unnest(self, lists: Sequence[Sequence[Lexeme]], words: Sequence[Lexeme], end: int) -> int:
        """The rows of several lists, side by side; returns the place behind them."""
        columns = [f"unnest({self._inner(one)})" for one in lists]
        if follow(words, end, "with", "ordinality"):
            columns.append(f"generate_subscripts({self._inner(lists[0])}, 1)")
            end += 2
        self._done.append(f"(SELECT {', '.join(columns)})")
        return end

    def _wrap(self, wrapped: Callable[[str], str]) -> None:
        self._done.append(wrapped(self._taken()))

    def _taken(self) -> str:
        """The last operand, which is removed."""
        first = operand_start(self._done)
        operand = _joined(self._done[first:])
        del self._done[first:]
        return operand


_RULES: Sequence[Callable[[_Rewriting, Sequence[Lexeme], int], int]] = (
    _Rewriting._schema, _Rewriting._operator, _Rewriting._sign, _Rewriting._like, _Rewriting._collation,
    _Rewriting._among, _Rewriting._cast, _Rewriting._cast_call, _Rewriting._number_of_schema,
    _Rewriting._keyword_call, _Rewriting._system_column, _Rewriting._call,
    _Rewriting._reserved, _Rewriting._empty_list,
)  # fmt: skip
_NOUNS = {"regclass": "relation", "regtype": "type", "regproc": "function", "regnamespace": "schema", "regrole": "role"}


def _joined(pieces: Sequence[str]) -> str:
    return " ".join(pieces).replace(" . ", ".")


def _is_of_transactions(words: Sequence[Lexeme]) -> bool:
    """True if an argument is the number of a transaction, and no time."""
    return any(word.text.lower().endswith(("xmin", "xid", "xmax", "transactionid")) for word in words)


def _listed(text: str) -> str:
    r"""The values of a list of PostgreSQL's whose type is open: each fits what it is compared with.

    >>> _listed("'{r, \"a b\"}'"), _listed("'{}'")
    ("'r', 'a b'", 'NULL')
    """
    inner = text[2:-2].replace("''", "'")
    try:
        [values] = (
            csv.reader([inner], escapechar="\\", doublequote=False, strict=True, skipinitialspace=True)
            if inner
            else [[]]
        )
    except (csv.Error, ValueError) as error:
        raise BindError(f"{text} is no list of PostgreSQL's: {error}") from error
    return ", ".join(map(literal, values)) or "NULL"
