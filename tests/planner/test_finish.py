"""The completion time estimate: small DAGs by hand, bounds of list scheduling on random ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoop.planner.finish import SPILL_BYTE, Done, Finish, finish_time
from qoop.planner.packing import Room, best_fit, best_fit_run
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageInput

OVERHEAD = 0.0015
"""Of every task, by the cost model."""
INT = (("c", "INTEGER"),)


def stage(name: str, reads: str = "", width: int = 1, seconds: float = 1.0, **more: object) -> Stage:
    """A stage whose tasks take `seconds`; it reads the stages named in `reads`, a > before a name for forward."""
    inputs = tuple(
        StageInput(word.strip(">"), word.strip(">"), "forward" if ">" in word else "all") for word in reads.split()
    )
    memory = float(more.pop("memory", 1.0))  # type: ignore[arg-type]
    estimate = Estimate(1, 0, seconds - OVERHEAD, memory)
    return Stage(name, "", inputs, INT, width, name, Layout(), estimate=estimate, **more)  # type: ignore[arg-type]


def plan(*stages: Stage) -> Plan:
    return Plan(stages, INT)


def share(cpu: float, memory: float = 1000.0) -> Resources:
    return Resources(cpu, memory)


CHAIN = plan(stage("a", width=4), stage("b", "a", width=2, seconds=3.0))


@pytest.mark.parametrize(("slots", "seconds"), [(1, 10), (2, 5), (3, 5), (4, 4), (600, 4)])
def test_waves_of_a_chain(slots: int, seconds: float) -> None:
    assert finish_time(CHAIN, Done(), share(slots)) == pytest.approx(seconds)


def test_the_longest_path_goes_first() -> None:
    found = plan(stage("short", seconds=1), stage("long", seconds=1), stage("mid", "long", seconds=5),
                 stage("root", "short mid", seconds=1))  # fmt: skip
    assert finish_time(found, Done(), share(1)) == pytest.approx(8)
    assert finish_time(found, Done(), share(2)) == pytest.approx(7)


def test_a_forward_reader_starts_with_the_first_part() -> None:
    found = plan(stage("a", width=2), stage("b", ">a", width=2), stage("root", "b", seconds=1))
    assert finish_time(found, Done(), share(1)) == pytest.approx(5)
    slow_gather = plan(stage("a", width=3, seconds=2), stage("b", "a", width=3), stage("root", "b"))
    forward = plan(stage("a", width=3, seconds=2), stage("b", ">a", width=3), stage("root", "b"))
    assert finish_time(slow_gather, Done(), share(2)) == pytest.approx(4 + 2 + 1)
    assert finish_time(forward, Done(), share(2)) == pytest.approx(2 + 2 + 1 + 1)


def test_what_is_done_counts_and_what_it_alone_reads_is_not_needed() -> None:
    parts = frozenset({("a", 0), ("a", 1), ("a", 2)})
    assert finish_time(CHAIN, parts, share(1)) == pytest.approx(7)
    assert finish_time(CHAIN, frozenset({("b", 0), ("b", 1)}), share(1)) == 0.0
    assert finish_time(CHAIN, Done({"b": 1}), share(1)) == pytest.approx(7)


def test_what_runs_has_less_left() -> None:
    assert finish_time(CHAIN, Done({"a": 3}, {"a": (0.75,)}), share(1)) == pytest.approx(0.25 + 6)


def test_memory_limits_how_many_run() -> None:
    found = plan(stage("a", width=4, memory=40.0), stage("root", "a"))
    assert finish_time(found, Done(), share(4, 100)) == pytest.approx(2 + 1)
    assert finish_time(found, Done(), share(4, 0)) == pytest.approx(1 + 1)  # a share that says nothing of memory


def test_a_task_larger_than_the_share_runs_alone_and_spills() -> None:
    found = plan(stage("a", width=2, memory=1e9), stage("root", "a"))
    spilling = 2 * 0.5e9 * SPILL_BYTE
    assert finish_time(found, Done(), share(8, 0.5e9)) == pytest.approx(2 + 1 + spilling)


def test_threads_shorten_a_task_as_far_as_the_share_has_them() -> None:
    found = plan(stage("a", seconds=4.0, slots=4))
    assert finish_time(found, Done(), share(4)) == pytest.approx(1, rel=0.01)
    assert finish_time(found, Done(), share(2)) == pytest.approx(2, rel=0.01)


def test_without_a_slot_nothing_ends() -> None:
    assert finish_time(CHAIN, Done(), share(0.5)) == float("inf")


def test_rows_cross_the_network_where_a_share_has_several_machines() -> None:
    big = Stage("a", "", (), INT, 1, "a", estimate=Estimate(1, 1e6, 1.0, 1.0))
    found = Finish(plan(big, stage("root", "a")), machine=2)
    local, apart = found.seconds(Resources(2, 1000, network=1e6)), found.seconds(Resources(4, 1000, network=1e6))
    assert local == pytest.approx(found.seconds(share(2)))
    assert apart == pytest.approx(local + 1.0)  # half of it, over a link with half of the bandwidth


def test_a_broadcast_costs_a_copy_for_each_machine_not_for_each_task() -> None:
    big = Stage("a", "", (), INT, 1, "a", estimate=Estimate(1, 1e6, 1.0, 1.0))
    found = plan(big, stage("b", "a", width=8, seconds=OVERHEAD), stage("root", "b"))
    network = Resources(8, 1000, network=1e6)
    at = {threads: Finish(found, threads).seconds(network) - Finish(found).seconds(network) for threads in (8, 4, 1)}
    assert at == pytest.approx({8: 0.0, 4: 1.0, 1: 7.0})


def test_what_a_task_wants_beyond_what_it_asks_for_is_spilled() -> None:
    estimate = Estimate(1, 0, 1.0, 1e9, 3e9)
    found = plan(Stage("root", "", (), INT, 1, "root", estimate=estimate))
    assert finish_time(found, Done(), share(1, 4e9)) == pytest.approx(1.0 + OVERHEAD + 2e9 * SPILL_BYTE)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Up to six stages of up to forty tasks, each reading some of those before."""
    stages: list[Stage] = []
    for number in range(draw(st.integers(1, 6))):
        reads = " ".join(sorted(draw(st.sets(st.sampled_from([one.id for one in stages]))))) if stages else ""
        seconds, width = draw(st.sampled_from([0.1, 1.0, 2.5])), draw(st.integers(1, 40))
        stages.append(stage(f"s{number}", reads, width, seconds, memory=float(draw(st.integers(1, 300)))))
    last = stage("root", " ".join(one.id for one in stages))
    return plan(*stages, last)


