"""Queries that are submitted at the same time: those that can share a summary read it, the others run as usual.

first ──submit──> its answer, as soon as alone
rest ──QueryPlanning.together──> a job for each summary ──> the jobs that read it start once it has ended
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qoop.adaptive.cluster.job_handle import JobHandle
    from qoop.query.job import Job, Planned
    from qoop.query.summaries.plans import SharedPlans

FEWEST = 3
"""Queries from which a search for summaries pays: the first runs by itself."""

FIRST_ALONE = 2.0
"""Seconds at most that the planning of the others waits for the first answer, which it would delay."""


class StartsReader(Protocol):
    """Starts a job that reads a summary. after: the job of the summary."""

    def __call__(self, planned: Planned, *, after: JobHandle) -> Job: ...


def submitted(
    texts: Sequence[str],
    submit: Callable[[str], Job],
    share: Callable[[Mapping[int, str]], Mapping[int, Job]] | None,
    watch: Callable[[Job], object] | None,
) -> list[Job]:
    """As `Session.submit_many`. share: starts those texts that share summaries; None: nothing is shared."""
    jobs: dict[int, Job] = {}

    def put(place: int, job: Job) -> None:
        jobs[place] = job
        if watch is not None:
            watch(job)

    try:
        if share is not None and len(texts) >= FEWEST:
            put(0, submit(texts[0]))
            jobs[0].wait(FIRST_ALONE)
            for place, job in share(dict(enumerate(texts[1:], 1))).items():
                put(place, job)
        for place, text in enumerate(texts):
            if place not in jobs:
                put(place, submit(text))
    except BaseException:
        for job in jobs.values():
            job.cancel()
        raise
    return [jobs[place] for place in range(len(texts))]


def started(
    shared: Iterable[SharedPlans], start_summary: Callable[[Planned], JobHandle], start: StartsReader
) -> Mapping[int, Job]:
    """The jobs of the texts that share summaries, by their places."""
    jobs: dict[int, Job] = {}
    for plans in shared:
        summary = start_summary(plans.summary)
        readers = {place: start(planned, after=summary) for place, planned in plans.texts.items()}
        _release_after(summary, list(readers.values()))
        jobs.update(readers)
    return jobs


def _release_after(summary: JobHandle, readers: Sequence[Job]) -> None:
    """Release the summary once all of its readers have ended."""
    lock, left = threading.Lock(), len(readers)

    def ended() -> None:
        nonlocal left
        with lock:
            left -= 1
            last = not left
        if last:
            summary.release()

    for job in readers:
        job.when_ended(ended)
