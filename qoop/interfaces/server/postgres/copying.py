r"""``COPY (query) TO STDOUT`` and ``COPY table TO STDOUT``, as ``\copy`` asks for them, in PostgreSQL's three forms.

Nothing is copied the other way: the session is that of all users, and read-only. COPY to a file is refused as it is
everywhere in a locked session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from qoop.catalog.errors import Forbidden, QueryError
from qoop.catalog.lexer import Lexeme, behind_closing, lexed
from qoop.catalog.value import value
from qoop.interfaces.server.postgres.messages import HEAD, message, short
from qoop.interfaces.server.postgres.rows import BINARY, TEXT, Columns, Write

_NULL = b"\xff\xff\xff\xff"
_HEAD, _TAIL = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_ESCAPED = {b"\\": b"\\\\", b"\b": b"\\b", b"\f": b"\\f", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\v": b"\\v"}
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}
_FORMS = ("text", "csv", "binary")
_NAMED = ("format", "header", "delimiter", "null", "quote", "escape", "encoding")
_TRUE, _FALSE = ("true", "on", "1"), ("false", "off", "0")


@value
class Copy:
    """A COPY to the client. quote, escape: of CSV. header: a line of names comes first."""

    query: str
    form: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    header: bool = False

    @property
    def requested_formats(self) -> Sequence[int]:
        """The form of values that it takes."""
        return [BINARY if self.form == "binary" else TEXT]

    def begin(self, columns: Columns) -> bytes:
        """The messages before its rows."""
        form = self.requested_formats[0]
        data = message(b"H", bytes([form]), short(len(columns)), *[short(form)] * len(columns))
        if self.header:
            data += self.writer()([[len(name.encode()).to_bytes(4, "big") + name.encode()] for name, _ in columns], 1)
        return data

    def end(self, rows: int) -> bytes:
        """The messages after its rows."""
        head = b"" if rows else _HEAD
        return (message(b"d", head, _TAIL) if self.form == "binary" else b"") + message(b"c")

    def writer(self) -> Write:
        """The function that writes rows, to be used for one answer."""
        return _binary_writer() if self.form == "binary" else self._lines

    def _lines(self, columns: Sequence[Sequence[bytes]], count: int) -> bytes:
        write = self._text if self.form == "text" else self._csv()
        null, between = self.null.encode(), self.delimiter.encode()
        fields = [[null if one == _NULL else write(one[4:]) for one in column] for column in columns]
        lines = (between.join(row) + b"\n" for row in zip(*fields, strict=True)) if columns else [b"\n"] * count
        return b"".join(chain.from_iterable((HEAD.pack(b"d", len(line) + 4), line) for line in lines))

    def _text(self, one: bytes) -> bytes:
        own = self.delimiter.encode()
        special = re.compile(rb"[\\\x08-\x0d" + re.escape(own) + b"]")
        return special.sub(lambda found: _ESCAPED.get(found[0], b"\\" + found[0]), one)

    def _csv(self) -> Callable[[bytes], bytes]:
        quote, escape, null = self.quote.encode(), self.escape.encode(), self.null.encode()
        special = re.compile(b"[\r\n" + re.escape(quote) + re.escape(self.delimiter.encode()) + b"]")
        inner = re.compile(b"[" + re.escape(quote) + re.escape(escape) + b"]")

        def written(one: bytes) -> bytes:
            if one != null and one != b"\\." and special.search(one) is None:
                return one
            return quote + inner.sub(lambda found: escape + found[0], one) + quote

        return written


def _binary_writer() -> Write:
    first = True

    def written(columns: Sequence[Sequence[bytes]], count: int) -> bytes:
        nonlocal first
        pieces = []
        for row in zip(*columns, strict=True) if columns else [()] * count:
            body = (_HEAD if first else b"") + short(len(columns)) + b"".join(row)
            pieces += [HEAD.pack(b"d", len(body) + 4), body]
            first = False
        return b"".join(pieces)

    return written


def copy_of(text: str) -> Copy | None:
    """The COPY to the client that a text is, None if it is none. Raises Forbidden for one from the client, QueryError.

    >>> copy_of("COPY t (a, b) TO STDOUT WITH (FORMAT csv, HEADER)")
    Copy(query='SELECT a, b FROM t', form='csv', delimiter=',', null='', quote='"', escape='"', header=True)
    >>> copy_of("copy (FROM t) to stdout").query, copy_of("COPY t TO 'file'"), copy_of("FROM t")
    ('(FROM t)', None, None)
    """
    words = [word for word in lexed(text).words if word.text != ";"]
    if not words or not words[0].says("COPY"):
        return None
    after, query = _source(text, words)
    way = [word.text.upper() for word in words[after : after + 2]]
    if way == ["FROM", "STDIN"]:
        raise Forbidden("a server takes no rows by COPY: its session is that of all users, and read-only")
    return _with_options(query, words[after + 2 :]) if way == ["TO", "STDOUT"] else None


def _source(text: str, words: Sequence[Lexeme]) -> tuple[int, str]:
    """The place behind what is copied, and the query for it."""
    if words[1:2] and words[1].text == "(":
        after = behind_closing(words, 1)
        return after, text[words[1].start : words[after - 1].end]
    after = 2
    while words[after : after + 1] and words[after].text == ".":
        after += 2
    table, columns = text[words[1].start : words[after - 1].end] if len(words) > 1 else "", "*"
    if words[after : after + 1] and words[after].text == "(":
        behind = behind_closing(words, after)
        columns = text[words[after].end : words[behind - 1].start]
        after = behind
    return after, f"SELECT {columns} FROM {table}"


def _with_options(query: str, words: Sequence[Lexeme]) -> Copy:
    options = dict(_options([word for word in words if word.text not in "(,)" and not word.says("WITH", "AS")]))
    form = options.pop("format", "text").lower()
    if form not in _FORMS:
        raise QueryError(f"COPY has no format {form}; there are {', '.join(_FORMS)}")
    if options.pop("encoding", "utf8").lower().replace("-", "") != "utf8":
        raise QueryError("COPY writes UTF-8 only")
    header = options.pop("header", "false").lower()
    if header not in (*_TRUE, *_FALSE):
        raise QueryError(f"HEADER is true or false, not {header}")
    usual = {"delimiter": ",", "null": ""} if form == "csv" else {}
    if form != "csv" and options.keys() & {"quote", "escape"}:
        raise QueryError("QUOTE and ESCAPE are of CSV only")
    if form == "binary" and (options or header in _TRUE):
        raise QueryError("the binary format of COPY has no options")
    for name in options.keys() - {"null"}:
        if len(options[name].encode()) != 1 or options[name] in "\r\n":
            raise QueryError(f"{name.upper()} is one character of ASCII, not the end of a line: not {options[name]!r}")
    made = usual | options
    return Copy(query, form, header=header in _TRUE, **({"escape": made.get("quote", '"')} | made))


def _options(words: Sequence[Lexeme]) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(words):
        name, at = words[at].text.lower(), at + 1
        if name in _FORMS:
            yield "format", name
            continue
        if name not in _NAMED:
            raise QueryError(f"COPY has no option {name} here; there are {', '.join(_NAMED)}")
        last = at == len(words) or words[at].text.lower() in (*_NAMED, *_FORMS)
        if name == "header" and last:
            yield name, "true"
            continue
        if last and name != "format":
            raise QueryError(f"COPY's option {name} has no value")
        yield name, _value(words[at])
        at += 1


def _value(word: Lexeme) -> str:
    if word.kind == "string" and word.text[:1] in "eE":
        inner = word.text[2:-1]
        return _ESCAPES.get(inner, inner)
    return word.text[1:-1].replace("''", "'") if word.kind == "string" else word.name or word.text
