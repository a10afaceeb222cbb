"""The condition that wakes the thread which came last."""

from __future__ import annotations

import threading

from waits import until

from qoop.engine.backends.last_first import LastFirst


def test_the_thread_that_came_last_is_woken_first_and_all_are_in_the_end() -> None:
    condition, woken, waiting = LastFirst(), list[int](), list[int]()

    def wait(number: int) -> None:
        with condition:
            waiting.append(number)
            condition.wait()
            woken.append(number)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
        until(lambda: len(waiting) == threads.index(thread) + 1)  # noqa: B023
    for expected in ([3], [3, 2]):
        with condition:
            condition.notify()
        until(lambda: len(woken) >= len(expected))  # noqa: B023
        assert woken == expected
    with condition:
        condition.notify_all()
    for thread in threads:
        thread.join(60)
    assert sorted(woken) == [0, 1, 2, 3]
    with condition:
        condition.notify()  # nobody is there
