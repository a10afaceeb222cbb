"""Plans: immutable DAGs of stages, the paper's QEPs; the engine runs these and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from qoop.catalog.errors import PlanError
from qoop.catalog.value import value
from qoop.planner.algebra.facts import NO_FACTS, LazyFacts

if TYPE_CHECKING:
    import networkx

StageId = str
Signature = str


@value
class Resources:
    """A vector of resources: cpu in slots, memory in bytes, disk and network in bytes per second.

    >>> (Resources(2, 100) - Resources(1, 40)).fits(Resources(1, 60))
    True
    """

    cpu: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    network: float = 0.0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu + other.cpu, self.memory + other.memory,
            self.disk + other.disk, self.network + other.network,
        )  # fmt: skip

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu - other.cpu, self.memory - other.memory,
            self.disk - other.disk, self.network - other.network,
        )  # fmt: skip

    def fits(self, available: Resources) -> bool:
        """True if this demand is at most what is available in every dimension."""
        return (
            self.cpu <= available.cpu and self.memory <= available.memory
            and self.disk <= available.disk and self.network <= available.network
        )  # fmt: skip

    def dominant_share(self, capacity: Resources) -> float:
        """The largest fraction of capacity over the dimensions (paper section 2); absent dimensions count 0."""
        share = self.cpu / capacity.cpu if capacity.cpu > 0 else 0.0  # computed with every task: no loop
        if capacity.memory > 0:
            share = max(share, self.memory / capacity.memory)
        if capacity.disk > 0:
            share = max(share, self.disk / capacity.disk)
        if capacity.network > 0:
            share = max(share, self.network / capacity.network)
        return share


@value
class Predicate:
    """One of several predicates of a filter, which a kernel asks in the order that turns out to be the best.

    filter: its number in the task. number: of the predicate in the filter. passes: the part of the rows that it lets
    pass, as estimated."""

    filter: int
    number: int
    passes: float


@value
class CallEstimate:
    """The calls of a function of Python in one task. function: its key. rows: that it is called for. row_seconds:
    estimated for each. within: the predicate that calls it; None: nothing else decides how often."""

    function: str
    rows: float
    row_seconds: float
    within: Predicate | None = None

    @property
    def seconds(self) -> float:
        return self.rows * self.row_seconds


@value
class Estimate:
    """The estimate of one stage: rows and bytes of its whole output, and per task the cpu seconds
    of one thread and the peak memory in bytes.

    task_memory: bytes that a task requests. task_wants: bytes that it would use if it could; it spills the difference.
    calls: of functions of Python, whose seconds are among those of a task. doubt: the standard deviation of the
    logarithm of the seconds, of DuckDB's own plan.
    """

    rows: float = 1.0
    bytes: float = 1.0
    task_seconds: float = 0.001
    task_memory: float = 1.0
    task_wants: float = 0.0
    calls: tuple[CallEstimate, ...] = ()
    doubt: float = 1.0


MARKS = ("/*in any order:*/ ", " /*or*/ AND ", " /*.*/")
"""Around and between predicates in the SQL of a stage that may run in any order."""

STORE_PER_KERNEL = 0.5
"""Bytes of finished outputs that a machine keeps in memory for each byte its tasks may use; the rest is on disk."""

WHOLE_PER_TASKS = 1.8
"""Bytes that DuckDB's own plan may use while it runs alone for each byte that tasks may: it keeps no outputs. Query 23
of TPC-DS at scale 10 takes 5.8 s in 1.5 GB of 2, where it spills, and 2.3 s in 1.8."""


@value
class Layout:
    """The cut of an output: `parts` partitions by ``hash(keys) % parts``; no keys and 1 part: not cut.

    keys are SQL texts over the stage's columns, cast to the type both sides of a join agree on.
    """

    keys: tuple[str, ...] = ()
    parts: int = 1


@value
class TableInput:
    """A base table under the name `name` in the fragment.

    columns: the table's own column names that the fragment reads.
    split: True: task i of the stage reads the i-th share of the rows; False: every task reads all.
    """

    name: str
    table: str
    version: str
    columns: tuple[str, ...]
    split: bool


@value
class StageInput:
    """The output of another stage under the name `name` in the fragment.

    mode: all: every task reads every part. partition: task i reads partition i of every part (the
        producer's layout has as many parts as this stage has tasks). forward: task i reads part i.
    """

    name: str
    stage: StageId
    mode: OneOf["all", "partition", "forward"]


ELASTIC_SECONDS = 0.5
"""Estimated seconds of one thread from which on a lone task, of DuckDB's plan or of a stage, is elastic. To take turns
costs the shortest queries a tenth of their time, and those of a second nothing that could be measured."""


ISOLATED = "DuckDB plans the whole query, in a process of its own"
"""The reason of a stage whose text may take any memory, or any time, before or besides what DuckDB counts."""


@value
class Stage:
    """One fragment of a plan, run as `width` independent tasks.

    sql: DuckDB SQL over the names of `inputs`; its columns are `columns` in order, cast to their types.
    columns: (name, DuckDB type).
    layout: how each task cuts its output.
    cut: digest of how the rows fall to the tasks; empty where one task has them all.
    slots: threads (and slots) of each task.
    opaque: the reason for which the planner did not decompose the fragment, None if it did.
    whole: it is the whole query, which DuckDB plans: its one task takes any number of slots, up to `slots`.
    shareable: False for non-deterministic stages (law 12), whose outputs must never serve another plan.
    by_digits: it is non-deterministic only because last digits of sums decide: the same sums lead to the same rows.
    join_filters: True if DuckDB may push the keys of a build side into the scan of the probe side. False where a LIMIT
        lies below the join: DuckDB 1.5.5 pushes the filter below that too, which changes rows.
    label: a few words for people.
    meaning: digest of the rows of the output, independent of their columns; empty for unfinished rows.
    facts: the factors and predicates of the rows; not part of the stage's identity.
    """

    id: StageId
    sql: str
    inputs: tuple[TableInput | StageInput, ...]
    columns: tuple[tuple[str, str], ...]
    width: int
    signature: Signature
    layout: Layout = Layout()
    cut: str = ""
    slots: int = 1
    estimate: Estimate = Estimate()
    opaque: str | None = None
    whole: bool = False
    shareable: bool = True
    by_digits: bool = False
    join_filters: bool = True
    label: str = ""
    meaning: Signature = ""
    facts: LazyFacts = field(default=NO_FACTS, compare=False, repr=False)

    @cached_property
    def stage_inputs(self) -> tuple[StageInput, ...]:
        return tuple(item for item in self.inputs if isinstance(item, StageInput))

    @cached_property
    def table_inputs(self) -> tuple[TableInput, ...]:
        return tuple(item for item in self.inputs if isinstance(item, TableInput))

    @property
    def elastic_slots(self) -> int:
        """The slots that its task can get while it runs, if the task is elastic; 0: its slots stay fixed.

        DuckDB takes threads while it runs a query, and returns them between two pieces of work, if the largest number
        was set at the beginning.
        """
        fixed = self.opaque == ISOLATED or self.estimate.task_seconds < ELASTIC_SECONDS
        return self.slots if self._has_slots and not fixed else 0

    @property
    def begins_on_any(self) -> bool:
        """True if its task begins on however many slots are free, up to `slots`; False: it waits for all of them."""
        return self.whole or self.elastic_slots > 0

    @property
    def _has_slots(self) -> bool:
        """True if it is a lone task that can use several slots."""
        return self.whole or (self.width == 1 and self.slots > 1)


@value
class Plan:
    """Stages in an order in which every stage comes after its inputs; the last one is the root.

    columns: names and DuckDB types of the result, which the root's columns are renamed to by position.
    """

    stages: tuple[Stage, ...]
    columns: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...] = field(default=())

    def __post_init__(self) -> None:
        checked: dict[StageId, Stage] = {}
        for stage in self.stages:
            for item in stage.stage_inputs:
                producer = checked.get(item.stage)
                if producer is None:
                    raise PlanError(f"stage {stage.id} reads {item.stage}, which does not come before it")
                if item.mode == "partition" and producer.layout.parts != stage.width:
                    raise PlanError(
                        f"stage {stage.id} has {stage.width} tasks, but {item.stage} has {producer.layout.parts} parts"
                    )
                if item.mode == "forward" and producer.width != stage.width:
                    raise PlanError(f"stage {stage.id} and {item.stage} differ in width")
            if stage.id in checked:
                raise PlanError(f"two stages are called {stage.id}")
            checked[stage.id] = stage

    @property
    def root(self) -> Stage:
        return self.stages[-1]

    @cached_property
    def by_id(self) -> dict[StageId, Stage]:
        return {stage.id: stage for stage in self.stages}

    @cached_property
    def graph(self) -> networkx.DiGraph[StageId]:
        """The DAG as networkx sees it: an edge from producer to reader."""
        import networkx  # 0.2 s: for drawings and checks, never on the way of a query

        graph: networkx.DiGraph[StageId] = networkx.DiGraph()
        graph.add_nodes_from(stage.id for stage in self.stages)
        graph.add_edges_from((item.stage, stage.id) for stage in self.stages for item in stage.stage_inputs)
        return graph


def read_by(stage: Stage, plan: Plan) -> frozenset[str]:
    """The inputs of a stage: the signatures of the stages it reads, and tables with their versions."""
    return inputs(stage, (plan.by_id[item.stage].signature for item in stage.stage_inputs))


def inputs(stage: Stage, signatures: Iterable[Signature]) -> frozenset[str]:
    """The same, where the signatures of the stages that it reads are known."""
    return frozenset((*signatures, *(read_table(item.table, item.version) for item in stage.table_inputs)))


def read_table(name: str, version: str) -> str:
    """A table among the inputs of a stage."""
    return f"table {name} {version}"


def table_read(key: str) -> str:
    """The table that `read_table` means, for people: without its version, a digest.

    >>> table_read(read_table("items", "3eacc868"))
    'table items'
    """
    return key.rpartition(" ")[0]
