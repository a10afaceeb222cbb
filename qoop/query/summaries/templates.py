"""Texts that differ in constants alone: after some of them a summary answers the others.

A summary that is grouped also by the columns that constants are compared with answers the text for any constants. It is
made with a text of the template, once those before it have taken as long as it should take: so whatever comes, no more
than twice the least work is done (ski rental: A. Karlin, M. Manasse, L. Rudolph, D. Sleator, "Competitive Snoopy
Caching", Algorithmica 1988). It is kept as any output is, and names the versions of its tables.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from qoop.catalog.errors import BindError, CatalogError
from qoop.engine.task import CheckpointKey, checkpoint_key
from qoop.planner.plan import Plan, Resources, Stage
from qoop.query.job import Planned, Prepared
from qoop.query.statements.normal_text import normal_text

if TYPE_CHECKING:
    from qoop.catalog.catalog import Catalog
    from qoop.engine.events import Committed
    from qoop.query.duckdb_plans import DuckDBPlan
    from qoop.query.summaries.grouping import TextToShare
    from qoop.query.summaries.plans import SummaryPlanner

LEAST_SECONDS = 0.05
"""Seconds of one thread that texts of a template must take in the mean: the plan over a summary takes 10 ms to make."""

FEWEST = 3
"""Texts of a template that must have come: two differ in the constants that are likely to change."""

MOST_PART = 0.4
"""The part of those seconds that the groups of a summary may take at most."""

MOST_MISSES = 4
"""Plannings of a summary over the same tables at most: its template has constants that no summary covers."""

_REMEMBERED = 256
"""Templates that are remembered: those that came last."""


@dataclass
class _Template:
    """texts: the first ones with different constants, and those that the summary of these did not cover.
    running: texts that run as usual, whose seconds are not known yet. seconds: of one thread, of those that have run
    so; spent: the part since the last summary was made. planner: of the summary over the tables as they were.
    misses: texts that it did not cover, though the tables were the same. refused: no summary is tried any more."""

    texts: dict[str, str] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    spent: float = 0.0
    planner: SummaryPlanner | None = None
    misses: int = 0
    refused: bool = False

    @property
    def mean(self) -> float:
        """Seconds of one thread that a text takes; 0: none has run."""
        return fmean(self.seconds) if self.seconds else 0.0

    def count(self, taken: Callable[[str], float | None]) -> None:
        """Count the seconds of the texts that have ended."""
        found = {text: taken(text) for text in self.running}
        known = [seconds for seconds in found.values() if seconds is not None]
        self.running = [text for text in self.running if found[text] is None][-_REMEMBERED:]
        self.seconds = [*self.seconds, *known][-_REMEMBERED:]
        self.spent += sum(known)


class Templates:
    """The templates of a session's texts. Thread-safe.

    prepare: binds a text, with its statistics. catalog: of the session's tables. present: finds outputs that are kept.
    taken: seconds of one thread that DuckDB's plan of a text has taken; None: it has not run.
    """

    def __init__(
        self,
        prepare: Callable[[str], Prepared],
        catalog: Catalog,
        present: Callable[[Sequence[CheckpointKey]], Sequence[Committed]],
        taken: Callable[[str], float | None],
    ) -> None:
        self._prepare, self._catalog, self._present, self._taken = prepare, catalog, present, taken
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Template] = OrderedDict()

    def plan(self, own: DuckDBPlan, share: Resources) -> Planned | None:
        """The text by a summary of its template; None: it runs as usual."""
        with self._lock:
            template = self._template(own)
            if template.refused:
                return None
            template.count(self._taken)
            enough = len(template.texts) >= FEWEST and template.mean >= LEAST_SECONDS
            found = self._over_summary(template, own, share) if enough else None
            if found is None:
                template.running.append(own.bound.text)
            return found

    def _template(self, own: DuckDBPlan) -> _Template:
        """The template of a text, which is one of its first ones if there are few."""
        text, settings = own.bound.text, own.bound.settings
        normal = normal_text(text)
        key = f"{normal.pattern} {settings!r}"
        template = self._known.pop(key, None) or _Template()
        self._known[key] = template
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        if len(template.texts) < FEWEST:
            template.texts.setdefault(normal.digest, text)
        return template

    def _over_summary(self, template: _Template, own: DuckDBPlan, share: Resources) -> Planned | None:
        from qoop.query.summaries.grouping import text_to_share  # loads the planner

        begun = time.perf_counter()
        try:
            text = text_to_share(self._prepare(own.bound.text), own.plan)
        except (BindError, CatalogError):  # a table has changed meanwhile, which planning as usual deals with
            return None
        plan = None if text is None else self._plan(template, text, share)
        if text is None or plan is None:
            template.refused = True
            return None
        if not self._is_there(plan):
            if template.spent < seconds_of(plan.stages[:-1]):
                return None
            template.spent = 0.0
        seconds, prepared = time.perf_counter() - begun, text.prepared
        statistics = prepared.statistics_seconds
        return Planned(prepared.bound, plan, prepared.tables, seconds - statistics, statistics, available=share,
                       last_resort=own.plan)  # fmt: skip

    def _plan(self, template: _Template, text: TextToShare, share: Resources) -> Plan | None:
        """The plan of a text over the summary of its template, which is planned again for other versions of tables."""
        plan = None if template.planner is None else template.planner.plan(text)
        if plan is not None:
            return plan
        if template.planner is None or template.planner.reads_versions_of(text):
            template.misses += 1
            if template.misses > MOST_MISSES:
                return None
            template.texts.setdefault(normal_text(text.prepared.bound.text).digest, text.prepared.bound.text)
        template.planner = self._planner(template, text, share)
        return None if template.planner is None else template.planner.plan(text)

    def _planner(self, template: _Template, text: TextToShare, share: Resources) -> SummaryPlanner | None:
        """Plans over a summary of the last texts; None if none answers them in much less time."""
        from qoop.query.summaries.grouping import group_of_template, text_to_share
        from qoop.query.summaries.plans import SummaryPlanner

        texts = [text]
        for other in template.texts.values():
            if other == text.prepared.bound.text:
                continue
            try:
                found = text_to_share(self._prepare(other), text.own)
            except (BindError, CatalogError):  # of a table that is gone
                continue
            if found is not None:
                texts.append(found)
        group = group_of_template(texts, self._catalog, MOST_PART * template.mean)
        return None if group is None else SummaryPlanner(group, share)

    def _is_there(self, plan: Plan) -> bool:
        """True if the groups that the last stage reads are kept."""
        summary = plan.stages[-2]
        keys = [checkpoint_key(summary, part) for part in range(summary.width)]
        return len(self._present(keys)) == len(keys)


def seconds_of(stages: Sequence[Stage]) -> float:
    """Seconds of one thread that stages should take."""
    return sum(stage.width * stage.estimate.task_seconds for stage in stages)
