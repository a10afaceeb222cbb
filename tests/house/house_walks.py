"""Walks in the documentation: numbered steps with the functions that they name, and a recording of what is called."""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType

_STEP = re.compile(r"^(\d+)\. (.*?)(?=^\d+\. |^\S|\Z)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"`(qoop(?:\.\w+)+)`")


@dataclass(frozen=True)
class Step:
    """functions: the names of the step that are functions or methods, as they stand there."""

    number: int
    functions: tuple[str, ...]


def steps(page: Path, heading: str) -> tuple[Step, ...]:
    """The numbered steps below a heading of a page, with the functions that they name."""
    section = page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = [(int(number), _NAME.findall(text)) for number, text in _STEP.findall(section)]
    return tuple(Step(number, tuple(name for name in names if code_of(name))) for number, names in found)


def code_of(name: str) -> CodeType | None:
    """The code behind a dotted name; None for a module, a class or a value."""
    found = pkgutil.resolve_name(name)
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, cached_property):
        found = found.func
    code = getattr(inspect.unwrap(found), "__code__", None) if callable(found) else None
    return code if isinstance(code, CodeType) and not inspect.isclass(found) else None


@dataclass
class Recording:
    """The times of calls of some functions, in the thread that began the recording and those that begin meanwhile."""

    names: dict[CodeType, str]
    calls: list[tuple[float, str]] = field(default_factory=list)

    @classmethod
    def of(cls, walk: Sequence[Step]) -> Recording:
        """A recording of all functions of a walk."""
        return cls({code: name for step in walk for name in step.functions if (code := code_of(name))})

    @contextmanager
    def on(self) -> Iterator[None]:
        """Record."""
        before = sys.getprofile(), threading.getprofile()
        sys.setprofile(self._called)
        threading.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(before[0])
            threading.setprofile(before[1])

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in self.names:
            self.calls.append((time.perf_counter(), self.names[frame.f_code]))

    def missing(self, walk: Sequence[Step]) -> set[str]:
        """The functions that were never called."""
        return {name for step in walk for name in step.functions} - {name for _, name in self.calls}

    def out_of_order(self, walk: Sequence[Step]) -> str | None:
        """The first step whose first function is not called after that of the step before; None: there is none."""
        now = 0.0
        for step in walk:
            first = step.functions[:1]
            later = [at for at, name in sorted(self.calls) if name in first and at >= now]
            if first and not later:
                return f"step {step.number}: {first[0]} is not called after the step before"
            now = min(later, default=now)
        return None
