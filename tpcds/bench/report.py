"""A benchmark run as text for people: one line a query, then the totals."""

from __future__ import annotations

from qoop.tpcds.bench.side_by_side import BenchReport, QueryReport

_WORST = 8  # queries named as the worst
_LONGEST = 240  # characters of a line of an error; the JSON has it whole

HEADER = (
    f"{'query':>5} {'ms':>8} {'DuckDB':>8} {'ratio':>6} {'plan ms':>7} {'rows':>7} {'stages':>6} {'tasks':>5} "
    f"{'width':>5} {'longest':>7} {'opaque':>6} {'peak MB':>7}  answer"
)


def line(report: QueryReport) -> str:
    """One query in the columns of `HEADER`; a wrong answer or an error follows in the next lines."""
    ratio = None if report.seconds is None or not report.duckdb_seconds else report.seconds / report.duckdb_seconds
    cells = [
        f"{report.query:>5}",
        _milliseconds(report.seconds, 8),
        _milliseconds(report.duckdb_seconds, 8),
        f"{ratio:>6.2f}" if ratio is not None else f"{'-':>6}",
        _milliseconds(report.planning_seconds, 7),
        _number(report.rows, 7),
        _number(report.stages, 6),
        _number(report.tasks, 5),
        _number(report.max_width, 5),
        _milliseconds(report.longest_task_seconds, 7),
        _number(report.opaque_stages, 6),
        _number(None if report.peak_memory is None else report.peak_memory // 1_000_000, 7),
    ]
    return " ".join(cells) + "  " + _verdict(report)


def totals(run: BenchReport) -> str:
    """The end of the report: counts, sums and the worst queries."""
    total = run.totals()
    lines = [
        f"{total['correct']} of {total['queries']} right" + _listed("wrong", total["wrong"])
        + _listed("failed", total["failed"]) + _listed("empty answers", total["empty"], count=True),
        f"time {_seconds(total['seconds'])} against {_seconds(total['duckdb_seconds'])} of DuckDB with as many threads"
        + (f": {total['ratio']:.2f} x" if total["ratio"] is not None else ""),
        f"planning median {_milliseconds(total['planning_seconds_median'])} ms, "
        f"95th percentile {_milliseconds(total['planning_seconds_p95'])} ms",
        f"tasks median {_milliseconds(total['task_seconds_median'])} ms, "
        f"99th percentile {_milliseconds(total['task_seconds_p99'])} ms, "
        f"longest {_milliseconds(total['longest_task_seconds'])} ms",
        f"{total['wider_than_one']} queries have a stage of several tasks, {total['without_opaque_stage']} no opaque "
        f"stage, {len(total['all_opaque'])} nothing but opaque stages" + _listed("", total["all_opaque"]),
    ]  # fmt: skip
    worst = _worst(run)
    lines += [f"most over DuckDB: {worst}"] if worst else []
    lines += [f"slow (over 6 x and DuckDB + 250 ms): {_numbers(total['slow'])}"] if total["slow"] else []
    if total["peak_memory"] is not None:
        lines.append(f"peak of anonymous memory {total['peak_memory'] / 1e9:.2f} GB{_limit(run)}")
    return "\n".join(lines)


def _limit(run: BenchReport) -> str:
    limit = run.settings.get("memory")
    return f" (limit of the session {limit / 1e9:.2f} GB)" if limit else ""


def _worst(run: BenchReport) -> str:
    timed = [
        (report.seconds - report.duckdb_seconds, report)
        for report in run.queries
        if report.seconds is not None and report.duckdb_seconds is not None
    ]
    worst = sorted(timed, key=lambda pair: -pair[0])[:_WORST]
    return ", ".join(f"{report.query} ({excess * 1000:+.0f} ms)" for excess, report in worst if excess > 0)


def _verdict(report: QueryReport) -> str:
    if report.correct:
        return "right, but empty" if report.empty else "right"
    kind = "FAILED" if report.seconds is None else "WRONG"
    said = [line if len(line) <= _LONGEST else line[:_LONGEST] + " …" for line in (report.error or "").splitlines()]
    return f"{kind}: " + "\n      ".join(said)


def _listed(title: str, numbers: list[int], count: bool = False) -> str:
    if not numbers:
        return ""
    amount = f"{len(numbers)} " if count else ""
    return f"; {amount}{title + ': ' if title else ''}{_numbers(numbers)}"


def _numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"


def _milliseconds(seconds: float | None, width: int = 0) -> str:
    return f"{seconds * 1000:>{width}.1f}" if seconds is not None else f"{'-':>{width}}"


def _number(value: int | None, width: int) -> str:
    return f"{value:>{width}}" if value is not None else f"{'-':>{width}}"
