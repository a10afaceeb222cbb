"""A running query as lines of text: its progress, stages, resources, and expected end."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from qoop.adaptive.cluster.job_status import JobStatus, RemainingTime
from qoop.catalog.sizes import size, span
from qoop.engine.history import Decided, Record, Switched
from qoop.engine.notices import Continued, DeadlineReported, NotContinued
from qoop.engine.progress import StageProgress
from qoop.query.drawing.terminal import Paint, Terminal, shortened, width_of

_BAR = 20
_LEAST_BAR = 8
_PARTS = " ▏▎▍▌▋▊▉"


def view(job: str, status: JobStatus, terminal: Terminal, most_lines: int = 12) -> list[str]:
    """The job as a limited number of lines, each at most as wide as the terminal."""
    stages = status.progress.stages
    shown = most_telling(stages, most_lines - 2)
    lines = [_headline(job, status, terminal)]
    lines += [_stage_line(stage, terminal) for stage in stages if stage in shown]
    hidden = [stage for stage in stages if stage not in shown]
    if hidden:
        done = sum(_is_done(stage) for stage in hidden)
        text = ", ".join(
            part for part in (f"{done} done" if done else "", _waiting(len(hidden) - done, "waiting")) if part
        )
        lines.append(terminal.paint(f"  … {text}", "faint"))
    return lines


def brief(job: str, status: JobStatus) -> str:
    """The job in a few words, for a status line, which may be cut: the end comes first."""
    end = ends(status.left) or _why_not(status)
    done = f"{status.progress.fraction:.0%} done"
    return f"{job} {end}, {done}" if end else f"{job} {done}"


def ends(left: RemainingTime | None) -> str:
    """A text of the time when a job will end.

    >>> ends(RemainingTime(4.2, 2.9, 6.1)), ends(RemainingTime(0.1, 0.0, 0.3)), ends(None)
    ('ends in 4 s (3–6 s)', 'ends in 0.1 s (0–0.3 s)', '')
    """
    if left is None:
        return ""
    return f"ends in {span_of(left)}"


def span_of(left: RemainingTime) -> str:
    """A text of the seconds that a job still takes, as under the head "ends".

    >>> span_of(RemainingTime(4.2, 2.9, 6.1))
    '4 s (3–6 s)'
    """
    return f"{_seconds(left.likely)} s ({_seconds(left.least)}–{_seconds(left.most)} s)"


def under_way(status: JobStatus) -> str:
    """A text of the tasks of a job that have slots: those that run and, apart, those that wait at their machines."""
    queued = status.queued
    running = sum(stage.running for stage in status.progress.stages) - queued
    return ", ".join(filter(None, (f"{running}" if running else "", _waiting(queued, "queued"))))


def of_share(status: JobStatus) -> str:
    """A text of the slots that a job has, and of its guaranteed share; empty before its first share."""
    return "" if status.share is None else f"{status.used.cpu:g} of {status.share.cpu:.3g}"


def due(status: JobStatus) -> str:
    """A text of whether a job meets its deadline; empty if it has none."""
    if status.deadline is None or status.late is None:
        return ""
    if status.progress.fraction >= 1:
        return f"{_seconds(-status.deadline)} s late" if status.deadline < 0 else "in time"
    if status.late > 0:
        return f"deadline missed by {_seconds(status.late)} s"
    return f"due in {_seconds(status.deadline)} s"


def news(history: Sequence[Record], since: int, terminal: Terminal) -> list[str]:
    """Sentences about the records from `since` on: switches of plan, and decisions to stay; news of the deadline; and
    outputs of an earlier run."""
    shown = []
    for record in history[since:]:
        if isinstance(record, DeadlineReported):
            lines = wrap(f"! {record}", max(30, terminal.width - 1), subsequent_indent="  ")
            shown += [terminal.paint(line, "red") if record.late > 0 else line for line in lines]
        for sentence in of_earlier_runs([record]):
            shown += [terminal.paint(line, "magenta") for line in wrap(sentence, max(30, terminal.width - 1))]
        if isinstance(record, Switched) and record.why:
            first, *rest = wrap(f"⇄ switched plan {record}", max(30, terminal.width - 1), subsequent_indent="  ")
            shown += [terminal.paint(first, "magenta"), *rest]
        if isinstance(record, Decided):
            paints: tuple[Paint, ...] = ("bold", "magenta") if record.switched else ("faint",)
            mark = "⇄ switched plan" if record.switched else "· kept the plan"
            first, *rest = wrap(f"{mark} {record}", max(30, terminal.width - 1), subsequent_indent="  ")
            shown += [terminal.paint(mark, *paints) + first.removeprefix(mark), *rest]
    return shown


def of_earlier_runs(history: Sequence[Record], since: int = 0) -> list[str]:
    """Sentences about outputs of earlier runs, from the records from `since` on."""
    return [record.notice for record in history[since:] if isinstance(record, Continued | NotContinued)]


def most_telling(stages: Sequence[StageProgress], most: int) -> list[StageProgress]:
    """The stages to show where only that many fit: what runs, what comes next, what was done last."""
    if len(stages) <= most:
        return list(stages)
    running = [stage for stage in stages if stage.running or 0 < stage.done < stage.total]
    waiting = [stage for stage in stages if not stage.running and stage.done == 0]
    done = [stage for stage in reversed(stages) if _is_done(stage) and stage not in running]
    return [*running, *waiting[: max(2, most - len(running) - 2)], *done][:most]


def amount(number: float) -> str:
    """A number of rows for people.

    >>> amount(12345), amount(1234567), amount(2.5e9)
    ('12,345', '1.23 M', '2.5 G')
    """
    if number < 100_000:
        return f"{number:,.0f}"
    return f"{number / 1e6:.3g} M" if number < 1e9 else f"{number / 1e9:.3g} G"


def bar(fraction: float, width: int) -> str:
    """A bar of that many cells, filled to a fraction.

    >>> bar(0.5, 4), bar(0.3, 4), bar(1, 4)
    ('██  ', '█▎  ', '████')
    """
    eighths = round(max(0.0, min(1.0, fraction)) * width * 8)
    full, part = divmod(eighths, 8)
    text = "█" * full + (_PARTS[part] if part else "")
    return text + " " * (width - len(text))


def _headline(job: str, status: JobStatus, terminal: Terminal) -> str:
    stages = status.progress.stages
    done, total = sum(stage.done for stage in stages), sum(stage.total for stage in stages)
    parts = [
        terminal.paint(f"{job} {status.progress.fraction:4.0%}", "bold"),
        terminal.paint(ends(status.left) or _why_not(status), "bold"),
        terminal.paint(due(status), *(("red",) if (status.late or 0.0) > 0 else ())),
        f"{done} of {total} tasks",
        _slots(status),
        f"{size(status.share.memory)} for tasks" if status.share and terminal.width >= 120 else "",
        _waiting(status.queued, "queued"),
        span(status.elapsed),
        f"interrupted for others: {status.preemptions}" if status.preemptions else "",
    ]
    return " · ".join(filter(None, parts))


def _slots(status: JobStatus) -> str:
    """The slots in use, of those that are guaranteed; a share below one, or below the use, follows as a phrase."""
    used, share = status.used.cpu, None if status.share is None else status.share.cpu
    if share is not None and share >= max(1, used):
        return f"{used:g} of {share:g} slots"
    text = f"{used:g} slot{'' if used == 1 else 's'}"
    return text if not share else f"{text}, its share is {share:g}"


def _why_not(status: JobStatus) -> str:
    if status.place is not None:
        return f"waits in the queue, at place {status.place}"
    if status.blocked_by:
        return f"waits for a slot of {', '.join(status.blocked_by)}"
    if status.share is not None and status.share.cpu < 1:
        return "waits for its turn" if status.share.cpu > 0 else "waits for a slot"
    return ""


def _stage_line(stage: StageProgress, terminal: Terminal) -> str:
    width = _BAR if terminal.width >= 100 else _LEAST_BAR
    tasks = f"{stage.done}/{stage.total}"
    rows = f"{amount(stage.rows)} rows" if stage.rows or _is_done(stage) else ""
    running = _waiting(stage.running - stage.queued, "running") or _waiting(stage.queued, "queued")
    right = f"{tasks:>8} {rows:>13} {running:>9}"
    available = terminal.width - width - width_of(right) - 11
    label = shortened(stage.label, available)
    drawn = bar(stage.fraction, width)
    painted = terminal.paint(drawn, "green" if _is_done(stage) else "blue")
    text = f"  {stage.stage:<5} {label}{' ' * (available - width_of(label))} {terminal.paint('▕', 'faint')}{painted}"
    text += f"{terminal.paint('▏', 'faint')}{right}"
    return text if stage.running or _is_done(stage) or not terminal.colours else terminal.paint(_plain(text), "faint")


def _plain(text: str) -> str:
    from re import sub

    return sub(r"\x1b\[[0-9;]*m", "", text)


def _is_done(stage: StageProgress) -> bool:
    return stage.done == stage.total


def _waiting(number: int, what: str) -> str:
    return f"{number} {what}" if number else ""


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 2 or seconds == 0 else f"{seconds:.1f}".rstrip("0").rstrip(".")
