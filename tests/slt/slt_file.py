"""Files of sqllogictest, as DuckDB writes them: :func:`records` gives the statements and queries in order.

A file is blocks between empty lines; the first words of a block say what it is. Loops are written out, and what is
left out on request (``mode skip``, ``skipif``) comes as a :class:`Skipped` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qoop.catalog.errors import ConfigError

_KNOWN = ("statement", "query", "loop", "foreach", "concurrentloop", "concurrentforeach", "endloop", "require", "mode",
          "hash-threshold", "halt", "load", "restart", "skipif", "onlyif")  # fmt: skip
_IGNORED = ("require-env", "set", "reset", "test-env", "tags", "reconnect", "sleep", "unzip", "template", "continue")
_HARMLESS = {"skip_reload", "noforcestorage", "nothreadsan", "parquet", "json", "core_functions", "64bit", "notwindows",
             "no_alternative_verify", "noalternativeverify", "longdouble", "notmusl", "no_extension_autoloading",
             "vector_size", "exact_vector_size", "block_size", "ram", "no_latest_storage", "strinline"}  # fmt: skip
_TYPES = {
    "<signed>": "tinyint smallint integer bigint hugeint",
    "<unsigned>": "utinyint usmallint uinteger ubigint uhugeint",
    "<integral>": "tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint",
    "<numeric>": "tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint float double",
}
_TYPES["<alltypes>"] = _TYPES["<numeric>"] + " bool interval varchar"
_SORTS = ("nosort", "rowsort", "valuesort", "sort")


@dataclass(frozen=True, slots=True)
class Statement:
    """A text that is to be run. expected: ok, error, or maybe."""

    line: int
    text: str
    expected: str


@dataclass(frozen=True, slots=True)
class Query:
    """A text whose answer is known. columns: how many. answer: lines, or values, or one line with their hash.

    sort: what is sorted before the comparison: nosort, rowsort or valuesort. label: equal ones have equal answers.
    """

    line: int
    text: str
    columns: int
    sort: str
    label: str
    answer: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that is not run, and why."""

    line: int
    reason: str


Record = Statement | Query | Skipped


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines without an empty one between. line: the number of the first one in the file."""

    line: int
    lines: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return self.lines[0].split() or [""]

    def with_value(self, name: str, value: str) -> _Block:
        """The block with a loop's variable replaced."""
        return replace(self, lines=tuple(line.replace("${" + name + "}", value) for line in self.lines))


