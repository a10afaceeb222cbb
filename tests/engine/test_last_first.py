"""The condition that wakes the thread which came last."""

from __future__ import annotations

import threading
import time

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
        while thread.is_alive() and len(waiting) < threads.index(thread) + 1:
            time.sleep(0.001)
    for expected in ([3], [3, 2]):
        with condition:
            condition.notify()
        while len(woken) < len(expected):
            time.sleep(0.001)
        assert woken == expected
    with condition:
        condition.notify_all()
    for thread in threads:
        thread.join(10)
    assert sorted(woken) == [0, 1, 2, 3]
    with condition:
        condition.notify()  # nobody is there
