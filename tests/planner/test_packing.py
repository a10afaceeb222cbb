"""Packing: alignment, what fits, ties, and demands that fit nowhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qoop.planner.packing import Available, alignment, best_fit, cap
from qoop.planner.plan import Resources

amounts = st.integers(0, 8)
vectors = st.builds(Resources, amounts, amounts, amounts, amounts)
availability = st.builds(lambda capacity, used: Available(capacity, capacity - used), vectors, vectors)


def available(cpu: float, memory: float, free_cpu: float, free_memory: float) -> Available:
    return Available(Resources(cpu, memory), Resources(free_cpu, free_memory))


def test_the_best_aligned_task_goes_first() -> None:
    # most of the free resources are memory: the task that wants memory uses it best
    machine = available(10, 100, 2, 100)
    assert best_fit([Resources(2, 10), Resources(1, 80)], [machine]) == (1, 0)


def test_the_machine_with_more_of_what_is_wanted_is_taken() -> None:
    assert best_fit([Resources(1, 10)], [available(4, 100, 4, 60), available(4, 100, 1, 100)]) == (0, 0)
    assert best_fit([Resources(1, 90)], [available(4, 100, 4, 60), available(4, 100, 1, 100)]) == (0, 1)


def test_ties_go_to_the_earlier_task_and_machine() -> None:
    machines = [available(2, 100, 1, 50), available(2, 100, 1, 50)]
    assert best_fit([Resources(1, 10), Resources(1, 10)], machines) == (0, 0)


def test_a_machine_without_memory_to_speak_of_divides_by_nothing() -> None:
    assert alignment(Resources(1), Available(Resources(2), Resources(2))) == 0.5


@given(st.lists(vectors, max_size=5), st.lists(availability, max_size=4))
def test_a_pair_is_found_exactly_if_one_fits(demands: list[Resources], places: list[Available]) -> None:
    found = best_fit(demands, places)
    fitting = [(i, j) for i, d in enumerate(demands) for j, place in enumerate(places) if d.fits(place.free)]
    if found is None:
        assert not fitting
    else:
        assert found in fitting
        best = max(alignment(demands[i], places[j]) for i, j in fitting)
        assert alignment(demands[found[0]], places[found[1]]) > best - 1e-6


@given(vectors, st.lists(vectors, max_size=4))
def test_a_capped_demand_fits_some_empty_machine(demand: Resources, machines: list[Resources]) -> None:
    usable = [machine for machine in machines if machine.cpu >= 1]
    capped = cap(demand, machines)
    assert capped.fits(demand)
    assert not usable or any(capped.fits(machine) for machine in usable)
    assert capped == demand or not any(demand.fits(machine) for machine in usable)
