"""Ten bombs next to fifty dashboards, on one `qoop serve` (`make soak-bombs`).

python tests/soak/bombs.py --minutes 10 --memory 1GB --seed 7

Fifty tenants send short queries, at first alone, and then next to ten that send texts which need four times the memory,
or any time. Clients and workers are killed meanwhile. At the end the server gets SIGTERM while bombs run. What must be
true: the server lives; all its processes together stay below its memory and a tenth; no answer is wrong; queries end at
their deadline, and cancelled ones at once.

Needs Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "attack")]

from attack_bombs import Server, served  # noqa: E402
from bomb_clients import SHORT, USUAL, Order  # noqa: E402

from qoop.catalog.sizes import parse_bytes  # noqa: E402
from qoop.engine.memory import anonymous_memory  # noqa: E402
from qoop.interfaces.server.users import token_digest  # noqa: E402
from qoop.tpcds.bench.bombs import times  # noqa: E402
from qoop.tpcds.processes import family, own_memory  # noqa: E402

DEADLINE = 10.0
IN_TIME = 1.0
"""Seconds after its deadline, or its cancelling, within which a query has ended."""
MOST_ABOVE = 1.1
MOST_ENDING = 5.0
GONE = 2.0
"""Seconds in which children that have lost their parent end, and the system takes back their memory."""
MOST_WAITING = 60.0
"""Seconds after the end of a run in which a first answer and a first bomb have ended."""
IDLE = 0.2
"""The part of the run in which the dashboards are alone."""


@dataclass(frozen=True)
class Mix:
    """A run. place: an empty folder. memory: of the server."""

    place: Path
    seconds: float = 600.0
    dashboards: int = 50
    bombers: int = 10
    memory: int = 1_000_000_000
    seed: int = 1


@dataclass
class Report:
    """The events of a run.

    idle, short, bombs: lines of the logs. killed: what was. peak: bytes of all processes of the server, and parts: of
    each at that moment. died: its code, if it did. ending: seconds from SIGTERM to its end. left: processes after that.
    """

    mix: Mix
    idle: list[dict[str, Any]] = field(default_factory=list)
    short: list[dict[str, Any]] = field(default_factory=list)
    bombs: list[dict[str, Any]] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)
    peak: int = 0
    parts: list[int] = field(default_factory=list)
    ending: float = 0.0
    left: int = 0
    died: int | None = None

    def check(self) -> None:
        """Raise AssertionError unless all went well."""
        assert self.died is None, f"the server has died: {self.died}"
        assert self.right > 0 and self.bombs, "nothing was compared"
        assert not (wrong := [one for one in self.short + self.idle if one.get("right") is False]), wrong[:3]
        most = MOST_ABOVE * self.mix.memory
        assert self.peak <= most, f"the server had {self.peak / 1e6:.0f} MB"
        assert self.kept("seconds", DEADLINE) >= 0.99, self.late("seconds", DEADLINE)
        assert self.kept("cancelled", 0.0) >= 0.99, self.late("cancelled", 0.0)
        assert self.ending <= MOST_ENDING and not self.left, f"{self.ending:.1f} s, {self.left} processes left"

    @property
    def right(self) -> int:
        return sum(one.get("right", False) for one in self.short)

    def kept(self, of: str, deadline: float) -> float:
        """The part of the bombs that have ended in time."""
        found = self._timed(of)
        return 1.0 - len(self.late(of, deadline)) / max(1, len(found))

    def late(self, of: str, deadline: float) -> list[dict[str, Any]]:
        """The bombs that have not, the latest first."""
        return sorted(
            (one for one in self._timed(of) if one[of] > deadline + IN_TIME), key=lambda one: one[of], reverse=True
        )

    def _timed(self, of: str) -> list[dict[str, Any]]:
        return [one for one in self.bombs if of in one and (of == "cancelled" or one["way"] == "wait")]

    def lines(self) -> list[str]:
        """The report for people."""
        statuses = Counter(str(one.get("status", one.get("error", one["way"]))) for one in self.bombs)
        refused = Counter(one["error"][:160] for one in self.short if one["what"] in ("refused", "lost"))
        return [
            f"short queries alone: {_times(self.idle)}",
            f"short queries next to bombs: {_times(self.short)}",
            *(f"  {text[:60]}: {_times([one for one in self.short if one.get('number') == number])}"
              for number, text in enumerate(one.text for one in SHORT)),
            *(f"  {count} not answered: {error}" for error, count in refused.most_common(5)),
            f"{len(self.bombs)} bombs: " + ", ".join(f"{count} {what}" for what, count in statuses.most_common(12)),
            f"deadlines kept: {self.kept('seconds', DEADLINE):.1%} of {len(self._timed('seconds'))}",
            *(f"  {one['seconds']:.1f} s: {one['kind']}: {one.get('answer', '')[:80]}"
              for one in self.late("seconds", DEADLINE)[:8]),
            f"cancelled within {IN_TIME:g} s: {self.kept('cancelled', 0.0):.1%} of {len(self._timed('cancelled'))}",
            *(f"  {one['cancelled']:.1f} s: {one['kind']}, {one['way']}" for one in self.late("cancelled", 0.0)[:8]),
            f"killed: {dict(self.killed)}",
            f"memory: at most {self.peak / 1e6:.0f} MB of {self.mix.memory / 1e6:.0f}, as "
            + " + ".join(f"{one / 1e6:.0f}" for one in self.parts),
            f"SIGTERM: {self.ending:.1f} s, {self.left} processes left",
        ]  # fmt: skip


def _times(found: list[dict[str, Any]]) -> str:
    return times([one["seconds"] for one in found if one["what"] == "short"])


def perform(mix: Mix, say: Callable[[str], None] = lambda _: None) -> Report:
    """Run the mix; `Report.check` judges it."""
    _adopt_orphans()
    options = ("--grace", "0.5", "--log", str(mix.place / "log"))
    with served(mix.place, *options, users=_users(mix), memory=mix.memory) as server:
        _check_answers(mix.place)
        order = Order(server.port, mix.seed, *_tokens(mix))
        (mix.place / "order.json").write_text(json.dumps(asdict(order)), encoding="utf-8")
        world = _World(mix, server, say)
        try:
            return world.go()
        finally:
            world.kill_clients()


class _World:
    """The server, the processes of clients, and who is killed."""

    def __init__(self, mix: Mix, server: Server, say: Callable[[str], None]) -> None:
        self._mix, self._server, self._say = mix, server, say
        self._chance, self._report = random.Random(mix.seed), Report(mix)
        self._others = frozenset(_orphans())  # of sessions in this process
        self._clients = {"dashboards": self._client("dashboards")}
        self._begun = time.monotonic()
        self._bombs_at = 0.0

    def go(self) -> Report:
        self._watch(IDLE * self._mix.seconds)
        self._bombs_at = time.time()
        self._clients["bombers"] = self._client("bombers")
        self._watch(self._mix.seconds)
        late = time.monotonic() + MOST_WAITING
        while not self._has_both(ends := time.time()) and self._report.died is None and time.monotonic() < late:
            self._watch(time.monotonic() - self._begun + 1.0)
        self._end()
        self._has_both(ends)
        return self._report

    def _has_both(self, ends: float) -> bool:
        """Read what the clients have logged of queries that began before the end: True if there are answers of
        dashboards next to bombs, and bombs that have ended. On a busy machine a short run may have none yet."""
        lines = [line for line in _lines(self._mix.place / "dashboards.jsonl") if line["at"] < ends]
        self._report.idle = [line for line in lines if line["at"] < self._bombs_at]
        self._report.short = [line for line in lines if line["at"] >= self._bombs_at]
        self._report.bombs = [line for line in _lines(self._mix.place / "bombers.jsonl") if line["at"] < ends]
        return self._report.right > 0 and bool(self._report.bombs)

    def kill_clients(self) -> None:
        for process in self._clients.values():
            process.kill()
            process.wait()

    def _watch(self, until: float) -> None:
        said = mishap = time.monotonic()
        while (now := time.monotonic()) - self._begun < until:
            self._sample()
            if (code := self._server.process.poll()) is not None:
                self._report.died = code
                return
            if self._bombs_at and now > mishap + 5.0:
                mishap = now
                self._mishap()
            if now > said + 15.0:
                said = now
                self._say(f"{now - self._begun:4.0f} s: at most {self._report.peak / 1e6:.0f} MB")
            time.sleep(0.1)

    def _sample(self) -> None:
        processes = self._processes()
        if sum(map(anonymous_memory, processes)) <= self._report.peak:
            return  # what processes share counts for each, and to count it once takes the server's locks
        parts = {one: own_memory(one) for one in processes}
        if sum(parts.values()) > self._report.peak:
            self._report.peak, self._report.parts = sum(parts.values()), sorted(parts.values(), reverse=True)

    def _processes(self) -> list[int]:
        """The server, the process that makes its workers, and these. After the first such process was killed, the next
        is a child of this one."""
        own = family(self._server.process.pid)
        orphans = set(_orphans()) - self._others
        return [own[0], *(one for orphan in orphans for one in family(orphan)), *own[1:]]

    def _mishap(self) -> None:
        """Kill the bombers, a worker, or the process that makes workers."""
        if not (processes := self._processes()[1:]):
            return  # none has come yet after the last kill
        nursery, *workers = processes
        what = self._chance.choices(("a worker", "the nursery", "the bombers"), (6, 1, 2))[0]
        self._report.killed[what] += 1
        if what == "the bombers":
            self._clients["bombers"].kill()
            self._clients["bombers"].wait()
            self._clients["bombers"] = self._client("bombers")
            return
        one = nursery if what == "the nursery" or not workers else self._chance.choice(workers)
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(one, signal.SIGKILL)

    def _end(self) -> None:
        """End the server while bombs run."""
        if self._report.died is not None:
            return
        processes, begun = self._processes(), time.perf_counter()
        self._server.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the seconds say so
            self._server.process.wait(60)
        self._report.ending = time.perf_counter() - begun
        late = time.monotonic() + GONE
        while (left := sum(own_memory(one) > 0 for one in processes)) and time.monotonic() < late:
            time.sleep(0.1)
        self._report.left = left

    def _client(self, what: str) -> subprocess.Popen[bytes]:
        program = [sys.executable, str(HERE / "bomb_clients.py"), str(self._mix.place), what]
        with (self._mix.place / f"said-{what}").open("ab") as said:
            return subprocess.Popen(program, stdout=said, stderr=said)


_PR_SET_CHILD_SUBREAPER = 36


def _adopt_orphans() -> None:
    """Have the children of processes that are killed become children of this process."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _orphans() -> list[int]:
    """The children of this process that make workers: of sessions here, and of servers whose nursery was killed."""
    found = []
    for tasks in Path("/proc/self/task").glob("*/children"):
        for one in tasks.read_text(encoding="ascii").split():
            with contextlib.suppress(OSError):  # it has just ended
                if b"qoop.engine.processes.nursery" in Path(f"/proc/{one}/cmdline").read_bytes():
                    found.append(int(one))
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, the last of which may be cut off."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def _tokens(mix: Mix) -> tuple[list[str], list[str]]:
    return tuple([f"token-{what}{number}" for number in range(count)] for what, count in _counts(mix))  # type: ignore