@given(plans(), st.integers(1, 12))
def test_between_what_it_takes_at_least_and_one_task_after_the_other(found: Plan, slots: int) -> None:
    finish = Finish(found)
    seconds = finish.seconds(share(slots))
    assert finish.at_least(share(slots)) <= seconds * (1 + 1e-9)
    assert seconds <= finish.seconds(share(1, 300.0)) * (1 + 1e-9)


@given(plans(), st.integers(1, 12), st.integers(1, 12))
def test_more_slots_are_never_twice_as_slow(found: Plan, slots: int, more: int) -> None:
    """Graham's bound, where memory is no limit."""
    few, many = finish_time(found, Done(), share(slots, 0.0)), finish_time(found, Done(), share(slots + more, 0.0))
    assert many <= 2.0 * few


@given(plans(), st.integers(1, 5))
def test_finished_stages_are_no_hindrance(found: Plan, slots: int) -> None:
    first = found.stages[0]
    left = finish_time(found, Done({first.id: first.width}), share(slots))
    assert left <= 2.0 * finish_time(found, Done(), share(slots))


def test_thousands_of_tasks_take_about_as_long_as_they_would_one_by_one() -> None:
    found = plan(stage("a", width=5000), stage("b", width=3000, seconds=1.5), stage("root", "a b"))
    for slots in (1, 7, 600):
        ideal = 5000 / slots + 4500 / slots + 1
        assert finish_time(found, Done(), share(slots)) == pytest.approx(ideal, rel=0.02, abs=3)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 60), st.integers(1, 9)), min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(10, 400),
)
def test_a_run_is_what_one_choice_after_the_other_would_be(
    tasks: list[tuple[int, int, int]], slots: int, memory: int
) -> None:
    demands = [Resources(cpu, size) for cpu, size, _ in tasks]
    capacity = Resources(slots, memory)
    assert _in_runs(demands, [most for *_, most in tasks], capacity) == _one_by_one(
        demands, [most for *_, most in tasks], capacity
    )


def _one_by_one(demands: list[Resources], most: list[int], capacity: Resources) -> list[int]:
    free, order = capacity, []
    while True:
        left = [i for i in range(len(demands)) if most[i]]
        found = best_fit([demands[i] for i in left], [Room(capacity, free)])
        if found is None:
            return order
        chosen = left[found[0]]
        order.append(chosen)
        most[chosen] -= 1
        free = free - demands[chosen]


def _in_runs(demands: list[Resources], most: list[int], capacity: Resources) -> list[int]:
    free, order, most = capacity, [], list(most)
    while True:
        left = [i for i in range(len(demands)) if most[i]]
        found = best_fit_run([demands[i] for i in left], Room(capacity, free), [most[i] for i in left])
        if found is None:
            return order
        chosen, times = left[found[0]], found[1]
        order += [chosen] * times
        most[chosen] -= times
        free = free - Resources(demands[chosen].cpu * times, demands[chosen].memory * times)
