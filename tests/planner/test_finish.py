"""The completion time estimate: small DAGs by hand, bounds of list scheduling on random ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qoop.planner.estimate.cost import SPILL_BYTE, CostModel, slowest
from qoop.planner.finish import ROUNDS, Done, Finish, finish_time
from qoop.planner.packing import Available, Packer, best_fit
from qoop.planner.plan import STORE_PER_KERNEL, Estimate, Layout, Plan, Resources, Stage, StageInput

OVERHEAD = CostModel().task_overhead_seconds
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


def test_how_far_a_plan_is_after_a_while() -> None:
    finish = Finish(CHAIN)
    assert finish.after(share(2), 0.5).parts == {"a": 0, "b": 0}
    assert finish.after(share(2), 1.01).parts == {"a": 2, "b": 0}
    assert finish.after(share(2), 2.5).parts == {"a": 4, "b": 0}
    assert finish.after(share(1), 7.01).parts == {"a": 4, "b": 1}
    assert finish.after(share(2), 99.0).parts == {"a": 4, "b": 2}
    assert finish.after(share(0), 1.0).parts == {}
    half = finish.after(share(2), 1.01)
    assert finish.after(share(2), 1.01, half).parts == {"a": 4, "b": 0}
    assert finish.after(share(0), 1.0, half).parts == half.parts


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
    serial = CostModel().serial_part
    assert finish_time(found, Done(), share(4)) == pytest.approx(4 * serial + 1 - serial, rel=0.01)
    assert finish_time(found, Done(), share(2)) == pytest.approx(4 * serial + 2 - 2 * serial, rel=0.01)
    alike = Finish(found, cost=CostModel(serial_part=0.0))
    assert alike.seconds(share(4)) == pytest.approx(1, rel=0.01)


def test_seconds_of_one_thread_hold_whatever_the_threads() -> None:
    found = Finish(plan(stage("a", seconds=4.0, slots=4), stage("root", "a", width=3)))
    assert found.thread_seconds() == pytest.approx({"a": 4.0, "root": 3.0}, rel=0.01)


def test_the_constants_are_those_given() -> None:
    slow = CostModel(task_overhead_seconds=1.0 + OVERHEAD, exchange_byte=1e-6, output_byte=3e-6)
    big = Stage("a", "", (), INT, 1, "a", estimate=Estimate(1, 1e6, 1.0, 1.0))
    found = plan(big, stage("root", "a"))
    usual, dear, available = Finish(found), Finish(found, cost=slow), share(1, 1e9)
    assert dear.seconds(available) == pytest.approx(
        usual.seconds(available) + 2 + 1e6 * (1e-6 - CostModel().exchange_byte) + 1e6 * (3e-6 - CostModel().output_byte)
    )
    assert dear.at_least(available) == pytest.approx(dear.seconds(available))
    assert dear.work() == pytest.approx(dear.seconds(available))


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


def test_outputs_beyond_the_memory_for_them_are_spilled() -> None:
    stages = [Stage(name, "", (), INT, 2, name, estimate=Estimate(1, 1e9, 1.0, 1.0)) for name in "ab"]
    found = plan(*stages, stage("root", "a b"))
    enough, half = share(1, 2e9 / STORE_PER_KERNEL), share(1, 1e9 / STORE_PER_KERNEL)
    assert finish_time(found, Done(), half) == pytest.approx(finish_time(found, Done(), enough) + 1e9 * SPILL_BYTE)


@st.composite
def plans(draw: st.DrawFn, most: int = 40, forward: bool = False) -> Plan:
    """Up to six stages of up to `most` tasks, each reading some of those before; forward: some part by part."""
    stages: list[Stage] = []
    for number in range(draw(st.integers(1, 6))):
        read = sorted(draw(st.sets(st.sampled_from([one.id for one in stages])))) if stages else []
        seconds, width = draw(st.sampled_from([0.1, 1.0, 2.5])), draw(st.integers(1, most))
        if read and forward and draw(st.booleans()):
            width = next(one.width for one in stages if one.id == read[0])
            read[0] = ">" + read[0]
        reads = " ".join(read)
        stages.append(stage(f"s{number}", reads, width, seconds, memory=float(draw(st.integers(1, 300)))))
    last = stage("root", " ".join(one.id for one in stages))
    return plan(*stages, last)


@given(plans(most=7, forward=True), st.integers(1, 5), st.integers(300, 900))
def test_few_tasks_are_scheduled_as_if_one_by_one(found: Plan, slots: int, memory: int) -> None:
    assert Finish(found).seconds(share(slots, memory)) == pytest.approx(_scheduled(found, share(slots, memory)))


def _scheduled(found: Plan, capacity: Resources) -> float:
    """List scheduling, a task at a time, by the function that the scheduler asks."""
    tails: dict[str, float] = {}
    for one in reversed(found.stages):
        readers = (other.id for other in found.stages if one.id in {item.stage for item in other.stage_inputs})
        tails[one.id] = one.estimate.task_seconds + max((tails[reader] for reader in readers), default=0.0)
    ordered = sorted(found.stages, key=lambda one: -tails[one.id])
    started, ended = dict.fromkeys(tails, 0), dict.fromkeys(tails, 0)
    running: list[tuple[float, Stage]] = []
    now, free = 0.0, capacity
    while ended[found.root.id] < found.root.width:
        ready = [one for one in ordered if started[one.id] < min(one.width, _parts_ready(one, found, ended))]
        demands = [Resources(one.slots, one.estimate.task_memory) for one in ready]
        fitting = best_fit(demands, [Available(capacity, free)])
        if fitting is not None:
            one = ready[fitting[0]]
            started[one.id] += 1
            free = free - demands[fitting[0]]
            running.append((now + one.estimate.task_seconds / one.slots + OVERHEAD, one))
        else:
            running.sort(key=lambda item: item[0])
            now = running[0][0]
            while running and running[0][0] <= now + 1e-12:
                _, one = running.pop(0)
                ended[one.id] += 1
                free = free + Resources(one.slots, one.estimate.task_memory)
    return now


def _parts_ready(one: Stage, found: Plan, ended: dict[str, int]) -> int:
    """The number of tasks of the stage whose inputs are all there."""
    ready = one.width
    for item in one.stage_inputs:
        done, width = ended[item.stage], found.by_id[item.stage].width
        if done < width:
            ready = min(ready, done if item.mode == "forward" else 0)
    return ready


def test_many_tasks_wait_in_turn_for_the_network() -> None:
    big = Stage("a", "", (), INT, 1, "a", estimate=Estimate(1, 6e6, 1.0, 1.0))
    for width in (4, 40):  # of 4 slots on 2 machines; every machine reads half of what is not its own
        found = plan(big, stage("b", "a", width=width, seconds=0.01), stage("root", "b", seconds=0.01))
        slow = Finish(found, machine=2).seconds(Resources(4, 1000, network=2e6))
        fast = Finish(found, machine=2).seconds(Resources(4, 1000))
        assert slow - fast == pytest.approx(3.0)


def two_exchanges() -> Plan:
    """Two stages that can run at a time, each of which reads 4 MB by partition in two tasks of 1 s."""
    halves = Layout(("c",), 2)
    stages = [Stage(name, "", (), INT, 1, name, halves, estimate=Estimate(1, 4e6, 0.0, 1.0)) for name in "ab"]
    for name, source in ("ca", "db"):
        inputs = (StageInput("i", source, "partition"),)
        stages.append(Stage(name, "", inputs, INT, 2, name, estimate=Estimate(1, 0, 1.0, 1.0)))
    return plan(*stages, stage("root", "c d", seconds=0.5))


SLOW, ENOUGH = Resources(4, 1000, network=2e6), Resources(4, 1000)


def test_stages_that_run_at_a_time_share_the_links() -> None:
    found = Finish(two_exchanges(), machine=2)
    apart, both = Done({"a": 1, "b": 1, "d": 2}), Done({"a": 1, "b": 1})
    waits = [found.seconds(SLOW, done) - found.seconds(ENOUGH, done) for done in (apart, both)]
    assert waits == pytest.approx([1.0, 2.0]), "half of 4 MB each, over two links of 1 MB a second"
    assert found.at_least(SLOW) <= found.seconds(SLOW)


def test_of_a_transfer_that_is_under_way_the_rest_is_still_to_come() -> None:
    found = Finish(two_exchanges(), machine=2)
    alone = [found.seconds(SLOW, Done({"a": 1, "b": 1, "d": 2}, {"c": (spent, spent)})) for spent in (0.0, 0.5, 1.5)]
    assert [alone[0] - one for one in alone] == pytest.approx([0.0, 0.5, 1.5])
    both = found.seconds(SLOW, Done({"a": 1, "b": 1}, {"c": (0.5, 0.5)}))
    assert both == pytest.approx(alone[0] + 0.5), "1 MB of c and 2 MB of d are still to come"


def test_on_several_machines_the_slowest_task_and_the_busiest_link_decide() -> None:
    found, unlike = plan(stage("a", width=4, seconds=2.0), stage("root", "a", seconds=1.0)), CostModel(spread=0.2)
    even, apart = (Finish(found, 2, cost).seconds(share(4)) for cost in (CostModel(), unlike))
    assert apart - even == pytest.approx((slowest(4, 0.2) - 1.0) * 2.0)
    assert Finish(found, cost=unlike).seconds(share(4)) == even, "one machine is as it was measured"
    exchanges = [Finish(two_exchanges(), 2, CostModel(uneven=uneven)) for uneven in (0.0, 0.3)]
    once, more = (one.seconds(SLOW) - one.seconds(ENOUGH) for one in exchanges)
    assert more == pytest.approx(slowest(2, 0.3) * once)


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


def test_what_runs_when_the_share_changes_goes_on() -> None:
    """Four tasks of 1 s, then two of 3 s."""
    finish = Finish(CHAIN)
    assert finish.through([(0.0, share(1)), (0.5, share(4))]) == pytest.approx(0.5 + 1.0 + 3.0)
    assert finish.through([(0.0, share(4)), (0.5, share(1))]) == pytest.approx(0.5 + 0.5 + 3.0 + 6.0)
    assert finish.through([(0.0, share(2)), (3.5, share(1)), (4.0, share(2))]) == pytest.approx(4.0 + 3.0)
    assert finish.through([(0.0, share(4)), (99.0, share(1))]) == pytest.approx(4.0)
    assert finish.through([(0.0, share(0)), (5.0, share(4))]) == pytest.approx(9.0)
    assert finish.through([(0.0, share(4)), (0.5, share(0))]) == float("inf")


def test_what_is_overdue_is_so_after_a_change_as_well() -> None:
    """Estimated at 4 s it has run for 100 s, so 48 s are left, whatever becomes of the share."""
    late = Finish(plan(stage("a", seconds=4.0)))
    done = Done({}, {"a": (100.0,)})
    assert late.seconds(share(1), done) == pytest.approx(48.0)
    assert late.through([(0.0, share(1)), (5.0, share(8))], done) == pytest.approx(48.0)


def test_a_task_that_keeps_its_slots_does_not_become_faster() -> None:
    whole = Finish(plan(stage("a", seconds=80.0, slots=8)))
    done = Done({}, {"a": (60.0,)}, {"a": 1.0})
    assert whole.seconds(share(8), done) == pytest.approx(20.0)
    assert whole.through([(0.0, share(8)), (10.0, share(16))], done) == pytest.approx(20.0)
    assert whole.through([(0.0, share(1)), (40.0, share(8))]) < 80.0


def test_what_has_come_over_the_network_does_not_come_again() -> None:
    big = Stage("a", "", (), INT, 4, "a", estimate=Estimate(4, 4e6, 1.0, 1.0))
    found = Finish(plan(big, stage("root", "a", seconds=3.0)), machine=2)
    apart = Resources(4, 1000, network=1e6)
    waited = found.seconds(apart) - 4.0
    assert waited > 0.5
    half = found.through([(0.0, apart), (found.seconds(apart) - 1.5, replace(apart))])
    assert half == pytest.approx(found.seconds(apart), rel=0.01)


@given(plans(most=5), st.integers(1, 12), st.floats(0.1, 50.0))
def test_a_share_that_becomes_what_it_is_changes_nothing(found: Plan, slots: int, at: float) -> None:
    """With few tasks no slot does several in a row, which a change would divide again."""
    finish, narrow = Finish(found), share(slots, 0.0)
    if all(one.width <= ROUNDS * 2 * finish.on(narrow)[1].at_a_time[i] for i, one in enumerate(found.stages)):
        assert finish.through([(0.0, narrow), (at, replace(narrow))]) == pytest.approx(finish.seconds(narrow))


@given(plans(), st.integers(1, 12), st.integers(1, 12), st.floats(0.1, 50.0))
def test_slots_that_come_are_of_use(found: Plan, slots: int, more: int, at: float) -> None:
    """Graham's bound, as where they are there from the start."""
    finish = Finish(found)
    course = [(0.0, share(slots, 0.0)), (at, share(slots + more, 0.0))]
    assert finish.through(course) <= 2.0 * finish.seconds(share(slots, 0.0))
    assert finish.through(course) >= finish.at_least(share(slots + more, 0.0)) * (1 - 1e-9)


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
@example([(3, 10, 3), (1, 28, 3)], 10, 100)  # after one of the first kind the other is better
@example([(4, 10, 2), (1, 30, 2)], 10, 100)  # after one they tie
@example([(1, 30, 2), (4, 10, 2)], 10, 100)
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
        found = best_fit([demands[i] for i in left], [Available(capacity, free)])
        if found is None:
            return order
        chosen = left[found[0]]
        order.append(chosen)
        most[chosen] -= 1
        free = free - demands[chosen]


def _in_runs(demands: list[Resources], most: list[int], capacity: Resources) -> list[int]:
    packer = Packer(capacity.cpu, capacity.memory, [d.cpu for d in demands], [d.memory for d in demands])
    free, order, most = capacity, [], list(most)
    while True:
        offered = [(i, most[i]) for i in range(len(demands)) if most[i]]
        found = packer.next(offered, free.cpu, free.memory)
        if found is None:
            return order
        chosen, times = offered[found[0]][0], found[1]
        order += [chosen] * times
        most[chosen] -= times
        free = free - Resources(demands[chosen].cpu * times, demands[chosen].memory * times)
