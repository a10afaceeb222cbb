"""The program of a view with a lag goal: each row of its table, and times that no clock should have."""

from __future__ import annotations

import pytest

from qoop.adaptive.program import Begin, End, Stop
from qoop.programs.views.freshness import Compared, Freshness, Message, Order, Refresh, RefreshEnded, Wait

WAITING, REFRESHING = Freshness(10.0, "waiting"), Freshness(10.0, "refreshing", 1.0, 99.0)


@pytest.mark.parametrize(
    ("before", "message", "orders"),
    [
        (Freshness(10.0), Begin(), (Wait(0.0),)),
        (WAITING, Compared(100.0, None), (Wait(101.0),)),
        (WAITING, Compared(100.0, 99.5), (Wait(101.0),)),
        (WAITING, Compared(100.0, 91.5), (Wait(100.5),)),
        (WAITING, Compared(100.0, 91.0), (Refresh(),)),
        (
            Freshness(10.0, "waiting", 2.0),
            Compared(100.0, 94.0),
            (Refresh(),),
        ),  # a refresh takes 2 s: it begins earlier
        (REFRESHING, RefreshEnded(101.0, 2.0), (Wait(102.0),)),
        (REFRESHING, RefreshEnded(101.0, 2.0, failed=True), (Wait(111.0),)),
        (REFRESHING, Compared(101.0, 50.0), ()),
        (REFRESHING, Stop(), (End(),)),
        (Freshness(10.0, "ended"), Compared(100.0, 0.0), ()),
    ],
)
def test_each_message_has_its_orders(before: Freshness, message: Message, orders: tuple[Order, ...]) -> None:
    assert before.after(message)[1] == orders


def test_a_change_with_a_time_in_the_future_is_refreshed_within_the_goal() -> None:
    program, now = WAITING, 100.0
    while now < 111.0:
        program, (order,) = program.after(Compared(now, 1e9))
        if order == Refresh():
            break
        now = order.until
    assert now == pytest.approx(109.0)
