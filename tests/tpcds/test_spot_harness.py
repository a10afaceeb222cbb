"""The harness of the spot benchmark, tested before any engine: an engine of known work has to give the closed forms."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from waits import until

from qoop.adaptive.profiles import CapacityProfile, load
from qoop.catalog.errors import ConfigError
from qoop.tpcds.spot import measures
from qoop.tpcds.spot.course import Event, Order, OutOfMemory, Size, Up, Work, drive
from qoop.tpcds.spot.driver import Durable
from qoop.tpcds.spot.driving import Report, report
from qoop.tpcds.spot.limits import refused
from qoop.tpcds.spot.machine import _ticks
from qoop.tpcds.spot.markets import market
from qoop.tpcds.spot.page import _cells
from qoop.tpcds.spot.records import NONE, Run, RunKey
from qoop.tpcds.spot.summary import GONE_SECONDS, KILL_SECONDS, Summary
from qoop.tpcds.spot.timeline import Exponential, Recorded, Window

FAKE = Path(__file__).parents[1] / "support" / "fake_engine.py"
RUNS = 2_500


@dataclass
class VirtualWorld:
    """An engine of known work on a virtual clock."""

    start_seconds: float
    work: float
    checkpoint: float = 0.0
    clock: float = 0.0
    saved: float = 0.0
    due: float = math.inf
    reply: Mapping[str, Any] | None = None
    began: float | None = None
    tables: list[object] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    """Seconds of the starts that are not `start_seconds`, in order."""

    def now(self) -> float:
        return self.clock

    def wait(self, until: float) -> None:
        self.clock = max(self.clock, until)

    def start(self) -> None:
        self.due, self.reply, self.began = math.inf, None, None

    def send(self, message: Mapping[str, Any]) -> None:
        if "open" in message:
            seconds = self.starts.pop(0) if self.starts else self.start_seconds
            self.due, self.reply = self.clock + seconds, {"ready": True}
        elif "table" in message:
            self.tables.append(message["table"])
        elif "run" in message:
            self.began = self.clock
            self.due, self.reply = self.clock + self.work - self.saved, {"done": message["run"]["task"]}

    def receive(self, until: float) -> Mapping[str, Any] | None:
        self.clock = min(until, self.due)
        return self.reply if self.due <= until else None

    def kill(self) -> None:
        if self.began is not None and self.checkpoint:
            done = self.saved + self.clock - self.began
            self.saved = math.floor(done / self.checkpoint + 1e-9) * self.checkpoint

    def clear(self) -> None:
        pass

    def resize(self, size: Size) -> None:
        raise AssertionError("it has one size")

    def used(self) -> float:
        raise AssertionError("it has one size")


def order(ups: Iterator[Up] | list[Up], limit: float, **more: Any) -> Order:
    works = [Work("q1", "SELECT 1", "answer")]
    usual: dict[str, Any] = {"command": [], "environment": {}, "tables": {}, "durable": "", "works": works, "cpus": 1}
    ups = tuple(takewhile(lambda up: up.begin < limit, ups))
    return Order(**{**usual, "memory": 1, "limit": limit, "ups": ups, **more})


def played(world: VirtualWorld, ups: Iterator[Up], limit: float = 150.0) -> list[Event]:
    events: list[Event] = []
    drive(order(ups, limit), world, events.append)
    return events


def exponential(mean: float, pause: float, seed: int) -> Iterator[Up]:
    """Exponential lives, each but the first after a pause."""
    begin = 0.0
    for life in Exponential(mean).ups(random.Random(seed)):
        length = life.end - life.begin
        yield Up(begin, begin + length)
        begin += length + pause


def close(found: float, theory: float) -> bool:
    return abs(found / theory - 1.0) < 0.05


@pytest.mark.parametrize(("pressure", "stretch"), [(2.0, 1.30), (1.0, 1.72), (0.5, 3.19)])
def test_starting_again_from_nothing_takes_the_known_time(pressure: float, stretch: float) -> None:
    runs = []
    for number in range(RUNS):
        ups = Window("exponential", pressure, number).timeline(Exponential(), 1.0, 40.0)
        runs.append(measures.finish(played(VirtualWorld(0.0, 1.0), iter(ups), 40.0)))
    assert close(fmean(runs), (math.exp(1 / pressure) - 1) * pressure)
    assert close(fmean(runs), stretch)


@pytest.mark.parametrize("pieces", [1, 5])
def test_all_measures_have_their_closed_forms(pieces: int) -> None:
    """Of an engine with a start, equal checkpoints, and a pause of the machine after each loss."""
    start, work, mean, pause = 0.3, 2.0, 1.5, 0.4
    piece = work / pieces
    runs = [played(VirtualWorld(start, work, piece), exponential(mean, pause, seed)) for seed in range(RUNS)]
    first = mean * (math.exp(start / mean) - 1)
    up = first + pieces * mean * math.exp(start / mean) * (math.exp(piece / mean) - 1)
    lost = up / mean
    restarts = lost * mean * (1 - math.exp(-start / mean))

    def of(measure: Any) -> float:
        return fmean(map(measure, runs))

    assert close(of(measures.machine_seconds), up)
    assert close(of(measures.losses), lost)
    assert close(of(measures.finish), up + lost * pause)
    assert close(of(lambda events: sum(measures.start_seconds(events))), restarts)
    assert close(of(lambda events: measures.credited(events, start)), up + lost * pause - restarts)
    assert close(measures.break_even(start + work, of(measures.machine_seconds)), 1 - (start + work) / up)
    assert measures.finish(played(VirtualWorld(start, work), iter([Up(0.0, math.inf)]))) == pytest.approx(start + work)


def test_the_interval_of_a_ratio_covers_what_texts_and_windows_vary() -> None:
    """Twenty texts, ten windows; the second engine takes half of each, but for a factor of the text."""
    chance = random.Random(1)
    factors = [chance.uniform(0.8, 1.25) for _ in range(20)]
    cells = {(f"q{text}", str(window)): (2.0, factors[text]) for text in range(20) for window in range(10)}
    found = measures.ratio(cells)
    assert found is not None and found.value == pytest.approx(40.0 / sum(factors))
    assert found.low < found.value < found.high and found.high - found.low < 0.3
    alike = measures.ratio(dict.fromkeys(cells, (3.0, 2.0)))
    assert alike == measures.Ratio(1.5, 1.5, 1.5) and measures.ratio({}) is None


def test_the_limit_counts_where_no_answer_comes() -> None:
    events = played(VirtualWorld(0.0, 2.0), iter([Up(0.0, 1.5), Up(3.0, 4.0)]), limit=3.5)
    lives = [("started", "ready", "sent", end, "gone") for end in ("lost", "stopped")]
    assert [event.what for event in events] == [what for life in lives for what in life]
    assert (measures.finish(events), measures.machine_seconds(events)) == (3.5, 2.0)


TRACE = """\
0,add,a
0,add,b
60000,remove,a
90000,add,c
200000,remove,b
240000,add,d
300000,remove,c
400000,remove,d
"""


def test_the_times_of_a_window_follow_from_trace_seed_and_pressure(tmp_path: Path, golden: Any) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    trace = Recorded.of(load(tmp_path / "trace.csv"))
    lines = [f"mean life {trace.mean_life:g} s"]
    for number in range(4):
        for pressure in (4.0, 0.25):
            ups = Window("small", pressure, number).timeline(trace, 10.0, 40.0)
            lines.append(f"{pressure:g} {number}: " + " ".join(f"{up.begin:.3f}-{up.end:.3f}" for up in ups))
    golden("spot_windows", "\n".join(lines) + "\n")


def test_a_machine_is_up_as_its_nodes_are(tmp_path: Path) -> None:
    """Each life ends when a node goes; the next begins when one is added."""
    (tmp_path / "trace.csv").write_text(TRACE)
    trace = Recorded.of(load(tmp_path / "trace.csv"))
    ends, begins = {60.0, 200.0, 300.0}, {0.0, 90.0, 240.0}
    for seed in range(50):
        chance = random.Random(seed)
        start = random.Random(seed).uniform(0.0, trace.seconds)
        ups = list(takewhile(lambda up: up.begin < 1000.0, trace.ups(chance)))
        assert all(any(abs((start + up.end - end) % 400.0) < 1e-6 for end in (*ends, 400.0)) for up in ups[:-1])
        assert all(any(abs((start + up.begin - begin) % 400.0) < 1e-6 for begin in begins) for up in ups[1:])


def test_tables_that_were_made_are_there_in_the_next_life() -> None:
    world = VirtualWorld(0.0, 1.0)
    works = [Work(name, "SELECT 1", f"/{name}.parquet", name) for name in ("a", "b")]
    events: list[Event] = []
    drive(order([Up(0.0, 1.5), Up(2.0, 9.0)], 9.0, works=works), world, events.append)
    assert [event.work for event in events if event.what == "done"] == ["a", "b"]
    a, b = ({"name": name, "files": [f"/{name}.parquet"]} for name in ("a", "b"))
    assert world.tables == [a, a, b]


def test_an_adapter_hears_of_a_loss_as_long_before_as_the_notice_says() -> None:
    events: list[Event] = []
    drive(order([Up(0.0, 2.0), Up(3.0, 9.0)], 9.0, notice=0.5), VirtualWorld(0.2, 4.0), events.append)
    lives = [("started", 0.0), ("ready", 0.2), ("sent", 0.2), ("noticed", 1.5), ("lost", 2.0), ("gone", 2.0)]
    assert [(event.what, event.at) for event in events[:6]] == lives
    assert events[-1].what == "gone" and events[-2].at == 7.2


@dataclass
class ServingWorld:
    """An engine that answers texts in the order of their arrival, each by the same work, on a virtual clock. It uses
    all CPUs, and needs some memory."""

    work: float
    cpus: int = 1
    memory: int = 0
    clock: float = 0.0
    ready: bool = False
    left: list[tuple[str, float]] = field(default_factory=list)
    delay: float = 0.0
    """Seconds for which it goes on with the CPUs that it had, after more have come."""
    more: tuple[float, int] = (math.inf, 0)
    cpu: float = 0.0

    def now(self) -> float:
        return self.clock

    def wait(self, until: float) -> None:
        self.clock = max(self.clock, until)

    def start(self) -> None:
        self.ready, self.left = False, []

    def send(self, message: Mapping[str, Any]) -> None:
        if "open" in message:
            self.cpus = message["open"]["cpus"]
        elif "run" in message:
            self.left.append((message["run"]["task"], self.work))

    def resize(self, size: Size) -> None:
        self.more = (self.clock + self.delay if self.left else self.clock, size.cpus)
        self.cpus = min(self.cpus, size.cpus)
        if self.left and size.memory < self.memory:
            raise OutOfMemory

    def receive(self, until: float) -> Mapping[str, Any] | None:
        if not self.ready:
            self.ready = True
            return {"ready": True}
        if not self.left:
            self.clock = until
            return None
        (name, work), *rest = self.left
        if self.clock >= self.more[0]:
            self.cpus, self.more = self.more[1], (math.inf, 0)
        until = min(until, self.more[0])
        done = min(work, (until - self.clock) * self.cpus)
        self.clock += done / self.cpus
        self.cpu += done
        self.left = rest if done == work else [(name, work - done), *rest]
        return {"done": name} if done == work else None

    def kill(self) -> None:
        self.left = []

    def clear(self) -> None:
        pass

    def used(self) -> float:
        return self.cpu


def arriving(*seconds: float) -> list[Work]:
    return [Work(f"q1 {number}", "SELECT 1", "answer", arrives=at) for number, at in enumerate(seconds)]


def test_the_waits_of_texts_that_arrive_have_their_closed_form() -> None:
    """One arrives each second, and takes two: each waits a second longer than the one before."""
    events: list[Event] = []
    drive(order([Up(0.0, math.inf)], 99.0, works=arriving(1.0, 2.0, 3.0, 4.0)), ServingWorld(2.0), events.append)
    assert list(measures.waits(events).values()) == [2.0, 3.0, 4.0, 5.0] and measures.finish(events) == 9.0


def test_texts_that_wait_at_a_loss_are_sent_again_and_waited_since_their_arrival() -> None:
    events: list[Event] = []
    ups = [Up(0.0, 2.5), Up(3.0, 99.0)]
    drive(order(ups, 99.0, works=arriving(0.0, 1.0, 3.5)), ServingWorld(2.0), events.append)
    assert measures.waits(events) == {"q1 0": 2.0, "q1 1": 4.0, "q1 2": 3.5}
    assert [event.work for event in events if event.what == "sent"] == ["q1 0", "q1 1", "q1 1", "q1 2"]


def test_a_machine_that_is_resized_works_with_the_cpus_that_it_has() -> None:
    """Work of 6: two at two CPUs, one at one, and the rest at two."""
    sizes = [Size(0.0, 2, 8), Size(1.0, 1, 8), Size(2.0, 2, 8)]
    events: list[Event] = []
    drive(order([Up(0.0, math.inf)], 99.0, sizes=sizes), ServingWorld(6.0, memory=4), events.append)
    assert measures.finish(events) == 3.5 and measures.losses(events) == 0


@pytest.mark.parametrize(("delay", "until_busy"), [(0.0, 0.2), (0.5, 0.8), (9.0, None)])
def test_seconds_until_new_cpus_are_busy(delay: float, until_busy: float | None) -> None:
    """They are known to 0.2 s. What comes while the adapter starts does not count, nor what goes."""
    sizes = [Size(0.0, 1, 8), Size(1.0, 2, 8), Size(3.0, 1, 8)]
    events: list[Event] = []
    drive(order([Up(0.0, math.inf)], 99.0, sizes=sizes), ServingWorld(8.0, memory=4, delay=delay), events.append)
    assert measures.until_busy(events) == [until_busy if until_busy is None else pytest.approx(until_busy)]


def test_an_engine_without_the_memory_starts_again() -> None:
    sizes = [Size(0.0, 1, 8), Size(1.0, 1, 2), Size(1.5, 1, 8)]
    events: list[Event] = []
    drive(order([Up(0.0, math.inf)], 99.0, sizes=sizes), ServingWorld(3.0, memory=4), events.append)
    [first, second] = measures.lives(events)
    assert (first.end, first.lost, second.start, second.lost) == (1.0, True, 1.0, False)
    assert measures.finish(events) == 4.0 and measures.losses(events) == 1


def test_sizes_have_the_parts_of_the_trace(tmp_path: Path) -> None:
    """Two nodes for 230 of 400 s, else one; the number falls three times."""
    (tmp_path / "trace.csv").write_text(TRACE)
    trace = Recorded.of(load(tmp_path / "trace.csv"))
    seconds, whole = 3 * 10.0 / (400 / 3) * 400, Size(0.0, 2, 8000)
    for number in range(5):
        sizes = Window("small", 3.0, number).sizes(trace, 10.0, seconds, whole)
        ends = [size.at for size in sizes[1:]] + [seconds]
        spent = {(2, 8000): 0.0, (1, 4000): 0.0}
        for size, end in zip(sizes, ends, strict=True):
            spent[size.cpus, size.memory] += end - size.at
        assert sizes[0].at == 0.0 and spent[2, 8000] / seconds == pytest.approx(230 / 400)
    with pytest.raises(ConfigError, match="never falls in the market exponential"):
        Window("exponential", 1.0, 0).sizes(Exponential(), 1.0, 10.0, whole)


def test_a_market_without_a_loss_has_no_pressure() -> None:
    still = Recorded.of(CapacityProfile.of([(0, 1, 1, 3), (50, 1, 1, 3)]))
    with pytest.raises(ConfigError, match="no machine is lost in the market calm"):
        Window("calm", 1.0, 0).timeline(still, 1.0, 10.0)


def test_a_trace_that_is_another_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p3-trace.csv").write_text(TRACE)
    with pytest.raises(ConfigError, match="is not the trace of bamboo-p3"):
        market("bamboo-p3", tmp_path)
    with pytest.raises(ConfigError, match=r"has no traces/g4dn-trace\.csv"):
        market("bamboo-g4dn", tmp_path)
    with pytest.raises(ConfigError, match="there are bamboo-p3"):
        market("bamboo", tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("twice.csv", "0,add,a\n5000,remove,a\n6000,remove,a\n", "line 3: a is not there"),
        ("negative.txt", "2021-12-10, 13:07:45, 3\n2021-12-10, 13:08:45, -1\n", "line 2: '2021-12-10, 13:08:45, -1'"),
        ("empty.csv", "", "is no capacity profile"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        market(str(tmp_path / name))


def test_a_machine_that_is_up_or_down_is_so_in_its_windows(tmp_path: Path) -> None:
    """A series of ticks of 10 s, as SkyPilot's: up for 30 s, down for 20, up for 20, down for 10."""
    (tmp_path / "series.json").write_text('{"metadata": {"gap_seconds": 10}, "data": [1, 1, 1, 0, 0, 1, 1, 0]}')
    trace = market(str(tmp_path / "series.json")).trace
    assert trace.mean_life == 25.0
    ups = list(takewhile(lambda up: up.begin < 400.0, trace.ups(random.Random(3))))
    assert {round(b.begin - a.end, 6) for a, b in pairwise(ups)} == {10.0, 20.0}
    assert {round(up.end - up.begin, 6) for up in ups[1:]} == {20.0, 30.0}


