"""The triggers: reasons to decide again about the plan of a running job."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from qoop.catalog.value import value
from qoop.engine.history import MemoryExhausted, MemoryRaised, Record, ShareTold, StageDone, size
from qoop.planner.plan import Resources
from qoop.replanning.decision import SHARE


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
    quiet: seconds without a further change after which a decision is taken; a burst of changes is one decision.
    longest: seconds after the first change when it is taken even so.
    """

    share: float = 0.10
    rows: float = 4.0
    least_rows: float = 10_000
    search: float = 2.0
    quiet: float = 0.01
    longest: float = 0.1

    def cause(self, record: Record, basis: Resources, without_a_slot: bool = False) -> Cause | None:
        """The reason that the record gives. basis: the share at the last decision; without_a_slot: it had none, though
        plans are made for one at least."""
        match record:
            case ShareTold(_, share) if changed(basis, share) > self.share:
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
        return None

    def misjudged(self, rows: float, estimated: float) -> bool:
        """True if the two numbers of rows are a reason to think again."""
        low, high = sorted((max(1.0, rows), max(1.0, estimated)))
        return high >= self.least_rows and high > self.rows * low


def changed(before: Resources, after: Resources) -> float:
    """By which fraction of what it was a share has changed, in the resource where that is most.

    >>> changed(Resources(4, 100), Resources(3, 100))
    0.25
    """
    pairs = ((before.cpu, after.cpu), (before.memory, after.memory), (before.network, after.network))
    return max((abs(new - old) / old if old else inf) if new != old else 0.0 for old, new in pairs)


def _movement(before: Resources, after: Resources) -> str:
    if before.cpu != after.cpu:
        return f"{'fell' if after.cpu < before.cpu else 'rose'} from {before.cpu:g} to {after.cpu:g} slots"
    verb = "fell" if after.memory < before.memory else "rose"
    return f"{verb} from {size(before.memory)} to {size(after.memory)} of memory"
