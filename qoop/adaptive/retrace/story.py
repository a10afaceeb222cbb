"""The history of a job in words, without every single task: what EXPLAIN HISTORY and `qoop replay` print.

What was decided, shares, capacity, failures and finished stages are told; tasks that began, ended or were written to
disk are added up: the stages say what became of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from qoop.catalog.sizes import span
from qoop.engine.history import (
    Began,
    Called,
    Failed,
    Record,
    Released,
    Saved,
    StageDone,
    Started,
    Stopped,
    Stopping,
    Succeeded,
    Waiting,
)
from qoop.engine.task import spent

_LEFT_OUT = (Started, Waiting, Began, Called, Succeeded, Stopped, Released, Saved)


def story(history: Sequence[Record], full: bool = False) -> list[str]:
    """The history as sentences, in order. full: every record, not just what matters to the whole."""
    if full:
        return [str(record) for record in history]
    tasks: Counter[str] = Counter()
    lines: list[str] = []
    for group in _grouped(history):
        first = group[0]
        if isinstance(first, Succeeded):
            tasks[first.attempt.task.stage] += first.used
        if not isinstance(first, _LEFT_OUT):
            lines.append(_sentence(group, tasks))
    return lines


def _grouped(history: Iterable[Record]) -> list[list[Record]]:
    """Records one by one; attempts of one stage that failed, or were told to stop, one after the other for the same
    reason in one."""
    pairs = groupby(enumerate(history), lambda item: _kind(*item))
    return [[record for _, record in group] for _, group in pairs]


def _kind(place: int, record: Record) -> object:
    match record:
        case Failed(_, attempt, _, error, retryable):
            return "failed", attempt.task.stage, type(error), retryable
        case Stopping(_, _, _, reason):
            return "stopping", reason
    return place


def _sentence(group: Sequence[Record], tasks: Counter[str]) -> str:
    first = group[0]
    match first:
        case StageDone(_, stage, _, _, _, seconds):
            parts = f" ({spent(first.account)})" if first.account is not None else ""
            return f"{first}; {_count(tasks.pop(stage, 0), 'task')} in {span(seconds)}{parts}"
        case Failed(at, attempt, _, error) if len(group) > 1:
            how = first.how.replace("was", "were").replace("runs", "run")
            return f"at {at:.3f} s {_count(len(group), 'task')} of {attempt.task.stage} {how}: {error}"
        case Stopping(at, _, _, reason) if len(group) > 1:
            return f"at {at:.3f} s {_count(len(group), 'attempt')} were told to stop: {reason}"
    return str(first)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
