"""Child processes that run calls within limits: what they answer, how they fail, and that none outlives its end."""

from __future__ import annotations

import itertools
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from waits import PATIENCE, until

from qoop.catalog import opening
from qoop.catalog.errors import Cancelled, ExecutionError, OutOfMemory, ProcessEnded, QueryError, SessionClosed
from qoop.catalog.priority import BEHIND, go_behind, keep_starter
from qoop.engine.memory import ProcessFiles, anonymous_memory
from qoop.engine.processes.child import Reply
from qoop.engine.processes.isolated_task import CODEC, IsolatedTask
from qoop.engine.processes.pool import _MOST, ProcessPool
from qoop.engine.processes.process import Limits
from qoop.planner.sql.bind import BinderContents
from qoop.query.isolation import isolated_texts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are limited on Linux alone")
ROOMY = Limits(256 << 20)
RISE = 600 << 20  # bytes


def doubled(reply: Reply, number: int) -> int:
    reply.send(b"x" * number)
    return 2 * number


def own_niceness(reply: Reply) -> int:
    return os.nice(0)


def own_threads(reply: Reply) -> int:
    return len(os.listdir("/proc/self/task"))


def drawn(reply: Reply) -> list[float]:
    ahead = len(opening._inherited)
    with opening.open_duckdb(threads=1) as connection:
        [(number,)] = connection.execute("SELECT random()").fetchall()
    return [ahead - len(opening._inherited), number]


def readers_made(reply: Reply) -> list[bool]:
    """True for the reader of a task, and that of what a binder knows, if a first call need not make it."""
    return [IsolatedTask in CODEC._pairs, BinderContents in isolated_texts.CODEC._pairs]


def own_id(reply: Reply) -> int:
    return os.getpid()


def refused(reply: Reply) -> None:
    raise QueryError("not this")


def strange(reply: Reply) -> None:
    raise LookupError("of a class that is not ours")


def allocates(reply: Reply, size: int) -> int:
    return len(bytearray(size))


def sleeps(reply: Reply) -> None:
    time.sleep(120)


def dies(reply: Reply) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def holds(reply: Reply, size: int) -> None:
    held = bytearray(size)
    time.sleep(120)
    del held


def niceness(reply: Reply, most: float) -> list[int]:
    """That of all threads, once all have another one. most: seconds that this may take."""
    other, ended = threading.Event(), time.monotonic() + most
    thread = threading.Thread(target=other.wait)
    thread.start()
    before = os.getpriority(os.PRIO_PROCESS, 0)
    while True:
        found = [os.getpriority(os.PRIO_PROCESS, int(one)) for one in os.listdir("/proc/self/task")]
        if before not in found or time.monotonic() >= ended:
            other.set()
            thread.join()
            return found


def listens(reply: Reply) -> list[int]:
    """The messages that came, until one is 0."""
    seen: list[int] = []
    ended = threading.Event()

    def answer(message: int) -> int:
        seen.append(message)
        if not message:
            ended.set()
        return 2 * message

    with reply.answers(answer):
        ended.wait()
    return seen


def has_more(reply: Reply, added: int) -> int:
    """Allocates more than its limit allows at first."""
    held = b"1" * 10
    with suppress(MemoryError):
        held = b"1" * added
    assert len(held) == 10, "the limit does not hold"
    reply.send(b"more")
    reply.allow(added)
    return len(b"1" * added)


