"""The signals of a command line."""

from __future__ import annotations

import subprocess
import sys

SENT_TO_ANOTHER_THREAD = """
import signal, threading, time
from qoop.query.streams import ended_by_signals, wait_for_signal

def send():
    time.sleep(0.1)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

with ended_by_signals():
    threading.Thread(target=send).start()
    try:
        wait_for_signal()
    except KeyboardInterrupt as ended:
        print(ended)
"""


def test_a_signal_that_interrupts_no_wait_of_the_main_thread_ends_it_too() -> None:
    """A signal that comes just before the wait is as one that another thread has taken: nothing wakes a lock."""
    done = subprocess.run([sys.executable, "-c", SENT_TO_ANOTHER_THREAD], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("ended by SIGTERM\n", "")
