"""Judgements of when a session uses more or less of its machine: sequences of readings in, sizes out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from qoop.adaptive.monitor.available import Size
from qoop.adaptive.monitor.judging import Judge, cpus_there
from qoop.adaptive.monitor.reading import Pool, Reading, Throttle, tightest

GB = 10**9
FULL, LEAST = Size(4, 8 * GB), Size(1, GB // 4)


def reading(
    at: float, others: float = 0.0, taken: float = 0.0, limit: float = 16 * GB, squeezed: bool = False
) -> Reading:
    return Reading(at, (Pool(4, others),), (Pool(16 * GB, taken), Pool(limit, 0, group=True)), squeezed)


def judges(readings: Sequence[Reading], full: Size = FULL) -> list[Judge]:
    found = [Judge.of(full, LEAST, 4)]
    for one in readings:
        found.append(found[-1].after(one))
    return found


def sizes(readings: Sequence[Reading], full: Size = FULL) -> list[Size]:
    return [judge.now for judge in judges(readings, full)]


readings = st.lists(
    st.tuples(st.floats(0.01, 3.0), st.floats(0, 6), st.floats(0, 16 * GB), st.floats(GB / 10, 20 * GB), st.booleans()),
    max_size=40,
).map(lambda rows: [reading(sum(row[0] for row in rows[: place + 1]), *row[1:]) for place, row in enumerate(rows)])


@settings(deadline=None)
@given(readings)
def test_never_more_than_was_asked_for_and_never_less_than_keeps_a_query_alive(seen: list[Reading]) -> None:
    for size in sizes(seen):
        assert LEAST.slots <= size.slots <= FULL.slots and LEAST.memory <= size.memory <= FULL.memory


@settings(deadline=None)
@given(readings)
def test_what_changes_was_called_for_by_every_reading_for_a_time(seen: list[Reading]) -> None:
    found = sizes(seen)
    for place, (before, after) in enumerate(pairwise(found)):
        now = seen[place].at
        if after.slots == before.slots:
            continue
        less = after.slots < before.slots
        lately = [one for one in seen[: place + 1] if one.at > now - (2.0 if less else 5.0)]
        assert now - seen[0].at >= (2.0 if less else 5.0) - 1e-6
        left = [tightest(one.cpus).left for one in lately]
        if less:
            assert max(left) < before.slots - 0.65 + 1e-6
        else:
            assert min(left) >= after.slots - 0.35 - 1e-6


@settings(deadline=None)
@given(st.lists(st.floats(-0.6, 0.3), max_size=50), st.integers(1, 3))
def test_small_wobbles_change_nothing(wobbles: list[float], others: int) -> None:
    steady = [reading(place * 0.5, others) for place in range(20)]
    begin = sizes(steady)[-1]
    assert begin.slots == 4 - others
    wobbling = [reading(10 + place * 0.5, others + min(0.6, wobble)) for place, wobble in enumerate(wobbles)]
    assert {size.slots for size in sizes([*steady, *wobbling])[20:]} == {begin.slots}


@settings(deadline=None)
@given(readings, st.floats(0, 4), st.floats(0, 16 * GB))
def test_a_machine_that_stays_as_it_is_is_settled_with(seen: list[Reading], others: float, taken: float) -> None:
    since = seen[-1].at if seen else 0.0
    found = sizes([*seen, *(reading(since + 0.5 * n, others, taken) for n in range(1, 40))])
    assert len(set(found[-20:])) == 1
    assert found[-1].slots >= max(1, min(4, 4 - others - 1)) and found[-1].slots <= max(1, 4.65 - others)


def test_two_slots_of_which_another_program_takes_one_and_gives_it_back() -> None:
    seen = [Reading(n * 0.5, (Pool(2, 1.1 if 4 <= n < 20 else 0.0),), (Pool(16 * GB),)) for n in range(40)]
    found = judges(seen, Size(2, 8 * GB))
    changes = [(one.readings[-1].at, change) for before, one in pairwise(found) if (change := before.change_to(one))]
    assert [(at, change.slots, change.memory) for at, change in changes] == [(4.0, 1, None), (15.0, 2, None)]
    assert changes[0][1].why == "other programs take 1.1 of 2 cpus: 1 slot"
    assert changes[1][1].why == "the cpus are free again"


def test_a_group_that_takes_memory_away_is_obeyed_at_once_and_its_cpus_after_a_time() -> None:
    calm = [reading(n * 0.5) for n in range(10)]
    less = Reading(5.0, (Pool(4), Pool(1.5, 0.0, group=True)), (Pool(16 * GB), Pool(4 * GB, 0.0, group=True)))
    before, after = judges([*calm, less])[-2:]
    assert after.now == Size(4, int(0.8 * 4 * GB))
    change = before.change_to(after)
    assert change is not None and change.why.startswith("the control group allows 4 GB of memory: 3.2 GB")
    assert judges([*calm, *(Reading(5 + n, less.cpus, less.memory) for n in range(4))])[-1].now.slots == 2


def test_a_session_that_stays_slowed_down_says_so_once_and_what_to_do() -> None:
    """A group that was above its limit for less time than a reaction takes needs no word."""
    high = [Reading(5.0 + n, (Pool(4),), (Pool(16 * GB),), throttle=Throttle(GB, 1.2 * GB + n)) for n in range(6)]
    seen = [*(reading(n) for n in range(5)), high[0], *(reading(6 + n) for n in range(5))]
    assert not any(judge.throttle_why for judge in judges(seen))
    found = judges([*(reading(n) for n in range(5)), *high, reading(11)])
    changes = [(one.readings[-1].at, change) for before, one in pairwise(found) if (change := before.change_to(one))]
    assert [(at, change.slots, change.memory) for at, change in changes] == [(7.0, None, found[-1].now.memory)]
    assert changes[0][1].why == (
        "the kernel slows this process down: its control group uses 1.2 GB of memory, and memory.high is 1 GB;"
        " raise memory.high, or end other programs of the group"
    )
    assert found[-2].throttle_why == changes[0][1].why and not found[-1].throttle_why


def test_a_limit_that_falls_below_the_memory_in_use_is_said_with_what_to_do_at_once() -> None:
    """Later readings may take minutes."""
    group = Pool(GB, 0.0, group=True)
    found = judges([*(reading(n) for n in range(5)), Reading(5, (Pool(4),), (group,), throttle=Throttle(GB, 1.2 * GB))])
    change = found[-2].change_to(found[-1])
    assert change is not None and change.memory == found[-1].now.memory < GB
    assert change.why.startswith("the control group allows 1 GB of memory: 739 MB; the kernel slows this process down")


def test_memory_that_others_take_is_given_up_and_taken_back_but_not_while_programs_wait_for_it() -> None:
    taken = [reading(n, taken=12 * GB) for n in range(5)]
    assert sizes(taken)[-1].memory == int(0.9 * 4 * GB)
    waiting = [*taken, *(reading(5 + n, squeezed=True) for n in range(10))]
    assert sizes(waiting)[-1].memory == int(0.9 * 4 * GB)
    assert sizes([*waiting, *(reading(15 + n) for n in range(7))])[-1].memory == FULL.memory


def test_who_wants_more_slots_than_there_are_cpus_keeps_as_many_a_cpu() -> None:
    judge = Judge.of(Size(8, GB), LEAST, cpus_there(reading(0)))
    for n in range(10):
        judge = judge.after(reading(n, others=2.0))
    assert judge.now.slots == 4


def test_who_wants_less_than_all_is_left_alone_until_the_rest_is_gone() -> None:
    judge = Judge.of(Size(2, GB), LEAST, 4)
    for n in range(10):
        judge = judge.after(reading(n, others=2.2))
    assert judge.now.slots == 2
    for n in range(10, 20):
        judge = judge.after(reading(n))
    assert judge.now == Size(2, GB)  # however much is free


def test_a_group_that_gives_more_than_the_session_was_opened_with_is_followed() -> None:
    opened, most = Size(1, GB // 2), Size(4, 8 * GB)
    judge = Judge.of(opened, LEAST, 1, most)
    assert judge.now == opened
    for n in range(12):
        judge = judge.after(reading(n, limit=4 * GB))
    assert judge.now == Size(4, int(0.8 * 4 * GB))
