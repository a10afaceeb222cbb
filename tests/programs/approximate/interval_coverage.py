"""The part of stated intervals that hold the truth, where an answer grows until its bound is met.

    python tests/programs/approximate/interval_coverage.py [--draws 200] [--seed 1] [--rows clustered …] [--figures …]

Tables are drawn whose rows are plain, sorted, in clusters, of a heavy tail (Pareto, without a variance) or in groups of
which some are rare, and joins that are read by buckets of their key, whose keys are alike, skewed or heavy. Of each,
figures grow by the engine's own schedule, program and estimators (:mod:`qoop.programs.approximate`) until all intervals
are narrow
enough: a count, a sum, an average and a ratio of sums, or others (`--figures`). What is read of pieces comes from NumPy
in place of SQL, so that thousands of draws take seconds. What is counted are the intervals of the last edition, where
it is no exact one, and those figures of which any interval on the way has missed the truth. The intervals of one table
go together, so that the error of what is counted (±, two standard errors) is that of tables, not of intervals.
`--row-groups N` has N pieces, which are row groups; `--each N` has N rows in each piece. `--first N` shows the N groups
whose sums seem largest, as ORDER BY … LIMIT does: `--rows many` has groups of about one size to choose them from.

`--folder DIR` has the rows of TPC-DS's store_sales in place of drawn ones, such as `qoop tpcds generate --skew` makes,
in groups by what `GROUPS` has in turn; what is drawn then is the order of the pieces.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from qoop.adaptive.program import Begin, End
from qoop.catalog.sources.pieces import Cut, Runs, cut
from qoop.catalog.table import Columns, Range, Table
from qoop.catalog.value import value
from qoop.programs.approximate.estimators.distinct import Incidence
from qoop.programs.approximate.estimators.moments import Moments, PairMoments
from qoop.programs.approximate.estimators.order import Sample, quantile
from qoop.programs.approximate.growth import Figure
from qoop.programs.approximate.intervals import Intervals, Shown, aimed, in_vain, interim_intervals
from qoop.programs.approximate.schedule import schedule
from qoop.programs.approximate.target import Target
from qoop.programs.approximate.values import incidence_of
from qoop.programs.rounds import Pause, RoundEnded, Rounds

if TYPE_CHECKING:
    import numpy as np

    from qoop.programs.approximate.estimators.interim import Interim

_PIECES, _ROWS = 1024, 200
"""Pieces of a table, and rows of each."""

FIGURES = (Figure(0, "total", 0), Figure(1, "total", 1), Figure(2, "ratio", 1, 0), Figure(3, "ratio", 1, 2))
"""Count, sum, average and ratio of sums, over these measures: rows, y, x and the squares of y."""

QUANTILES = (Figure(0, "quantile", 1, continuous=True), Figure(1, "quantile", 1, level=0.9))
"""The median of y, and its ninth decile."""

DISTINCT = (Figure(0, "distinct", 4),)
"""The number of values."""

SPREADS = (Figure(0, "variance", 3, 0, z=1), Figure(1, "deviation", 3, 0, z=1))
"""Variance and standard deviation of y."""

_FIGURES = {"sums": FIGURES, "spreads": SPREADS, "quantiles": QUANTILES, "distinct": DISTINCT}

ERRORS = (0.1, 0.05, 0.02)


@value
class Rows:
    """The rows of a table: their pieces, groups, y and x, and values of which there may be many alike."""

    piece: np.ndarray
    group: np.ndarray
    y: np.ndarray
    x: np.ndarray
    value: np.ndarray

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.group.max()) + 1

    def totals(self, pieces: int) -> np.ndarray:
        """By measure, piece and group."""
        import numpy as np

        place = self.piece * self.groups + self.group
        weights = (np.ones(len(place)), self.y, self.x, self.y**2)
        sums = [np.bincount(place, one, pieces * self.groups) for one in weights]
        return np.stack(sums).reshape(4, pieces, self.groups)

    def of(self, pieces: Sequence[int]) -> Rows:
        """Those of some pieces."""
        import numpy as np

        here = np.isin(self.piece, pieces)
        return Rows(self.piece[here], self.group[here], self.y[here], self.x[here], self.value[here])


@value
class Drawn:
    """Totals of pieces by measure: an array of measures, pieces and groups. rows: of these pieces, where figures need
    them. sizes: of these pieces; None: equal."""

    totals: np.ndarray
    rows: Rows | None = None
    sizes: np.ndarray | None = None

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.totals.shape[2])

    def moments(self, measure: int) -> Moments:
        """See `qoop.programs.approximate.totals.Totals.moments`."""
        x = self.totals[measure]
        return Moments(x.sum(0), (x**2).sum(0), (x**3).sum(0), abs(x).max(0))

    def pair_moments(self, y: int, x: int) -> PairMoments:
        """See `qoop.programs.approximate.totals.Totals.pair_moments`."""
        a, b = self.totals[y], self.totals[x]
        return PairMoments((a * b).sum(0), (a * a * b).sum(0), (a * b * b).sum(0))

    def size_moments(self, measure: int) -> PairMoments:
        """See `qoop.programs.approximate.totals.Totals.size_moments`."""
        import numpy as np

        a = self.totals[measure]
        b = np.ones((len(a), 1)) if self.sizes is None else self.sizes[:, None]
        return PairMoments((a * b).sum(0), (a * a * b).sum(0), (a * b * b).sum(0))

    def triple_moments(self, y: int, z: int, x: int) -> np.ndarray:
        """See `qoop.programs.approximate.totals.Totals.triple_moments`."""
        return (self.totals[y] * self.totals[z] * self.totals[x]).sum(0)  # type: ignore[no-any-return]

    def sample(self, measure: int) -> Sample:
        """See `qoop.programs.approximate.totals.Totals.sample`: of y."""
        assert self.rows is not None
        return Sample.of(self.groups, self.rows.group, self.rows.piece, self.rows.y)

    def incidence(self, measure: int) -> Incidence:
        """See `qoop.programs.approximate.totals.Totals.incidence`: of the values."""
        import numpy as np

        assert self.rows is not None
        keys = np.unique(np.stack([self.rows.group, self.rows.value, self.rows.piece]), axis=1)
        _, first, number = np.unique(keys[:2], axis=1, return_index=True, return_counts=True)
        second = first[number == 2] + 1
        place = keys[:, np.concatenate([first, second])]
        seen = np.concatenate([np.ones(len(first)), np.zeros(len(second))])
        own = np.concatenate([number == 1, np.zeros(len(second))]).astype(float)
        shared = np.concatenate([number == 2, np.ones(len(second))]).astype(float)
        codes = np.unique(place[[0, 2]], axis=1, return_inverse=True)
        by = [np.bincount(codes[1].ravel(), one) for one in (seen, own, shared)]
        return incidence_of(self.groups, codes[0][0], *by)


@value
class Outcome:
    """Of one table and bound. shown, held: intervals of the last edition, and those of them that hold the truth.
    looked, missed: figures that had an interval on the way, and those of which one missed. share: that was read."""

    shown: int
    held: int
    looked: int
    missed: int
    share: float


def rows(kind: str, rng: np.random.Generator, sizes: Sequence[int] = (_ROWS,) * _PIECES) -> Rows:
    """The rows of a table of a kind. sizes: rows of each of its pieces."""
    import numpy as np

    pieces, count = len(sizes), sum(sizes)
    y, x, group = rng.gamma(2.0, 10.0, count), rng.gamma(4.0, 1.0, count), rng.integers(0, 4, count)
    piece, value_ = np.repeat(np.arange(pieces), sizes), rng.integers(0, 3000, count)
    if kind in _KEPT:
        here = _KEPT[kind](rng, np.arange(count) / count)
        return Rows(piece[here], group[here] % 2, y[here], x[here], value_[here])
    if kind == "sorted":
        order = np.argsort(y)
        y, x, group, value_ = y[order], x[order], group[order], np.sort(value_)
    elif kind == "clustered":
        y = y * np.repeat(rng.lognormal(0.0, 0.5, pieces), sizes)
    elif kind == "bursts":
        y = y * np.repeat(rng.lognormal(0.0, 1.5, pieces), sizes)
    elif kind == "lognormal":
        y = rng.lognormal(0.0, 2.0, count)
        value_ = piece * 8 + rng.integers(0, 200, count)
    elif kind == "heavy":
        y, value_ = rng.pareto(1.5, count), rng.zipf(1.5, count) % 100_000
    elif kind == "skewed":
        group, value_ = np.minimum(rng.zipf(1.5, count) - 1, 30), rng.zipf(2.0, count) % 100_000
    elif kind in _KEYS:
        return _joined(rng, pieces, count, *_KEYS[kind])
    elif kind == "many":
        group = rng.integers(0, _MANY, count)
    elif kind == "rare":
        group = np.searchsorted(np.cumsum([0.6, 0.3, 0.09, 0.009, 0.001]), rng.random(count) * 0.999_999)
    return Rows(piece, group, y, x, value_)


_KEPT: Mapping[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "one in 1000": lambda rng, place: rng.random(len(place)) < 0.001,
    "all but a stretch": lambda rng, place: (place > 0.02) & (rng.random(len(place)) < 0.9),
    "all but a piece": lambda rng, place: (abs(place - 0.5) > 0.004) & (rng.random(len(place)) < 0.9),
}
"""Rows that a filter keeps, by their place in the table, from 0 to 1."""

_MANY = 200
"""Groups of which some are chosen by estimates."""

_KEYS = {"joined": (0.0, 20), "skewed keys": (0.5, 20), "heavy keys": (0.8, 60)}
"""Of the keys of both sides of a join: the exponent of a law of Zipf, 0 where each key is as likely as any other, and
the most rows that one has on a side."""


def _joined(rng: np.random.Generator, buckets: int, count: int, skew: float, most: int) -> Rows:
    """The rows of a join of two tables by a key, in buckets of it: y is of the one table, x of the other. skew, most:
    see `_KEYS`."""
    import numpy as np

    keys = count // 3
    chance = np.arange(1, keys + 1) ** -skew if skew else np.ones(keys)
    here, there = (np.minimum(rng.multinomial(count // 2, chance / chance.sum()), most) for _ in range(2))
    pairs = here * there
    key = np.repeat(np.arange(keys), pairs)
    pair = np.arange(len(key)) - (np.cumsum(pairs) - pairs)[key]
    mine = (np.cumsum(here) - here)[key] + pair // there[key]
    theirs = (np.cumsum(there) - there)[key] + pair % there[key]
    bucket, group = rng.integers(0, buckets, keys), rng.integers(0, 4, here.sum())
    y, x = rng.gamma(2.0, 10.0, here.sum()), rng.gamma(4.0, 1.0, there.sum())
    return Rows(bucket[key], group[mine], y[mine], x[theirs], rng.integers(0, 3000, len(key)))


GROUPS = ("ss_store_sk", "ss_promo_sk % 5", "ss_quantity // 25", "ss_item_sk % 7")
"""Columns of store_sales that its rows are grouped by, one draw after the other."""

_SOLD = """
    SELECT {group} AS g, coalesce(ss_ext_sales_price, 0)::DOUBLE AS y, coalesce(ss_quantity, 0)::DOUBLE AS x,
      ss_item_sk AS value FROM '{file}' WHERE {group} IS NOT NULL"""


def sold(folder: Path, draw: int, pieces: int = _PIECES) -> Rows:
    """The rows of store_sales, in the order that they have there."""
    import duckdb
    import numpy as np

    whole = folder / "store_sales.parquet"
    file = whole if whole.exists() else folder / "store_sales" / "*.parquet"
    with duckdb.connect() as connection:
        found = connection.execute(_SOLD.format(group=GROUPS[draw % len(GROUPS)], file=file)).fetchnumpy()
    count = len(found["g"])
    group = np.unique(found["g"], return_inverse=True)[1]
    return Rows(np.arange(count) * pieces // count, group, found["y"], found["x"], found["value"])


def table(kind: str, rng: np.random.Generator) -> np.ndarray:
    """The totals of the pieces of a table of a kind."""
    return rows(kind, rng).totals(_PIECES)


@value
class Laid:
    """A table as its files and their row groups: the rows of each. in_row_groups: see `CutSource`."""

    files: tuple[tuple[int, ...], ...]
    in_row_groups: bool = True
    cuttable = True

    def pieces(self) -> tuple[Range, ...]:
        """The row groups."""
        return tuple(
            Range(f"{number}", end - rows, rows)
            for number, groups in enumerate(self.files)
            for rows, end in zip(groups, accumulate(groups), strict=True)
        )

    def scan_runs(self, columns: Columns, runs: Sequence[Runs]) -> str:
        """Nothing is read."""
        raise NotImplementedError

    def cut(self, each: int) -> Cut:
        """The pieces that the engine reads such a table by. each: rows of a piece at least."""
        made = cut(Table("t", (), "", self, sum(map(sum, self.files))), _PIECES, each)  # type: ignore[arg-type]
        assert made is not None
        return made


def laid(layout: str, rng: np.random.Generator, pieces: int, each: int) -> Laid:
    """A layout of that many pieces, about, of about that many rows."""
    import numpy as np

    if layout == "one small":
        return Laid(((each,) * (pieces - 1) + (each * 13 // 20,),))
    if layout in _FILES:
        share = rng.lognormal(0.0, _FILES[layout], pieces // 3)
        return Laid(tuple((int(one),) for one in np.maximum(1, share / share.sum() * pieces * each)))
    return Laid(((each,) * pieces,), layout == "row groups")


_FILES = {"many files": 1.0, "tiny files": 2.0}
"""Files of one row group, by the deviation of the logarithms of their rows."""

LAYOUTS = ("equal", "row groups", "one small", *_FILES)


KINDS = ("plain", "sorted", "clustered", "bursts", "lognormal", "heavy", "rare", "skewed", "many", *_KEPT, *_KEYS)


def grown(
    totals: np.ndarray, error: float, confidence: float, seed: int, figures: Sequence[Figure] = FIGURES,
    of: Rows | None = None, in_row_groups: bool = False, first: int | None = None, sizes: Sequence[float] = (),
) -> Outcome:  # fmt: skip
    """Let the figures of a table grow until the bound is met. of: its rows, where figures need them. first: the number
    of groups that are shown, those whose sums seem largest. sizes: of the pieces; empty: equal."""
    import numpy as np

    pieces, target = totals.shape[1], Target(error, confidence)
    plan = schedule(pieces, seed, in_row_groups, True, sizes)
    truth = _truth(totals, figures) if of is None else _truth_of(of, figures)
    missed = {one.place: np.zeros(totals.shape[2], bool) for one in figures}
    had = {one.place: np.zeros(totals.shape[2], bool) for one in figures}
    program, _ = Rounds(len(plan.ends), error).after(Begin())
    while True:
        end = pieces if program.rest else plan.ends[program.number]
        interim = plan.interim(end)
        chosen = list(plan.order[:end])
        own = np.array(sizes)[chosen] if len(sizes) else None
        read = Drawn(totals[:, chosen], None if of is None else of.of(chosen), own)
        seen = read.totals[0].sum(0) > 0
        shown = None if first is None else Shown(np.argsort(-read.totals[1].sum(0))[:first], chosen=True)
        if shown is not None:
            seen &= np.isin(np.arange(len(seen)), shown.groups)
        exact = Intervals({}, {}, 0.0)
        found = exact if interim.is_whole else interim_intervals(figures, read, plan, end, target, shown)
        for place in found.low:
            is_shown = np.isfinite(found.low[place]) & seen
            missed[place] |= is_shown & ~_holds(found, place, truth)
            had[place] |= is_shown
        vain = not interim.is_whole and in_vain(found, plan, end, target)
        plan = plan if interim.is_whole else aimed(found, plan, end, program.number + 1, target)
        worst = _worst(found, seen, interim) if of is None else 0.0 if interim.is_whole else found.worst
        program, steps = program.after(RoundEnded(program.number, worst, in_vain=vain))
        if any(isinstance(step, End | Pause) for step in steps):
            break
    last = {place: np.isfinite(found.low[place]) & seen for place in found.low}
    held = sum(int((last[place] & _holds(found, place, truth)).sum()) for place in last)
    return Outcome(
        sum(int(one.sum()) for one in last.values()), held, sum(int(one.sum()) for one in had.values()),
        sum(int(one.sum()) for one in missed.values()), end / pieces,
    )  # fmt: skip


def _worst(found: Intervals, seen: np.ndarray, interim: Interim) -> float | None:
    """As the engine has it, which knows nothing of groups that it has not seen."""
    import numpy as np

    if interim.is_whole:
        return 0.0
    low = np.stack([found.low[one][seen] for one in sorted(found.low)])
    high = np.stack([found.high[one][seen] for one in sorted(found.low)])
    worst = float(np.max((high - low) / np.abs(high + low)))
    return worst if np.isfinite(worst) else None


def _truth(totals: np.ndarray, figures: Sequence[Figure]) -> Mapping[int, np.ndarray]:
    rows, y, x, squares = totals.sum(1)
    if figures is SPREADS:
        spread = squares / rows - (y / rows) ** 2
        return {0: spread, 1: spread**0.5}
    return {0: rows, 1: y, 2: y / rows, 3: y / x}


def _truth_of(of: Rows, figures: Sequence[Figure]) -> Mapping[int, np.ndarray]:
    """Of figures that do not add up."""
    import numpy as np

    mine = [of.group == group for group in range(of.groups)]
    if figures is DISTINCT:
        return {0: np.array([len(np.unique(of.value[here])) for here in mine], float)}
    return {
        one.place: np.array([quantile(np.sort(of.y[here]), one.level, one.continuous) for here in mine])
        for one in figures
    }


def _holds(found: Intervals, place: int, truth: Mapping[int, np.ndarray]) -> np.ndarray:
    slack = 1e-9 * abs(truth[place])
    return (found.low[place] - slack <= truth[place]) & (truth[place] <= found.high[place] + slack)  # type: ignore[no-any-return]


def run(
    draws: int,
    confidence: float,
    seed: int,
    figures: Sequence[Figure] = FIGURES,
    kinds: Sequence[str] = KINDS,
    errors: Sequence[float] = ERRORS,
    row_groups: int | None = None,
    folder: Path | None = None,
    each: int = _ROWS,
    first: int | None = None,
    layout: str = "equal",
) -> Iterator[tuple[str, float, Sequence[Outcome]]]:
    """The outcomes of each kind of table and each bound. folder: whose store_sales is in place of these tables. each:
    rows of a piece. first: see `grown`. layout: see `LAYOUTS`."""
    import numpy as np

    needed, pieces = figures is DISTINCT or figures is QUANTILES, row_groups or _PIECES
    for kind in kinds if folder is None else (folder.name[-10:],):
        outcomes: dict[float, list[Outcome]] = {error: [] for error in errors}
        for draw in range(draws):
            rng, sizes, grouped = np.random.default_rng((seed, draw)), (each,) * pieces, row_groups is not None
            if folder is not None:
                order, drawn = 10_000 * seed + draw, sold(folder, draw, pieces)
            elif kind in _KEYS:
                order, drawn = draw, rows(kind, rng, sizes)
            else:
                made = laid(layout, rng, pieces, each).cut(each)
                sizes, grouped = tuple(one for file in made.files for one in file.sizes), made.in_row_groups
                order, drawn = 10_000 * seed + draw, rows(kind, rng, sizes)
            totals = drawn.totals(len(sizes))
            for error in errors:
                of = drawn if needed else None
                outcomes[error].append(grown(totals, error, confidence, order, figures, of, grouped, first, sizes))
        yield from ((kind, error, found) for error, found in outcomes.items())


def line(kind: str, error: float, outcomes: Sequence[Outcome]) -> str:
    """One line of the table that is printed."""
    shown, held = sum(one.shown for one in outcomes), sum(one.held for one in outcomes)
    looked, missed = sum(one.looked for one in outcomes), sum(one.missed for one in outcomes)
    early = sum(one.shown > 0 for one in outcomes)
    cover = f"{held / shown:7.1%} ±{twice_error(outcomes, held / shown):5.1%}" if shown else "      -       "
    ever = f"{1 - missed / looked:7.1%}" if looked else "      -"
    share = sum(one.share for one in outcomes) / len(outcomes)
    return f"{kind:11} {error:6.0%} {early:6}/{len(outcomes)} {share:6.0%} {shown:7} {cover} {looked:7} {ever}"


def twice_error(outcomes: Sequence[Outcome], part: float) -> float:
    """Of the part of the intervals that hold, which is a ratio over tables: twice its standard error."""
    return 2 * sum((one.held - part * one.shown) ** 2 for one in outcomes) ** 0.5 / sum(one.shown for one in outcomes)  # type: ignore[no-any-return]


def main(arguments: Sequence[str] | None = None, say: Callable[[str], object] = print) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, help="tables of each kind")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", choices=_FIGURES, default="sums")
    parser.add_argument("--row-groups", type=int, help="the number of pieces, which are row groups")
    parser.add_argument("--each", type=int, default=_ROWS, help=f"rows of a piece ({_ROWS})")
    parser.add_argument("--first", type=int, help="groups that are shown, by the largest sums; all by default")
    parser.add_argument("--rows", choices=KINDS, help="tables of this kind only")
    parser.add_argument("--layout", choices=LAYOUTS, default="equal", help="where the rows of tables lie")
    parser.add_argument("--bound", type=float, help="this bound only")
    parser.add_argument("--folder", type=Path, help="where `qoop tpcds generate` made tables")
    options = parser.parse_args(arguments)
    say("data         bound  early ends  read   shown   cover            ever  covered at every edition")
    kinds = (options.rows,) if options.rows else KINDS
    errors = (options.bound,) if options.bound else ERRORS
    figures = _FIGURES[options.figures]
    ways = figures, kinds, errors, options.row_groups, options.folder, options.each, options.first, options.layout
    for found in run(options.draws, options.confidence, options.seed, *ways):
        say(line(*found))


if __name__ == "__main__":
    main()
