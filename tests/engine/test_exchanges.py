"""Links shared max-min, the order of pulls, and what attempts bring in from other machines, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoop.adaptive.simulation import Fleet, SimulatedJob, SimulatedRun, SimulationOptions, simulate
from qoop.catalog.errors import ConfigError
from qoop.engine.backends.outcomes import Outcome
from qoop.engine.events import MachineLost, SlotsChanged
from qoop.engine.exchanges.links import Link, Links, fair_rates
from qoop.engine.exchanges.order import Pull, next_pull
from qoop.engine.exchanges.terms import Exchanges, ObjectStore
from qoop.engine.history import Began, Succeeded
from qoop.engine.node_queues.policy import NodeQueueing
from qoop.engine.task import TaskSpec
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageInput

MACHINES = st.sampled_from("abcde")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(MACHINES, MACHINES), min_size=1, max_size=15),
    st.dictionaries(MACHINES, st.sampled_from([1.0, 2.0, 10.0]), min_size=5),
)
def test_no_flow_can_have_more_without_a_slower_one_having_less(
    pairs: list[tuple[str, str]], rates: dict[str, float]
) -> None:
    capacity: dict[Link, float] = {}
    for machine, rate in rates.items():
        capacity[machine, "out"] = capacity[machine, "in"] = rate
    flows: dict[int, tuple[Link, ...]] = {
        number: ((one, "out"), (other, "in")) for number, (one, other) in enumerate(pairs)
    }
    found = fair_rates(flows, capacity)
    used = Counter[Link]()
    for number, links in flows.items():
        for link in links:
            used[link] += found[number]  # type: ignore[assignment]
    assert all(used[link] <= capacity[link] * (1 + 1e-9) for link in used)
    for number, links in flows.items():  # each has a full link on which none has more: that is max-min fairness
        assert any(
            used[link] >= capacity[link] * (1 - 1e-9)
            and all(found[other] <= found[number] * (1 + 1e-9) for other in flows if link in flows[other])
            for link in links
        )


def test_a_flow_that_ends_leaves_its_rate_to_others_and_a_slower_link_counts_from_then_on() -> None:
    links = Links[str]()
    for machine in "abc":
        links.have(machine, 100.0, now=0.0)
    links.join("ab", "a", "b", 100.0, now=0.0)
    links.join("ac", "a", "c", 300.0, now=0.0)
    assert links.ends() == pytest.approx(2.0)
    assert links.ended(2.0) == ["ab"]
    assert links.ends() == pytest.approx(4.0)
    links.have("c", 50.0, now=3.0)
    assert links.ends() == pytest.approx(5.0)


def test_the_oldest_is_pulled_first_within_a_job_and_jobs_take_turns() -> None:
    pulls = [Pull("a", 0, ahead=True), Pull("a", 1), Pull("a", 2), Pull("b", 3)]
    coming, taken = Counter[str](), []
    while pulls:
        pull = next_pull(pulls, coming)
        pulls.remove(pull)
        coming[pull.job] += 1
        taken.append(pull.number)
    assert taken == [1, 3, 2, 0]  # what waits for a slot comes last


def test_terms_that_let_nothing_in_are_refused() -> None:
    for wrong in ({"fan_in": 0}, {"per_task": 0}, {"latency": -1.0}):
        with pytest.raises(ConfigError):
            Exchanges(**wrong)  # type: ignore[arg-type]


def shuffled(width: int, readers: int, seconds: float = 0.0, mode: str = "partition") -> Plan:
    estimate, layout = Estimate(task_seconds=seconds, task_memory=0.0), Layout(("k",), readers)
    scan = Stage("scan", "", (), (), width, f"scan{width}", layout if mode == "partition" else Layout())
    join = Stage("join", "", (StageInput("i", "scan", mode),), (), readers, "join", estimate=estimate)  # type: ignore[arg-type]
    return Plan((scan, join, Stage("root", "", (StageInput("i", "join", "all"),), (), 1, "root")), ())


def truth(size: int) -> Callable[[TaskSpec], Outcome]:
    def outcome(spec: TaskSpec) -> Outcome:
        return Outcome(spec.stage.estimate.task_seconds, bytes=size if spec.stage.id == "scan" else 0)

    return outcome


def run(
    plan: Plan, size: int, exchanges: Exchanges, fleet: Fleet, queueing: NodeQueueing | None = None
) -> SimulatedRun:
    jobs = [SimulatedJob("q", 0.0, plan)]
    options = SimulationOptions(exchanges=exchanges, queueing=queueing)
    done = simulate(fleet, jobs, truth(size), check=True, options=options)
    assert done.jobs[0].error is None
    return done


def fleet(count: int, slots: int = 1, rate: float = 100.0) -> Fleet:
    return Fleet.uniform(count, Resources(slots, 64e9, 0.0, rate))


def test_a_shuffle_takes_as_long_as_the_links_say() -> None:
    at_once = run(shuffled(4, 4), 100, Exchanges(), fleet(4))
    assert at_once.seconds == pytest.approx(3.0, abs=0.1)  # 300 bytes into each machine, on links of 100 in a second
    assert at_once.exchanged.bytes == pytest.approx(4 * 3 * 100) and at_once.exchanged.requests == 12
    in_turn = run(shuffled(4, 4), 100, Exchanges(per_task=1, rotated=False, latency=0.5), fleet(4))
    assert in_turn.seconds > 1.3 * at_once.seconds


def test_one_slow_link_holds_up_those_that_pass_it_and_no_others() -> None:
    slow = fleet(4).after((0.0, SlotsChanged("m1", Resources(1, 64e9, 0.0, 50.0))))
    assert run(shuffled(4, 4), 100, Exchanges(), slow).seconds == pytest.approx(6.0, abs=0.2)


def test_an_output_that_all_tasks_read_comes_in_once_a_machine() -> None:
    done = run(shuffled(1, 8, mode="all"), 100, Exchanges(), fleet(4, slots=2))
    assert done.exchanged.bytes == pytest.approx(3 * 100) and done.seconds == pytest.approx(3.0, abs=0.1)


def test_what_lay_on_a_machine_that_is_gone_comes_from_the_store_at_its_price() -> None:
    store = ObjectStore(latency=0.5, price=2.0)
    gone = fleet(4).after((0.5, MachineLost("m4")))
    done = run(shuffled(4, 3), 100, Exchanges(store=store), gone)
    assert done.exchanged.stored == 3 and done.exchanged.price == 6.0
    only = run(shuffled(4, 4), 100, Exchanges(store=ObjectStore(0.5, 2.0, only=True)), fleet(4))
    assert only.exchanged.stored == only.exchanged.requests == 4 and only.exchanged.price == 8.0


def test_inputs_of_a_task_that_waits_come_in_while_another_works() -> None:
    plan = shuffled(4, 12, seconds=3.0)  # three rounds, each of 3 seconds and as many of transfer
    alone, ahead = (run(plan, 100, Exchanges(), fleet(4), queueing) for queueing in (None, NodeQueueing(3)))
    assert any(isinstance(record, Began) for record in ahead.jobs[0].history)
    assert ahead.seconds < 0.87 * alone.seconds
    read = [r.account.read for r in ahead.jobs[0].history if isinstance(r, Succeeded) and r.account is not None]
    assert min(read) == 0.0 < max(read)


@pytest.mark.parametrize("queueing", [None, NodeQueueing(2)])
def test_attempts_that_go_free_what_they_were_asking_for(queueing: NodeQueueing | None) -> None:
    lost = fleet(3, slots=2).after((1.0, MachineLost("m2")), (2.0, SlotsChanged("m3", Resources(1, 64e9, 0.0, 100.0))))
    for mode in ("partition", "all"):
        run(shuffled(6, 9, seconds=0.5, mode=mode), 60, Exchanges(fan_in=2, latency=0.05), lost, queueing)