# --- real processes ------------------------------------------------------------------------------------------


def driven(tmp_path: Path, ups: list[Up], limit: float, *arguments: str, **more: Any) -> Report:
    command = [sys.executable, "-S", str(FAKE), *arguments]
    return report(order(ups, limit, command=command, durable=str(tmp_path), **more))


def whats(found: Report) -> list[str]:
    return [event.what for event in found.events]


def test_a_loss_ends_all_processes_of_an_engine_and_all_of_them_count(tmp_path: Path) -> None:
    """Each life leaves a process in a session of its own, which used 0.4 s of the processor."""
    found = driven(tmp_path, [Up(0.0, math.inf)], 60.0, "--mode=orphans")
    assert whats(found)[-2:] == ["ended", "gone"] and found.cpu > 0.4
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "orphan").read_text()), 0)


def test_the_durable_folder_is_measured_at_its_most_and_at_the_end(tmp_path: Path) -> None:
    durable = Durable(tmp_path)
    for kilobytes in (2, 5, 3):
        (tmp_path / "kept").write_bytes(bytes(kilobytes * 1000))
        durable.measure()
    assert (durable.largest, durable.last) == (5000, 3000)


def test_a_record_of_an_earlier_version_says_what_was_not_measured() -> None:
    key = RunKey("duckdb", "long", "q1", NONE, 0.0, 0)
    events = [Event(0.0, "started"), Event(0.5, "ready"), Event(2.0, "done", "q1"), Event(2.0, "ended")]
    now = Run(key, 2.0, events, 1.0, 0.0, 7_000_000, {"q1": None}, 1, 5_000_000).json()
    earlier = {name: value for name, value in now.items() if name != "durable_end"}
    for value, shown in ((now, 5.0), (earlier, "not measured")):
        calm, lost = Run.of(value), Run.of({**value, "key": asdict(key) | {"market": "m", "pressure": 1.0}})
        assert [_cells(row)[-4:-1] for row in Summary([calm, lost]).rows()] == [(2.0, 7.0, shown)] * 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--mode=noise"], "'loading …', which is no JSON object"),
        (["--mode=dies"], "it ended by itself: out of luck"),
        (["--mode=silent"], "it is not ready within 0.2 s"),
    ],
)
def test_an_adapter_that_fails_is_named_with_its_fault(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    patience = 0.2 if "--mode=silent" in arguments else 60.0
    found = driven(tmp_path, [Up(0.0, math.inf)], 60.0, *arguments, patience=patience)
    assert found.events[-1].what == "broken" and complaint in found.events[-1].detail


def test_the_driver_imports_no_engine_and_no_session() -> None:
    code = (
        "import sys, qoop.tpcds.spot.driver; "
        "print([m for m in ('duckdb', 'pyarrow', 'sqlglot', 'qoop.session', 'qoop.engine') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_processes_end_with_the_one_that_started_the_driver(tmp_path: Path) -> None:
    command = [sys.executable, "-S", str(FAKE), "--mode=orphans", "--work=600"]
    value = order([Up(0.0, math.inf)], 600.0, command=command, durable=str(tmp_path)).json()
    code = (
        "import json, sys; from qoop.tpcds.spot.course import Order; from qoop.tpcds.spot.driving import report; "
        "report(Order.of(json.loads(sys.argv[1])))"
    )
    file = tmp_path / "orphan"
    with subprocess.Popen([sys.executable, "-c", code, json.dumps(value)]) as process:
        until((tmp_path / "working").exists)
        process.kill()
    orphan = Path(f"/proc/{file.read_text()}/stat")
    until(lambda: not orphan.exists() or orphan.read_text().rpartition(")")[2].split()[0] == "Z")


def needs_control_groups() -> None:
    reason = refused()
    if reason:
        pytest.skip(reason)


def test_an_engine_that_needs_more_than_the_memory_that_is_left_is_killed_and_starts_again(tmp_path: Path) -> None:
    needs_control_groups()
    sizes = (Size(0.0, 1, 400 << 20), Size(0.6, 1, 100 << 20))
    found = driven(tmp_path, [Up(0.0, math.inf)], 60.0, "--mode=hoards", "--work=1", sizes=sizes)
    assert whats(found)[-8:] == ["killed", "gone", "started", "ready", "sent", "done", "ended", "gone"]
    assert [event.detail for event in found.events if event.what == "resized"] == [f"1 {100 << 20}"]
    assert measures.losses(found.events) == 1 and not list(Path("/sys/fs/cgroup").glob("**/qoop-spot-*"))


def test_the_cpus_of_a_machine_are_those_of_its_size(tmp_path: Path) -> None:
    needs_control_groups()
    sizes = [Size(0.4 * number, 1 + number % 2, 400 << 20) for number in range(150)]  # whenever the engine is ready
    found = driven(tmp_path, [Up(0.0, math.inf)], 60.0, "--work=1.2", cpus=2, sizes=tuple(sizes))
    assert set(json.loads((tmp_path / "cpus").read_text())) == {1, 2}
    assert set(measures.until_busy(found.events)) == {None}  # it sleeps


def test_the_processor_seconds_of_a_process_are_those_of_its_ended_children_too() -> None:
    subprocess.run([sys.executable, "-S", "-c", "while __import__('time').process_time() < 0.3: pass"], check=True)
    used = os.times()
    found = sum(_ticks(os.getpid())) / os.sysconf("SC_CLK_TCK")
    assert used.children_user > 0.2 and found == pytest.approx(sum(used[:4]), abs=0.1)


@pytest.mark.slow
def test_real_processes_take_the_known_time_and_kills_are_prompt(tmp_path: Path) -> None:
    """Restart from nothing, 40 windows at pressure 1. Their theory is the virtual world with an engine that starts
    and works as long as the real one did: a busy system has it sleep longer.

    A run whose kills other programs delayed misses a gate, and does not count; most runs hold the gates.
    """
    pairs = []
    for number in range(40):
        ups = list(Window("exponential", 1.0, number).timeline(Exponential(), 1.0, 10.0))
        found = driven(tmp_path, ups, 10.0, "--work=0.95")
        lives = measures.lives(found.events)
        starts = [life.ready - life.start for life in lives if life.ready is not None]
        if holds_the_gates(found.events):
            worked = [done - life.ready for life in lives if life.ready is not None for done in life.done]
            world = VirtualWorld(0.0, *(worked or [0.95]), starts=starts)
            pairs.append((measures.finish(found.events), measures.finish(played(world, iter(ups), 10.0))))
    assert len(pairs) >= 20
    real, virtual = zip(*pairs, strict=True)
    assert close(fmean(real), fmean(virtual))


def holds_the_gates(events: Sequence[Event]) -> bool:
    return measures.lateness(events) < KILL_SECONDS and measures.survival(events) < GONE_SECONDS
