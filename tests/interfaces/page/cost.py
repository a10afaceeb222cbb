"""Measures what one viewer of the page costs a query:

    python tests/interfaces/page/cost.py DIR --query 67 --pairs 40

DIR holds TPC-DS. The query runs again and again in one session, in turn with and without another process that reads the
page's stream of events for the job, as a browser does. Which of both comes first alternates. A look takes the
interpreter, so wall time and cpu seconds of the whole process are told, and those of the page's own thread.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import qoop
from qoop.tpcds.quantiles import ratio_of_sums
from qoop.tpcds.queries import text

READER = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as stream:
    print("open", flush=True)
    while stream.read1(1 << 20):
        pass
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    options.add_argument("--query", type=int, default=67)
    options.add_argument("--pairs", type=int, default=40)
    options.add_argument("--slots", type=int, default=2)
    options.add_argument("--staged", action="store_true", help="without DuckDB's own plan")
    asked = options.parse_args()
    staged = True if asked.staged else None
    with qoop.connect(slots=asked.slots, memory="3GB", staged=staged, watch_machine=False) as session:
        session.register_folder(asked.data)
        with session.page() as page:
            measure(session, page.url, text(asked.query), asked.pairs)


def measure(session: qoop.Session, url: str, query: str, pairs: int) -> None:
    """Run the pairs, and print what they took."""
    for _ in range(3):
        session.submit(query).result()  # statistics, plans, the files' pages
    alone: list[tuple[float, ...]] = []
    watched: list[tuple[float, ...]] = []
    for number in range(pairs):
        for looked_at in (False, True) if number % 2 else (True, False):
            (watched if looked_at else alone).append(run(session, url if looked_at else None, query))
    for place, name in enumerate(("wall", "cpu")):
        pairs_of = [(one[place], other[place]) for one, other in zip(watched, alone, strict=True)]
        ratio, low, high = ratio_of_sums([pairs_of])
        print(f"{name}: {median(one[place] for one in alone):.3f} s alone; ratio {ratio:.4f} ({low:.4f} to {high:.4f})")
    share = sum(one[2] for one in watched) / sum(one[0] for one in watched)
    print(f"the page's thread: {share:.2%} of one processor; {sum(one[2] for one in alone):.3f} s without a viewer")


def run(session: qoop.Session, url: str | None, query: str) -> tuple[float, float, float]:
    """Seconds of wall, of cpu and of cpu of the page's thread until the answer is there."""
    number = 1 + max((int(job.id.removeprefix("job")) for job in session.cluster.jobs()), default=0)
    with viewer(None if url is None else f"{url}events?job=job{number}"):
        before, cpu, page = time.perf_counter(), time.process_time(), page_seconds()
        job = session.submit(query)
        assert url is None or job.id == f"job{number}"
        job.result()
        return time.perf_counter() - before, time.process_time() - cpu, page_seconds() - page


@contextmanager
def viewer(url: str | None) -> Iterator[None]:
    """A process that reads the stream, if there is an address."""
    if url is None:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", READER, url], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == "open\n"
        try:
            yield
        finally:
            reader.kill()


def page_seconds() -> float:
    """Cpu seconds that the thread of the page has taken so far."""
    [thread] = [one for one in threading.enumerate() if one.name.startswith("qoop-http")]
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


if __name__ == "__main__":
    main()
