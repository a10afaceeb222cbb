"""Some pieces of a table as a source, whose rows carry the number of their piece.

A piece is a run of rows of one file: a row group, or one of a size that all pieces of the file have but for the last.
`cut` numbers the pieces of a source, `Pieces` is a source over chosen ones. Aggregates of disjoint pieces
can be merged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from qoop.catalog.sources.files import no_rows
from qoop.catalog.table import Columns, FilesSource, Footer, Range, Source, Split, Table, table_version
from qoop.catalog.value import value

if TYPE_CHECKING:
    import pyarrow as pa

    from qoop.catalog.access import Places

PIECE = "qoop_piece"
"""The column that has the number of a row's piece."""

PIECE_ROWS = "qoop_piece_rows"
"""The placeholder for the size of a piece in the query of a round, see `Cut.sizes`."""

_VECTOR = 2048
"""Rows that DuckDB handles at a time, and skips at a time: the smallest unit worth reading separately."""

_ROW_GROUPS = 48
"""Row groups that a table must have to be read by them: of fewer a sample costs too large a part of it."""

_UNEQUAL = 0.05
"""Standard deviation of the sizes of row groups, relative to their mean, up to which they count as equal."""


@value
class Runs:
    """Pieces of one file: piece `first + k` begins at row ``k * size``. chosen: those `k`, in order.

    borders: the rows at which pieces begin that are row groups, and the one behind the last; `size` is then the most
    rows of one. Empty: they are of one size.
    """

    file: str
    size: int
    first: int
    chosen: tuple[int, ...]
    borders: tuple[int, ...] = ()

    def begin(self, piece: int) -> int:
        """The row at which a piece of the file begins."""
        return self.borders[piece] if self.borders else piece * self.size

    def number(self, row: str) -> str:
        """SQL for the number of the piece that a row is in. row: SQL for its place in the file."""
        if self.borders:
            [piece] = self.chosen
            return f"{self.first + piece}::INTEGER"
        return f"({self.first} + {row} // {self.size})::INTEGER"

    def holds(self, row: str) -> str:
        """SQL that is true for rows of the chosen pieces; empty where these are known to be all rows of the file.

        >>> Runs("f", 100, 0, (2, 4)).holds("rowid")
        "rowid >= 200 AND rowid < 500 AND get_bit('101'::BIT, (rowid // 100 - 2)::INTEGER) = 1"
        >>> Runs("f", 100, 0, (1,), (0, 90, 190)).holds("rowid"), Runs("f", 100, 0, (0, 1), (0, 90, 190)).holds("rowid")
        ('rowid >= 90', '')
        """
        low, high = self.chosen[0], self.chosen[-1]
        begins = [f"{row} >= {self.begin(low)}"] if low or not self.borders else []
        ends = [f"{row} < {self.begin(high + 1)}"] if not self.borders or high + 2 < len(self.borders) else []
        within = " AND ".join([*begins, *ends])
        if len(self.chosen) == high - low + 1:
            return within
        chosen = set(self.chosen)
        bits = "".join("1" if piece in chosen else "0" for piece in range(low, high + 1))
        return f"{within} AND get_bit('{bits}'::BIT, ({row} // {self.size} - {low})::INTEGER) = 1"

    def apart(self, borders: Sequence[int], least: int) -> Iterator[Runs]:
        """The same pieces, apart wherever whole row groups between two hold none and are worth leaving out: a range of
        row numbers prunes row groups, a choice within it does not. borders: the row at which each group begins, and
        that behind the last. least: rows that are worth it.

        >>> [one.chosen for one in Runs("f", 100, 0, (0, 2, 7)).apart((0, 300, 600, 900), 200)]
        [(0, 2), (7,)]
        """
        begin = 0
        for place in range(1, len(self.chosen)):
            after, before = self.begin(self.chosen[place - 1] + 1), self.begin(self.chosen[place])
            first, last = bisect_left(borders, after), bisect_right(borders, before) - 1
            if first < last and borders[last] - borders[first] >= least:
                yield replace(self, chosen=self.chosen[begin:place])
                begin = place
        yield replace(self, chosen=self.chosen[begin:])

    def singly(self) -> Iterator[Runs]:
        """Each piece by itself."""
        return (replace(self, chosen=(piece,)) for piece in self.chosen)


@runtime_checkable
class CutSource(Protocol):
    """A source whose rows can be read by runs."""

    @property
    def cuttable(self) -> bool:
        """False if it is read whole after all."""
        ...

    @property
    def in_row_groups(self) -> bool:
        """True if to read a part of one of its pieces takes as long as to read all of it."""
        ...

    def scan_runs(self, columns: Columns, runs: Sequence[Runs]) -> str | pa.Table:
        """Like `Source.scan`, of the rows of these runs, at least one; `PIECE` is one more column to ask for."""
        ...


