"""The triggers: reasons to decide again about the plan of a running job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, log

from qoop.adaptive.replanning.decision import SHARE, Option, reestimate
from qoop.catalog.sizes import size, span
from qoop.catalog.value import value
from qoop.engine.history import Coming, MemoryExhausted, MemoryRaised, Record, ShareReported, StageDone, expected
from qoop.engine.notices import DeadlineReported
from qoop.planner.estimate.observed import Observations
from qoop.planner.plan import Plan, Resources, StageId, table_read


@value
class Cause:
    """A reason to decide. what: a clause. kind: of several causes of one kind only the last counts.

    urgent: there is nothing to wait for (no debounce).
    """

    kind: str
    what: str
    urgent: bool = False


@value
class Triggers:
    """The thresholds beyond which a record of a run is a reason to decide again.

    share: fraction by which the share must have changed, in any resource, since the last decision.
    rows: factor by which the rows of a finished stage must differ from the estimate, and `least_rows` the number
        that one of both must reach to matter.
    search: factor by which the best plan known takes longer than was believed before the rows were known, from which
        on the search runs again, with what was seen in place of estimates.
    work: factor by which the work that is left must change, in the light of what functions of Python or tables that are
        slow to read have taken so far, and `least_seconds` by how many seconds.
    quiet: seconds without a further change after which a decision is taken; a burst of changes is one decision.
    longest: seconds after the first change when it is taken even so.
    """

    share: float = 0.10
    rows: float = 4.0
    least_rows: float = 10_000
    search: float = 2.0
    work: float = 1.5
    least_seconds: float = 0.05
    quiet: float = 0.01
    longest: float = 0.1

    def cause(self, record: Record, basis: Resources, without_a_slot: bool = False) -> Cause | None:
        """The reason that the record gives. basis: the share at the last decision; without_a_slot: it had none, though
        plans are made for one at least."""
        match record:
            case ShareReported(_, share) if relative_change(basis, share) > self.share:
                before = replace(basis, cpu=0.0) if without_a_slot and share.cpu > 0 else basis
                return Cause(SHARE, f"the share {_movement(before, share)}")
            case StageDone(_, stage, _, rows, _, _, estimated) if self.misjudged(rows, estimated):
                return Cause(
                    f"rows of {stage}", f"stage {stage} had {rows:,} rows where {estimated:,.0f} were expected"
                )
            case MemoryRaised(_, stage, before, _):
                return Cause(f"memory of {stage}", f"stage {stage} ran out of {size(before)} of memory")
            case MemoryExhausted(_, stage, had):
                return Cause(f"memory of {stage}", f"stage {stage} ran out of {size(had)}, all there is", urgent=True)
            case DeadlineReported(late=late) if late > 0:
                return Cause("deadline", f"it would miss its deadline by {span(late)}")
        return None

    def seconds_cause(self, option: Option, left: Mapping[StageId, int], observed: Observations) -> Cause | None:
        """The reason that is given by the seconds of functions and of tables. option: the plan that runs. left: tasks
        of its stages. observed: what it was estimated with, and these seconds."""
        corrected = reestimate(option, observed, {})
        if corrected is option:
            return None
        plan = option.candidate.plan
        before, after = (_work(one.candidate.plan, left) for one in (option, corrected))
        low, high = sorted((before, after))
        if high - low < self.least_seconds or high < self.work * low:
            return None
        why = _unforeseen(plan, observed)
        return Cause("seconds", f"{why}, so what is left takes {span(after)} of work, not {span(before)}")

    def expectation(self, record: ShareReported, counted_on: Coming, until: float) -> Cause | None:
        """The reason that another course of the share gives. counted_on: what the share should be later, as the last
        decision saw it. until: the last second of the job's life for which that matters."""
        if not self.expects_otherwise(record.at, counted_on, record.coming, until):
            return None
        return Cause(
            SHARE, expected(record.coming, record.at) if record.coming else "no other share is expected any more"
        )

    def expects_otherwise(self, now: float, before: Coming, after: Coming, until: float = inf) -> bool:
        """True if what is to come from now on, up to a time, is another course of the share."""
        before, after = (tuple(one for one in some if now < one[0] <= until) for some in (before, after))
        return len(before) != len(after) or any(
            abs(at - then) > self.share * (then - now) or relative_change(was, will) > self.share
            for (then, was), (at, will) in zip(before, after, strict=True)
        )

    def misjudged(self, rows: float, estimated: float) -> bool:
        """True if the two numbers of rows are a reason to think again."""
        low, high = sorted((max(1.0, rows), max(1.0, estimated)))
        return high >= self.least_rows and high > self.rows * low


def _work(plan: Plan, left: Mapping[StageId, int]) -> float:
    """Seconds of one thread by estimate. left: tasks, by stage."""
    return sum(plan.by_id[id].estimate.task_seconds * tasks for id, tasks in left.items())


def relative_change(before: Resources, after: Resources) -> float:
    """By which fraction of what it was a share has changed, in the resource where that is most.

    >>> relative_change(Resources(4, 100), Resources(3, 100))
    0.25
    """
    pairs = ((before.cpu, after.cpu), (before.memory, after.memory), (before.network, after.network))
    return max((abs(new - old) / old if old else inf) if new != old else 0.0 for old, new in pairs)


def _unforeseen(plan: Plan, observed: Observations) -> str:
    """The function that is furthest from what was believed of it, or else a table, as a clause."""
    calls = {one.function: one.row_seconds for stage in plan.stages for one in stage.estimate.calls}
    known = [key for key in calls if observed.calls.get(key)]
    if not known:
        tables = " and ".join(table_read(key) for key in observed.waits)
        return f"{tables} {'has' if len(observed.waits) == 1 else 'have'} to be waited for"
    from qoop.planner.estimate.reestimate import LEAST_ROW_SECONDS

    key = max(known, key=lambda key: abs(log(observed.calls[key] / max(calls[key], LEAST_ROW_SECONDS))))
    times = f"{span(observed.calls[key] * 1e3)} for 1,000 rows where {span(calls[key] * 1e3)} were believed"
    return f"{key.partition('@')[0]} takes {times}"


def _movement(before: Resources, after: Resources) -> str:
    if before.cpu != after.cpu:
        return f"{'fell' if after.cpu < before.cpu else 'rose'} from {before.cpu:g} to {after.cpu:g} slots"
    verb = "fell" if after.memory < before.memory else "rose"
    return f"{verb} from {size(before.memory)} to {size(after.memory)} of memory"