def _counts(mix: Mix) -> tuple[tuple[str, int], ...]:
    return ("dashboard", mix.dashboards), ("bomber", mix.bombers)


def _users(mix: Mix) -> str:
    """Each user is a tenant of its own. ann: for the start."""
    names = ["ann", *(f"{what}{number}" for what, count in _counts(mix) for number in range(count))]
    return "".join(
        f'[{name}]\ntoken = "{token_digest(f"token-{name}")}"\nlongest_query = {DEADLINE}\n' for name in names
    )


def _check_answers(folder: Path) -> None:
    """Check what the clients compare with against DuckDB's rows."""
    with duckdb.connect() as oracle:
        oracle.execute(f"CREATE VIEW sales AS FROM '{folder / 'sales.parquet'}'")
        for short in SHORT:
            for n in (0, 5, USUAL):
                rows = oracle.execute(short.text.format(n=n))
                names = [one[0] for one in rows.description]
                found = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
                assert found and found == short.rows(n), f"{short.text} with {n}: {found}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/soak/bombs.py")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--dashboards", type=int, default=50)
    parser.add_argument("--bombers", type=int, default=10)
    parser.add_argument("--memory", type=parse_bytes, default=1_000_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="an empty folder for all files, which stay there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qoop-bombs-") as temporary:
        place = options.keep or Path(temporary)
        mix = Mix(place, 60.0 * options.minutes, options.dashboards, options.bombers, int(options.memory), options.seed)
        report = perform(mix, partial(print, flush=True))
    print("\n".join(report.lines()))
    report.check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