@value
class CutFile:
    """A file of a table, cut into pieces of `size` rows, of which the last may have less. borders: see `Runs`."""

    name: str
    rows: int
    size: int
    borders: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Number of pieces."""
        return len(self.borders) - 1 if self.borders else -(-self.rows // self.size)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each piece.

        >>> CutFile("f", 250, 100).sizes, CutFile("f", 190, 100, (0, 90, 190)).sizes
        ((100, 100, 50), (90, 100))
        """
        if self.borders:
            return tuple(end - begin for begin, end in pairwise(self.borders))
        return (self.size,) * (self.count - 1) + (self.rows - (self.count - 1) * self.size,)


@value
class Cut:
    """All pieces of a table, numbered in the order of its files."""

    table: Table
    files: tuple[CutFile, ...]

    @property
    def in_row_groups(self) -> bool:
        """True if its pieces are row groups, so that no row is decoded for nothing."""
        return any(file.borders for file in self.files)

    @property
    def rest_is_less(self) -> bool:
        """True if reading the remaining pieces surely takes less than reading the table.

        False for row groups: each stretch of them is read by a separate SELECT, without DuckDB's statistics of the
        table."""
        return not self.in_row_groups

    @property
    def count(self) -> int:
        """Number of pieces."""
        return sum(file.count for file in self.files)

    @cached_property
    def sizes(self) -> tuple[float, ...]:
        """Rows of each piece, as the footers of the files have them, in parts of those of the largest: sums of whole
        numbers are the same in any order."""
        rows = [one for file in self.files for one in file.sizes]
        largest = max(rows)
        return tuple(one / largest for one in rows)

    def text(self, round_sql: str, pieces: Sequence[int]) -> str:
        """The query of a round over these pieces. round_sql: the same, with `PIECE_ROWS` for the size of a piece."""
        return round_sql.replace(PIECE_ROWS, size_sql(self.sizes))

    @property
    def piece_rows(self) -> tuple[int, ...]:
        """The same as numbers of rows, which those of other tables can be added to."""
        return tuple(one for file in self.files for one in file.sizes)

    def runs(self, pieces: Sequence[int]) -> tuple[Runs, ...]:
        """These pieces, by the files that they are in."""
        found, first, ordered = [], 0, sorted(pieces)
        for file in self.files:
            mine = tuple(piece - first for piece in ordered if first <= piece < first + file.count)
            if mine:
                found.append(Runs(file.name, file.size, first, mine, file.borders))
            first += file.count
        return tuple(found)

    def of(self, pieces: Sequence[int], numbered: bool = True) -> Table:
        """The table of these pieces, with a different version.

        numbered: add a column with the number of the piece, so that each row group is read by a separate SELECT."""
        source = Pieces(self.table.source, self.runs(pieces), self.files)
        columns = (*self.table.columns, *([(PIECE, "INTEGER")] if numbered else []))
        return Table(self.table.name, columns, table_version(source, columns), source, source.rows)