def preference(reply: Reply) -> str:
    return Path("/proc/self/oom_score_adj").read_text()


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    pool = ProcessPool()
    pool.preload(__name__)
    yield pool
    pool.close()


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    """Children find this module by its name."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), *sys.path]))
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_a_call_has_a_result_and_bytes(pool: ProcessPool) -> None:
    received = bytearray()
    with pool.process() as process:
        assert process.call(doubled, [21], ROOMY, received.extend) == 42
    assert received == b"x" * 21


def test_a_process_serves_one_call_after_the_other(pool: ProcessPool) -> None:
    with pool.process() as process:
        first = process.call(own_id, [], ROOMY)
        assert process.call(own_id, [], ROOMY) == first != os.getpid()


def test_errors_of_ours_keep_their_class_and_others_tell_it(pool: ProcessPool) -> None:
    with pool.process() as process:
        with pytest.raises(QueryError, match="not this"):
            process.call(refused, [], ROOMY)
        with pytest.raises(ExecutionError, match="LookupError: of a class that is not ours"):
            process.call(strange, [], ROOMY)
        assert process.fit


def test_an_interrupted_call_ends_though_its_check_would_not_end_it(pool: ProcessPool) -> None:
    with pool.process() as process:
        first = process.call(own_id, [], ROOMY)
        interrupting = threading.Thread(target=process.interrupt)
        with pytest.raises(ProcessEnded) as caught:
            interrupting.start()
            process.call(sleeps, [], ROOMY)
        interrupting.join()
        assert caught.value.was_killed and not process.fit
        until(lambda: not is_alive(first))
    with pool.process() as process:
        assert process.call(doubled, [1], ROOMY) == 2


def test_an_allocation_beyond_the_limit_fails_and_the_process_goes_on(pool: ProcessPool) -> None:
    with pool.process() as process:
        with pytest.raises(MemoryError):
            process.call(allocates, [1 << 30], ROOMY)
        assert process.call(doubled, [1], ROOMY) == 2


def test_a_check_that_raises_ends_the_process_at_once(pool: ProcessPool) -> None:
    begun = time.monotonic()

    def check() -> None:
        if time.monotonic() - begun > 0.1:
            raise Cancelled("enough")

    with pool.process() as process:
        child = process.call(own_id, [], ROOMY)
        with pytest.raises(Cancelled, match="enough"):
            process.call(sleeps, [], Limits(ROOMY.memory, check))
        assert not process.fit
    until(lambda: not is_alive(child))
    assert time.monotonic() - begun < 60


def test_a_process_that_dies_costs_its_own_call_alone(pool: ProcessPool) -> None:
    with pool.process() as process, pytest.raises(ExecutionError, match="the process of the query has ended"):
        process.call(dies, [], ROOMY)
    with pool.process() as process:
        assert process.call(doubled, [2], ROOMY) == 4


def test_a_nursery_that_was_killed_gives_way_to_its_standby(pool: ProcessPool) -> None:
    pool.warm()
    with pool.process() as process:
        process.call(own_id, [], ROOMY)
        first, standby = pool._nurseries
        until(lambda: standby.memory())
        first._process.kill()
        first._process.wait()
        with pytest.raises(ProcessEnded) as raised:
            process.call(doubled, [1], ROOMY)
        assert raised.value.was_killed, "its children end with it"
    with pool.process() as process:
        assert process.call(doubled, [2], ROOMY) == 4
    assert pool._nurseries[0] is standby
    assert len(pool._nurseries) == 2


def test_nurseries_that_were_killed_together_give_way_to_a_new_one(pool: ProcessPool) -> None:
    pool.warm()
    before = list(pool._nurseries)
    for nursery in before:
        until(lambda nursery=nursery: nursery.memory())
        os.kill(nursery._id, signal.SIGKILL)
        until(lambda nursery=nursery: not nursery.is_alive())
    until(lambda: not any(process.is_alive() for process in pool._idle))
    with pool.process() as process:
        assert process.call(doubled, [3], ROOMY) == 6
    assert not set(before) & set(pool._nurseries)


def test_a_new_process_opens_no_duckdb_by_itself() -> None:
    """On 2.0 that takes 28 ms and starts eight threads."""
    pool = ProcessPool()
    pool.preload(__name__)
    with closing(pool), pool.process() as process:
        assert process.call(own_threads, [], ROOMY) == 2, "its own, and that which reads"


def test_processes_have_duckdbs_that_were_opened_before_the_fork_with_random_numbers_of_their_own() -> None:
    pool = ProcessPool()
    pool.preload(__name__)
    with closing(pool), pool.process() as one, pool.process() as other:
        found = [process.call(drawn, [], ROOMY) for process in (one, other)]
    assert [taken for taken, _ in found] == [1, 1]
    assert found[0] != found[1]


def test_processes_have_what_first_calls_would_make() -> None:
    with closing(ProcessPool()) as pool:
        pool.preload(isolated_texts.__name__)
        with pool.process() as process:
            assert process.call(readers_made, (), ROOMY) == [True, True]


def test_calls_that_are_not_urgent_have_a_niceness_and_processes_of_their_own() -> None:
    pool = ProcessPool()
    pool.preload(__name__)
    pool.niceness = 3
    with closing(pool):
        with pool.process() as urgent, pool.process(urgent=False) as other:
            assert urgent.call(own_niceness, [], ROOMY) == os.nice(0)
            assert other.call(own_niceness, [], ROOMY) == os.nice(0) + 3
            while not (nice := pool.used().nice_seconds):
                other.call(doubled, [1000], ROOMY)
            while pool.used().seconds <= nice:
                urgent.call(doubled, [1000], ROOMY)
            assert pool.used().nice_seconds == nice
        with pool.process() as one, pool.process(urgent=False) as another:
            assert (one, another) == (urgent, other)


def test_urgent_calls_have_processes_that_have_worked_and_others_leave_them_these() -> None:
    pool = ProcessPool()
    pool.preload(__name__)
    pool.niceness = 3
    with closing(pool):
        with pool.process() as first:
            first.call(doubled, [1], ROOMY)
        pool._idle.append(pool._forked())
        with pool.process() as urgent, pool.process(urgent=False) as other:
            assert urgent is first and not other.id
        with pool.process(urgent=False) as other:
            assert other is not first


def test_processes_that_have_worked_wait_for_the_next_calls_in_place_of_new_ones() -> None:
    pool = ProcessPool()
    pool.preload(__name__)
    with closing(pool):
        for _ in range(2):
            with ExitStack() as calls:
                used = [calls.enter_context(pool.process()) for _ in range(_MOST)]
                assert [one.call(doubled, [n], ROOMY) for n, one in enumerate(used)] == [2 * n for n in range(_MOST)]
                found = {one.id for one in used}
            assert len(pool._idle) == _MOST
        with ExitStack() as calls:
            assert {calls.enter_context(pool.process()).id for _ in range(_MOST)} == found


def test_a_process_over_its_limit_is_killed_where_allocations_do_not_fail(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = itertools.chain([1], itertools.repeat(1 << 40))
    monkeypatch.setattr(ProcessFiles, "memory", lambda _: next(sizes))
    with pool.process() as process, pytest.raises(OutOfMemory, match="needs more than 268 MB"):
        process.call(sleeps, [], ROOMY)


def test_where_all_have_too_much_the_largest_call_gives_way() -> None:
    small, large, trusted = 20 << 20, 150 << 20, 200 << 20
    most = math.inf
    released = []
    pool = ProcessPool(lambda: most, lambda: released.append(pool.size()))
    pool.preload(__name__)
    ended, outcomes = threading.Event(), dict[int, Exception | None]()

    def check() -> None:
        if ended.is_set():
            raise Cancelled("enough")

    def hold(size: int) -> None:
        with pool.process() as process:
            try:
                process.call(holds, [size], Limits(ROOMY.memory, check, gives_way=size <= large))
            except (OutOfMemory, Cancelled) as error:
                outcomes[size] = error

    threads = [threading.Thread(target=hold, args=(size,)) for size in (small, large, trusted)]
    for thread in threads:
        thread.start()
    until(lambda: sorted(one.size // small for one in list(pool._busy)) == [1, large // small, trusted // small])
    most = anonymous_memory() - pool._of_program + large  # less than there is
    until(lambda: large in outcomes)
    assert str(outcomes[large]).startswith("the query has 15"), outcomes
    assert min(released) > large  # what this process has freed is given back first
    most = anonymous_memory() + 2 * large  # there is room now
    ended.set()
    for thread in threads:
        thread.join()
    assert isinstance(outcomes[small], Cancelled)
    pool.close()


def test_the_system_takes_children_first_where_memory_is_short(pool: ProcessPool) -> None:
    with pool.process() as process:
        assert int(process.call(preference, [], ROOMY)) == 1000


def test_a_call_answers_messages_while_it_runs(pool: ProcessPool) -> None:
    answers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    with pool.process() as process:
        process.request(5, answers.put)
        assert answers.get(timeout=0) is None, "no call runs"
        seen: list[list[int]] = []
        thread = threading.Thread(target=lambda: seen.append(process.call(listens, [], ROOMY)))
        thread.start()

        def doubled_message() -> int | None:
            process.request(3, answers.put)
            return answers.get()

        assert until(doubled_message) == 6
        process.request(0, answers.put)
        thread.join()
        assert answers.get() == 0 and set(seen[0]) == {0, 3}
        process.request(5, answers.put)
        assert answers.get(timeout=0) is None, "the call has ended"
        assert process.call(doubled, [4], ROOMY) == 8


def test_nothing_waits_for_the_answer_of_a_call_that_is_killed(pool: ProcessPool) -> None:
    answers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    with pool.process() as process:

        def ends() -> None:
            with pytest.raises(ProcessEnded):
                process.call(sleeps, [], ROOMY)

        thread = threading.Thread(target=ends)
        thread.start()
        until(lambda: process.id)
        for _ in range(3):
            process.request(1, answers.put)
        process.interrupt()
        thread.join()
        assert [answers.get() for _ in range(3)] == [None] * 3


def test_the_limit_of_a_call_rises_while_it_runs(pool: ProcessPool) -> None:
    with pool.process() as process:
        limits = Limits(64 << 20)
        assert process.call(has_more, [RISE], limits, lambda _: process.allow(RISE)) == RISE


def test_a_call_that_computes_for_long_lets_others_go_first(pool: ProcessPool) -> None:
    with pool.process() as process:
        assert (
            process.call(niceness, [0.0], Limits(ROOMY.memory, urgent=0.05)) == [os.getpriority(os.PRIO_PROCESS, 0)] * 3
        )
        assert process.fit
        seen = process.call(niceness, [60.0], Limits(ROOMY.memory, urgent=0.05))
        assert seen == [BEHIND] * 3, "all its threads"
        assert not process.fit, "it stays behind"


def test_processes_that_a_thread_behind_others_has_started_are_not_behind() -> None:
    pool = ProcessPool()
    started: list[int] = []

    def behind() -> None:
        go_behind(threading.get_native_id())
        pool.warm()
        started.append(pool._nurseries[0]._id)

    keep_starter()  # as a server does at its start
    thread = threading.Thread(target=behind)
    thread.start()
    thread.join()
    assert os.getpriority(os.PRIO_PROCESS, started[0]) == os.getpriority(os.PRIO_PROCESS, os.getpid())
    pool.close()
    with pytest.raises(SessionClosed), pool.process():
        pass


def test_close_ends_all_processes_even_while_they_work() -> None:
    pool = ProcessPool()
    pool.preload(__name__)
    children: list[int] = []
    failures: list[Exception] = []

    def work() -> None:
        with pool.process() as process:
            children.append(process.call(own_id, [], ROOMY))
            try:
                process.call(sleeps, [], ROOMY)
            except ExecutionError as error:
                failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: len(children) == 1)
    nurseries = [nursery._id for nursery in pool._nurseries if until(nursery.memory)]
    assert len(nurseries) == 2
    pool.close()
    thread.join(PATIENCE)
    assert len(failures) == 1
    until(lambda: not any(map(is_alive, [children[0], *nurseries])))
