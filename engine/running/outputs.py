"""The outputs of a run: which can be read now, and what is known of those released since."""

from __future__ import annotations

from collections.abc import Iterable

from qoop.engine.events import Committed, Release
from qoop.engine.frontier import StageNode, TaskNode
from qoop.engine.history import Released, StageDone
from qoop.engine.notices import Continued
from qoop.engine.running.log import RunLog
from qoop.engine.task import CheckpointKey, Content, JobId, TaskAccount


class Outputs:
    """The outputs of one run. Public attributes are for reading only.

    present: outputs that can be read. present_bytes: their size. facts: all outputs made or found, released ones too.
    spent: wall seconds by content, for all of these.
    strays: outputs that were reported but not used, until no attempt at the same key is alive.
    continued: outputs of an earlier run that a record `Continued` counts.
    useful: contents worth keeping beyond the need of the plan that runs; None: all are.
    """

    def __init__(self, log: RunLog, job: JobId, keep: bool) -> None:
        self.present: dict[CheckpointKey, Committed] = {}
        self.present_bytes = 0
        self.facts: dict[CheckpointKey, Committed] = {}
        self.spent: dict[Content, float] = {}
        self.strays: set[CheckpointKey] = set()
        self.continued: frozenset[CheckpointKey] = frozenset()
        self.useful: frozenset[Content] | None = None
        self._log = log
        self._job = job
        self._keep = keep
        self._accounts: dict[CheckpointKey, TaskAccount] = {}  # of the outputs made here
        self._outside: dict[CheckpointKey, float] = {}  # slot seconds of outputs found outside

    def __contains__(self, key: CheckpointKey) -> bool:
        return key in self.present

    def add(self, committed: Committed, account: TaskAccount | None = None) -> None:
        """An output can be read."""
        key = committed.key
        self.present[key] = self.facts[key] = committed
        self.present_bytes += sum(committed.bytes)
        self.strays.discard(key)
        self.spent[key.content] = self.spent.get(key.content, 0.0) + committed.seconds
        if account is not None:
            self._accounts[key] = account

    def add_found(self, found: Iterable[Committed]) -> None:
        """These outputs were found outside; those present already change nothing."""
        for committed in found:
            if committed.key not in self.present:
                self.add(committed)
                self._outside[committed.key] = max(committed.seconds, committed.cpu_seconds)

    def drop(self, key: CheckpointKey) -> Committed | None:
        """The output cannot be read any more; None: it could not before."""
        committed = self.present.pop(key, None)
        if committed is not None:
            self.present_bytes -= sum(committed.bytes)
        return committed

    def release(self, keys: tuple[CheckpointKey, ...]) -> None:
        """Return these outputs to the store, whether they are present or were just reported."""
        for key in keys:
            self.drop(key)
        if keys:
            self._log.command(Release(self._job, keys))
            self._log.note(Released(self._log.at, keys))

    def keeps(self, key: CheckpointKey) -> bool:
        """True if an output is kept even where the plan needs it no more."""
        return self._keep and (self.useful is None or key.content in self.useful)

    def useless(self, key: CheckpointKey, task: TaskNode | None) -> bool:
        """True if an output need not be kept for the plan (or, if all are kept, cannot serve it). task: of the key."""
        if task is not None and not task.present and task.stage.dependent:
            return True
        return not self.keeps(key) and (task is None or not task.needed)

    def note_done(self, node: StageNode) -> None:
        """Record the end of a stage, once it is complete."""
        if not node.complete:
            return
        facts = [self.facts[task.key] for task in node.tasks]
        accounts = [self._accounts[task.key] for task in node.tasks if task.key in self._accounts]
        self._log.note(
            StageDone(
                self._log.at,
                node.stage.id,
                facts[0].key.content,
                rows=sum(sum(fact.rows) for fact in facts),
                bytes=sum(sum(fact.bytes) for fact in facts),
                seconds=sum(fact.seconds for fact in facts),
                estimated=node.stage.estimate.rows,
                account=sum(accounts, TaskAccount()) if accounts else None,
            )
        )

    def note_continued(self, keys: Iterable[CheckpointKey], left: int, slots: float) -> None:
        """Record the outputs that an earlier run left and this plan uses, unless all are recorded.

        keys: all of the plan. left: tasks to run. slots: of all machines, which made or would make them.
        """
        of_plan = tuple(keys)
        found = frozenset(key for key in of_plan if key in self._outside)
        if not found <= self.continued:
            self.continued |= found
            seconds = sum(self._outside[key] for key in self._outside if key in found) / max(1.0, slots)
            makers = tuple(dict.fromkeys(self.facts[key].maker for key in of_plan if key in found))
            self._log.note(
                Continued(self._log.at, len(found), len(of_plan), left, seconds, tuple(filter(None, makers)))
            )
