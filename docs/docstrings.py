"""The reference pages of `make docs`: finds the code, and turns docstrings into Markdown.

Our docstrings are plain text with a few conventions, which mkdocstrings does not know: lines ``name: meaning`` explain
parameters, names of code stand in ``double`` or `single` backquotes or in a role such as
:class:`qoop.Result`, a drawing follows a line that ends with ``::``. Each is turned into what Markdown has for it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path
from textwrap import dedent
from typing import Any

import griffe

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "build" / "docs"
"""The folder in which mkdocs.yml looks for the package."""

SOURCES.mkdir(parents=True, exist_ok=True)  # before mkdocstrings is set up, which forgets a folder that is not there

_ROLE = re.compile(r":(?:py:)?[a-z]+:`~?([^`]+)`")
_CODE = re.compile(r"``([^`]+)``")
_MEANING = re.compile(r"(\w+(?:, \w+)*): (?=\S)")
_RULE = re.compile(r"[= ]*==[= ]*")


def on_config(config: object) -> None:
    """Called by mkdocs before all else: copy the folders into the one package that they install as.

    Without tpcds, of which no page of the reference shows anything: griffe parses all that is there.
    """
    shutil.rmtree(SOURCES, ignore_errors=True)
    only_code = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "qoop", SOURCES / "qoop", ignore=only_code)
    for folder in ("catalog", "planner", "engine"):
        shutil.copytree(ROOT / folder, SOURCES / "qoop" / folder, ignore=only_code)


class AsMarkdown(griffe.Extension):
    """Rewrites every docstring before it is rendered."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            names = {parameter.name for parameter in getattr(obj, "parameters", ())}
            obj.docstring.value = markdown(obj.docstring.value, names | set(obj.members))


def markdown(text: str, names: Collection[str]) -> str:
    r"""A docstring as Markdown. names: those that a line ``name: meaning`` may explain.

    >>> print(markdown("Run it, see :meth:`qoop.query.job.Job.wait`.\n\nslots: tasks at a time.", {"slots"}))
    Run it, see `qoop.query.job.Job.wait`.
    <BLANKLINE>
    - **`slots`**: tasks at a time.
    """
    return "\n\n".join(_block(block, names) for block in re.split(r"\n\s*\n", text.strip("\n")))


def _block(block: str, names: Collection[str]) -> str:
    lines = block.split("\n")
    if lines[0].lstrip().startswith(">>>"):
        return "```python\n" + dedent(block) + "\n```"
    if _RULE.fullmatch(lines[0]):
        return _table(lines)
    if all(line.startswith("    ") for line in lines):
        return block
    return _inline(_explained(lines, names))


def _explained(lines: list[str], names: Collection[str]) -> str:
    """The text before the first line that says what a name means, and from there on a list.

    >>> print(_explained(["A move.", "at: in", "  seconds. old, new: slots. Note: few."], {"at", "old", "new"}))
    A move.
    <BLANKLINE>
    - **`at`**: in seconds.
    - **`old`, `new`**: slots. Note: few.
    """
    starts = [place for place, line in enumerate(lines) if any(found.start() == 0 for found in _found(line, names))]
    if not starts:
        return "\n".join(lines)
    before, text = lines[: starts[0]], " ".join(line.strip() for line in lines[starts[0] :])
    cuts = [found.start() for found in _found(text, names)]
    items = [_item(text[begin:end].rstrip()) for begin, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]
    return "\n".join([*before, "", *items] if before else items)


def _found(text: str, names: Collection[str]) -> list[re.Match[str]]:
    """The places at which a text, or a sentence in it, begins with names and a colon."""
    found = [one for one in _MEANING.finditer(text) if set(one[1].split(", ")) <= set(names)]
    return [one for one in found if one.start() == 0 or text[: one.start()].endswith((". ", "; "))]


def _item(sentence: str) -> str:
    called, _, meaning = sentence.partition(": ")
    return f"- **{', '.join(f'`{name}`' for name in called.split(', '))}**: {meaning}"


def _inline(text: str) -> str:
    text = re.sub(r"(?m)^::$\n?", "", text)
    text = re.sub(r"(?m)::$", ":", text)
    text = re.sub(r"(\d)\*\*(\d)", r"\1\\*\\*\2", text)
    return _CODE.sub(r"`\1`", _ROLE.sub(lambda found: f"`{found[1]}`", text))


def _table(lines: list[str]) -> str:
    """A table of reStructuredText, whose columns begin where they do in its first line."""
    begins = [found.start() for found in re.finditer("=+", lines[0])]
    columns = list(zip(begins, [*begins[1:], None], strict=True))
    rows = [line for line in lines if not _RULE.fullmatch(line)]
    cells = [[_inline(line[begin:end].strip().replace("\\-", "")) for begin, end in columns] for line in rows]
    head, *body = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([head, "|" + " --- |" * len(columns), *body])