def cut(table: Table, at_least: int, smallest: int = _VECTOR) -> Cut | None:
    """The pieces of a table: its row groups, where it has enough that are of one size. Else as large as its own, or
    smaller, so that there are about `at_least` of them, if these have `smallest` rows or more. None if it cannot be
    read by pieces.

    The pieces of a file are as equal as they can be, since a small one would look as if its rows had little of all.
    """
    names = {name.lower() for name, _ in table.columns}
    if not isinstance(table.source, CutSource) or not table.source.cuttable or not table.rows or PIECE in names:
        return None
    own = table.source.pieces()
    if table.source.in_row_groups and len(own) >= _ROW_GROUPS and _are_alike(own):
        return Cut(table, tuple(_row_groups(own)))
    rows: dict[str, int] = {}
    for piece in own:
        rows[piece.file] = max(rows.get(piece.file, 0), piece.first + piece.rows)
    size = min(max(piece.rows for piece in own), max(smallest, table.rows // at_least))
    return Cut(table, tuple(_cut_file(name, most, size) for name, most in rows.items()))


def row_groups(table: Table) -> Cut | None:
    """The row groups of a table as its pieces, however many; None: its files have none, or it is read whole."""
    source, names = table.source, {name.lower() for name, _ in table.columns}
    if not isinstance(source, CutSource) or not (source.cuttable and source.in_row_groups) or PIECE in names:
        return None
    return Cut(table, tuple(_row_groups(source.pieces())))


_FEW = 8
"""Pieces that a CASE may name: it compares each row with all of them."""


def size_sql(sizes: Sequence[float]) -> str:
    """SQL for the size of a piece, over the column `piece`.

    >>> size_sql((1.0, 1.0)), size_sql((1.0, 0.5)), size_sql((30, 30, 20))
    ('1.0', 'CASE piece WHEN 1 THEN 0.5 ELSE 1.0 END', 'CASE piece WHEN 2 THEN 20 ELSE 30 END')
    """
    usual = max(sizes)
    others = [(piece, size) for piece, size in enumerate(sizes) if size != usual]
    if not others:
        return str(usual)
    if len(others) <= _FEW:
        return f"CASE piece {' '.join(f'WHEN {piece} THEN {size}' for piece, size in others)} ELSE {usual} END"
    return f"('[{','.join(map(str, sizes))}]'::DOUBLE[])[piece + 1]"


def _are_alike(own: Sequence[Range]) -> bool:
    """True if the pieces are of one size, nearly."""
    from statistics import fmean, pstdev  # few tables are read in pieces

    return pstdev(piece.rows for piece in own) <= _UNEQUAL * fmean(piece.rows for piece in own)


def _row_groups(own: Sequence[Range]) -> Iterator[CutFile]:
    """The files of these pieces, cut as they are."""
    for name, mine in groupby(own, key=lambda piece: piece.file):
        groups = list(mine)
        borders = (0, *(piece.first + piece.rows for piece in groups))
        yield CutFile(name, borders[-1], max(piece.rows for piece in groups), borders)


def _cut_file(name: str, rows: int, size: int) -> CutFile:
    count = max(1, round(rows / size))
    return CutFile(name, rows, -(-rows // count))


@value
class Pieces:
    """Chosen pieces of a source. files: see `Cut`."""

    base: Source
    runs: tuple[Runs, ...]
    files: tuple[CutFile, ...]

    @property
    def shared(self) -> bool:
        """As the whole."""
        return self.base.shared

    @property
    def manifest(self) -> str:
        """As the whole."""
        return getattr(self.base, "manifest", "")

    @cached_property
    def rows(self) -> int:
        """Number of rows."""
        return sum(piece.rows for piece in self.pieces())

    def digest(self) -> str:
        """That of the files that they are in, and which pieces: other files may come and go."""
        runs = [(run.borders or run.size, run.first, run.chosen) for run in self.runs]  # no path counts
        return f"{self._digest_of_files()}:{runs}"

    def _digest_of_files(self) -> str:
        files = {run.file for run in self.runs}
        if not isinstance(self.base, FilesSource) or "" in files:  # of a table in memory
            return self.base.digest()
        return self.base.only(files).digest()

    @cached_property
    def _pieces(self) -> tuple[Range, ...]:
        rows = {file.name: file.rows for file in self.files}
        return tuple(
            Range(run.file, run.begin(piece), min(run.begin(piece + 1), rows[run.file]) - run.begin(piece))
            for run in self.runs
            for piece in run.chosen
        )

    def pieces(self) -> tuple[Range, ...]:
        """The chosen pieces."""
        return self._pieces

    def check(self, split: Split | None) -> None:
        """As the whole."""
        self.base.check(split)

    def scan(self, columns: Columns, split: Split | None) -> str | pa.Table:
        """As `CutSource.scan_runs`."""
        assert isinstance(self.base, CutSource)
        runs = self.runs if split is None else self._within(split)
        return self.base.scan_runs(columns, runs) if runs else no_rows(columns)

    def _within(self, split: Split) -> tuple[Runs, ...]:
        chosen = {(item.file, item.first) for item in split.ranges}
        found = (replace(run, chosen=tuple(k for k in run.chosen if (run.file, run.begin(k)) in chosen))
                 for run in self.runs)  # fmt: skip
        return tuple(run for run in found if run.chosen)

    def sample(self, columns: Columns, one_in: int) -> str | pa.Table:
        """All rows: they are a sample already."""
        return self.scan(columns, None)

    def extremes(self, names: Sequence[str]) -> Mapping[str, tuple[object, object]]:
        """None are known without a scan."""
        return {}

    def footers(self) -> Sequence[Footer]:
        """Those of the whole table, which describe its columns."""
        return self.base.footers()

    def places(self) -> Places:
        """As the whole."""
        return self.base.places()

    def attach(self) -> tuple[str, str] | None:
        """As the whole."""
        return self.base.attach()