def records(path: Path) -> Iterator[Record]:
    """The statements and queries of a file, in order. Raises ConfigError if it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    yield from _Reader(path).read(list(_blocks(lines)))


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    """Blocks without comments; a line of conditions or of a loop is one of its own even if no empty line follows."""
    held: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        line = line.rstrip("\r")
        if not held and (not line.strip() or line.startswith("#")):
            continue
        if line.strip() and not (not held and _is_alone(line)):
            held.append(line)
            continue
        if held:
            yield _Block(number - len(held), tuple(held))
        elif line.strip():
            yield _Block(number, (line,))
        held = []


def _is_alone(line: str) -> bool:
    word = line.split()[0]
    return word not in ("statement", "query") and (word in _KNOWN or word in _IGNORED)


class _Reader:
    """Goes through the blocks of a file; knows what is being skipped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.off = ""  # why the rest is left out, for ever
        self.skipping = False  # between mode skip and mode unskip
        self.unwanted = ""  # why the next record is left out

    def read(self, blocks: Sequence[_Block]) -> Iterator[Record]:
        at = 0
        while at < len(blocks):
            if blocks[at].words[0] in ("loop", "foreach", "concurrentloop", "concurrentforeach"):
                end = _end_of_loop(blocks, at)
                yield from self._looped(blocks[at], blocks[at + 1 : end])
                at = end + 1
                continue
            yield from self._record(blocks[at])
            at += 1

    def _looped(self, head: _Block, body: Sequence[_Block]) -> Iterator[Record]:
        words = head.words
        if words[0].startswith("concurrent"):
            yield from (Skipped(block.line, "a concurrent loop") for block in body if _is_record(block))
            return
        for value in _values(words):
            yield from self.read([_with_all(block, words[1], value) for block in body])

    def _record(self, block: _Block) -> Iterator[Record]:
        words, reason = block.words, self.off or ("mode skip" if self.skipping else "") or self.unwanted
        if not _is_record(block):
            yield from self._directive(block)
            return
        self.unwanted = ""
        if reason:
            yield Skipped(block.line, reason)
        elif words[0] == "statement":
            yield self._statement(block)
        else:
            yield self._query(block)

    def _directive(self, block: _Block) -> Iterator[Record]:
        match block.words:
            case ["mode", "skip", *_]:
                self.skipping = True
            case ["mode", "unskip", *_]:
                self.skipping = False
            case ["skipif", name, *_] if name.startswith("duckdb"):
                self.unwanted = block.lines[0]
            case ["onlyif", name, *_] if not name.startswith("duckdb"):
                self.unwanted = block.lines[0]
            case ["require", name, *_] if name not in _HARMLESS:
                self.off = self.off or f"require {name}"
            case ["require-env", *_] | ["halt" | "load" | "restart" | "reconnect" | "unzip" | "template", *_]:
                self.off = self.off or block.lines[0].strip()
            case [word, *_] if word not in _KNOWN and word not in _IGNORED:
                yield Skipped(block.line, f"the unknown word {word}")

    def _statement(self, block: _Block) -> Record:
        words = block.words
        if len(words) > 2:
            return Skipped(block.line, "several connections")
        text, _ = _split(block.lines[1:])
        return Statement(block.line, text, words[1] if len(words) > 1 else "ok")

    def _query(self, block: _Block) -> Record:
        words = block.words
        options = words[2:]
        sort = next((word for word in options if word in _SORTS), "nosort")
        rest = [word for word in options if word not in _SORTS]
        if any(word.startswith("con") for word in rest):
            return Skipped(block.line, "several connections")
        text, answer = _split(block.lines[1:])
        if answer and answer[0].startswith("<FILE>:"):
            answer = self._included(answer[0].removeprefix("<FILE>:"))
        columns = len(words[1]) if len(words) > 1 else 1
        return Query(block.line, text, columns, sort.replace("sort", "valuesort") if sort == "sort" else sort,
                     rest[0] if rest else "", tuple(answer))  # fmt: skip

    def _included(self, name: str) -> list[str]:
        """The rows of another file, next to this one or where its test runs: with a heading, | between values."""
        for folder in (self.path.parent, Path.cwd(), *self.path.parents):
            if (folder / name).is_file():
                return [line.replace("|", "\t") for line in (folder / name).read_text().splitlines()[1:]]
        raise ConfigError(f"{self.path} wants the answer in {name}, which is not there")


def _is_record(block: _Block) -> bool:
    return block.words[0] in ("statement", "query")


def _with_all(block: _Block, names: str, values: str) -> _Block:
    """A loop may go through several variables at a time: ``foreach a,b 1,2 3,4``."""
    pairs = [(names, values)] if "," not in names else zip(names.split(","), values.split(","), strict=True)
    for name, value in pairs:
        block = block.with_value(name, value)
    return block


def _split(lines: Sequence[str]) -> tuple[str, list[str]]:
    """The text, and the lines after ``----``."""
    at = lines.index("----") if "----" in lines else len(lines)
    return "\n".join(lines[:at]), list(lines[at + 1 :])


def _end_of_loop(blocks: Sequence[_Block], at: int) -> int:
    depth = 0
    for number in range(at, len(blocks)):
        word = blocks[number].words[0]
        depth += (word in ("loop", "foreach", "concurrentloop", "concurrentforeach")) - (word == "endloop")
        if depth == 0:
            return number
    raise ConfigError(f"the loop in line {blocks[at].line} has no endloop")


def _values(words: Sequence[str]) -> list[str]:
    if words[0] == "loop":
        return [str(number) for number in range(int(words[2]), int(words[3]))]
    found: list[str] = []
    for word in words[2:]:
        if word.startswith("!"):
            found = [one for one in found if one != word[1:]]
        else:
            found += _TYPES.get(word, word).split()
    return found
