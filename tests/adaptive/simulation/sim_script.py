"""A simulated schedule and its text: the jobs, the fates of their attempts, and the events with their times.

    # a comment
    scheduler max-min
    machine m1 2 4                                 two slots, 4 GB
    job A at 0 weight 2 adaptive
      plan
        a 2 t=1.5 parts=2
        root 2 partition:a
      plan
        …
    fate A a.0#1 fails 0.5                         the first attempt at part 0 of A's stage a, after half its time
    at 3 slots m1 1 2

Every line stands for itself, so that a schedule stays one when lines are left out (:mod:`sim_shrink`). Stages with one
name put out the same in all plans; `as=` says what a stage means where that is not its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from qoop.planner.algebra.expr import Call, Column, Expr, Literal
from qoop.planner.algebra.facts import NO_FACTS, Facts, LazyFacts
from qoop.planner.plan import Estimate, Layout, Plan, Resources, Stage, StageInput, TableInput

GB = 1e9


@dataclass(frozen=True)
class Node:
    """A stage. seconds, memory (GB), expected (rows): as estimated; pace: how many times as long it really takes;
    needs: GB below which a task runs out of memory; rows: that there really are. facts: ``a+b|a1``: of which relations
    its rows are made, and by which filters."""

    id: str
    width: int = 1
    inputs: tuple[tuple[str, str], ...] = ()
    t: float = 1.0
    m: float = 0.1
    slots: int = 1
    means: str = ""
    parts: int = 1
    cut: str = ""
    island: bool = False
    rows: int = 10
    expected: int = 10
    needs: float = 0.0
    pace: float = 1.0
    facts: str = ""

    def stage(self, missing: bool = False) -> Stage:
        """The stage for a plan. missing: it reads a table that no job has."""
        estimate = Estimate(float(self.expected), 8.0 * self.expected, self.t, self.m * GB)
        tables = (TableInput("t", "nowhere", "v", ("x",), False),) if missing else ()
        facts, columns = _facts(self.facts)
        return Stage(
            self.id,
            "",
            (*tables, *(StageInput(name, name, mode) for mode, name in self.inputs)),  # type: ignore[arg-type]
            columns,
            self.width,
            self.means or self.id,
            Layout(("k",), self.parts) if self.parts > 1 else Layout(),
            self.cut,
            self.slots,
            estimate,
            whole=self.slots > 1 and self.width == 1,  # its tasks are elastic
            shareable=not self.island,
            meaning="" if self.island else f"rows of {self.means or self.id}",
            facts=facts,
        )

    def __str__(self) -> str:
        words = [self.id, str(self.width), *(f"{mode}:{name}" for mode, name in self.inputs)]
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("id", "width", "inputs") or value == item.default:
                continue
            words.append(item.name if value is True else f"{item.name}={_text(value)}")
        return " ".join(words)

    @classmethod
    def read(cls, line: str) -> Node:
        id, width, *words = line.split()
        inputs = [tuple(word.split(":", 1)) for word in words if ":" in word and "=" not in word]
        node = cls(id, int(width), tuple(inputs), island="island" in words)  # type: ignore[arg-type]
        for word in words:
            if "=" in word:
                name, value = word.split("=", 1)
                node = replace(node, **{name: type(getattr(node, name))(value)})
        return node


def _facts(text: str) -> tuple[LazyFacts, tuple[tuple[str, str], ...]]:
    if not text:
        return NO_FACTS, (("x", "INTEGER"),)
    names, _, filters = text.partition("|")
    leaves = tuple((name, ()) for name in sorted(names.split("+")))
    columns = tuple((f"c_{name}", Column(f"{name}:c", "INTEGER")) for name, _ in leaves)
    predicates = tuple(map(_filter, filter(None, filters.split(","))))
    facts = Facts(leaves, predicates, columns)
    return LazyFacts(lambda: facts), tuple((name, "INTEGER") for name, _ in columns)


def _filter(text: str) -> Expr:
    """``a1``: the first filter of relation a."""
    number = Literal(text[-1], "INTEGER", int(text[-1]))
    return Call(">", (Column(f"{text[:-1]}:c", "INTEGER"), number), "({0} > {1})", "BOOLEAN")


Nodes = tuple[Node, ...]


def plan_of(nodes: Nodes, missing: bool = False) -> Plan:
    """The plan of these stages; the last is the root."""
    stages = tuple(node.stage(missing and place == 0) for place, node in enumerate(nodes))
    return Plan(stages, nodes[-1].stage().columns)


@dataclass(frozen=True)
class JobLine:
    """A job. attempts, revocations: limits of the run. adaptive: it may change plan; at_once: all plans are known when
    it starts; keep: outputs are kept till the end. missing: it reads a table that is not there; lost: looking for plans
    ends in an error."""

    name: str
    at: float = 0.0
    weight: float = 1.0
    timeout: float = 0.0
    attempts: int = 4
    revocations: int = 50
    adaptive: bool = False
    at_once: bool = False
    durable: bool = False
    reuse: bool = False
    keep: bool = False
    missing: bool = False
    lost: bool = False
    plans: tuple[Nodes, ...] = ()

    def lines(self) -> Iterator[str]:
        words = ["job", self.name]
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name not in ("name", "plans") and value != item.default:
                words += [item.name] if value is True else [item.name, _text(value)]
        yield " ".join(words)
        for nodes in self.plans:
            yield "  plan"
            yield from (f"    {node}" for node in nodes)

    @classmethod
    def read(cls, words: list[str]) -> JobLine:
        job, rest = cls(words[0]), words[1:]
        while rest:
            name = rest.pop(0)
            old = getattr(job, name)
            value = True if isinstance(old, bool) else type(old)(rest.pop(0))
            job = replace(job, **{name: value})
        return job


@dataclass(frozen=True)
class Fate:
    """The fate of the n-th attempt of a job at a part of a stage.

    kind: fails, breaks (for good) or unreadable (its first input is lost) after `value` times its seconds; slow, by
    that factor; hangs; again: its report comes again so much later; contradicts: it is then said to have failed, or
    stopped; ghost: so long after its machine was lost it is said to have succeeded; spoiled: the same, and its machine
    is lost in its midst, and with it what it reads of non-deterministic stages; closed: so long before it ends its
    first input is lost, and so long after the session is closed.
    """

    job: str
    stage: str
    part: int
    n: int
    kind: str
    value: float = 0.0

    def __str__(self) -> str:
        return f"fate {self.job} {self.stage}.{self.part}#{self.n} {self.kind} {_text(self.value)}"

    @classmethod
    def read(cls, words: list[str]) -> Fate:
        job, task, kind, value = words
        stage, _, rest = task.rpartition(".")
        part, _, n = rest.partition("#")
        return cls(job, stage, int(part), int(n), kind, float(value))


@dataclass(frozen=True)
class Happening:
    """Something that happens at a time, as words: see `sim_world.World.do`."""

    at: float
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"at {_text(self.at)} {' '.join(self.words)}"


@dataclass(frozen=True)
class Schedule:
    """All that is drawn.

    scheduler: its name in `sim_world`. patience: after which it keeps resources back, 0: never. stop: seconds from the
    order to stop to the report. wait: that jobs wait for a slot. think: that a decision takes. relief: when there
    is enough of everything. machines: name, slots, GB.
    """

    machines: tuple[tuple[str, float, float], ...] = ()
    jobs: tuple[JobLine, ...] = ()
    fates: tuple[Fate, ...] = ()
    happenings: tuple[Happening, ...] = ()
    scheduler: str = "max-min"
    patience: int = 0
    stop: float = 0.0
    wait: float = 0.0
    think: float = 0.0
    relief: float = 30.0
    comment: str = field(default="", compare=False)

    def __str__(self) -> str:
        settings = [
            f"{item.name} {_text(getattr(self, item.name))}"
            for item in fields(self)
            if item.name in ("scheduler", "patience", "stop", "wait", "think", "relief")
            and getattr(self, item.name) != item.default
        ]
        machines = [f"machine {name} {_text(slots)} {_text(memory)}" for name, slots, memory in self.machines]
        jobs = [line for job in self.jobs for line in job.lines()]
        comment = [f"# {line}" for line in self.comment.splitlines()]
        return "\n".join([*comment, *settings, *machines, *jobs, *map(str, self.fates), *map(str, self.happenings), ""])

    @classmethod
    def read(cls, text: str) -> Schedule:
        """Raises ValueError for a line that is none."""
        made, comments = cls(), []
        for line in text.splitlines():
            if line.startswith("#"):
                comments.append(line[1:].strip())
            elif line.strip():
                made = _added(made, line)
        return replace(made, comment="\n".join(comments))


def _added(made: Schedule, line: str) -> Schedule:
    match line.split():
        case ["machine", name, slots, memory]:
            return replace(made, machines=(*made.machines, (name, float(slots), float(memory))))
        case ["job", *words]:
            return replace(made, jobs=(*made.jobs, JobLine.read(words)))
        case ["plan"]:
            return _with_job(made, (*made.jobs[-1].plans, ()))
        case ["fate", *words]:
            return replace(made, fates=(*made.fates, Fate.read(words)))
        case ["at", moment, *words]:
            return replace(made, happenings=(*made.happenings, Happening(float(moment), tuple(words))))
        case ["scheduler" | "patience" | "stop" | "wait" | "think" | "relief" as name, value]:
            return replace(made, **{name: type(getattr(made, name))(value)})
        case _ if line.startswith("    "):
            *plans, last = made.jobs[-1].plans
            return _with_job(made, (*plans, (*last, Node.read(line))))
    raise ValueError(f"no line of a schedule: {line!r}")


def _with_job(made: Schedule, plans: tuple[Nodes, ...]) -> Schedule:
    return replace(made, jobs=(*made.jobs[:-1], replace(made.jobs[-1], plans=plans)))


def available(slots: float, memory: float) -> Resources:
    """Slots and GB of memory."""
    return Resources(slots, memory * GB)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
