"""The program of a view with a lag goal: each row of its table, and times that no clock should have."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from qoop.adaptive.program import Begin, End, Stop
from qoop.programs.views.freshness import (
    Allotted,
    Freshness,
    Message,
    Order,
    Refresh,
    RefreshEnded,
    TablesCompared,
    Wait,
)

WAITING, REFRESHING = Freshness(10.0, "waiting"), Freshness(10.0, "refreshing", 1.0, 99.0)

BRIEF = Freshness(0.25, "waiting")
SAMPLED = Freshness(10.0, "waiting", seconds=2.0, ended=100.0, sampled=True)


@pytest.mark.parametrize(
    ("before", "message", "orders"),
    [
        (Freshness(10.0), Begin(), (Wait(0.0),)),
        (WAITING, TablesCompared(100.0, None), (Wait(101.0),)),
        (WAITING, TablesCompared(100.0, 99.5), (Wait(101.0),)),
        (WAITING, TablesCompared(100.0, 91.5), (Wait(100.5),)),
        (WAITING, TablesCompared(100.0, 91.0), (Refresh(),)),
        (
            Freshness(10.0, "waiting", 2.0),
            TablesCompared(100.0, 94.0),
            (Refresh(),),
        ),  # a refresh takes 2 s: it begins earlier
        (WAITING, TablesCompared(100.0, 97.0, early=2.5), (Wait(101.0),)),
        (WAITING, TablesCompared(100.0, 93.0, early=2.5), (Refresh(),)),
        (WAITING, TablesCompared(100.0, None, cost=0.05), (Wait(105.0),)),
        (WAITING, TablesCompared(100.0, None, cost=0.5), (Wait(109.0),)),
        (WAITING, TablesCompared(100.0, None, cost=0.5, age=2.0), (Wait(107.0),)),
        (WAITING, TablesCompared(100.0, 95.0, last=98.0, gap=7.0), (Refresh(),)),  # the next one comes too late
        (WAITING, TablesCompared(100.0, 99.0, last=99.0, gap=20.0), (Wait(101.0),)),  # it is early in the goal
        (WAITING, TablesCompared(100.0, 95.0, last=95.0, gap=5.0), (Wait(100.5),)),
        (WAITING, TablesCompared(102.0, 95.0, last=100.0, gap=5.0), (Refresh(),)),
        # a file counts once it has settled: refreshes wait for that, if there is time, and else not for the file
        (BRIEF, TablesCompared(96.125, 96.0, last=96.0, gap=0.125), (Wait(96.125 + 0.025),)),
        (BRIEF, TablesCompared(96.15625, 96.0, last=96.0, gap=0.125), (Refresh(),)),
        (BRIEF, TablesCompared(96.125, 96.0, last=96.0, gap=0.21875), (Refresh(),)),
        (REFRESHING, RefreshEnded(101.0, 2.0), (Wait(102.0),)),
        (REFRESHING, RefreshEnded(101.0, 2.0, failed=True), (Wait(111.0),)),
        (REFRESHING, TablesCompared(101.0, 50.0), ()),
        (REFRESHING, Allotted(0.5), ()),
        (replace(WAITING, share=Allotted(0.5, 8)), TablesCompared(100.0, 91.0), (Refresh(one_in=8),)),
        (replace(SAMPLED, share=Allotted(0.5, 8)), TablesCompared(104.0, None), (Wait(105.0),)),
        (SAMPLED, TablesCompared(104.0, None), (Refresh(),)),
        (replace(SAMPLED, share=Allotted(0.5)), TablesCompared(101.0, None), (Wait(102.0),)),
        (replace(SAMPLED, share=Allotted(0.5)), TablesCompared(102.0, None), (Refresh(),)),
        (REFRESHING, Stop(), (End(),)),
        (Freshness(10.0, "ended"), TablesCompared(100.0, 0.0), ()),
    ],
)
def test_each_message_has_its_orders(before: Freshness, message: Message, orders: tuple[Order, ...]) -> None:
    assert before.after(message)[1] == orders


def test_refreshes_are_as_far_apart_as_a_share_pays_for() -> None:
    program, now, begun = replace(WAITING, share=Allotted(0.1)), 100.0, list[float]()
    while len(begun) < 4:
        program, (order,) = program.after(TablesCompared(now, now - 60.0))
        if isinstance(order, Refresh):
            begun.append(now)
            program, (order,) = program.after(RefreshEnded(now + 2.0, 2.0))
        assert isinstance(order, Wait)
        now = order.until
    assert [after - before for before, after in pairwise(begun)] == pytest.approx([20.0] * 3)


def test_a_sample_is_in_the_edition_until_an_exact_refresh_succeeds() -> None:
    program = REFRESHING.after(RefreshEnded(101.0, 2.0, sampled=True))[0]
    failed = replace(program, state="refreshing").after(RefreshEnded(111.0, 2.0, failed=True))[0]
    exact = replace(failed, state="refreshing").after(RefreshEnded(121.0, 2.0))[0]
    assert program.sampled and failed.sampled and not exact.sampled


def test_a_change_with_a_time_in_the_future_is_refreshed_within_the_goal() -> None:
    program, now = WAITING, 100.0
    while now < 111.0:
        program, (order,) = program.after(TablesCompared(now, 1e9))
        if order == Refresh():
            break
        now = order.until
    assert now == pytest.approx(109.0)
