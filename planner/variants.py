"""The choices a planner makes, as values: each :class:`Variant` leads the same query to another plan.

A variant is a preference, not a promise: where it finds nothing to do, the plan is the usual one.  All variants
are sound for every query; which of them is fast depends on the data and on the share of the resources.
"""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf
from typing import Literal as OneOf

from qoop.catalog.value import value
from qoop.planner.plan import Resources

LEAST_GAIN = 1.25  # estimated seconds without over those with
TRANSFER_GAIN = 1.2


@value
class Aim:
    """The aim of an order of joins, besides little work: seconds of one slot that each unit counts for.

    hash_byte: a byte in a hash table. moved_byte: a byte that comes to a machine over its link: of the build side once
    for each machine, or of both sides once, whichever is less. result_row: a row that a join puts out.
    """

    name: str = "work"
    hash_byte: float = 0.0
    moved_byte: float = 0.0
    result_row: float = 0.0


WORK = Aim()
MEMORY = Aim("memory", hash_byte=20e-9)  # some ten times the cost of filling it
NETWORK = Aim("network", moved_byte=30 / 125e6)  # for its time on a link of 1 Gbit/s, thirty slots wait
RESULTS = Aim("results", result_row=200e-9)  # some thirty times the cost of its output
AIMS = (WORK, MEMORY, NETWORK, RESULTS)


@value
class Thresholds:
    """Numbers that decide between forms of a plan; seconds are of one thread.

    spread_seconds: a scan with less work is not split.
    task_seconds: target work of one task.
    inline_seconds: a build side is computed again in every task while that adds no more than this.
    single_seconds: work above an exchange that one task, with all slots, may do; more is hashed over tasks, if it
        can be, or cut into several stages.
    threads_seconds: work of a lone task from which on it gets all slots.
    stage_seconds: time that one more stage costs.
    hash_row: seconds to partition one row by hash.
    most_parts: into how many parts rows are hashed at most.
    gather_rows: shared rows up to which readers take all of them rather than stay spread.
    most_threads: the most slots of one task.
    machine_slots: slots of one machine; between tasks of one machine no rows cross the network.
    broadcast_factor: multiplies the estimated cost of a join with one side in every task, to choose it less often
        (above 1) or more often (below 1).
    parting_factor: by how much longer than one task alone several may take for grouping sets, as less is lost with one
        of them.
    thinning_gain: how many times as long a window must take over all rows as over those that can have its first ranks,
        these found first, for the others to be left out.
    table_factor: how often the hash tables of such a join, one a slot, must fit the memory.
    """

    spread_seconds: float = 0.002
    task_seconds: float = 0.15
    inline_seconds: float = 0.003
    single_seconds: float = 0.25
    threads_seconds: float = 0.03
    stage_seconds: float = 0.003
    hash_row: float = 4.8e-8
    gather_rows: float = 100_000.0
    most_parts: int = 64
    most_threads: int = 1 << 20
    machine_slots: int = 1 << 20
    broadcast_factor: float = 1.0
    parting_factor: float = 1.25
    thinning_gain: float = 1.5
    table_factor: float = 2.0

    def times(self, factor: float) -> Thresholds:
        """The same choices where everything takes `factor` times as long."""
        names = [item.name for item in fields(self) if item.name.endswith("_seconds")]
        return replace(self, hash_row=self.hash_row * factor, **{name: getattr(self, name) * factor for name in names})


USUAL = Thresholds()


@value
class Logical:
    """Choices about the relation, before it is known how many tasks there will be.

    eager_gain: estimated gain from which on aggregates are pushed below joins: 0 always, infinite never.
    transfer_gain: estimated seconds that it saves over those it costs, from which on one side of a join is reduced by
        the keys of the other: infinite never.
    inline: True if shared subplans are written out for every reader, with the reader's filters inside.
    bushy: False: one side of every join is a single relation.
    aim: the resource that the order of joins saves besides work.
    calls: whether predicates that call Python come as early as they can, or late, where the fewest rows are left.
    """

    eager_gain: float = LEAST_GAIN
    transfer_gain: float = TRANSFER_GAIN
    inline: bool = False
    bushy: bool = True
    aim: Aim = WORK
    calls: OneOf["cheapest", "early", "late"] = "cheapest"


