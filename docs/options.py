"""The table of options in docs/configure.md, made from :mod:`qoop.query.options`: ``python docs/options.py`` writes
it."""

from __future__ import annotations

import re
from pathlib import Path

from qoop.query.options import OPTIONS, VARIABLES, SessionOption

PAGE = Path(__file__).parent / "configure.md"
_TABLE = re.compile(r"(?<=<!-- made by docs/options.py -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)


def table() -> str:
    """All options and what only the environment sets, as Markdown."""
    head = [("option", "environment", "elsewhere", "default"), ("---",) * 4]
    options = [(f"`{one.name}`", _variable(one), _elsewhere(one), one.default) for one in OPTIONS]
    variables = [("", f"`{name}`", "", default) for name, default in VARIABLES.items()]
    return "\n".join(
        f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in row)}|" for row in [*head, *options, *variables]
    )


def _variable(option: SessionOption) -> str:
    return f"`{option.variable}`" if option.text else ""


def _elsewhere(option: SessionOption) -> str:
    found = []
    if not option.argument:
        found.append("no argument of `connect`")
    if not option.text:
        found.append("an argument only")
    if option.flag is not None:
        found.append(f"`--{option.name.replace('_', '-')}{f' {option.flag.metavar}' if option.flag.metavar else ''}`")
    if option.settable:
        found.append("`SET`")
    return ", ".join(found)


def written(page: str) -> str:
    """The page with the table as it has to be."""
    return _TABLE.sub(lambda _: table(), page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
