"""The facts that the kernels of one process share about functions of Python and the predicates that call them."""

from __future__ import annotations

import threading

from qoop.engine.functions.measured import Meter
from qoop.engine.functions.ordering import Counter


class Ledger:
    """The facts that the kernels of one process have seen of functions and predicates, for the tasks to come.

    functions: by key, a meter for each kernel. predicates: by text. as_written: filters that failed in another order
    than that of the text. apart: filters whose predicates cannot be fused. lock: of the counters, which
    kernels and their threads share.
    """

    def __init__(self) -> None:
        self.functions: dict[str, list[Meter]] = {}
        self.predicates: dict[str, Counter] = {}
        self.as_written: set[tuple[str, ...]] = set()
        self.apart: set[tuple[str, ...]] = set()
        self.lock = threading.Lock()