@value
class Variant:
    """A set of choices under a name.

    limits: choices about exchanges and tasks. slots: the least and the most slots that it is tried with.
    lone: it is tried only where one task can have all slots.
    """

    name: str = "usual"
    logical: Logical = Logical()
    limits: Thresholds = USUAL
    slots: tuple[float, float] = (1.0, inf)
    lone: bool = False

    def suits(self, cpu: float, threads: int) -> bool:
        """True if it is tried with this number of slots, `threads` of them for a task at most."""
        least, most = self.slots
        return least <= cpu <= most and (not self.lone or cpu <= threads)

    def on(self, available: Resources, threads: int, machine: int) -> Variant:
        """The variant with thresholds that suit machines of `machine` slots, `threads` of them for a task.

        As many hash partitions as there are slots, so that all of them have work; no more slots than one plan
        for one machine uses change nothing.
        """
        slots = int(available.cpu)
        parts = self.limits.most_parts if slots <= self.limits.most_parts else slots
        limits = replace(self.limits, most_threads=threads, machine_slots=machine, most_parts=parts)
        return replace(self, limits=limits)


_USUAL = Logical()
_HASH = replace(USUAL, broadcast_factor=8.0, single_seconds=0.03)
_LEAN = replace(USUAL, table_factor=16.0, task_seconds=0.04, most_parts=256, single_seconds=0.06)
_BROADCAST = replace(USUAL, broadcast_factor=0.125, table_factor=1.0, single_seconds=1.2)
_NETWORK = replace(_USUAL, aim=NETWORK)
_LONE = replace(USUAL, spread_seconds=inf, single_seconds=inf)
_FEW, _SOME, _MANY = (1.0, 100.0), (2.0, 100.0), (30.0, inf)  # slots: up to a few machines; a machine or more

VARIANTS: tuple[Variant, ...] = (
    Variant(),
    Variant("broadcast", limits=_BROADCAST, slots=_FEW),
    Variant("lean", limits=_LEAN, slots=_SOME),
    Variant("lazy", replace(_USUAL, eager_gain=inf)),
    Variant("eager", replace(_USUAL, eager_gain=0.0)),
    Variant("inline", replace(_USUAL, inline=True)),
    Variant("linear", replace(_USUAL, bushy=False), slots=_FEW),
    Variant("small moves", _NETWORK, slots=_SOME),
    Variant("small results", replace(_USUAL, aim=RESULTS)),
    Variant("small builds", replace(_USUAL, aim=MEMORY), slots=_FEW),
    Variant("no transfer", replace(_USUAL, transfer_gain=inf)),
    Variant("lean eager", replace(_USUAL, eager_gain=0.0), _LEAN),
    Variant("linear hash", replace(_USUAL, bushy=False), _HASH, slots=_MANY),
    Variant("small moves hash", _NETWORK, _HASH),
    Variant("one task", limits=_LONE, slots=_FEW, lone=True),
    Variant("one task inline", replace(_USUAL, inline=True), _LONE, slots=_FEW, lone=True),
)
"""The variants that are tried, in the order in which ties between equal plans are settled.

On the cluster of the paper, with statistics of TPC-DS at scale 500, each is needed: without it the best plan of the
pool would be 7 % slower, or up to many times slower, for some query on some share.
"""

CALLING = (
    Variant("early calls", replace(_USUAL, calls="early", transfer_gain=inf)),
    Variant("late calls", replace(_USUAL, calls="late")),
)
"""Variants for a query that calls functions of Python: both are kept, since the cost of a call is unknown before it.
Transferred keys would keep rows from early calls, too."""

CUTTING = tuple(one for one in VARIANTS if one.name in ("usual", "lean"))
"""The variants that divide long tasks best where they are made for more slots than there are."""

LONE = tuple(one for one in VARIANTS if one.lone)
"""The variants of one task, of which one is mostly the best where a single machine has all slots."""
